"""Both kinds of factors together: shares that suit what was held out, and Ctrl-C in between."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from small_matrices import assert_same_models, halves, simulated, small

from ordinalrbm.data.observations import Cells
from ordinalrbm.matrix import binary_learner, mixed
from ordinalrbm.matrix.predict import log_probability


@pytest.fixture(scope="module")
def ratings():
    return simulated()


def test_both_parts_are_what_they_are_alone(ratings):
    train, rest = halves(ratings)
    together = small(factors="mixed").fit(train, rest)
    alone = [small(factors=kind).fit(train, rest) for kind in ("binary", "continuous")]
    assert [model.is_continuous for model in together.models_] == [False, True]
    pair = (rest["user"], rest["item"])
    parts = [model.predict_proba(*pair) for model in alone]
    shares = [model.share for model in together.models_]
    assert sum(shares) == pytest.approx(1.0)
    expected = shares[0] * parts[0] + shares[1] * parts[1]
    np.testing.assert_allclose(together.predict_proba(*pair), expected, atol=1e-9)
    assert together.user_factors_ is together.models_[1].by_rows.factors


def test_shares_are_the_most_likely_ones(ratings):
    train, rest = halves(ratings)
    model = small(factors="mixed").fit(train, rest)
    pairs = Cells(
        model.users_.lookup(rest["user"].to_list()),
        model.items_.lookup(rest["item"].to_list()),
        rest["rating"].to_numpy() - 1,
    )
    binary, degrees = ([one._replace(share=1.0)] for one in model.models_)
    p, q = (np.exp(log_probability(models, pairs)) for models in (binary, degrees))
    strength = mixed._PRIOR_RATINGS

    def loss(share):
        prior = strength * (np.log(share) + np.log(1.0 - share))
        return -np.log(share * p + (1.0 - share) * q).sum() - prior

    best = minimize_scalar(loss, bounds=(1e-6, 1 - 1e-6), method="bounded").x
    assert model.models_[0].share == pytest.approx(best, abs=0.01)


def test_shares_are_equal_when_nothing_is_held_out(ratings):
    model = small(factors="mixed", validation_fraction=0, n_averaged=2).fit(ratings)
    assert [one.share for one in model.models_] == [0.25] * 4


def test_the_history_tells_both_stories(ratings):
    history = small(factors="mixed", n_epochs=3).fit(ratings).history_
    assert history["is_binary"].tolist() == [False] * 3 + [True] * 3
    assert history["epoch"].tolist() == [1, 2, 3] * 2
    assert history["seconds"].is_monotonic_increasing


@pytest.mark.parametrize("epochs_before", [0, 2])
def test_ctrl_c_while_binary_factors_are_learnt(ratings, monkeypatch, capsys, epochs_before):
    epoch = binary_learner._Learner.epoch

    def impatient(self):
        if len(self.history) == epochs_before:
            raise KeyboardInterrupt
        epoch(self)

    monkeypatch.setattr(binary_learner._Learner, "epoch", impatient)
    model = small(factors="mixed").fit(ratings)
    assert "learning was stopped" in capsys.readouterr().err
    if epochs_before:
        assert len(model.models_) == 2
    else:
        assert_same_models(model, small().fit(ratings))


@pytest.mark.parametrize(("n_rows", "n_epochs"), [(100, 60), (1_389, 60), (6_040, 15), (10**6, 15)])
def test_fewer_rows_are_learnt_in_more_epochs(n_rows, n_epochs):
    settings = small(n_epochs=None, batch_size=300)._settings(0)
    assert binary_learner._n_epochs(n_rows, settings) == n_epochs
