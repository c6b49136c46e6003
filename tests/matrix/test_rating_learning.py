"""Learning from rating matrices: that it learns, odd data, seeds, threads, interruption."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from small_matrices import LABELS, assert_same_models, for_both, halves, simulated, small

import ordinalrbm as orbm
from ordinalrbm.matrix import binary_learner, gaussian_learner, prepare


@pytest.fixture(scope="module")
def ratings():
    return simulated()


def root_mean_square(predicted, truth):
    return float(np.sqrt(np.mean((np.asarray(predicted) - truth) ** 2)))


@for_both
@pytest.mark.parametrize("n_item_factors", [4, 0])
def test_learning_beats_the_means_of_the_items(n_item_factors, factors):
    ratings = simulated(300, 60, density=0.5)
    train, test = halves(ratings)
    model = small(8, n_item_factors, n_epochs=15, factors=factors).fit(train)
    means = test["item"].map(train.groupby("item")["rating"].mean())
    error = root_mean_square(model.predict(test["user"], test["item"]), test["rating"])
    assert error < 0.85 * root_mean_square(means, test["rating"])
    assert model.item_factors_.shape == (60, n_item_factors)
    assert model.user_factors_.shape == (300, 8)


def test_binary_factors_are_probabilities(ratings):
    model = small(factors="binary").fit(ratings)
    for factors in (model.user_factors_, model.item_factors_):
        assert factors.min() >= 0
        assert factors.max() <= 1
        assert factors.std(axis=0).min() > 1e-3


@pytest.mark.parametrize("n_item_factors", [4, 0])
def test_continuous_factors_have_a_mean_square_of_one(ratings, n_item_factors):
    model = small(4, n_item_factors).fit(ratings)
    for half in model.model_[:2]:
        used = half.factors.any(axis=0)  # the others are more than the ratings can tell
        size = np.mean(half.factors**2 + half.factors_variance, axis=0)
        np.testing.assert_allclose(size, np.where(used, 1.0, 0.0), rtol=1e-4)
        np.testing.assert_allclose(half.factors.mean(axis=0), 0.0, atol=0.3)
        assert ((half.weights_variance > 0) == used).all()
    assert model.model_.by_rows.factors.any(axis=0).sum() >= 2
    if not n_item_factors:
        np.testing.assert_array_equal(model.model_.by_columns.bias, 0.0)
        np.testing.assert_array_equal(model.model_.by_columns.cutpoints, 0.0)


def test_continuous_factors_stop_by_themselves(ratings):
    model = small(n_epochs=200).fit(ratings)
    assert model.n_iter_ < 100
    values = model.history_["validation"].to_numpy()
    assert model.best_epoch_ == values.argmax() + 1
    assert model.n_iter_ <= model.best_epoch_ + 2


def test_continuous_factors_are_the_better_ones():
    """Tastes are matters of degree in these ratings."""
    train, test = halves(simulated(300, 60, density=0.5))
    errors = {}
    for factors in ("continuous", "binary"):
        model = small(4, 4, factors=factors, n_epochs=15).fit(train)
        errors[factors] = root_mean_square(
            model.predict(test["user"], test["item"]), test["rating"]
        )
    assert errors["continuous"] < errors["binary"]


def test_the_papers_procedure_has_binary_factors(ratings):
    model = orbm.MatrixCumulativeRBM.paper(3, 2, n_epochs=4, random_state=0)
    assert model.factors == "binary"
    assert (model.n_user_factors, model.n_item_factors, model.n_epochs) == (3, 2, 4)
    model.fit(ratings)
    assert not model.model_.is_continuous
    np.testing.assert_array_equal(model.model_.gains, 1.0)  # nothing is calibrated
    assert model.user_factors_.shape == (120, 3)
    assert model.user_factors_.min() >= 0
    assert model.user_factors_.max() <= 1
    assert (model.history_["row_decay"] == 50.0).all()
    assert np.isfinite(model.predict("u1", "i1")).all()
    assert_same_models(clone(model).fit(ratings), model)


@for_both
def test_every_container_gives_the_same_model(ratings, factors):
    numbers = ratings.assign(
        user=ratings["user"].str[1:].astype(int), item=ratings["item"].str[1:].astype(int)
    )
    model = small(factors=factors).fit(numbers)
    arrays = (numbers["user"].to_numpy(), numbers["item"].to_numpy(), numbers["rating"].to_numpy())
    assert_same_models(small(factors=factors).fit(arrays), model)
    matrix = sparse.coo_array((arrays[2], arrays[:2]), shape=(120, 50))
    assert_same_models(small(factors=factors).fit(matrix.tocsr()), model)
    shuffled = numbers.sample(frac=1, random_state=0)
    assert_same_models(small(factors=factors).fit(shuffled), model)


@for_both
def test_the_seed_decides_the_model(ratings, factors):
    model = small(factors=factors).fit(ratings)
    assert_same_models(small(factors=factors).fit(ratings), model)
    assert_same_models(clone(model).fit(ratings), model)
    other = small(random_state=1, factors=factors).fit(ratings)
    assert (other.model_.by_rows.weights != model.model_.by_rows.weights).any()


_FIT = """
import hashlib, sys
sys.path.insert(0, {folder!r})
from small_matrices import FACTORS, simulated, small
for factors in FACTORS:
    model = small(factors=factors).fit(simulated())
    wider = model.fold_in((["x", "x"], ["i1", "j"], [1, 5]))
    digest = hashlib.sha256()
    for array in (*wider.model_[0], *wider.model_[1], model.model_.gains):
        digest.update(array.tobytes())
    best = model.recommend("all", n=3)
    digest.update(best["score"].to_numpy().tobytes())
    digest.update(model.explain("u3", "i7").ratings["effect"].to_numpy().tobytes())
    print(digest.hexdigest())
"""


def test_threads_do_not_change_a_bit(ratings):
    found = set()
    code = _FIT.format(folder=os.path.dirname(__file__))
    for threads in ("1", "2", "4"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(run.stdout.strip())
    assert len(found) == 1
    digests = found.pop().split()
    assert len(set(digests)) == 3
    assert all(len(digest) == len(hashlib.sha256().hexdigest()) for digest in digests)


@for_both
def test_the_data_are_not_changed(ratings, factors):
    before = ratings.copy()
    small(factors=factors).fit(ratings).recommend("u1")
    pd.testing.assert_frame_equal(ratings, before)


@for_both
def test_users_and_items_are_shuffled_and_put_back(ratings, monkeypatch, factors):
    """Batches are neighbours; ids are not in the order of the learner's rows."""
    seen = []
    learner = gaussian_learner if factors == "continuous" else binary_learner
    learn = learner.fit

    def spy(observations, *args):
        seen.append(observations)
        return learn(observations, *args)

    monkeypatch.setattr(learner, "fit", spy)
    model = small(validation_fraction=0, factors=factors).fit(ratings)
    counts = np.diff(seen[0].row_start)
    known = np.diff(model.ratings_.observations.row_start)
    assert (counts != known).any()
    assert sorted(counts) == sorted(known)
    # Not on one item: even the true utilities of i0 have a correlation of only 0.4 with the means.
    users, items = model.users_.labels, model.items_.labels
    table = model.predict(np.repeat(users, items.size), np.tile(items, users.size))
    table = table.reshape(users.size, items.size)
    mild = ratings.groupby("user")["rating"].mean().loc[users]
    good = ratings.groupby("item")["rating"].mean().loc[items]
    assert np.corrcoef(table.mean(axis=1), mild)[0, 1] > 0.9
    assert np.corrcoef(table.mean(axis=0), good)[0, 1] > 0.9


# Validation


@for_both
def test_validation_ratings_are_used_as_given(ratings, factors):
    train, rest = halves(ratings)
    cold = pd.DataFrame({"user": ["new"], "item": ["i1"], "rating": [5]})
    model = small(n_epochs=3, factors=factors).fit(train, pd.concat([rest, cold]))
    assert model.n_iter_ == len(model.history_) == (6 if factors == "mixed" else 3)
    assert model.history_["validation"].notna().all()
    assert model.best_epoch_ in model.history_["epoch"].tolist()
    assert "new" not in model.users_.labels
    assert model.ratings_.n_ratings == len(train)


@for_both
def test_without_validation_all_epochs_are_learnt(ratings, factors):
    model = small(validation_fraction=0, n_epochs=3, factors=factors).fit(ratings)
    assert model.history_["validation"].isna().all()
    assert model.history_["epoch"].max() == model.best_epoch_ == 3
    np.testing.assert_array_equal(model.model_.gains, 1.0)


def test_nobody_loses_all_ratings_to_validation():
    known = orbm.data.ratings.read_ratings(simulated(density=0.05))
    data = prepare.prepare(known, None, 0.45, seed=0)
    assert data.validation.row.size > 50
    assert data.validation.row.min() >= 0
    assert data.validation.column.min() >= 0
    assert (data.row_position >= 0).sum() == np.count_nonzero(np.diff(known.observations.row_start))
    assert data.observations.n_entries + data.validation.row.size == known.n_ratings
    # Each held-out rating is where the learner expects it.
    dense = known.observations.to_dense()
    users, items = np.argsort(data.row_position), np.argsort(data.column_position)
    skipped = (data.row_position < 0).sum(), (data.column_position < 0).sum()
    user = users[skipped[0] :][data.validation.row]
    item = items[skipped[1] :][data.validation.column]
    np.testing.assert_array_equal(dense[user, item], data.validation.level)


# Odd data


@for_both
def test_a_user_and_an_item_with_a_single_rating(ratings, factors):
    more = pd.DataFrame({"user": ["once", "u1"], "item": ["i1", "rare"], "rating": [1, 5]})
    model = small(factors=factors).fit(pd.concat([ratings, more]))
    p = model.predict_proba(["once", "u1", "once"], ["i2", "rare", "rare"])
    assert np.isfinite(p).all()
    assert len(model.recommend("once", n=60)) == 50  # all 51 items but the one seen


@for_both
def test_users_and_items_without_ratings_are_strangers(ratings, factors):
    row, column = (ratings[name].str[1:].astype(int) for name in ("user", "item"))
    matrix = sparse.coo_array((ratings["rating"], (row, column)), shape=(130, 55))
    model = small(factors=factors).fit(matrix)
    assert model.user_factors_.shape[0] == 130
    items = np.arange(50)
    np.testing.assert_allclose(model.predict(125, items), model.predict(-1, items), rtol=2e-2)
    np.testing.assert_allclose(model.predict([3, 4], 52), model.predict([3, 4], 99), rtol=2e-2)
    assert 125 in model.recommend("all", n=1)["user"].tolist()


@for_both
def test_a_single_user_and_a_single_rating(factors):
    one = pd.DataFrame({"user": [1, 1, 1], "item": [1, 2, 3], "rating": [1, 2, 2]})
    assert small(factors=factors).fit(one).predict(1, [1, 2]).shape == (2,)
    alone = small(scale=[1, 2, 3], factors=factors).fit(one[:1])
    assert alone.predict_proba(1, [1, 5]).shape == (2, 3)


@for_both
def test_ratings_that_are_all_equal_say_nothing(factors):
    frame = pd.DataFrame({"user": [1, 2], "item": [1, 1], "rating": [4, 4]})
    with pytest.warns(UserWarning, match="From 2 of 2 ratings nothing can be learnt"):
        model = small(factors=factors).fit(frame)
    np.testing.assert_array_equal(model.predict_proba([1, 5], [1, 7]), [[1.0], [1.0]])
    assert model.predict(1, 1, rule="mode").tolist() == [4]
    assert model.n_iter_ == 0
    assert model.recommend(1, exclude_seen=False)["score"].tolist() == [4.0]


@for_both
def test_an_item_with_one_level_is_left_out_of_learning(ratings, factors):
    dull = pd.DataFrame({"user": ["u1", "u2"], "item": "dull", "rating": 3})
    model = small(item_scales={"dull": [3]}, scale=list(LABELS), factors=factors)
    with pytest.warns(UserWarning, match=r"From 2 of [\d,]+ ratings nothing can be learnt"):
        with_dull = model.fit(pd.concat([ratings, dull]))
    assert with_dull.predict_proba("u1", "dull")[0].tolist() == [1, 0, 0, 0, 0]
    assert with_dull.predict("u1", "dull", rule="mode")[0] == 3


# Interruption


def test_an_interrupted_fit_of_binary_factors_keeps_the_best_so_far(ratings, monkeypatch, capsys):
    epoch = binary_learner._Learner.epoch

    def impatient(self):
        if len(self.history) == 2:
            raise KeyboardInterrupt
        epoch(self)

    monkeypatch.setattr(binary_learner._Learner, "epoch", impatient)
    model = small(factors="binary").fit(ratings)
    assert model.n_iter_ == 2
    assert "learning was stopped after epoch 2" in capsys.readouterr().err
    assert np.isfinite(model.predict("u1", "i1")).all()
    monkeypatch.setattr(
        binary_learner._Learner, "epoch", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        small(factors="binary").fit(ratings)


def test_an_interrupted_fit_of_continuous_factors_keeps_the_best_so_far(
    ratings, monkeypatch, capsys
):
    """An epoch works in place: what it has begun when Ctrl-C comes must not be seen."""
    whole = small(n_epochs=2).fit(ratings)
    assert whole.best_epoch_ == 2
    epoch, calls = gaussian_learner.epoch, []

    def impatient(data, parties, number):
        calls.append(1)
        if len(calls) > 2:
            for array in (*parties.rows, *parties.columns):
                array.fill(-1)
            raise KeyboardInterrupt
        return epoch(data, parties, number)

    monkeypatch.setattr(gaussian_learner, "epoch", impatient)
    model = small().fit(ratings)
    assert model.n_iter_ == 2
    assert "learning was stopped after epoch 2" in capsys.readouterr().err
    assert_same_models(model, whole)
    with pytest.raises(KeyboardInterrupt):
        small().fit(ratings)  # nothing was learnt yet
