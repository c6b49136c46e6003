"""The learning rate over the epochs: how many there are, when it falls, which epoch is best."""

import numpy as np
import pytest

from ordinalrbm.training.schedule import EarlyStopping, Schedule


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


# Early stopping


def test_early_stopping_waits_for_what_is_worth_an_epoch():
    stopping = EarlyStopping(patience=2, worthwhile=0.1)
    found = [(stopping.after(value), stopping.is_over) for value in (-2, -1, -0.95, -1.5, -0.9)]
    # The third is the best so far, and not worth its epoch; nor is the fourth.
    assert found == [(True, False), (True, False), (True, False), (False, True), (True, False)]
    assert (stopping.best_epoch, stopping.best_value) == (5, -0.9)


def test_early_stopping_goes_on_where_it_was():
    values = np.random.default_rng(0).normal(size=30)
    for n in range(30):
        stopping, again = (EarlyStopping(patience=3, worthwhile=0.5) for _ in range(2))
        for value in values[:n]:
            stopping.after(value)
        again.replay(values[:n])
        assert vars(again) == vars(stopping)
