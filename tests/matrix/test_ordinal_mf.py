"""Ordinal matrix factorisation against a slow likelihood."""

import numpy as np
import pytest
from made_up_ratings import ENDS, ratings
from ordinalrbm.matrix.baselines.factors import Effects, cell_means
from ordinalrbm.matrix.baselines.ordinal_mf import Widths
from scipy.optimize import approx_fprime
from scipy.stats import norm

from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix.baselines import ordinal_mf as mf

SCALES = (5, 3, 2, 1)


@pytest.fixture(scope="module")
def table():
    return ratings(25, 16, SCALES, density=0.8).train


@pytest.fixture(scope="module")
def model(table):
    """Parameters of any size, none of them at a special place."""
    rng = np.random.default_rng(2)

    def effects(n):
        return Effects(
            rng.normal(0, 0.5, (n, 4)), rng.uniform(0, 0.2, (n, 4)), rng.uniform(1, 3, 4)
        )

    def gaps(n, size):
        step = rng.normal(0, size, (n, 4))
        return Widths(step, rng.normal(0, 0.1, (n, 4)), rng.uniform(2, 5, 4))

    columns = gaps(16, 0.5)
    columns.step[:, 0] -= 1.5
    row_gaps = gaps(25, 0.3)
    row_gaps.step[:, 0] = 0.0
    return mf.OrdinalMF(
        effects(25), effects(16), row_gaps, columns, table.n_levels, "variational"
    )  # fmt: skip


def slow_thresholds(kappa, tau, n_levels):
    cutpoints = kappa + tau
    bounds = np.cumsum(np.r_[cutpoints[0], np.exp(cutpoints[1:])])
    return np.r_[-np.inf, bounds[: n_levels - 1], np.inf]


def slow_log_probability(model, d, i, level, mean, variance):
    bounds = slow_thresholds(model.row_gaps.step[d], model.column_gaps.step[i], model.n_levels[i])
    p = norm.cdf((bounds - mean) / np.sqrt(1.0 + variance))
    return np.log(p[level + 1] - p[level])


def entries_of(table):
    rows = np.repeat(np.arange(table.n_rows), np.diff(table.row_start))
    return list(zip(rows, table.column, table.level, strict=True))


def test_distributions(table, model):
    rows, columns = (part.ravel().astype(np.int32) for part in np.indices((25, 16)))
    mean, variance = cell_means(rows, columns, model.rows, model.columns)
    got = mf.predict_proba(model, rows, columns)
    np.testing.assert_allclose(got.sum(axis=1), 1.0, atol=1e-8)
    for e in range(len(rows)):
        for level in range(model.n_levels[columns[e]]):
            exact = slow_log_probability(model, rows[e], columns[e], level, mean[e], variance[e])
            assert np.log(got[e, level]) == pytest.approx(exact, abs=1e-7)
        assert not got[e, model.n_levels[columns[e]] :].any()


def test_pull_is_the_slope_of_the_log_likelihood(table, model):
    answers, _ = mf.answers_of(table)
    sides = (model.rows, model.columns, model.row_gaps, model.column_gaps)
    got = mf._pull(answers, *sides)
    mean, _ = cell_means(answers.this, answers.other, model.rows, model.columns)
    for e, (d, i, level) in enumerate(entries_of(table)):
        around = [
            slow_log_probability(model, d, i, level, mean[e] + step, 0.0) for step in (1e-5, -1e-5)
        ]
        assert got[e] == pytest.approx((around[0] - around[1]) / 2e-5, abs=1e-6)


def slow_width_posterior(model, table, d, kappa):
    """Log posterior of the widths of one row, the rest being given."""
    kappa = np.r_[model.row_gaps.step[d, 0], kappa]
    cutpoints = model.row_gaps.step.copy()
    cutpoints[d] = kappa
    moved = model._replace(row_gaps=model.row_gaps._replace(step=cutpoints))
    total = -0.5 * (model.row_gaps.precision * (kappa - model.row_gaps.centre[d]) ** 2).sum()
    columns, levels = table.row(d)
    rows = np.full(len(columns), d, dtype=np.int32)
    for i, level, mean, variance in zip(
        columns, levels, *cell_means(rows, columns, model.rows, model.columns), strict=True
    ):
        total += slow_log_probability(moved, d, i, level, mean, variance)
    return total


def test_newton_steps_on_widths_end_where_the_posterior_is_flat(table, model):
    answers, _ = mf.answers_of(table)
    given = (answers, model.rows, model.columns)
    gaps = model.row_gaps
    for _ in range(60):
        gaps, variance = mf.moved_gaps(*given, gaps, model.column_gaps)
    found = model._replace(row_gaps=gaps)
    np.testing.assert_array_equal(gaps.step[:, 0], 0.0)
    assert (variance * gaps.precision < 1.0 + 1e-12).all()
    for d in range(0, table.n_rows, 3):
        here = gaps.step[d, 1:]
        slope = approx_fprime(here, lambda k, d=d: slow_width_posterior(found, table, d, k), 1e-6)
        np.testing.assert_allclose(slope, 0.0, atol=1e-3)
        before = slow_width_posterior(model, table, d, model.row_gaps.step[d, 1:])
        assert slow_width_posterior(found, table, d, here) > before


def test_half_sweeps_of_a_point_end_where_the_posterior_is_flat(table, model):
    """Expected utilities in place of values lead to the same place as the likelihood itself."""
    no_spread = np.zeros_like(model.rows.variance), np.zeros_like(model.columns.variance)
    columns = model.columns._replace(variance=no_spread[1])
    answers, _ = mf.answers_of(table)
    rows = model.rows._replace(variance=no_spread[0])
    for _ in range(80):
        pull = mf._pull(answers, rows, columns, model.row_gaps, model.column_gaps)
        rows = mf.improved(answers.view, rows, columns, pull, 1.0, "point")

    def log_posterior(d, effects):
        seen, levels = table.row(d)
        mean = effects[0] + columns.mean[seen, 0] + columns.mean[seen, 1:] @ effects[1:]
        return -0.5 * (rows.precision * effects**2).sum() + sum(
            slow_log_probability(model, d, i, level, m, 0.0)
            for i, level, m in zip(seen, levels, mean, strict=True)
        )

    for d in range(0, table.n_rows, 4):
        slope = approx_fprime(rows.mean[d], lambda effects, d=d: log_posterior(d, effects), 1e-6)
        np.testing.assert_allclose(slope, 0.0, atol=1e-4)


def test_roles_can_be_swapped(model):
    """With one scale for all columns, the transposed table is the same problem."""
    table = ratings(25, 16).train
    ours, theirs = mf.answers_of(table)[1], mf.answers_of(table.transpose())[0]
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)
    sides = (model.columns, model.rows, model.column_gaps, model.row_gaps)
    swapped = mf._half_sweep(theirs, *sides, "variational")
    for mine, other in zip(mf._half_sweep(ours, *sides, "variational"), swapped, strict=True):
        for part, twin in zip(mine, other, strict=True):
            np.testing.assert_array_equal(part, twin)


def test_moving_what_is_shared_leaves_distributions_alone(table, model):
    rows, columns = (part.ravel() for part in np.indices((25, 16)))
    before = mf.predict_proba(model, rows, columns)
    moved = mf._with_common_cutpoints(model)
    np.testing.assert_allclose(mf.predict_proba(moved, rows, columns), before, atol=1e-10)
    np.testing.assert_allclose(moved.row_gaps.step.mean(axis=0), 0.0, atol=1e-12)
    assert moved.rows.mean[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    for scale in SCALES:
        alike = model.n_levels == scale
        assert moved.columns.mean[alike, 0].mean() == pytest.approx(0.0, abs=1e-12)
        centre = moved.column_gaps.centre[alike]
        assert (centre == centre[0]).all()


def test_thresholds_are_found():
    """Without effects, common steps end at the thresholds that made the answers."""
    rng = np.random.default_rng(0)
    levels = np.searchsorted(ENDS[5], rng.normal(size=(300, 40)))
    table = Observations.from_dense(levels, 5)
    model, _ = mf.fit(table, settings=mf.Settings(n_factors=2, n_epochs=25))
    cutpoints = model.column_gaps.centre[0]
    np.testing.assert_allclose(
        np.cumsum(np.r_[cutpoints[0], np.exp(cutpoints[1:])]), ENDS[5], atol=0.1
    )


def test_a_new_row_is_placed_like_an_old_one(table):
    model, _ = mf.fit(table, settings=mf.Settings(n_factors=2, n_epochs=40))
    again = table.take_rows([4, 9])
    rows, gaps = mf.fold_in_rows(model, again)
    new = model._replace(rows=rows, row_gaps=gaps)
    cells = np.repeat([0, 1], 16), np.tile(np.arange(16), 2)
    old = mf.predict_proba(model, np.array([4, 9])[cells[0]], cells[1])
    np.testing.assert_allclose(mf.predict_proba(new, *cells), old, atol=0.03)
