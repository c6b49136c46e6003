"""Baselines against plain loops over users and items."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate import DampedBiases, popular

steady = settings(derandomize=True, deadline=None, max_examples=60)


def some_ratings(labels, n_users=9, n_items=7, seed=0):
    """Half of all cells; the first user and item have more than others, the last item none."""
    rng = np.random.default_rng(seed)
    share = np.linspace(0.9, 0.2, n_users)[:, None] * np.linspace(1, 0.3, n_items)
    user, item = np.nonzero(rng.random((n_users, n_items)) < share)
    rating = [labels[k] for k in rng.integers(0, len(labels), user.size)]
    return pd.DataFrame({"user": user + 100, "item": [f"i{k}" for k in item], "rating": rating})


def slow_biases(lines, item_damping, user_damping):
    """Mean, biases of items and users, and residuals; lines are (user, item, value)."""
    mean = sum(value for _, _, value in lines) / len(lines)
    of_item, of_user = {}, {}
    for item in {i for _, i, _ in lines}:
        rest = [value - mean for _, i, value in lines if i == item]
        of_item[item] = sum(rest) / (len(rest) + item_damping)
    for user in {u for u, _, _ in lines}:
        rest = [value - mean - of_item[i] for u, i, value in lines if u == user]
        of_user[user] = sum(rest) / (len(rest) + user_damping)
    residuals = [value - mean - of_item[i] - of_user[u] for u, i, value in lines]
    return mean, of_item, of_user, residuals


def slow_distribution(number, residuals, values):
    """Each residual added to the number and taken to the nearest value; half a rating each."""
    counts = {value: 0.5 for value in values}
    for residual in residuals:
        counts[min(values, key=lambda value: abs(value - number - residual))] += 1
    return [counts[value] / sum(counts.values()) for value in values]


@pytest.mark.parametrize("dampings", [(25.0, 10.0), (3, 0)])
@pytest.mark.parametrize("labels", [(1, 2, 3, 4, 5), (0.5, 1.0, 4.0), (3, 2, 1)])
def test_biases_against_loops(labels, dampings):
    ratings = some_ratings(labels)
    known = read_ratings(ratings, scale=labels)
    lines = list(ratings.itertuples(index=False, name=None))
    mean, of_item, of_user, residuals = slow_biases(lines, *dampings)
    biases = DampedBiases(*dampings).fit(known)
    pairs = [(u, i) for u in (*range(100, 109), 7) for i in ("i0", "i3", "i6", "new")]
    users, items = ([pair[side] for pair in pairs] for side in (0, 1))
    numbers = [mean + of_user.get(u, 0) + of_item.get(i, 0) for u, i in pairs]
    clipped = [min(max(number, min(labels)), max(labels)) for number in numbers]
    assert biases.predict(users, items) == pytest.approx(clipped)
    expected = [slow_distribution(number, residuals, labels) for number in numbers]
    assert biases.predict_proba(users, items) == pytest.approx(np.array(expected))


def test_the_usual_dampings():
    # Four ratings of one item, all two above the mean of all: 4 · 2 / (4 + 25).
    ratings = ([1, 2, 3, 4, 1, 2, 3, 4], ["a"] * 4 + ["b"] * 4, [5] * 4 + [1] * 4)
    biases = DampedBiases().fit(ratings)
    assert biases.mean_ == 3.0
    assert biases.item_biases_ == pytest.approx([8 / 29, -8 / 29])
    assert biases.user_biases_ == pytest.approx([0.0] * 4)


def test_items_with_scales_of_their_own():
    ratings = some_ratings((1, 2, 3))
    known = read_ratings(ratings, item_scales={"i0": [1, 2, 3]}, scale=[1, 2, 3, 4, 5])
    found = DampedBiases().fit(known).predict_proba([100, 101], ["i0", "i1"])
    assert found.shape == (2, 5)
    assert found.sum(axis=1) == pytest.approx([1, 1])
    assert (found[0, 3:] == 0).all() and (found[0, :3] > 0).all() and (found[1] > 0).all()


def slow_popular(ratings, users, n):
    items = sorted(set(ratings["item"]))
    counts = {item: int((ratings["item"] == item).sum()) for item in items}
    lines = []
    for user in users:
        seen = set(ratings.loc[ratings["user"] == user, "item"])
        best = sorted((item for item in items if item not in seen), key=lambda i: (-counts[i], i))
        lines += [(user, item, k + 1, counts[item]) for k, item in enumerate(best[:n])]
    return lines


@steady
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 9))
def test_popular_against_loops(seed, n_users, n):
    ratings = some_ratings((1, 2), n_users, seed=seed)
    if ratings.empty:
        return
    users = [5, *range(100, 100 + n_users), 100]
    found = popular(ratings, users, n=n)
    assert list(found.columns) == ["user", "item", "rank", "score"]
    assert list(found.itertuples(index=False, name=None)) == slow_popular(ratings, users, n)


def test_refusals():
    with pytest.raises(DataError, match="item_damping must be a number, 0 or more, not -1"):
        DampedBiases(-1)
    with pytest.raises(DataError, match="user_damping must be a number"):
        DampedBiases(user_damping=np.nan)
    with pytest.raises(DataError, match="n must be a whole number, 1 or more, not 0"):
        popular(([1], [1], [1]), [1], n=0)
