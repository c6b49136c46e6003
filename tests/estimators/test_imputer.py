"""OrdinalImputer as scikit-learn and its pipelines use it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_surveys import NAMES, SCALES, frame, levels, numbers, small

import ordinalrbm as orbm
from ordinalrbm import DataError

OFF_SCALE = "asks about continuous values that were not in the training data: they are on no scale"
EXPECTED_TO_FAIL = {
    "check_fit_idempotent": OFF_SCALE,
    "check_sample_weight_equivalence_on_dense_data": OFF_SCALE,
    "check_sample_weight_equivalence_on_sparse_data": OFF_SCALE,
}


def imputer(**changes):
    return orbm.OrdinalImputer(3, estimator=small(), random_state=0, **changes)


@pytest.mark.filterwarnings("ignore:.*looks continuous:UserWarning")
@pytest.mark.filterwarnings("ignore:.* zeros that the sparse format:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [orbm.OrdinalImputer(2, estimator=orbm.CumulativeRBM.binary(2, n_epochs=1), random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_it_fills_what_the_model_fills():
    X = frame()
    made = imputer(rule="mode").fit(X)
    pd.testing.assert_frame_equal(made.transform(X), small().fit(X).impute(X, "mode"))
    assert made.get_feature_names_out().tolist() == NAMES


def test_output_is_set():
    X = numbers(levels())
    made = imputer().set_output(transform="pandas").fit(X)
    assert list(made.transform(X)) == [f"x{j}" for j in range(6)]


def test_nothing_stays_empty_where_a_group_was_never_asked():
    X = frame(missing=0.0).assign(land=np.repeat(["at", "ch"], 75))
    X.loc[X["land"] == "ch", "mood"] = np.nan
    made = imputer(background=["land"]).fit(X)
    assert made.transform(X).notna().all(axis=None)


def test_in_a_pipeline_across_folds():
    X = frame()
    y = (X["trust"].fillna(0) > 3).to_numpy()
    pipeline = make_pipeline(imputer(scales=SCALES), LogisticRegression(max_iter=500))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.8


def test_a_wrong_rule_is_refused():
    with pytest.raises(DataError, match="'rule' parameter must be one of 'median', 'mode'"):
        imputer(rule="mean").fit(frame())
