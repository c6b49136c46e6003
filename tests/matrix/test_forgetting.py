"""Users and items that are forgotten: nothing of them is left, and the others stay right."""

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.errors import DataError

USERS, ITEMS = [f"person-{u:03d}" for u in range(40)], [f"thing-{i:03d}" for i in range(15)]
GONE, GONE_ITEMS = ["person-003", "person-017"], ["thing-004"]
FEW = {"n_epochs": 2, "random_state": 0, "demand_factors": 4}
MODELS = {
    "OrdinalMF": lambda: orbm.OrdinalMF(3, **FEW),
    "point": lambda: orbm.OrdinalMF(3, posterior="point", **FEW),
    "GaussianMF": lambda: orbm.GaussianMF(3, **FEW),
    "sampled": lambda: orbm.OrdinalMF(3, posterior="sampled", n_draws=3, **{**FEW, "n_epochs": 9}),
    "MatrixCumulativeRBM": lambda: orbm.MatrixCumulativeRBM(3, 2, **FEW),
    "MultinomialRBM": lambda: orbm.MultinomialRBM(3, **FEW),
}
pytestmark = pytest.mark.filterwarnings("ignore:The chain has not mixed")


def ratings():
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((len(USERS), len(ITEMS))) < 0.6)
    user, item = np.append(user, 3), np.append(item, 14)
    frame = pd.DataFrame({"user": np.array(USERS)[user], "item": np.array(ITEMS)[item]})
    frame["rating"] = 1 + (user // 8 + item // 3 + rng.integers(0, 2, user.size)) % 5
    frame["timestamp"] = rng.permutation(user.size) * 60
    # Nobody but one who is forgotten has rated the last item.
    alone = (frame["item"] == "thing-014") & (frame["user"] != "person-003")
    return frame[~alone].drop_duplicates(["user", "item"])


def left(frame, users=GONE, items=GONE_ITEMS):
    return frame[~frame["user"].isin(users) & ~frame["item"].isin(items)]


@pytest.fixture(scope="module", params=MODELS)
def path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("fitted") / "model.orbm"
    MODELS[request.param]().fit(ratings()).save(path)
    return path


def test_nothing_is_left_in_memory_or_in_the_file(path, tmp_path):
    model = orbm.load(path)
    assert model.forget(GONE, GONE_ITEMS) is model
    rest = left(ratings())
    assert model.users_.labels.tolist() == sorted(set(USERS) - set(GONE))
    assert model.items_.labels.tolist() == sorted(set(ITEMS) - set(GONE_ITEMS))
    found = model.ratings_.to_frame()
    expected = rest[["user", "item", "rating"]].sort_values(["user", "item"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    by_cell = rest.sort_values(["user", "item"])["timestamp"].to_numpy()
    assert np.array_equal(model.ratings_.times.value, by_cell)
    new = tmp_path / "new.orbm"
    model.save(new)
    content, before = new.read_bytes(), path.read_bytes()
    for name in (*GONE, *GONE_ITEMS):
        assert name.encode() in before and name.encode() not in content


def test_a_file_is_the_model_that_was_saved(path, tmp_path):
    model = orbm.load(path).forget(GONE, GONE_ITEMS)
    model.save(tmp_path / "new.orbm")
    again = orbm.load(tmp_path / "new.orbm")
    users, items = model.users_.labels[:9], model.items_.labels[:9]
    np.testing.assert_array_equal(model.predict_proba(users, items), again.predict_proba(users, items))
    assert model.recommend(users, 5).equals(again.recommend(users, 5))
    again.save(tmp_path / "again.orbm")
    assert (tmp_path / "again.orbm").read_bytes() == (tmp_path / "new.orbm").read_bytes()


def test_the_others_stay_nearly_where_they_were(path):
    model, before = orbm.load(path).forget(GONE), orbm.load(path)
    users = np.repeat(model.users_.labels, 14)
    items = np.tile(model.items_.labels[:14], len(model.users_))
    now, then = model.predict(users, items), before.predict(users, items)
    assert np.abs(now - then).mean() < 0.1
    shares = model.recommend("nobody", 14, score="demand").set_index("item")["score"]
    counts = left(ratings(), items=[])["item"].value_counts() / len(model.users_)
    for item in ITEMS[:14]:
        assert shares[item] == pytest.approx(counts[item], rel=1e-5)


def test_an_item_that_nobody_is_left_to_have_rated_is_unknown(path):
    model = orbm.load(path).forget(["person-003"])
    unknown = model.predict_proba("person-000", "another")
    known = model.predict_proba("person-000", "thing-014")
    np.testing.assert_allclose(known, unknown, atol=0.02)
    before = orbm.load(path)
    assert "thing-014" in model.items_ and before.ratings_.observations.column_counts[14] == 1


def test_a_model_goes_on_after_it_has_forgotten(path, tmp_path):
    model = orbm.load(path).forget(GONE, GONE_ITEMS)
    new = (["person-003"] * 2, ["thing-001", "thing-002"], [5, 1])
    assert "person-003" in model.fold_in(new).users_
    assert model.recommend(ratings=new, n=2)["user"].tolist() == ["person-003"] * 2
    if model._can_update:
        model.update(new)
        assert model.recommend("person-003", n=30)["item"].isin(model.items_.labels).all()
    model.save(tmp_path / "m.orbm")


def test_forgetting_again_is_forgetting_together(path):
    together = orbm.load(path).forget(GONE)
    by_turns = orbm.load(path).forget(GONE[0]).forget(GONE[1:])
    users, items = together.users_.labels[:14], together.items_.labels[:14]
    found = [model.predict(users, items) for model in (together, by_turns)]
    np.testing.assert_allclose(*found, atol=0.3)


def test_features_are_forgotten_too(tmp_path):
    frame = ratings()
    people = pd.DataFrame({"user": USERS, "age": np.arange(40.0), "town": np.resize(["a", "b", "c"], 40)})
    things = pd.DataFrame({"item": [*ITEMS, "thing-new"], "kind": np.resize(["x", "y"], 16)})
    model = orbm.OrdinalMF(3, **FEW).fit(frame, user_features=people, item_features=things)
    model.forget(GONE, [*GONE_ITEMS, "thing-new"])
    model.save(tmp_path / "m.orbm")
    content = (tmp_path / "m.orbm").read_bytes()
    assert not any(name.encode() in content for name in (*GONE, *GONE_ITEMS, "thing-new"))
    again = orbm.load(tmp_path / "m.orbm")
    users, items = again.users_.labels[:14], again.items_.labels[:14]
    np.testing.assert_array_equal(model.predict(users, items), again.predict(users, items))


def test_scales_of_items_that_are_forgotten_go_too(tmp_path):
    frame = ratings()
    own = {"thing-004": [5, 4, 3, 2, 1], "thing-005": [1, 2, 3, 4, 5]}
    model = orbm.OrdinalMF(3, item_scales=own, **FEW).fit(frame)
    assert list(model.forget(items=GONE_ITEMS).item_scales) == ["thing-005"]
    model.save(tmp_path / "m.orbm")
    assert b"thing-004" not in (tmp_path / "m.orbm").read_bytes()
    assert model.forget(items="thing-005").item_scales is None


def test_what_cannot_be_forgotten_is_said(path):
    model = orbm.load(path)
    before = model.users_.labels.tolist()
    for users, items, said in (
        (None, None, "nothing to forget"),
        ("nobody", None, "'nobody' is not known"),
        (None, ["thing-001", "none"], "item 'none' is not known"),
        (before, None, "no rating"),
    ):
        with pytest.raises(DataError, match=said):
            model.forget(users, items)
    assert model.users_.labels.tolist() == before
