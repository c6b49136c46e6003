"""What the loop of learning tells beside its progress bar."""

import logging

import numpy as np
import pytest

import ordinalrbm as orbm


def test_every_epoch_is_logged(caplog):
    users, items = np.divmod(np.arange(60), 6)
    with caplog.at_level(logging.INFO, logger="ordinalrbm"):
        model = orbm.OrdinalMF(2, n_epochs=3, random_state=0).fit((users, items, 1 + items % 3))
    told = [line.getMessage() for line in caplog.records if line.name.endswith("loop")]
    values = model.history_["validation"]
    assert told == [f"epoch {k + 1} of at most 3, validation {value:.4f}" for k, value in enumerate(values)]


USERS, ITEMS = np.divmod(np.arange(240), 12)
RATINGS = (USERS, ITEMS, 1 + (USERS * ITEMS) % 4)
GIVEN = {"n_epochs": 6, "demand_factors": 0, "random_state": 0}
SURVEY = np.random.default_rng(0).integers(1, 4, (60, 5))
FITS = {
    "survey": (lambda: orbm.CumulativeRBM.binary(2, n_epochs=6, random_state=0), SURVEY),
    "ordinal": (lambda: orbm.OrdinalMF(2, patience=9, **GIVEN), RATINGS),
    "sampled": (lambda: orbm.OrdinalMF(2, posterior="sampled", n_draws=2, **GIVEN), RATINGS),
    "binary": (lambda: orbm.MatrixCumulativeRBM(2, 2, **GIVEN), RATINGS),
    "multinomial": (lambda: orbm.MultinomialRBM(2, **GIVEN), RATINGS),
}


@pytest.mark.filterwarnings("ignore:The chain has not mixed")
@pytest.mark.parametrize("name", FITS)
def test_a_callback_sees_every_epoch_and_changes_nothing(name):
    make, data = FITS[name]
    seen = []
    watched, alone = make().fit(data, callback=seen.append), make().fit(data)
    assert [line.epoch for line in seen] == watched.history_["epoch"].tolist()
    np.testing.assert_array_equal([line.validation for line in seen], watched.history_["validation"])
    np.testing.assert_array_equal(watched.history_["validation"], alone.history_["validation"])
    assert all(line.seconds >= 0 for line in seen)
    if "learning_rate" in watched.history_:
        assert [line.learning_rate for line in seen] == watched.history_["learning_rate"].tolist()


@pytest.mark.filterwarnings("ignore:The chain has not mixed")
@pytest.mark.parametrize("n_epochs", [1, 4])
@pytest.mark.parametrize("name", FITS)
def test_a_callback_stops_learning_quietly(name, n_epochs, capsys):
    make, data = FITS[name]
    model = make().fit(data, callback=lambda line: line.epoch == n_epochs)
    assert model.n_iter_ == n_epochs and 1 <= model.best_epoch_ <= n_epochs
    assert "stopped" not in capsys.readouterr().err


def test_what_a_callback_raises_comes_through():
    make, data = FITS["survey"]
    with pytest.raises(ZeroDivisionError):
        make().fit(data, callback=lambda line: 1 / 0)
    with pytest.raises(orbm.DataError, match="must be a function"):
        make().fit(data, callback="print")
