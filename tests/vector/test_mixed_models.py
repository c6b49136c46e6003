"""Categories, numbers and background in the model of surveys, against enumeration."""

import mixed_enumeration as oracle
import numpy as np
import pytest
from long_form import LONG
from mixed_models import (
    COVARIATES,
    KIND,
    PATTERNS,
    as_oracle,
    expected_factors,
    mixed_model,
    observed,
    oracle_rows,
)

from ordinalrbm.engine.side import Batch
from ordinalrbm.vector import likelihood, posterior, predict, sample
from ordinalrbm.vector.chains import Chains, gradient
from ordinalrbm.vector.model import complete_rows, side
from ordinalrbm.vector.posterior import with_styles

EXACT = {"rtol": 1e-5, "atol": 1e-5}  # covariates and numbers are float32 in a Side
EVERYTHING = range(6)
N_CHAINS = 300
STANDARD_ERRORS = 4.5


def asked(unanswered):
    return None if unanswered == "absent" else EVERYTHING


def over(model, unanswered="absent"):
    return side(model, observed(background=model.n_covariates > 0), unanswered)


# ---- likelihood ---------------------------------------------------------------------------------


@pytest.mark.parametrize("unanswered", ["absent", "latent"])
@pytest.mark.parametrize(("units", "background"), [(1, True), (2, True), (1, False)])
def test_log_likelihood_equals_the_oracle(units, background, unanswered):
    model = mixed_model(units, units=units, background=background)
    judge = as_oracle(model)
    expected = [
        oracle.log_likelihood(judge, answers, x, asked(unanswered))
        for answers, x in zip(oracle_rows(), COVARIATES, strict=True)
    ]
    found = likelihood.exact(model, over(model, unanswered)).value
    np.testing.assert_allclose(found, expected, **EXACT)


def test_styles_stretch_scales_and_nothing_else():
    model = with_styles(mixed_model(3), 3)
    styles = list(zip(model.stretches, model.style_weights, strict=True))
    judge = as_oracle(model)
    expected = [
        oracle.log_likelihood(judge, answers, x, styles=styles)
        for answers, x in zip(oracle_rows(), COVARIATES, strict=True)
    ]
    np.testing.assert_allclose(likelihood.exact(model, over(model)).value, expected, **EXACT)


def test_the_oracle_is_a_distribution():
    """Summed over levels and categories, integrated over numbers: one."""
    judge, x = as_oracle(mixed_model(4)), COVARIATES[0]
    few = {"scale": (0, 3), "nominal": (1, 3)}

    def joint(numbers):
        return sum(
            np.exp(oracle.log_likelihood(judge, {0: level, 1: category, 2: numbers[0]}, x))
            for level in range(few["scale"][1])
            for category in range(few["nominal"][1])
        )

    assert oracle.over_numbers(joint, 1) == pytest.approx(1.0, abs=1e-6)


def test_posterior_equals_the_oracle():
    model = mixed_model(2)
    states, found = likelihood.exact_posterior(model, over(model))
    place = states.astype(int) @ (1 << np.arange(model.n_factors))
    for answers, x, row in zip(oracle_rows(), COVARIATES, found, strict=True):
        expected = oracle.posterior(as_oracle(model), answers, x)
        np.testing.assert_allclose(row, expected[place], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_annealing_agrees_with_enumeration(unanswered):
    model = with_styles(mixed_model(5), 2)
    this = over(model, unanswered)
    exact = likelihood.exact(model, this).value
    found = likelihood.annealed(model, this, seed=1, n_temperatures=300, n_chains=200 if LONG else 50)
    assert found.standard_error.max() < 0.1
    off = np.abs(found.value - exact) / (found.standard_error + 1e-9)
    assert off[:-1].max() < STANDARD_ERRORS
    assert found.value[-1] == pytest.approx(0.0, abs=STANDARD_ERRORS * 0.1)


# ---- the gradient -------------------------------------------------------------------------------


def flat(parts):
    names = ("weights", "bias", "factor_bias", "cutpoints", "slopes", "factor_slopes")
    return np.concatenate([np.ravel(getattr(parts, name)).astype(np.float64) for name in names])


def exact_gradient(model, unanswered):
    """Mean over the patterns, by central differences of the oracle's log-likelihood."""
    names = ("weights", "bias", "factor_bias", "cutpoints", "slopes", "factor_slopes")

    def value(changed):
        judge = as_oracle(changed)
        return np.mean(
            [
                oracle.log_likelihood(judge, answers, x, asked(unanswered))
                for answers, x in zip(oracle_rows(), COVARIATES, strict=True)
            ]
        )

    step, slopes = 1e-5, []
    for name in names:
        array = getattr(model, name).astype(np.float64)
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[place] += sign * step
                ends.append(value(model._replace(**{name: moved})))
            slopes.append((ends[0] - ends[1]) / (2 * step))
    return np.array(slopes)


def is_learnt(model):
    """The first threshold of a scale stays where it is."""
    fixed = model._replace(
        **{
            name: np.zeros_like(getattr(model, name))
            for name in ("weights", "bias", "factor_bias", "slopes", "factor_slopes")
        },
        cutpoints=np.zeros_like(model.cutpoints),
    )
    fixed.cutpoints[[0, 5], 0] = 1.0
    return flat(fixed) == 0.0


@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_sampled_gradient_is_that_of_the_likelihood(unanswered):
    """Clamped minus free expectations of chains that have settled."""
    model = mixed_model(6, scale=0.5)
    many = observed().take_rows(np.tile(np.arange(len(PATTERNS)), N_CHAINS))
    this = side(model, many, unanswered)
    rng = np.random.default_rng(0)
    clamped, free = rng.integers(0, 2, (2, this.n_rows, model.n_factors)).astype(np.uint8)
    chains = Chains(clamped, free, None, contrastive=False)
    size, found = 25 * len(PATTERNS), []
    for start in range(0, this.n_rows, size):
        batch = Batch(start, start + size, 7, 1, 60)
        found.append(flat(gradient(model, this, chains, batch, 0.0)))
    found = np.array(found)
    for sweep in range(2, 10):  # more draws of the same chains
        again = [
            flat(gradient(model, this, chains, Batch(start, start + size, 7, sweep, 4), 0.0))
            for start in range(0, this.n_rows, size)
        ]
        found = found + again
    found /= 9
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    exact = exact_gradient(model, unanswered)
    learnt = is_learnt(model)
    assert (np.abs(found.mean(axis=0) - exact)[learnt] <= STANDARD_ERRORS * error[learnt] + 1e-5).all()
    assert np.median(np.abs(exact[learnt]) / (error[learnt] + 1e-9)) > 3  # it says something


# ---- posteriors and predictions -----------------------------------------------------------------


def chains_of(model, unanswered):
    many = observed().take_rows(np.repeat(np.arange(len(PATTERNS)), N_CHAINS))
    return side(model, many, unanswered)


def assert_within_error(values, expected, largest):
    by_pattern = values.reshape(len(PATTERNS), N_CHAINS, *values.shape[1:])
    mean = by_pattern.mean(axis=1)
    error = by_pattern.std(axis=1, ddof=1) / np.sqrt(N_CHAINS)
    assert error.max() < largest
    assert (np.abs(mean - expected) <= STANDARD_ERRORS * error + 3e-4).all()


@pytest.mark.parametrize(("units", "unanswered"), [(1, "absent"), (1, "latent"), (2, "latent")])
def test_drawn_factors_and_predictions_are_the_exact_ones(units, unanswered):
    model = mixed_model(7, scale=0.5, units=units)
    judge, this = as_oracle(model), chains_of(model, unanswered)
    exact = [
        oracle.posterior(judge, answers, x, asked(unanswered))
        for answers, x in zip(oracle_rows(), COVARIATES, strict=True)
    ]
    found = posterior.sampled(model, this, 40, seed=1)
    expected = np.array([expected_factors(model, each) for each in exact])
    assert_within_error(found, expected, 0.01 * units)
    cells = predict.all_cells(this.n_rows, 6)
    chain = [
        posterior.State(state.factors.copy(), state.stretch, state.covariates)
        for state in posterior.draws(model, this, 40, seed=2)
    ]
    cube = predict.probabilities(model, chain, cells).reshape(this.n_rows, 6, -1)
    by_pattern = cube.reshape(len(PATTERNS), N_CHAINS, 6, -1)
    for j in EVERYTHING:
        truth = np.array(
            [oracle.prediction(judge, j, each, x) for each, x in zip(exact, COVARIATES, strict=True)]
        )
        if KIND[j] != 2:
            assert_within_error(cube[:, j, : truth.shape[1]], truth, 0.01)
            np.testing.assert_array_equal(cube[:, j, truth.shape[1] :], 0.0)
        else:  # over all chains together, whose means vary
            assert_within_error(cube[:, j, 0], truth[:, 0], 0.05)
            second = (by_pattern[:, :, j, 1] ** 2 + by_pattern[:, :, j, 0] ** 2).mean(axis=1)
            np.testing.assert_allclose(second, truth[:, 1] ** 2 + truth[:, 0] ** 2, rtol=0.05)


def test_log_probabilities_of_cells_are_exact():
    """Of every answer given the others of its row, over draws of the factors."""
    model = mixed_model(8, scale=0.4)
    judge = as_oracle(model)
    answers, x = oracle_rows()[0], COVARIATES[0]
    for j in EVERYTHING:
        hidden = PATTERNS[:1].copy()
        hidden[0, j] = np.nan
        rows = np.zeros(200, dtype=int)
        this = side(model, observed(hidden, COVARIATES[:1]).take_rows(rows), "latent")
        only = observed(np.where(np.arange(6) == j, PATTERNS[:1], np.nan), COVARIATES[:1])
        cells = predict.cells_of(only.take_rows(rows))
        found = predict.probabilities(model, posterior.draws(model, this, 200, 3), cells)
        others = {k: value for k, value in answers.items() if k != j}
        expected = oracle.log_likelihood(judge, answers, x, EVERYTHING) - oracle.log_likelihood(
            judge, others, x, EVERYTHING
        )
        log_mean = np.log(np.exp(predict.log_probability(model, found, cells)).mean())
        assert log_mean == pytest.approx(expected, abs=0.01)


def test_mean_field_is_close_to_exact_for_weak_weights():
    errors = []
    for scale in (0.4, 0.2, 0.1):
        each = []
        for seed in range(4):
            model = mixed_model(seed, scale=scale)
            found = posterior.mean_field(model, over(model, "latent")).factors
            exact = [
                expected_factors(model, oracle.posterior(as_oracle(model), answers, x, EVERYTHING))
                for answers, x in zip(oracle_rows(), COVARIATES, strict=True)
            ]
            each.append(found - np.array(exact))
        errors.append(np.array(each))
    size = [np.sqrt(np.mean(each**2)) for each in errors]
    assert np.abs(errors[2]).max() < 0.008
    assert size[1] < 0.4 * size[0] and size[2] < 0.4 * size[1]


@pytest.mark.parametrize("j", [1, 2, 4, 5])
def test_linear_response_is_closer_to_exact_than_mean_field(j):
    """In distributions of hidden categories and numbers, with factors of several units."""
    errors = {False: [], True: []}
    for seed in range(6):
        model = mixed_model(seed, n_factors=2, scale=0.55, units=4)
        model = model._replace(factor_bias=model.factor_bias - 2 * model.weights.sum(axis=0))
        table = PATTERNS[:2].copy()
        table[:, j] = np.nan
        this = side(model, observed(table, COVARIATES[:2]), "latent")
        found = posterior.mean_field(model, this)
        cells = predict.all_cells(2, 6)
        for widened in (False, True):
            cube = predict.mixed(model, this, found, cells, widened=widened).reshape(2, 6, -1)
            for row, (answers, x) in enumerate(zip(oracle_rows(table), COVARIATES, strict=False)):
                exact = oracle.posterior(as_oracle(model), answers, x, EVERYTHING)
                truth = oracle.prediction(as_oracle(model), j, exact, x)
                place = slice(1, 2) if KIND[j] == 2 else slice(0, truth.size)
                errors[widened].append(np.abs(cube[row, j, place] - truth[place]).mean())
    assert np.mean(errors[True]) < 0.9 * np.mean(errors[False])


def test_made_up_rows_have_the_exact_frequencies():
    model = mixed_model(9, scale=0.5)
    judge, nobody = as_oracle(model), np.zeros(2)
    drawn = sample.rows(model, 20_000, seed=1, gibbs_steps=25)
    prior = np.exp(oracle.log_weight(judge, EVERYTHING, nobody))
    prior /= prior.sum()
    for j in EVERYTHING:
        truth = oracle.prediction(judge, j, prior, nobody)
        if KIND[j] == 2:
            assert drawn[:, j].mean() == pytest.approx(truth[0], abs=0.03)
            assert drawn[:, j].std() == pytest.approx(truth[1], abs=0.03)
        else:
            share = np.bincount(drawn[:, j].astype(int), minlength=truth.size) / len(drawn)
            np.testing.assert_allclose(share, truth, atol=0.02)


def test_complete_rows_know_nothing():
    model = mixed_model(1)
    this = side(model, complete_rows(model, 2))
    assert np.isnan(this.known).all() and this.column.size == 18
    np.testing.assert_allclose(likelihood.exact(model, this).value, 0.0, atol=1e-12)
