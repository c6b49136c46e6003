"""The normal distribution on an interval, for kernels: :mod:`ordinalrbm.engine.normal` in Triton.

In float64. There are few numbers per answer beside the factors, and one way of computing is right
for narrow and far-out intervals alike.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ordinalrbm.engine import normal

_LOG2E = tl.constexpr(normal.LOG2E)
_LN2_HIGH = tl.constexpr(0.693147180369123816490)
_LN2_LOW = tl.constexpr(1.90821492927058770002e-10)
_ROUNDER = tl.constexpr(6755399441055744.0)
_MILLS_0 = tl.constexpr(normal.MILLS_0)
_LOG_ROOT_2PI = tl.constexpr(normal.LOG_ROOT_2PI)
_INVERSE_ROOT_2PI = tl.constexpr(normal.INVERSE_ROOT_2PI)
_FAR = tl.constexpr(12.0)  # beyond this nothing is left of a tail in float32
# From the highest coefficient.
_EXP = tl.constexpr(normal.EXP)
_MILLS = tl.constexpr(normal.MILLS[::-1])
_NORMAL = tl.constexpr(normal.NORMAL[::-1])


@triton.jit
def _polynomial(x, coefficients: tl.constexpr, size: tl.constexpr):
    value = x * coefficients[0] + coefficients[1]
    for n in tl.static_range(2, size):
        value = value * x + coefficients[n]
    return value


@triton.jit
def exp_and_complement(x):
    x = tl.maximum(x, -700.0)
    shifted = x * _LOG2E + _ROUNDER
    n = shifted - _ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = (_polynomial(r, _EXP, 10) * r) * r + r
    scale = ((shifted.to(tl.int64, bitcast=True) + 1023) << 52).to(tl.float64, bitcast=True)
    part = scale * p
    return scale + part, (1.0 - scale) - part


@triton.jit
def mills_ratio(x):
    """(1 − Φ(x))/φ(x) for x ≥ 0."""
    inverse = 1.0 / ((x + 4.5) * (1.0 + 0.5 * x))
    k = (x - 4.5) * ((1.0 + 0.5 * x) * inverse)
    return _polynomial(k, _MILLS, 13) * ((x + 4.5) * inverse)


@triton.jit
def logistic(x):
    e, _ = exp_and_complement(-tl.abs(x))
    low = e / (1.0 + e)
    return tl.where(x < 0, low, 1.0 - low)


@triton.jit
def standard_normal(u):
    r = u - 0.5
    square = 4.0 * r * r
    length = tl.maximum(-tl.log(tl.maximum(1.0 - square, 1e-300)), square)
    k = length / (length + 4.0)
    x = tl.sqrt(length) * _polynomial(k, _NORMAL, 8)
    return tl.where(r < 0, -x, x)


@triton.jit
def interval(lower, upper):
    """Mirror an interval so that its middle is not negative, and measure it; see the CPU's."""
    flipped = lower + upper < 0.0
    a = tl.maximum(tl.where(flipped, -upper, lower), -1e6)
    b = tl.minimum(tl.where(flipped, -lower, upper), 1e6)
    inside = a < 0.0
    inner, _ = exp_and_complement(-0.5 * a * a)
    at_a = tl.where(inside, inner, 1.0)
    ratio, fall = exp_and_complement(-0.5 * (b - a) * (b + a))
    at_b = at_a * ratio
    mills_a = mills_ratio(tl.abs(a))
    near = tl.where(inside, 2.0 * _MILLS_0 - at_a * mills_a, mills_a)
    mass = near - at_b * mills_ratio(b)
    return flipped, a, b, at_a, at_b, fall, mills_a, mass


@triton.jit
def edge_densities(lower, upper):
    """Density of the truncated standard normal at its lower and upper bound, and its mean."""
    flipped, _, _, at_a, at_b, fall, _, mass = interval(lower, upper)
    scale = 1.0 / mass
    inner = at_a * scale
    outer = at_b * scale
    mean = inner * fall
    low = tl.where(flipped, outer, inner)
    high = tl.where(flipped, inner, outer)
    return low, high, tl.where(flipped, -mean, mean)


@triton.jit
def mass(lower, upper):
    _, a, _, _, _, _, _, scaled = interval(lower, upper)
    start = tl.maximum(a, 0.0)
    height, _ = exp_and_complement(-0.5 * start * start)
    return scaled * height * _INVERSE_ROOT_2PI


@triton.jit
def log_mass(lower, upper):
    _, a, _, _, _, _, _, scaled = interval(lower, upper)
    start = tl.maximum(a, 0.0)
    return tl.log(scaled) - 0.5 * start * start - _LOG_ROOT_2PI


@triton.jit
def truncated_draw(lower, upper, u):
    """Inversion of the truncated distribution function; see the CPU's."""
    flipped, a, b, at_a, _, _, mills_a, mass = interval(lower, upper)
    share = tl.where(flipped, 1.0 - u, u)
    inside = a < 0.0
    start = tl.maximum(a, 0.0)
    ratio = tl.where(inside, _MILLS_0, mills_a)
    left = tl.where(inside, _MILLS_0 - at_a * mills_a, 0.0)
    part = share * mass - left
    drop = -tl.log(tl.maximum(1.0 - tl.abs(part) / ratio, 1e-300))
    hazard = 1.0 / ratio
    slope = hazard * (hazard - start)
    t = 2.0 * drop / (hazard + tl.sqrt(hazard * hazard + 2.0 * slope * drop))
    x = start + t
    ratio_x = mills_ratio(x)
    error = drop - (tl.log(ratio / ratio_x) + t * (start + 0.5 * t))
    hazard = 1.0 / ratio_x
    slope = hazard * (hazard - x)
    t = t + error / (hazard + 0.5 * slope * error * ratio_x)
    x = start + t
    x = tl.minimum(tl.maximum(tl.where(part < 0.0, -x, x), a), b)
    return tl.where(flipped, -x, x)
