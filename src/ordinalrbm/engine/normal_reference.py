"""The standard normal on an interval, right in the far tails: the float64 reference.

An interval whose middle is negative is mirrored. There the mass is written with the Mills ratio
R(x) = (1 − Φ(x))/φ(x), which neither under- nor overflows; narrow intervals, where differences
would cancel, are integrated by Gauss-Legendre instead. Bounds may be infinite.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, ndtr, ndtri

_LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)
_LEAST_WIDTH = 1e-300
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)


def mills_ratio(x: ArrayLike) -> np.ndarray:
    """(1 − Φ(x))/φ(x) for x ≥ 0."""
    return np.sqrt(np.pi / 2) * erfcx(np.asarray(x, dtype=np.float64) / np.sqrt(2))


class _Mirrored(NamedTuple):
    """An interval mirrored so that its middle is not negative, and what follows from it."""

    a: np.ndarray
    b: np.ndarray
    flipped: np.ndarray
    drop: np.ndarray  # (b² − a²)/2, by how much the log density falls from a to b
    log_mass: np.ndarray


def log_mass(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Log of Φ(b) − Φ(a)."""
    return _mirror(a, b).log_mass


def truncated_mean(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Mean of a standard normal that is known to lie in (a, b]."""
    m = _mirror(a, b)
    mean = -np.expm1(-m.drop) * np.exp(_log_density(m.a) - m.log_mass)
    return np.where(m.flipped, -mean, mean)


def truncated_variance(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    at_low, at_high = edge_densities(a, b)
    low, high = (np.where(np.isfinite(x), x, 0.0) for x in (a, b))
    return np.clip(1.0 + (low * at_low - high * at_high) - truncated_mean(a, b) ** 2, 0.0, 1.0)


def edge_densities(a: ArrayLike, b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    mass = log_mass(a, b)
    lower = np.exp(_log_density(np.asarray(a, dtype=np.float64)) - mass)
    upper = np.exp(_log_density(np.asarray(b, dtype=np.float64)) - mass)
    return lower, upper


def interval_slopes(bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masses of the intervals between ascending bounds, (..., L + 1), and their derivatives by the mean."""
    return np.diff(ndtr(bounds)), -np.diff(np.exp(-0.5 * bounds**2)) / np.sqrt(2.0 * np.pi)


def standard_normal(uniform: ArrayLike) -> np.ndarray:
    return ndtri(np.asarray(uniform, dtype=np.float64))


def _log_density(x: np.ndarray) -> np.ndarray:
    return -0.5 * x * x - _LOG_ROOT_2PI


def _mirror(a: ArrayLike, b: ArrayLike) -> _Mirrored:
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    with np.errstate(invalid="ignore"):  # (−∞, ∞) has no middle; it is not mirrored
        flipped = a + b < 0
    a, b = np.where(flipped, -b, a), np.where(flipped, -a, b)
    # Bounds that meet enclose next to nothing: its logarithm is a number, though.
    b = np.maximum(b, np.maximum(np.nextafter(a, np.inf), a + _LEAST_WIDTH))
    whole = np.isneginf(a)
    with np.errstate(invalid="ignore"):
        drop = np.where(whole, 0.0, (b - a) * (0.5 * (a + b)))
    return _Mirrored(a, b, flipped, drop, _log_mass_mirrored(a, b, drop))


def _log_mass_mirrored(a: np.ndarray, b: np.ndarray, drop: np.ndarray) -> np.ndarray:
    width = b - a
    narrow = (width < 0.5) & (drop < 0.5)
    inner = np.where(narrow | (a < 0), 1.0, a)
    outer = np.where(narrow | (a < 0), np.inf, b)
    fall = np.where(narrow | (a < 0), np.inf, drop)
    tail = _log_density(inner) + np.log(mills_ratio(inner) - np.exp(-fall) * mills_ratio(outer))
    across = np.log1p(-np.where(narrow | (a >= 0), 0.0, ndtr(a) + ndtr(-b)))
    middle = np.where(narrow, a + 0.5 * np.where(narrow, width, 1.0), 0.0)
    return np.where(
        narrow,
        _log_density(middle) + _log_narrow_integral(middle, np.where(narrow, width, 1.0)),
        np.where(a < 0, across, tail),
    )


def _log_narrow_integral(middle: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Log ∫ exp(−middle·t − t²/2) dt over |t| < width/2, for exponents below one."""
    t = 0.5 * width[..., None] * _NODES
    values = np.exp(-middle[..., None] * t - 0.5 * t * t)
    return np.log(0.5 * width * (values @ _NODE_WEIGHTS))
