"""Factors by background: the model that scores are read from, and what EM learns of people."""

import mixed_models
import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import Answers
from ordinalrbm.engine import gibbs
from ordinalrbm.engine.side import Batch
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import Stored
from ordinalrbm.vector.latent_regression import conditioned
from ordinalrbm.vector.loadings import Population
from ordinalrbm.vector.model import complete_rows, side

N_ROWS, DIFFERENCE = 1000, 0.8
LOADINGS = np.array([0.75, 0.7, 0.65, 0.6, 0.55, -0.6])


def people_by_group(rng):
    """Answers to six questions, the group of each person (a third are of one), and where they stand."""
    group = np.arange(N_ROWS) % 3 == 0
    factor = DIFFERENCE * group + rng.normal(size=N_ROWS)
    noise = np.sqrt(1 - LOADINGS**2) * rng.normal(size=(N_ROWS, LOADINGS.size))
    answers = np.digitize(np.outer(factor, LOADINGS) + noise, [-1.0, -0.2, 0.5, 1.3]) + 1.0
    table = pd.DataFrame(answers).add_prefix("q").assign(group=np.where(group, "a", "b"))
    return table, group, (factor - factor.mean()) / factor.std()


@pytest.fixture(scope="module")
def fitted():
    table, group, factor = people_by_group(np.random.default_rng(2))
    model = orbm.CumulativeRBM(1, background=["group"], response_styles=1, n_epochs=4, random_state=0)
    return model.fit(table), table, group, factor


def test_factors_of_a_conditioned_model_are_distributed_as_asked_for():
    """Rows drawn from it without answers have the means of their covariates, and the covariance."""
    model = mixed_models.mixed_model(n_factors=2, scale=0.3, units=40)
    regression = np.array([[18.0, 1.5, -1.0], [22.0, 0.0, 2.0]])
    people = Population(regression[:, 0], np.eye(2), regression, np.array([[9.0, 3.0], [3.0, 5.0]]))
    found = conditioned(model, people)
    covariates = np.repeat([[1.0, 0.5], [-1.0, 1.0]], 2000, axis=0)
    rows = complete_rows(found.model, len(covariates))
    numbers = np.full((len(covariates), 2), np.nan)
    plain = Observations(rows.row_start, rows.column, rows.level, rows.n_levels)
    over = side(found.model, Answers.of(plain, model.kind, numbers, covariates), "latent")
    drawn = np.full((len(covariates), 2), found.model.units // 2, dtype=np.uint16)
    gibbs.free_sweep(over, drawn, Batch(0, len(drawn), 1, 0, 60))
    factors = found.factors(drawn)
    for part in (slice(0, 2000), slice(2000, None)):
        expected = regression @ np.append(1.0, covariates[part.start])
        np.testing.assert_allclose(factors[part].mean(axis=0), expected, atol=0.3)
        np.testing.assert_allclose(np.cov(factors[part].T), people.residual, atol=1.0)


def test_utilities_have_the_same_weights_in_a_conditioned_model(fitted):
    model = fitted[0].model_
    found = conditioned(model, fitted[0].population_)
    own = np.array([[4000], [6000]])
    expected = model.bias + found.factors(own) @ model.weights.T
    np.testing.assert_allclose(found.model.bias + own @ found.model.weights.T, expected, atol=1e-3)
    # And none of the slopes lies in the direction of the weights.
    np.testing.assert_allclose(model.weights.T @ found.model.slopes, 0.0, atol=1e-4)
    assert np.abs(model.weights.T @ model.slopes).max() > 0.01


def test_plausible_values_have_the_difference_of_the_groups(fitted):
    model, table, group, factor = fitted
    draws = [one["Factor 1"].to_numpy() for one in model.scores(table, n_draws=20, random_state=1)]
    truth = factor[group].mean() - factor[~group].mean()
    found = np.mean([one[group].mean() - one[~group].mean() for one in draws])
    assert abs(found - truth) < 0.1  # two standard errors, by chance in the answers; without EM 0.2
    assert abs(np.mean([one.std() for one in draws]) - 1.0) < 0.05
    scores, errors = (one["Factor 1"] for one in model.scores(table, return_std=True))
    inside = (np.abs(scores - factor) < 1.645 * errors).mean()
    assert 0.87 < inside < 0.93


def test_what_was_learnt_of_groups_is_in_the_file(fitted, tmp_path):
    model, table, *_ = fitted
    model.save(tmp_path / "a.orbm")
    again = orbm.load(tmp_path / "a.orbm")
    for name, array in zip(model.population_._fields, model.population_, strict=True):
        np.testing.assert_array_equal(getattr(again.population_, name), array)
    head = table.head(20)
    pd.testing.assert_frame_equal(again.scores(head), model.scores(head))
    # A person without answers is scored as the group is.
    nobody = table.head(3).assign(**dict.fromkeys(table.columns[:-1], np.nan))
    scores = model.scores(nobody)["Factor 1"]
    assert scores[0] > scores[1] + 0.4 and np.isclose(scores[1], scores[2])


def test_few_people_with_all_kinds_of_answers_have_scores():
    """More factors than questions, and a number and a group that are the same."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.integers(1, 4, (30, 3)) + 0.0).add_prefix("q")
    table = table.assign(party=np.resize(["x", "y", "z"], 30), half=np.arange(30) // 15)
    table = table.assign(group=np.where(table["half"], "a", "b"))
    model = orbm.CumulativeRBM(
        8, nominal=["party"], background=["half", "group"], n_epochs=2, random_state=0
    ).fit(table, sample_weight=np.linspace(0.5, 2.0, 30))
    scores, errors = model.scores(table, return_std=True)
    assert np.isfinite(scores).all(axis=None) and (errors > 0).all(axis=None)
    weight = np.linspace(0.5, 2.0, 30)
    mean = np.average(
        np.mean(model.scores(table, n_draws=50, random_state=1), axis=0), axis=0, weights=weight
    )
    np.testing.assert_allclose(mean, 0.0, atol=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"regression": np.zeros((1, 2))}, "has shape"),
        ({"regression": np.full((1, 3), np.nan)}, "not between"),
        ({"residual": np.array([[-1.0]])}, "cannot be"),
    ],
)
def test_regressions_in_files_are_checked(fitted, change, said):
    kept = fitted[0].population_._replace(**change)._asdict()
    stored = Stored({f"population.{name}": array for name, array in kept.items()}, {})
    with pytest.raises(DataError, match=said):
        fitted[0]._restore_population(stored)
