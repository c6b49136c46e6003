"""What ``ordinalrbm evaluate`` says of ratings: the figures, beside which, and of which ratings."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from program import found, run_here, succeed_here

import ordinalrbm as orbm
from ordinalrbm.evaluate import score_model, split

NAMES = {"userId": "user", "movieId": "item"}


def read(path):
    return pd.read_csv(path).rename(columns=NAMES)


def test_of_a_file(files):
    done = succeed_here("evaluate", "ratings.csv", "--epochs", 2, cwd=files)
    assert "Hidden are the last ratings of each user" in done.stderr
    assert "users with fewer than 30 ratings are learnt from and not tested" in done.stderr
    for words in ("root mean squared error", "user + item biases", "marginal", "popularity"):
        assert words in done.stdout
    assert "ratings to watch is no candidate" in done.stdout


def test_all_users_are_learnt_from(files):
    ratings = read(files / "ratings.csv")
    train, validation, test = split(ratings)
    assert 0 < test["user"].nunique() < ratings["user"].nunique() == train["user"].nunique()
    scores = found("evaluate", "ratings.csv", "--epochs", 2, cwd=files)
    model = orbm.OrdinalMF(50, n_epochs=2, random_state=0).fit(train, validation=validation)
    expected = score_model(model, test, validation)
    assert scores["model"] == pytest.approx(expected.ratings["model"])
    assert scores["biases"] == pytest.approx(expected.ratings["biases"])
    lists = scores["ranking"]
    assert lists["model"]["ndcg"] == pytest.approx(expected.ranking["model"].ndcg)
    assert lists["popularity"]["recall"] == pytest.approx(expected.ranking["popularity"].recall)


def test_a_model_on_later_ratings(files):
    scores = found("evaluate", "films.orbm", "--data", "later.csv", cwd=files)
    assert scores["hidden"] == 90 and scores["learnt_before"] == 0
    assert scores["model"]["rmse"] < scores["marginal"]["rmse"]
    expected = score_model(orbm.load(files / "films.orbm"), read(files / "later.csv"))
    for who in ("model", "biases", "marginal"):
        assert scores[who] == pytest.approx(expected.ratings[who])
    lists = scores["ranking"]
    for who, own in expected.ranking.items():
        assert lists[who] == pytest.approx({"ndcg": own.ndcg, "recall": own.recall, "coverage": own.coverage})
    assert (lists["top"], lists["liked"], lists["items"]) == (10, 4, 36)
    assert lists["users"] + lists["users_without_liked"] == 45


def test_training_ratings_are_noticed(files):
    both = pd.concat([read(files / "ratings.csv"), read(files / "later.csv")])
    both.to_csv(files / "both.csv", index=False)
    done = succeed_here("evaluate", "films.orbm", "--data", "both.csv", cwd=files)
    n_learnt = len(both) - 90
    assert f"Left out are {n_learnt:,} of {len(both):,} ratings: the model has learnt" in done.stdout
    assert "90 hidden ratings" in done.stdout
    told = succeed_here("evaluate", "films.orbm", "--data", "both.csv", "--json", cwd=files)
    scores = json.loads(told.stdout)
    assert (scores["hidden"], scores["learnt_before"]) == (90, n_learnt)
    honest = found("evaluate", "films.orbm", "--data", "later.csv", cwd=files)
    assert scores == honest | {"learnt_before": n_learnt}
    nothing = run_here("evaluate", "films.orbm", "--data", "ratings.csv", cwd=files)
    assert nothing.returncode == 2 and nothing.stdout == ""
    assert nothing.stderr.startswith("Error: All ") and nothing.stderr.count("\n") == 1


def test_nobody_liked_anything(files):
    later = read(files / "later.csv")
    later[later["rating"] < 4].to_csv(files / "poor.csv", index=False)
    done = succeed_here("evaluate", "films.orbm", "--data", "poor.csv", cwd=files)
    assert "lists are not judged" in done.stdout and "NDCG" not in done.stdout
    assert "ranking" not in found("evaluate", "films.orbm", "--data", "poor.csv", cwd=files)
