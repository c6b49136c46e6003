"""What all three baselines have to pass: known answers, odd tables, threads."""

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from made_up_ratings import column_shares, mean_log, ratings

from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix.baselines import gaussian_mf, multinomial_rbm, ordinal_mf

MIXED = (5, 3, 2)


class Baseline(NamedTuple):
    """One of the three, with the same way to call them."""

    module: Any
    posterior: str | None = None

    def fit(self, table, validation=None, n_epochs=8, **settings):
        if self.posterior:
            settings["posterior"] = self.posterior
        if self.module is multinomial_rbm:
            settings = {"batch_size": 32, "learning_rate": 0.01, **settings}
        chosen = self.module.Settings(**{"n_factors": 3, "n_epochs": n_epochs, **settings})
        values = ()
        if self.module is gaussian_mf:
            values = (np.arange(1.0, 1.0 + table.n_levels.max()),)
        return self.module.fit(table, *values, validation=validation, settings=chosen)

    def predict(self, model, rows, columns):
        return self.module.predict_proba(model, rows, columns)

    def with_new_rows(self, model, table):
        new = self.module.fold_in_rows(model, table)
        if self.module is gaussian_mf:
            return model._replace(rows=new)
        if self.module is multinomial_rbm:
            return model._replace(factors=new)
        return model._replace(rows=new[0], row_gaps=new[1])


BASELINES = {
    "gaussian": Baseline(gaussian_mf, "variational"),
    "gaussian point": Baseline(gaussian_mf, "point"),
    "ordinal": Baseline(ordinal_mf, "variational"),
    "ordinal point": Baseline(ordinal_mf, "point"),
    "multinomial": Baseline(multinomial_rbm),
}
every_baseline = pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())


def numbers(model):
    """All arrays and numbers of a model, one after the other."""
    for part in model:
        if isinstance(part, tuple):
            yield from numbers(part)
        elif not isinstance(part, str):
            yield np.asarray(part)


def assert_same_bits(one, two):
    for a, b in zip(numbers(one), numbers(two), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_distributions(distribution, n_levels):
    """Each adds up to one, on the levels that there are."""
    assert np.isfinite(distribution).all()
    assert (distribution >= 0).all()
    np.testing.assert_allclose(distribution.sum(axis=1), 1.0, atol=1e-6)
    assert not distribution[np.arange(distribution.shape[1]) >= np.asarray(n_levels)[:, None]].any()


@every_baseline
def test_predicts_better_than_the_shares_of_the_columns(baseline):
    data = ratings(300, 80, (5,))
    # The strengths that are fixed for a point are those for many factors.
    settings = {"factor_precision": 2.0} if baseline.posterior == "point" else {}
    epochs = 30 if baseline.module is multinomial_rbm else 15
    model, history = baseline.fit(data.train, data.validation, n_epochs=epochs, **settings)
    ours = baseline.predict(model, data.test.row, data.test.column)
    theirs = column_shares(data.train, data.test.column)
    levels = np.arange(5)
    errors = [np.sqrt(np.mean((p @ levels - data.test.level) ** 2)) for p in (ours, theirs)]
    assert errors[0] < 0.92 * errors[1]
    # Levels of unequal width are nothing that a Gaussian could know of.
    gain = 0.08 if baseline.module is not gaussian_mf else 0.0
    assert mean_log(ours, data.test.level) > mean_log(theirs, data.test.level) + gain
    best = max(record.validation for record in history)
    watched = baseline.predict(model, data.validation.row, data.validation.column)
    assert mean_log(watched, data.validation.level) == pytest.approx(best, abs=1e-6)


@every_baseline
def test_scales_of_several_lengths(baseline):
    data = ratings(60, 30, MIXED)
    model, _ = baseline.fit(data.train)
    got = baseline.predict(model, data.test.row, data.test.column)
    assert_distributions(got, data.train.n_levels[data.test.column])


@every_baseline
def test_rows_and_columns_that_nobody_has_seen(baseline):
    data = ratings(200, 60, (5,))
    model, _ = baseline.fit(data.train, n_epochs=15)
    columns = np.arange(60)
    unknown_row = baseline.predict(model, np.full(60, -1), columns)
    unknown_column = baseline.predict(model, np.arange(200), np.full(200, -1))
    nothing = baseline.predict(model, [-1], [-1])
    for got in (unknown_row, unknown_column, nothing):
        assert_distributions(got, np.full(len(got), 5))
    # Columns and rows differ, and what is known about them is used.
    levels, own = np.arange(5), column_shares(data.train, columns)
    assert np.corrcoef(unknown_row @ levels, own @ levels)[0, 1] > 0.9
    dense = data.train.to_dense()
    row_means = np.array([line[line >= 0].mean() for line in dense])
    assert np.corrcoef(unknown_column @ levels, row_means)[0, 1] > 0.25
    overall = np.bincount(data.train.level, minlength=5) / data.train.n_entries
    assert np.abs(nothing[0] - overall).sum() < 0.5


@every_baseline
def test_new_rows_without_learning_again(baseline):
    data = ratings(240, 60, (5,))
    old, new = np.arange(200), np.arange(200, 240)
    model, _ = baseline.fit(data.train.take_rows(old), n_epochs=25)
    model = baseline.with_new_rows(model, data.train.take_rows(new))
    here = data.test.row >= 200
    rows, columns, levels = (part[here] for part in data.test)
    ours = baseline.predict(model, rows - 200, columns)
    unknown = baseline.predict(model, np.full(len(rows), -1), columns)
    assert mean_log(ours, levels) > mean_log(unknown, levels) + 0.01


@every_baseline
def test_rows_and_columns_of_one_answer_or_none(baseline):
    levels = np.full((6, 5), -1)
    levels[0, 0], levels[1, :3], levels[2, 3] = 2, (0, 1, 2), 1  # row 3 to 5, column 4: nothing
    model, _ = baseline.fit(Observations.from_dense(levels, 3))
    rows, columns = (part.ravel() for part in np.indices((6, 5)))
    assert_distributions(baseline.predict(model, rows, columns), np.full(30, 3))


@every_baseline
def test_one_level_is_certain(baseline):
    model, _ = baseline.fit(Observations.from_dense(np.zeros((5, 4), dtype=int), 1))
    got = baseline.predict(model, [0, -1, -1], [1, 2, -1])
    np.testing.assert_allclose(got, 1.0)


@every_baseline
def test_a_level_that_nobody_chose(baseline):
    table = np.random.default_rng(0).choice([0, 1, 4], (30, 8))
    model, _ = baseline.fit(Observations.from_dense(table, 5))
    got = baseline.predict(model, np.arange(8), np.arange(8))
    assert_distributions(got, np.full(8, 5))


@every_baseline
def test_same_bits_on_one_thread_and_on_two(baseline):
    data = ratings(70, 30, MIXED)
    before = numba.get_num_threads()
    fits = []
    try:
        for threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(threads)
            model, _ = baseline.fit(data.train, data.validation, n_epochs=4)
            fits.append(baseline.with_new_rows(model, data.train.take_rows([3, 1, 4])))
    finally:
        numba.set_num_threads(before)
    assert_same_bits(*fits)


@every_baseline
def test_same_seed_same_model(baseline):
    table = ratings(40, 20, MIXED).train
    first = baseline.fit(table, n_epochs=3, seed=7)[0]
    assert_same_bits(first, baseline.fit(table, n_epochs=3, seed=7)[0])
    other = baseline.fit(table, n_epochs=3, seed=8)[0]
    assert any((a != b).any() for a, b in zip(numbers(first), numbers(other), strict=True))


@every_baseline
def test_a_progress_bar_when_asked_for(baseline, capsys):
    data = ratings(20, 10, (3,))
    values = ([1.0, 2.0, 3.0],) if baseline.module is gaussian_mf else ()
    settings = baseline.module.Settings(n_factors=2, n_epochs=2)
    for verbose in (False, True):
        baseline.module.fit(data.train, *values, settings=settings, verbose=verbose)
        assert ("learning" in capsys.readouterr().err) == verbose
