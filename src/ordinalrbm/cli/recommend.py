"""What a model of ratings is asked: ``recommend``, ``explain``, ``similar``, ``forget``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, flag, option, out_option, refuse
from ordinalrbm.cli.output import Output, counted, frame_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from ordinalrbm.estimators.ratings import RatingModel

_EXAMPLES = """\b
Examples:
  ordinalrbm recommend films.orbm --users all -n 10 -o best.parquet
  ordinalrbm recommend films.orbm --user 17 --item-names titles.csv
  ordinalrbm recommend films.orbm --users 9001 --ratings new.csv"""

_MOST_SHOWN = 50
_FORMATS = "A .csv, .tsv, .xlsx or .parquet file"
_NEW = "Ratings by new users or of new items, which are placed without retraining."
_SCORE = "Rank by demand and liking together, or one: liking, rating, demand."


Score = StrEnum("Score", "EXPECTED LIKED RATING DEMAND")


@app.command(epilog=_EXAMPLES)
def recommend(
    ctx: typer.Context,
    model: options.ModelFile,
    *,
    users: Annotated[str, option("IDS", "Ids separated by commas, or all.", "--users", "--user")] = "all",
    n: Annotated[int, option("N", "Items per user.", "-n", "--number", min=1)] = 10,
    out: Annotated[Path | None, out_option(f"{_FORMATS}; by default a table is printed.")] = None,
    ratings: Annotated[Path | None, option("DATA", _NEW)] = None,
    columns: RatingColumns,
    score: Annotated[Score, typer.Option(help=_SCORE)] = Score.EXPECTED,
    liked: Annotated[str | None, option("LABEL", "The lowest rating that counts as liked.")] = None,
    item_names: options.ItemNamesOption = None,
    seen: Annotated[bool, flag("--seen", "Also items that the user has rated.")] = False,
    threads: options.ThreadsOption = None,
    writing: options.Writing,
) -> None:
    """Recommend items to users.

    The best are those that the user is likely to choose and to like, and has not rated yet.
    Unknown users get what is popular and liked; --ratings tells what new users like.
    """
    inputs.check_files(model, ratings, out=out)
    output = writing.begin(ctx, out)
    from ordinalrbm.files.writing import write_table

    fitted = inputs.load_for(model, "ratings").set_params(n_jobs=threads)
    if ratings is not None:
        fitted = _with_newcomers(fitted, ratings, columns, output)
    else:
        refuse(ctx, options.COLUMN_OPTIONS, "no ratings are read without --ratings")
    titles = inputs.item_titles(fitted, inputs.titles_table(item_names))
    lowest = None if liked is None else inputs.lowest_liked_of(liked, fitted.ratings_)
    best = fitted.recommend(
        _asked(users, fitted, output), n=n, score=score.value, liked=lowest, exclude_seen=not seen
    )
    if titles:
        best.insert(2, "title", best["item"].map(titles).fillna(""))
    if out is not None:
        write_table(out, best, writing.escape_formulas)
        output.result(
            {"out": str(out), "lines": len(best)}, text=f"{len(best):,} recommendations are in {out}."
        )
        return
    shown = ["user", "item", *(["title"] if titles else []), "rank", "score"]
    table = frame_table(best[shown].head(_MOST_SHOWN), {"rank": "d", "score": ".2f"})
    rest = len(best) - _MOST_SHOWN
    more = f"... and {rest:,} more; write all of them with --out." if rest > 0 else ""
    output.result({"recommendations": best.to_dict("records")}, table, text=more)


def _with_newcomers(model: Any, path: Path, columns: RatingColumns, output: Output) -> RatingModel:
    from ordinalrbm.files.ratings import checked_ratings, read_source

    layout = columns.known_to(model)
    new = inputs.with_known_ids(model, checked_ratings(read_source(path, layout), layout))
    wider = model.fold_in(new[["user", "item", "rating"]])
    n_users = len(wider.users_) - len(model.users_)
    n_items = len(wider.items_) - len(model.items_)
    output.say(f"Placed {counted(n_users, 'new user')} and {counted(n_items, 'new item')}.")
    return wider


def _asked(users: str, model: RatingModel, output: Output) -> Any:
    if users == "all":
        return "all"
    ids = [part.strip() for part in users.split(",") if part.strip()]
    if not ids:
        raise DataError("--users names nobody; give ids with commas between them, or all.")
    found = inputs.ids_of(model, ids)
    known = set(model.users_.labels.tolist())
    cold = [one for one in found if one not in known]
    if cold:
        output.say(
            f"Not known, so they get what the average user would like: "
            f"{', '.join(map(str, cold[:10]))}{' ...' if len(cold) > 10 else ''}."
        )
    return found


# ---- why, and what is alike -------------------------------------------------------------------

_EXPLAIN = """\b
Example:
  ordinalrbm explain films.orbm --user 17 --item 101 --item-names titles.csv"""
_SIMILAR = """\b
Examples:
  ordinalrbm similar films.orbm --item 101 -n 5
  ordinalrbm similar films.orbm --user 17 --by taste"""
_Number = Annotated[int, option("N", "How many to show.", "-n", "--number", min=1)]
_BY = "Whether the same users choose them, or the same users like them."


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
    model: options.ModelFile,
    *,
    item: Annotated[str | None, option("ID", "The item.")] = None,
    user: Annotated[str | None, option("ID", "Or the user.")] = None,
    number: _Number = 10,
    by: Annotated[By, typer.Option(help=_BY)] = By.DEMAND,
    item_names: options.ItemNamesOption = None,
    telling: options.Telling,
) -> None:
    """Show the items or users that are most alike."""
    inputs.check_files(model)
    if (item is None) == (user is None):
        raise DataError("Nothing says what to compare with; give either --item or --user.")
    fitted = inputs.load_for(model, "ratings")
    what: Literal["user", "item"] = "item" if user is None else "user"
    label = inputs.known_id(fitted, str(item if user is None else user), what)
    find = fitted.similar_items if what == "item" else fitted.similar_users
    titles = inputs.item_titles(fitted, inputs.titles_table(item_names))
    found = _titled(find(label, number, by=by.value), titles)
    table = frame_table(found, {"similarity": "+.2f"})
    telling.output().result({"similar": found.to_dict("records")}, table)


def _titled(table: pd.DataFrame, titles: dict[Any, str]) -> pd.DataFrame:
    if titles and "item" in table:
        table.insert(1, "title", table["item"].map(titles).fillna(""))
    return table


# ---- forgetting -------------------------------------------------------------------------------

_FORGET = """\b
Examples:
  ordinalrbm forget films.orbm --users 17,23
  ordinalrbm forget films.orbm --items 101 -o fewer.orbm"""
_IDS = "Ids separated by commas."


@app.command(epilog=_FORGET)
def forget(
    model: options.ModelFile,
    *,
    users: Annotated[str | None, option("IDS", _IDS, "--users", "--user")] = None,
    items: Annotated[str | None, option("IDS", _IDS, "--items", "--item")] = None,
    out: Annotated[Path | None, out_option("Another file for the model; by default its own.")] = None,
    telling: options.Telling,
) -> None:
    """Forget users or items, with all that is known of them.

    The model takes the place of the one in the file, as a whole, unless --out names another.
    """
    inputs.check_files(model)
    fitted = inputs.load_for(model, "ratings")
    every: dict[Literal["user", "item"], str | None] = {"user": users, "item": items}
    given = {what: ids for what, ids in every.items() if ids is not None}
    if not given:
        raise DataError("There is nothing to forget; give --users or --items.")
    known = {
        what: [inputs.known_id(fitted, one.strip(), what) for one in ids.split(",") if one.strip()]
        for what, ids in given.items()
    }
    fitted.forget(known.get("user"), known.get("item"))
    target = out or model
    fitted.save(target)
    counts = {what: len(set(ids)) for what, ids in known.items()}
    said = " and ".join(counted(n, what) for what, n in counts.items())
    found = {"out": str(target), "forgotten": counts, "ratings": fitted.ratings_.n_ratings}
    telling.output().result(
        found, text=f"Forgot {said}; {target} has {found['ratings']:,} ratings of others."
    )
