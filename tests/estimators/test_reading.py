"""Factors of a fitted survey model: loadings and scores of people whose factors are known."""

import re

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import Stored
from ordinalrbm.vector.loading_errors import attenuation

ITEMS = 6
STRENGTH = np.array([0.8, 0.75, 0.7, 0.65, 0.6, -0.7])


def made_up(n_rows=1200, seed=0):
    """Answers to twelve questions about two things, and where people stand."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((2 * ITEMS, 2))
    loadings[:ITEMS, 0], loadings[ITEMS:, 1] = STRENGTH, 0.9 * STRENGTH
    factors = rng.normal(size=(n_rows, 2))
    noise = np.sqrt(1 - (loadings**2).sum(axis=1))
    utility = factors @ loadings.T + noise * rng.normal(size=(n_rows, 2 * ITEMS))
    answers = np.digitize(utility, [-1.0, -0.2, 0.5, 1.3]) + 1.0
    answers[rng.random(answers.shape) < 0.05] = np.nan
    return pd.DataFrame(answers).add_prefix("q"), loadings, factors


@pytest.fixture(scope="module")
def fitted():
    table, loadings, factors = made_up()
    model = orbm.CumulativeRBM(2, response_styles=1, random_state=0).fit(table)
    return model, table, loadings, factors


def test_loadings_are_those_of_the_people(fitted):
    model, table, truth, _ = fitted
    found = model.loadings()
    assert list(found.columns) == ["Factor 1", "Factor 2"]
    assert list(found.index) == list(table.columns)
    np.testing.assert_allclose(found, truth, atol=0.1)
    assert np.sqrt(((found - truth) ** 2).mean(axis=None)) < 0.04
    reading = model.factor_solution(table)
    pd.testing.assert_frame_equal(reading.loadings, found)
    np.testing.assert_allclose(reading.communalities, (found**2).sum(axis=1))
    apart = (found - truth).abs() / reading.standard_errors
    assert (apart < 1.645).mean(axis=None) > 0.7 and (apart < 4).all(axis=None)
    assert reading.reliability["items"].tolist() == [ITEMS, ITEMS]
    assert (reading.reliability[["omega", "alpha"]] > 0.7).all(axis=None)


def test_scores_are_where_people_stand_and_errors_how_far_off(fitted):
    model, table, _, factors = fitted
    scores, errors = model.scores(table, return_std=True)
    pd.testing.assert_frame_equal(scores, model.scores(table))
    for k in range(2):
        assert np.corrcoef(scores.iloc[:, k], factors[:, k])[0, 1] > 0.85
    inside = (np.abs(scores.to_numpy() - factors) < 1.645 * errors.to_numpy()).mean()
    assert 0.87 < inside < 0.93  # a standard error of 0.006 by chance
    sampled = model.set_params(inference="mcmc", n_draws=200).scores(table, return_std=True)
    model.set_params(inference="linear_response", n_draws=100)
    np.testing.assert_allclose(sampled[0], scores, atol=0.25)
    np.testing.assert_allclose(sampled[1].mean(), errors.mean(), rtol=0.05)


def test_draws_vary_as_the_factors_and_around_the_scores(fitted):
    model, table, _, _ = fitted
    draws = model.scores(table, n_draws=20, random_state=1)
    assert len(draws) == 20
    every = np.stack(draws)
    np.testing.assert_allclose(every.mean(axis=(0, 1)), 0.0, atol=0.1)
    np.testing.assert_allclose(every.std(axis=(0, 1)), 1.0, atol=0.06)
    scores, errors = model.scores(table, return_std=True)
    apart = (every.mean(axis=0) - scores) / (errors / np.sqrt(20))
    assert float(np.sqrt((apart**2).mean(axis=None))) < 1.5
    again = model.scores(table, n_draws=20, random_state=1)
    pd.testing.assert_frame_equal(draws[3], again[3])


def test_transform_with_errors_and_its_names(fitted):
    model, table, _, _ = fitted
    mean, std = model.transform(table, return_std=True)
    np.testing.assert_array_equal(mean, model.transform(table))
    assert std.shape == mean.shape and (std > 0).all() and (std < 0.5).all()
    assert model.get_feature_names_out().tolist() == ["factor_0", "factor_1"]
    # The same projected: scores are linear in the factors.
    solution = model.factor_solution(rotation="none")._solution
    expected = (mean * model.model_.units - solution.mean) @ solution.projection.T
    np.testing.assert_allclose(model.scores(table, rotation="none"), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("mean", "covariance", "said"),
    [
        ([0.0, 0.0], [[1.0, 0.5], [0.2, 1.0]], "cannot be"),
        ([0.0, 0.0], [[-1.0, 0.0], [0.0, 1.0]], "cannot be"),
        ([0.0, 251.0], [[1.0, 0.0], [0.0, 1.0]], "not between 0 and 250"),
        ([0.0], [[1.0, 0.0], [0.0, 1.0]], "has shape"),
        ([0.0, 0.0], [[1.0, np.nan], [np.nan, 1.0]], "not between"),
    ],
)
def test_distributions_in_files_are_checked(fitted, mean, covariance, said):
    kept = {"population.mean": np.array(mean), "population.covariance": np.array(covariance)}
    with pytest.raises(DataError, match=said):
        fitted[0]._restore_population(Stored(kept, {}))


def test_a_model_without_people_makes_them_up(fitted):
    model, _, truth, _ = fitted
    alone = orbm.CumulativeRBM(2, random_state=0)
    for name in ("model_", "questionnaire_", "scales_", "n_features_in_", "feature_names_in_"):
        setattr(alone, name, getattr(model, name))
    np.testing.assert_allclose(alone.loadings(), truth, atol=0.12)


def test_weights_make_people_count(fitted):
    """Rows without weight are as rows that are not there."""
    model, table, _, _ = fitted
    half = np.repeat([1.0, 0.0], 600)
    weighted = model.factor_solution(table, sample_weight=half)
    alone = model.factor_solution(table.head(600))
    np.testing.assert_allclose(weighted.standard_errors, alone.standard_errors, rtol=0.02)
    np.testing.assert_allclose(weighted.reliability["alpha"], alone.reliability["alpha"])


def test_table_names_and_texts(fitted):
    model, table, _, _ = fitted
    texts = {"q0": "I trust people", "q5": "People cheat"}
    reading = model.factor_solution(table, questions=texts)
    assert reading.name("Factor 1", 1) == "more: I trust people / less: People cheat"
    assert list(reading.strongest("Factor 1", 1)) == ["q0", "q5"]
    assert reading.answer("q0", "Factor 1") == ""  # plain numbers
    with pytest.raises(DataError, match="There is no question 'z'"):
        reading.answer("z", "Factor 1")
    assert set(reading.items("Factor 2")) == {f"q{i}" for i in range(ITEMS, 2 * ITEMS)}
    shown = reading.table()
    assert shown.index[0] == "q0" and shown.loc["q5", "question"] == "People cheat"
    assert {"Factor 1", "Factor 1 (error)", "communality"} <= set(shown.columns)
    model.about_ = {"schema": {"columns": [{"name": "q1", "question": "Once"}, "odd"]}}
    assert model.factor_solution().questions == {"q1": "Once"}
    model.about_ = {}


def test_curves_and_information(fitted):
    model, table, _, _ = fitted
    reading = model.factor_solution()
    curves = reading.curves("q0", "Factor 1", n_points=5)
    np.testing.assert_allclose(curves.drop(columns="information").sum(axis=1), 1.0)
    assert curves.index.name == "Factor 1" and curves.shape == (5, 6)
    information = reading.information("Factor 1")
    np.testing.assert_allclose(information.drop(columns="total").sum(axis=1), information["total"])
    # What answers tell, on average, is what scores are uncertain by: both see the same prior.
    _, errors = model.scores(table.dropna(), return_std=True)
    weight = np.exp(-0.5 * information.index.to_numpy() ** 2)
    expected = np.average(1 / np.sqrt(1 + information["total"]), weights=weight)
    assert errors["Factor 1"].mean() == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, X: m.loadings("promux"), "'rotation' parameter must be one of 'varimax'"),
        (lambda m, X: m.loadings(n_factors=3), "'n_factors' parameter must be .* from 1 to 2"),
        (lambda m, X: m.loadings("oblimin", gamma=2.0), "'gamma' parameter must be at most 0.8"),
        (lambda m, X: m.scores(X, n_draws=0), "'n_draws' parameter"),
        (lambda m, X: m.scores(X, n_draws=2, return_std=True), "leave out n_draws"),
        (lambda m, X: m.factor_solution().curves("q77"), "no question 'q77'; give one of 'q0'"),
        (lambda m, X: m.factor_solution().items("Factor 9"), "no factor 'Factor 9'; give one of"),
        (lambda m, X: m.factor_solution(X, sample_weight=[1.0]), "sample_weight has shape"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(fitted, call, said):
    model, table, _, _ = fitted
    with pytest.raises(DataError, match=said):
        call(model, table)


# Loadings of sparse answers


def one_trait(n_rows, missing, *, loading=0.7, n_items=10, seed=0):
    """Answers to questions that all have one loading, of which a share is missing."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1 - loading**2) * rng.normal(size=(n_rows, n_items))
    X = np.digitize(loading * rng.normal(size=(n_rows, 1)) + noise, [-1.2, -0.4, 0.4, 1.2]) + 1.0
    return np.where(rng.random(X.shape) < missing, np.nan, X)


@pytest.mark.parametrize("seed", [0, 2])
def test_loadings_of_sparse_answers_come_with_the_figure(seed):
    """The prior leaves about half of 0.70; what is told is nearer to the truth."""
    X = one_trait(300, 0.68, seed=seed)
    model = orbm.CumulativeRBM(1, n_epochs=2, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="68% of the answers are missing") as said:
        shown = float(np.median(model.factor_solution(X).loadings.abs()))
    words = str(said[0].message)
    figures = re.search(r"so that (.*) stands for about (.*), and", words)
    told, stands_for = map(float, figures.groups())
    assert told == pytest.approx(shown, abs=0.006) and shown < 0.6
    assert abs(stands_for - 0.7) < 0.1 < 0.7 - shown
    nearer = {"learning_rate": 0.005, "n_epochs": 40, "weight_decay": 1.0}
    assert all(f"{name}={value:g}" in words for name, value in nearer.items())


def test_attenuation_is_the_ratio_of_correlations():
    """Weights of a model that are cut down are found to be so, whatever the share of answers."""
    X = one_trait(3000, 0.4, seed=3)
    model = orbm.CumulativeRBM(1, n_epochs=2, response_styles=1, random_state=0).fit(X)
    people, answers = model.population_, model._read(X)
    whole = attenuation(model.model_, people, answers)
    assert abs(whole.ratio - 1.0) < 0.06 and whole.kept > 0.95
    spread = model.model_.weights.astype(float) @ people.root
    loading = spread / np.sqrt(1 + spread**2)
    cut = 0.8 * loading
    weights = model.model_.weights * (cut / np.sqrt(1 - cut**2) / spread)
    smaller = model.model_._replace(weights=weights.astype(np.float32))
    assert attenuation(smaller, people, answers).kept == pytest.approx(0.8, abs=0.03)
