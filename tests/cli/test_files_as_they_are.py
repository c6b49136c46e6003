"""Files of ratings as shops and sites export them, by the program as its users run it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from program import LONG, found, names_in, run_here, succeed_here
from small_files import ratings_frame

import ordinalrbm as orbm
from ordinalrbm.data.triples import NAMES

N_ITEMS = 36
QUICK = ("--epochs", 1, "--factors", 2, "--out", "m.orbm")
if not LONG:  # a process of its own takes seconds
    run, succeed = run_here, succeed_here


def named(user: str, item: str, rating: str, time: str = "when") -> pd.DataFrame:
    """The ratings of the other tests under other names of columns."""
    frame = ratings_frame()
    return frame.rename(columns={"userId": user, "movieId": item, "rating": rating, "timestamp": time})


def write(folder: Path, frame: pd.DataFrame, name: str = "r.csv") -> Path:
    frame.to_csv(folder / name, index=False)
    return folder / name


def learnt(folder: Path) -> orbm.OrdinalMF:
    return orbm.load(folder / "m.orbm")


def refused(*arguments: object, cwd: Path) -> str:
    """The sentence that a command ends with, having written nothing."""
    before = names_in(cwd)
    done = run_here(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and names_in(cwd) == before
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1
    assert "unforeseen" not in done.stderr
    return done.stderr.removeprefix("Error: ").rstrip("\n")


# ---- columns ----------------------------------------------------------------------------------


def test_named_columns_in_every_command_that_reads_ratings(tmp_path):
    frame = named("wer", "was", "wie")
    write(tmp_path, frame.iloc[:-60])
    write(tmp_path, frame.iloc[-60:], "later.csv")
    write(tmp_path, frame[["wer", "was"]].head(3), "pairs.csv")
    write(tmp_path, frame.head(3).assign(wer=9001), "new.csv")
    long = ["--user-column", "wer", "--item-column", "was", "--rating-column", "wie"]
    succeed_here("fit", "r.csv", *QUICK, *long, cwd=tmp_path)
    test = ["evaluate", "m.orbm", "--data", "later.csv", "--json"]
    assert json.loads(succeed_here(*test, *long, cwd=tmp_path).stdout)["hidden"] == 60
    succeed_here("predict", "m.orbm", "pairs.csv", *long[:4], "--out", "p.csv", cwd=tmp_path)
    assert len(pd.read_csv(tmp_path / "p.csv")) == 3
    best = ["recommend", "m.orbm", "--users", "9001", "--ratings", "new.csv", *long]
    assert "Placed 1 new user" in succeed_here(*best, cwd=tmp_path).stderr
    page = ["report", "r.csv", "--epochs", 1, "--user", "17", *long, "--out", "p.html"]
    succeed_here(*page, cwd=tmp_path)
    assert (tmp_path / "p.html").exists()
    scores = ["evaluate", "r.csv", *long, "--time-column", "when", "--epochs", 1, "--min-ratings", 16]
    assert "the last ratings of each user" in succeed_here(*scores, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--user-column", "wer"], "'r.csv' has no column 'item', only ['wer', 'was', 'wie', 'when']"),
        (["--user-column", "nobody"], "'r.csv' has no column 'nobody', only"),
        (
            ["--user-column", "wer", "--item-column", "wer", "--rating-column", "wie"],
            "'wer' cannot be the user and the item",
        ),
        (["--time-column", "when", "--survey"], "--time-column changes nothing here"),
        (["--survey", "--user-column", "wer"], "--user-column changes nothing here"),
    ],
)
def test_wrong_names(options, sentence, tmp_path):
    write(tmp_path, named("wer", "was", "wie"))
    assert sentence in refused("fit", "r.csv", *QUICK, *options, cwd=tmp_path)


def test_two_columns_for_one_role(tmp_path):
    write(tmp_path, named("customer_id", "product_id", "stars").assign(score=1))
    sentence = refused("fit", "r.csv", *QUICK, cwd=tmp_path)
    assert "'stars' and 'score' could both be the rating" in sentence
    assert "--rating-column stars, or --survey if it is a survey." in sentence
    succeed_here("fit", "r.csv", *QUICK, "--rating-column", "stars", cwd=tmp_path)
    assert learnt(tmp_path).scales_.labels == (1, 2, 3, 4, 5)


# ---- not a survey -------------------------------------------------------------------------------


def test_unknown_names_are_asked_for(tmp_path):
    write(tmp_path, named("kunde", "artikel nr", "note", "zeitpunkt"))
    for command in ("fit", "evaluate", "report"):
        out = [] if command == "evaluate" else ["--out", "m.out"]
        sentence = refused(command, "r.csv", *out, cwd=tmp_path)
        assert sentence.startswith("File 'r.csv' looks like ratings")
        assert "beside columns such as 'kunde' and 'artikel nr'; add --user-column COLUMN" in sentence
        assert sentence.endswith(" --rating-column COLUMN, or --survey if it is a survey.")


def test_one_may_insist_on_a_survey(tmp_path):
    write(tmp_path, named("kunde", "artikel", "note", "zeitpunkt"))
    done = succeed_here("fit", "r.csv", *QUICK, "--survey", cwd=tmp_path)
    assert "1 questions" in done.stderr


def test_surveys_are_still_surveys(tmp_path):
    rng = np.random.default_rng(0)
    survey = pd.DataFrame({"person_nr": np.arange(200), "income": rng.integers(0, 900, 200)})
    survey["zip"] = rng.integers(10_000, 10_090, 200)
    for name in ("q1", "q2", "q3", "q4"):
        survey[name] = rng.integers(1, 6, 200)
    write(tmp_path, survey)
    assert "4 questions" in succeed_here("fit", "r.csv", *QUICK, cwd=tmp_path).stderr
    write(tmp_path, survey[["person_nr", "q1"]])
    assert "1 questions" in succeed_here("fit", "r.csv", *QUICK, cwd=tmp_path).stderr


# ---- scales and duplicates ----------------------------------------------------------------------


def test_a_scale_in_words(tmp_path):
    words = dict(enumerate(["awful", "bad", "fair", "good", "great"], start=1))
    write(tmp_path, named("user", "item", "rating").replace({"rating": words}))
    sentence = refused("fit", "r.csv", *QUICK, cwd=tmp_path)
    assert "'r.csv', column 'rating', row 0" in sentence
    assert "is no number; correct it, or give all labels in their order with --scale" in sentence
    scale = ["--scale", "awful,bad,fair,good,great,perfect"]
    succeed_here("fit", "r.csv", *QUICK, *scale, cwd=tmp_path)
    assert learnt(tmp_path).scales_.labels == (*words.values(), "perfect")
    # All of them are learnt, so that others must be given.
    others = named("user", "item", "rating").replace({"rating": words}).assign(user=99999)
    write(tmp_path, others.drop_duplicates("item"), "others.csv")
    scores = found("evaluate", "m.orbm", "--data", "others.csv", cwd=tmp_path)
    assert scores["hidden"] == others["item"].nunique()


@pytest.mark.parametrize("scale", ["1,1,2", "5..1", "1..", "a..c", "", "1,2.5..5", "0,0..5"])
def test_no_scale(scale, tmp_path):
    write(tmp_path, named("user", "item", "rating"))
    done = run_here("fit", "r.csv", *QUICK, "--scale", scale, cwd=tmp_path)
    assert done.returncode == 2 and f"--scale '{scale}' is no scale" in done.stderr


TWICE = """user,item,stars,date
a,x,1,2024-05-02
a,x,5,2024-05-01
a,y,2,2024-05-01
b,x,4,2024-05-01
"""


def the_rating(folder: Path, *options: object) -> float:
    """What user a is said to have thought of item x."""
    succeed_here("fit", "r.csv", *QUICK, *options, cwd=folder)
    ratings = learnt(folder).ratings_.to_frame().set_index(["user", "item"])["rating"]
    assert ratings.index.is_unique and len(ratings) == 3
    return ratings["a", "x"]


def test_repeated_ratings(tmp_path):
    (tmp_path / "r.csv").write_text(TWICE)
    sentence = refused("fit", "r.csv", *QUICK, cwd=tmp_path)
    assert "'r.csv', row 1 (counted from 0): user 'a' has rated item 'x' before, in row 0" in sentence
    assert sentence.endswith("choose --duplicates last.")
    assert the_rating(tmp_path, "--duplicates", "last") == 1
    (tmp_path / "r.csv").write_text(TWICE.replace("date", "remark"))
    assert the_rating(tmp_path, "--duplicates", "last") == 5


# ---- times and ids ------------------------------------------------------------------------------


def test_ids_that_look_like_numbers_in_one_file_only(tmp_path):
    frame = named("user", "item", "rating")[["user", "item", "rating"]]
    frame["user"] = frame["user"].astype(str).replace("1", "001")
    write(tmp_path, frame)
    write(tmp_path, pd.DataFrame({"user": [2, 3], "item": [101, 102]}), "pairs.csv")
    succeed_here("fit", "r.csv", *QUICK, cwd=tmp_path)
    succeed_here("predict", "m.orbm", "pairs.csv", "--out", "p.csv", "--rule", "mean", cwd=tmp_path)
    expected = learnt(tmp_path).predict(["2", "3"], [101, 102])
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].to_numpy() == pytest.approx(expected)


# ---- what is known of users and items -----------------------------------------------------------


@pytest.fixture
def shop(tmp_path):
    """Ratings, and what is known of everybody, also of some who have not rated anything."""
    write(tmp_path, named("customer_id", "sku", "stars"))
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"customer_id": np.arange(1, 61), "age": rng.integers(18, 80, 60)})
    people["town"] = rng.choice(["Ulm", "Bonn"], 60)
    write(tmp_path, people, "people.csv")
    goods = pd.DataFrame({"sku": np.arange(101, 101 + N_ITEMS), "kind": "tea|milk"})
    goods.loc[::2, "kind"] = "cake"
    goods.to_parquet(tmp_path / "goods.parquet")
    return tmp_path


def test_side_tables(shop):
    tables = ["--users", "people.csv", "--items", "goods.parquet"]
    succeed_here("fit", "r.csv", *QUICK, *tables, cwd=shop)
    model = learnt(shop)
    assert (len(model.users_), len(model.items_)) == (60, N_ITEMS)  # 60 without ratings, too
    old, young = model.predict([50, 51], 101)
    assert old != young
    frame = named("user", "item", "rating")
    same = orbm.OrdinalMF(2, n_epochs=1, random_state=0).fit(
        frame,
        user_features=pd.read_csv(shop / "people.csv").rename(columns={"customer_id": "user"}),
        item_features=pd.read_parquet(shop / "goods.parquet")
        .rename(columns={"sku": "item"})
        .assign(kind=lambda goods: goods["kind"].str.split("|")),
    )
    assert same.predict_proba([50, 51], 101) == pytest.approx(model.predict_proba([50, 51], 101))
    how = ["--epochs", 4, "--factors", 2, "--min-ratings", 16]
    plain = found("evaluate", "r.csv", *how, cwd=shop)
    assert found("evaluate", "r.csv", *how, *tables, cwd=shop)["model"] != plain["model"]
    succeed_here("report", "r.csv", "--epochs", 1, *tables, "--out", "p.html", cwd=shop)


def test_options_that_change_nothing_for_a_model(shop):
    succeed_here("fit", "r.csv", *QUICK, cwd=shop)
    test = ["evaluate", "m.orbm", "--data", "r.csv"]
    for options in (["--scale", "1..5"], ["--users", "people.csv"], ["--survey"]):
        assert f"{options[0]} changes nothing" in refused(*test, *options, cwd=shop)
    asked = refused("recommend", "m.orbm", "--user-column", "customer_id", cwd=shop)
    assert "without --ratings" in asked


# ---- many levels --------------------------------------------------------------------------------


def test_the_page_has_every_name_that_is_known():
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    for role, names in NAMES.items():
        listed = ", ".join(f"`{name}`" for name in names)
        assert f"| {'time' if role == 'timestamp' else role} | {listed} |" in page
