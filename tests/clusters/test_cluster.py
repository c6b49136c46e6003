"""What engines share, without an engine."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from one_process import SETTINGS, assert_same_model, model, ratings

import ordinalrbm as orbm
from ordinalrbm import cluster, mlflow, ray, spark

ALONE = cluster.Place(0, 1, "")
KNOWN = pa.Table.from_pandas(ratings()[["userId", "movieId", "stars", "date"]], preserve_index=False)


def test_a_single_process_learns_what_fit_does():
    outcome = cluster.learn(orbm.OrdinalMF(4, **SETTINGS), KNOWN, ALONE, 1, {})
    given = orbm.OrdinalMF(4, **SETTINGS)
    assert_same_model(cluster.learnt([outcome, (b"", "")], given))
    assert not hasattr(given, "models_")


def test_a_single_process_writes_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = cluster.seen_by_all("films.orbm")
    outcome = cluster.learn(orbm.OrdinalMF(4, **SETTINGS), KNOWN, ALONE, 1, {}, path)
    assert cluster.learnt([outcome], orbm.OrdinalMF(), path) == str(tmp_path / "films.orbm")
    assert_same_model(orbm.load(path))
    asked = ("predict", path, KNOWN.column_names, {"rule": "mean"}, lambda work: work())
    by_file = cluster.question(*asked).answer(KNOWN, "in a file", lambda: path)
    np.testing.assert_allclose(
        by_file["prediction"], model().predict(ratings()["userId"], ratings()["movieId"], "mean")
    )
    outcome = cluster.learn(orbm.OrdinalMF(), KNOWN, ALONE, 1, {}, str(tmp_path / "no" / "films.orbm"))
    assert outcome[1].endswith("does not exist; create it or write elsewhere.")
    with pytest.raises(orbm.DataError, match="Give the users as a table with a column user"):
        cluster.users_table(path, "all")


def test_what_is_of_the_run_is_as_given():
    outcome = cluster.learn(orbm.OrdinalMF(4, **SETTINGS), KNOWN, ALONE, 1, {})
    found = cluster.learnt([outcome], orbm.OrdinalMF(4, n_jobs=1, verbose=True))
    assert (found.n_jobs, found.verbose, found.random_state) == (1, True, None)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [(2, None, "the rating is missing"), (0, None, "the user is missing"), (2, np.inf, "is infinity")],
)
def test_wrong_ratings_are_said_by_the_driver(column, value, said):
    frame = KNOWN.to_pandas().astype({"stars": float})
    frame.iloc[7, column] = value
    part = pa.Table.from_pandas(frame, preserve_index=False)
    outcome = cluster.learn(orbm.OrdinalMF(2, **SETTINGS), part, ALONE, 1, {})
    with pytest.raises(orbm.DataError, match=said):
        cluster.learnt([(b"", ""), outcome], orbm.OrdinalMF())


def test_nothing_at_all_is_said_to_be_nothing():
    outcome = cluster.learn(orbm.OrdinalMF(2), pa.table({}), ALONE, 1, {})
    assert outcome == (b"", "There is no rating in the data; give at least one.")


@pytest.mark.parametrize(
    ("estimator", "size", "names", "said"),
    [
        (orbm.GaussianMF(), 2, ["user", "item", "rating"], "not GaussianMF; learn that in a single process"),
        (orbm.OrdinalMF(posterior="sampled"), 2, ["user", "item", "rating"], "not posterior='sampled'"),
        (orbm.OrdinalMF(), 0, ["user", "item", "rating"], "'processes' parameter must be a whole number"),
        (orbm.OrdinalMF(), 2, ["user", "item", "mark"], "no column 'rating', only"),
    ],
)
def test_what_cannot_be_learnt_is_refused_before_anything_starts(estimator, size, names, said):
    with pytest.raises(orbm.DataError, match=said):
        cluster.columns_to_learn(estimator, size, "processes", names)


@pytest.mark.parametrize("rule", ["mean", "mode"])
def test_pairs_are_predicted_beside_their_columns(rule):
    question = cluster.Question.of("predict", model(), KNOWN.column_names, {"rule": rule})
    content = cluster.to_bytes(model())
    found = question.answer(KNOWN, f"by {rule}", lambda: content)
    assert found.column_names == [*KNOWN.column_names, "prediction"]
    truth = model().predict(ratings()["userId"], ratings()["movieId"], rule)
    np.testing.assert_allclose(found["prediction"], truth)
    assert question.answer(KNOWN[:0], f"by {rule}", lambda: content).schema == found.schema


def test_a_model_is_loaded_once_and_a_new_one_takes_its_place():
    question = cluster.Question.of("recommend", model(), ["visitorid"], {"n": 2})
    users, asked = pa.table({"visitorid": ["ü3", "nobody"]}), []

    def content():
        asked.append(1)
        return cluster.to_bytes(model())

    for name in ("one", "one", "two"):
        found = question.answer(users, name, content)
        truth = model().recommend(["ü3", "nobody"], 2)
        assert found.to_pandas()[["user", "item"]].equals(truth[["user", "item"]])
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("method", "fitted", "names", "options", "said"),
    [
        ("predict", orbm.CumulativeRBM(), ["user", "item"], {}, "must be one of ratings"),
        ("predict", None, ["user", "thing"], {}, "no column 'item'"),
        ("predict", None, ["user", "item", "prediction"], {}, "'prediction' already"),
        ("predict", None, ["user", "item"], {"rule": "best"}, "'rule' parameter must be"),
        ("recommend", None, ["item"], {}, "no column 'user'"),
        ("recommend", None, ["user"], {"n": 0}, "'n' parameter must be"),
    ],
)
def test_wrong_questions_are_refused_before_anything_starts(method, fitted, names, options, said):
    with pytest.raises(orbm.DataError, match=said):
        cluster.Question.of(method, fitted or model(), names, options)


def test_all_users_are_those_that_the_model_knows():
    assert cluster.users_table(model(), "all")["user"].to_pylist() == model().users_.labels.tolist()
    assert cluster.users_table(model(), [3, 1])["user"].to_pylist() == [3, 1]
    assert cluster.users_table(model(), "ü1")["user"].to_pylist() == ["ü1"]


def test_types_are_known_where_the_first_user_has_rated_all():
    known = pd.DataFrame({"user": [*"aab"], "item": [*"xyx"], "rating": [1, 2, 2]})
    few = orbm.OrdinalMF(1, n_epochs=1, random_state=0).fit(known)
    question = cluster.Question.of("recommend", few, ["user"], {})
    assert not pa.types.is_null(question.added["item"])
    assert question.answer(pa.table({"user": ["a"]}), "few", lambda: cluster.to_bytes(few)).num_rows == 0


def test_what_mlflow_serves_is_what_predict_gives():
    given = pd.DataFrame({"item": [3, 4], "user": ["ü1", "ü2"]})
    served = mlflow._Pyfunc(model())
    assert served.predict(given).tolist() == model().predict(["ü1", "ü2"], [3, 4]).tolist()
    by_mode = served.predict(given, {"rule": "mode"})
    assert by_mode.tolist() == model().predict(["ü1", "ü2"], [3, 4], "mode").tolist()


def test_the_faces_of_engines_have_the_same_names():
    for engine in (spark, ray):
        assert all(callable(getattr(engine, name)) for name in ("fit", "predict", "recommend"))
