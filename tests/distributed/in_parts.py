"""Work that the processes of a group do together, each with some of the ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from in_a_group import ratings, work_as_asked

import ordinalrbm as orbm
from ordinalrbm.data.ratings import read_given, times_of_cells
from ordinalrbm.matrix.prepare import prepare
from ordinalrbm.runtime import process_group

SETTINGS: dict[str, Any] = {"n_epochs": 4, "random_state": 0}


# ---- ratings in folders -------------------------------------------------------------------------


def write_folders(top: Path) -> None:
    """Ratings with ids that are text in files of unequal length, and with numbers in one file.

    No file has all ratings of the scale, and one user is in every file. The ratings with numbers
    are one row group, so that all processes but one have none of them. Those with text have dates, but
    for one file, and the others numbers.
    """
    frame = ratings()
    frame["user"] = np.where(frame.index % 9 == 0, 0, frame["user"])
    frame = frame.drop_duplicates(["user", "item"]).sort_values("rating", kind="stable")
    frame["timestamp"] = np.random.default_rng(2).permutation(len(frame)) // 3
    text = frame.assign(user="ü" + frame["user"].astype(str), rating=frame["rating"] / 2)
    text["timestamp"] = pd.to_datetime(text["timestamp"], unit="D")
    (top / "text").mkdir()
    cuts = [0, 1, 150, 170, len(text)]
    for k in range(4):
        file = top / "text" / f"{k}.parquet"
        some = text.iloc[cuts[k] : cuts[k + 1]]
        some = some.drop(columns="timestamp") if k == 2 else some
        some.to_parquet(file, row_group_size=100, index=False)
    (top / "numbers" / "year=2020").mkdir(parents=True)
    numbers = frame.assign(user=frame["user"] * 3 - 5)
    numbers.to_parquet(top / "numbers" / "year=2020" / "a.parquet", index=False)


def validation(folder: Path) -> pd.DataFrame:
    """Pairs that nobody has rated, two of them with an unknown user or item."""
    known = pd.read_parquet(folder)
    rated = pd.MultiIndex.from_frame(known[["user", "item"]])
    pairs = pd.MultiIndex.from_product([known["user"].unique(), known["item"].unique()])
    some = pairs[~pairs.isin(rated)][::7].to_frame(index=False, name=["user", "item"])
    some["rating"] = known["rating"].to_numpy()[: len(some)]
    some["timestamp"] = known["timestamp"].to_numpy()[: len(some)]
    some.loc[3, "item"], some.loc[4, "user"] = 999, known["user"].max() + known["user"].max()
    return some


def part_of(frame: pd.DataFrame) -> orbm.RatingsPart:
    """Every so manyth row."""
    group = process_group.current()
    return orbm.RatingsPart(frame.iloc[group.rank :: group.size] if group else frame)


# ---- work ---------------------------------------------------------------------------------------


def error_of_saving(model: orbm.OrdinalMF, path: Path) -> str:
    try:
        model.save(path)
    except orbm.DataError as error:
        return str(error)
    return ""


def arranged(folder: Path, given: Any = None) -> dict[str, Any]:
    """What is held out, and the own rows in their order."""
    part = orbm.RatingsPart.from_parquet(folder)
    known, validation, among, _ = read_given(part, given, scale=None, item_scales=None)
    data = prepare(known, validation, 0.05, 3, among)
    time = None if given is None else times_of_cells(known, given)
    data = data.with_times(known, validation, time, among)
    seen = getattr(data.observations, "own", data.observations)
    return {
        "held out": tuple(data.validation),
        "positions": (data.row_position, data.column_position),
        "rows": (seen.row_counts, seen.column, seen.level),
        "counts": (data.observations.row_counts, data.observations.column_counts),
        "of levels": data.observations.level_counts(5),
        "n read": known.n_ratings,
        "times": data.times,
        "clock": known.times.clock,
    }


def fitted(folder: Path, given: Any = None, refit: str = "held-out", **more: Any) -> orbm.OrdinalMF:
    part = orbm.RatingsPart.from_parquet(folder)
    return orbm.OrdinalMF(4, refit=refit, **SETTINGS).fit(part, given, **more)


def about(model: orbm.OrdinalMF) -> dict[str, Any]:
    """What every process has of a model, and what it says when asked for what others have."""
    users, items = np.divmod(np.arange(60 * 30), 30)
    found = {
        "users": model.users_.labels,
        "items": model.items_.labels,
        "scale": model.scales_.labels,
        "history": model.history_["validation"].to_numpy(),
        "model": model.model_,
        "predictions": model.predict_proba(
            np.append(model.users_.labels, model.users_.labels[0])[users % 51 % len(model.users_)],
            model.items_.labels[items % len(model.items_)],
        ),
    }
    try:
        found["seen"] = model.recommend("all", n=2)
    except orbm.DataError as error:
        found["seen"] = str(error)
    return found


def with_wide_levels(run: Path) -> None:
    """A file with levels that take two bytes each."""
    model = orbm.OrdinalMF(2, n_epochs=1, random_state=0, scale=list(range(200)))
    model.fit(part_of(ratings())).save(run / "wide.orbm")


def scales_of_items() -> list[Any]:
    """The ratings 7 and 8 are given to an item that has a scale of its own, and to no other."""
    frame = ratings()
    frame.loc[frame["item"] == 3, "rating"] += 3
    known, _, _, _ = read_given(part_of(frame), None, scale=None, item_scales={3: list(range(4, 10))})
    return [known.default_scale.labels, *(known.scale_of(item).labels for item in (2, 3))]


def all_works(run: Path) -> dict[str, Any]:
    """Everything in one start, because starting takes longer than all of it."""
    top = run.parent
    found: dict[str, Any] = {}
    for name in ("text", "numbers"):
        folder = top / name
        given = validation(folder)
        found[f"{name}, arranged"] = arranged(folder)
        found[f"{name}, validation, arranged"] = arranged(folder, given)
        model = fitted(folder)
        found[name] = about(model)
        found[f"{name}, validation"] = about(fitted(folder, given))
        model.save(run / f"{name}.orbm")
        found[f"{name}, not written"] = error_of_saving(model, run / "no folder" / "any.orbm")
    found["validation in parts"] = about(fitted(top / "text", part_of(validation(top / "text"))))
    found["going on"] = about(fitted(top / "text", refit="none", checkpoint=top / "kept"))
    with_wide_levels(run)
    found["scales"] = scales_of_items()
    found["errors"] = errors(process_group.current())
    return found


WRONG: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "repeated": ([(["a", "b"], [1, 1], [3, 4]), (["c", "a"], [1, 1], [5, 2])], {}),
    "off scale": ([([1], [1], [3]), ([1, 2], [2, 2], [1, 9])], {"scale": [1, 2, 3]}),
    "missing id": ([([1.0], [1], [3]), ([1, None], [2, 3], [1, 2])], {}),
    "missing column": ([pd.DataFrame({"user": [1], "item": [1]}), ([1], [1], [3])], {}),
    "mixed ids": ([([1], [1], [3]), (["x"], [2], [4])], {}),
    "mixed items": ([([1], ["x"], [3]), ([2], [1], [4])], {}),
    "text": ([([1], [1], ["good"]), ([1], [2], ["bad"])], {}),
    "orders": (
        [
            ([1], [1], pd.Categorical(["x"], ["x", "y"], ordered=True)),
            ([1], [2], pd.Categorical(["x"], ["y", "x"], ordered=True)),
        ],
        {},
    ),
    "nothing": ([([], [], []), ([], [], [])], {}),
    "type": ([{1: 2}, ([1], [2], [3])], {}),
}


def errors(group: process_group.Group | None) -> dict[str, Any]:
    """What is said of wrong ratings; those who are not among the first two have none."""
    rank, found = 2 if group is None else group.rank, {}

    def note(name: str, *given: Any, **settings: Any) -> None:
        model = orbm.OrdinalMF(2, n_epochs=1, random_state=0, **settings)
        try:
            model.fit(*given)
        except orbm.DataError as error:
            found[name] = (type(error).__name__, str(error))

    for name, (given, settings) in WRONG.items():
        note(name, orbm.RatingsPart(given[rank] if rank < 2 else ([], [], [])), **settings)
    whole = ratings()
    note("kinds", whole if rank == 1 else part_of(whole))
    note("validation", part_of(whole), whole.assign(rating=1 + rank % 2))
    note("kinds of validation", part_of(whole), None if rank == 1 else whole)
    return found


if __name__ == "__main__":
    work_as_asked(globals())
