"""Whatever file is read: a refusal in one sentence that names it, or all that stood in it."""

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from answer_tables import frames
from fuzzing import TALLIES, case, cases, told
from hypothesis import given
from hypothesis import strategies as st
from text_files import TextFile, schema_texts, text_files

from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.files.delimited import EMPTY_NUMBERS
from ordinalrbm.files.formats import Source, from_frame, read
from ordinalrbm.files.ratings import is_ratings, ratings_of
from ordinalrbm.files.survey import OF_PEOPLE, Survey, apply, read_survey
from ordinalrbm.files.writing import write_answers
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.toml import to_toml

FOLDER = Path(tempfile.mkdtemp())


def stored(file: TextFile) -> Path:
    path = FOLDER / f"made-up{file.ending}"
    path.write_bytes(file.content)
    return path


@given(text_files())
@cases(30)
def test_reading_any_text_file(file: TextFile) -> None:
    with case("survey files"):
        source, _ = told(read, stored(file))
        if not file.damaged:
            assert_every_cell_is_there(source, file)
        survey, _ = told(read_survey, stored(file))
        assert survey.notes[: len(source.remarks)] == source.remarks
        assert_nothing_is_lost(survey, source)


@given(st.booleans().flatmap(frames))
@cases(15)
def test_reading_any_frame_as_a_survey(frame: pd.DataFrame) -> None:
    with case("survey frames"):
        source, _ = told(from_frame, frame)
        assert_nothing_is_lost(told(read_survey, frame)[0], source)


@given(text_files(ratings=True))
@cases(15)
def test_reading_any_file_of_ratings(file: TextFile) -> None:
    with case("rating files"):
        source, _ = told(read, stored(file))
        if file.damaged and not is_ratings(source):
            return
        ratings, _ = told(ratings_of, source)
        assert len(ratings) == len(source.frame)
        if not file.damaged:
            assert len(ratings) == len(file.rows)
        assert told(read_ratings, ratings)[0].n_ratings == len(ratings)


def assert_every_cell_is_there(source: Source, file: TextFile) -> None:
    assert source.frame.shape == (len(file.rows), len(file.names))
    for k, name in enumerate(file.names):
        assert source.frame.columns[k] == (name.strip() or f"column {k + 1}")
        for cell, row in zip(source.frame.iloc[:, k].tolist(), file.rows, strict=True):
            text = row[k].strip()
            if text in EMPTY_NUMBERS and pd.isna(cell):
                assert any(repr(source.frame.columns[k]) in remark for remark in source.remarks)
            else:
                assert _same(cell, text, file.delimiter), f"{name!r}: {text!r} is {cell!r}"


def _same(cell: Any, text: str, delimiter: str) -> bool:
    if pd.isna(cell):
        return text == "" or math.isnan(float(text))
    if isinstance(cell, str):
        return cell == text
    if isinstance(cell, int):
        return cell == int(text)
    return cell == float(text.replace(",", ".") if delimiter == ";" else text)


def assert_nothing_is_lost(survey: Survey, source: Source) -> None:
    """Every cell is an answer, background, a weight or an id, or is counted as left out."""
    frame, columns = source.frame, {column.name: column for column in survey.schema.columns}
    assert set(columns) >= set(frame.columns)
    assert len(survey.answers) == len(survey.background) == len(frame)
    for name in frame.columns:
        role = columns[name].role
        if role == "ignored":
            assert any(left.what == f"Column {name!r}" and left.why for left in survey.left_out)
            continue
        told_out = sum(left.count for left in survey.left_out if left.what.startswith(f"Column {name!r}, "))
        there = sum(not pd.isna(v) and str(v).strip() != "" for v in frame[name])
        if role in ("ordinal", *OF_PEOPLE):
            table = survey.answers if role == "ordinal" else survey.background
            assert table[name].notna().sum() + told_out == there, (name, role)
        else:
            kept = survey.weight if role == "weight" else survey.ids
            assert kept is not None and kept.notna().sum() == frame[name].notna().sum()
    silent = int(survey.answers.isna().all(axis=1).sum())
    told_silent = [note for note in survey.notes if "no answer to any question" in note]
    assert told_silent == [] if not silent else told_silent[0].startswith(f"{silent:,} row")


# ---- schemas ------------------------------------------------------------------------------------

PUPILS = pd.DataFrame(
    {
        "Q1": ["never", "sometimes", "often", None, "n/a", "often"],
        "a.b c": [1, 2, 3, 99, None, 2],
        "Stärke": [3.0, 2, 1, 1, 2, np.nan],
        "sex": ["f", "m", "f", "m", "f", "m"],
        "w": [0.5, 1.5, 1, 1, 0, 2],
    }
)
PROPOSED = to_toml(propose(from_frame(PUPILS)))


@given(schema_texts(PROPOSED, list(PUPILS.columns)))
@cases(20)
def test_any_schema_file(text: str) -> None:
    path = FOLDER / "schema.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with case("schema files"):
        survey, _ = told(read_survey, PUPILS, path)
        assert_nothing_is_lost(survey, from_frame(PUPILS))


# ---- round trips --------------------------------------------------------------------------------


@st.composite
def plain_frames(draw: Any) -> pd.DataFrame:
    """Tables that every format can hold: whole numbers, fractions and text, some missing."""
    n = draw(st.integers(2, 6))
    letters = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf"])
    kinds = {
        "whole": st.integers(-100, 100).map(float),
        "fraction": st.floats(-1e6, 1e6, allow_nan=False),
        "far": st.integers(-(2**40), 2**40).map(float),
    }
    levels = st.sampled_from([1.0, 2.0, 3.0, np.nan])
    frame = {"q": [1.0, 2.0, *draw(st.lists(levels, min_size=n - 2, max_size=n - 2))]}
    for name, values in kinds.items():
        if draw(st.booleans()):
            cells = st.one_of(values, values, st.just(np.nan))
            frame[name] = draw(st.lists(cells, min_size=n, max_size=n))
    if draw(st.booleans()):
        frame["text"] = draw(
            st.lists(st.text(letters, min_size=1, max_size=5).map("t{}".format), min_size=n, max_size=n)
        )
    return pd.DataFrame(frame)


@given(plain_frames(), st.sampled_from([".csv", ".tsv.gz", ".parquet", ".sav", ".zsav", ".dta"]))
@cases(15)
def test_what_is_written_reads_equal(frame: pd.DataFrame, ending: str) -> None:
    with case("round trips"):
        source = from_frame(frame)
        schema = propose(source)
        survey = apply(source, schema)
        path = FOLDER / f"again{ending}"
        told(write_answers, path, survey, source, schema)
        again, _ = told(read, path)
        assert list(again.frame.columns) == list(frame.columns)
        for name in frame.columns:
            for before, after in zip(frame[name], again.frame[name].tolist(), strict=True):
                assert (pd.isna(before) and pd.isna(after)) or before == after, (name, before, after)


def test_enough_was_legal_and_enough_refused() -> None:
    for name in ("survey files", "rating files", "schema files"):
        tally = TALLIES[name]
        assert tally.legal >= 0.15 * tally.cases, name
        assert tally.refused >= 0.1 * tally.cases, name
