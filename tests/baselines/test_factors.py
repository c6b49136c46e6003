"""The half-sweep that the Gaussian and the ordinal factorisation share."""

import numpy as np
import pytest
from made_up_ratings import ratings
from ordinalrbm.matrix.baselines.factors import Effects

from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix.baselines import factors

NOISE = 0.7


def random_effects(n, width, rng, spread=True):
    variance = rng.uniform(0.05, 0.5, (n, width)) if spread else np.zeros((n, width))
    return Effects(rng.normal(0, 0.6, (n, width)), variance, rng.uniform(0.5, 4.0, width))


@pytest.fixture
def sides():
    """A table with an empty row, both sides of it and pulls in some direction."""
    train = ratings(17, 11).train
    empty = np.ones(train.n_entries, dtype=bool)
    empty[train.row_start[3] : train.row_start[4]] = False
    train = train.select(empty)
    rng = np.random.default_rng(1)
    this, other = random_effects(17, 7, rng), random_effects(11, 7, rng)
    return train, this, other, rng.normal(size=train.n_entries)


def solved_row(train, d, this, other, pull):
    """Mean and variance of a row's effects, by a general solver."""
    entries = slice(train.row_start[d], train.row_start[d + 1])
    columns = train.column[entries]
    x = np.c_[np.ones(len(columns)), other.mean[columns, 1:]]
    shrinkage = np.r_[0.0, other.variance[columns, 1:].sum(axis=0)]
    system = (x.T @ x + np.diag(shrinkage)) / NOISE + np.diag(this.precision)
    # What a row is pulled to, apart from what it has itself in the mean.
    target = pull[entries] + x @ this.mean[d]
    return np.linalg.solve(system, x.T @ target / NOISE), np.diag(np.linalg.inv(system))


def test_every_row_solves_its_ridge_regression(sides):
    train, this, other, pull = sides
    got = factors.improved(factors.views(train)[0], this, other, pull, NOISE, "variational")
    for d in range(train.n_rows):
        mean, variance = solved_row(train, d, this, other, pull)
        np.testing.assert_allclose(got.mean[d], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(got.variance[d], variance, rtol=1e-9)
    np.testing.assert_allclose(got.mean[3], 0.0, atol=1e-12)
    np.testing.assert_allclose(got.variance[3], 1.0 / this.precision)


def test_a_point_has_no_variance(sides):
    train, this, other, pull = sides
    got = factors.improved(factors.views(train)[0], this, other, pull, NOISE, "point")
    both = factors.improved(factors.views(train)[0], this, other, pull, NOISE, "variational")
    np.testing.assert_array_equal(got.mean, both.mean)
    assert not got.variance.any()


def test_roles_can_be_swapped(sides):
    train, this, other, pull = sides
    swapped = train.transpose()
    order = train.column_view.entry
    ours = factors.improved(factors.views(train)[1], other, this, pull[order], NOISE, "variational")
    theirs = factors.improved(
        factors.views(swapped)[0], other, this, pull[order], NOISE, "variational"
    )
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    np.testing.assert_array_equal(ours.variance, theirs.variance)


def test_mean_and_variance_of_cells_against_draws(sides):
    _, this, other, _ = sides
    rng = np.random.default_rng(0)
    d, i = np.array([4], dtype=np.int32), np.array([7], dtype=np.int32)
    mean, variance = factors.cell_means(d, i, this, other)
    p = rng.normal(this.mean[4], np.sqrt(this.variance[4]), (200_000, 7))
    q = rng.normal(other.mean[7], np.sqrt(other.variance[7]), (200_000, 7))
    draws = p[:, 0] + q[:, 0] + (p[:, 1:] * q[:, 1:]).sum(axis=1)
    assert mean[0] == pytest.approx(draws.mean(), abs=5 * draws.std() / 200_000**0.5)
    assert variance[0] == pytest.approx(draws.var(), rel=0.03)


@pytest.mark.parametrize("change", [factors._centred, factors._aligned])
def test_changes_of_axes_leave_cells_alone(sides, change):
    _, this, other, _ = sides
    d, i = (part.ravel().astype(np.int32) for part in np.indices((17, 11)))
    before, _ = factors.cell_means(d, i, this, other)
    after, _ = factors.cell_means(d, i, *change(this, other))
    np.testing.assert_allclose(after, before, atol=1e-10)


def test_aligned_factors_are_uncorrelated_and_as_large_on_both_sides(sides):
    _, this, other, _ = sides
    # Without variances, whose correlations an independent posterior cannot keep.
    this, other = (part._replace(variance=np.zeros_like(part.variance)) for part in (this, other))
    ours, theirs = map(factors._second_moment, factors._aligned(this, other))
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    np.testing.assert_allclose(ours, np.diag(np.diag(ours)), atol=1e-10)
    assert (np.diff(np.diag(ours)) <= 0).all()


def test_an_index_of_minus_one_is_the_prior():
    effects = random_effects(5, 3, np.random.default_rng(0))
    unknown = factors.with_unknown(effects)
    np.testing.assert_array_equal(unknown.mean[-1], 0.0)
    np.testing.assert_allclose(unknown.variance[-1], 1.0 / effects.precision)
    point = effects._replace(variance=np.zeros_like(effects.variance))
    assert not factors.with_unknown(point).variance.any()


def test_more_factors_than_rows():
    table = Observations.from_dense([[0, 1], [1, 0]], 2)
    rng = np.random.default_rng(0)
    this, other = factors.start(2, 6, 5.0, 1.0), factors.start(2, 6, 5.0, 1.0, rng=rng)
    for _ in range(20):
        pull = np.array([1.0, -1.0, -1.0, 1.0]) - factors.cell_means(
            *factors.views(table)[0][1:], this, other
        )[0]  # fmt: skip
        this, other = factors.half_sweep(
            factors.views(table)[0], this, other, pull, NOISE, "variational"
        )
    assert all(np.isfinite(part).all() for side in (this, other) for part in side)
