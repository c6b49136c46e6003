"""The learning rate over the epochs: how many there are, when it falls, which epoch is best."""

import numpy as np
import pytest

from ordinalrbm.training.schedule import Schedule


def run(values, *, n_epochs, patience=3, fall=0.4):
    """The schedule after learning, its rates, and which epochs it called the best so far."""
    schedule = Schedule(2.0, n_epochs=n_epochs, patience=patience, fall=fall)
    rates, best = [], []
    while (rate := schedule.rate()) > 0.0:
        rates.append(rate)
        if schedule.after(values(len(rates))):
            best.append(len(rates))
    return schedule, np.array(rates), best


@pytest.mark.parametrize("fall", [0.4, 0.5, 1.0])
@pytest.mark.parametrize("n_epochs", [1, 2, 3, 5, 40])
def test_while_it_gets_better_all_epochs_are_learnt(n_epochs, fall):
    schedule, rates, best = run(float, n_epochs=n_epochs, fall=fall)
    assert rates.size == n_epochs
    assert rates[0] == 2.0
    assert (np.diff(rates) <= 0).all()
    assert np.count_nonzero(rates < 2.0) == max(1, round(fall * n_epochs)) - 1
    assert best == list(range(1, n_epochs + 1))
    assert schedule.best_epoch == n_epochs


def test_a_plateau_begins_the_fall():
    peak = 6
    schedule, rates, best = run(lambda epoch: -abs(epoch - peak), n_epochs=50)
    full, length = peak + 3, 20
    assert rates.size == full + length
    np.testing.assert_allclose(rates[:full], 2.0)
    np.testing.assert_allclose(rates[full:], 1.0 + np.cos(np.pi * np.arange(length) / length))
    assert best == [1, 2, 3, 4, 5, 6]
    assert schedule.best_epoch == peak


def test_of_equal_epochs_the_first_is_the_best():
    schedule, _, best = run(lambda _: -1.5, n_epochs=10)
    assert best == [1]
    assert schedule.best_epoch == 1


def test_with_nothing_held_out_the_last_epoch_is_the_best():
    schedule, rates, best = run(lambda _: np.nan, n_epochs=10, patience=1)
    assert rates.size == 10
    assert best == list(range(1, 11))
    assert schedule.best_epoch == 10
