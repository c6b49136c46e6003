"""Lists that are diverse, calibrated, of some features, or by one draw."""

import functools

import numpy as np
import pandas as pd
import pytest
from small_matrices import learnt, simulated

import ordinalrbm as orbm

COLOURS = np.array(["red", "blue", "green"])
N_ITEMS = 50


def items():
    """Each item has one colour or two; some are old."""
    number = np.arange(N_ITEMS)
    colours = [COLOURS[[k % 3, (k % 5) % 3]].tolist() for k in number]
    return pd.DataFrame(
        {"item": [f"i{k}" for k in number], "colour": colours, "old": number % 4 == 0, "year": number % 7}
    )


@functools.cache
def with_features():
    return orbm.OrdinalMF(3, n_epochs=5, demand_factors=8, random_state=0).fit(
        simulated(), item_features=items()
    )


@functools.cache
def sampled():
    settings = {"n_epochs": 12, "n_draws": 8, "demand_factors": 8, "random_state": 0}
    with pytest.warns(UserWarning, match="has not mixed"):
        return orbm.OrdinalMF(2, posterior="sampled", **settings).fit(simulated())


def test_diverse_lists_are_of_what_is_relevant_and_not_alike():
    """By the rule of Carbonell and Goldstein (1998), item by item."""
    model, n, diversity = with_features(), 5, 0.4
    candidates = model.recommend("u3", n=100)
    score = candidates["score"].to_numpy(float)
    relevance = (score - score.min()) / np.ptp(score)
    factors = model.demand_.columns[model.items_.lookup(candidates["item"])].astype(float)
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    cosine, expected = factors @ factors.T, [0]
    while len(expected) < n:
        gain = (1 - diversity) * relevance - diversity * np.maximum(cosine[:, expected].max(axis=1), 0.0)
        gain[expected] = -np.inf
        expected.append(int(gain.argmax()))
    found = model.recommend(["u3", "u4"], n=n, diversity=diversity)
    own = found[found["user"] == "u3"]
    assert own["item"].tolist() == candidates["item"].iloc[expected].tolist()
    assert found["rank"].tolist() == 2 * list(range(1, n + 1))
    np.testing.assert_array_equal(own["score"], candidates["score"].iloc[expected])
    pd.testing.assert_frame_equal(model.recommend("u3", diversity=0.0), model.recommend("u3"))
    with pytest.raises(orbm.DataError, match="from 0 to 1"):
        model.recommend("u3", diversity=2)


def shares_of_colours(ids):
    table = items().set_index("item")["colour"].loc[list(ids)]
    parts = table.map(lambda colours: pd.Series(1.0 / len(set(colours)), sorted(set(colours))))
    return sum(part.reindex(sorted(COLOURS), fill_value=0.0) for part in parts) / len(table)


def test_calibrated_lists_have_as_much_of_each_category_as_was_liked():
    model, away = with_features(), {"plain": 0.0, "calibrated": 0.0}
    ratings = simulated()
    for user in ("u1", "u5", "u9", "u20", "u33"):
        own = ratings[(ratings["user"] == user) & (ratings["rating"] >= 4)]
        wanted = shares_of_colours(own["item"])
        for name, column in (("plain", None), ("calibrated", "colour")):
            found = model.recommend(user, n=6, calibrate=column)
            away[name] += abs(shares_of_colours(found["item"]) - wanted).sum()
    assert away["calibrated"] < 0.7 * away["plain"]
    with pytest.raises(orbm.DataError, match="has no categories"):
        model.recommend("u1", calibrate="year")
    # Whatever lists are ordered by, what was rated 1 was not liked.
    person = {"i0": 5, "i3": 5} | dict.fromkeys(("i1", "i4", "i16", "i19", "i31", "i34"), 1)
    for score in ("expected", "liked", "rating"):
        usual, found = (
            shares_of_colours(model.recommend(ratings=person, n=6, calibrate=by, score=score)["item"])
            for by in (None, "colour")
        )
        assert found["red"] > usual["red"] and found["blue"] <= usual["blue"]


def test_whoever_has_liked_nothing_gets_the_usual_list():
    model = with_features()
    for asked in ({"users": "nobody"}, {"ratings": {"i1": 1}}):
        usual, found = model.recommend(**asked), model.recommend(**asked, calibrate="colour")
        assert found["item"].tolist() == usual["item"].tolist()


def test_items_are_chosen_by_their_features():
    model = with_features()
    there = items().set_index("item")
    old_and_blue = model.recommend("u2", n=N_ITEMS, where={"colour": "blue", "old": True})["item"]
    expected = there.index[there["colour"].map(lambda colours: "blue" in colours) & there["old"]]
    every = model.recommend("u2", n=N_ITEMS)["item"]
    assert old_and_blue.tolist() == [item for item in every if item in set(expected)]
    either = model.recommend("u2", n=N_ITEMS, where={"colour": ["blue", "red"]})["item"]
    assert len(either) == sum(bool({"blue", "red"} & set(colours)) for colours in there.loc[every, "colour"])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"colour": "blu"}, "No item has the colour 'blu' .*did you mean 'blue'"),
        ({"color": "blue"}, "no item feature 'color' .*did you mean 'colour'"),
        ({"year": 3}, "has no categories to choose by"),
        ({"old": "yes"}, "true or false"),
    ],
)
def test_features_that_items_do_not_have_are_refused(where, said):
    with pytest.raises(orbm.DataError, match=said):
        with_features().recommend("u1", where=where)
    with pytest.raises(orbm.DataError, match="no features of items"):
        learnt("ordinal").recommend("u1", where=where)


def test_some_items_are_left_out_for_some_users():
    model = with_features()
    usual = model.recommend(["u1", "u2"], n=6)
    first = usual.loc[usual["user"] == "u1", "item"].tolist()
    found = model.recommend(["u1", "u2"], n=3, exclude={"u1": first[:2], "u7": ["i3"]})
    assert found.loc[found["user"] == "u1", "item"].tolist() == first[2:5]
    assert found["rank"].tolist() == [1, 2, 3, 1, 2, 3]
    second = usual.loc[usual["user"] == "u2", "item"].tolist()
    assert found.loc[found["user"] == "u2", "item"].tolist() == second[:3]


def test_items_that_nobody_knows_are_left_out_for_nobody():
    model, users = with_features(), ["u1", "u2"]
    usual = model.recommend(users, n=N_ITEMS)
    found = model.recommend(users, n=N_ITEMS, exclude={"u2": ["no such item"]})
    pd.testing.assert_frame_equal(found, usual)
    first = usual.loc[usual["user"] == "u2", "item"].iloc[0]
    found = model.recommend(users, n=N_ITEMS, exclude={"u2": first})
    assert len(found) == len(usual) - 1 and first not in set(found.loc[found["user"] == "u2", "item"])


def test_what_is_not_known_of_an_item_is_neither_true_nor_false():
    table = items()
    table["old"] = table["old"].astype(object).where(table.index % 6 != 0, None)
    table = table.iloc[:-1]  # one without a line
    for columns in (["item", "colour", "old"], ["item", "old"]):
        model = orbm.OrdinalMF(2, n_epochs=1, random_state=0).fit(simulated(), item_features=table[columns])
        for old in (True, False):
            found = model.recommend("nobody", n=N_ITEMS, where={"old": old})["item"]
            assert set(found) == set(model.items_.labels) & set(table.loc[table["old"] == old, "item"])


def test_exploring_lists_show_items_as_often_as_their_propensities_say():
    model, users = sampled(), ["u1", "u2", "nobody"]
    found = pd.concat([model.recommend(users, n=3, explore=seed).assign(seed=seed) for seed in range(200)])
    shown = found.groupby(["user", "item"]).agg(times=("seed", "size"), chance=("propensity", "first"))
    assert found.groupby(["user", "item"])["propensity"].nunique().max() == 1
    np.testing.assert_allclose(shown["times"] / 200, shown["chance"], atol=0.15)  # four standard errors
    assert shown["chance"].min() < 0.9
    assert (shown.loc["nobody", "chance"] == 1.0).all()
    pd.testing.assert_frame_equal(
        model.recommend(users, n=3, explore=5), model.recommend(users, n=3, explore=5)
    )
    for score in ("liked", "rating"):  # of draws, on the scale of their mean
        usual = model.recommend("u1", n=N_ITEMS, score=score).set_index("item")["score"]
        drawn = [model.recommend("u1", n=N_ITEMS, score=score, explore=seed) for seed in range(40)]
        mean = pd.concat(drawn).groupby("item")["score"].mean()
        np.testing.assert_allclose(mean, usual[mean.index], rtol=0.25)
    person = model.recommend(ratings={"i1": 5, "i2": 1}, n=3, explore=0)
    assert person.columns.tolist() == ["item", "rank", "score", "propensity"]
    for wrong in ({"diversity": 0.5}, {"exclude": {"u1": ["i1"]}}):
        with pytest.raises(orbm.DataError, match="explore= takes"):
            model.recommend("u1", explore=0, **wrong)
    with pytest.raises(orbm.DataError, match="posterior='sampled'"):
        learnt("ordinal").recommend("u1", explore=0)
