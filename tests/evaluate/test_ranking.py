"""Lists of recommendations against plain loops, and what would make them look better or worse."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate import ranking
from ordinalrbm.evaluate.ranking import lowest_liked

steady = settings(derandomize=True, deadline=None, max_examples=150)


def slow_ranking(recommended, test, train, k, liked):
    """One user at a time; all three are lists of tuples."""
    seen = {(user, item) for user, item, _ in train}
    unseen = [line for line in test if line[:2] not in seen]
    ndcg, recall, covered, without, no_list = [], [], set(), 0, 0
    for user in sorted({user for user, _, _ in unseen}):
        own = sorted((rank, item) for u, item, rank in recommended if u == user)
        items = [item for _, item in own if (user, item) not in seen][:k]
        covered |= set(items)
        relevant = {item for u, item, rating in unseen if u == user and rating >= liked}
        if not relevant:
            without += 1
            continue
        no_list += not items
        gain = sum(1 / math.log2(place + 2) for place, i in enumerate(items) if i in relevant)
        best = sum(1 / math.log2(place + 2) for place in range(min(k, len(relevant))))
        ndcg.append(gain / best)
        recall.append(len(relevant & set(items)) / min(k, len(relevant)))
    catalogue = {item for _, item, _ in train} | {item for _, item, _ in unseen}
    return {
        "ndcg": np.mean(ndcg) if ndcg else None,
        "recall": np.mean(recall) if recall else None,
        "coverage": len(covered & catalogue) / len(catalogue),
        "n_users": len(ndcg),
        "n_users_without_liked": without,
        "n_users_without_list": no_list,
        "n_items": len(catalogue),
        "n_learnt": len(test) - len(unseen),
    }


def frame(lines, last):
    return pd.DataFrame(lines, columns=["user", "item", last])


@st.composite
def tasks(draw):
    """Lists, test and training ratings that overlap in every way."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    name = (lambda k: f"i{k}") if draw(st.booleans()) else int

    def lines(share, from_user, from_item):
        user, item = np.nonzero(rng.random((n_users, n_items)) < share)
        return [
            (int(u) + from_user, name(i + from_item), int(rng.integers(1, 6)))
            for u, i in zip(user, item, strict=True)
        ] or [(from_user, name(from_item), 3)]

    # Some of the users and items of each part are in no other.
    train, test = lines(0.4, 0, 0), lines(0.5, 1, 1)
    recommended = []
    for user in range(n_users + 3):
        items = rng.permutation(n_items + 3)[: rng.integers(0, n_items + 3)]
        ranks = rng.permutation(20)[: items.size] + 1
        recommended += [(user, name(i), int(r)) for i, r in zip(items, ranks, strict=True)]
    order = rng.permutation(len(recommended))
    return [recommended[k] for k in order], test, train


@steady
@given(tasks(), st.integers(1, 6), st.integers(1, 5))
def test_against_loops(task, k, liked):
    recommended, test, train = task
    arguments = (frame(recommended, "rank"), frame(test, "rating"), frame(train, "rating"))
    expected = slow_ranking(recommended, test, train, k, liked)
    settings_ = {"k": k, "liked": liked, "scale": [1, 2, 3, 4, 5]}
    if expected["n_learnt"] == len(test):
        with pytest.raises(DataError, match="nothing is left to test"):
            ranking(*arguments, **settings_)
    elif not expected["n_users"]:
        with pytest.raises(DataError, match=f"No test rating is {liked} or more.*lower liked"):
            ranking(*arguments, **settings_)
    else:
        found = ranking(*arguments, **settings_)
        assert {name: getattr(found, name) for name in expected} == pytest.approx(expected)


TRAIN = frame([(1, "a", 5), (1, "b", 1), (2, "a", 2), (3, "b", 4)], "rating")
TEST = frame([(1, "c", 5), (2, "b", 4), (2, "d", 5), (2, "c", 1), (3, "a", 3)], "rating")
LISTS = frame([(1, "d", 1), (1, "c", 2), (2, "b", 1), (2, "c", 2)], "rank")


def test_what_was_learnt_from_counts_for_nobody():
    plain = ranking(LISTS, TEST, TRAIN, k=2)
    # A list that begins with what the user rated in training, and a test that asks for it.
    first = frame([(1, "a", -1), (2, "a", 0)], "rank")
    known_by_heart = pd.concat([first, LISTS], ignore_index=True)
    found = ranking(known_by_heart, pd.concat([TEST, TRAIN.head(1)]), TRAIN, k=2)
    assert (found.n_seen, found.n_learnt) == (2, 1)
    assert (found.ndcg, found.recall) == (plain.ndcg, plain.recall)


@pytest.mark.parametrize(
    ("labels", "lowest"),
    [
        ([1, 2, 3, 4, 5], 4),
        (list(range(1, 11)), 8),
        ([0.5 * k for k in range(1, 11)], 4.0),
        ([1, 2, 3], 3),
        ([0, 1], 1),
        ([7], 7),
        ([5, 4, 3, 2, 1], 2),  # where 1 is best
        (["bad", "fair", "good", "best"], "best"),
    ],
)
def test_what_is_liked(labels, lowest):
    known = read_ratings(([1], [1], [labels[0]]), scale=labels)
    assert [labels[k] for k in lowest_liked(known)] == [lowest] * 2
    assert [labels[k] for k in lowest_liked(known, liked=labels[0])] == [labels[0]] * 2


def test_liked_between_two_ratings_and_on_other_scales():
    known = read_ratings(([1], [1], [1]), scale=[1, 2, 3, 5])
    assert lowest_liked(known, liked=4).tolist() == [3, 3]
    own = read_ratings(([1, 1], ["a", "b"], [1, 1]), scale=[1, 2, 3, 4, 5], item_scales={"b": [1, 2, 3]})
    assert lowest_liked(own).tolist() == [3, 2, 3]  # a, b, unknown
    best = frame([(1, "c", 1)], "rank")
    found = ranking(best, frame([(1, "c", 4)], "rating"), own)
    assert found.recall == 1.0 and "upper quarter of the item's scale" in found.protocol


REFUSED = {
    "no rank": ({"recommended": LISTS.drop(columns="rank")}, "no column 'rank', only .*; give"),
    "no table": ({"recommended": [1]}, "must be a DataFrame of pandas or polars.*, not list"),
    "rank missing": ({"recommended": LISTS.assign(rank=[1, None, 1, 2])}, "Row 1 .* the rank nan"),
    "rank in words": ({"recommended": LISTS.assign(rank=list("abcd"))}, "ranks must be numbers"),
    "same rank": ({"recommended": LISTS.assign(rank=1)}, "user 1 is recommended two items at r"),
    "same item": ({"recommended": LISTS.assign(item="c")}, "user 1 is .* the item 'c' twice"),
    "other ids": ({"recommended": LISTS.assign(user=["u"] * 4)}, "users known here are integers"),
    "k": ({"k": 0}, "k must be a whole number, 1 or more, not 0"),
    "liked": ({"liked": 6}, r"liked=6 is not on the scale \[1, 2, 3, 4, 5\]; give the lowest"),
    "liked in words": ({"liked": "good"}, r"liked='good' is not on the scale"),
    "learnt": ({"test": TRAIN}, "All 4 test ratings are of pairs .* learnt from, so"),
    "no test": ({"test": TEST[:0]}, "no rating to test on; give at least one"),
    "off scale": ({"scale": [1, 2, 3, 4]}, r"the rating 5 is not on the scale \[1, 2, 3, 4\]"),
    "text": (
        {"train": TRAIN.assign(rating=list("abcd")), "test": TEST.assign(rating=list("abcda"))},
        "The ratings are text .*; give scale=",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    changed, message = REFUSED[case]
    arguments = {"recommended": LISTS, "test": TEST, "train": TRAIN} | changed
    with pytest.raises(DataError, match=message) as refusal:
        ranking(**arguments)
    assert str(refusal.value).endswith(".")
