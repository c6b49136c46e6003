"""Rotation of loadings, so that each question belongs to few factors.

Loadings A of uncorrelated factors f explain the same as P = A T⁻ᵀ of the factors g = Tᵀ f, whose
correlations are Φ = TᵀT; columns of T have length one, and are orthogonal where factors are to stay
uncorrelated. T is where a criterion of simple structure is smallest, found by gradient projection
(Jennrich 2001, 2002; Bernaards and Jennrich 2005) from several starts, of which the best counts.
Before, varimax and quartimax come near by turning planes of two factors (Kaiser 1958).

A bifactor rotation is the orthogonal turn at which all factors but the first, the general one, are as
simple as can be (bi-quartimin: Jennrich and Bentler 2011). A target is approached by least squares.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np

_Simple = Literal["varimax", "quartimax", "oblimin", "promax", "none"]
_Targeted = Literal["target", "procrustes"]
Rotation = _Simple | Literal["bifactor"] | _Targeted
ROTATIONS: tuple[Rotation, ...] = get_args(_Simple)  # that all factors are alike in
TARGETED: tuple[Rotation, ...] = get_args(_Targeted)
OBLIQUE = ("oblimin", "promax", "target")  # after these, factors may be correlated
FEWEST_OF_BIFACTOR = 3  # a general factor, and two groups that can be told apart

# Of the gradient; from a given start, which is near, less will do.
_TOLERANCE, _NEAR_ENOUGH = 1e-8, 1e-5
_MOST_STEPS = 500
_MOST_ROUNDS = 50  # through all planes; few are needed
_MOST_HALVINGS = 30
_POWER = 4  # to which loadings are raised in the target of promax, as in other software

# From loadings to a criterion and its gradient.
_Criterion = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Rotated(NamedTuple):
    """Rotated loadings.

    ``pattern`` (N, n) are the weights of the rotated factors, ``correlation`` (n, n) is theirs, and
    ``turn`` (n, n) is T: rotated factors are Tᵀ times those before.
    """

    pattern: np.ndarray
    correlation: np.ndarray
    turn: np.ndarray


def rotate(
    loadings: np.ndarray,
    rotation: Rotation = "varimax",
    *,
    gamma: float = 0.0,
    n_starts: int = 10,
    seed: int = 0,
    start: np.ndarray | None = None,
    kaiser: bool = True,
    target: np.ndarray | None = None,
) -> Rotated:
    """Rotate loadings of uncorrelated factors; with Kaiser's normalisation all questions count the same.

    Factors come in the order of the variance that they explain, a general one before, and with signs
    that make the strongest loadings positive; but with ``start``, a turn to begin from, they stay as
    they are. ``gamma`` of oblimin is 0 for direct quartimin; above, factors become more correlated.
    A ``target`` (N, n) is NaN where loadings are free; its factors stay, and nothing is normalised;
    of a factor that it says only zeros of, the strongest loadings are positive.
    """
    n_factors = loadings.shape[1]
    length = np.linalg.norm(loadings, axis=1) if kaiser and target is None else np.ones(len(loadings))
    weights = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)[:, None]
    normalised = weights * loadings
    if rotation == "none" or (n_factors < 2 and target is None):
        turn = np.eye(n_factors) if start is None else start
    elif rotation == "promax":
        turn = _promax(normalised, _best_turn(normalised, _varimax, False, n_starts, seed, start))
    else:
        criteria = {"varimax": _varimax, "quartimax": _quartimax, "bifactor": _bifactor}
        criterion = criteria.get(rotation, _oblimin(gamma)) if target is None else _towards(target)
        near = None if target is None else allowed_turn(loadings.T @ np.nan_to_num(target), is_oblique=False)
        turn = _best_turn(normalised, criterion, rotation in OBLIQUE, n_starts, seed, start, near)
    if start is None and target is None:
        turn = _in_order(loadings, turn, n_general=int(rotation == "bifactor"))
    elif start is None and target is not None:
        turn = turn * np.where(np.nan_to_num(target).any(axis=0), 1.0, _signs(_pattern(loadings, turn)))
    return Rotated(_pattern(loadings, turn), turn.T @ turn, turn)


def _pattern(loadings: np.ndarray, turn: np.ndarray) -> np.ndarray:
    return np.linalg.solve(turn, loadings.T).T


def _in_order(loadings: np.ndarray, turn: np.ndarray, n_general: int = 0) -> np.ndarray:
    """The same turn with the strongest factor first, and every factor's strongest loadings > 0."""
    pattern = _pattern(loadings, turn)
    explained = ((pattern @ turn.T @ turn) * pattern).sum(axis=0)
    explained[:n_general] = np.inf
    return (turn * _signs(pattern))[:, np.argsort(-explained, kind="stable")]


def _signs(pattern: np.ndarray) -> np.ndarray:
    return np.where((pattern**3).sum(axis=0) < 0, -1.0, 1.0)


def _varimax(pattern: np.ndarray) -> tuple[float, np.ndarray]:
    squares = pattern**2
    centred = squares - squares.mean(axis=0)
    return -0.25 * float((centred**2).sum()), -pattern * centred


def _quartimax(pattern: np.ndarray) -> tuple[float, np.ndarray]:
    return -0.25 * float((pattern**4).sum()), -(pattern**3)


def _oblimin(gamma: float) -> _Criterion:
    def criterion(pattern: np.ndarray) -> tuple[float, np.ndarray]:
        squares = pattern**2
        others = squares.sum(axis=1, keepdims=True) - squares
        others = others - gamma * others.mean(axis=0)
        return 0.25 * float((squares * others).sum()), pattern * others

    return criterion


def _bifactor(pattern: np.ndarray) -> tuple[float, np.ndarray]:
    value, slope = _oblimin(0.0)(pattern[:, 1:])
    return value, np.column_stack([np.zeros(len(pattern)), slope])


def _towards(target: np.ndarray) -> _Criterion:
    def criterion(pattern: np.ndarray) -> tuple[float, np.ndarray]:
        away = np.nan_to_num(pattern - target)
        return 0.5 * float((away**2).sum()), away

    return criterion


def _best_turn(
    loadings: np.ndarray,
    criterion: _Criterion,
    is_oblique: bool,
    n_starts: int,
    seed: int,
    start: np.ndarray | None,
    near: np.ndarray | None = None,
) -> np.ndarray:
    """The turn with the smallest criterion, from the given start alone or from several."""
    tolerance = _TOLERANCE if start is None else _NEAR_ENOUGH
    starts = [start] if start is not None else []
    if not starts:
        rng, n_factors = np.random.default_rng(seed), loadings.shape[1]
        starts = [np.eye(n_factors)]
        starts += [np.linalg.qr(rng.normal(size=starts[0].shape))[0] for _ in range(n_starts - 1)]
        if near is not None:
            starts[0] = near
        elif is_oblique:  # uncorrelated simple structure is near the correlated one
            starts[0] = _best_turn(loadings, _varimax, False, 2, seed, None)
    if criterion in (_varimax, _quartimax):
        starts = list(_by_planes(loadings, np.array(starts), is_centred=criterion is _varimax))
    found = [_descend(loadings, one, criterion, is_oblique, tolerance) for one in starts]
    return min(found, key=lambda one: one[0])[1]


def _descend(
    loadings: np.ndarray, turn: np.ndarray, criterion: _Criterion, is_oblique: bool, tolerance: float
) -> tuple[float, np.ndarray]:
    """Steepest descent along allowed turns, with steps that double and halve."""
    step = 1.0
    value, slope = _projected(loadings, turn, criterion, is_oblique)
    for _ in range(_MOST_STEPS):
        steepness = float((slope**2).sum())
        if steepness < tolerance**2:
            break
        step *= 2.0
        for _ in range(_MOST_HALVINGS):
            moved = allowed_turn(turn - step * slope, is_oblique)
            new, new_slope = _projected(loadings, moved, criterion, is_oblique)
            if new < value - 0.5 * steepness * step:
                break
            step *= 0.5
        else:
            break  # nothing smaller is to be found: rounding
        turn, value, slope = moved, new, new_slope
    return value, turn


def _by_planes(loadings: np.ndarray, turns: np.ndarray, is_centred: bool) -> np.ndarray:
    """Turn the plane of each two factors by the angle that is best there, again and again.

    Both criteria are a constant minus Re(fourth) / 16 while a plane turns.
    """
    turns, groups = turns.copy(), list(_disjoint_planes(turns.shape[2]))
    for _ in range(_MOST_ROUNDS):
        largest = 0.0
        for one, other in groups:
            x, y = turns[:, :, one], turns[:, :, other]
            squares = (loadings @ x + 1j * (loadings @ y)) ** 2
            fourth = (squares**2).sum(axis=1) - is_centred * squares.sum(axis=1) * squares.mean(axis=1)
            angle = np.angle(fourth)[:, None] / 4.0
            cos, sin = np.cos(angle), np.sin(angle)
            turns[:, :, one], turns[:, :, other] = cos * x + sin * y, cos * y - sin * x
            largest = max(largest, np.abs(angle).max())
        if largest < _TOLERANCE:
            break
    return turns


def _disjoint_planes(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of n factors, in groups of pairs that have no factor in common."""
    others = np.arange(1, n + n % 2)
    for k in range(others.size):
        order = np.append(0, np.roll(others, k))
        one, other = order[: order.size // 2], order[: order.size // 2 - 1 : -1]
        are_two = np.maximum(one, other) < n  # of an odd number, one is left over
        yield one[are_two], other[are_two]


def _projected(
    loadings: np.ndarray, turn: np.ndarray, criterion: _Criterion, is_oblique: bool
) -> tuple[float, np.ndarray]:
    """The criterion, and its gradient without what would leave the allowed turns."""
    pattern = _pattern(loadings, turn)
    value, by_pattern = criterion(pattern)
    if is_oblique:
        gradient = -np.linalg.solve(turn.T, by_pattern.T @ pattern)
        return value, gradient - turn * (turn * gradient).sum(axis=0)
    gradient = loadings.T @ by_pattern
    inward = turn.T @ gradient
    return value, gradient - turn @ (inward + inward.T) / 2.0


def allowed_turn(turn: np.ndarray, is_oblique: bool) -> np.ndarray:
    """The nearest orthogonal matrix or, where factors may correlate, columns of length one."""
    if is_oblique:
        return turn / np.linalg.norm(turn, axis=0)
    left, _, right = np.linalg.svd(turn)
    return left @ right


def _promax(loadings: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """From varimax to correlated factors: towards its own loadings, small ones made smaller."""
    pattern = _pattern(loadings, turn)
    target = pattern * np.abs(pattern) ** (_POWER - 1)
    towards = np.linalg.lstsq(pattern, target, rcond=None)[0]
    # Factors get variance one: P U is the pattern, and U⁻¹ (times a scale) turns the factors.
    factors = np.linalg.inv(towards)
    return turn @ (factors.T / np.sqrt(np.diag(factors @ factors.T)))
