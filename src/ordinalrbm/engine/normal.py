"""Scalar functions of the CPU kernels, written so that a loop over answers becomes vector code.

Nothing here branches or calls a library: polynomials, divisions, selects and bit operations only,
which LLVM turns into NEON, AVX2 or AVX-512 code alike. The functions come in two precisions.
:data:`double` is right to about 1e-9, judged against :mod:`ordinalrbm.engine.normal_reference` and
mpmath. :data:`single` computes twice as many answers at a time and is right to about 5e-6 for
intervals that are not narrow or far out (``is_accurate``); the kernels compute all answers by it, and
the few others again by the other.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ordinalrbm.runtime.jit import inlined

LN2 = 0.6931471805599453
LOG2E = 1.4426950408889634
LOG_ROOT_2PI = 0.9189385332046727
INVERSE_ROOT_2PI = 0.3989422804014327
# (exp(r) − 1 − r)/r² as a polynomial, from the highest coefficient.
EXP = tuple(1 / n for n in (39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2))
# (1 + x/2) R(x) as a polynomial in (x − s)/(x + s): Chebyshev interpolation. With s = 4.5 the error
# is 6e-10, with s = 3.75 and fewer terms 3e-7.
MILLS = (
    0.6908543864366039,
    -0.3138297327468176,
    0.18121486946598855,
    -0.07370758984679993,
    0.012690995518270992,
    0.008118737077485375,
    -0.00797028444235134,
    0.003049786822912488,
    -0.00021722341594520856,
    -0.00030748817175794816,
    9.547296082246178e-05,
    1.9218529765401226e-05,
    -1.1148245821130589e-05,
)
_MILLS_SINGLE = (
    0.720938195401399,
    -0.34575980408530665,
    0.1671234676534109,
    -0.042365313606423885,
    -0.008320487422843467,
    0.012050997150914554,
    -0.003533761152635395,
    -0.000583025591515481,
    0.0004498891544774646,
)
# |x|/√l as a polynomial in l/(l + 4), l = −log 4u(1 − u), for x = Φ⁻¹(u); to 1.3e-6 relative.
NORMAL = (
    1.2533126342613605,
    0.0593872071623592,
    0.046326447980398526,
    0.1003996929827361,
    -0.2604473970156892,
    0.6978755254278348,
    -0.8454553421997139,
    0.3591750585834674,
)


# The functions in one precision, for numbers of that type alone.
Functions = namedtuple(
    "Functions",
    "exp_and_complement log mills_ratio is_accurate logistic standard_normal interval edge_densities "
    "mass log_mass truncated_draw",
)


class _Format(NamedTuple):
    real: type
    integer: type
    bits_of: Callable  # the bits of a real number as an integer
    from_bits: Callable
    mantissa_bits: int
    exponent_bias: int
    root_half_bits: int  # of 1/√2
    rounder: float  # adding and subtracting it rounds to an integer without a function call
    ln2_parts: tuple[float, float]  # the first has so few bits that its multiples are exact
    lowest_exponent: float
    tiny: float
    infinity: float  # stands for it as the bound of an interval
    narrow: float  # an interval that is narrower, or further out, has lost too many digits
    far: float
    least: float  # width of an interval, next to its distance from zero, that still has a mass
    exp: tuple[float, ...]  # coefficients of (exp(r) − 1 − r)/r², from the highest
    log: tuple[float, ...]  # coefficients of log((1 + s)/(1 − s)) in odd powers, from the highest
    mills_shift: float
    mills: tuple[float, ...]


def _bitcast(real: type, integer: type) -> tuple[Callable, Callable]:
    """Two instructions: the bits of a real number as an integer, and back."""
    if getattr(numba.config, "DISABLE_JIT", False):  # intrinsics do not run in plain Python
        return lambda value: real(value).view(integer), lambda bits: integer(bits).view(real)

    def instruction(target, result):
        def typer(typing_context, value):
            def generate(context, builder, signature, arguments):
                return builder.bitcast(arguments[0], target)

            return result(value), generate

        return intrinsic(typer)

    if real is np.float64:
        return instruction(ir.IntType(64), types.int64), instruction(ir.DoubleType(), types.float64)
    return instruction(ir.IntType(32), types.int32), instruction(ir.FloatType(), types.float32)


_DOUBLE = _Format(
    np.float64,
    np.int64,
    *_bitcast(np.float64, np.int64),
    mantissa_bits=52,
    exponent_bias=1023,
    root_half_bits=0x3FE6A09E667F3BCD,
    rounder=6755399441055744.0,
    ln2_parts=(0.693147180369123816490, 1.90821492927058770002e-10),
    lowest_exponent=-700.0,
    tiny=1e-300,
    infinity=1e6,
    narrow=1e-6,
    far=1e5,
    least=1e-12,
    exp=EXP,
    log=tuple(2 / n for n in (15, 13, 11, 9, 7, 5, 3)),
    mills_shift=4.5,
    mills=MILLS,
)
_SINGLE = _Format(
    np.float32,
    np.int32,
    *_bitcast(np.float32, np.int32),
    mantissa_bits=23,
    exponent_bias=127,
    root_half_bits=0x3F3504F3,
    rounder=12582912.0,
    ln2_parts=(0.693359375, -2.12194440e-4),
    lowest_exponent=-80.0,
    tiny=1e-30,
    infinity=1e4,
    narrow=0.2,
    far=7.0,
    least=1e-6,
    exp=EXP[4:],
    log=tuple(2 / n for n in (9, 7, 5, 3)),
    mills_shift=3.75,
    mills=_MILLS_SINGLE,
)
# R(0) as the polynomial has it, so that differences at zero are exactly zero.
MILLS_0 = float(np.polynomial.polynomial.polyval(-1.0, MILLS))


def polynomial(real: type, coefficients: tuple[float, ...]) -> Callable:
    """A function of x by Horner's rule; coefficients from the highest."""
    first, *others = (real(c) for c in coefficients)
    rest = tuple(others)

    @inlined
    def horner(x):
        value = first
        for c in rest:
            value = value * x + c
        return value

    return horner


def _elementary(form: _Format) -> tuple[Callable, Callable, Callable]:
    real, integer, bits_of, from_bits = form[:4]
    mantissa_bits, exponent_bias = integer(form.mantissa_bits), integer(form.exponent_bias)
    root_half_bits = integer(form.root_half_bits)
    rounder, lowest, shift = real(form.rounder), real(form.lowest_exponent), real(form.mills_shift)
    log2e, ln2, ln2_high, ln2_low = (real(x) for x in (LOG2E, LN2, *form.ln2_parts))
    zero, half, one, two = (real(x) for x in (0.0, 0.5, 1.0, 2.0))
    of_exp, of_log, of_mills = (polynomial(real, c) for c in (form.exp, form.log, form.mills[::-1]))
    single = real is np.float32

    @inlined
    def exp_and_complement(x):
        """Exp(x) and 1 − exp(x) for x ≤ 0, each to its own relative accuracy.

        Below −700 as at −700; in float32 below −80 they are 0 and 1.
        """
        none = single & (x < lowest)
        x = max(x, lowest)
        shifted = x * log2e + rounder
        n = shifted - rounder
        r = (x - n * ln2_high) - n * ln2_low
        p = (of_exp(r) * r) * r + r
        scale = from_bits(integer((bits_of(shifted) + exponent_bias) << mantissa_bits))
        scale = zero if none else scale
        part = scale * p
        return scale + part, (one - scale) - part

    @inlined
    def log(x):
        bits = bits_of(x)
        # Split so that the mantissa lies around one: x = 2^e · m, m in [1/√2, √2).
        exponent = integer((bits - root_half_bits) >> mantissa_bits)
        m = from_bits(integer(bits - (exponent << mantissa_bits)))
        s = (m - one) / (m + one)
        z = s * s
        p = (of_log(z) * z) * s + two * s
        return p + real(exponent) * ln2

    @inlined
    def mills_ratio(x):
        """(1 − Φ(x))/φ(x) for 0 ≤ x < 1e150, in float32 for 0 ≤ x ≤ 1e4."""
        wide = one + half * x
        inverse = one / ((x + shift) * wide)
        k = (x - shift) * (wide * inverse)
        return of_mills(k) * ((x + shift) * inverse)

    return exp_and_complement, log, mills_ratio


def _functions(form: _Format) -> Functions:
    real = form.real
    exp_and_complement, log, mills_ratio = elementary = _elementary(form)
    of_normal = polynomial(real, NORMAL[::-1])
    zero, quarter, third, half, one, two, four, tenth = (
        real(x) for x in (0.0, 0.25, 1 / 3, 0.5, 1.0, 2.0, 4.0, 0.1)
    )
    tiny, infinity = real(form.tiny), real(form.infinity)
    narrow, far, least = real(form.narrow), real(form.far), real(form.least)
    mills_0 = real(np.polynomial.polynomial.polyval(-1.0, form.mills))
    inverse_root_2pi, log_root_2pi = real(INVERSE_ROOT_2PI), real(LOG_ROOT_2PI)
    single = real is np.float32

    @inlined
    def is_accurate(lower, upper):
        """Whether an interval is wide enough and near enough for this precision.

        If it is narrow, its mass is a small difference of numbers of size one; far out, the spacing
        of numbers is not small against the length over which the density falls.
        """
        near = (lower < far) & (upper > -far)
        return near & (upper - lower > narrow)

    @inlined
    def logistic(x):
        e, _ = exp_and_complement(-abs(x))
        low = e / (one + e)
        return low if x < zero else one - low

    @inlined
    def standard_normal(u):
        """Φ⁻¹(u): |x|/√l is a polynomial in l/(l + 4), l = −log 4u(1 − u)."""
        r = u - half
        square = four * r * r
        length = -log(max(one - square, tiny))
        if single:  # −log(1 − y) by its series where the difference would round
            series = square * (one + square * (half + square * (third + square * quarter)))
            length = series if square < tenth else length
        else:
            length = max(length, square)  # log(1 − y) rounds to zero before y does
        k = length / (length + four)
        x = np.sqrt(length) * of_normal(k)
        return -x if r < zero else x

    @inlined
    def interval(lower, upper):
        """Mirror (lower, upper] so that its middle is not negative, and measure it.

        Returns flipped; the inner bound a and the outer bound b (a large number stands for
        infinity); the density at a and at b, the fall 1 − density(b)/density(a), R(|a|) and the
        mass. Densities and mass are in units of the density at max(a, 0), so that nothing
        underflows.
        """
        flipped = lower + upper < zero
        a = max(-upper if flipped else lower, -infinity)
        b = min(-lower if flipped else upper, infinity)
        if not single:  # bounds that meet, or lie beyond infinity, enclose next to nothing
            b = max(b, a + least * (one + abs(a)))
        inside = a < zero
        inner, _ = exp_and_complement(-half * a * a)
        at_a = inner if inside else one
        ratio, fall = exp_and_complement(-half * (b - a) * (b + a))
        if not single:  # zero at infinity: products of next to nothing are slow
            at_a = zero if a == -infinity else at_a
            ratio = zero if b == infinity else ratio
        at_b = at_a * ratio
        mills_a = mills_ratio(abs(a))
        near = two * mills_0 - at_a * mills_a if inside else mills_a
        mass = near - at_b * mills_ratio(b)
        if single:  # what is not accurate need not be right, but must not be NaN
            mass = max(mass, tiny)
        return flipped, a, b, at_a, at_b, fall, mills_a, mass

    @inlined
    def edge_densities(lower, upper):
        """Density of the truncated standard normal at its lower and upper bound, and its mean.

        The mean is the difference of the two, taken without cancellation.
        """
        flipped, _, _, at_a, at_b, fall, _, mass = interval(lower, upper)
        scale = one / mass
        inner = at_a * scale
        outer = at_b * scale
        mean = inner * fall
        low = outer if flipped else inner
        high = inner if flipped else outer
        return low, high, (-mean if flipped else mean)

    @inlined
    def mass(lower, upper):
        _, a, _, _, _, _, _, scaled = interval(lower, upper)
        start = max(a, zero)
        height, _ = exp_and_complement(-half * start * start)
        return scaled * height * inverse_root_2pi

    @inlined
    def log_mass(lower, upper):
        """Log of Φ(upper) − Φ(lower), to about 1e-9 absolute."""
        _, a, _, _, _, _, _, scaled = interval(lower, upper)
        start = max(a, zero)
        return log(scaled) - half * start * start - log_root_2pi

    @inlined
    def truncated_draw(lower, upper, u):
        """Inversion of the truncated distribution function, accurate to about 1e-6 of the mass.

        Right of zero, the logarithm of the survival function has nearly linear slope λ = 1/R: solve
        with that slope, then correct once by Halley's method. An interval that contains zero is
        split there, so that this covers everything.
        """
        flipped, a, b, at_a, _, _, mills_a, mass = interval(lower, upper)
        share = one - u if flipped else u
        inside = a < zero
        start = max(a, zero)
        ratio = mills_0 if inside else mills_a
        left = mills_0 - at_a * mills_a if inside else zero
        part = share * mass - left
        negative = part < zero
        hazard = one / ratio
        # How much of the mass beyond the start is used up, as a drop of the log survival function.
        used = abs(part) * hazard if single else abs(part) / ratio
        drop = -log(max(one - used, tiny))
        slope = hazard * (hazard - start)
        t = two * drop / (hazard + np.sqrt(hazard * hazard + two * slope * drop))
        x = start + t
        ratio_x = mills_ratio(x)
        error = drop - (log(ratio / ratio_x) + t * (start + half * t))
        if single:  # the same with one division less
            t = t + error * ratio_x / (one + half * (one - x * ratio_x) * error)
        else:
            hazard = one / ratio_x
            slope = hazard * (hazard - x)
            t = t + error / (hazard + half * slope * error * ratio_x)
        x = start + t
        x = min(max(-x if negative else x, a), b)
        return -x if flipped else x

    others = logistic, standard_normal, interval, edge_densities, mass, log_mass, truncated_draw
    return Functions(*elementary, is_accurate, *others)


double = _functions(_DOUBLE)
single = _functions(_SINGLE)


@inlined
def next_inaccurate(lower, upper, e, n):
    """The next of n intervals, from e on, that float32 is not accurate for; n if there is none.

    As a branch in a loop over all intervals, LLVM would compute every one of them in float64 as well.
    """
    while e < n and single.is_accurate(np.float32(lower[e]), np.float32(upper[e])):
        e += 1
    return e
