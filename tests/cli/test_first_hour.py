"""One step from a file to a result, chosen questions, default names, tables, titles, comparisons."""

from __future__ import annotations

import re

import docx
import openpyxl
import pandas as pd
import pyreadstat
import pytest
from program import found, names_in, run_here, succeed_here
from small_files import QUESTIONS, survey_frame

import ordinalrbm as orbm
from ordinalrbm.files.survey import read_survey

QUICK = ["--epochs", 1]


def test_impute_and_scores_need_no_model(files):
    about = found("impute", "survey.sav", *QUICK, cwd=files)
    assert about["out"] == "survey-complete.sav"
    after, _ = pyreadstat.read_sav(files / "survey-complete.sav", user_missing=True)
    assert after["q1"].isin(range(1, 6)).all() and len(after) == 300
    about = found("scores", "survey.sav", "-k", 2, *QUICK, cwd=files)
    assert about["out"] == "survey-scores.sav" and list(about["names"]) == ["Factor 1", "Factor 2"]


def test_scores_choose_a_number_that_can_be_read(files):
    chosen = len(found("scores", "survey.orbm", "survey.sav", "-o", "a.csv", cwd=files)["names"])
    model = orbm.load(files / "survey.orbm")
    assert model.model_.n_factors == 6 > chosen  # one for each question, most of them about nothing
    assert (model.factor_solution(n_factors=chosen).reliability["items"] >= 2).all()
    more = model.factor_solution(n_factors=chosen + 1).reliability["items"]
    assert (more < 2).any()


def test_results_go_beside_the_data(files, tmp_path):
    place = tmp_path / "elsewhere"
    place.mkdir()
    (files / "survey.sav").rename(place / "survey.sav")
    succeed_here("fit", place / "survey.sav", *QUICK, cwd=files)
    done = succeed_here("report", place / "survey.orbm", "--data", place / "survey.sav", cwd=files)
    assert str(place / "survey-report.html") in done.stdout
    succeed_here("predict", place / "survey.orbm", place / "survey.sav", cwd=files)
    made = {"survey.orbm", "survey-report.html", "survey-predictions.csv"}
    assert names_in(place) == {"survey.sav", *made}


def test_questions_are_chosen(files):
    fit = ["fit", "survey.sav", *QUICK, "-o", "a.orbm"]
    found(*fit, "--questions", "q1,q4*", "--questions", "q6", "--exclude", "country", cwd=files)
    assert list(found("info", "a.orbm", cwd=files)["scales"]) == ["q1", "q4", "q6"]
    about = found("schema", "survey.sav", "--questions", "q[1-3]", "--exclude", "q3,wt", cwd=files)
    roles = {column["name"]: column["role"] for column in about["columns"]}
    assert [name for name, role in roles.items() if role == "ordinal"] == ["q1", "q2"]
    assert roles["q3"] == roles["wt"] == "ignored" and roles["country"] != "ignored"
    told = succeed_here(*fit, "--questions", "q1,q2", cwd=files).stderr
    assert "and 1 more (not among the questions)" in told and "2 questions" in told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--questions", "Q7*"], "--questions 'Q7*' matches no question (did you mean 'q"),
        (
            ["--questions", "regoin"],
            "--questions 'regoin' matches no question; give names or patterns with *,",
        ),
        (["--questions", "country"], "--questions names 'country', which has the role"),
        (["--exclude", "storry"], "--exclude 'storry' matches no column (did you mean 'story'?)"),
        (["--exclude", "q*"], "--exclude leaves no question"),
    ],
)
def test_questions_that_there_are_not(files, options, said):
    before = names_in(files)
    done = run_here("fit", "survey.sav", "-o", "a.orbm", *options, cwd=files)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert names_in(files) == before


def test_only_doubtful_columns_are_shown(files):
    told = succeed_here("fit", "survey.sav", *QUICK, "-o", "a.orbm", cwd=files).stderr
    schema = read_survey(files / "survey.sav").schema
    doubtful = [column.name for column in schema.columns if column.is_doubtful]
    assert f"{len(schema.columns)} columns, {len(doubtful) or 'none'} of them doubtful" in told
    assert "Strongly disagree" not in told and len(told.splitlines()) < 12 + 4 * len(doubtful)


def test_tables_of_factors_in_every_form(files):
    arguments = ["factors", "survey.sav", "-k", 2, *QUICK]
    about = found(*arguments, "-o", "t.xlsx", cwd=files)
    sheet = openpyxl.load_workbook(files / "t.xlsx")["Loadings"]
    head, *rows = sheet.iter_rows(values_only=True)
    for row in rows[:6]:
        line = dict(zip(head, row, strict=True))
        own = about["loadings"][line.pop("name")]
        assert line == {name: pytest.approx(value) for name, value in own.items()}
    assert found(*arguments, "-o", "t.docx", cwd=files)["out"] == "t.docx"
    first = docx.Document(str(files / "t.docx")).tables[0]
    assert first.rows[1].cells[0].text.endswith(f"({next(iter(about['loadings']))})")
    found(*arguments, "-o", "t.tex", cwd=files)
    assert r"\begin{longtable}" in (files / "t.tex").read_text()


def test_tables_of_a_report(files):
    succeed_here("report", "survey.orbm", "--data", "survey.sav", "--tables", "t.xlsx", cwd=files)
    book = openpyxl.load_workbook(files / "t.xlsx")
    assert {"Answers", "Loadings", "Reliability", "Correlations"} < set(book.sheetnames)
    frame = pd.DataFrame(book["Answers"].iter_rows(min_row=2, values_only=True))
    counts = frame[frame[0] == "q5"].set_index(2)[3].to_dict()
    assert counts == {"no": (survey_frame()["q5"] == 0).sum(), "yes": (survey_frame()["q5"] == 1).sum()}
    assert frame[1].iloc[0] == QUESTIONS["q1"]
    assert any("country" in name.casefold() for name in book.sheetnames)
    done = run_here("report", "survey.sav", "--tables", "t.csv", cwd=files)
    assert done.returncode == 2 and "another ending than .xlsx" in done.stderr


def test_explain_and_similar_with_titles(files):
    model = orbm.load(files / "films.orbm")
    arguments = ["explain", "films.orbm", "--user", 17, "--item", 101, "-n", 3]
    about = found(*arguments, "--item-names", "titles.csv", cwd=files)
    truth = model.explain(17, 101, n=3)
    assert about["title"] == "Film no. 101" and about["expected"] == pytest.approx(truth.expected)
    assert [line["effect"] for line in about["ratings"]] == pytest.approx(truth.ratings["effect"].tolist())
    assert about["ratings"][0]["title"] == f"Film no. {truth.ratings['item'][0]}"
    assert "is expected to rate 101" in succeed_here(*arguments, cwd=files).stdout
    about = found(
        "similar", "films.orbm", "--item", 101, "-n", 2, "--item-names", "titles.csv:title", cwd=files
    )
    alike = model.similar_items(101, 2)
    assert [line["item"] for line in about["similar"]] == alike["item"].tolist()
    assert about["similar"][1]["title"] == f"Film no. {alike['item'][1]}"
    users = found("similar", "films.orbm", "--user", 17, "--by", "taste", cwd=files)["similar"]
    assert [line["user"] for line in users] == model.similar_users(17, by="taste")["user"].tolist()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "films.orbm", "--user", "17", "--item", "9"], "--item '9' is not known to the model"),
        (["explain", "survey.orbm", "--user", "1", "--item", "q1"], "holds a CumulativeRBM, not a model"),
        (["similar", "films.orbm"], "give either --item or --user"),
        (["scores", "films.orbm", "survey.sav"], "holds an OrdinalMF, not a model of a survey"),
        (["impute", "survey.orbm"], "'survey.orbm' is a model; give the survey to use it on after it"),
        (["impute", "survey.sav", "survey.sav"], "is no model, but 'survey.sav' is given after it"),
        (["impute", "survey.orbm", "survey.sav", "--weighted"], "--weighted changes nothing here"),
    ],
)
def test_wrong_input_is_one_sentence(files, arguments, said):
    before = names_in(files)
    done = run_here(*arguments, cwd=files)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert names_in(files) == before


def test_help_is_in_sections(files):
    shown = succeed_here("fit", "--help", cwd=files).stdout
    sections = re.findall(r"^([A-Z]\w+):$", shown, re.MULTILINE)
    assert sections == ["Arguments", "Options", "Survey", "Ratings", "Running", "Output"]
    survey = shown.split("Survey:\n")[1].split("Ratings:\n")[0]
    assert "--questions COLUMNS" in survey and "--scale" not in survey
    assert "<" not in shown and "{" not in shown and "x>=" not in shown
    assert "Commands:" in succeed_here("--help", cwd=files).stdout
