"""Work that the processes of a group do together, each with some of the ratings."""

from __future__ import annotations

import pickle
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


def lopsided(run: Path) -> None:
    """A file of a model whose last process has a single rating, of an item that thousands have rated."""
    n = 4000
    many = pd.DataFrame({"user": range(n), "item": 0, "rating": 1 + np.arange(n) % 5})
    heavy = pd.DataFrame({"user": n, "item": range(1, 2001), "rating": 3})
    last = pd.DataFrame({"user": [n + 1], "item": 0, "rating": 3})
    model = orbm.OrdinalMF(2, demand_factors=2, validation_fraction=0, n_epochs=1, random_state=0)
    model.fit(part_of(pd.concat([many, heavy, last], ignore_index=True))).save(run / "lopsided.orbm")


def in_the_group(folder: Path) -> dict[str, Any]:
    """What may be done with a model where it was learnt."""
    model, some = fitted(folder), pd.read_parquet(folder)[:40]
    copied = pickle.loads(pickle.dumps(model))
    found = {
        "same": np.array_equal(copied.item_biases_, model.item_biases_),
        "scores": [model.score(some), model.score(orbm.RatingsPart(some))],
    }
    for name, pair in {"unknown item": ("ü3", 999), "unknown user": ("who", 3)}.items():
        try:
            found[name] = model.predict(*pair)
        except orbm.DataError as error:
            found[name] = str(error)
    return found


def of_large_times() -> tuple[str, bool]:
    """The kind of times of which some processes have larger ones, and whether these are later."""
    frame, group = ratings(), process_group.current()
    time = np.arange(len(frame)) * 2**30
    parts = [
        frame[::2].assign(timestamp=time[::2]),
        frame[1::2].assign(timestamp=time[1::2].astype(np.uint64) + 2**63),
    ]
    given = parts[group.rank] if group and group.rank < 2 else parts[0][: 0 if group else None]
    known, _, _, _ = read_given(orbm.RatingsPart(given), None, scale=None, item_scales=None)
    row, column, _ = known.observations.cells()
    is_late = frame.set_index(["user", "item"]).index[1::2]
    late = pd.MultiIndex.from_arrays([row, known.items.labels[column]]).isin(
        [(known.users.labels.tolist().index(user), item) for user, item in is_late]
    )
    value = known.times.value
    return known.times.clock, not group or not late.any() or bool(value[late].min() > value[~late].max())


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
    lopsided(run)
    found["large times"] = of_large_times()
    found["in the group"] = in_the_group(top / "text")
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
    "choices": ([([1, 1], [1, 2], [1, 1]), ([2], [1], [1])], {}),
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
    timed = whole.assign(timestamp=np.arange(len(whole)))
    note("times", whole if rank == 1 else timed, part_of(timed))
    note("validation", part_of(whole), whole.assign(rating=1 + rank % 2))
    note("kinds of validation", part_of(whole), None if rank == 1 else whole)
    return found


if __name__ == "__main__":
    work_as_asked(globals())
