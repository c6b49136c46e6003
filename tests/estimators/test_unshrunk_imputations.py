"""Draws with parameters from their posterior: not shrunk, by chance alone, and shifted where asked."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.stats.latent_normal import Categories, LatentNormal, Number, Scale

QUICK = {"n_epochs": 1, "validation_fraction": 0.0, "random_state": 0}


def correlated(n_rows, rho, n_columns, seed):
    rng = np.random.default_rng(seed)
    return np.sqrt(rho) * rng.normal(size=(n_rows, 1)) + np.sqrt(1 - rho) * rng.normal(
        size=(n_rows, n_columns)
    )


def sampled(questions, n_rows, n_sweeps, what, covariates=None, weight=None, burn_in=50):
    """What a function finds in the sampler after each sweep."""
    x = np.zeros((n_rows, 0)) if covariates is None else covariates
    chain = LatentNormal(questions, x, np.ones(n_rows) if weight is None else weight, seed=0)
    found = []
    for sweep in range(burn_in + n_sweeps):
        chain.sweep()
        if sweep >= burn_in:
            found.append(what(chain))
    return np.array(found)


# ---- the sampler against what is known ---------------------------------------------------------------


def test_numbers_without_gaps_have_the_posterior_of_a_covariance():
    """Inverse Wishart with N + 1 + n - 1 degrees of freedom, around the squares and one on the diagonal."""
    z = correlated(60, 0.4, 3, 1) * [1.0, 2.0, 0.5]
    found = sampled(
        [Number(column) for column in z.T], 60, 1000, lambda c: np.linalg.inv(c.precision), burn_in=5
    )
    squares = np.cov(z.T, bias=True) * 60 + np.eye(3)
    mean = squares / (60 + 4 - 1 - 3 - 1)
    np.testing.assert_allclose(found.mean(axis=0), mean, rtol=0.06)
    variance = 2 * np.diag(mean) ** 2 / (60 + 4 - 1 - 3 - 3)
    np.testing.assert_allclose(np.diagonal(found, axis1=1, axis2=2).var(axis=0), variance, rtol=0.15)


def test_thresholds_of_a_scale_alone_have_the_posterior_of_its_shares():
    """Without other columns, a share varies by p (1 - p) / n."""
    shares, n = np.array([0.1, 0.25, 0.3, 0.25, 0.1]), 400
    level = np.repeat(np.arange(5), (shares * n).astype(int))

    def chances(chain):
        spread = 1.0 / np.sqrt(chain.precision[0, 0])
        return np.diff(
            norm.cdf((chain.questions[0].thresholds - chain.mean[0, 0]) / spread), prepend=0, append=1
        )

    found = sampled([Scale(level)], n, 1500, chances)
    np.testing.assert_allclose(found.mean(axis=0), shares, atol=0.012)
    np.testing.assert_allclose(found.std(axis=0), np.sqrt(shares * (1 - shares) / n), rtol=0.25)


def test_categories_and_yes_or_no_keep_their_shares_by_a_covariate():
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=900)
    party = np.where(rng.random(900) < np.where(group, 0.7, 0.2), 0, rng.integers(1, 3, 900))
    yes = (rng.random(900) < np.where(group, 0.8, 0.3)).astype(int)
    gaps = rng.random(900) < np.where(group, 0.6, 0.1)
    questions = [Categories(np.where(gaps, -1, party)), Scale(np.where(gaps, -1, yes))]
    x = (group - group.mean())[:, None]
    drawn = sampled(questions, 900, 150, lambda c: c.answers(np.zeros(2)), x)
    for j, whole in enumerate((party, yes)):
        for g in (0, 1):
            filled = drawn[:, gaps & (group == g), j]
            assert (filled == 0).mean() == pytest.approx((whole[~gaps & (group == g)] == 0).mean(), abs=0.03)


def test_levels_that_nobody_chose_and_single_ones():
    level = np.array([0, 2, 5, 5, -1, 2, 0, 5] * 10)
    drawn = sampled(
        [Scale(level), Scale(np.where(level < 0, -1, 3))], 80, 5, lambda c: c.answers(np.zeros(2))
    )
    assert set(np.unique(drawn[:, :, 0])) <= {0, 2, 5} and (drawn[:, :, 1] == 3).all()
    assert (drawn[:, level >= 0, 0] == level[level >= 0]).all()


def test_rows_without_weight_change_no_parameter():
    z = correlated(80, 0.5, 2, 4)
    weight = np.repeat([1.0, 0.0], 40)
    other = np.where(weight[:, None] > 0, z, 5.0 * z)
    first, second = (
        sampled([Number(c) for c in table.T], 80, 3, lambda c: c.precision, weight=weight)
        for table in (z, other)
    )
    np.testing.assert_allclose(first, second)


# ---- imputed tables ---------------------------------------------------------------------------------


def test_what_is_missing_at_random_is_not_biased():
    """Half of the answers to two questions are missing where two others are high."""
    complete = 1.0 + np.digitize(correlated(1500, 0.5, 4, 5), [-1.0, 0.0, 0.8])
    hidden = (
        np.random.default_rng(6).random(complete.shape)
        < norm.cdf(complete[:, :2].mean(axis=1) - 2.4)[:, None]
    )
    hidden[:, :2] = False
    X = np.where(hidden, np.nan, complete)
    tables = orbm.CumulativeRBM(**QUICK).fit(X).impute(X, n_draws=8, random_state=0)
    dropped = np.nanmean(X, axis=0)[2:] - complete.mean(axis=0)[2:]
    assert (dropped < -0.15).all()
    bias = np.mean(tables, axis=0).mean(axis=0)[2:] - complete.mean(axis=0)[2:]
    np.testing.assert_allclose(bias, 0.0, atol=0.04)
    z = np.mean([np.arctanh(np.corrcoef(table.T)[np.triu_indices(4, 1)]) for table in tables], axis=0)
    np.testing.assert_allclose(z, np.arctanh(np.corrcoef(complete.T)[np.triu_indices(4, 1)]), atol=0.08)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(8)
    utility = correlated(300, 0.3, 3, 9)
    frame = pd.DataFrame(1.0 + np.digitize(utility, [-0.8, 0.1, 1.0]), columns=["tea", "milk", "rain"])
    frame["income"] = 1000.0 + 200.0 * (0.5 * utility[:, 0] + rng.normal(size=300))
    frame["party"] = rng.choice(["red", "blue"], 300)
    frame["land"] = np.repeat(["at", "ch"], 150)
    return frame.mask((rng.random(frame.shape) < 0.3) & (frame.columns != "land"))


@pytest.fixture(scope="module")
def model(table):
    kinds = {"nominal": ["party"], "numeric": ["income"], "background": ["land"]}
    return orbm.CumulativeRBM(**kinds, **QUICK).fit(table)


WAYS = [{}, {"n_draws": 4, "random_state": 0}, {"n_draws": 4, "parameters": "fixed", "random_state": 0}]


@pytest.mark.parametrize("how", WAYS, ids=["median", "drawn", "fixed"])
def test_delta_shifts_what_is_missing(model, table, how):
    def means(delta):
        found = model.impute(table, delta=delta, **how)
        tables = found if isinstance(found, list) else [found]
        filled = [each[["tea", "milk", "income"]][table[["tea", "milk", "income"]].isna()] for each in tables]
        return pd.concat(filled).mean()

    plain, shifted = means(0.0), means({"tea": 1.0, "income": -0.5})
    assert shifted["tea"] > plain["tea"] + 0.5
    assert shifted["milk"] == pytest.approx(plain["milk"], abs=1e-12)
    assert shifted["income"] - plain["income"] == pytest.approx(-0.5 * table["income"].std(), rel=0.2)
    everything = means(-1.0)
    assert (everything < plain).all()


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ({"coffee": 1.0}, "'coffee' in delta is no column of levels or numbers"),
        ({"party": 1.0}, "'party' in delta is no column"),
        ({"tea": np.nan}, "delta of 'tea' must be a finite number"),
        ("much", "delta of 'tea' must be a finite number.*'much'"),
    ],
)
def test_deltas_that_are_none(model, table, delta, words):
    with pytest.raises(DataError, match=words):
        model.impute(table, n_draws=2, delta=delta)


def test_background_tells_which_group_was_never_asked(model, table):
    asked = table.assign(milk=table["milk"].mask(table["land"] == "ch"))
    with pytest.warns(UserWarning, match="Never asked: 'milk' where land is ch"):
        tables = model.impute(asked, n_draws=2, random_state=0)
    there = asked["land"] == "ch"
    for filled in tables:
        assert filled["milk"][there].isna().all() and filled["milk"][~there].notna().all()
        assert filled.drop(columns="milk").notna().all(axis=None)
