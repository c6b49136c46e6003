"""A real Ray: a cluster of this machine with two cores, and two workers."""

import pytest
from long_form import only_long
from one_process import SETTINGS, assert_same_model, assert_same_table, environment, model, predicted, ratings

import ordinalrbm as orbm
from ordinalrbm import ray as engine

ray = pytest.importorskip("ray")
pytestmark = [
    only_long,
    pytest.mark.filterwarnings("ignore"),  # of what Ray imports
    pytest.mark.filterwarnings("error:::ordinalrbm"),
]


@pytest.fixture(scope="module")
def data():
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment().items():
            patched.setenv(name, value)
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=150 * 2**20, log_to_driver=False)
        import ray.data as found

        yield found
        ray.shutdown()


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_model_is_that_of_one_process(data, num_workers):
    known = data.from_pandas([ratings()[:100], ratings()[100:]])
    assert_same_model(engine.fit(known, orbm.OrdinalMF(4, **SETTINGS), num_workers=num_workers))


def test_a_model_in_a_file_never_comes_to_the_driver(data, tmp_path, monkeypatch):
    path = tmp_path / "films.orbm"
    assert engine.fit(data.from_pandas(ratings()), orbm.OrdinalMF(4, **SETTINGS), 2, path) == str(path)
    truth = orbm.load(path).recommend("all", n=2)
    monkeypatch.setattr("ordinalrbm.cluster.load", None)  # here, and not in the workers
    users = data.from_items([{"userId": user} for user in model().users_.labels])
    assert_same_table(engine.recommend(path, users, n=2).to_pandas(), truth, ["user", "rank"])
    with pytest.raises(orbm.DataError, match="'rule' parameter must be"):
        engine.predict(path, data.from_pandas(ratings()), rule="best")


def test_pairs_are_predicted(data):
    pairs = data.from_pandas(ratings())
    for rule in ("mean", "mode"):
        found = engine.predict(model(), pairs, rule=rule).to_pandas()
        assert_same_table(found, predicted(rule), ["userId", "movieId"])


def test_lists_are_those_of_the_model(data):
    truth = model().recommend("all", n=3)
    for users in ("all", data.from_items([{"customerId": user} for user in model().users_.labels])):
        assert_same_table(engine.recommend(model(), users, n=3).to_pandas(), truth, ["user", "rank"])


def test_what_is_wrong_with_the_ratings_is_said_by_the_driver(data):
    missing = ratings().assign(stars=ratings()["stars"].where(ratings()["stars"] > 1))
    with pytest.raises(orbm.DataError, match="the rating is missing; drop such rows"):
        engine.fit(data.from_pandas(missing), orbm.OrdinalMF(2), num_workers=2)


def test_cores_that_are_not_there_are_said(data, monkeypatch):
    monkeypatch.setattr(engine, "_PATIENCE", 2)
    with pytest.raises(orbm.DataError, match="has not had 9 times 1 free cores"):
        engine.fit(data.from_pandas(ratings()), orbm.OrdinalMF(2), num_workers=9)
