"""Surveys with nominal and numeric questions and background, from the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from mixed_files import ASKED, MISSING, N, mixed_frame, write_mixed
from program import found, names_in, run_here, succeed_here

import ordinalrbm as orbm
from ordinalrbm.files.survey import read_survey

WITH = ["--include", "party,income", "--include", "hours", "--background", "land,age"]
QUICK = ["--epochs", 3, "-k", 2]


@pytest.fixture(scope="session")
def mixed_originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    write_mixed(folder / "mixed.sav")
    mixed_frame().to_csv(folder / "mixed.csv", index=False)
    succeed_here("fit", "mixed.sav", "--out", "mixed.orbm", *WITH, *QUICK, cwd=folder)
    return folder


@pytest.fixture
def mixed(mixed_originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(mixed_originals, tmp_path / "work"))


# ---- which columns -------------------------------------------------------------------------------


def test_columns_are_of_the_kinds_that_their_roles_say(mixed):
    model = orbm.load(mixed / "mixed.orbm")
    names = [*ASKED, "land", "age"]
    assert model.feature_names_in_.tolist() == names
    kinds = ["ordinal"] * 4 + ["nominal", "numeric", "numeric", "background", "background"]
    assert model.questionnaire_.kinds == tuple(kinds)
    about = found("info", "mixed.orbm", cwd=mixed)
    assert about["questions"] == 7 and about["kinds"] == dict(zip(names, kinds, strict=True))
    assert about["scales"]["party"] == ["Red", "Blue", "Green"]
    shown = succeed_here("info", "mixed.orbm", cwd=mixed).stdout
    assert "without an order: Red, Blue, Green" in shown and "a number" in shown


@pytest.mark.parametrize(
    ("include", "background", "nominal", "numeric", "told"),
    [
        (["nominal"], [], ["party", "land"], [], []),
        (["nominal, numeric"], ["land"], ["party"], ["income", "hours", "age"], ["land"]),
        (["p*", "inc*"], ["*a*"], None, None, None),
        (["p*"], ["l*", "age"], ["party"], [], ["land", "age"]),
        ([], ["numeric*", "age"], None, None, None),
    ],
)
def test_words_names_and_patterns(mixed, include, background, nominal, numeric, told):
    survey = read_survey(mixed / "mixed.sav")
    if nominal is None:
        with pytest.raises(orbm.DataError, match=r"both name 'party'|'numeric\*' matches no"):
            survey.choosing(include, background)
        return
    chosen = survey.choosing(include, background).chosen
    assert [list(part) for part in chosen[:3]] == [nominal, numeric, told]


def test_numbers_that_are_codes_are_groups(mixed):
    """Without labels nothing but the role tells that numbers stand for lands."""
    (mixed / "s.toml").write_text('[columns.land]\nrole = "nominal"\n[columns.age]\nrole = "background"\n')
    survey = read_survey(mixed / "mixed.csv", mixed / "s.toml")
    chosen = survey.choosing(["numeric"], ["land", "background"])
    assert chosen.chosen.parameters["nominal"] == ["land"]
    model = orbm.CumulativeRBM.binary(1, n_epochs=1, random_state=0, **chosen.chosen.parameters)
    background = model.fit(chosen.table).questionnaire_.background
    assert background.names == ["land=1", "land=2", "land=3", "age"]


# ---- filling and predicting ----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["sav", "dta", "csv"])
def test_gaps_of_all_kinds_are_filled(mixed, ending):
    about = found("impute", "mixed.orbm", "mixed.sav", "--out", f"full.{ending}", cwd=mixed)
    before, place = mixed_frame(), mixed / f"full.{ending}"
    if ending == "csv":
        after = pd.read_csv(place)
    else:
        read = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
        after, said = read(place, user_missing=True)
        assert "Red" in said.variable_value_labels["party"].values()
    gaps = int(before[ASKED].isna().to_numpy().sum())
    assert about["filled"]["empty"] == gaps and sum(about["filled"].values()) == gaps + 10
    for name in before.columns:
        given = before[name].notna() & ~before[name].isin(MISSING.get(name, []))
        assert (after[name][given].astype(float) == before[name][given]).all()
    filled = after["party"][before["party"].isna()].astype(float)
    assert filled.isin([1, 2, 3]).all() and filled.nunique() > 1
    income = after["income"][before["income"].isna()].astype(float)
    assert (income % 1 == 0).all() and income.between(0, 6000).all() and income.nunique() > 5
    assert after["party"].astype(float).isin([1, 2, 3]).all()  # those who refused, too


# ---- judging and reading -------------------------------------------------------------------------


def test_evaluate_scores_every_kind(mixed):
    arguments = ["evaluate", "mixed.sav", *WITH, "--epochs", 6, "-k", 2]
    about = found(*arguments, cwd=mixed)
    assert about["model"]["nll"] < about["marginal"]["nll"]
    assert set(about["by_question"]) <= {"q1", "q2", "q3", "q4"}
    given = mixed_frame().replace({"party": {9: np.nan}, "income": {99999: np.nan}})
    assert set(about["nominal"]) == {"party"} and set(about["numeric"]) == {"income", "hours"}
    for name, line in (about["nominal"] | about["numeric"]).items():
        assert line["count"] == round(0.1 * given[name].notna().sum())
    for line in about["numeric"].values():
        assert line["model_mae"] < line["usual_mae"] and line["model_rmse"] < line["usual_rmse"]
    of_model = run_here("evaluate", "mixed.orbm", "--data", "mixed.csv", cwd=mixed)
    assert of_model.returncode == 0 and "most frequent" in of_model.stdout
    assert "learnt from 'mixed'" in of_model.stderr


def test_factors_and_scores(mixed):
    about = found("factors", "mixed.sav", "-k", 1, *WITH, "--epochs", 5, cwd=mixed)
    lines = about["loadings"]
    rows = {*ASKED, "party: Red", "party: Blue", "party: Green"} - {"party"}
    assert set(lines) == rows
    assert lines["party: Red"]["question"] == "Party voted for: Red"
    loading = {name: line["Factor 1"] for name, line in lines.items()}
    assert min(loading["q1"], loading["income"], loading["party: Red"]) > 0.4
    assert max(loading["q3"], loading["party: Blue"]) < -0.4 and abs(loading["party: Green"]) < 0.3
    assert all(0 < line["Factor 1 (error)"] < 0.2 for line in lines.values())
    (reliability,) = about["reliability"].values()
    assert reliability["items"] == 6 and 0.5 < reliability["alpha"] < reliability["omega"] < 1
    compared = found("factors", "mixed.sav", "--to", 2, *WITH, "--epochs", 1, cwd=mixed)
    assert [line["factors"] for line in compared["numbers"]] == [1, 2]
    succeed_here("scores", "mixed.orbm", "mixed.sav", "-k", 1, "--out", "s.csv", cwd=mixed)
    scores = pd.read_csv(mixed / "s.csv")
    assert len(scores) == N and abs(scores["factor_1"].mean()) < 0.1
    assert 0.6 < scores["factor_1"].std() < 1.1


def test_report_shows_every_kind(mixed):
    shown = ["--group", "land", "--title", "All kinds"]
    succeed_here("report", "mixed.sav", "--out", "p.html", *WITH, *QUICK, *shown, cwd=mixed)
    page = (mixed / "p.html").read_text(encoding="utf-8")
    for words in (
        "Unordered categories: ",
        "Numbers: ",
        "Background that shifts",
        "are linear in",
        "Party voted for: Red",
    ):
        assert words in page, words
    frame = mixed_frame().replace({"income": {99999: np.nan}}).dropna(subset="income")
    mean = np.average(frame["income"], weights=frame["wt"])
    assert f"{mean:.5g}" in page and f'data-value="{frame["income"].max()}"' in page
    succeed_here("report", "mixed.orbm", "--data", "mixed.csv", "--out", "d.html", cwd=mixed)


# ---- wrong input ---------------------------------------------------------------------------------

LAND = '[columns.land]\nrole = "background"\n'


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ("--include nope", "", "--include 'nope' matches no nominal, numeric or background column"),
        ("--include q1", "", "--include names 'q1', which has the role ordinal"),
        ("--background caseid", "", "'caseid', which has the role id"),
        ("--include party --background p*", "", "--include and --background both name 'party'"),
        ("--background background", "", "finds no column with the role background"),
        ("--background one", '[columns.one]\nrole = "background"\n', "Column 'one' cannot be background"),
        ("", '[columns.zz]\nrole = "id"\n', "names the column 'zz', which the data does not have"),
    ],
)
def test_wrong_columns_are_one_sentence(mixed, options, schema, words):
    frame = mixed_frame()
    frame.assign(one="x").to_csv(mixed / "wrong.csv", index=False)
    (mixed / "s.toml").write_text(schema)
    before = names_in(mixed)
    given = ["--schema", "s.toml"] if schema else []
    for command in (["fit", "wrong.csv", "--out", "x.orbm"], ["evaluate", "wrong.csv"]):
        done = run_here(*command, *given, *options.split(), "--quiet", cwd=mixed)
        assert done.returncode == 2 and words in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert names_in(mixed) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("fit ratings.csv --out x.orbm --include a", "--include changes nothing here"),
        ("evaluate mixed.orbm --data mixed.sav --background a", "has learnt already"),
        ("factors mixed.sav --rotation oblique", "'oblique' is not one of"),
        ("report one.csv --schema s.toml --group land --out p.html", "one group only"),
    ],
)
def test_options_that_do_not_fit(mixed, arguments, words):
    ratings = pd.DataFrame({"user": [1, 2] * 9, "item": range(18), "rating": [1, 2, 3] * 6})
    ratings.to_csv(mixed / "ratings.csv", index=False)
    mixed_frame().assign(land="Austria").to_csv(mixed / "one.csv", index=False)
    (mixed / "s.toml").write_text(LAND)
    done = run_here(*arguments.split(), cwd=mixed)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
