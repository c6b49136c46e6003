"""Lists that are diverse, of some features, or without some items for some users."""

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


def reranked(model, one, share):
    """One list by the rule of Carbonell and Goldstein (1998): all pairs of items, one after the other."""
    factors = model.demand_.columns.astype(float)[model.items_.lookup(one["item"])]
    score = one["score"].to_numpy(float)
    relevance = [(each - score.min()) / (score.max() - score.min()) for each in score]
    chosen, left = [], list(range(len(one)))
    while left:
        gains = []
        for k in left:
            cosines = [
                factors[k] @ factors[j] / np.linalg.norm(factors[k]) / np.linalg.norm(factors[j])
                for j in chosen
            ]
            gains.append((1 - share) * relevance[k] - share * max([0.0, *cosines]))
        chosen.append(left.pop(int(np.argmax(gains))))
    return one["item"].iloc[chosen].tolist()


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_diverse_lists_are_of_what_is_relevant_and_not_alike(share):
    model = learnt("ordinal")
    lists = model.recommend(["u3", "nobody", "u4"], n=30)
    mixed = lists.sample(frac=1.0, random_state=0).assign(title="a film")
    found = orbm.rerank.diverse(model, mixed, share)
    assert found["rank"].tolist() == 3 * list(range(1, 31))
    assert found.columns.tolist() == [*lists.columns, "title"]
    for user, one in lists.groupby("user"):
        assert found.loc[found["user"] == user, "item"].tolist() == reranked(model, one, share)
    both = ["user", "item"]
    scores = lists.set_index(both)["score"]
    np.testing.assert_array_equal(found["score"], scores.loc[list(map(tuple, found[both].to_numpy()))])
    assert mixed["rank"].is_monotonic_increasing is False  # what was given stays as it is


def test_without_diversity_the_order_stays():
    model = learnt("ordinal")
    lists = model.recommend(["u3", "u9"], n=30)
    pd.testing.assert_frame_equal(orbm.rerank.diverse(model, lists, 0), lists)
    empty = orbm.rerank.diverse(model, lists.iloc[:0], 0.5)
    assert empty.empty and empty.columns.tolist() == lists.columns.tolist()


def test_lists_of_one_person_and_of_other_libraries():
    polars, model = pytest.importorskip("polars"), learnt("ordinal")
    one = model.recommend(ratings={"i1": 5, "i2": 1}, n=30)
    found = orbm.rerank.diverse(model, one, 0.3)
    assert found["item"].tolist() == reranked(model, one, 0.3)
    of_polars = orbm.rerank.diverse(model, polars.from_pandas(one), 0.3)
    assert isinstance(of_polars, polars.DataFrame)
    assert of_polars["item"].to_list() == found["item"].tolist()
    # Without demand, items are alike by their factors in the ratings.
    alone = orbm.OrdinalMF(3, n_epochs=3, demand_factors=0, random_state=0).fit(simulated())
    assert len(orbm.rerank.diverse(alone, alone.recommend("u3", n=9), 0.5)) == 9


def test_lists_that_cannot_be_reranked_are_refused():
    model = learnt("ordinal")
    lists = model.recommend("u3", n=5)
    for share in (-0.1, 1.5, np.nan):
        with pytest.raises(orbm.DataError, match="'share' must be a number from 0 to 1"):
            orbm.rerank.diverse(model, lists, share)
    with pytest.raises(orbm.DataError, match="no column 'score'; give them as"):
        orbm.rerank.diverse(model, lists.drop(columns="score"), 0.5)
    with pytest.raises(orbm.DataError, match="The item 'nowhere' is not known"):
        orbm.rerank.diverse(model, lists.replace({"item": {lists["item"][2]: "nowhere"}}), 0.5)
    with pytest.raises(orbm.DataError, match=r"have the item .* twice; give each user once"):
        orbm.rerank.diverse(model, model.recommend(["u3", "u4", "u3"], n=3), 0.5)
    with pytest.raises(orbm.DataError, match="The lists must be a DataFrame"):
        orbm.rerank.diverse(model, lists.to_numpy(), 0.5)


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
