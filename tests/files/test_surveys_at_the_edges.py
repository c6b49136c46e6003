"""Tables as people have them: gaps among truths, names of two lines, codes that look like numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ordinalrbm as orbm
from ordinalrbm.cli.inputs import written_like
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.ratings import ParquetRatings
from ordinalrbm.files.survey import apply, read_survey, read_text
from ordinalrbm.files.writing import _put
from ordinalrbm.pages.frequencies import summary_of
from ordinalrbm.pages.groups import grouping_of
from ordinalrbm.pages.page import Label
from ordinalrbm.pages.survey import comparable
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.toml import override, to_toml


def test_truths_with_gaps_stay_truths(tmp_path):
    path = tmp_path / "b.parquet"
    pq.write_table(pa.table({"yes": pa.array([True, False, None] * 20), "q": [1, 2, 3] * 20}), path)
    values = read(path).frame["yes"]
    assert values.dtype == "boolean"
    filled = _put(values, values.isna().to_numpy(), np.array([1] * 60, dtype=object))
    assert filled.tolist() == [True, False, True] * 20 and filled.dtype == "boolean"


def test_names_may_have_several_lines(tmp_path):
    path = tmp_path / "s.csv"
    path.write_bytes(b'"How often do you\ncook, bake or roast?";Age;Sex\n1;30;f\n2;40;m\n')
    assert read(path).frame.columns.tolist()[1:] == ["Age", "Sex"]


def test_a_level_that_no_category_had_is_kept():
    values = pd.Series(["Often", None, "Always"], dtype="category")
    codes = np.array(["Never", "Never", "Never"], dtype=object)
    assert _put(values, np.array([False, True, False]), codes).tolist() == ["Often", "Never", "Always"]


def test_codes_of_categories_make_no_bands(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(1, 6, (400, 4)), columns=["q1", "q2", "q3", "q4"])
    frame.assign(bundesland=rng.integers(1, 17, 400)).to_csv(tmp_path / "s.csv", index=False)
    survey = read_survey(tmp_path / "s.csv")
    assert survey.schema.names("nominal") == ["bundesland"]
    found = grouping_of(comparable(survey)["bundesland"])
    assert not found.banded and len(found.groups) == 16


def test_bands_of_numbers_that_are_close_have_names_of_their_own():
    seconds = pd.Series(1_700_000_000 + np.arange(400), name="started")
    found = grouping_of(seconds)
    assert len(set(found.groups)) == 4
    assert found.groups[0] == "1700000000 to 1700000099"


@pytest.mark.parametrize("weight", [None, [0.0, 0.0, 1.0]])
def test_numbers_of_nobody_have_no_mean(weight):
    values = pd.Series([np.nan] * 3 if weight is None else [1.0, 2.0, np.nan])
    found = summary_of(values, Label("income", "Income"), None if weight is None else np.array(weight))
    assert np.isnan(found.mean) and np.isnan(found.quantiles).all()


def test_a_column_of_weights_may_be_empty(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(1, 6, (50, 3)), columns=["q1", "q2", "q3"])
    frame.assign(weight=rng.uniform(0.5, 2.0, 50).round(3)).to_csv(tmp_path / "a.csv", index=False)
    frame.assign(weight="").to_csv(tmp_path / "b.csv", index=False)
    schema = read_survey(tmp_path / "a.csv").schema
    assert apply(read(tmp_path / "b.csv"), schema).weight.isna().all()


def test_a_category_that_nobody_knows_is_named_beside_a_gap():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(1, 6, (80, 3)), columns=["q1", "q2", "q3"])
    frame["region"] = pd.array(rng.integers(1, 4, 80), dtype="Int64")
    model = orbm.CumulativeRBM(1, n_epochs=1, nominal=["region"], random_state=0).fit(frame)
    frame.loc[0, "region"], frame.loc[3, "region"] = pd.NA, 9
    with pytest.raises(orbm.DataError, match="9"):
        model.transform(frame)


def test_folders_that_are_columns_have_one_type(tmp_path):
    for month in ("09", "10", "__HIVE_DEFAULT_PARTITION__"):
        (folder := tmp_path / "data" / "year=2024" / f"month={month}").mkdir(parents=True)
        pd.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [4, 5]}).to_parquet(folder / "a.parquet")
    frame = read(tmp_path / "data").frame
    assert frame["month"].dropna().tolist() == [9, 9, 10, 10] and frame["month"].isna().sum() == 2
    assert frame["year"].tolist() == [2024] * 6
    assert ParquetRatings(tmp_path / "data").n_ratings == 6


def test_draws_of_a_single_number_differ_in_tables_of_polars():
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    age = rng.normal(size=200)
    income = np.where(np.arange(200) % 4 == 0, np.nan, age + rng.normal(size=200))
    table = polars.DataFrame({"income": income, "age": age}, nan_to_null=True)
    model = orbm.CumulativeRBM(1, numeric=["income"], background=["age"], n_epochs=2, random_state=0)
    one, two = model.fit(table).impute(table, n_draws=2, random_state=0)
    assert not one["income"].equals(two["income"])


def test_an_index_that_is_a_column_as_well():
    frame = pd.DataFrame({"id": [7, 8], "q": [1, 2]})
    assert from_frame(frame.set_index("id", drop=False)).frame.columns.tolist() == ["id", "q"]
    assert from_frame(frame.set_index("id")).frame.columns.tolist() == ["id", "q"]


def test_a_model_that_is_not_there_is_named(tmp_path):
    frame = pd.DataFrame({"q1": [1, 2], "q2": [1, 2]})
    with pytest.raises(orbm.DataError, match=r"File 'typo.orbm' is no model"):
        orbm.report(frame, "typo.orbm")
    with pytest.raises(orbm.DataError, match="give the survey as data"):
        orbm.report(orbm.CumulativeRBM())


@pytest.mark.parametrize(
    ("given", "written"),
    [("s.csv.gz", "s-complete.csv.gz"), ("s.dta", "s-complete.dta"), ("s.por", "s-complete.sav")],
)
def test_names_of_results_are_of_formats_that_can_be_written(given, written):
    assert written_like(Path(given), "-complete").name == written


def test_text_may_begin_with_the_mark_of_windows(tmp_path):
    (path := tmp_path / "s.toml").write_bytes("﻿weight = 'w'".encode())
    assert read_text(path) == "weight = 'w'"


def test_a_written_schema_is_read_as_itself():
    table = pd.DataFrame({"income": [1, 2, 99] * 20, "q": ["low", "mid", "high"] * 20})
    source = from_frame(table)
    proposal = override(
        propose(source), '[columns]\nincome = {role = "numeric", missing = [99], question = "?"}'
    )
    fixed = override(proposal, '[columns]\nincome = {missing = [], question = ""}')
    assert fixed.column("income").missing == ()
    again = override(proposal, to_toml(fixed, proposal))
    for one, other in zip(again.columns, fixed.columns, strict=True):
        assert (one.role, one.missing, one.question) == (other.role, other.missing, other.question)


def test_signs_that_look_like_numbers_are_none():
    labels = ["❶ agree", "❷ neutral", "❸ disagree"] * 30
    assert read_survey(pd.DataFrame({"Q1": labels, "Q2": [1, 2, 3] * 30})).schema.column("Q1")


def test_columns_may_be_named_by_arrays():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(1, 4, (60, 4)), columns=["a", "b", "c", "sex"])
    model = orbm.CumulativeRBM(1, n_epochs=1, background=np.array(["sex"]), random_state=0)
    assert model.fit(read_survey(table)).questionnaire_.background


def test_a_survey_that_cannot_be_learnt_leaves_the_model_as_it_was(monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(1, 4, (60, 4)), columns=["a", "b", "c", "d"])
    model = orbm.CumulativeRBM(1, n_epochs=1, random_state=0).fit(table)
    before = model.scores(table)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "_learn_population", stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table[["a", "b"]])
    monkeypatch.undo()
    pd.testing.assert_frame_equal(model.scores(table), before)
