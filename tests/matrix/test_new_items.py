"""New rows and columns with few ratings: compared with known ones of which as few are known."""

import numpy as np
import pytest

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.rated_sets import RatedSets
from ordinalrbm.matrix.feature_priors import FactorPrior, TrainedRows, Weights, affinity_of


def ratings(rng, n_rows=40, n_columns=30, least=0.05):
    """Rows that have rated so much of the columns at least, or more, up to all."""
    row, column = np.nonzero(rng.random((n_rows, n_columns)) < np.geomspace(least, 1.0, n_rows)[:, None])
    return Observations.from_triples(row, column, row % 3, n_rows, n_columns, np.full(n_columns, 3))


def cut_down(known, n, rng):
    """So many ratings of each row, chosen at random."""
    order = np.lexsort([rng.random(known.n_entries), known.cells().row])
    number = np.arange(known.n_entries) - np.repeat(known.row_start[:-1], known.row_counts)
    kept = np.zeros(known.n_entries, dtype=bool)
    kept[order[number < n]] = True
    return known.select(kept)


@pytest.mark.parametrize("n", [1, 4, 12, 30])
def test_average_features_of_sets_that_are_cut_down(n):
    rng = np.random.default_rng(n)
    known, weights = ratings(rng), rng.normal(1.0, 1.0, (30, 2)).astype(np.float32)
    share = known.row_counts / known.n_entries
    simulated = [share @ RatedSets.of(cut_down(known, n, rng)).times(weights) for _ in range(300)]
    few = Observations.from_triples(np.zeros(n, int), np.arange(n), np.zeros(n, int), 2, 30, known.n_levels)
    prior = FactorPrior(np.ones(2), np.ones(1), Weights(weights, np.zeros((0, 0)), np.zeros(0)))
    others = TrainedRows.of(np.zeros((known.n_rows, 2), np.float32), known, None)
    found = RatedSets.of(few).times(weights) - prior.expected(few, None, others)
    error = np.std(simulated, axis=0) / np.sqrt(len(simulated))
    assert (np.abs(found[0] - np.mean(simulated, axis=0)) < 4.0 * error + 1e-3).all()
    np.testing.assert_array_equal(found[1], 0.0)


@pytest.mark.parametrize("n", [1, 4, 12])
def test_rows_of_which_few_ratings_are_known_are_expected_where_they_are_on_average(n):
    """The more ratings a row has, the higher its bias, as its rated set says."""
    rng = np.random.default_rng(0)
    known = ratings(rng, n_columns=200, least=0.1)
    assert known.row_counts.min() >= n
    each = np.stack([np.full(200, 0.3), rng.normal(0.0, 0.1, 200)], axis=1).astype(np.float32)
    explained = RatedSets.of(known).times(each)
    centre = explained.mean(axis=0)
    factors = explained - centre.astype(np.float32)
    prior = FactorPrior(np.ones(2), np.ones(1), Weights(each, np.zeros((0, 0)), centre.astype(np.float64)))
    share, others = known.row_counts / known.n_entries, TrainedRows.of(factors, known, None)
    found = np.mean(
        [share @ prior.expected(cut_down(known, n, rng), None, others) for _ in range(30)], axis=0
    )
    np.testing.assert_allclose(found, share @ factors, atol=0.03)


def test_affinity_is_what_those_who_choose_like_more():
    """Two kinds of columns, each rated by the rows of its own kind alone, which like it by one more."""
    kind, of_columns = np.arange(40) % 2, np.arange(600) % 2
    row, column = np.nonzero(kind[:, None] == of_columns)
    known = Observations.from_triples(row, column, 0 * row, 40, 600, np.full(600, 2))
    factors = np.stack([np.zeros(40), 2.0 * kind - 1.0], axis=1).astype(np.float32)
    facing = np.stack([np.full(600, 9.0), 2.0 * of_columns - 1.0], axis=1)
    # Others that had the same rater are of the same kind, but all count as 20 raters beside 20.
    assert affinity_of(factors, facing, known) == pytest.approx(0.5, abs=1e-3)
    assert TrainedRows.of(factors, known, None).affinity == 0.0
