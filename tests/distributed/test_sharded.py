"""Rows and answers among several: what they do together is what one does with all of them.

The ranks are threads of this process here; tests/distributed has them as processes. What the
answers of a row tell its factors is rounded in another order when it comes from several ranks, so
that chains may part where a uniform number ties with its probability: none does in these.
"""

import threading

import numpy as np
import pytest
from random_sides import in_double, random_thresholds, side_of

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import gibbs, reference
from ordinalrbm.engine.sharded import difference_over_ranks, positions_by_columns, rows_of_rank
from ordinalrbm.engine.side import Batch, Statistics

N_ROWS, N_COLUMNS = 61, 40
BATCH = 8
SEED = 0x0123_4567_89AB_CDEF
PHASES = ("clamped_phase", "free_phase")


class Meeting:
    """Ranks that are threads: each brings an array, and all leave with the sum."""

    def __init__(self, size):
        self.size, self.brought = size, [None] * size
        self.barrier = threading.Barrier(size, timeout=60)

    def all_reduce(self, rank, *parts):
        self.brought[rank] = [part.copy() for part in parts]
        self.barrier.wait()
        for part, *others in zip(parts, *self.brought, strict=True):
            part[...] = sum(others[1:], start=others[0])
        self.barrier.wait()

    def found(self, work):
        """What ``work(rank, all_reduce)`` returns on each rank."""
        results = [None] * self.size

        def run(rank):
            try:
                results[rank] = work(rank, lambda *parts: self.all_reduce(rank, *parts))
            except BaseException:
                self.barrier.abort()
                raise

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


def observations():
    """Empty rows and columns, some with one answer, one row and one column with nearly all."""
    rng = np.random.default_rng(5)
    dense = rng.integers(0, 5, (N_ROWS, N_COLUMNS))
    dense[rng.random(dense.shape) < 0.8] = -1
    dense[3] = rng.integers(0, 5, N_COLUMNS)
    dense[:, 4] = rng.integers(0, 5, N_ROWS)
    dense[7], dense[:, 9] = -1, -1
    dense[8], dense[8, 0] = -1, 3
    dense[:, 10], dense[20, 10] = -1, 1
    return Observations.from_dense(dense, 5)


def parameters(n_columns, n_factors, seed=2):
    """Of the columns of a side."""
    rng = np.random.default_rng(seed)
    return {
        "weights": rng.normal(0, 0.4, (n_columns, n_factors)),
        "bias": rng.normal(0, 0.5, n_columns),
        "thresholds": random_thresholds(rng, np.full(n_columns, 5)),
        "factor_bias": rng.normal(0, 0.7, n_factors),
    }


def sides(rows, n_factors):
    """The side of some rows, and that of the columns with the answers of these rows."""
    seen = observations()
    part = seen.take_rows(rows)
    own_cutpoints = np.random.default_rng(3).uniform(0.3, 2.0, (N_ROWS, 7))
    row_side = side_of(part, row_gaps=own_cutpoints[rows], **parameters(N_COLUMNS, n_factors))
    given = parameters(N_ROWS, n_factors)
    given |= {name: given[name][rows] for name in ("weights", "bias", "thresholds")}
    transposed = part.transpose()
    column_side = side_of(transposed, offset=np.cos(7.0 * rows[transposed.column]), **given)
    position = positions_by_columns(seen.row_start, seen.column, rows)
    return (
        row_side._replace(row_number=rows),
        column_side._replace(position=position[part.column_view.entry]),
    )


def plain(side):
    return side._replace(row_number=np.zeros(0, np.int32), position=np.zeros(0, np.int32))


def chains(n_rows, n_factors):
    return np.random.default_rng(4).integers(0, 2, (n_rows, n_factors), dtype=np.uint8)


def error(one, other):
    return np.abs(one - other).max(initial=0.0) / np.abs(other).max(initial=1.0)


@pytest.mark.parametrize(("n_rows", "batch_size", "size"), [(61, 8, 4), (5, 3, 4), (7, 300, 2)])
def test_every_batch_is_shared_out(n_rows, batch_size, size):
    parts = [rows_of_rank(n_rows, batch_size, rank, size) for rank in range(size)]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n_rows))
    for first in range(0, n_rows - batch_size + 1, batch_size):
        shares = [np.sum((part >= first) & (part < first + batch_size)) for part in parts]
        assert max(shares) - min(shares) <= 1
    assert all(np.all(np.diff(part) > 0) for part in parts)


def test_positions_are_those_among_all_answers():
    seen = observations()
    rows = rows_of_rank(N_ROWS, BATCH, 1, 3)
    part = seen.take_rows(rows)
    found = positions_by_columns(seen.row_start, seen.column, rows)[part.column_view.entry]
    truth = [
        np.flatnonzero(np.isin(whole, rows[own]))
        for whole, own in zip(by_columns(seen), by_columns(part), strict=True)
    ]
    assert np.array_equal(found, np.concatenate(truth))


def by_columns(seen):
    view = seen.column_view
    return np.split(view.row, view.column_start[1:-1])


@pytest.mark.parametrize("engine", [gibbs, reference])
@pytest.mark.parametrize("phase", PHASES)
def test_numbers_that_are_the_places_change_nothing(engine, phase):
    for side in sides(np.arange(N_ROWS), 3):
        lengths = np.diff(side.row_start)
        numbered = side._replace(
            row_number=np.arange(side.n_rows, dtype=np.int32),
            position=np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]),
        )
        found = []
        for each in (plain(side), numbered):
            factors = chains(side.n_rows, 3)
            statistics = getattr(engine, phase)(each, factors, Batch(2, 37, SEED, 3, 2))
            found.append([factors, *statistics])
        for one, other in zip(*found, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("phase", PHASES)
def test_numbers_name_the_draws(phase):
    """Of rows and positions far apart, on both engines."""
    for side in sides(rows_of_rank(N_ROWS, BATCH, 0, 3), 3):
        rng = np.random.default_rng(6)
        numbered = side._replace(
            row_number=rng.permutation(1000)[: side.n_rows].astype(np.int32),
            position=rng.permutation(100_000)[: side.column.size].astype(np.int32),
        )
        ours, theirs, others = (chains(side.n_rows, 3) for _ in range(3))
        batch = Batch(0, side.n_rows, SEED, 3, 2)
        getattr(gibbs, phase)(numbered, ours, batch)
        getattr(reference, phase)(in_double(numbered), theirs, batch)
        getattr(gibbs, phase)(plain(side), others, batch)
        assert np.array_equal(ours, theirs)
        assert not np.array_equal(ours, others)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("phase", PHASES)
def test_rows_by_several(phase, size):
    """Rows have the chains of one process; their statistics add up to those of one."""
    whole, _ = sides(np.arange(N_ROWS), 3)
    truth = chains(N_ROWS, 3)
    expected = getattr(gibbs, phase)(plain(whole), truth, Batch(8, 24, SEED, 3, 2))
    total = []
    for rank in range(size):
        rows = rows_of_rank(N_ROWS, BATCH, rank, size)
        side, _ = sides(rows, 3)
        factors = chains(N_ROWS, 3)[rows]
        start, stop = np.searchsorted(rows, (8, 24)).tolist()
        total.append(getattr(gibbs, phase)(side, factors, Batch(start, stop, SEED, 3, 2)))
        assert np.array_equal(factors, truth[rows])
    for name, *parts in zip(Statistics._fields, *total, strict=True):
        assert error(sum(parts), getattr(expected, name)) < 1e-6, name


@pytest.mark.parametrize("engine", [gibbs, reference])
@pytest.mark.parametrize(("size", "n_factors"), [(1, 3), (2, 3), (4, 3), (2, 1), (4, 11)])
@pytest.mark.parametrize("phase", PHASES)
def test_columns_by_several(engine, phase, size, n_factors):
    """All ranks have the chains of one process; statistics are those of their rows."""
    _, whole = sides(np.arange(N_ROWS), n_factors)
    batch = Batch(2, 30, SEED, 3, 2)
    options = {"clamped_phase": 0.7, "free_phase": None}

    def run(side, all_reduce=None):
        factors = chains(N_COLUMNS, n_factors)
        mean = np.full(factors.shape, 0.3, np.float32)
        tracked = () if options[phase] is None else (mean, options[phase])
        statistics = getattr(engine, phase)(side, factors, batch, *tracked, all_reduce=all_reduce)
        return factors, mean, statistics

    truth, mean, expected = run(plain(whole))
    assert np.mean(truth != chains(N_COLUMNS, n_factors)) > 0.1  # the chains have moved

    def work(rank, all_reduce):
        return run(sides(rows_of_rank(N_ROWS, BATCH, rank, size), n_factors)[1], all_reduce)

    for rank, (factors, own_mean, statistics) in enumerate(Meeting(size).found(work)):
        rows = rows_of_rank(N_ROWS, BATCH, rank, size)
        assert np.array_equal(factors, truth)
        assert error(own_mean, mean) < 1e-5
        for name in ("weights", "bias", "thresholds", "answers"):
            assert error(getattr(statistics, name), getattr(expected, name)[rows]) < 1e-5, name
        assert np.array_equal(statistics.factor_bias, expected.factor_bias)


def test_differences_of_phases_add_up():
    def phases(rank):
        rng = np.random.default_rng(rank)
        shapes = [(6, 3), (6,), (6, 4), (3,), (6,)]
        kinds = [np.float32, np.float32, np.float64, np.float32, np.float32]
        return [
            Statistics(*(rng.normal(size=s).astype(k) for s, k in zip(shapes, kinds, strict=True)))
            for _ in range(2)
        ]

    class Group:
        def __init__(self, all_reduce):
            self.all_reduce = all_reduce

    found = Meeting(2).found(
        lambda rank, all_reduce: difference_over_ranks(Group(all_reduce), *phases(rank))
    )
    all_phases = [phases(0), phases(1)]
    for clamped, free in found:
        for name in ("weights", "bias", "factor_bias"):
            truth = sum(getattr(c, name) - getattr(f, name) for c, f in all_phases)
            assert error(getattr(clamped, name) - getattr(free, name), truth) < 1e-6
        for name in ("thresholds", "answers"):
            assert error(getattr(clamped, name), sum(getattr(c, name) for c, _ in all_phases)) < (
                1e-6
            )
        assert clamped.thresholds.dtype == np.float64
