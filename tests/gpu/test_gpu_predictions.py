"""Predictions, new users and items on the GPU against those of the cores."""

import contextlib
import copy
import json
import pickle
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from small_matrices import random_model, simulated
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm import cli
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix import update
from ordinalrbm.matrix.cpu import CPU
from ordinalrbm.matrix.feature_priors import NO_TABLES
from ordinalrbm.matrix.gpu import fold_in, predict
from ordinalrbm.matrix.gpu.backend import Cuda
from ordinalrbm.matrix.model import Precisions
from ordinalrbm.matrix.predict import probabilities

# Of both kinds of factors; unknown users and items are asked for in all.
BINARY = {"n_epochs": 2, "batch_size": 6}
KINDS = {
    "three scales, binary": orbm.MatrixCumulativeRBM(3, 2, **BINARY),
    "three scales": orbm.OrdinalMF(5, n_epochs=2),
    "no item factors": orbm.MatrixCumulativeRBM(3, 0, **BINARY),
    "points": orbm.OrdinalMF(3, n_epochs=2, posterior="point"),
}


@pytest.fixture(scope="module", params=KINDS)
def both(request):
    """A model that was learnt on the cores, as it is and on the GPU."""
    model, ratings, scales = KINDS[request.param], simulated(12, 8, density=0.5), None
    if request.param.startswith("three scales"):
        scales = {"i1": [1, 2, 3, 4, 5, 6, 7], "i2": [1, 5]}
        ratings = ratings[(ratings["item"] != "i2") | ratings["rating"].isin([1, 5])]
    model = clone(model).set_params(item_scales=scales, random_state=0).fit(ratings)
    return model, copy.copy(model).set_params(device="cuda")


def every_pair(model):
    """All pairs, also with unknown users and items."""
    users, items = [*model.users_.labels, "nobody"], [*model.items_.labels, "nothing"]
    return [part.ravel() for part in np.meshgrid(users, items, indexing="ij")]


def test_distributions(both):
    truth, there = (model.predict_proba(*every_pair(model)) for model in both)
    np.testing.assert_allclose(there, truth, atol=1e-7)
    assert np.abs(truth - truth.mean(axis=0)).max() > 0.05  # they differ, so that this can fail


def test_predicted_ratings(both):
    truth, there = (model.predict(*every_pair(model), rule="mean") for model in both)
    np.testing.assert_allclose(there, truth, atol=1e-5)


def test_new_users_and_items(both, monkeypatch):
    monkeypatch.setattr(update, "MOST_SWEEPS", 2)  # or points go on until nothing moves
    new_ratings = pd.DataFrame(
        {
            "user": ["x", "x", "x", "y", "u1", "u2"],
            "item": ["i1", "i2", "fresh", "i6", "fresh", "fresh"],
            "rating": [5, 1, 4, 2, 5, 5],
        }
    )
    truth, there = (model.fold_in(new_ratings) for model in both)
    assert there.device == "cuda"
    for one, other in zip(there.models_, truth.models_, strict=True):
        for half, true_half in zip(one[:2], other[:2], strict=True):
            for name, a, b in zip(half._fields, half, true_half, strict=True):
                np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    found, expected = (model.predict_proba("x", ["i7", "fresh", "none"]) for model in (there, truth))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_many_new_users_in_blocks(monkeypatch):
    """With binary factors their systems come in blocks of rows; long rows have several pieces."""
    rng = np.random.default_rng(0)
    n_levels = np.full(300, 5)
    model = random_model(n_levels, 6, 3, 2, first=-1.0)
    dense = rng.integers(0, 5, (3, 300))
    dense[rng.random(dense.shape) < 0.1] = -1
    dense[1], dense[2, 1:] = -1, -1  # one has no ratings, and one has one
    dense = np.vstack([np.full((6, 300), -1), dense])
    model = model.with_priors(*2 * (Precisions(4.0, 2.0, 10.0),))
    answers = Observations.from_dense(dense, n_levels)
    given = (answers.take_rows(np.arange(6)), answers, NO_TABLES)
    truth = model.with_newcomers(*given, CPU)
    monkeypatch.setattr(fold_in, "_SYSTEMS_BYTES", 1)
    found = model.with_newcomers(*given, Cuda("cuda"))
    for half, true_half in zip(found[:2], truth[:2], strict=True):
        for name, a, b in zip(half._fields, half, true_half, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4, err_msg=name)


def test_parts_that_gains_and_shares_play():
    """Three models that weigh differently, one of them without factors of the columns."""
    models = [
        random_model([5, 3, 5, 2], 6, 3, 2, seed=0)._replace(gains=np.array([1.3, 0.8, 1.2])),
        random_model([5, 3, 5, 2], 6, 2, 2, seed=1),
        random_model([5, 3, 5, 2], 6, 40, 0, seed=2)._replace(gains=np.array([0.7, 1.0, 1.1])),
    ]
    models = [m._replace(share=s) for m, s in zip(models, (0.5, 0.2, 0.3), strict=True)]
    row, column = np.divmod(np.arange(24), 4)
    pairs = Cells(row, column, np.zeros(24, dtype=np.int8))
    there = predict.OnGpu([model.with_unknown() for model in models], "cuda")
    truth = probabilities(models, pairs)
    np.testing.assert_allclose(there.probabilities(pairs), truth, atol=1e-9)


# ---- models stay on the device ------------------------------------------------------------------


@pytest.fixture
def model():
    learnt = orbm.OrdinalMF(3, n_epochs=1, random_state=0).fit(simulated(8, 6, density=0.7))
    return learnt.set_params(device="cuda")


def test_pairs_in_blocks(model, monkeypatch):
    users, items = every_pair(model)
    found = model.predict_proba(users, items)
    monkeypatch.setattr(predict, "_CELLS_BYTES", 8 * 11 * 20)  # twenty pairs
    np.testing.assert_array_equal(model.predict_proba(users, items), found)


@pytest.fixture
def uploads(monkeypatch):
    """How often models were put on the device."""
    found, put = [], predict.OnGpu.__init__
    monkeypatch.setattr(predict.OnGpu, "__init__", lambda *given: found.append(given) or put(*given))
    return found


def test_models_go_to_the_device_once(model, uploads):
    for _ in range(2):
        model.predict_proba("u1", ["i1", "nothing"])
        model.predict("nobody", ["i1", "i2"])
    assert len(uploads) == 1
    wider = model.fold_in((["x"], ["i1"], [5]))
    assert wider.predict("x", "i2") > 1
    model.predict_proba("u1", "i1")
    assert len(uploads) == 2  # those of the wider model


def test_other_models_take_their_place(model, uploads):
    before = model.predict_proba("u1", "i1")
    columns = model.model_.columns
    mean = columns.mean.copy()
    mean[:, 0] += 9
    model.models_[0] = model.model_._replace(columns=columns._replace(mean=mean))
    assert model.predict_proba("u1", "i1")[0, -1] > before[0, -1] + 0.3
    model.set_params(device="cpu").fit(simulated(8, 6, density=0.7, seed=5))
    found = model.set_params(device="cuda").predict_proba("u1", "i1")
    np.testing.assert_allclose(found, model.set_params(device="cpu").predict_proba("u1", "i1"))
    assert len(uploads) == 3


def test_what_is_on_the_device_is_not_copied_nor_stored(model, tmp_path):
    users, items = model.users_.labels, model.items_.labels
    known = [
        part.ravel() for part in np.meshgrid(users, items, indexing="ij")
    ]  # which newcomers do not change
    found = model.predict_proba(*known)
    model.save(tmp_path / "a.orbm")
    loaded = orbm.load(tmp_path / "a.orbm")
    assert loaded.device == "cpu"
    for other in (
        pickle.loads(pickle.dumps(model)),
        copy.copy(model),
        copy.deepcopy(model),
        loaded.set_params(device="cuda"),
        model.fold_in((["x"], ["i1"], [5])),
    ):
        assert "_on_device" not in vars(other)
        np.testing.assert_allclose(other.predict_proba(*known), found, atol=1e-9)
    assert clone(model).get_params() == model.get_params()


def test_several_threads_predict_at_once(model):
    users, items = every_pair(model)
    truth = model.predict_proba(users, items)
    model.__dict__.pop("_on_device")
    found = {}

    def predict(number):
        with np.errstate(all="ignore"):  # which every thread has for itself
            found[number] = model.predict_proba(users, items)

    workers = [threading.Thread(target=predict, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 3
    for distribution in found.values():
        np.testing.assert_array_equal(distribution, truth)


# ---- the command line ---------------------------------------------------------------------------


def test_commands_take_a_device(model, tmp_path):
    pytest.importorskip("pyreadstat")  # which the command line imports
    model.save(tmp_path / "a.orbm")
    ratings = simulated(8, 6, density=0.7)
    ratings.to_csv(tmp_path / "ratings.csv", index=False)
    pd.DataFrame({"user": ["x"], "item": ["i1"], "rating": [5]}).to_csv(tmp_path / "new.csv", index=False)
    others = simulated(9, 7, density=0.7, seed=1)
    others[others["rating"].isin(ratings["rating"])].to_csv(tmp_path / "test.csv", index=False)
    commands = [
        ["predict", "a.orbm", "ratings.csv", "--out", "p.csv", "--rule", "mean"],
        ["evaluate", "a.orbm", "--data", "test.csv", "--json"],
    ]
    with contextlib.chdir(tmp_path):
        for command in commands:
            told = []
            for device in ("cpu", "cuda"):
                done = CliRunner().invoke(cli.app, [*command, "--device", device])
                assert done.exit_code == 0, done.output
                place = Path(command[command.index("--out") + 1]) if "--out" in command else None
                told.append(pd.read_csv(place) if place else json.loads(done.stdout)["model"])
            if isinstance(told[0], dict):
                assert told[1] == pytest.approx(told[0], abs=1e-5)
            else:
                pd.testing.assert_frame_equal(told[1], told[0], atol=1e-4)
