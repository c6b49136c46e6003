"""Columns as real files have them that were once misread, and what their siblings say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ordinalrbm.files.formats import Source, from_frame, read
from ordinalrbm.files.survey import REASONS, apply, read_survey
from ordinalrbm.files.writing import write_answers
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.schema.toml import override, to_toml

N = 240


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def labelled(columns: dict[str, Any], labels: dict[str, dict], questions: dict[str, str]) -> Source:
    return Source(None, "sav", "made up", pd.DataFrame(columns), labels, questions)


def one(values: Any, labels: dict[Any, str] | None = None, question: str = "") -> Column:
    given = {"q": labels} if labels else {}
    return propose(labelled({"q": values}, given, {"q": question})).column("q")


# ---- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.48, 1.31], {0.48: "Northern Province", 1.31: "All other provinces"}),
        ([0.5, 1.0, 2.25], None),
        ([1, 3], {1: "Northern Province", 3: "All other provinces"}),
        ([1, 2], None),
    ],
)
def test_a_weight_with_labels_or_few_values(values: list, labels: dict | None) -> None:
    question = "Weight, to correct for Northern Province oversample"
    column = one(rng().choice(values, N), labels, question)
    assert column.role == "weight" and not column.levels
    source = labelled(
        {"wt": rng().choice(values, N), "q1": rng().integers(1, 6, N)},
        {"wt": labels} if labels else {},
        {"wt": question},
    )
    survey = apply(source, propose(source))
    assert survey.weight is not None and set(survey.weight) == set(values)


@pytest.mark.parametrize(
    ("labels", "question"),
    [
        ({1: "Yes", 2: "No"}, "Sample weight was used"),
        ({1: "Too little", 2: "Right", 3: "Too much"}, "Weight of tradition in our society"),
    ],
)
def test_questions_about_weights_are_none(labels: dict, question: str) -> None:
    assert one(rng().choice(list(labels), N), labels, question).role != "weight"


# ---- labels that are no level -----------------------------------------------------------------


def test_siblings_with_the_same_labels_vote() -> None:
    """One of them is asked in words that call for kinds of things."""
    labels = {1: "Always here", 2: "Mostly here", 3: "At home", 4: "Elsewhere"}
    names = [f"Q91{letter}" for letter in "ABCDEFGH"]
    questions = dict.fromkeys(names, "How often do you get it here?")
    questions["Q91C"] = "Which kind of place do you get it from?"
    frame = pd.DataFrame({name: rng().integers(1, 5, N) for name in names})
    alone = Source(None, "sav", "x", frame[["Q91C"]], {"Q91C": labels}, questions)
    assert propose(alone).column("Q91C").role == "nominal"
    schema = propose(Source(None, "sav", "x", frame, dict.fromkeys(names, labels), questions))
    assert schema.names("ordinal") == names
    column = schema.column("Q91C")
    assert column.levels == (1, 2, 3, 4) and "same labels" in column.reason
    # One that has a code of its own is left to itself.
    frame.loc[:9, "Q91C"] = 7
    schema = propose(Source(None, "sav", "x", frame, dict.fromkeys(names, labels), questions))
    assert apply(Source(None, "sav", "x", frame, {}), schema).encoded.shape[0] == N


# ---- the middle -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "middle",
    [
        "neither agree",
        "Neither agree nor dis",
        "neither agr",
        "neither ag/dis",
        "Neithr agree",
        "Nei agree nor disag",
    ],
)
def test_neither_cut_short_stands_in_the_middle(middle: str) -> None:
    sides = ["strongly disagree", "disagree", "agree", "strongly agree"]
    labels = dict(enumerate([*sides, middle], start=1))
    assert one([1, 2, 3, 4, 5] * 40, {**labels, 9: "Don't know"}).levels == (1, 2, 5, 3, 4)
    backwards = dict(enumerate([*sides[::-1], middle], start=1))
    assert one([1, 2, 3, 4, 5] * 40, backwards).levels == (1, 2, 5, 3, 4)
    of_two = dict(
        enumerate(
            [
                "Agree very strongly with A",
                "Agree with A",
                "Agree with B",
                "Agree very strongly with B",
                middle,
            ],
            start=1,
        )
    )
    assert one([1, 2, 3, 4, 5] * 40, of_two).levels == (1, 2, 5, 3, 4)
    text = one([*sides, middle] * 40)
    assert text.role == "ordinal" and text.levels == (*sides[:2], middle, *sides[2:])


def test_neither_of_other_things_is_no_middle() -> None:
    labels = {1: "Both parents", 2: "Father only", 3: "Mother only", 4: "Neither parent"}
    assert one([1, 2, 3, 4] * 50, labels, "Who of the parents works").role == "nominal"


# ---- ticks ------------------------------------------------------------------------------------


def tick_frame(mark: Any = 1.0) -> pd.DataFrame:
    """Three media, ticked or blank; the first 40 people have skipped all of them."""
    ticked = np.random.default_rng(5).random((N, 3)) < [0.3, 0.5, 0.7]
    ticked[:40], ticked[40] = False, True
    blank = np.nan if mark == 1.0 else None
    media = {f"media_{k + 1}": np.where(ticked[:, k], mark, blank) for k in range(3)}
    return pd.DataFrame(media).assign(trust=np.random.default_rng(6).integers(1, 6, N))


@pytest.mark.parametrize("mark", [1.0, "x"])
def test_columns_of_ticks_are_questions(mark: Any) -> None:
    frame = tick_frame(mark)
    survey = read_survey(frame)
    ticked = frame.filter(like="media").notna()
    skipped = ~ticked.any(axis=1)
    assert list(survey.answers) == list(frame) and skipped.sum() >= 40
    for name in ticked:
        assert survey.schema.column(name).names == ("not ticked", "ticked")
        assert survey.answers[name].isna().equals(skipped)
        assert (survey.answers[name] == "ticked").equals(ticked[name])
        assert set(survey.reasons.loc[skipped, name]) == {"not asked"}


def test_a_tick_is_not_named_after_its_question() -> None:
    frame = tick_frame()
    labels = {name: {1: medium} for name, medium in zip(frame, ("Radio", "TV", "Papers"), strict=False)}
    asked = {"media_1": "News from: Radio", "media_2": "Where do you get your news?"}
    schema = propose(labelled(dict(frame), labels, asked))
    assert schema.column("media_1").names == ("not ticked", "ticked")
    assert schema.column("media_2").names == ("not ticked", "TV")


def test_other_columns_of_the_battery_do_not_count() -> None:
    frame = tick_frame().assign(media_other=[["a"]] * N, media_text=[f"said {k}" for k in range(N)])
    survey = read_survey(frame)
    assert survey.schema.names("ordinal") == ["media_1", "media_2", "media_3", "trust"]
    assert survey.answers["media_1"].isna().sum() >= 40


def test_columns_that_are_simply_constant_are_none() -> None:
    frame = tick_frame()[["media_1", "trust"]].assign(wave=1)
    assert read_survey(frame).schema.names("ignored") == ["media_1", "wave"]
    # All three are 1 for whoever was there: that says nothing about anybody.
    there = np.where(np.arange(N) < 200, 1.0, np.nan)
    same = pd.DataFrame({f"wave_{k}": there for k in range(3)}).assign(trust=[1, 2, 3] * 80)
    assert read_survey(same).schema.names("ignored") == ["wave_0", "wave_1", "wave_2"]


def test_blanks_in_a_schema_file() -> None:
    schema = propose(from_frame(tick_frame()))
    unknown = Schema(tuple(Column(column.name, "ignored") for column in schema.columns))
    again = override(unknown, to_toml(schema))
    assert again.column("media_1").levels == ("", 1)
    # A column that somebody says so of needs no battery.
    alone = Schema((Column("tv", "ordinal", levels=("", 1), names=("no", "yes")),))
    survey = apply(from_frame(pd.DataFrame({"tv": [1.0, None, None]})), alone)
    assert survey.answers["tv"].tolist() == ["yes", "no", "no"]


@pytest.mark.parametrize("ending", ["sav", "dta", "csv", "parquet"])
@pytest.mark.parametrize("mark", [1.0, "x"])
def test_ticks_are_written_back_and_never_filled(tmp_path: Path, ending: str, mark: Any) -> None:
    frame = tick_frame(mark)
    frame["trust"] = frame["trust"].where(np.arange(N) != 7).astype(float)
    source = from_frame(frame)
    schema = propose(source)
    survey = apply(source, schema)
    filled = survey.answers.apply(lambda column: column.fillna(column.cat.categories[-1]))
    path = tmp_path / f"a.{ending}"
    counts = write_answers(path, filled, source, schema)
    skipped = frame.filter(like="media").isna().all(axis=1)
    assert counts.filled == {"empty": 1} and counts.kept == {"not asked": 3 * skipped.sum()}
    again = apply(read(path), schema)
    assert again.answers.drop(columns="trust").equals(survey.answers.drop(columns="trust"))
    assert again.answers["trust"].notna().all()
    # On request those who may have skipped it are filled, with ticks or with blanks.
    filled["media_1"] = survey.answers["media_1"].fillna("not ticked")
    write_answers(path, filled, source, schema, fill=REASONS)
    whole = apply(read(path), schema).answers
    assert whole.notna().all(axis=None) and (whole.loc[skipped, "media_2"] == "ticked").all()
    assert (whole.loc[skipped, "media_1"] == "not ticked").all()


def test_evidence_of_siblings_outweighs_words_of_their_questions() -> None:
    """Most are asked in words that call for kinds of things; what labels say in all of them decides."""
    labels = {1: "Mucha", 2: "Alguna", 3: "Poca", 4: "Ninguna", 8: "No opina"}
    asked = ["Congreso", "Partidos", "Religión", "Región", "Municipio", "Idioma"]
    questions = dict(zip("abcdef", asked, strict=True))
    frame = pd.DataFrame({name: rng().integers(1, 5, N) for name in questions})
    schema = propose(Source(None, "sav", "x", frame, dict.fromkeys(questions, labels), questions))
    assert {column.levels for column in schema.columns} == {(1, 2, 3, 4)}
    assert {column.missing for column in schema.columns} == {(8,)}


def test_a_sibling_keeps_codes_of_its_own() -> None:
    labels = {1: "Mucha", 2: "Alguna", 3: "Poca", 4: "Ninguna"}
    names = [f"q{k}" for k in range(6)]
    frame = pd.DataFrame({name: rng().integers(1, 5, N) for name in names})
    frame.loc[:40, "q5"] = 5
    questions = dict.fromkeys(names, "Confianza") | {"q5": "Partido"}
    schema = propose(Source(None, "sav", "x", frame, dict.fromkeys(names, labels), questions))
    assert schema.column("q0").levels == (1, 2, 3, 4)
    assert 5 in schema.column("q5").levels


def test_a_level_that_nobody_chose_is_that_of_the_battery():
    """In a file without labels, as in a table: where so few answers may lack it by chance."""
    battery = pd.DataFrame({f"q{k}": np.resize([1, 2, 3, 4, 4, 3, 2, 2, 3, 5], 60) for k in range(6)})
    battery["q2"] = battery["q2"].clip(upper=4).where(battery.index < 12)
    battery["q3"] = battery["q3"].clip(upper=4)  # sixty answers do not lack it by chance
    columns = propose(from_frame(battery)).columns
    assert [column.levels[-1] for column in columns] == [5, 5, 5, 4, 5, 5]
    assert "nobody gave 5" in columns[2].reason
