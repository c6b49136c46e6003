"""Scales of more than a hundred levels, of which only a few occur.

Of a thousand, and of as many as there can be, in the long form: a level then takes two bytes, for
which the kernels are compiled once more (tests/runtime/test_wide_types.py runs them uncompiled).
"""

import numpy as np
import pytest
from extremes import assert_distributions, rating_model, survey_model
from long_form import LONG

import ordinalrbm as orbm

MOST = 32_767
N_LEVELS = [127, 1000, MOST] if LONG else [127]


def answers_on(n_levels):
    """Twenty people and five things; seven levels occur, from one end to the other."""
    chosen = np.random.default_rng(0).integers(0, 7, (20, 5))
    return 1 + chosen * (n_levels - 1) // 6


@pytest.mark.parametrize("n_levels", N_LEVELS)
@pytest.mark.parametrize("kind", ["OrdinalMF", "GaussianMF", "MatrixCumulativeRBM"])
def test_ratings_on_long_scales(kind, n_levels):
    user, item = np.divmod(np.arange(100), 5)
    model = rating_model(kind, 2, n_epochs=3, scale=list(range(1, n_levels + 1)))
    model.fit((user, item, answers_on(n_levels).ravel()))
    found = model.predict_proba([0, 0, -5], [0, -5, 1])
    assert found.shape == (3, n_levels)
    assert_distributions(found)
    points = model.predict([0, 0, -5], [0, -5, 1])
    assert ((points >= 1) & (points <= n_levels)).all()
    assert np.isfinite(model.recommend(0, n=2)["score"]).all()


@pytest.mark.parametrize("n_levels", N_LEVELS)
def test_a_survey_on_long_scales(n_levels):
    X = answers_on(n_levels).astype(float)
    model = survey_model("paper", 2, n_epochs=3, scales=list(range(1, n_levels + 1))).fit(X)
    for distribution in model.predict_proba(X[:2]):
        assert distribution.shape == (2, n_levels)
        assert_distributions(distribution)


def test_more_levels_than_there_can_be():
    model = orbm.OrdinalMF(2, scale=list(range(MOST + 1)))
    with pytest.raises(orbm.DataError, match=r"32,?768|32,?767"):
        model.fit(([0, 1], [0, 1], [0, MOST]))
