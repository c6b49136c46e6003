"""Scalar functions of the CPU kernels, written so that a loop over answers becomes vector code.

Nothing here branches or calls a library: polynomials, divisions, selects and bit operations only,
which LLVM turns into NEON, AVX2 or AVX-512 lanes alike. Numbers of a single answer are float64 (a
narrow interval is a small difference of larger numbers); what has the length of the factors is
float32. Accuracy is about 1e-9 relative, judged against :mod:`ordinalrbm.engine.normal_reference` and
mpmath.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ordinalrbm.engine import philox as rng
from ordinalrbm.runtime.jit import inlined

philox = inlined(rng.philox)

LN2 = 0.6931471805599453
LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # upper 32 bits, so that n·LN2 is exact
_LN2_LOW = 1.90821492927058770002e-10
# Adding and subtracting it rounds to an integer without a function call.
_ROUNDER = 6755399441055744.0
# (1 + x/2) R(x) as a polynomial in (x − 4.5)/(x + 4.5): Chebyshev interpolation, error 6e-10.
MILLS = (
    0.6908543864366039, -0.3138297327468176, 0.18121486946598855, -0.07370758984679993,
    0.012690995518270992, 0.008118737077485375, -0.00797028444235134, 0.003049786822912488,
    -0.00021722341594520856, -0.00030748817175794816, 9.547296082246178e-05,
    1.9218529765401226e-05, -1.1148245821130589e-05,
)  # fmt: skip
_M0, _M1, _M2, _M3, _M4, _M5, _M6, _M7, _M8, _M9, _M10, _M11, _M12 = MILLS
# R(0) as the polynomial above has it, so that differences at zero are exactly zero.
MILLS_0 = float(np.polynomial.polynomial.polyval(-1.0, MILLS))
# |x|/√l as a polynomial in l/(l + 4), l = −log 4u(1 − u), for x = Φ⁻¹(u).
NORMAL = (
    1.2533126342613605, 0.0593872071623592, 0.046326447980398526, 0.1003996929827361,
    -0.2604473970156892, 0.6978755254278348, -0.8454553421997139, 0.3591750585834674,
)  # fmt: skip
_N0, _N1, _N2, _N3, _N4, _N5, _N6, _N7 = NORMAL
LOG_ROOT_2PI = 0.9189385332046727
INVERSE_ROOT_2PI = 0.3989422804014327


def bitcast(target: Any, result: Any) -> Any:
    """An instruction that reads the same bits as another type."""

    def typer(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], target)

        return result(value), generate

    return intrinsic(typer)


# Bit pattern of a float64 as int64, and back. Intrinsics do not run in plain Python.
bits_of: Any = bitcast(ir.IntType(64), types.int64)
from_bits: Any = bitcast(ir.DoubleType(), types.float64)
if getattr(numba.config, "DISABLE_JIT", False):
    bits_of = lambda value: np.float64(value).view(np.int64)  # noqa: E731
    from_bits = lambda bits: np.int64(bits).view(np.float64)  # noqa: E731


@inlined
def uniform(word: Any) -> Any:
    """Uniform number in (0, 1), ends excluded, from a 32-bit word held in uint64."""
    return (np.float64(np.int64(word)) + 0.5) * 2.3283064365386963e-10


@inlined
def exp_and_fall(x: Any) -> Any:
    """Exp(x) and 1 − exp(x) for x ≤ 0, each to its own relative accuracy; 0 and 1 below −700."""
    x = max(x, -700.0)
    shifted = x * LOG2E + _ROUNDER
    n = shifted - _ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = r * (1 / 39916800) + (1 / 3628800)
    p = p * r + (1 / 362880)
    p = p * r + (1 / 40320)
    p = p * r + (1 / 5040)
    p = p * r + (1 / 720)
    p = p * r + (1 / 120)
    p = p * r + (1 / 24)
    p = p * r + (1 / 6)
    p = p * r + 0.5
    p = (p * r) * r + r
    scale = from_bits((bits_of(shifted) + 1023) << 52)
    part = scale * p
    return scale + part, (1.0 - scale) - part


@inlined
def log(x: Any) -> Any:
    """Natural logarithm of a positive, normal number."""
    bits = bits_of(x)
    # Split so that the mantissa lies around one: x = 2^e · m, m in [1/√2, √2).
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = from_bits(bits - (exponent << 52))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = z * (2 / 15) + (2 / 13)
    p = p * z + (2 / 11)
    p = p * z + (2 / 9)
    p = p * z + (2 / 7)
    p = p * z + (2 / 5)
    p = p * z + (2 / 3)
    p = (p * z) * s + 2.0 * s
    return p + np.float64(exponent) * LN2


@inlined
def mills_ratio(x: Any) -> Any:
    """(1 − Φ(x))/φ(x) for 0 ≤ x < 1e150."""
    inverse = 1.0 / ((x + 4.5) * (1.0 + 0.5 * x))
    k = (x - 4.5) * ((1.0 + 0.5 * x) * inverse)
    p = _M12 * k + _M11
    p = p * k + _M10
    p = p * k + _M9
    p = p * k + _M8
    p = p * k + _M7
    p = p * k + _M6
    p = p * k + _M5
    p = p * k + _M4
    p = p * k + _M3
    p = p * k + _M2
    p = p * k + _M1
    p = p * k + _M0
    return p * ((x + 4.5) * inverse)


@inlined
def logistic(x: Any) -> Any:
    """1/(1 + exp(−x)), exact at both ends."""
    e, _ = exp_and_fall(-abs(x))
    low = e / (1.0 + e)
    return low if x < 0 else 1.0 - low


@inlined
def standard_normal(u: Any) -> Any:
    """Φ⁻¹(u) to 1.3e-6 relative: |x|/√l is a polynomial in l/(l + 4), l = −log 4u(1 − u)."""
    r = u - 0.5
    length = -log(max(1.0 - 4.0 * r * r, 1e-300))
    length = max(length, 4.0 * r * r)  # log(1 − y) rounds to zero before y does
    k = length / (length + 4.0)
    p = _N7 * k + _N6
    p = p * k + _N5
    p = p * k + _N4
    p = p * k + _N3
    p = p * k + _N2
    p = p * k + _N1
    p = p * k + _N0
    x = np.sqrt(length) * p
    return -x if r < 0 else x


@inlined
def interval(lower: Any, upper: Any) -> Any:
    """Mirror (lower, upper] so that its middle is not negative, and measure it.

    Returns flipped; the inner end a and the outer end b (1e6 stands for infinity); the density at a
    and at b, the fall 1 − density(b)/density(a), R(|a|) and the mass between the ends. Densities
    and mass are in units of the density at max(a, 0), so that nothing underflows.
    """
    flipped = lower + upper < 0.0
    a = max(-upper if flipped else lower, -1e6)
    b = min(-lower if flipped else upper, 1e6)
    inside = a < 0.0
    inner, _ = exp_and_fall(-0.5 * a * a)
    at_a = inner if inside else 1.0
    ratio, fall = exp_and_fall(-0.5 * (b - a) * (b + a))
    at_b = at_a * ratio
    mills_a = mills_ratio(abs(a))
    near = 2.0 * MILLS_0 - at_a * mills_a if inside else mills_a
    mass = near - at_b * mills_ratio(b)
    return flipped, a, b, at_a, at_b, fall, mills_a, mass


@inlined
def edge_densities(lower: Any, upper: Any) -> Any:
    """Density of the truncated standard normal at its lower and upper end, and its mean.

    The mean is the difference of the two, taken without cancellation.
    """
    flipped, _, _, at_a, at_b, fall, _, mass = interval(lower, upper)
    scale = 1.0 / mass
    inner = at_a * scale
    outer = at_b * scale
    mean = inner * fall
    low = outer if flipped else inner
    high = inner if flipped else outer
    return low, high, (-mean if flipped else mean)


@inlined
def mass(lower: Any, upper: Any) -> Any:
    """Φ(upper) − Φ(lower)."""
    _, a, _, _, _, _, _, scaled = interval(lower, upper)
    start = max(a, 0.0)
    height, _ = exp_and_fall(-0.5 * start * start)
    return scaled * height * INVERSE_ROOT_2PI


@inlined
def log_mass(lower: Any, upper: Any) -> Any:
    """Log of Φ(upper) − Φ(lower), to about 1e-9 absolute."""
    _, a, _, _, _, _, _, scaled = interval(lower, upper)
    start = max(a, 0.0)
    return log(scaled) - 0.5 * start * start - LOG_ROOT_2PI


@inlined
def truncated_draw(lower: Any, upper: Any, u: Any) -> Any:
    """Inversion of the truncated distribution function, accurate to about 1e-6 of the mass.

    Right of zero, the logarithm of the survival function has nearly linear slope λ = 1/R: solve
    with that slope, then correct once by Halley's method. An interval that contains zero is split
    there, so that this covers everything.
    """
    flipped, a, b, at_a, _, _, mills_a, mass = interval(lower, upper)
    share = 1.0 - u if flipped else u
    inside = a < 0.0
    start = max(a, 0.0)
    ratio = MILLS_0 if inside else mills_a
    left = MILLS_0 - at_a * mills_a if inside else 0.0
    part = share * mass - left
    negative = part < 0.0
    # How much of the mass beyond the start is used up, as a drop of the log survival function.
    drop = -log(max(1.0 - abs(part) / ratio, 1e-300))
    hazard = 1.0 / ratio
    slope = hazard * (hazard - start)
    t = 2.0 * drop / (hazard + np.sqrt(hazard * hazard + 2.0 * slope * drop))
    x = start + t
    ratio_x = mills_ratio(x)
    error = drop - (log(ratio / ratio_x) + t * (start + 0.5 * t))
    hazard = 1.0 / ratio_x
    slope = hazard * (hazard - x)
    t = t + error / (hazard + 0.5 * slope * error * ratio_x)
    x = start + t
    x = min(max(-x if negative else x, a), b)
    return -x if flipped else x
