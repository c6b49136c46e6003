"""Rotations: optima of their criteria, written again here, and those of scikit-learn."""

import numpy as np
import pytest
from sklearn.decomposition._factor_analysis import _ortho_rotation

from ordinalrbm.stats.rotation import OBLIQUE, ROTATIONS, rotate


def loadings(seed=0, n_items=18, n_factors=3, noise=0.1, correlation=0.0):
    """Simple structure of unequal strength with some noise, turned at random."""
    rng = np.random.default_rng(seed)
    simple = rng.normal(0, noise, (n_items, n_factors))
    simple[np.arange(n_items), np.arange(n_items) % n_factors] += rng.uniform(0.3, 0.9, n_items)
    factors = np.linalg.cholesky(
        np.full((n_factors, n_factors), correlation) + (1 - correlation) * np.eye(n_factors)
    )
    turn = np.linalg.qr(rng.normal(size=(n_factors, n_factors)))[0]
    return simple @ factors @ turn, simple


def kaiser(pattern, original):
    return pattern / np.linalg.norm(original, axis=1, keepdims=True)


CRITERIA = {
    # Larger is simpler for the first two, smaller for the last.
    "varimax": lambda p: -(p**2).var(axis=0).sum(),
    "quartimax": lambda p: -(p**4).sum(),
    "oblimin": lambda p: sum(
        (p[:, a] ** 2 * p[:, b] ** 2).sum() for a in range(p.shape[1]) for b in range(a)
    ),
}


def moved(turn, rng, size, is_oblique):
    """A turn nearby that is still allowed."""
    step = rng.normal(size=turn.shape) * size
    if is_oblique:
        near = turn + step
        return near / np.linalg.norm(near, axis=0)
    skew = step - step.T
    return turn @ np.linalg.solve(np.eye(len(turn)) + skew, np.eye(len(turn)) - skew)


@pytest.mark.parametrize("rotation", CRITERIA)
def test_nothing_nearby_is_simpler_and_the_criterion_is_flat(rotation):
    original, _ = loadings(correlation=0.3)
    found, criterion = rotate(original, rotation), CRITERIA[rotation]
    best = criterion(kaiser(found.pattern, original))
    rng = np.random.default_rng(1)
    for _ in range(30):
        for size in (1e-5, 1e-2):
            turn = moved(found.turn, rng, size, rotation in OBLIQUE)
            pattern = original @ np.linalg.inv(turn).T
            change = criterion(kaiser(pattern, original)) - best
            # Of second order in the step: the first derivative is zero.
            assert -1e-12 < change < 5000 * size**2


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_rotation_explains_the_same(rotation):
    original, _ = loadings(seed=3, correlation=0.2)
    found = rotate(original, rotation)
    explained = found.pattern @ found.correlation @ found.pattern.T
    np.testing.assert_allclose(explained, original @ original.T, atol=1e-10)
    np.testing.assert_allclose(np.diag(found.correlation), 1.0)
    np.testing.assert_allclose(found.correlation, found.turn.T @ found.turn)
    if rotation not in OBLIQUE:
        np.testing.assert_allclose(found.correlation, np.eye(3), atol=1e-10)


@pytest.mark.parametrize("rotation", ["varimax", "oblimin", "promax"])
def test_every_turn_of_the_same_loadings_ends_at_the_same_place(rotation):
    original, _ = loadings(seed=4, n_items=20, n_factors=4, correlation=0.2)
    rng = np.random.default_rng(5)
    found = [
        rotate(original @ np.linalg.qr(rng.normal(size=(4, 4)))[0], rotation, seed=seed).pattern
        for seed in range(4)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)


def test_varimax_is_that_of_scikit_learn():
    original, _ = loadings(seed=6)
    length = np.linalg.norm(original, axis=1, keepdims=True)
    theirs = length * _ortho_rotation(original / length, tol=1e-14, max_iter=10_000).T
    ours = rotate(original).pattern
    theirs = theirs[:, np.argsort(-(theirs**2).sum(axis=0))]
    np.testing.assert_allclose(ours, theirs * np.sign((theirs**3).sum(axis=0)), atol=1e-6)


@pytest.mark.parametrize(("rotation", "error"), [("oblimin", 0.02), ("promax", 0.08)])
def test_correlated_factors_are_found_with_their_correlation(rotation, error):
    original, simple = loadings(seed=7, n_items=24, noise=0.0, correlation=0.4)
    found = rotate(original, rotation)
    order = np.argsort(-np.abs(simple.T @ found.pattern), axis=1)[:, 0]
    np.testing.assert_allclose(found.pattern[:, order], simple, atol=error)
    np.testing.assert_allclose(found.correlation[0, 1], 0.4, atol=error)


def test_gamma_makes_factors_more_correlated():
    original, _ = loadings(seed=8, correlation=0.3)
    correlations = [
        np.abs(rotate(original, "oblimin", gamma=gamma).correlation[0, 1]) for gamma in (-2.0, 0.0, 0.3)
    ]
    assert correlations == sorted(correlations)


def test_factors_are_in_order_and_their_strongest_loadings_positive():
    original, _ = loadings(seed=9)
    for rotation in ROTATIONS:
        pattern, correlation, _ = rotate(-original, rotation)
        explained = (pattern * (pattern @ correlation)).sum(axis=0)
        assert (np.diff(explained) <= 1e-12).all()
        assert ((pattern**3).sum(axis=0) > 0).all()


def test_a_question_without_loadings_and_a_single_factor_are_no_problem():
    original, _ = loadings(seed=10)
    original[3] = 0.0
    assert (rotate(original, "oblimin").pattern[3] == 0).all()
    one = original[:, :1]
    np.testing.assert_allclose(rotate(one).pattern, one * np.sign((one**3).sum()))


PLACE = np.arange(12)
# In columns: a general factor, and three groups of four questions.
GROUPED = np.zeros((12, 4))
GROUPED[:, 0] = 0.5 + 0.02 * PLACE
GROUPED[PLACE, 1 + PLACE // 4] = np.array([0.6, 0.4, 0.5, 0.35])[PLACE % 4] + 0.05 * (PLACE // 4)
GROUPED += 0.05 * np.sin(np.arange(48)).reshape(12, 4)
TURNED = GROUPED @ np.linalg.qr(np.sin(np.arange(16.0) ** 2).reshape(4, 4))[0]


def test_bifactor_is_that_of_gparotation_with_the_general_factor_first():
    pattern = rotate(TURNED, "bifactor", kaiser=False).pattern
    order = [0, *(1 + pattern[[0, 5, 11], 1:].argmax(axis=1))]
    expected = [
        [0.50650, 0.63826, 0.01810, 0.01145],
        [0.64847, 0.05319, 0.44323, -0.05204],
        [0.73013, 0.02738, 0.03684, 0.44320],
    ]
    np.testing.assert_allclose(pattern[[0, 5, 11]][:, order], expected, atol=2e-5)


def test_a_target_that_can_be_reached_is_reached_with_correlated_factors():
    """From some of the loadings, zeros above all, the others follow and so do the correlations."""
    original, simple = loadings(seed=11, n_items=12, noise=0.0, correlation=0.4)
    target = np.where(simple == 0.0, 0.0, np.nan)
    target[:3] = simple[:3]
    target[5] = np.nan
    found = rotate(-original, "target", target=target)
    np.testing.assert_allclose(found.pattern, simple, atol=1e-4)
    np.testing.assert_allclose(found.correlation[~np.eye(3, dtype=bool)], 0.4, atol=1e-4)
    np.testing.assert_allclose(
        rotate(original[:, :1], "target", target=-original[:, :1]).pattern, -original[:, :1]
    )


def test_procrustes_of_a_whole_target_is_the_polar_part():
    original, simple = loadings(seed=12, correlation=0.2)
    left, _, right = np.linalg.svd(original.T @ simple)
    found = rotate(original, "procrustes", target=simple)
    np.testing.assert_allclose(found.pattern, original @ left @ right, atol=1e-5)


@pytest.mark.parametrize("rotation", ["varimax", "quartimax"])
def test_two_factors_are_at_the_best_of_all_angles(rotation):
    """Where all loadings share a strong direction, which gradients alone find slowly."""
    rng = np.random.default_rng(1)
    given = np.column_stack([rng.uniform(0.65, 0.85, 6), 0.35 * (-1.0) ** np.arange(6)])
    original = given + 0.02 * rng.normal(size=given.shape)
    angle = np.linspace(0.0, np.pi / 2, 5000)
    turns = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    best = min(CRITERIA[rotation](kaiser(original @ turn, original)) for turn in turns.transpose(2, 0, 1))
    found = CRITERIA[rotation](kaiser(rotate(original, rotation).pattern, original))
    assert best - 1e-6 < found <= best + 1e-12
