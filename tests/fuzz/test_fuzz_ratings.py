"""Whatever ratings are given to a model: a refusal in one sentence, or a sound result."""

import re
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from fuzzing import TALLIES, case, cases, told
from hypothesis import given
from hypothesis import strategies as st
from rating_tables import ODD_IDS, Case, rating_cases, rating_data

import ordinalrbm as orbm
from ordinalrbm.data.ratings import read_ratings

MODELS: list[Any] = [
    lambda **own: orbm.OrdinalMF(2, **own),
    lambda **own: orbm.MatrixCumulativeRBM(2, 1, **own),
    lambda **own: orbm.MatrixCumulativeRBM(2, 0, **own),
    lambda **own: orbm.GaussianMF(2, **own),
    lambda **own: orbm.OrdinalMF(2, posterior="point", **own),
    lambda **own: orbm.MultinomialRBM(2, **own),
]
MORE = {"n_epochs": 2, "n_jobs": 1, "random_state": 0}


@given(rating_cases(), st.sampled_from(MODELS), st.sampled_from([0.0, 0.05, 0.4]))
@cases(40)
def test_learning_from_any_ratings(ratings: Case, model: Any, held_out: float) -> None:
    with case("ratings"):
        new = model(validation_fraction=held_out, **ratings.options, **MORE)
        fitted, said = told(new.fit, ratings.ratings)
        assert_all_are_there(ratings, said)
        assert_sound(fitted)


KNOWN = pd.DataFrame({"user": [1, 1, 2, 2, 3, 4], "item": list("abacbc"), "rating": [1.0, 2, 3, 2, 1, 3]})
OWN = {"a": [1, 2, 3], "b": [2, 1], "c": [1, 2, 3]}
# One scale for all; own scales and a common one; own scales that are shorter than the common one.
SCALES: list[dict[str, Any]] = [
    {},
    {"scale": [1, 2, 3], "item_scales": {"b": [2, 1]}},
    {"scale": [1, 2, 3, 4], "item_scales": OWN},
]
NEEDS_ONE_SCALE = (3, 5)
FITTED: dict[tuple[int, int], Any] = {}


def fitted(k: int, scales: int) -> Any:
    if (k, scales) not in FITTED:
        FITTED[k, scales] = MODELS[k](**SCALES[scales], **MORE).fit(KNOWN)
    return FITTED[k, scales]


@st.composite
def newcomers(draw: Any) -> tuple[Any, int]:
    """Ratings by new users, and now and then by a known one, of the items above and of others."""
    users = st.integers(draw(st.sampled_from([4, 5, 5, 5])), 9)
    items = st.sampled_from(draw(st.sampled_from(["ac", "abc", "abcdefg"])))
    chosen = draw(st.lists(st.tuples(users, items), min_size=1, max_size=6, unique=True))
    level = st.sampled_from(draw(st.sampled_from([[1, 2], [1, 2], [1, 2, 3]])))
    levels = st.lists(level, min_size=len(chosen), max_size=len(chosen))
    by, of = zip(*chosen, strict=True)
    return (list(by), list(of), draw(levels)), len(chosen)


@given(rating_data(), rating_data(), st.sampled_from(MODELS))
@cases(15)
def test_learning_with_any_validation_ratings(
    data: tuple[Any, int], validation: tuple[Any, int], model: Any
) -> None:
    with case("validation ratings"):
        assert_sound(told(model(**MORE).fit, data[0], validation[0])[0])


ODD = st.one_of(st.lists(ODD_IDS, max_size=4), ODD_IDS)
SOME = st.lists(st.integers(-1, 6), max_size=4)
USERS = st.one_of(SOME, SOME, SOME, st.integers(-1, 6), ODD)
ANY_ITEM = st.sampled_from([*"abcd", "", "x"])
ITEMS = st.one_of(ANY_ITEM, ANY_ITEM, ANY_ITEM, st.just(["a", "x"]), ODD)
FIRST_THREE = st.integers(0, 2)


@given(FIRST_THREE, st.integers(0, 2), st.one_of(rating_data(), *[newcomers()] * 4))
@cases(20)
def test_folding_in_anything(k: int, scales: int, data: tuple[Any, int]) -> None:
    with case("ratings to fold in"):
        model = fitted(k, scales)
        wider, said = told(model.fold_in, data[0])
        assert len(wider.users_) + len(wider.items_) > len(model.users_) + len(model.items_)
        new = wider.ratings_.n_ratings - model.ratings_.n_ratings
        assert new + told_left_out(said) == data[1]
        assert_sound(wider)


@given(st.integers(0, len(MODELS) - 1), st.integers(0, 2), USERS, ITEMS)
@cases(20)
def test_asking_about_anybody(k: int, scales: int, users: Any, items: Any) -> None:
    scales = 0 if k in NEEDS_ONE_SCALE else scales
    with case("users and items asked about"):
        model = fitted(k, scales)
        distribution, _ = told(model.predict_proba, users, items)
        assert_distributions(distribution)
        for rule in ("mean", "mode", "median"):
            answer, _ = told(model.predict, users, items, rule)
            assert np.size(answer) == len(distribution) and not np.any(pd.isna(answer))
        if k < 3:
            assert_recommendations(model, users)


def assert_all_are_there(ratings: Case, said: list[str]) -> None:
    """As many ratings as were given, but for those that were told to be left out."""
    known, _ = told(read_ratings, ratings.ratings, **ratings.options)
    assert known.n_ratings + told_left_out(said) == ratings.n
    if not isinstance(ratings.ratings, tuple | pd.DataFrame):
        return
    given = ratings.ratings
    columns = given if isinstance(given, tuple) else [given[name] for name in known.to_frame()]
    users, items, values = ([*column] for column in columns)
    rows, there = known.lookup(users, "user"), known.lookup(items, "item")
    assert (rows >= 0).all() and (there >= 0).all()
    dense = known.observations.to_dense()
    labels = known.decode(dense[rows, there], there)
    for label, value in zip(labels, values, strict=True):
        assert label == value or np.isclose(float(label), float(value), rtol=2e-6, atol=0.0)


def told_left_out(said: list[str]) -> int:
    """How many ratings the warnings say are not used."""
    counts = [re.match(r"([\d,]+) (?:stored )?zeros", text) for text in said]
    return sum(int(count[1].replace(",", "")) for count in counts if count)


def assert_sound(model: Any) -> None:
    users, items = model.users_.labels, model.items_.labels
    unknown = ["nobody at all" if ids.dtype == object else 123456789 for ids in (users, items)]
    users = np.append(users[:4], np.array(unknown[:1], dtype=users.dtype))
    items = np.append(items[:4], np.array(unknown[1:], dtype=items.dtype))
    for item in items:
        assert_distributions(told(model.predict_proba, users, item)[0])
    for rule in ("mean", "mode", "median"):
        answer, _ = told(model.predict, users[0], items, rule)
        assert not pd.isna(answer).any()
    for factors in ("user_factors_", "item_factors_"):  # not every model has both
        assert np.isfinite(getattr(model, factors, 0.0)).all()
    assert_recommendations(model, users)


def assert_distributions(distribution: np.ndarray) -> None:
    assert np.isfinite(distribution).all() and (distribution >= 0).all()
    np.testing.assert_allclose(distribution.sum(axis=1), 1.0, atol=1e-5)


def assert_recommendations(model: Any, users: Any) -> None:
    for exclude_seen in (True, False):
        best, _ = told(partial(model.recommend, users, 3, exclude_seen=exclude_seen))
        assert list(best.columns) == ["user", "item", "rank", "score"]
        assert np.isfinite(best["score"].to_numpy(dtype=float)).all()
        assert best["item"].isin(model.items_.labels.tolist()).all()
        if not exclude_seen:
            n_users = 1 if np.ndim(users) == 0 else len(users)
            assert isinstance(users, str) or len(best) == n_users * min(3, len(model.items_))


def test_enough_was_legal_and_enough_refused() -> None:
    for name in ("ratings", "validation ratings", "ratings to fold in"):
        tally = TALLIES[name]
        assert tally.legal >= 0.15 * tally.cases, name
        assert tally.refused >= 0.1 * tally.cases, name
