"""How many factors a survey has, what they are, and where people stand on them."""

from __future__ import annotations

import pandas as pd
import pyreadstat
import pytest
from program import found, names_in, run_here, succeed_here
from small_files import LEVELS, QUESTIONS, survey_frame

import ordinalrbm as orbm
from ordinalrbm.files.survey import read_survey

TWO = ["scores", "survey.orbm", "survey.sav", "--factors", 2]


def test_numbers_are_compared_and_the_one_taken_is_shown(files):
    arguments = ["factors", "survey.sav", "--from", 1, "--to", 2, "--epochs", 2, "--out", "l.csv"]
    about = found(*arguments, cwd=files)
    assert [line["factors"] for line in about["numbers"]] == [1, 2]
    best = max(about["numbers"], key=lambda line: line["log_likelihood"])
    assert about["best"] == best["factors"] and best["difference"] == 0
    near = [k["factors"] for k in about["numbers"] if -k["difference"] <= k["difference_error"]]
    assert about["factors"] == min(near) and "one standard error" in about["rule"]
    assert set(about["loadings"]) == set(LEVELS)
    assert about["loadings"]["q1"]["question"] == QUESTIONS["q1"]
    written = pd.read_csv(files / "l.csv", index_col="name")
    for name, line in about["loadings"].items():
        assert written.loc[name, "Factor 1"] == pytest.approx(line["Factor 1"])
    shown = succeed_here(*arguments[:-2], cwd=files)
    assert "Learning 2 of 2 factors" in shown.stderr
    assert "log-likelihood" in shown.stdout and "I like my neighbours" in shown.stdout
    assert all(len(line) <= 80 for line in shown.stdout.splitlines() if "chosen" not in line)


def test_a_given_number_with_correlated_factors(files):
    arguments = ["factors", "survey.sav", "-k", 2, "--rotation", "oblimin", "--epochs", 2]
    about = found(*arguments, "--weighted", cwd=files)
    assert about["factors"] == 2 and "numbers" not in about
    assert abs(about["correlations"]["Factor 1"]["Factor 2"]) > 0.05
    assert 0 < about["loadings"]["q1"]["Factor 1 (error)"] < 0.5
    assert sum(line["items"] for line in about["reliability"].values()) == 6
    assert "correlation" in succeed_here(*arguments, cwd=files).stdout


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta"])
def test_scores_with_labels_are_read_back(files, ending):
    place = files / f"scores.{ending}"
    about = found(*TWO, "--draws", 2, "--seed", 3, "--out", place.name, cwd=files)
    read = pyreadstat.read_dta if ending == "dta" else pyreadstat.read_sav
    table, said = read(place)
    assert table["caseid"].tolist() == survey_frame()["caseid"].tolist()
    parts = ["", "_se", "_pv1", "_pv2"]
    assert list(table)[1:] == [f"factor_{k}{part}" for k in (1, 2) for part in parts]
    labels = said.column_names_to_labels
    assert labels["factor_1"][:80] == f"Factor 1 ({about['names']['Factor 1']})"[:80]
    assert any(text in labels["factor_1"] for text in QUESTIONS.values())
    assert labels["factor_2_se"] == "Factor 2, standard error"
    assert labels["factor_2_pv2"] == "Factor 2, plausible value 2"
    model = orbm.load(files / "survey.orbm")
    survey = read_survey(files / "survey.sav")
    scores, errors = model.scores(survey.encoded, n_factors=2, return_std=True)
    draws = model.scores(survey.encoded, n_factors=2, n_draws=2, random_state=3)
    pd.testing.assert_series_equal(table["factor_2"], scores["Factor 2"], check_names=False)
    pd.testing.assert_series_equal(table["factor_1_se"], errors["Factor 1"], check_names=False)
    pd.testing.assert_series_equal(table["factor_1_pv2"], draws[1]["Factor 1"], check_names=False)


def test_scores_as_plain_tables_by_row_where_there_are_no_ids(files):
    survey_frame().drop(columns="caseid").to_csv(files / "anonymous.csv", index=False)
    succeed_here("scores", "survey.orbm", "anonymous.csv", "--out", "a.csv", cwd=files)
    assert pd.read_csv(files / "a.csv")["row"].tolist() == list(range(1, 301))
    shown = succeed_here(*TWO, "--out", "b.parquet", cwd=files)
    assert "300 respondents on 2 factors" in shown.stdout and "Factor 2 (" in shown.stdout
    assert len(pd.read_parquet(files / "b.parquet")) == 300


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["factors", "survey.sav", "--rotation", "varimix"], "'varimix' is not one of 'varimax'"),
        (["factors", "survey.sav", "--to", "99"], "--to 99 is more than the 6 questions"),
        (["factors", "survey.sav", "-k", "7"], "--factors 7 is more than the 6 questions"),
        (["factors", "survey.sav", "--from", "4", "--to", "2"], "--from 4 is above --to 2"),
        (["factors", "survey.sav", "-k", "2", "--to", "3"], "--to changes nothing here"),
        (["factors", "survey.sav", "--out", "l.sav"], "cannot hold these tables; write to .xlsx, .docx"),
        (["factors", "survey.sav", "--out", "l.pptx"], "cannot hold these tables; write to .xlsx, .docx"),
        (["factors", "ratings.csv"], "holds ratings"),
        ([*TWO, "--out", "s.docx"], "an ending that is not known"),
        ([*TWO, "--out", "s.sav", "--rotation", "x"], "'x' is not one of"),
        (["scores", "survey.orbm", "survey.sav", "-k", "9", "--out", "s.sav"], "--factors 9 is more"),
        (["scores", "films.orbm", "survey.sav", "--out", "s.sav"], "not a model of a survey"),
        (["scores", "survey.orbm", "survey.sav", "--out", "survey.sav"], "would be written over"),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(files, arguments, said):
    before = names_in(files)
    done = run_here(*arguments, cwd=files)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert names_in(files) == before
