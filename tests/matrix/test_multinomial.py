"""The multinomial RBM against its own enumeration."""

import itertools
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.side import Batch
from ordinalrbm.matrix import multinomial_learner as rbm
from ordinalrbm.matrix.multinomial import MultinomialModel, Parameters, expected_factors
from ordinalrbm.matrix.multinomial_learner import MultinomialSettings, Table, gradient
from ordinalrbm.matrix.predict import probabilities

N_LEVELS = np.array([2, 4, 3, 1], dtype=np.int32)
EVERY_COLUMN = np.arange(N_LEVELS.size)
N_FACTORS = 3
# The second column is not answered: it is not in the row's model.
ROW = np.array([1, -1, 2, 0])
ANSWERED = np.flatnonzero(ROW >= 0)


def settings(**changes):
    """Those of the estimator, with some changed."""
    own = orbm.MultinomialRBM().get_params()
    names = set(MultinomialSettings.__dataclass_fields__) - {"seed"}
    return MultinomialSettings(**{**{name: own[name] for name in names}, "seed": 0, **changes})


def learnt(table, n_factors):
    fitted = rbm.fit(table, None, settings(n_factors=n_factors, n_epochs=4))
    return fitted.models[0]


def random_parameters(seed=0, scale=1.0):
    """Weights of any size, zero where a column has no such level."""
    rng = np.random.default_rng(seed)
    exists = np.arange(N_LEVELS.max()) < N_LEVELS[:, None]
    shape = (*exists.shape, N_FACTORS)
    return Parameters(
        (exists[:, :, None] * rng.normal(0, scale, shape)).astype(np.float32),
        (exists * rng.normal(0, scale, exists.shape)).astype(np.float32),
        rng.normal(0, scale, N_FACTORS).astype(np.float32),
    )


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


def enumerated(parameters):
    weights, bias, factor_bias = (part.astype(np.float64) for part in parameters)
    levels = np.array(list(itertools.product(*(range(N_LEVELS[i]) for i in ANSWERED))))
    factors = np.array(list(itertools.product((0, 1), repeat=N_FACTORS)))
    log_joint = np.tile(factors @ factor_bias, (len(levels), 1))
    for place, i in enumerate(ANSWERED):
        chosen = levels[:, place]
        log_joint += bias[i, chosen][:, None] + weights[i, chosen] @ (factors - 0.5).T
    return Enumeration(levels, factors, log_joint)


def table_of(rows):
    return Table.of(Observations.from_dense(rows, N_LEVELS))


def log_likelihood(parameters, row):
    truth = enumerated(parameters)
    return truth.log_marginal[truth.place(row)]


def slope(function, parameters, part, place, step=1e-5):
    """Central difference with respect to one number, in float64."""
    values = []
    for sign in (1, -1):
        moved = Parameters(*(np.array(p, dtype=np.float64) for p in parameters))
        moved[part][place] += sign * step
        values.append(function(moved))
    return (values[0] - values[1]) / (2 * step)


def slopes(function, parameters):
    return Parameters(
        *(
            np.array([slope(function, parameters, k, place) for place in np.ndindex(p.shape)]).reshape(
                p.shape
            )
            for k, p in enumerate(parameters)
        )
    )


def batch_gradients(table, parameters, gibbs_steps, n_batches=50):
    """Gradients per row of equal batches of a table: their mean and its standard error."""
    size = (table.row_start.size - 1) // n_batches
    got = [
        gradient(table, parameters, Batch(b * size, (b + 1) * size, 5, 1, gibbs_steps), EVERY_COLUMN)
        for b in range(n_batches)
    ]
    for part in zip(*got, strict=True):
        draws = np.stack(part) / size
        yield draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(n_batches)


def assert_within_error(got, truth):
    for (mean, error), exact in zip(got, truth, strict=True):
        assert (np.abs(mean - exact) <= 5 * error + 1e-5).all()
        assert np.abs(exact).max() == 0 or error.max() < 0.1 * np.abs(exact).max()


def test_factors_given_answers():
    parameters = random_parameters()
    truth = enumerated(parameters)
    posterior = softmax(truth.log_joint[truth.place(ROW)]) @ truth.factors
    got = expected_factors(parameters, Observations.from_dense([ROW], N_LEVELS))
    np.testing.assert_allclose(got[0], posterior, atol=1e-5)


def test_free_energy_is_the_sum_over_factors():
    parameters = random_parameters()
    truth = enumerated(parameters)
    weights, bias, factor_bias = parameters
    energy = [
        -sum(bias[i, v] - weights[i, v].sum() / 2 for i, v in zip(ANSWERED, state, strict=True))
        - np.logaddexp(
            0, factor_bias + sum(weights[i, v] for i, v in zip(ANSWERED, state, strict=True))
        ).sum()
        for state in truth.levels
    ]
    np.testing.assert_allclose(-np.array(energy), logsumexp(truth.log_joint, axis=1), atol=1e-4)


def test_answers_given_factors():
    weights, bias, factor_bias = random_parameters()
    factors = np.random.default_rng(1).random((4, N_FACTORS)).astype(np.float32)
    model = MultinomialModel(weights, bias, factor_bias, N_LEVELS, factors)
    every = np.arange(4)
    got = probabilities([model], Cells(every, every, np.zeros(4, np.int8)))
    for i, n in enumerate(N_LEVELS):
        expected = softmax(bias[i, :n] + weights[i, :n] @ (factors[i] - 0.5))
        np.testing.assert_allclose(got[i, :n], expected, atol=1e-6)
        assert not got[i, n:].any()


def test_long_chains_give_the_gradient_of_the_log_likelihood():
    parameters = random_parameters(scale=0.8)
    table = table_of(np.tile(ROW, (40_000, 1)))
    truth = slopes(lambda moved: log_likelihood(moved, ROW), parameters)
    assert_within_error(batch_gradients(table, parameters, gibbs_steps=25), truth)


@pytest.mark.parametrize("gibbs_steps", [1, 3])
def test_the_model_s_own_answers_pull_nowhere(gibbs_steps):
    """A chain that starts in its stationary distribution stays there, however short it is."""
    parameters = random_parameters(3)
    truth = enumerated(parameters)
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(truth.levels), size=40_000, p=np.exp(truth.log_marginal))
    rows = np.full((len(drawn), len(N_LEVELS)), -1)
    rows[:, ANSWERED] = truth.levels[drawn]
    for mean, error in batch_gradients(table_of(rows), parameters, gibbs_steps):
        assert (np.abs(mean) <= 5 * error + 1e-5).all()


def test_gibbs_steps_grow_with_the_epochs():
    given = settings(batch_size=4, epochs_per_step=3)
    found = [next(iter(rbm._batches(10, epoch, given))).gibbs_steps for epoch in (1, 3, 4, 7)]
    assert found == [1, 1, 2, 3]
    assert next(iter(rbm._batches(10, 50, settings(epochs_per_step=0)))).gibbs_steps == 1
    rows = [row for b in rbm._batches(10, 2, given) for row in range(b.start, b.stop)]
    assert sorted(rows) == list(range(10))


def test_slope_of_the_prior():
    parameters, usual = random_parameters(), random_parameters(7).bias
    learner = rbm._Learner.__new__(rbm._Learner)
    learner.settings, learner.mean_bias = settings(weight_decay=3.0, bias_decay=2.0), usual
    learner.moving = rbm._Moving(*(parameters for _ in range(4)))
    learner.table = Table.of(Observations.from_dense(np.zeros((1, N_LEVELS.size), dtype=int), N_LEVELS))
    exists = np.arange(N_LEVELS.max()) < N_LEVELS[:, None]

    def log_prior(moved):
        common = moved.weights.sum(axis=1) / N_LEVELS[:, None]
        apart = exists[:, :, None] * (moved.weights - common[:, None])
        return 0.25 * -0.5 * (3.0 * (apart**2).sum() + 2.0 * ((moved.bias - usual) ** 2).sum())

    got = Parameters(*map(np.zeros_like, parameters))
    learner._add_prior(got, EVERY_COLUMN, np.full(N_LEVELS.size, 0.25, dtype=np.float32))
    truth = slopes(log_prior, parameters)
    np.testing.assert_allclose(got.weights[exists], truth.weights[exists], atol=1e-5)
    np.testing.assert_allclose(got.bias[exists], truth.bias[exists], atol=1e-5)
    assert not got.weights[~exists].any()
    assert not got.factor_bias.any()


def few_answers(n_columns):
    """A table of 40 rows with four answers each, most of them of the first columns."""
    rng = np.random.default_rng(2)
    levels = np.full((40, n_columns), -1)
    for row in levels:
        row[rng.integers(0, 8, 2)] = rng.integers(0, 3, 2)
        row[rng.integers(0, n_columns, 2)] = rng.integers(0, 3, 2)
    return Observations.from_dense(levels, 3)


def test_an_epoch_has_the_prior_of_a_column_once():
    table, total = Table.of(few_answers(30)), np.zeros(30)
    for batch in rbm._batches(40, 1, settings(batch_size=4)):
        columns, share = table.columns_of(batch)
        assert columns.size < 15
        total[columns] += share
    np.testing.assert_allclose(total, np.diff(table.column_start) > 0, rtol=1e-6)


def test_columns_that_a_batch_does_not_touch_move_as_if_it_did(monkeypatch):
    """Against Adam on all columns in every batch, whose gradient is zero where none is touched."""
    given = settings(batch_size=4, n_factors=3, n_epochs=3, averaged_epochs=2)
    learner = rbm._Learner(few_answers(30), None, given)
    rng = np.random.default_rng(5)
    goal = [rng.normal(size=part.shape).astype(np.float32) for part in learner.moving.parameters]

    def uphill(table, parameters, batch, columns):  # without chance, so that rounding stays small
        slopes = [(goal[k] - parameters[k])[columns] for k in (0, 1)]
        return Parameters(*slopes, goal[2] - parameters.factor_bias)

    monkeypatch.setattr(rbm, "gradient", uphill)
    parts = [part.astype(np.float64) for part in learner.moving.parameters]
    first, second, average = ([np.zeros_like(part) for part in parts] for _ in range(3))
    n_updates = 0
    for epoch in (1, 2, 3):
        learner._pass(epoch)
        for batch in rbm._batches(40, epoch, given):
            columns, share = learner.table.columns_of(batch)
            slopes = [np.zeros_like(part) for part in parts]
            weights, bias = (part[columns] for part in parts[:2])
            apart = weights - weights.mean(axis=1, keepdims=True)
            slopes[0][columns] = goal[0][columns] - weights - 8.0 * share[:, None, None] * apart
            away = bias - learner.mean_bias[columns]
            slopes[1][columns] = goal[1][columns] - bias - 2.5 * share[:, None] * away
            slopes[2][:] = goal[2] - parts[2]
            n_updates += 1
            size = 0.002 * np.sqrt(1 - 0.999**n_updates) / (1 - 0.9**n_updates)
            for part, slope, m, v in zip(parts, slopes, first, second, strict=True):
                m += 0.1 * (slope - m)
                v += 0.001 * (slope**2 - v)
                part += size * m / (np.sqrt(v) + 1e-8)
        for part, mean in zip(parts, average, strict=True):
            mean += (part - mean) / min(epoch, 2)
    for found, truth in ((learner.moving.parameters, parts), (learner.moving.average, average)):
        for part, exact in zip(found, truth, strict=True):
            np.testing.assert_allclose(part, exact, rtol=1e-4, atol=1e-6)


def test_a_batch_needs_memory_for_what_it_touches():
    learner = rbm._Learner(few_answers(20_000), None, settings(batch_size=4, n_factors=20))
    learner._pass(1)
    tracemalloc.start()
    try:
        learner._pass(2)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 0.5 * learner.moving.parameters.weights.nbytes


def test_columns_that_nobody_answered_are_like_the_others_on_their_scale():
    levels = np.array([[0, 1, -1, 2, -1], [1, 1, -1, 0, -1]])
    table = Observations.from_dense(levels, [2, 2, 2, 3, 3])
    model = learnt(table, 2)
    for part in (model.weights, model.bias):
        np.testing.assert_allclose(part[2], part[:2].mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(part[4], part[3], rtol=1e-5)


def test_new_rows_are_given_the_factors_of_old_ones_with_the_same_answers():
    rng = np.random.default_rng(0)
    table = Observations.from_dense(rng.integers(-1, 3, (20, 6)), 3)
    model = learnt(table, 3)
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
