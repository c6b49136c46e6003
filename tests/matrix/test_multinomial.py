"""The multinomial RBM against its own enumeration."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix import multinomial
from ordinalrbm.matrix.multinomial import Learner, MultinomialModel, gradient
from ordinalrbm.matrix.predict import probabilities

N_LEVELS = np.array([2, 4, 3, 1], dtype=np.int32)
EXISTS = np.arange(N_LEVELS.max()) < N_LEVELS[:, None]
N_FACTORS = 3
# The second column is not answered: it is not in the row's model.
ROW = np.array([1, -1, 2, 0])
ANSWERED = np.flatnonzero(ROW >= 0)
NO_ROWS = np.zeros((0, N_FACTORS), dtype=np.float32)


def random_model(seed=0, scale=1.0):
    """Weights of any size, also of levels that columns do not have."""
    rng = np.random.default_rng(seed)
    units = rng.normal(0, scale, (*EXISTS.shape, 1 + N_FACTORS)).astype(np.float32)
    factor_bias = rng.normal(0, scale, N_FACTORS).astype(np.float32)
    return MultinomialModel(units, factor_bias, N_LEVELS, NO_ROWS)


def learner(observations, n_factors=N_FACTORS, **changes):
    return Learner(observations, None, orbm.MultinomialRBM(n_factors, **changes), 0)


class Enumeration(NamedTuple):
    """Everything that the answered columns of ROW and the factors can be."""

    levels: np.ndarray  # (states of the answers, answered columns)
    factors: np.ndarray  # (states of the factors, K)
    log_joint: np.ndarray

    @property
    def log_marginal(self):
        """Log probability of each state of the answers."""
        return logsumexp(self.log_joint, axis=1) - logsumexp(self.log_joint)

    def place(self, row):
        return int((self.levels == row[ANSWERED]).all(axis=1).argmax())


def enumerated(model):
    units, factor_bias = model.units.astype(np.float64), model.factor_bias.astype(np.float64)
    levels = np.array(list(itertools.product(*(range(N_LEVELS[i]) for i in ANSWERED))))
    factors = np.array(list(itertools.product((0, 1), repeat=N_FACTORS)))
    log_joint = np.tile(factors @ factor_bias, (len(levels), 1))
    for place, i in enumerate(ANSWERED):
        chosen = units[i, levels[:, place]]
        log_joint += chosen[:, :1] + chosen[:, 1:] @ (factors - 0.5).T
    return Enumeration(levels, factors, log_joint)


def slopes(function, model, step=1e-5):
    """Central differences with respect to each number of units and factor biases, in float64."""
    found = []
    for k in (0, 1):
        slope = np.zeros(model[k].shape)
        for place in np.ndindex(slope.shape):
            values = []
            for sign in (1, -1):
                moved = [np.array(part, dtype=np.float64) for part in model[:2]]
                moved[k][place] += sign * step
                values.append(function(model._replace(units=moved[0], factor_bias=moved[1])))
            slope[place] = (values[0] - values[1]) / (2 * step)
        found.append(slope)
    return found


def batch_gradients(rows, model, gibbs_steps, n_batches=50):
    """Gradients per row of equal batches of a table: their mean and its standard error."""
    rng = np.random.default_rng(5)
    batches = [Observations.from_dense(part, N_LEVELS) for part in np.split(rows, n_batches)]
    got = [
        gradient(model._replace(factors=model.expected_factors(batch)), batch, gibbs_steps, rng)
        for batch in batches
    ]
    for part in zip(*got, strict=True):
        draws = np.stack(part) / (len(rows) / n_batches)
        yield draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(n_batches)


def test_factors_given_answers():
    model = random_model()
    truth = enumerated(model)
    posterior = softmax(truth.log_joint[truth.place(ROW)]) @ truth.factors
    got = model.expected_factors(Observations.from_dense([ROW], N_LEVELS))
    np.testing.assert_allclose(got[0], posterior, atol=1e-5)


def test_answers_given_factors():
    factors = np.random.default_rng(1).random((4, N_FACTORS)).astype(np.float32)
    model = random_model()._replace(factors=factors)
    every = np.arange(4)
    got = probabilities([model], Cells(every, every, np.zeros(4, np.int8)))
    for i, n in enumerate(N_LEVELS):
        expected = softmax(model.units[i, :n, 0] + model.units[i, :n, 1:] @ (factors[i] - 0.5))
        np.testing.assert_allclose(got[i, :n], expected, atol=1e-6)
        assert not got[i, n:].any()
    worth = np.random.default_rng(2).random(EXISTS.shape)
    scores = np.ones((2, 4), dtype=np.float32)
    model.scorer(worth)(np.array([2, 0]), scores)
    for place, row in enumerate((2, 0)):
        chances = probabilities([model], Cells(np.full(4, row), every, np.zeros(4, np.int8)))
        expected = 1.0 + (chances * (worth - worth[:, :1])).sum(axis=1)
        np.testing.assert_allclose(scores[place], expected, atol=1e-6)


def test_long_chains_give_the_gradient_of_the_log_likelihood():
    model = random_model(scale=0.8)

    def log_likelihood(moved):
        truth = enumerated(moved)
        return truth.log_marginal[truth.place(ROW)]

    truth = slopes(log_likelihood, model)
    found = batch_gradients(np.tile(ROW, (40_000, 1)), model, gibbs_steps=25)
    for (mean, error), exact in zip(found, truth, strict=True):
        assert (np.abs(mean - exact) <= 5 * error + 1e-5).all()
        assert error.max() < 0.1 * np.abs(exact).max()


@pytest.mark.parametrize("gibbs_steps", [1, 3])
def test_the_model_s_own_answers_pull_nowhere(gibbs_steps):
    """A chain that starts in its stationary distribution stays there, however short it is."""
    model = random_model(3)
    truth = enumerated(model)
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(truth.levels), size=40_000, p=np.exp(truth.log_marginal))
    rows = np.full((len(drawn), len(N_LEVELS)), -1)
    rows[:, ANSWERED] = truth.levels[drawn]
    for mean, error in batch_gradients(rows, model, gibbs_steps):
        assert (np.abs(mean) <= 5 * error + 1e-5).all()


def few_answers(n_columns=30, n_rows=40):
    """A table of rows with four answers each, most of them of the first columns."""
    rng = np.random.default_rng(2)
    levels = np.full((n_rows, n_columns), -1)
    for row in levels:
        row[rng.integers(0, 8, 2)] = rng.integers(0, 3, 2)
        row[rng.integers(0, n_columns, 2)] = rng.integers(0, 3, 2)
    return Observations.from_dense(levels, 3)


def test_an_epoch_has_each_row_once_and_chains_become_longer(monkeypatch):
    seen, steps = [], {}
    table = few_answers()

    def uphill(model, answers, gibbs_steps, rng):
        seen.append(answers.row_counts)
        steps[len(history) + 1] = gibbs_steps
        return np.zeros_like(model.units), np.zeros_like(model.factor_bias)

    monkeypatch.setattr(multinomial, "gradient", uphill)
    found = learner(table, batch_size=4)
    history = found.history
    found.epoch()
    assert len(seen) == 10
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.sort(table.row_counts))
    for _ in range(20):
        found.epoch()
    assert [steps[epoch] for epoch in (1, 10, 11, 20, 21)] == [1, 1, 2, 2, 3]


def test_slope_of_the_prior():
    every = np.tile(np.minimum(N_LEVELS - 1, 1), (4, 1))
    found = learner(Observations.from_dense(every, N_LEVELS), weight_decay=3.0)
    model = random_model()._replace(n_levels=N_LEVELS)

    def log_prior(moved):
        weights = moved.units[:, :, 1:]
        common = (weights * EXISTS[:, :, None]).sum(axis=1) / N_LEVELS[:, None]
        apart = EXISTS[:, :, None] * (weights - common[:, None])
        away = EXISTS * (moved.units[:, :, 0] - found.usual_bias)
        return 0.25 * -0.5 * (3.0 * (apart**2).sum() + 2.5 * (away**2).sum())

    got = found.prior_slope(model, Observations.from_dense(every[:1], N_LEVELS))
    truth, _ = slopes(log_prior, model)
    np.testing.assert_allclose(got[EXISTS], -truth[EXISTS], atol=1e-5)


def test_an_epoch_has_the_prior_of_a_column_once():
    table = few_answers()
    found = learner(table)
    model = found.model(found.moving[0], table)._replace(units=random_like(found.start))
    batches = [table.take_rows(np.arange(start, start + 4)) for start in range(0, 40, 4)]
    total = sum(found.prior_slope(model, batch) for batch in batches)
    np.testing.assert_allclose(total, found.prior_slope(model, table), atol=1e-5)


def random_like(array, seed=5):
    return np.random.default_rng(seed).normal(size=array.shape).astype(np.float32)


def test_steps_are_those_of_adam(monkeypatch):
    """Against plain Adam, in float64, towards a goal."""
    found = learner(few_answers(), batch_size=2)
    goal = random_like(found.start)

    def uphill(model, answers, gibbs_steps, rng):  # without chance, so that rounding stays small
        return goal - model.units, -model.factor_bias

    monkeypatch.setattr(multinomial, "gradient", uphill)
    monkeypatch.setattr(Learner, "prior_slope", lambda self, model, answers: 0.0)
    units, average = found.start.astype(np.float64), 0.0
    first, second = np.zeros_like(units), np.zeros_like(units)
    for epoch in (1, 2, 3):
        found.epoch()
        for number in range(20 * (epoch - 1) + 1, 20 * epoch + 1):
            slope = goal - units
            first += 0.1 * (slope - first)
            second += 0.001 * (slope**2 - second)
            size = 0.002 * np.sqrt(1 - 0.999**number) / (1 - 0.9**number)
            units += size * first / (np.sqrt(second) + 1e-8)
        average += (units - average) / epoch
    parameters, _, _, mean, _ = found.moving
    np.testing.assert_allclose(parameters[:-N_FACTORS], units.ravel(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mean[:-N_FACTORS], average.ravel(), rtol=1e-4, atol=1e-6)


def test_columns_that_nobody_answered_are_like_the_others_on_their_scale():
    model = random_model()
    rows, columns = np.arange(0), np.array([2, -1, 0, -1, -1])
    ordered = model.reordered(rows, columns, np.array([3, 3, 2, 2, 5], dtype=np.int32))
    np.testing.assert_array_equal(ordered.units[:2, :4], model.units[[2, 2]])
    np.testing.assert_array_equal(ordered.units[2:4, :4], model.units[[0, 0]])
    assert not ordered.units[4].any()  # on a scale that no column has


def test_new_rows_are_given_the_factors_of_old_ones_with_the_same_answers():
    table = Observations.from_dense(np.random.default_rng(0).integers(-1, 3, (20, 6)), 3)
    found = learner(table)
    found.epoch()
    model = found.model(found.moving[-1], table)
    again = model.expected_factors(table.take_rows([5, 2]))
    np.testing.assert_array_equal(again, model.factors[[5, 2]])
    nothing = model.expected_factors(Observations.from_dense(np.full((1, 6), -1), 3))
    np.testing.assert_allclose(nothing[0], expit(model.factor_bias), atol=1e-6)


def test_unknown_items_on_a_scale_that_no_item_has():
    user, item = np.divmod(np.arange(40), 4)
    model = orbm.MultinomialRBM(
        2, n_epochs=1, scale=[1, 2, 3], item_scales={k: [1, 2, 3, 4] for k in range(4)}, random_state=0
    ).fit((user, item, 1 + (user + item) % 4))
    np.testing.assert_allclose(model.predict_proba(0, [99]), [[1 / 3, 1 / 3, 1 / 3, 0]])
