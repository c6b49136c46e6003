"""CumulativeRBM as a scikit-learn estimator: its own checks, and the tools around it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from small_surveys import SCALES, assert_same_model, frame, small

import ordinalrbm as orbm

OFF_SCALE = (
    "asks about continuous values that were not in the training data: they are on no scale, and "
    "refusing them is what this estimator is for"
)
ONE_TABLE_PER_CALL = (
    "takes predict and predict_proba for those of a single target; here there is one prediction "
    "per cell, and predict_proba is a list with one array per column (checked without them below)"
)
EXPECTED_TO_FAIL = {
    "check_fit_idempotent": OFF_SCALE,
    "check_sample_weight_equivalence_on_dense_data": OFF_SCALE,
    "check_sample_weight_equivalence_on_sparse_data": OFF_SCALE,
    "check_estimator_sparse_array": ONE_TABLE_PER_CALL,
    "check_estimator_sparse_matrix": ONE_TABLE_PER_CALL,
    "check_estimators_pickle": ONE_TABLE_PER_CALL,
    "check_methods_sample_order_invariance": ONE_TABLE_PER_CALL,
    "check_methods_subset_invariance": ONE_TABLE_PER_CALL,
}
# The checks feed continuous columns, each value a level of its own.
measurements = pytest.mark.filterwarnings("ignore:.*looks continuous:UserWarning")
# check_array_api_input skips itself unless SCIPY_ARRAY_API is set.
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


class TransformOnly(orbm.CumulativeRBM):
    """The estimator as the checks see any other transformer."""

    @property
    def predict(self):
        raise AttributeError("hidden from the checks")

    predict_proba = predict


@measurements
@skips
@parametrize_with_checks(
    [orbm.CumulativeRBM.binary(n_factors=2, n_epochs=2, random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def excused_checks(estimator, reasons):
    """The checks that are expected to fail for these reasons, as often as they are asked."""
    for _, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        if EXPECTED_TO_FAIL.get(name) in reasons:
            yield pytest.param(check, id=name)


@measurements
@pytest.mark.filterwarnings("ignore:.* zeros that the sparse format:UserWarning")
@pytest.mark.parametrize("check", list(excused_checks(TransformOnly(), {ONE_TABLE_PER_CALL})))
def test_checks_that_stumble_over_predict_pass_without_it(check):
    check(TransformOnly.binary(n_factors=2, n_epochs=2, random_state=0))


@measurements
@pytest.mark.parametrize("check", list(excused_checks(orbm.CumulativeRBM(), {OFF_SCALE, ONE_TABLE_PER_CALL})))
def test_every_excuse_is_needed(check):
    """An expected failure that no longer fails is to be removed from the list."""
    with pytest.raises((AssertionError, ValueError, TypeError, IndexError, AttributeError)):
        check(orbm.CumulativeRBM.binary(n_factors=2, n_epochs=1, random_state=0))


def test_every_excuse_is_for_a_check():
    names = {
        getattr(check, "func", check).__name__
        for _, check in estimator_checks_generator(orbm.CumulativeRBM())
    }
    assert set(EXPECTED_TO_FAIL) <= names


# What the excused checks ask, asked about answers on a scale


@pytest.fixture(scope="module")
def fitted():
    return small(n_epochs=6).fit(frame())


def results(model, X):
    """Everything that the model says about rows, one array each."""
    return [model.transform(X), model.predict(X).to_numpy(), *model.predict_proba(X)]


@pytest.mark.parametrize("inference", ["mean_field", "mcmc"])
def test_rows_do_not_know_of_each_other(fitted, inference):
    """A subset of the rows gives the same as all rows; of draws this holds for the first rows."""
    X = frame(seed=6, missing=0.3)
    model = clone(fitted).set_params(inference=inference, n_draws=5).fit(frame())
    whole = results(model, X)
    for one, other in zip(results(model, X.iloc[:40]), whole, strict=True):
        np.testing.assert_array_equal(one, other[:40])
    if inference == "mean_field":
        order = np.random.default_rng(0).permutation(len(X))
        for one, other in zip(results(model, X.iloc[order]), whole, strict=True):
            np.testing.assert_array_equal(one, other[order])


def test_pickle_keeps_everything(fitted):
    X = frame(seed=7)
    again = pickle.loads(pickle.dumps(fitted))
    assert_same_model(fitted, again)
    for one, other in zip(results(again, X), results(fitted, X), strict=True):
        np.testing.assert_array_equal(one, other)


# The tools around it


def test_pandas_output_has_the_index_and_the_names():
    X = frame().set_index(pd.RangeIndex(1000, 1150))
    out = small().set_output(transform="pandas").fit_transform(X)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == ["factor_0", "factor_1", "factor_2"]
    pd.testing.assert_index_equal(out.index, X.index)
    np.testing.assert_array_equal(out.to_numpy(), small().fit(X).transform(X))


def test_grid_search_by_the_score_of_the_answers():
    """Folds miss levels of scales that no others share, so that these must be given."""
    X = frame(240, missing=0.05, seed=9)
    search = GridSearchCV(
        small(scales=SCALES, n_epochs=15, learning_rate=0.05),
        {"n_factors": [1, 4], "weight_decay": [1.0, 1e4]},
        cv=2,
        error_score="raise",
    ).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert (scores < 0).all()
    # So strong a prior leaves no weights, hence nothing that one answer says about another.
    assert search.best_params_["weight_decay"] == 1.0
    assert search.best_estimator_.transform(X).shape == (240, search.best_params_["n_factors"])


FOLDS_LACK = "ignore:.* the value [15] .* did not occur in the data:UserWarning"


@pytest.mark.filterwarnings(FOLDS_LACK)
def test_folds_that_lack_a_level_are_scored():
    """In each half of these rows there are cuisines that nobody hates, or that nobody loves."""
    answers = orbm.datasets.load_food_world_cup().iloc[:300, :10]
    scores = cross_val_score(orbm.CumulativeRBM(3, n_epochs=2, random_state=0), answers, cv=2)
    assert np.isfinite(scores).all()
    assert (scores > -np.log(5)).all()  # better than equal chances of all levels
    few = orbm.CumulativeRBM.binary(2, n_epochs=2, random_state=0)
    search = GridSearchCV(few, {"n_factors": [1, 3]}, cv=2).fit(answers)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
