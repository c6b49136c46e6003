"""One step from a file to a result, chosen questions, default names, tables, titles, comparisons."""

from __future__ import annotations

import re

import docx
import openpyxl
import pandas as pd
import pyreadstat
import pytest
from program import found, names_in, run, run_here, succeed_here
from small_files import LEVELS, QUESTIONS, survey_frame
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm import cli
from ordinalrbm.files.survey import read_survey

QUICK = ["--epochs", 1]


def test_impute_and_scores_need_no_model(files):
    about = found("impute", "survey.sav", *QUICK, cwd=files)
    assert about["out"] == ["survey-complete.sav"]
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


def test_tables_of_a_report_of_ratings(files):
    succeed_here("report", "films.orbm", "--data", "later.csv", "--tables", "f.xlsx", cwd=files)
    book = openpyxl.load_workbook(files / "f.xlsx")
    measures = {row[0]: row[1] for row in book["Scores"].iter_rows(min_row=2, values_only=True)}
    test = pd.read_csv(files / "later.csv")
    model = orbm.load(files / "films.orbm")
    wrong = model.predict(test["userId"], test["movieId"], times=test["timestamp"]) - test["rating"]
    assert measures["root mean squared error (mean)"] ** 2 == pytest.approx((wrong**2).mean())
    assert {"Example recommended", "Scores ranking"} < set(book.sheetnames)


def test_an_excel_file_goes_in_and_comes_out(files):
    survey_frame().to_excel(files / "book.xlsx", sheet_name="Wave 1", index=False)
    succeed_here("fit", "book.xlsx:Wave 1", *QUICK, cwd=files)
    assert (files / "book-Wave 1.orbm").exists()
    about = found("impute", "book.xlsx", *QUICK, "--questions", "q5", cwd=files)
    after = pd.read_excel(files / "book-complete.xlsx")
    assert about["out"] == ["book-complete.xlsx"] and after["q5"].notna().all()
    assert after["q6"].isna().sum() == survey_frame()["q6"].isna().sum()


def test_compare(files):
    succeed_here("fit", "ratings.csv", "-k", 2, "--epochs", 1, "-o", "few.orbm", cwd=files)
    about = found("compare", "films.orbm", "few.orbm", "later.csv", cwd=files)
    own = found("evaluate", "few.orbm", "--data", "later.csv", cwd=files)
    for name, line in about["measures"].items():
        assert line["second"] == pytest.approx(own["model"][name], abs=1e-9)
        assert line["difference"] == pytest.approx(line["second"] - line["first"])
        assert line["standard_error"] > 0
    assert about["tested"] == own["hidden"]
    shown = succeed_here("compare", "films.orbm", "few.orbm", "later.csv", cwd=files).stdout
    assert "films.orbm" in shown and "difference" in shown


def test_compare_surveys(files):
    succeed_here("fit", "survey.sav", "-k", 1, *QUICK, "-o", "one.orbm", cwd=files)
    arguments = ["compare", "survey.orbm", "one.orbm", "survey.sav"]
    done = run_here(*arguments, "--json", cwd=files)
    assert done.returncode == 0 and done.stderr.count("Warning: The model was learnt from") >= 1
    succeed_here("fit", "survey.sav", "--questions", "q1,q2", *QUICK, "-o", "two.orbm", cwd=files)
    done = run_here("compare", "survey.orbm", "two.orbm", "survey.sav", cwd=files)
    assert done.returncode == 2 and "have not the same questions, one has 'q3'" in done.stderr
    done = run_here("compare", "survey.orbm", "films.orbm", "survey.sav", cwd=files)
    assert done.returncode == 2 and "a model of ratings, the other of a survey" in done.stderr


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


def test_titles_in_recommendations(files):
    best = found("recommend", "films.orbm", "--user", 17, "--item-names", "titles.csv", cwd=files)
    assert all(line["title"] == f"Film no. {line['item']}" for line in best["recommendations"])
    done = run_here("recommend", "films.orbm", "--item-names", "titles.csv:titel", cwd=files)
    assert done.returncode == 2 and "no column 'titel' (did you mean 'title'?)" in done.stderr


def test_titles_in_a_report(files, monkeypatch):
    given = {}
    monkeypatch.setattr(
        "ordinalrbm.pages.reporting.ratings_page", lambda *_, **about: given.update(about) or "a page"
    )
    succeed_here("report", "films.orbm", "--item-names", "titles.csv", "--user", 17, cwd=files)
    assert given["item_names"][101] == "Film no. 101" and given["example_user"] == 17


def test_questions_that_go_together(files):
    lines = found("similar", "survey.orbm", "--item", "q1", "-n", 3, cwd=files)["similar"]
    reading = orbm.load(files / "survey.orbm").factor_solution()
    loadings = reading.loadings
    implied = (loadings @ loadings.T)["q1"].drop("q1").abs().sort_values(ascending=False)
    assert [line["question"] for line in lines] == implied.index[:3].tolist()
    assert [abs(line["correlation"]) for line in lines] == pytest.approx(implied[:3].tolist())
    assert lines[0]["text"] == QUESTIONS[lines[0]["question"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "films.orbm", "--user", "17", "--item", "9"], "--item '9' is not known to the model"),
        (["explain", "survey.orbm", "--user", "1", "--item", "q1"], "holds a CumulativeRBM, not a model"),
        (["similar", "films.orbm"], "give either --item or --user"),
        (["similar", "survey.orbm", "--item", "q11"], "no question of the model (did you mean 'q1'?)"),
        (["scores", "films.orbm", "survey.sav"], "holds an OrdinalMF, not a model of a survey"),
        (["impute", "survey.orbm"], "'survey.orbm' is a model; give the survey to use it on after it"),
        (["impute", "survey.sav", "survey.sav"], "is no model, but 'survey.sav' is given after it"),
        (["impute", "survey.orbm", "survey.sav", "--weighted"], "--weighted changes nothing here"),
        (["compare", "films.orbm", "films.orbm", "later.csv"], "is given twice"),
        (["help", "ft"], "No such command 'ft'"),
    ],
)
def test_wrong_input_is_one_sentence(files, arguments, said):
    before = names_in(files)
    done = run_here(*arguments, cwd=files)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert names_in(files) == before


def test_help_is_in_sections(files):
    shown = succeed_here("help", "fit", cwd=files).stdout
    assert shown == succeed_here("fit", "--help", cwd=files).stdout
    sections = re.findall(r"^([A-Z]\w+):$", shown, re.MULTILINE)
    assert sections == ["Arguments", "Options", "Survey", "Ratings", "Running", "Output"]
    survey = shown.split("Survey:\n")[1].split("Ratings:\n")[0]
    assert "--questions COLUMNS" in survey and "--scale" not in survey
    assert "<" not in shown and "{" not in shown and "x>=" not in shown
    assert "Commands:" in succeed_here("help", cwd=files).stdout


def test_colour_is_for_terminals(tmp_path):
    assert "\x1b" not in run("fit", "--help", cwd=tmp_path).stdout
    terminal = CliRunner().invoke(cli.app, ["fit", "--help"], color=True).stdout
    assert "\x1b[36m--questions COLUMNS\x1b[0m" in terminal and "\x1b[1mSurvey\x1b[0m:" in terminal
    plain = CliRunner().invoke(cli.app, ["fit", "--help"], color=True, env={"NO_COLOR": "1"}).stdout
    assert "\x1b" not in plain


def test_timings_add_up(files):
    about = found("fit", "survey.sav", *QUICK, "-o", "a.orbm", "--timings", cwd=files)
    stages = about["stages"]
    assert sum(stages.values()) == pytest.approx(about["seconds"], abs=0.01)
    assert stages["learning"] > 0 and list(stages)[-1] == "other"


def test_names_for_spss(tmp_path):
    frame = survey_frame().rename(columns={"q1": "Q 1", "q6": "how often?"})
    frame.to_csv(tmp_path / "blanks.csv", index=False)
    done = succeed_here("impute", "blanks.csv", *QUICK, "-o", "a.sav", "--quiet", cwd=tmp_path)
    assert done.stderr.count("\n") == 1 and "'Q 1' is Q_1, 'how often?' is how_often" in done.stderr
    table, said = pyreadstat.read_sav(tmp_path / "a.sav")
    assert said.column_names_to_labels["Q_1"] == "Q 1" and set(LEVELS) - {"q1", "q6"} < set(table)
