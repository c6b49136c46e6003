"""Steps far too large: learning recovers, or stops with advice; what was good is kept."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.training.schedule import DivergenceError, refuse_divergence
from ordinalrbm.vector import learner as learning


def survey(n_rows=600, seed=0):
    """Six questions about one trait, and which answers are hidden."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=(n_rows, 1)) + rng.normal(size=(n_rows, 6))
    X = 1.0 + np.clip(np.floor(utility + 2.5), 0, 4)
    return X, rng.random(X.shape) < 0.1


def loss_of_survey(model, X, gaps):
    """Of the model and of the frequencies, per hidden answer."""
    found = np.stack(model.predict_proba(np.where(gaps, np.nan, X)), axis=1)
    row, column = np.nonzero(gaps)
    level = X[gaps].astype(int) - 1
    counts = np.stack(
        [np.bincount(c[~g].astype(int), minlength=6)[1:] for c, g in zip(X.T, gaps.T, strict=True)]
    )
    usual = counts / counts.sum(axis=1, keepdims=True)
    return -np.log(found[row, column, level]).mean(), -np.log(usual[column, level]).mean()


@pytest.mark.parametrize("fraction", [0.0, 0.05], ids=["nothing held out", "held out"])
@pytest.mark.parametrize("how", [{}, {"units_per_factor": 20, "response_styles": 3}])
def test_a_rate_a_thousand_times_too_large_gives_a_model_of_use(how, fraction):
    X, gaps = survey()
    model = orbm.CumulativeRBM.binary(
        8, learning_rate=10.0, n_epochs=15, validation_fraction=fraction, random_state=0, **how
    )
    with pytest.warns(ConvergenceWarning, match=r"diverged .* set learning_rate to .* or less"):
        model.fit(np.where(gaps, np.nan, X))
    own, usual = loss_of_survey(model, X, gaps)
    assert own < usual
    assert all(np.isfinite(part).all() for part in model.model_[:-1])


def ratings(seed=0):
    """Users and items with one taste; a tenth of the ratings apart."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((150, 40)) < 0.5)
    taste, kind = rng.normal(size=150), rng.normal(size=40)
    utility = taste[user] * kind[item] + 0.5 * rng.normal(size=user.size)
    rating = 1 + np.clip(np.floor(utility + 2.5), 0, 4).astype(int)
    test = rng.random(user.size) < 0.1
    return [tuple(part[chosen] for part in (user, item, rating)) for chosen in (~test, test)]


@pytest.mark.parametrize("fraction", [0.0, 0.05])
def test_the_same_of_ratings(fraction):
    learnt, test = ratings()
    given = {"validation_fraction": fraction, "demand_factors": 0, "random_state": 0}
    model = orbm.MatrixCumulativeRBM(4, 4, learning_rate=150.0, n_epochs=10, **given)
    with pytest.warns(ConvergenceWarning, match=r"diverged .* set learning_rate to .* or less"):
        model.fit(learnt)
    level = test[2] - 1
    own = -np.log(model.predict_proba(*test[:2])[np.arange(level.size), level]).mean()
    usual = np.bincount(learnt[2] - 1) / learnt[2].size
    assert own < -np.log(usual[level]).mean()


def test_steps_that_explode_late_leave_the_best_epoch(monkeypatch):
    """From the fourth epoch on every step is as large as the weights: no smaller rate helps."""
    epoch, models = learning._VectorLearner._pass, []

    def explodes(learner, number, rate):
        epoch(learner, number, rate)
        if number > 3:
            learner.model.weights[:] = 10.0 * (-1.0) ** np.arange(learner.model.weights.shape[1])
        else:
            models.append(learner.model.copy())

    monkeypatch.setattr(learning._VectorLearner, "_pass", explodes)
    X, gaps = survey()
    with pytest.warns(ConvergenceWarning, match="after epoch 3, .* best model so far is kept"):
        model = orbm.CumulativeRBM.binary(4, n_epochs=12, random_state=0).fit(np.where(gaps, np.nan, X))
    assert model.n_iter_ == 3
    np.testing.assert_array_equal(model.model_.weights, models[model.best_epoch_ - 1].weights)
    own, usual = loss_of_survey(model, X, gaps)
    assert own < usual


def test_weights_out_of_all_bounds_are_divergence():
    with pytest.raises(DivergenceError):
        refuse_divergence(np.array([0.0, np.nan]), ())
    with pytest.raises(DivergenceError):
        refuse_divergence(np.array([25.0]), ())
    refuse_divergence(np.array([5.0]), (np.array([1e3]),))


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, 1e9])
def test_a_model_that_could_not_be_read_again_is_not_saved(spoilt, tmp_path):
    X, _ = survey(60)
    model = orbm.CumulativeRBM.binary(2, n_epochs=1, random_state=0).fit(X)
    model.save(tmp_path / "good.orbm")
    model.model_.weights[0, 0] = spoilt
    with pytest.raises(DataError, match=r"not saved to '.*bad.orbm'.*array 'weights'"):
        model.save(tmp_path / "bad.orbm")
    assert [path.name for path in tmp_path.iterdir()] == ["good.orbm"]
