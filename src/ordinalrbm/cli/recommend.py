"""``ordinalrbm recommend``: the best items for users."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, flag, option, out_option, refuse
from ordinalrbm.cli.output import Output, counted, frame_table
from ordinalrbm.errors import DataError

if TYPE_CHECKING:
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
