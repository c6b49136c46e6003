"""``ordinalrbm forget``: users and items of which nothing is to be left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import option, out_option
from ordinalrbm.cli.output import counted
from ordinalrbm.errors import DataError

_EXAMPLES = """\b
Examples:
  ordinalrbm forget films.orbm --users 17,23
  ordinalrbm forget films.orbm --items 101 -o fewer.orbm"""
_IDS = "Ids separated by commas."


@app.command(epilog=_EXAMPLES)
def forget(
    model: options.ModelFile,
    *,
    users: Annotated[str | None, option("IDS", _IDS, "--users", "--user")] = None,
    items: Annotated[str | None, option("IDS", _IDS, "--items", "--item")] = None,
    out: Annotated[Path | None, out_option("Another file for the model; by default its own.")] = None,
    telling: options.Telling,
) -> None:
    """Forget users or items: their ids, ratings, factors and features.

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
