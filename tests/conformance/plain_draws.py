"""Draws from the standard normal on an interval, in float64: the judge of those in kernels."""

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from ordinalrbm.engine.normal_reference import (
    _log_density,
    _log_narrow_integral,
    _mirror,
    log_mass,
    mills_ratio,
)

# Below this width the inversion of Φ would lose digits and Newton's method finds them again.
_NARROW_DRAW = 0.01


def truncated_draw(a, b, uniform):
    """Value below which a share ``uniform`` of the normal truncated to (a, b] lies."""
    m = _mirror(a, b)
    uniform = np.asarray(uniform, dtype=np.float64)
    share, a, b, drop = np.broadcast_arrays(np.where(m.flipped, 1.0 - uniform, uniform), m.a, m.b, m.drop)
    x = np.clip(np.where(a < 0, _draw_across(a, b, share), _draw_tail(a, b, drop, share)), a, b)
    narrow = b - a < _NARROW_DRAW
    if narrow.any():
        x = np.array(x)
        x[narrow] = _draw_narrow(a[narrow], b[narrow], share[narrow])
    return np.where(m.flipped, -x, x)


def _draw_across(a, b, share):
    """Inversion for an interval that contains zero: from the side on which the mass is small."""
    below = (1.0 - share) * ndtr(a) + share * ndtr(b)
    above = (1.0 - share) * ndtr(-a) + share * ndtr(-b)
    return np.where(below < 0.5, ndtri(below), -ndtri(above))


def _draw_tail(a, b, drop, share):
    """Inversion of log(1 − Φ) for an interval to the right of zero."""
    inner = np.maximum(a, 0.0)
    scaled = (1.0 - share) * mills_ratio(inner) + share * np.exp(-drop) * mills_ratio(b)
    return -ndtri_exp(_log_density(inner) + np.log(scaled))


def _draw_narrow(a, b, share):
    """Newton's method from the exponential that has the density's slope, nearly exact already."""
    width, slope = b - a, np.maximum(0.5 * (a + b), 1e-12)
    t = -np.log1p(share * np.expm1(-slope * width)) / slope
    t = np.clip(t, 1e-12 * width, width)
    mass = log_mass(a, b)
    for _ in range(3):
        residual = np.exp(_log_density(a + 0.5 * t) + _log_narrow_integral(a + 0.5 * t, t) - mass)
        t = t - (residual - share) * np.exp(mass - _log_density(a + t))
        t = np.clip(t, 1e-12 * width, width)
    return a + t
