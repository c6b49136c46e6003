"""Rows and gaps that the model fills by chance, against the distributions they come from."""

import itertools

import enumeration as oracle
import numpy as np
import pytest
from hand_made_models import N_LEVELS, as_oracle, observed, oracle_rows, vector_model
from scipy.special import logsumexp
from scipy.stats import chisquare

from ordinalrbm.estimators.validation import to_arviz
from ordinalrbm.vector import posterior, predict, sample
from ordinalrbm.vector.model import side

ALL_ROWS = np.array(list(itertools.product(*map(range, N_LEVELS))))


def in_arviz(draws):
    return to_arviz({"factors": draws}, {"factors": ["row", "factor"]})


def place(levels):
    """Number of each row in ALL_ROWS."""
    return np.ravel_multi_index(levels.T, N_LEVELS)


def assert_drawn_from(counts, probabilities):
    """A chi-squared test, cells that expect less than five counts taken together."""
    expected = counts.sum() * probabilities
    small = expected < 5
    observed_counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    assert chisquare(observed_counts[expected > 0], expected[expected > 0]).pvalue > 1e-3


@pytest.mark.parametrize("units", [1, 3])
def test_rows_have_the_frequencies_of_the_model(units):
    model = vector_model(seed=31, n_factors=3, scale=0.6 / np.sqrt(units), units=units)
    judge = as_oracle(model)
    exact = np.exp([oracle.log_likelihood(judge, row) for row in oracle_rows(ALL_ROWS)])
    drawn = sample.rows(model, 15_000, seed=1, gibbs_steps=80)
    assert drawn.shape == (15_000, 4)
    counts = np.bincount(place(drawn), minlength=len(ALL_ROWS))
    assert_drawn_from(counts, exact)
    # The same frequencies would not pass as those of independent answers.
    cube = exact.reshape(N_LEVELS)
    marginals = [cube.sum(axis=tuple(j for j in range(4) if j != i)) for i in range(4)]
    independent = np.einsum("a,b,c,d->abcd", *marginals).reshape(-1)
    with pytest.raises(AssertionError):
        assert_drawn_from(counts, independent)


def test_the_default_number_of_steps_is_enough_here():
    model = vector_model(seed=32, n_factors=3, scale=0.8)
    judge = as_oracle(model)
    exact = np.exp([oracle.log_likelihood(judge, row) for row in oracle_rows(ALL_ROWS)])
    drawn = sample.rows(model, 4_000, seed=2)
    assert_drawn_from(np.bincount(place(drawn), minlength=len(ALL_ROWS)), exact)


def test_gaps_are_drawn_together_given_the_answers():
    """Two gaps of a row share its factors, so they are dependent."""
    model = vector_model(seed=10, n_factors=3, scale=1.2)
    given = np.array([-1, 1, -1, 4])
    row = oracle_rows([given])[0]
    judge = as_oracle(model)
    posterior = oracle.posterior(judge, row)
    two, five = (oracle.level_probabilities(judge, i) for i in (0, 2))
    exact = np.einsum("s,sa,sb->ab", posterior, two, five)
    n_rows = 4_000
    many = np.tile(given, (n_rows, 1))
    this = side(model, observed(many))
    cells = predict.chosen_cells(many < 0)
    draws = list(sample.gaps(model, this, cells, 3, seed=3))
    for drawn in draws:
        pairs = drawn.reshape(n_rows, 2)
        counts = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=10)
        assert_drawn_from(counts, exact.reshape(-1))
        with pytest.raises(AssertionError):
            assert_drawn_from(counts, np.outer(exact.sum(axis=1), exact.sum(axis=0)).reshape(-1))
    # Draws of one row differ about as often as independent ones would.
    differ = np.mean(draws[0].reshape(n_rows, 2) != draws[1].reshape(n_rows, 2), axis=0)
    independent = [1 - np.sum(exact.sum(axis=axis) ** 2) for axis in (1, 0)]
    np.testing.assert_allclose(differ, independent, rtol=0.1)


# Diagnostics

with_arviz = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@with_arviz
def test_chains_that_mix_have_an_r_hat_near_one():
    arviz = pytest.importorskip("arviz")
    model = vector_model(seed=35, n_factors=4, scale=0.5)
    dense = np.array([[1, 0, 4, 2], [-1, 1, -1, 3]])
    draws = posterior.chains(model, side(model, observed(dense)), 4, 500, seed=5)
    assert draws.shape == (4, 500, 2, 4)
    found = in_arviz(draws)
    factors = found.posterior["factors"]
    assert factors.dims == ("chain", "draw", "row", "factor")
    assert float(np.abs(arviz.rhat(found)["factors"] - 1).max()) < 0.02
    judge = as_oracle(model)
    exact = [oracle.posterior(judge, row) @ oracle.states(4) for row in oracle_rows(dense)]
    size = arviz.ess(found)["factors"].to_numpy()
    error = np.sqrt(np.array(exact) * (1 - np.array(exact)) / size)
    assert (np.abs(factors.mean(["chain", "draw"]) - exact) <= 4 * error).all()


@with_arviz
def test_chains_that_do_not_mix_are_found_out():
    """Two factors that pull every question the same way: both on, or both off, for very long."""
    arviz = pytest.importorskip("arviz")
    n_columns = 12
    model = vector_model(seed=36, n_levels=(2,) * n_columns, n_factors=2)
    stuck = model._replace(
        weights=np.full((n_columns, 2), 1.5, dtype=np.float32),
        bias=np.full(n_columns, -1.5, dtype=np.float32),
        factor_bias=np.zeros(2, dtype=np.float32),
    )
    unknown = observed(np.full((1, n_columns), -1), stuck.n_levels)
    # Both modes are as likely, so a chain that mixed would see both.
    this = side(stuck, unknown, "latent")
    draws = posterior.chains(stuck, this, 4, 200, seed=6)
    assert float(arviz.rhat(in_arviz(draws.astype(float) + _jitter(draws)))["factors"].max()) > 1.5


def _jitter(draws):
    """R-hat of a chain that never moves is undefined; the least noise makes it infinite instead."""
    return np.random.default_rng(0).normal(scale=1e-3, size=draws.shape)


def test_chains_start_far_from_each_other(monkeypatch):
    """With no step taken, the first chain is all off and the second all on."""
    starts = []
    monkeypatch.setattr(
        posterior, "clamped_sweep", lambda this, factors, batch: starts.append(factors.copy())
    )
    model = vector_model(seed=37, units=3)
    posterior.chains(model, side(model, observed([[1, 0, 4, 2]])), 3, 0, seed=7)
    assert (starts[0] == 0).all()
    assert (starts[1] == 3).all()


def test_partition_and_draws_agree_about_rare_answers():
    """A level with probability below 1e-4 is drawn about as often as it should be."""
    model = vector_model(seed=38, n_levels=(5, 3), n_factors=2, scale=0.3)
    rare = model._replace(cutpoints=np.array([[2.8, 0.1, 0.1, 0.1], [-0.2, 0.3, 0.0, 0.0]]))
    judge = as_oracle(rare)
    rows = oracle_rows([[level, second] for level in range(5) for second in range(3)])
    log_probability = np.array([oracle.log_likelihood(judge, row) for row in rows])
    first = np.exp(logsumexp(log_probability.reshape(5, 3), axis=1))
    assert first[1:].sum() < 0.02
    drawn = sample.rows(rare, 30_000, seed=8, gibbs_steps=20)
    assert_drawn_from(np.bincount(drawn[:, 0], minlength=5), first)
