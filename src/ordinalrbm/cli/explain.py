"""``ordinalrbm explain`` and ``similar``: why an item is expected to be liked, and what is like it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import option, refuse
from ordinalrbm.cli.output import frame_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_EXPLAIN = """\b
Example:
  ordinalrbm explain films.orbm --user 17 --item 101 --item-names titles.csv"""
_SIMILAR = """\b
Examples:
  ordinalrbm similar films.orbm --item 101 -n 5
  ordinalrbm similar films.orbm --user 17 --by taste
  ordinalrbm similar survey.orbm --item q1"""
_Number = Annotated[int, option("N", "How many to show.", "-n", "--number", min=1)]
_BY = "Ratings: whether the same users choose them, or the same users like them."


By = StrEnum("By", "DEMAND TASTE")


@app.command(epilog=_EXPLAIN)
def explain(
    model: options.ModelFile,
    *,
    user: Annotated[str, option("ID", "The user.")],
    item: Annotated[str, option("ID", "The item.")],
    number: _Number = 5,
    item_names: options.ItemNamesOption = None,
    telling: options.Telling,
) -> None:
    """Explain why a user is expected to rate an item as high or low.

    Shows the expected rating, and those of the user's ratings that move it most, up or down.
    """
    inputs.check_files(model)
    fitted, named = inputs.load_for(model, "ratings"), inputs.titles_table(item_names)
    who, what = inputs.known_id(fitted, user, "user"), inputs.known_id(fitted, item, "item")
    titles = inputs.item_titles(fitted, named)
    found = fitted.explain(who, what, n=number)
    reasons = _titled(found.ratings, titles)
    called = f"{titles[what]} ({what})" if what in titles else str(what)
    text = f"{who} is expected to rate {called} {found.expected:.2f}"
    if found.baseline == found.baseline:
        text += f" ({found.baseline:.2f} for a user without ratings)"
    about: dict[str, Any] = {"user": who, "item": what, "title": titles.get(what), "expected": found.expected}
    about |= {"baseline": found.baseline, "ratings": reasons.to_dict("records")}
    table = frame_table(reasons, {"effect": "+.3f"})
    telling.output().result(about, table, text=f"{text}. The effect is what a rating adds.")


@app.command(epilog=_SIMILAR)
def similar(
    ctx: typer.Context,
    model: options.ModelFile,
    *,
    item: Annotated[str | None, option("ID", "The item; of a survey, the question.")] = None,
    user: Annotated[str | None, option("ID", "Or the user.")] = None,
    number: _Number = 10,
    by: Annotated[By, typer.Option(help=_BY)] = By.DEMAND,
    item_names: options.ItemNamesOption = None,
    telling: options.Telling,
) -> None:
    """Show the items, users or questions that are most alike.

    Of a survey, the questions whose answers go together with those to a question, by the
    correlations that the model implies.
    """
    inputs.check_files(model)
    if (item is None) == (user is None):
        raise DataError("Nothing says what to compare with; give either --item or --user.")
    fitted = orbm.load(model)
    if isinstance(fitted, orbm.CumulativeRBM):
        refuse(ctx, ("user", "by", "item_names"), f"'{model}' is a model of a survey")
        found = _questions_like(fitted, str(item), number)
    else:
        what: Literal["user", "item"] = "item" if user is None else "user"
        label = inputs.known_id(fitted, str(item if user is None else user), what)
        find = fitted.similar_items if what == "item" else fitted.similar_users
        titles = inputs.item_titles(fitted, inputs.titles_table(item_names))
        found = _titled(find(label, number, by=by.value), titles)
    table = frame_table(found, dict.fromkeys(("similarity", "correlation"), "+.2f"))
    telling.output().result({"similar": found.to_dict("records")}, table)


def _titled(table: pd.DataFrame, titles: dict[Any, str]) -> pd.DataFrame:
    if titles and "item" in table:
        table.insert(1, "title", table["item"].map(titles).fillna(""))
    return table


def _questions_like(model: orbm.CumulativeRBM, question: str, number: int) -> pd.DataFrame:
    import pandas as pd

    from ordinalrbm.schema.schema import did_you_mean

    reading = model.factor_solution(rotation="none")
    loadings = reading.loadings
    if question not in loadings.index:
        guess = did_you_mean(question, map(str, loadings.index))
        raise DataError(
            f"--item {question!r} is no question of the model{guess}; `ordinalrbm info` lists them."
        )
    related = (loadings @ reading.correlations @ loadings.loc[question]).drop(question)
    best = related.loc[related.abs().sort_values(ascending=False, kind="stable").index[:number]]
    texts = {"text": [reading.questions.get(name, "") for name in best.index]} if reading.questions else {}
    return pd.DataFrame({"question": best.index, **texts, "correlation": best.to_numpy()})
