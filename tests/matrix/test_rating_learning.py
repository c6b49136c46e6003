"""Learning from rating matrices: that it learns, odd data, seeds, threads, interruption."""

import functools
import hashlib
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_matrices import (
    LABELS,
    LISTS,
    MODELS,
    assert_same_models,
    every_model,
    halves,
    on_any_scales,
    simulated,
    small,
)

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.engine.side import Statistics
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.matrix import binary_learner, prepare, variational_learner
from ordinalrbm.matrix.binary_state import Priors, Steps, ascend
from ordinalrbm.matrix.model import Half, start


@pytest.fixture(scope="module")
def ratings():
    return simulated()


def root_mean_square(predicted, truth):
    return float(np.sqrt(np.mean((np.asarray(predicted) - truth) ** 2)))


def numbers(ratings):
    """The same with ids that are numbers."""
    return ratings.assign(user=ratings["user"].str[1:].astype(int), item=ratings["item"].str[1:].astype(int))


def error_beside_items(model):
    """Error of hidden ratings as a share of that of the items' means; and what their distributions
    are more likely under than under the shares of each item's ratings, in nats.
    """
    train, test = halves(simulated(300, 60, density=0.5))
    model.fit(train)
    means = test["item"].map(train.groupby("item")["rating"].mean())
    error = root_mean_square(model.predict(test["user"], test["item"]), test["rating"])
    counts = pd.crosstab(train["item"], train["rating"]) + 0.5
    shares = counts.div(counts.sum(axis=1), axis=0).loc[test["item"]].to_numpy()
    level = (np.arange(len(test)), test["rating"] - 1)
    found = model.predict_proba(test["user"], test["item"])
    gain = np.log(found[level]).mean() - np.log(shares[level]).mean()
    return error / root_mean_square(means, test["rating"]), gain


@every_model
def test_learning_beats_the_means_and_the_shares_of_the_items(make):
    model = make(8, n_epochs=15)
    error, gain = error_beside_items(model)
    assert error < 0.85
    # Levels of unequal width are nothing that a Gaussian could know of.
    assert gain > (0.0 if isinstance(model, orbm.GaussianMF) else 0.08)


def test_learning_beats_the_means_of_the_items_with_users_factors_alone():
    model = small(8, 0, n_epochs=15)
    assert error_beside_items(model)[0] < 0.85
    assert model.item_factors_.shape == (60, 0)
    assert model.user_factors_.shape == (300, 8)


def test_binary_factors_are_probabilities(ratings):
    model = small().fit(ratings)
    for factors in (model.user_factors_, model.item_factors_):
        assert factors.min() >= 0
        assert factors.max() <= 1
        assert factors.std(axis=0).min() > 1e-3


def test_the_papers_procedure(ratings):
    model = orbm.MatrixCumulativeRBM.paper(3, 2, n_epochs=4, random_state=0)
    assert (model.n_user_factors, model.n_item_factors, model.n_epochs) == (3, 2, 4)
    model.fit(ratings)
    np.testing.assert_array_equal(model.model_.gains, 1.0)  # nothing is calibrated
    assert model.user_factors_.shape == (120, 3)
    assert model.user_factors_.min() >= 0
    assert model.user_factors_.max() <= 1
    assert (model.history_["row_decay"] == 3.0).all()  # as many as factors
    assert np.isfinite(model.predict("u1", "i1")).all()
    assert_same_models(clone(model).fit(ratings), model)


@pytest.mark.parametrize(("n_rows", "n_epochs"), [(100, 60), (1_389, 60), (6_040, 15), (10**6, 15)])
def test_fewer_users_are_learnt_in_more_epochs(n_rows, n_epochs):
    settings = SimpleNamespace(n_epochs=None, batch_size=300)
    assert binary_learner._n_epochs(n_rows, settings) == n_epochs


@every_model
def test_the_seed_decides_the_model(ratings, make):
    model = make(n_epochs=2).fit(ratings)
    assert_same_models(clone(model).fit(ratings), model)
    other = make(n_epochs=2, random_state=1).fit(ratings)
    items = model.items_.labels
    assert (other.predict("u3", items) != model.predict("u3", items)).any()


def digests():
    """Of what each model learns, folds in, recommends and explains."""
    found = []
    for name, make in MODELS.items():
        model = make(n_epochs=3, **LISTS).fit(simulated())
        items = ["i1", "i2" if name == "multinomial" else "j"]
        wider = model.fold_in((["x", "x"], items, [1, 5]))
        arrays = [array for one in wider.models_ for array in one.to_arrays().values()]
        arrays.append(model.recommend("all", n=3)["score"].to_numpy())
        arrays.append(model.explain("u3", "i7").ratings["effect"].to_numpy())
        found.append(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
    return found


def test_threads_do_not_change_a_bit():
    """Also more threads than there are cores, in another process."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_rating_learning as own; "
    run = subprocess.run(
        [sys.executable, "-c", code + "print(*own.digests())", os.path.dirname(__file__)],
        env={**os.environ, "NUMBA_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = run.stdout.split()
    assert found == digests()
    assert len(set(found)) == len(MODELS)


def data_seen(monkeypatch):
    """What fits have prepared to learn from, one after the other."""
    seen = []
    original = prepare.prepare

    def spy(*args, **options):
        seen.append(original(*args, **options))
        return seen[-1]

    monkeypatch.setattr("ordinalrbm.estimators.ratings.prepare", spy)
    return seen


@every_model
def test_users_and_items_are_put_back(ratings, monkeypatch, make):
    """Batches are neighbours; ids are not in the order of the learner's rows."""
    seen = data_seen(monkeypatch)
    model = make(validation_fraction=0).fit(ratings)
    counts = np.diff(seen[0].observations.row_start)
    known = np.diff(model.ratings_.observations.row_start)
    assert (counts != known).any()
    assert sorted(counts) == sorted(known)
    # Not on one item: even the true utilities of i0 have a correlation of only 0.4 with the means.
    users, items = model.users_.labels, model.items_.labels
    table = model.predict(np.repeat(users, items.size), np.tile(items, users.size))
    table = table.reshape(users.size, items.size)
    mild = ratings.groupby("user")["rating"].mean().loc[users]
    good = ratings.groupby("item")["rating"].mean().loc[items]
    # Multinomial units have nothing of the user's own but factors.
    least = 0.4 if isinstance(model, orbm.MultinomialRBM) else 0.9
    assert np.corrcoef(table.mean(axis=1), mild)[0, 1] > least
    assert np.corrcoef(table.mean(axis=0), good)[0, 1] > 0.9


# ---- validation ---------------------------------------------------------------------------------


@every_model
def test_validation_ratings_are_used_as_given(ratings, monkeypatch, make):
    seen = data_seen(monkeypatch)
    train, rest = halves(ratings)
    cold = pd.DataFrame({"user": ["new", "u1"], "item": ["i1", "new"], "rating": [5, 1]})
    model = make(n_epochs=3, validation_fraction=0.3).fit(train, pd.concat([rest, cold]))
    assert model.n_iter_ == len(model.history_) == 3
    assert model.history_["validation"].notna().all()
    assert model.best_epoch_ in model.history_["epoch"].tolist()
    assert "new" not in model.users_.labels
    assert model.ratings_.n_ratings == len(train)
    cells = seen[0].validation
    assert seen[0].observations.n_entries == len(train)
    assert cells.level.size == len(rest) + 2
    assert (cells.row < 0).tolist()[-2:] == [True, False]
    assert (cells.column < 0).tolist()[-2:] == [False, True]
    assert cells.level.tolist()[-2:] == [4, 0]


@every_model
def test_without_validation_all_epochs_are_learnt(ratings, make):
    nothing = ratings[:0]
    options = {"n_epochs": 4, "patience": 1}
    for model in (make(validation_fraction=0, **options).fit(ratings), make(**options).fit(ratings, nothing)):
        assert model.history_["validation"].isna().all()
        assert model.history_["epoch"].max() == model.best_epoch_ == 4
        for one in model.models_:  # nothing is calibrated
            if hasattr(one, "gains"):
                np.testing.assert_array_equal(one.gains, 1.0)


def test_nobody_loses_all_ratings_to_validation():
    known = read_ratings(simulated(density=0.05))
    data = prepare.prepare(known, None, 0.45, seed=0)
    cells = data.validation
    assert cells.row.size > 50
    assert cells.row.min() >= 0
    assert cells.column.min() >= 0
    for position, counts, left in (
        (data.row_position, known.observations.row_counts, data.observations.row_counts),
        (data.column_position, known.observations.column_counts, data.observations.column_counts),
    ):
        assert (left[position[counts > 0]] > 0).all()
    assert data.observations.n_entries + cells.row.size == known.n_ratings
    # Each held-out rating is where the learner expects it.
    dense = known.observations.to_dense()
    user, item = (
        np.array([np.flatnonzero(position == place)[0] for place in places])
        for position, places in ((data.row_position, cells.row), (data.column_position, cells.column))
    )
    np.testing.assert_array_equal(dense[user, item], cells.level)
    assert (data.observations.to_dense()[cells.row, cells.column] == -1).all()


# ---- odd data -----------------------------------------------------------------------------------


@on_any_scales
def test_an_item_with_one_level_is_left_out_of_learning(ratings, make):
    dull = pd.DataFrame({"user": ["u1", "u2"], "item": "dull", "rating": 3})
    model = make(item_scales={"dull": [3]}, scale=list(LABELS))
    with pytest.warns(UserWarning, match=r"From 2 of [\d,]+ ratings nothing can be learnt"):
        with_dull = model.fit(pd.concat([ratings, dull]))
    assert with_dull.predict_proba("u1", "dull")[0].tolist() == [1, 0, 0, 0, 0]
    assert with_dull.predict("u1", "dull", rule="mode") == 3


# ---- interruption -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ordinal", "ordinal point", "gaussian"])
def test_an_interrupted_epoch_is_not_seen(name, ratings, monkeypatch, capsys):
    """An epoch works in place: what it has begun when Ctrl-C comes must not be seen."""
    as_it_is = {"refit": "none"} if name == "ordinal" else {}
    whole = MODELS[name](n_epochs=2, **as_it_is).fit(ratings)
    assert whole.best_epoch_ == 2
    epoch, calls = variational_learner.epoch, []

    def impatient(data, state, *others):
        calls.append(1)
        if len(calls) > 2:
            for array in (*state.rows, *state.columns):
                array.fill(-1)
            raise KeyboardInterrupt
        return epoch(data, state, *others)

    monkeypatch.setattr(variational_learner, "epoch", impatient)
    model = MODELS[name]().fit(ratings)
    assert model.n_iter_ == 2
    assert "learning was stopped after epoch 2" in capsys.readouterr().err
    assert_same_models(model, whole)


def test_all_rating_models_are_tested():
    public = {getattr(orbm, name) for name in orbm.__all__}
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, RatingModel)}
    assert {type(make()) for make in MODELS.values()} == kinds


@functools.cache
def learnt_and_scored(**switch):
    """The paper's model with something switched off."""
    ratings = simulated(150, 40)
    train, test = ratings[::2], ratings[1::2]
    common = {"n_epochs": 20, "batch_size": 20, "calibrate": False, "weight_decay": 20.0}
    model = small(3, 3, **(common | switch)).fit(train)
    found = model.predict_proba(test["user"], test["item"])
    return model, orbm.evaluate.score(found, test["rating"].to_numpy(float), LABELS)


@pytest.mark.parametrize(
    "switch",
    [
        {"solver": "sgd", "learning_rate": 0.03},
        {"priors": "none"},
        {"thresholds": "even"},
        {"centred": False},
        {"schedule": "constant"},
    ],
    ids=lambda switch: next(iter(switch)),
)
def test_what_is_added_to_the_paper_can_be_switched_off(switch):
    """Each form still learns, and is another than the one with everything."""
    (_, plain), (model, switched) = learnt_and_scored(), learnt_and_scored(**switch)
    assert switched["nll"] != plain["nll"]
    assert switched["nll"] < plain["nll"] + 0.1
    # fold_in needs precisions also where nothing had a prior.
    new = (["x", "x"], model.items_.labels[:2], [1, 5])
    assert np.isfinite(model.fold_in(new).predict_proba("x", model.items_.labels[5])).all()


def test_plain_steps_follow_the_mean_gradient():
    """A step of stochastic gradient is the rate times the mean over a column's answers."""
    rng = np.random.default_rng(0)
    n_columns, n_factors = 3, 2
    half = start(Observations.from_dense(rng.integers(0, 3, (8, n_columns)), 3), n_factors, 1, 0).by_rows
    answers = np.full(n_columns, 4.0, dtype=np.float32)
    shapes = (half.weights.shape, half.bias.shape, (n_columns, 6), half.factor_bias.shape)
    clamped, free = (
        Statistics(*(rng.normal(size=shape).astype(np.float32) for shape in shapes), answers)
        for _ in range(2)
    )
    sums = Half(*(np.full_like(part, 16.0) for part in half))
    priors = Priors(0.0, 0.0, 0.0, 0.0, np.zeros_like(half.cutpoints))
    moved = Half(*(part.copy() for part in half))
    ascend(moved, sums, clamped, free, np.full(n_columns, 8), priors, Steps(0.1, 0.0, 0.0))
    np.testing.assert_allclose(
        moved.weights - half.weights, 0.1 * (clamped.weights - free.weights) / 4.0, atol=1e-6
    )
    np.testing.assert_allclose(moved.bias - half.bias, 0.1 * (clamped.bias - free.bias) / 4, atol=1e-6)
    assert all((part == 16.0).all() for part in (sums.weights, sums.bias))


# ---- what was held out is learnt from in the end ------------------------------------------------


def without_some(ratings, share=0.2, seed=1):
    chosen = np.random.default_rng(seed).random(len(ratings)) < share
    return ratings[~chosen], ratings[chosen]


@pytest.mark.parametrize("refit", ["held-out", "all", "none"])
def test_which_validation_ratings_are_learnt_from(refit, ratings, monkeypatch):
    """The last epochs see all ratings, those held out, or those given as well."""
    seen, epoch = [], variational_learner.epoch

    def counting(data, *others):
        seen.append(data.rows.answers.n_entries)
        return epoch(data, *others)

    monkeypatch.setattr(variational_learner, "epoch", counting)
    train, given = without_some(ratings)
    make = MODELS["ordinal"]
    make(n_epochs=2, refit=refit, validation_fraction=0.1).fit(train)
    assert seen[0] < 0.95 * len(train)
    assert (seen[-1] == len(train)) == (refit != "none")
    del seen[:]
    make(n_epochs=2, refit=refit).fit(train, given)
    assert seen[0] == len(train)
    assert (seen[-1] == len(ratings)) == (refit == "all")


def test_sampling_learns_from_given_ratings_if_told_so(ratings):
    train, given = without_some(ratings)
    make = MODELS["sampled"]
    alone, both, whole = (
        make(refit="held-out").fit(train, given),
        make(refit="all").fit(train, given),
        make().fit(ratings),
    )
    errors = [
        -np.log(
            model.predict_proba(given["user"], given["item"])[
                np.arange(len(given)), given["rating"].to_numpy() - 1
            ]
        ).mean()
        for model in (alone, both, whole)
    ]
    assert errors[1] < errors[0] - 0.02  # what was learnt from is known
    assert abs(errors[1] - errors[2]) < 0.5 * (errors[0] - errors[1])


def test_ctrl_c_in_the_last_epochs_gives_the_best_before(ratings, monkeypatch, capsys):
    before = MODELS["ordinal"](n_epochs=3, refit="none").fit(ratings)
    epoch, calls = variational_learner.epoch, []

    def impatient(data, state, *others):
        calls.append(1)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return epoch(data, state, *others)

    monkeypatch.setattr(variational_learner, "epoch", impatient)
    model = MODELS["ordinal"](n_epochs=3).fit(ratings)
    assert "learning was stopped" in capsys.readouterr().err
    assert_same_models(model, before)
