"""Many draws of everybody: their means, and how much memory these take on the way."""

import tracemalloc

import numpy as np
from scipy.stats import ortho_group

from ordinalrbm.matrix.draws import DrawnSides, Draws


def drawn(factors, is_known=None):
    """Draws with these factors, (S, n, 1 + F), and nothing beside them."""
    n_draws, n, width = factors.shape
    is_known = np.ones(n, dtype=np.uint8) if is_known is None else is_known
    n_others = np.count_nonzero(is_known != 1)
    return DrawnSides(
        factors=factors.astype(np.float16),
        width=np.ones((n_draws, n), dtype=np.float32),
        mean=np.zeros((n_draws, width), dtype=np.float32),
        precision=np.tile(np.eye(width, dtype=np.float32), (n_draws, 1, 1)),
        weights=np.zeros((1, 0, width), dtype=np.float16),
        table_weights=np.zeros((1, 0, width), dtype=np.float16),
        block=np.zeros(n_draws, dtype=np.int32),
        width_precision=np.ones(n_draws, dtype=np.float32),
        is_known=is_known,
        variance=np.zeros((n_draws, n_others, width), dtype=np.float16),
    )


def draws_of(rows, columns):
    n_columns = len(columns.is_known)
    return Draws(
        rows,
        columns,
        np.tile([-1.0, 0.0], (len(rows.factors), 1, 1)),
        np.array([3], dtype=np.int32),
        np.zeros(n_columns, dtype=np.int32),
        np.zeros((len(rows.factors), n_columns, 1), dtype=np.float16),
    )


def test_means_are_in_the_axes_of_the_last_draw():
    """Draws of the same factors in other axes have them as their means."""
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=(n, 4)) for n in (30, 20)]
    turns = [*ortho_group.rvs(3, size=5, random_state=1), np.eye(3)]
    turned = [
        np.stack([np.column_stack([side[:, 0], side[:, 1:] @ turn]) for turn in turns]) for side in sides
    ]
    is_known = np.ones(30, dtype=np.uint8)
    is_known[3] = 2  # a newcomer, by whom axes are not told
    turned[0][:-1, 3, 1:] = 100.0 * rng.normal(size=3)
    found = draws_of(drawn(turned[0], is_known), drawn(turned[1])).means()
    learnt = is_known == 1
    np.testing.assert_allclose(found[0][learnt], sides[0][learnt], atol=3e-3)
    np.testing.assert_allclose(found[1], sides[1], atol=3e-3)


def test_those_without_a_position_are_like_the_average():
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(3, 50, 2))
    found = drawn(factors).ordered(np.array([4, -1, 0]), np.zeros(0, dtype=np.intp))
    np.testing.assert_array_equal(found.is_known, [1, 0, 1])
    np.testing.assert_allclose(found.factors[:, [0, 2]], factors[:, [4, 0]], atol=2e-3)
    np.testing.assert_allclose(found.factors[:, 1], factors.mean(axis=1), atol=2e-3)
    np.testing.assert_allclose(found.variance[:, 0], factors.var(axis=1), atol=3e-3)


def test_memory_does_not_grow_with_all_draws():
    """As float32, all draws of both sides would be 24 MB; means are 0.6."""
    sides = [drawn(np.zeros((40, n, 5), dtype=np.float16)) for n in (20_000, 10_000)]
    draws = draws_of(*sides)
    tracemalloc.start()
    draws.means()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3e6
