"""Response styles against enumeration: given its style, a row follows a plain model."""

import enumeration as oracle
import numpy as np
import pytest
from hand_made_models import PATTERNS, as_oracle, observed, oracle_rows, vector_model
from scipy.special import logsumexp, softmax

from ordinalrbm.vector import likelihood, posterior, predict, sample
from ordinalrbm.vector.model import side

STRETCHES = np.array([0.4, 1.0, 1.9])
WEIGHTS = np.array([0.5, 0.2, 0.3])
N_CHAINS = 400


def styled_model(seed=3, **kwargs):
    plain = vector_model(seed=seed, n_factors=4, scale=0.5, **kwargs)
    return plain._replace(stretches=STRETCHES, style_weights=WEIGHTS)


def judges(model):
    """The oracle's plain model of each style."""
    plain = as_oracle(model)
    return [plain._replace(thresholds=[c * t for t in plain.thresholds]) for c in STRETCHES]


def log_joint(model, row):
    """(G,) log P(style, answers) of one of the oracle's rows."""
    given = [oracle.log_likelihood(judge, row) for judge in judges(model)]
    return np.log(WEIGHTS) + np.array(given)


def test_the_likelihood_sums_over_the_styles():
    model = styled_model()
    this = side(model, observed(PATTERNS))
    exact = [logsumexp(log_joint(model, row)) for row in oracle_rows(PATTERNS)]
    np.testing.assert_allclose(likelihood.exact(model, this).value, exact, rtol=1e-10, atol=1e-10)
    found = likelihood.annealed(model, this, seed=1)
    assert np.abs(found.value - exact).max() < 0.1
    assert (np.abs(found.value - exact) <= 4 * found.standard_error + 1e-6).all()


def test_styles_given_the_factors_are_exact():
    """Bayes' rule by hand, for every row and some state of the factors."""
    model = styled_model()
    this = side(model, observed(PATTERNS))
    factors = np.random.default_rng(0).integers(0, 2, (len(PATTERNS), 4)).astype(np.uint8)
    found = posterior._style_chances(model, this, factors, 0, len(PATTERNS))
    for row, h, chances in zip(oracle_rows(PATTERNS), factors, found, strict=True):
        state = np.flatnonzero((oracle.states(4) == h).all(axis=1))[0]
        given = [oracle.log_answers(judge, row)[state] for judge in judges(model)]
        np.testing.assert_allclose(chances, softmax(np.log(WEIGHTS) + given), atol=1e-5)


def test_drawn_predictions_are_the_exact_ones():
    model = styled_model(seed=12)
    this = side(model, observed(np.repeat(PATTERNS, N_CHAINS, axis=0)))
    cells = predict.all_cells(this.n_rows, 4)
    draws = posterior.draws(model, this, 60, seed=2)
    found = predict.probabilities(model, draws, cells).reshape(len(PATTERNS), N_CHAINS, 4, -1)
    mean, error = found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(N_CHAINS)
    assert error.max() < 0.01
    for pattern, row in enumerate(oracle_rows(PATTERNS)):
        chances = softmax(log_joint(model, row))
        for i, n_levels in enumerate(model.n_levels):
            exact = sum(
                share * oracle.posterior(judge, row) @ oracle.level_probabilities(judge, i)
                for share, judge in zip(chances, judges(model), strict=True)
            )
            distance = np.abs(mean[pattern, i, :n_levels] - exact)
            assert (distance <= 4 * error[pattern, i, :n_levels] + 2e-4).all()


def test_mean_field_weighs_the_styles_nearly_right():
    """As good as mean-field is: close for weak weights, and exact without any."""
    for scale, tolerance in ((0.0, 1e-5), (0.2, 0.03)):
        plain = vector_model(seed=4, n_factors=4, scale=scale)
        model = plain._replace(stretches=STRETCHES, style_weights=WEIGHTS)
        found = posterior.mean_field(model, side(model, observed(PATTERNS)))
        exact = [softmax(log_joint(model, row)) for row in oracle_rows(PATTERNS)]
        np.testing.assert_allclose(found.style_weights, exact, atol=tolerance)
        np.testing.assert_allclose(found.style_weights.sum(axis=1), 1.0)


def test_mixed_predictions_average_over_the_styles():
    model = styled_model()
    this = side(model, observed(PATTERNS))
    cells = predict.all_cells(len(PATTERNS), 4)
    found = posterior.mean_field(model, this)
    by_hand = np.zeros((cells.column.size, 7))
    row = np.repeat(np.arange(len(PATTERNS)), 4)
    for part in found.components:
        by_hand += part.weight[row, None] * predict.probabilities(model, [part.state], cells)
    np.testing.assert_allclose(predict.mixed(model, this, found, cells), by_hand)
    widened = predict.mixed(model, this, found, cells, widened=True)
    np.testing.assert_allclose(widened.sum(axis=1), 1.0)
    assert not np.allclose(widened, by_hand)


@pytest.fixture(scope="module")
def made_up():
    """A model, and rows of it."""
    model = styled_model(seed=7)
    return model, sample.rows(model, 20_000, seed=3, gibbs_steps=60)


@pytest.mark.parametrize("column", [0, 2, 3])
def test_made_up_rows_have_the_exact_marginals(column, made_up):
    model, drawn = made_up[0], made_up[1][:, column]
    everything = oracle.row_of(dict.fromkeys(range(4), 0))
    share = np.bincount(drawn, minlength=model.n_levels[column]) / drawn.size
    exact = 0.0
    for weight, judge in zip(WEIGHTS, judges(model), strict=True):
        prior = softmax(oracle.log_factor_weight(judge, everything))
        exact = exact + weight * prior @ oracle.level_probabilities(judge, column)
    error = np.sqrt(exact * (1 - exact) / drawn.size)
    assert (np.abs(share - exact) <= 4 * error).all()


def test_errors_of_annealing_are_as_large_as_they_say():
    """Each style has draws of its own; with the same for all, errors would be called too small."""
    model = vector_model(5, scale=1.0)._replace(
        stretches=np.array([0.5, 1.0, 2.0]), style_weights=np.array([0.3, 0.4, 0.3])
    )
    this = side(model, observed(PATTERNS[:4]))
    exact = likelihood.exact(model, this).value
    runs = [likelihood.annealed(model, this, seed, n_temperatures=20, n_chains=100) for seed in range(50)]
    z = [(run.value - exact) / run.standard_error for run in runs]
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2
