"""Data drawn from a known model of all kinds of columns: learning comes back to that model."""

import mixed_enumeration as oracle
import numpy as np
import pandas as pd
from long_form import LONG

import ordinalrbm as orbm

# About 90 parameters cost half a nat per row and N_LEARNT / 90 rows: of twelve answers each a
# thousandth of a nat in the long form, and two and a half here. The bounds hold for both.
N_LEARNT, N_NEW = (4000, 1500) if LONG else (1600, 500)
N_SCALES, N_NUMBERS, N_NOMINAL = 6, 3, 3


def true_model(rng):
    """Two factors, and a covariate that is one or minus one."""
    one = (1,)

    def weights(*shape):
        return rng.choice([-1.0, 1.0], (*shape, 2)) * rng.uniform(0.5, 1.1, (*shape, 2))

    scales = [
        oracle.Scale(weights(), rng.normal(), rng.normal(0, 0.4, one), np.array([-1.0, 0.3, 1.2]))
        for _ in range(N_SCALES)
    ]
    numbers = [
        oracle.Number(weights(), rng.normal(), rng.normal(0, 0.4, one), rng.uniform(0.8, 2.0))
        for _ in range(N_NUMBERS)
    ]
    nominal = [
        oracle.Nominal(weights(3), rng.normal(0, 0.4, 3), rng.normal(0, 0.4, (3, 1)))
        for _ in range(N_NOMINAL)
    ]
    of_factors = rng.normal(0, 0.4, (2, 1))
    return oracle.Model([*scales, *numbers, *nominal], np.array([-2.5, -2.0]), of_factors)


def drawn(model, n_rows, rng):
    """Rows of the model, and their covariate."""
    x = rng.choice([-1.0, 1.0], n_rows)
    every, columns = range(len(model.questions)), []
    h = np.empty((n_rows, 2))
    for value in (-1.0, 1.0):
        rows = np.flatnonzero(x == value)
        log_weight = oracle.log_weight(model, every, np.array([value]))
        share = np.exp(log_weight - log_weight.max())
        h[rows] = oracle.states(2)[rng.choice(4, rows.size, p=share / share.sum())]
    for question in model.questions:
        mean = question.bias + h @ question.weights.T
        added = x[:, None] * np.atleast_2d(question.slopes).T
        if isinstance(question, oracle.Nominal):
            chosen = (mean + added + rng.gumbel(size=mean.shape)).argmax(axis=1)
            columns.append(pd.Series(chosen).map({0: "a", 1: "b", 2: "c"}))
            continue
        utility = mean + added[:, 0] + rng.normal(size=n_rows)
        if isinstance(question, oracle.Number):
            columns.append(pd.Series(utility / question.scale))
        else:
            columns.append(pd.Series(np.searchsorted(question.thresholds, utility) + 1.0))
    names = [f"q{j}" for j in every]
    return pd.DataFrame(dict(zip(names, columns, strict=True))).assign(x=x)


def true_likelihood(model, table):
    """Mean log-likelihood per answer of rows under the true model."""
    n = len(model.questions)
    codes = {"a": 0, "b": 1, "c": 2}
    total = 0.0
    for row in table.itertuples(index=False):
        answers = {}
        for j, question in enumerate(model.questions):
            value = row[j]
            if isinstance(question, oracle.Nominal):
                answers[j] = codes[value]
            else:
                answers[j] = value if isinstance(question, oracle.Number) else int(value) - 1
        total += oracle.log_likelihood(model, answers, np.array([row.x]))
    return total / (len(table) * n)


def test_all_kinds_are_recovered():
    rng = np.random.default_rng(5)
    model = true_model(rng)
    learnt, new = drawn(model, N_LEARNT, rng), drawn(model, N_NEW, rng)
    names = learnt.columns[:-1].tolist()
    numeric = names[N_SCALES : N_SCALES + N_NUMBERS]
    estimator = orbm.CumulativeRBM.binary(
        n_factors=2,
        n_epochs=25,
        gibbs_steps=2,
        nominal=names[N_SCALES + N_NUMBERS :],
        numeric=numeric,
        background=["x"],
        random_state=0,
        weight_decay=1.0,
    ).fit(learnt)
    # The library has densities of standard deviations; here they are of the numbers themselves.
    scales = estimator.questionnaire_.numbers.values()
    assert not any(scale.values for scale in scales)  # none is so skewed that it is ranked
    units = np.log([scale.deviation for scale in scales]).sum()
    found = (estimator.log_likelihood(new).mean() - units) / len(names)
    truth = true_likelihood(model, new)
    assert truth - 0.01 < found < truth + 0.003
    # And it is something to recover: without factors much is lost.
    alone = orbm.CumulativeRBM.binary(
        n_factors=1,
        n_epochs=1,
        nominal=names[N_SCALES + N_NUMBERS :],
        numeric=numeric,
        random_state=0,
        init="random",
        learning_rate=1e-6,
    ).fit(learnt)
    without = (alone.log_likelihood(new).mean() - units) / len(names)
    assert without < truth - 0.05
