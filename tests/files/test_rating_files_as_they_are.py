"""Files of ratings read in Python: columns, scales, repeats, times, tables beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.ratings import (
    Layout,
    is_ratings,
    latest_of_each,
    pairs_of,
    read_rating_file,
    read_side_table,
    refuse_likely_ratings,
)
from ordinalrbm.schema.infer import propose


def written(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_ids_and_times_of_a_csv_file(tmp_path: Path) -> None:
    text = 'reviewerID,asin,overall,date\n007,"a, ""b""",5,2024-05-01T12:00:00Z\n1,0x1F,4,2024-05-01\n'
    table = read_rating_file(written(tmp_path, text))
    assert table["user"].tolist() == ["007", "1"]
    assert table["item"].tolist() == ['a, "b"', "0x1F"]
    assert table["timestamp"].tolist() == [
        pd.Timestamp("2024-05-01 12:00", tz="UTC"),
        pd.Timestamp("2024-05-01", tz="UTC"),
    ]


def test_columns_and_scale_are_said(tmp_path: Path) -> None:
    file = written(tmp_path, "a,b,c,d\n1,x,good,9\n2,y,bad,8\n")
    table = read_rating_file(file, user="a", item="b", rating="c", time="d", scale=["bad", "good"])
    assert table.to_numpy().tolist() == [[1, "x", "good", 9], [2, "y", "bad", 8]]
    for said, sentence in (
        ({}, "no column 'user'.* say which it is with user='COLUMN'"),
        ({"user": "a", "item": "b"}, "no column 'rating'"),
        ({"user": "a", "item": "b", "rating": "c"}, r"row 0 .*'good' is no number; .*order with scale="),
        ({"user": "a", "item": "b", "rating": "c", "scale": ["bad"]}, "row 0 .*'good' is not on"),
        ({"user": "a", "item": "a", "rating": "c"}, "'a' cannot be the user and the item"),
    ):
        with pytest.raises(DataError, match=sentence):
            read_rating_file(file, **said)  # type: ignore[arg-type]


def test_two_times_matter_only_where_times_are_read(tmp_path: Path) -> None:
    file = written(tmp_path, "user,item,rating,date,created_at\n1,2,3,2024-05-01,2024-05-02\n")
    with pytest.raises(DataError, match=r"'date' and 'created_at' could both be .*time='date'"):
        read_rating_file(file)
    assert read_rating_file(file, time="created_at")["timestamp"][0].day == 2


def test_pairs_may_be_named(tmp_path: Path) -> None:
    source = read(written(tmp_path, "a,b\n1,2\n"))
    assert pairs_of(source, Layout({"user": "b", "item": "a"})).to_numpy().tolist() == [[2, 1]]
    gap = read(written(tmp_path, "user,item\n1,2\n,3\n"))
    with pytest.raises(DataError, match=r"column 'user', row 1 .*: the user is missing"):
        pairs_of(gap)


# ---- repeats ----------------------------------------------------------------------------------


def slow_repeats(ratings: pd.DataFrame, times: np.ndarray | None) -> dict[int, float]:
    """By loops: of each pair its rows, and the latest of them."""
    rows: dict[tuple, list[int]] = {}
    for row, (user, item) in enumerate(zip(ratings["user"], ratings["item"], strict=True)):
        rows.setdefault((user, item), []).append(row)
    latest = [
        max(of_pair, key=lambda row: (0 if times is None else times[row], row)) for of_pair in rows.values()
    ]
    return {row: ratings["rating"][row] for row in sorted(latest)}


@pytest.mark.parametrize("has_times", [True, False])
def test_repeats_against_loops(has_times: bool) -> None:
    rng = np.random.default_rng(4)
    ratings = pd.DataFrame(
        {
            "user": rng.choice(["u", "v", "w"], 60),
            "item": rng.integers(0, 6, 60),
            "rating": rng.choice([0.5, 1.0, 2.0, 5.0], 60),
        }
    )
    times = rng.integers(0, 9, 60) if has_times else None
    latest = latest_of_each(ratings, times)["rating"]
    assert latest.to_dict() == slow_repeats(ratings, times) and latest.index.is_monotonic_increasing


# ---- ratings or a survey ------------------------------------------------------------------------


def cells(n_users: int, n_items: int, share: float = 0.6) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.flatnonzero(rng.random(n_users * n_items) < share), n_items)
    return pd.DataFrame({"a": user + 1000, "b": item + 50, "c": rng.integers(1, 6, len(user))})


def looks_like_ratings(frame: pd.DataFrame) -> bool:
    source = from_frame(frame)
    try:
        refuse_likely_ratings(source, propose(source), Layout())
    except DataError:
        return True
    return False


def test_ratings_under_other_names_are_refused_as_surveys() -> None:
    frame = cells(40, 25)
    assert looks_like_ratings(frame) and looks_like_ratings(frame[["c", "b", "a"]])
    assert looks_like_ratings(frame.assign(a="k" + frame["a"].astype(str), c=frame["c"] / 2))
    assert looks_like_ratings(frame.assign(c=frame.index % 101))


def test_surveys_are_not_refused_as_ratings() -> None:
    frame = cells(40, 25)
    assert not looks_like_ratings(frame.assign(a=np.arange(len(frame))))  # a respondent in every row
    assert not looks_like_ratings(frame.assign(b=7))
    assert not looks_like_ratings(frame.assign(**{f"q{k}": (frame["c"] + k) % 5 for k in range(4)}))


def test_names_that_may_mean_anything_are_not_taken() -> None:
    frame = cells(3, 4)
    for names in (("id", "name", "value"), ("user", "title", "rating"), ("user", "item", "value")):
        assert not is_ratings(from_frame(frame.set_axis(list(names), axis=1)))


# ---- tables beside ratings ----------------------------------------------------------------------


def test_labels_of_codes_are_what_a_table_tells(tmp_path: Path) -> None:
    import pyreadstat

    frame = pd.DataFrame({"person": [1.0, 2.0, 3.0], "sex": [1.0, 2.0, 1.0], "age": [20.0, 30, 40]})
    pyreadstat.write_sav(
        frame, tmp_path / "p.sav", variable_value_labels={"sex": {1: "f", 2: "m"}, "age": {20: "x"}}
    )
    table = read_side_table(tmp_path / "p.sav", "user", pd.Series([1, 2, 3]))
    assert table["user"].tolist() == [1, 2, 3]
    assert table["sex"].tolist() == ["f", "m", "f"] and table["age"].tolist() == [20, 30, 40]


def test_cells_with_bars_are_lists_of_categories(tmp_path: Path) -> None:
    file = written(tmp_path, "user,likes,town\na|1,tea|rum,x\nb,,y\nc,tea,\n")
    table = read_side_table(file, "user", pd.Series(["a|1"]))
    assert table["user"].tolist() == ["a|1", "b", "c"]
    assert table["likes"].dropna().tolist() == [["tea", "rum"], ["tea"]]
    assert table["town"].dropna().tolist() == ["x", "y"]


def test_a_table_with_two_columns_of_ids_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "wer,user,age\n1,2,3\n")
    with pytest.raises(DataError, match="'wer' and 'user', which both look like ids"):
        read_side_table(file, "user", pd.Series([1]), Layout({"user": "wer"}))
