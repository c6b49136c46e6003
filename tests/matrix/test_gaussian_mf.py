"""Gaussian matrix factorisation."""

import numpy as np
import pytest
from made_up_ratings import ratings
from scipy.stats import norm

from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix.baselines import gaussian_mf as mf

VALUES = np.array([1.0, 2.0, 4.0, 4.5, 7.0])  # not evenly spaced on purpose


@pytest.fixture(scope="module")
def fitted():
    """A model of columns with 3 and with 5 levels."""
    data = ratings(scales=(5, 3))
    return data, mf.fit(data.train, VALUES, settings=mf.Settings(n_factors=4, n_epochs=15))[0]


def log_posterior(model, entries):
    """Of a point: Gaussian noise and Gaussian priors, without what does not change."""
    pull, _ = mf._pull(entries, model.mean, model.rows, model.columns)
    penalty = sum((e.precision * e.mean**2).sum() for e in (model.rows, model.columns))
    return -0.5 * ((pull**2).sum() / model.noise + penalty)


def test_half_sweeps_of_a_point_climb_the_posterior():
    data = ratings(40, 20)
    model = mf._initial(data.train, VALUES, mf.Settings(n_factors=3, posterior="point"))
    of_rows, of_columns = mf._entries(model, data.train)
    values = [log_posterior(model, of_rows)]
    for _ in range(6):
        pull, _ = mf._pull(of_rows, model.mean, model.rows, model.columns)
        rows = mf.improved(of_rows.view, model.rows, model.columns, pull, model.noise, "point")
        model = model._replace(rows=rows)
        values.append(log_posterior(model, of_rows))
        pull, _ = mf._pull(of_columns, model.mean, model.columns, model.rows)
        columns = mf.improved(
            of_columns.view, model.columns, model.rows, pull, model.noise, "point"
        )  # fmt: skip
        model = model._replace(columns=columns)
        values.append(log_posterior(model, of_rows))
    assert (np.diff(values) > 0).all()


def test_half_sweeps_see_the_same_residuals_from_both_sides(fitted):
    data, model = fitted
    of_rows, of_columns = mf._entries(model, data.train)
    ours, our_variance = mf._pull(of_rows, model.mean, model.rows, model.columns)
    theirs, their_variance = mf._pull(of_columns, model.mean, model.columns, model.rows)
    order = data.train.column_view.entry
    np.testing.assert_allclose(theirs, ours[order], atol=1e-12)
    np.testing.assert_allclose(their_variance, our_variance[order], atol=1e-12)


def test_distribution_is_the_gaussian_between_mid_points(fitted):
    _, model = fitted
    got = mf.predict_proba(model, [3, 3], [0, 1])  # columns of 5 and of 3 levels
    for line, i, n in zip(got, (0, 1), (5, 3), strict=True):
        mean = model.mean + model.rows.mean[3, 0] + model.columns.mean[i, 0]
        mean += model.rows.mean[3, 1:] @ model.columns.mean[i, 1:]
        p, q = model.rows, model.columns
        variance = model.noise + p.variance[3, 0] + q.variance[i, 0]
        variance += (p.variance[3] * q.mean[i] ** 2 + p.mean[3] ** 2 * q.variance[i])[1:].sum()
        variance += (p.variance[3] * q.variance[i])[1:].sum()
        middles = 0.5 * (VALUES[1:n] + VALUES[: n - 1])
        below = norm.cdf(middles, model.scale * mean, model.scale * np.sqrt(variance))
        np.testing.assert_allclose(line[:n], np.diff(np.r_[0.0, below, 1.0]), atol=1e-12)
        assert not line[n:].any()


def test_means_stay_on_the_scale_of_their_column(fitted):
    _, model = fitted
    extreme = model.rows.mean.copy()
    extreme[:, 0] = 50.0
    up = model._replace(rows=model.rows._replace(mean=extreme))
    np.testing.assert_array_equal(mf.predict_mean(up, [0, 0, 0], [0, 1, -1]), [7.0, 4.0, 7.0])
    down = model._replace(rows=model.rows._replace(mean=-extreme))
    np.testing.assert_array_equal(mf.predict_mean(down, [0, 0, 0], [0, 1, -1]), [1.0, 1.0, 1.0])


def test_noise_is_found():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 80)) + rng.normal(0, 0.6, (150, 80))
    edges = np.linspace(-4, 4, 60)
    values = np.r_[edges - np.diff(edges)[0] / 2, edges[-1] + np.diff(edges)[0] / 2]
    table = Observations.from_dense(np.searchsorted(edges, truth), 61)
    model, _ = mf.fit(table, values, settings=mf.Settings(n_factors=6, n_epochs=30))
    assert model.scale**2 * model.noise == pytest.approx(0.36, rel=0.05)
    assert (model.rows.precision[1:3] < 0.2 * model.rows.precision[3:].min()).all()  # two matter


def test_values_must_ascend_and_suffice():
    table = Observations.from_dense([[0, 1, 2]], 3)
    for values in ([1, 3, 2], [1, 2]):
        with pytest.raises(ValueError, match="values must ascend and give one number for each"):
            mf.fit(table, values)
