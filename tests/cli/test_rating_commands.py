"""Ratings from their file to a model, recommendations, scores and a page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from program import found, run_here, succeed_here

import ordinalrbm as orbm


def test_info(files):
    about = found("info", "films.orbm", cwd=files)
    assert about["model"] == "OrdinalMF" and about["learnt_from"] == "ratings"
    assert (about["users"], about["items"]) == (45, 36)
    assert about["scale"] == "1 < 2 < 3 < 4 < 5"


def test_info_tells_the_release_and_the_notes(files):
    model = orbm.load(files / "films.orbm")
    model.about_ |= {"owner": "the films team"}
    model.save(files / "noted.orbm")
    about = found("info", "noted.orbm", cwd=files)
    assert about["written_by"] == f"ordinalrbm {orbm.__version__}"
    assert about["note, owner"] == "the films team"


def test_predict_pairs(files):
    predict = ["predict", "films.orbm", "pairs.csv", "--probabilities"]
    assert found(*predict, "--out", "a.csv", cwd=files)["lines"] == 4
    table = pd.read_csv(files / "a.csv")
    assert table["user"].tolist() == [1, 2, 99_999, 1]
    shares = table.filter(like="p_").to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    # The mean, as in Python, unless another rule is asked for.
    np.testing.assert_allclose(table["prediction"], shares @ np.arange(1, 6), atol=1e-4)
    model = orbm.load(files / "films.orbm")
    expected = model.predict(table["user"], table["item"])
    np.testing.assert_allclose(table["prediction"], expected, atol=1e-6)
    found(*predict, "--out", "b.csv", "--rule", "median", cwd=files)
    assert pd.read_csv(files / "b.csv")["prediction"].isin([1, 2, 3, 4, 5]).all()


def test_recommend_to_files(files):
    everybody = ["recommend", "films.orbm", "--users", "all", "-n", 3]
    assert found(*everybody, "--out", "best.csv", cwd=files)["lines"] <= 45 * 3
    done = succeed_here(*everybody, "--out", "best.parquet", cwd=files)
    assert done.stdout.endswith("recommendations are in best.parquet.\n")
    table = pd.read_csv(files / "best.csv")
    pd.testing.assert_frame_equal(
        table, pd.read_parquet(files / "best.parquet"), check_dtype=False, rtol=1e-5
    )
    rated = pd.read_csv(files / "ratings.csv").set_index(["userId", "movieId"]).index
    assert not table.set_index(["user", "item"]).index.isin(rated).any()


def test_recommend_on_the_terminal(files):
    done = succeed_here("recommend", "films.orbm", "--users", "17,42,777", "-n", 2, cwd=files)
    assert done.stderr.startswith("Not known, so they get what the average user would like: 777.")
    assert len(done.stdout.splitlines()) == 2 + 6
    some = ["recommend", "films.orbm", "--users", "1", "-n", 36, "--seen"]
    assert len(found(*some, cwd=files)["recommendations"]) == 36


def test_recommend_to_new_users(files):
    arguments = ["recommend", "films.orbm", "--users", "9001", "--ratings", "new.csv"]
    done = succeed_here(*arguments, cwd=files)
    assert done.stderr == "Placed 1 new user and 0 new items.\n"
    best = found(*arguments, cwd=files)["recommendations"]
    assert len(best) == 10
    assert not {line["item"] for line in best} & {101, 102, 103, 104}


def test_ids_that_are_text_with_brackets(files):
    fit = ["fit", "names.csv", "--model", "matrix-crbm", "--item-factors", 0, "--epochs", 2]
    found(*fit, "--out", "names.orbm", cwd=files)
    assert found("info", "names.orbm", cwd=files)["parameters"]["n_item_factors"] == 0
    done = succeed_here("recommend", "names.orbm", "--users", "[b]Zoë 40", "-n", 2, cwd=files)
    assert done.stdout.count("[b]Zoë 40") == 2 and done.stdout.count("[/b]") == 2


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("ordinal-mf", "OrdinalMF"),
        ("matrix-crbm", "MatrixCumulativeRBM"),
        ("gaussian-mf", "GaussianMF"),
        ("multinomial-rbm", "MultinomialRBM"),
    ],
)
def test_every_model_of_ratings(files, model, name):
    fit = ["fit", "ratings.csv", "--model", model, "--factors", 3, "--epochs", 2]
    found(*fit, "--out", f"{model}.orbm", cwd=files)
    assert found("info", f"{model}.orbm", cwd=files)["model"] == name
    best = found("recommend", f"{model}.orbm", "--users", "17", "-n", 2, cwd=files)
    assert len(best["recommendations"]) == 2


def test_report(files):
    arguments = ["report", "ratings.csv", "--epochs", 2, "--user", 17, "--title", "<b>Films</b>"]
    found(*arguments, "--out", "a.html", cwd=files)
    page = (files / "a.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;Films" in page and "<b>Films" not in page
    succeed_here("report", "films.orbm", "--data", "later.csv", "--out", "b.html", cwd=files)
    assert "<html" in (files / "b.html").read_text(encoding="utf-8")


def test_a_column_of_weights(tmp_path):
    user, item = np.divmod(np.arange(240), 12)
    ratings = pd.DataFrame({"user": user, "item": item, "rating": 1 + (user + item) % 3, "trust": user % 3})
    ratings.to_csv(tmp_path / "trusted.csv", index=False)
    fit = ("fit", "trusted.csv", "--epochs", "1", "--seed", "0", "--factors", "2", "--sample-weight")
    succeed_here(*fit, "trust", cwd=tmp_path)
    known = orbm.load(tmp_path / "trusted.orbm").ratings_
    assert known.n_ratings == np.count_nonzero(ratings["trust"])
    assert set(known.observations.weight.tolist()) == {1.0, 2.0}
    for options, sentence in (
        (("faith",), "has no column 'faith'"),
        (("trust", "--model", "multinomial-rbm"), "leave out sample_weight"),
    ):
        failed = run_here(*fit, *options, cwd=tmp_path)
        assert failed.returncode == 2
        assert sentence in failed.stderr
