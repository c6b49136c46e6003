"""Several rating models together: shares that suit what was held out, whichever the models."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from small_matrices import MODELS, assert_same_models, halves, simulated, small

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells
from ordinalrbm.estimators import ensemble
from ordinalrbm.matrix import binary_learner, variational_learner
from ordinalrbm.matrix.predict import log_probability

SINGLE = [name for name in MODELS if name != "ensemble"]


@pytest.fixture(scope="module")
def ratings():
    return simulated()


def models(*names, **changes):
    return [MODELS[name](random_state=None, **changes) for name in names]


def of_models(given, **changes):
    return orbm.RatingEnsemble(given, demand_factors=0, random_state=0, **changes)


def ensemble_of(*names, **changes):
    return of_models(models(*names, **changes))


def test_parts_are_what_they_are_alone(ratings):
    train, rest = halves(ratings)
    together = ensemble_of(*SINGLE).fit(train, rest)
    assert [type(part) for part in together.estimators_] == [type(model) for model in models(*SINGLE)]
    pair = (rest["user"], rest["item"])
    expected = np.zeros((len(rest), 5))
    for name, share, part in zip(SINGLE, together.shares_, together.estimators_, strict=True):
        alone = MODELS[name](random_state=0).fit(train, rest)
        assert_same_models(part, alone)
        expected += share * alone.predict_proba(*pair)
    assert together.shares_.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(together.predict_proba(*pair), expected, atol=1e-9)


def test_models_that_are_given_stay_as_they_are(ratings):
    given = models("ordinal", "gaussian")
    of_models(given).fit(ratings)
    assert not any(hasattr(model, "models_") for model in given)
    assert all(model.random_state is None for model in given)


def test_a_model_may_have_a_seed_of_its_own(ratings):
    """Of the order of users and items, and of what is held out, there is one seed for all."""

    def first(seed):
        both = [MODELS["ordinal"](random_state=seed, n_epochs=2), *models("gaussian", n_epochs=2)]
        return of_models(both).fit(ratings).estimators_[0]

    of_ensemble, own = first(None), first(7)
    assert_same_models(first(7), own)
    assert (own.user_factors_ != of_ensemble.user_factors_).any()
    same = first(np.random.RandomState(7))
    assert_same_models(same, own)


def likelihoods(model, rest):
    """(models, ratings): probability of what was held out, by each model alone."""
    cells = Cells(
        model.users_.lookup(rest["user"].to_list()),
        model.items_.lookup(rest["item"].to_list()),
        rest["rating"].to_numpy() - 1,
    )
    alone = ([one._replace(share=1.0)] for one in model.models_)
    return np.exp([log_probability(each, cells) for each in alone])


def log_posterior(shares, likelihood):
    prior = ensemble._PRIOR_RATINGS * np.log(shares).sum()
    return np.log(shares @ likelihood).sum() + prior


@pytest.mark.parametrize("names", [("matrix", "ordinal"), ("gaussian", "multinomial")])
def test_shares_of_two_are_the_most_likely_ones(names, ratings):
    """No share on a grid suits what was held out better."""
    train, rest = halves(ratings)
    model = ensemble_of(*names).fit(train, rest)
    likelihood = likelihoods(model, rest)
    grid = np.linspace(0.002, 0.998, 499)
    values = [log_posterior(np.array([share, 1 - share]), likelihood) for share in grid]
    best = grid[int(np.argmax(values))]
    assert model.shares_[0] == pytest.approx(best, abs=0.01)
    assert log_posterior(model.shares_, likelihood) > max(values) - 0.01
    np.testing.assert_allclose([one.share for one in model.models_], model.shares_)


def test_shares_of_three_are_the_most_likely_ones(ratings):
    train, rest = halves(ratings)
    model = ensemble_of("matrix", "ordinal", "multinomial").fit(train, rest)
    likelihood = likelihoods(model, rest)

    def loss(logs):
        shares = np.exp(logs - np.logaddexp.reduce(logs))
        return -log_posterior(shares, likelihood)

    best = minimize(loss, np.zeros(3), method="BFGS").x
    np.testing.assert_allclose(model.shares_, np.exp(best - np.logaddexp.reduce(best)), atol=0.01)
    assert model.shares_.sum() == pytest.approx(1.0, abs=1e-12)


def test_shares_are_equal_when_nothing_is_held_out(ratings):
    both = models("matrix", "ordinal")
    model = of_models(both, validation_fraction=0).fit(ratings)
    assert [one.share for one in model.models_] == [0.5, 0.5]
    assert model.shares_.tolist() == [0.5, 0.5]


def test_one_model_is_itself(ratings):
    alone = MODELS["ordinal"](random_state=0, refit="none").fit(ratings)
    model = ensemble_of("ordinal").fit(ratings)
    assert model.shares_.tolist() == [1.0]
    assert_same_models(model, alone)


@pytest.mark.parametrize("names", list(itertools.permutations(["matrix", "ordinal", "multinomial"])))
def test_any_order(names, ratings, tmp_path):
    """What models tell of their epochs differs; the history has what all tell."""
    model = ensemble_of(*names, n_epochs=3).fit(ratings)
    history = model.history_
    assert history.columns.tolist() == ["epoch", "validation", "model", "seconds"]
    assert history["model"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert history["epoch"].tolist() == [1, 2, 3] * 3
    assert model.n_iter_ == 9
    for number, part in enumerate(model.estimators_):
        own = history[history["model"] == number]
        assert own["validation"].tolist() == part.history_["validation"].tolist()
    model.save(tmp_path / "m.orbm")
    again = orbm.load(tmp_path / "m.orbm")
    assert [type(part) for part in again.estimators_] == [type(part) for part in model.estimators_]
    np.testing.assert_array_equal(again.shares_, model.shares_)
    assert_same_models(again, model)


def test_folding_in_is_that_of_each_model(ratings):
    model = ensemble_of("matrix", "ordinal", "gaussian").fit(ratings)
    new = (["x", "x", "u1"], ["i1", "fresh", "fresh"], [5, 4, 4])
    wider = model.fold_in(new)
    p = sum(
        share * part.fold_in(new).predict_proba("x", ["i2", "fresh"])
        for share, part in zip(model.shares_, model.estimators_, strict=True)
    )
    np.testing.assert_allclose(wider.predict_proba("x", ["i2", "fresh"]), p, atol=1e-9)
    np.testing.assert_array_equal(wider.shares_, model.shares_)
    with pytest.raises(orbm.DataError, match="cannot fold in new items"):
        ensemble_of("ordinal", "multinomial").fit(ratings).fold_in(new)


def test_reasons_are_those_of_each_model(ratings):
    model = ensemble_of("matrix", "ordinal", "multinomial").fit(ratings)
    found = model.explain("u3", "i7", n=100)
    tables = [part.explain("u3", "i7", n=100) for part in model.estimators_]
    expected = model.shares_ @ [table.expected for table in tables]
    assert found.expected == pytest.approx(expected, abs=1e-6)
    of_parts = sum(
        share * table.ratings.set_index("item")["effect"]
        for share, table in zip(model.shares_, tables, strict=True)
    )
    effects = found.ratings.set_index("item")["effect"]
    np.testing.assert_allclose(effects, of_parts[effects.index], atol=1e-6)


def test_items_without_ratings_on_a_longer_scale():
    """Some models learn in the order of the ids, others from what has ratings: both judge alike."""
    users, items = np.divmod(np.arange(60), 3)
    values = 1 + (users + items) % 3
    matrix = sparse.coo_array((values, (users, items)), shape=(20, 5))
    model = orbm.RatingEnsemble(
        models("ordinal", "multinomial", n_epochs=2),
        scale=[1, 2, 3, 4, 5],
        item_scales={item: [1, 2, 3] for item in range(3)},
        random_state=0,
    )
    with pytest.warns(UserWarning, match="1 of 3 validation ratings are not used"):
        model.fit(matrix, ([1, 2, 3], [0, 1, 4], [1, 2, 5]))
    assert model.shares_.sum() == pytest.approx(1.0)
    assert model.predict_proba(1, [0, 4, 9]).shape[0] == 3


# ---- learning that fails or is stopped ----------------------------------------------------------


def wild(**changes):
    """Steps so large that no smaller ones help."""
    return small(random_state=None, learning_rate=1e30, **changes)


def test_a_model_that_diverges_is_left_out(ratings, tmp_path):
    train, rest = halves(ratings)
    given = [wild(), *models("ordinal")]
    model = of_models(given)
    with pytest.warns(ConvergenceWarning, match="MatrixCumulativeRBM is left out of the ensemble"):
        model.fit(train, rest)
    assert model.shares_.tolist() == [1.0]
    assert_same_models(model, MODELS["ordinal"](random_state=0).fit(train, rest))
    model.save(tmp_path / "m.orbm")
    assert_same_models(orbm.load(tmp_path / "m.orbm"), model)


def test_when_all_diverge_there_is_no_model(ratings):
    model = of_models([wild(), wild()])
    with (
        pytest.warns(ConvergenceWarning, match="left out of the ensemble"),
        pytest.raises(orbm.DataError, match="set learning_rate much lower"),
    ):
        model.fit(ratings)
    assert not hasattr(model, "models_")


@pytest.mark.parametrize("epochs_before", [0, 2])
@pytest.mark.parametrize("names", [("ordinal", "matrix"), ("matrix", "ordinal")])
def test_ctrl_c_while_the_second_is_learnt(ratings, monkeypatch, capsys, names, epochs_before):
    learner = (binary_learner if names[1] == "matrix" else variational_learner)._Learner
    epoch = learner.epoch

    def impatient(self):
        if len(self.history) == epochs_before:
            raise KeyboardInterrupt
        epoch(self)

    monkeypatch.setattr(learner, "epoch", impatient)
    model = ensemble_of(*names).fit(ratings)
    assert "learning was stopped" in capsys.readouterr().err
    if epochs_before:
        assert [part.n_iter_ for part in model.estimators_] == [6, epochs_before]
    else:
        as_it_is = {"refit": "none"} if names[0] == "ordinal" else {}
        assert_same_models(model, MODELS[names[0]](random_state=0, **as_it_is).fit(ratings))
