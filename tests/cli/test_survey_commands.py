"""A survey from its file to a model, a completed file, scores and a page."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from program import found, names_in, run_here, succeed, succeed_here
from small_files import LABELS, LEVELS, MISSING, QUESTIONS, SCRIPT, TITLE, survey_frame, write_spss

CODES = {name: set(range(1, n + 1)) for name, n in LEVELS.items()} | {"q5": {0, 1}}
N_GAPS = sum((~survey_frame()[name].isin(codes)).sum() for name, codes in CODES.items())


def test_proposal_then_corrected_schema(files):
    done = succeed_here("schema", "survey.sav", "--out", "mine.toml", cwd=files)
    assert re.search(r"q1 … q3.*ordinal.*1 Strongly.*8 Weiß", done.stdout)
    assert "mine.toml" in done.stdout
    text = (files / "mine.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    assert written["scales"][written["columns"]["q1"]["scale"]]["levels"] == [1, 2, 3, 4, 5]
    (files / "mine.toml").write_text(
        '[columns.q5]\nrole = "ignored"\n[columns.q1]\nlevels = [5, 4, 3, 2, 1]\n'
        '[columns.region]\nrole = "ordinal"\nlevels = [1, 2, 3]\n'
    )
    arguments = ["fit", "survey.sav", "--schema", "mine.toml", "--epochs", 2]
    about = found(*arguments, "--out", "a.orbm", cwd=files)
    assert about["model"] == "a.orbm" and about["epochs"] == 2
    # Said or not, watched or not: the same model to the byte.
    done = succeed(*arguments, "--out", "b.orbm", "--quiet", "--threads", 1, cwd=files)
    assert done.stderr == "" and done.stdout.startswith("The model is in b.orbm")
    assert (files / "a.orbm").read_bytes() == (files / "b.orbm").read_bytes()
    scales = found("info", "a.orbm", cwd=files)["scales"]
    assert list(scales) == ["region", "q1", "q2", "q3", "q4", "q6"]
    assert scales["q1"][0] == "Strongly agree" and scales["q2"][-1] == "Strongly agree"
    assert scales["region"] == ["North", "Middle", "South"]


def test_info(files):
    shown = succeed_here("info", "survey.orbm", cwd=files)
    assert shown.stderr == ""
    assert "CumulativeRBM" in shown.stdout and "Never < Rarely < Sometimes < Often" in shown.stdout
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())


def _check_filled(before: pd.DataFrame, after: pd.DataFrame, kept: dict[str, set] | None = None) -> None:
    """Codes are filled like empty cells; those of q4 are "not asked" and stay."""
    kept = {"q4": {-9}} if kept is None else kept
    for name, codes in CODES.items():
        stay = before[name].isin(codes | kept.get(name, set()))
        assert set(after.loc[~stay, name]) <= codes
        assert (after.loc[stay, name] == before.loc[stay, name]).all()
    others = [name for name in before if name not in CODES]
    pd.testing.assert_frame_equal(after[others], before[others])


def test_impute_spss(files):
    about = found("impute", "survey.orbm", "survey.sav", "--out", "full.sav", cwd=files)
    before, said = pyreadstat.read_sav(files / "survey.sav", user_missing=True)
    empty, kept = int(before[list(CODES)].isna().to_numpy().sum()), int((before["q4"] == -9).sum())
    filled = {"empty": empty, "don't know": 12, "refused": 8, "no answer": 4}
    counts = {"filled": filled, "kept": {"not asked": kept}}
    assert about == {"out": "full.sav", **counts, "never_asked": []} and 0 < empty < N_GAPS
    after, says = pyreadstat.read_sav(files / "full.sav", user_missing=True)
    assert list(after) == list(before)
    _check_filled(before, after)
    assert says.variable_value_labels == said.variable_value_labels
    assert says.variable_value_labels["country"] == LABELS["country"]
    assert says.missing_ranges == said.missing_ranges and set(says.missing_ranges) == set(MISSING)
    assert says.column_names_to_labels == said.column_names_to_labels
    assert says.column_names_to_labels["q2"] == QUESTIONS["q2"]
    assert says.variable_measure == said.variable_measure


@pytest.mark.parametrize(
    ("fill", "kept"),
    [
        ("all", {}),
        ("empty", {"q1": {8, 9}, "q2": {9}, "q3": {8}, "q4": {-9, -3}, "q6": {99}}),
        ("refused, empty,not-asked", {"q1": {8}, "q3": {8}, "q4": {-3}, "q6": {99}}),
        ("empty,dont-know,no-answer", {"q1": {9}, "q2": {9}, "q4": {-9}}),
    ],
)
def test_fill_chooses_the_kinds(files, fill, kept):
    succeed_here("impute", "survey.orbm", "survey.sav", "--fill", fill, "--out", "full.sav", cwd=files)
    before, _ = pyreadstat.read_sav(files / "survey.sav", user_missing=True)
    after, _ = pyreadstat.read_sav(files / "full.sav", user_missing=True)
    _check_filled(before, after, kept)


def _coded_frame() -> pd.DataFrame:
    """Without an empty cell, as most SPSS files are: non-response is a code everywhere."""
    frame = survey_frame()
    frame[["q1", "q2", "q3"]] = frame[["q1", "q2", "q3"]].fillna(9)
    return frame.fillna({"q4": -9, "q5": 1, "q6": 99})


def test_a_file_without_empty_cells(files):
    frame = _coded_frame()
    write_spss(files / "coded.sav", frame)
    done = succeed_here("impute", "survey.orbm", "coded.sav", "--out", "full.sav", "--quiet", cwd=files)
    codes = int(sum((~frame[name].isin(codes)).sum() for name, codes in CODES.items()))
    kept = int((frame["q4"] == -9).sum())
    assert done.stdout.startswith(f"Filled {codes - kept} cells (") and "empty" not in done.stdout
    assert done.stdout.endswith(
        f") in full.sav. Unchanged cells: {kept} not asked; --fill says which to fill.\n"
    )
    after, _ = pyreadstat.read_sav(files / "full.sav", user_missing=True)
    _check_filled(frame, after)


@pytest.mark.parametrize("draws", [[], ["--draws", 2]])
def test_nothing_to_fill_is_said_before_learning(files, draws, monkeypatch):
    def learn(*_, **__):
        raise AssertionError("nothing is to be filled, so nothing is to be learnt")

    monkeypatch.setattr("ordinalrbm.estimators.survey.CumulativeRBM.impute", learn)
    write_spss(files / "coded.sav", _coded_frame())
    there = names_in(files)
    arguments = ["impute", "survey.orbm", "coded.sav", "--out", "full.sav", *draws]
    done = run_here(*arguments, "--fill", "empty", cwd=files)
    assert done.returncode == 2 and done.stdout == "" and names_in(files) == there
    assert "'coded.sav' has nothing to fill" in " ".join(done.stderr.split())
    assert "refused" in done.stderr and "--fill" in done.stderr


def test_a_kind_of_cells_that_there_is_not(files):
    arguments = ["impute", "survey.orbm", "survey.sav", "--out", "full.sav"]
    done = run_here(*arguments, "--fill", "empty,refusd", cwd=files)
    assert done.returncode == 2
    assert "'refusd'" in done.stderr and "did you mean 'refused'" in " ".join(done.stderr.split())


def test_draws_below_each_other(files):
    arguments = ["impute", "survey.orbm", "survey.sav", "--draws", 2, "--seed", 1]
    about = found(*arguments, "--out", "stack.sav", cwd=files)
    assert about["out"] == "stack.sav"
    before, said = pyreadstat.read_sav(files / "survey.sav", user_missing=True)
    whole, says = pyreadstat.read_sav(files / "stack.sav", user_missing=True)
    assert list(whole) == ["Imputation_", *before]
    assert says.variable_value_labels.pop("Imputation_") == {0.0: "Original data"}
    assert says.variable_value_labels == said.variable_value_labels
    assert says.missing_ranges == said.missing_ranges
    assert says.column_names_to_labels["q2"] == QUESTIONS["q2"]
    assert whole["Imputation_"].tolist() == np.repeat([0, 1, 2], len(before)).tolist()
    parts = [
        part.drop(columns="Imputation_").reset_index(drop=True) for _, part in whole.groupby("Imputation_")
    ]
    pd.testing.assert_frame_equal(parts[0], before)  # the original, with gaps and codes
    for part in parts[1:]:
        _check_filled(before, part)
    assert not parts[1][list(CODES)].equals(parts[2][list(CODES)])
    succeed_here(*arguments, "--out", "again.sav", cwd=files)
    again, _ = pyreadstat.read_sav(files / "again.sav", user_missing=True)
    pd.testing.assert_frame_equal(again, whole)


def test_stata(files):
    succeed_here("fit", "survey.dta", "--out", "stata.orbm", "--epochs", 2, cwd=files)
    assert ".a missing" in succeed_here("schema", "survey.dta", cwd=files).stdout
    succeed_here("impute", "stata.orbm", "survey.dta", "--out", "full.dta", "--quiet", cwd=files)
    before, said = pyreadstat.read_dta(files / "survey.dta", user_missing=True)
    after, says = pyreadstat.read_dta(files / "full.dta", user_missing=True)
    assert list(after) == list(before)
    _check_filled(before, after)
    assert says.variable_value_labels == said.variable_value_labels
    assert says.column_names_to_labels == said.column_names_to_labels
    arguments = ["--draws", 2, "--parameters", "fixed", "--quiet", "--out", "stack.dta"]
    for more in (["--fill", "empty"], []):
        succeed_here("impute", "stata.orbm", "survey.dta", *arguments, *more, cwd=files)
        whole, _ = pyreadstat.read_dta(files / "stack.dta", user_missing=True)
        _check_stacked_stata(before, whole, codes_too=not more)


def _check_stacked_stata(before: pd.DataFrame, whole: pd.DataFrame, *, codes_too: bool) -> None:
    """Cells with a letter are never imputed in Stata: those that are filled lose it."""
    assert list(whole)[:2] == ["_mi_m", "_mi_id"]
    assert whole["_mi_m"].tolist() == np.repeat([0, 1, 2], len(before)).tolist()
    assert whole["_mi_id"].tolist() == [*range(1, len(before) + 1)] * 3
    original, *others = (part.reset_index(drop=True) for _, part in whole.groupby("_mi_m", sort=True))
    letters = {name: before[name].map(lambda v: isinstance(v, str)) for name in CODES}
    assert any(where.any() for where in letters.values())
    for name, where in letters.items():
        kept = original[name].map(lambda v: isinstance(v, str))
        assert kept.equals(where & (not codes_too))
        gaps = before[name].isna() | (where & codes_too)
        assert gaps.any() and original.loc[gaps, name].isna().all()
        for other in others:
            assert set(other.loc[gaps, name]) <= CODES[name]


def test_predict(files):
    predict = ["predict", "survey.orbm", "survey.sav"]
    about = found(*predict, "--out", "gaps.csv", "--probabilities", cwd=files)
    assert about == {"out": "gaps.csv", "lines": N_GAPS}
    table = pd.read_csv(files / "gaps.csv")
    assert list(table)[:4] == ["row", "respondent", "question", "prediction"]
    assert (table["respondent"] == table["row"] + 1000).all()
    q6 = table[table["question"] == "q6"]
    assert set(q6["prediction"]) <= {"Never", "Rarely", "Sometimes", "Often"}
    assert q6.filter(like="p_").sum(axis=1).tolist() == pytest.approx([1.0] * len(q6))
    succeed_here(*predict, "--out", "means.parquet", "--rule", "mean", cwd=files)
    assert pd.read_parquet(files / "means.parquet")["prediction"].between(1, 7).all()


def test_evaluate(files):
    done = succeed_here("evaluate", "survey.sav", "--epochs", 3, cwd=files)
    assert "hidden answers" in done.stdout and "accuracy" in done.stdout
    again = found("evaluate", "survey.sav", "--epochs", 3, cwd=files)
    assert f"{again['model']['nll']:.4f}" in done.stdout  # the same seed, the same split
    assert again["model"]["nll"] < again["marginal"]["nll"]
    assert set(again["by_question"]) == set(LEVELS)


def test_a_model_tested_on_its_own_data_is_told(files):
    done = succeed_here("evaluate", "survey.orbm", "--data", "survey.sav", "--quiet", cwd=files)
    assert re.fullmatch(r"Warning: .*learnt from.*\n", done.stderr)


@pytest.mark.usefixtures("a_true_map")
def test_report(files):
    write_spss(files / "survey.sav", survey_frame()[:90])  # t-SNE of few is quick
    arguments = ["report", "survey.sav", "--group", "country", "--epochs", 2]
    about = found(*arguments, "--out", "a.html", cwd=files)
    page = (files / "a.html").read_text(encoding="utf-8")
    assert about["bytes"] == len(page.encode())
    assert "I like my neighbours" in page and "Häuser sind schön" in page and "España" in page
    assert SCRIPT not in page
    assert page.count(TITLE) == page.count("<title>")  # only those of the page and its figures
    assert f"read? {TITLE}" not in page
    done = succeed(*arguments, "--out", "b.html", "--quiet", cwd=files)
    assert done.stderr == "" and done.stdout.startswith("The page is in b.html")
    assert (files / "b.html").read_bytes() == (files / "a.html").read_bytes()


def test_a_country_that_was_never_asked(files, tmp_path):
    frame = survey_frame()
    there = frame["country"] == 2
    frame.loc[there, "q3"] = np.nan
    write_spss(tmp_path / "some.sav", frame)
    arguments = ["impute", files / "survey.orbm", "some.sav", "--out", "full.sav"]
    about = found(*arguments, cwd=tmp_path)
    (line,) = about["never_asked"]
    assert (line["column"], line["group"], line["question"]) == ("country", "España", "q3")
    after, _ = pyreadstat.read_sav(tmp_path / "full.sav", user_missing=True)
    assert after.loc[there, "q3"].isna().all() and after.loc[~there, "q3"].notna().all()
    assert after["q5"].notna().all()
    told = succeed_here(*arguments, cwd=tmp_path).stdout
    assert "Never asked: 'q3' where country is España" in told and "--fill-never-asked" in told
    succeed_here(*arguments, "--fill-never-asked", "--quiet", cwd=tmp_path)
    after, _ = pyreadstat.read_sav(tmp_path / "full.sav", user_missing=True)
    assert after["q3"].notna().all()
    drawn = ["--draws", 2, "--parameters", "fixed", "--quiet"]
    succeed_here(*arguments, *drawn, cwd=tmp_path)
    after, _ = pyreadstat.read_sav(tmp_path / "full.sav", user_missing=True)
    assert after["q3"].isna().sum() >= 3 * there.sum()
