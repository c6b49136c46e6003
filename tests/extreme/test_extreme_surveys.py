"""Surveys as strange as they may legally be: models stay finite, and sensible."""

import numpy as np
import pytest
from extremes import SURVEY_MODELS, checked_survey, mean_loss, shares, survey_model

every_model = pytest.mark.parametrize("how", SURVEY_MODELS)


def graded(n_rows, n_columns, n_levels=5, seed=0):
    """Answers 1 to L that depend on one trait."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=(n_rows, 1)) + 0.8 * rng.normal(size=(n_rows, n_columns))
    return 1.0 + np.clip(np.floor((utility + 2.5) / 5.0 * n_levels), 0, n_levels - 1)


def hidden(X, share=0.1, seed=1):
    """A copy with gaps, and where these are."""
    gaps = np.random.default_rng(seed).random(X.shape) < share
    return np.where(gaps, np.nan, X), gaps


def losses(model, X, gaps):
    """Of the model and of the frequencies, per answer in the gaps."""
    shown = np.where(gaps, np.nan, X)
    found = model.predict_proba(shown)
    own, usual = [], []
    for column, scale in enumerate(model.scales_):
        labels = np.array(scale.labels, dtype=float)
        levels = np.searchsorted(labels, X[gaps[:, column], column])
        seen = np.searchsorted(labels, X[~gaps[:, column], column])
        own.append(-np.log(found[column][gaps[:, column], levels]))
        usual.append(-np.log(shares(seen, scale.n_levels)[levels]))
    return np.concatenate(own).mean(), np.concatenate(usual).mean()


@every_model
@pytest.mark.parametrize("scales", [None, [1, 2, 3, 4, 5]])
def test_all_answers_are_equal(how, scales, tmp_path):
    X = np.full((120, 4), 3.0)
    model = survey_model(how, scales=scales).fit(X)
    found = checked_survey(model, X, tmp_path)
    at = 0 if scales is None else 2
    assert min(distribution[:, at].min() for distribution in found) > 0.95


@every_model
def test_one_answer_per_row_and_rows_without(how, tmp_path):
    rng = np.random.default_rng(0)
    X = np.full((800, 4), np.nan)
    X[np.arange(800), rng.integers(0, 4, 800)] = 1 + rng.choice(5, 800, p=[0.1, 0.1, 0.2, 0.5, 0.1])
    X[::50] = np.nan
    model = survey_model(how, scales=[1, 2, 3, 4, 5]).fit(X)
    checked_survey(model, X, tmp_path)
    nothing = model.predict_proba(np.full((1, 4), np.nan))
    for column, distribution in zip(X.T, nothing, strict=True):
        levels = (column[~np.isnan(column)] - 1).astype(int)
        np.testing.assert_allclose(distribution[0], shares(levels, 5), atol=0.06)


@every_model
def test_a_hundred_levels_half_of_them_never_chosen(how, tmp_path):
    X = np.minimum(graded(200, 4, n_levels=100), 50.0)
    shown, gaps = hidden(X)
    model = survey_model(how, scales=list(range(1, 101))).fit(shown)
    checked_survey(model, shown, tmp_path)
    own, usual = losses(model, X, gaps)
    assert own < usual
    expected = np.column_stack([p @ np.arange(1.0, 101.0) for p in model.predict_proba(shown)])
    means = np.broadcast_to(np.nanmean(shown, axis=0), X.shape)
    assert np.abs(expected - X)[gaps].mean() < np.abs(means - X)[gaps].mean()


@every_model
def test_columns_that_are_copies_of_each_other(how, tmp_path):
    X = np.repeat(np.arange(400.0)[:, None] % 5 + 1, 4, axis=1)
    model = survey_model(how, n_factors=10, weight_decay=1.0).fit(X)
    checked_survey(model, X, tmp_path)
    assert np.abs(model.model_.weights).max() < 5.0
    shown = X[:5].copy()
    shown[:, 2] = np.nan
    found = model.predict_proba(shown)[2]
    assert mean_loss(found, np.arange(5)) < 0.6 * np.log(5)
    assert np.abs(model.predict(shown)[:, 2] - X[:5, 2]).max() <= 1


@every_model
@pytest.mark.parametrize(
    "X",
    [[[1.0, 3.0, 2.0]], [[1.0], [2.0], [3.0], [3.0]], [[2.0]], [[2.0, np.nan], [np.nan, 1.0]]],
    ids=["one row", "one column", "one cell", "two answers"],
)
def test_hardly_any_answers(how, X, tmp_path):
    X = np.array(X)
    model = survey_model(how, scales=[1, 2, 3]).fit(X)
    checked_survey(model, X, tmp_path)


def test_weights_that_are_zero_or_a_billion():
    """Rows that weigh nothing, or next to nothing, are as good as not there."""
    X = np.repeat([[1.0, 2.0, 1.0], [5.0, 4.0, 5.0], [3.0, 3.0, 3.0]], 200, axis=0)
    model = survey_model("paper", scales=[1, 2, 3, 4, 5], n_epochs=60)
    model.fit(X, sample_weight=np.repeat([1e9, 1e-3, 0.0], 200))
    found = model.predict_proba(np.full((1, 3), np.nan))
    for distribution, level in zip(found, (0, 1, 0), strict=True):
        assert distribution[0, level] > 0.9
