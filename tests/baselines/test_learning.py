"""Epochs, early stopping, the best epoch."""

import itertools

import numpy as np
import pytest
from ordinalrbm.matrix.baselines.learning import learn, log_probability

from ordinalrbm.data.observations import Cells

CELLS = Cells(np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.zeros(1, dtype=int))


def predicted(model, rows, columns):
    return np.array([[model, 1.0 - model]])


def learnt(probabilities, validation=CELLS, n_epochs=10, patience=2):
    return learn(iter(probabilities), validation, predicted, n_epochs, patience, verbose=False)


def test_the_best_epoch_is_kept():
    model, history = learnt([0.1, 0.5, 0.4, 0.3, 0.9])
    assert model == 0.5
    assert [record.epoch for record in history] == [1, 2, 3, 4]
    np.testing.assert_allclose([r.validation for r in history], np.log([0.1, 0.5, 0.4, 0.3]))
    seconds = [record.seconds for record in history]
    assert seconds == sorted(seconds)


def test_a_rise_that_is_hardly_one_is_kept_but_not_waited_for():
    model, history = learnt([0.5, 0.500001, 0.500002, 0.9])
    assert (model, len(history)) == (0.500002, 3)


def test_many_small_rises_are_one_large_one():
    assert learnt(0.5 + 0.00004 * np.arange(9), n_epochs=9)[0] == 0.5 + 0.00004 * 8


def test_without_validation_all_epochs_are_run():
    model, history = learnt(itertools.count(), validation=None, n_epochs=5)
    assert (model, len(history)) == (4, 5)
    assert np.isnan([record.validation for record in history]).all()


def test_an_interruption_gives_the_best_so_far():
    def interrupted(*models):
        yield from models
        raise KeyboardInterrupt

    assert learnt(interrupted(0.3, 0.2))[0] == 0.3
    with pytest.raises(KeyboardInterrupt):
        learnt(interrupted())


def test_no_epoch_is_refused():
    with pytest.raises(ValueError, match="n_epochs must be at least 1"):
        learnt([], n_epochs=0)


def test_an_impossible_level_does_not_cost_infinity():
    assert log_probability(predicted, 0.0, CELLS) == pytest.approx(np.log(1e-12))
