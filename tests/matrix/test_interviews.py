"""Items to show newcomers: what their ratings tell, against enumeration of all levels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError
from ordinalrbm.matrix import asking


@pytest.fixture(scope="module")
def ratings():
    """One taste; items 0 and 1 split it, 2 and 3 do not, and item 4 does but is hardly known."""
    rng = np.random.default_rng(0)
    taste = rng.normal(size=(300, 1))
    slope = np.array([2.0, -2.0, 0.0, 0.0, 2.5, 1.0, -1.0, 0.5])
    levels = 1 + np.digitize(taste * slope + 0.5 * rng.normal(size=(300, 8)), [-1.5, -0.4, 0.6, 1.6])
    there = rng.random(levels.shape) < np.array([0.9, 0.9, 0.9, 0.9, 0.04, 0.9, 0.9, 0.9])
    users, items = np.nonzero(there)
    return users, items, levels[users, items]


@pytest.fixture(scope="module")
def model(ratings):
    return orbm.OrdinalMF(2, n_epochs=12, demand_factors=0, random_state=0).fit(ratings)


def test_what_tells_most_and_is_known_is_shown_first(model):
    best = model.interview(8)
    assert best["item"][0] in (0, 1) and best["item"].nunique() == 8
    assert best["information"].iloc[0] == best["information"].max()
    assert best.set_index("item")["information"][4] < best["information"].iloc[0] / 3
    assert model.interview(1, items=[2, 5])["item"].tolist() == [5]


def test_answers_so_far_count(model):
    known, unknown = (model.interview(8, {0: rating})["information"].sum() for rating in (5, None))
    assert known < 0.7 * unknown  # the taste is known by then
    assert 0 not in model.interview(8, {0: None})["item"].tolist()
    assert model.interview(3, dict.fromkeys(range(8))).empty


def test_the_expected_fall_is_that_of_enumeration(model):
    """One person, one item: levels enumerated, and a grid of the person's factors."""
    own, n_items = model.model_, len(model.items_)
    one = np.zeros(n_items, dtype=bool)
    one[0] = True
    worth = asking.Worth(np.ones(n_items), np.ones(n_items), np.tile(np.arange(5) / 4, (n_items, 1)))
    nothing = Observations.from_triples([], [], [], 1, n_items, own.n_levels)
    found = asking.best_items(own, None, nothing, worth, one, 1)[1][0]
    rows, columns = own.rows, own.columns
    rng = np.random.default_rng(1)
    among = np.cov(rows.mean, rowvar=False) + np.diag(rows.variance.mean(axis=0))
    people = rng.multivariate_normal(rows.mean.mean(axis=0), among, 200_000)
    facing = columns.mean.astype(float)
    bias, facing[:, 0] = facing[:, 0].copy(), 1.0
    middle = rows.mean.mean(axis=0)
    noise = np.sqrt(1 + columns.variance[:, 0] + columns.variance[:, 1:] @ middle[1:] ** 2)
    gaps = np.exp(columns.cutpoints + rows.cutpoints.mean(axis=0))
    bounds = np.cumsum(np.concatenate([columns.cutpoints[:, :1], gaps[:, 1:]], axis=1), axis=1)
    utility = people @ facing.T
    below = ndtr((bounds[0] - bias[0] - utility[:, :1]) / noise[0])
    chance = np.diff(below, axis=1, prepend=0.0, append=1.0)
    spread = np.sqrt(noise**2 + ((facing @ among) * facing).sum(axis=1))
    density = np.exp(-0.5 * ((bounds - (bias + facing @ middle)[:, None]) / spread[:, None]) ** 2)
    slope = density.sum(axis=1) / spread  # of the expected rating
    wanted = utility * slope
    centred = wanted - wanted.mean(axis=0)
    fall = ((chance.T @ centred / len(people)) ** 2 / chance.mean(axis=0)[:, None]).sum()
    assert found == pytest.approx(fall / wanted.var(axis=0).sum(), rel=0.02)


def test_other_models_and_wrong_input_are_refused(model, ratings):
    with pytest.raises(DataError, match="item 99"):
        model.interview(2, {99: 1})
    with pytest.raises(DataError, match=r"0.*9"):
        model.interview(2, {0: 9})
    other = orbm.MultinomialRBM(2, n_epochs=1, demand_factors=0, random_state=0).fit(ratings)
    with pytest.raises(DataError, match="use OrdinalMF"):
        other.interview(2)


def test_draws_can_ask(ratings):
    sampled = orbm.OrdinalMF(2, posterior="sampled", n_epochs=6, n_draws=4, demand_factors=0, random_state=0)
    assert len(sampled.fit(ratings).interview(2, {5: 3})) == 2
