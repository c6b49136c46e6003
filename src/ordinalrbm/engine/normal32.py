"""The scalar functions of :mod:`ordinalrbm.engine.normal` in float32: twice the lanes.

Right to about 5e-6 for ordinary intervals. :func:`ordinary` says which are: not too narrow (the
mass is a difference of numbers of size one) and not too far out (the spacing of float32 there is
not small against the length over which the density falls). The kernels compute all answers here and
the few others again in float64.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types

from ordinalrbm.engine.normal import NORMAL, bitcast
from ordinalrbm.runtime.jit import inlined

f32 = np.float32

_NARROW = f32(0.2)
_FAR = f32(7.0)
_FAR_END = f32(1e4)  # stands for infinity
_ZERO, _HALF, _ONE, _TWO = f32(0.0), f32(0.5), f32(1.0), f32(2.0)
_LOG2E = f32(1.4426950408889634)
_LN2_HIGH = f32(0.693359375)  # few bits, so that n·LN2 is exact
_LN2_LOW = f32(-2.12194440e-4)
_LN2 = f32(0.6931471805599453)
_ROUNDER = f32(12582912.0)
_TINY = f32(1e-30)
_LOWEST = f32(-80.0)
_E2, _E3, _E4, _E5, _E6, _E7 = (f32(1 / n) for n in (2, 6, 24, 120, 720, 5040))
_L1, _L3, _L5, _L7, _L9 = (f32(2 / n) for n in (1, 3, 5, 7, 9))
# (1 + x/2) R(x) as a polynomial in (x − 3.75)/(x + 3.75): Chebyshev interpolation, error 3e-7.
_SHIFT = f32(3.75)
_MILLS = (
    0.720938195401399, -0.34575980408530665, 0.1671234676534109, -0.042365313606423885,
    -0.008320487422843467, 0.012050997150914554, -0.003533761152635395, -0.000583025591515481,
    0.0004498891544774646,
)  # fmt: skip
_M0, _M1, _M2, _M3, _M4, _M5, _M6, _M7, _M8 = (f32(c) for c in _MILLS)
MILLS_0 = f32(np.polynomial.polynomial.polyval(-1.0, _MILLS))
# |x|/√l as a polynomial in l/(l + 4), l = −log 4u(1 − u): see lanes.standard_normal.
_N0, _N1, _N2, _N3, _N4, _N5, _N6, _N7 = (f32(c) for c in NORMAL)
_FOUR = f32(4.0)
_THIRD, _QUARTER, _TENTH = f32(1 / 3), f32(0.25), f32(0.1)
_I1 = np.int32(127)
_I23 = np.int32(23)
_ROOT_HALF_BITS = np.int32(0x3F3504F3)

bits_of: Any = bitcast(ir.IntType(32), types.int32)
from_bits: Any = bitcast(ir.FloatType(), types.float32)
if getattr(numba.config, "DISABLE_JIT", False):
    bits_of = lambda value: np.float32(value).view(np.int32)  # noqa: E731
    from_bits = lambda bits: np.int32(bits).view(np.float32)  # noqa: E731


@inlined
def ordinary(lower: Any, upper: Any) -> Any:
    """Whether an interval is wide enough and near enough for float32."""
    near = (lower < _FAR) & (upper > -_FAR)
    return near & (upper - lower > _NARROW)


@inlined
def exp_and_fall(x: Any) -> Any:
    """Exp(x) and 1 − exp(x) for x ≤ 0; 0 and 1 below −80."""
    none = x < _LOWEST
    x = max(x, _LOWEST)
    shifted = x * _LOG2E + _ROUNDER
    n = shifted - _ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = r * _E7 + _E6
    p = p * r + _E5
    p = p * r + _E4
    p = p * r + _E3
    p = p * r + _E2
    p = (p * r) * r + r
    scale = from_bits(np.int32((bits_of(shifted) + _I1) << _I23))
    scale = _ZERO if none else scale
    part = scale * p
    return scale + part, (_ONE - scale) - part


@inlined
def log(x: Any) -> Any:
    """Natural logarithm of a positive, normal number."""
    bits = bits_of(x)
    exponent = np.int32((bits - _ROOT_HALF_BITS) >> _I23)
    m = from_bits(np.int32(bits - (exponent << _I23)))
    s = (m - _ONE) / (m + _ONE)
    z = s * s
    p = z * _L9 + _L7
    p = p * z + _L5
    p = p * z + _L3
    p = (p * z) * s + _L1 * s
    return p + f32(exponent) * _LN2


@inlined
def mills_ratio(x: Any) -> Any:
    """(1 − Φ(x))/φ(x) for 0 ≤ x ≤ 1e4."""
    wide = _ONE + _HALF * x
    inverse = _ONE / ((x + _SHIFT) * wide)
    k = (x - _SHIFT) * (wide * inverse)
    p = _M8 * k + _M7
    p = p * k + _M6
    p = p * k + _M5
    p = p * k + _M4
    p = p * k + _M3
    p = p * k + _M2
    p = p * k + _M1
    p = p * k + _M0
    return p * ((x + _SHIFT) * inverse)


@inlined
def logistic(x: Any) -> Any:
    """1/(1 + exp(−x))."""
    e, _ = exp_and_fall(-abs(x))
    low = e / (_ONE + e)
    return low if x < _ZERO else _ONE - low


@inlined
def standard_normal(u: Any) -> Any:
    """Φ⁻¹(u), u in float32."""
    r = u - _HALF
    square = _FOUR * r * r
    # −log(1 − y) by its series where the difference would round.
    series = square * (_ONE + square * (_HALF + square * (_THIRD + square * _QUARTER)))
    length = series if square < _TENTH else -log(max(_ONE - square, _TINY))
    k = length / (length + _FOUR)
    p = _N7 * k + _N6
    p = p * k + _N5
    p = p * k + _N4
    p = p * k + _N3
    p = p * k + _N2
    p = p * k + _N1
    p = p * k + _N0
    x = np.sqrt(length) * p
    return -x if r < _ZERO else x


@inlined
def interval(lower: Any, upper: Any) -> Any:
    """Mirror and measure an interval; see :func:`ordinalrbm.engine.normal.interval`."""
    flipped = lower + upper < _ZERO
    a = max(-upper if flipped else lower, -_FAR_END)
    b = min(-lower if flipped else upper, _FAR_END)
    inside = a < _ZERO
    inner, _ = exp_and_fall(-_HALF * a * a)
    at_a = inner if inside else _ONE
    ratio, fall = exp_and_fall(-_HALF * (b - a) * (b + a))
    at_b = at_a * ratio
    mills_a = mills_ratio(abs(a))
    near = _TWO * MILLS_0 - at_a * mills_a if inside else mills_a
    mass = max(near - at_b * mills_ratio(b), _TINY)
    return flipped, a, b, at_a, at_b, fall, mills_a, mass


@inlined
def edge_densities(lower: Any, upper: Any) -> Any:
    """Density of the truncated standard normal at its lower and upper end, and its mean."""
    flipped, _, _, at_a, at_b, fall, _, mass = interval(lower, upper)
    scale = _ONE / mass
    inner = at_a * scale
    outer = at_b * scale
    mean = inner * fall
    low = outer if flipped else inner
    high = inner if flipped else outer
    return low, high, (-mean if flipped else mean)


@inlined
def truncated_draw(lower: Any, upper: Any, u: Any) -> Any:
    """Inversion of the truncated distribution function; see lanes.truncated_draw."""
    flipped, a, b, at_a, _, _, mills_a, mass = interval(lower, upper)
    share = _ONE - u if flipped else u
    inside = a < _ZERO
    start = max(a, _ZERO)
    ratio = MILLS_0 if inside else mills_a
    left = MILLS_0 - at_a * mills_a if inside else _ZERO
    part = share * mass - left
    negative = part < _ZERO
    hazard = _ONE / ratio
    drop = -log(max(_ONE - abs(part) * hazard, _TINY))
    slope = hazard * (hazard - start)
    t = _TWO * drop / (hazard + np.sqrt(hazard * hazard + _TWO * slope * drop))
    x = start + t
    ratio_x = mills_ratio(x)
    error = drop - (log(ratio / ratio_x) + t * (start + _HALF * t))
    curve = _ONE + _HALF * (_ONE - x * ratio_x) * error
    t = t + error * ratio_x / curve
    x = start + t
    x = min(max(-x if negative else x, a), b)
    return -x if flipped else x
