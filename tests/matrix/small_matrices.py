"""Small rating matrices for the tests, all rating models, and what they say, written plainly."""

import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.model import Half, MatrixModel
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.training.checkpoint import CheckpointWriter

# Nothing is learnt for lists, which takes longer than the models, but where lists are tested.
SMALL = {"n_epochs": 6, "batch_size": 40, "random_state": 0, "demand_factors": 0}
LISTS = {"demand_factors": 64}
LABELS = np.array([1, 2, 3, 4, 5])


def small(n_user_factors=4, n_item_factors=4, **changes):
    """The paper's model, learnt in no time."""
    return orbm.MatrixCumulativeRBM(n_user_factors, n_item_factors, **{**SMALL, **changes})


# ---- all rating models --------------------------------------------------------------------------


def _factorisation(kind, **own):
    def make(n_factors=4, **changes):
        return kind(n_factors, **{"n_epochs": 6, "random_state": 0, "demand_factors": 0, **own, **changes})

    return make


def _multinomial(n_factors=4, **changes):
    # The strength that suits many factors leaves nothing of so few.
    return orbm.MultinomialRBM(n_factors, **{**SMALL, "batch_size": 4, "weight_decay": 2.0, **changes})


def _matrix(n_factors=4, **changes):
    return small(n_factors, n_factors, **changes)


MODELS = {
    "matrix": _matrix,
    "ordinal": _factorisation(orbm.OrdinalMF),
    # The strength that suits many factors leaves nothing of so few.
    "ordinal point": _factorisation(orbm.OrdinalMF, posterior="point", factor_precision=2.0),
    "sampled": _factorisation(orbm.OrdinalMF, posterior="sampled", n_draws=12, n_epochs=36),
    "gaussian": _factorisation(orbm.GaussianMF),
    "multinomial": _multinomial,
}
# Those that need not have one scale for all items.
ON_ANY_SCALES = [name for name in MODELS if name != "gaussian"]

every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
on_any_scales = pytest.mark.parametrize("make", [MODELS[name] for name in ON_ANY_SCALES], ids=ON_ANY_SCALES)


def simulated(n_users=120, n_items=50, *, density=0.35, seed=0):
    """Ratings 1..5: people like what is of their kind, some items are better, some people milder.

    Users and items are text, so that their order is not that of numbers.
    """
    rng = np.random.default_rng(seed)
    taste, kind = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    utility = taste @ kind.T + 0.5 * rng.normal(size=n_items) + 0.7 * rng.normal(size=(n_users, 1))
    utility += 0.5 * rng.normal(size=utility.shape)
    user, item = np.nonzero(rng.random(utility.shape) < density)
    # Off centre, so that the scale is not symmetric.
    level = np.searchsorted([-2.2, -1.4, -0.3, 1.1], utility[user, item])
    return pd.DataFrame(
        {
            "user": np.char.add("u", user.astype(str)),
            "item": np.char.add("i", item.astype(str)),
            "rating": LABELS[level],
        }
    ).astype({"user": object, "item": object})


@functools.cache
def learnt(name):
    """One of all models, learnt from the simulated ratings; for looking at only."""
    return MODELS[name](**LISTS).fit(simulated())


def halves(ratings, share=0.2, seed=1):
    """Ratings to learn from, and others."""
    hidden = np.random.default_rng(seed).random(len(ratings)) < share
    return ratings[~hidden], ratings[hidden]


def assert_same_models(one, other):
    """Bit for bit."""
    assert len(one.models_) == len(other.models_)
    for first, second in zip(one.models_, other.models_, strict=True):
        parts, others = first.to_arrays(), second.to_arrays()
        assert parts.keys() == others.keys()
        for name, part in parts.items():
            np.testing.assert_array_equal(part, others[name], err_msg=name)
    assert one.best_epoch_ == other.best_epoch_


# ---- the model, cell by cell --------------------------------------------------------------------


def random_model(n_levels, n_rows, n_row_factors, n_column_factors, *, first=None, seed=0):
    """A model with nothing symmetric; ``first`` is everyone's first threshold (else various)."""
    rng = np.random.default_rng(seed)
    n_levels = np.array(n_levels, dtype=np.int32)
    width = n_levels.max() - 1

    def half(n_columns, n_facing, n_factors):
        return Half(
            weights=rng.normal(0.2, 0.7, (n_columns, n_factors)).astype(np.float32),
            bias=rng.normal(0.3, 0.5, n_columns).astype(np.float32),
            cutpoints=rng.normal(-0.2, 0.4, (n_columns, width)),
            factor_bias=rng.normal(-0.3, 0.5, n_factors).astype(np.float32),
            factors=rng.random((n_facing, n_factors)).astype(np.float32),
        )

    by_rows = half(n_levels.size, n_rows, n_row_factors)
    by_columns = half(n_rows, n_levels.size, n_column_factors)
    by_columns.cutpoints[:, 0] = 0.0  # the first threshold is the columns' alone
    if first is not None:
        by_rows.cutpoints[:, 0] = first
    return MatrixModel(by_rows, by_columns, n_levels)


def some_answers(n_levels, n_rows, *, gaps=0.3, seed=1):
    """Every level occurs somewhere; some cells are empty, no row or column is."""
    rng = np.random.default_rng(seed)
    dense = np.stack([rng.integers(0, n, n_rows) for n in n_levels], axis=1)
    dense[rng.random(dense.shape) < gaps] = -1
    dense[np.arange(n_rows), np.arange(n_rows) % len(n_levels)] = 0
    return Observations.from_dense(dense, np.array(n_levels))


def cell_mean(model, d, i, h, g):
    """μ_di."""
    own, other = model.by_rows, model.by_columns
    return own.bias[i] + other.bias[d] + own.weights[i] @ h + other.weights[d] @ g


def cell_bounds(model, d, i):
    """−∞, θ_di, +∞."""
    return bounds_of(model.by_rows.cutpoints[i], model.by_columns.cutpoints[d], model.n_levels[i])


def bounds_of(tau, kappa, n_levels):
    """−∞, thresholds of both together, +∞."""
    gaps = [np.exp(tau[m] + kappa[m]) for m in range(1, n_levels - 1)]
    inner = np.cumsum([tau[0] + kappa[0], *gaps])[: n_levels - 1]
    return np.concatenate([[-np.inf], inner, [np.inf]])


def cell_probabilities(model, d, i):
    """The distribution of one rating: see the docstrings of the models."""
    if isinstance(model, MultinomialModel):
        n = model.n_levels[i]
        logs = model.units[i, :n, 0] + model.units[i, :n, 1:] @ (model.factors[d] - 0.5)
        weights = np.exp(logs.astype(np.float64) - logs.max())
        return weights / weights.sum()
    if isinstance(model, GaussianModel):
        mean, deviation = gaussian_cell(model, d, i)
        bounds = bounds_of(model.column_cutpoints[i], model.row_cutpoints[d], model.n_levels[i])
    else:
        h, g = (
            0.5 + gain * (half.factors[at] - 0.5)
            for gain, half, at in zip(model.gains, model[:2], (d, i), strict=False)
        )
        mean, deviation = cell_mean(model, d, i, h, g), model.gains[2]
        bounds = cell_bounds(model, d, i)
    return np.diff(norm.cdf((bounds - mean) / deviation))


def gaussian_cell(model, d, i):
    """Mean and standard deviation of a utility: one, and what is not known of its mean."""
    p, q = model.rows.mean[d].astype(np.float64), model.columns.mean[i].astype(np.float64)
    v, w = model.rows.variance[d].astype(np.float64), model.columns.variance[i].astype(np.float64)
    mean = p[0] + q[0] + p[1:] @ q[1:]
    doubt = v[0] + w[0] + v[1:] @ (q[1:] ** 2 + w[1:]) + p[1:] ** 2 @ w[1:]
    return mean, np.sqrt(1.0 + doubt)


def cell_log_level(model, d, i, level, mean):
    bounds = cell_bounds(model, d, i)
    return np.log(norm.cdf(bounds[level + 1] - mean) - norm.cdf(bounds[level] - mean))


def states(n_factors):
    return np.array(list(itertools.product([0, 1], repeat=n_factors)))


def row_posterior(model, dense, d):
    """P(h_d | v, ĝ) of all states, from the definition."""
    g = model.by_columns.factors
    every = states(model.by_rows.n_factors)
    log_weight = every @ model.by_rows.factor_bias.astype(float)
    for i in np.flatnonzero(dense[d] >= 0):
        for s, h in enumerate(every):
            mean = cell_mean(model, d, i, h, g[i])
            log_weight[s] += 0.5 * mean**2 + cell_log_level(model, d, i, dense[d, i], mean)
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def column_posterior(model, dense, i):
    """P(g_i | v, ĥ) of all states, from the definition."""
    h = model.by_rows.factors
    every = states(model.by_columns.n_factors)
    log_weight = every @ model.by_columns.factor_bias.astype(float)
    for d in np.flatnonzero(dense[:, i] >= 0):
        for s, g in enumerate(every):
            mean = cell_mean(model, d, i, h[d], g)
            log_weight[s] += 0.5 * mean**2 + cell_log_level(model, d, i, dense[d, i], mean)
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


class StoppedError(Exception):
    """As good as a crash."""


def stop_after(n_epochs, monkeypatch):
    """Crash when so many epochs of a fit have ended, the checkpoint of the last one written."""
    after, done = CheckpointWriter.after, []

    def and_stop(self, learner, state):
        after(self, learner, state)
        done.append(1)
        if len(done) == n_epochs:
            raise StoppedError

    monkeypatch.setattr(CheckpointWriter, "after", and_stop)
