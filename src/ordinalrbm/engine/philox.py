"""Random numbers as counters: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011).

A draw is a function of *which* draw it is: (seed; row, block within the row, sweep, purpose). It
does not depend on the thread, the batch or the process that asks for it, so chains are the same
on any number of threads, and a run that was interrupted can go on as if it had not been.

:func:`philox` works on NumPy arrays as it stands, and is compiled for the kernels as
:data:`compiled_philox`; both give the same 32-bit words.
"""

import enum

import numpy as np
from numpy.typing import ArrayLike

from ordinalrbm.runtime.jit import inlined


class Purpose(enum.IntEnum):
    """What a block of random words is for; the last counter word's low byte."""

    CLAMPED_UTILITY = 1
    CLAMPED_FACTOR = 2
    FREE_UTILITY = 3
    FREE_FACTOR = 4
    INITIAL_FACTOR = 5
    ANSWER = 6
    STYLE = 7
    UTILITY = 8
    FACTOR = 9
    WIDTH = 10
    WEIGHT = 11
    ROW_NOISE = 12


_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)

# Ten rounds, the number for which the generator passes BigCrush with a margin.
ROUNDS = 10


def philox(c0, c1, c2, c3, key0, key1):
    """Four random 32-bit words, held in uint64, for a counter of four words and a key of two.

    Examples
    --------
    >>> zero = np.uint64(0)
    >>> [f"{int(word):08x}" for word in philox(zero, zero, zero, zero, zero, zero)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    for _ in range(ROUNDS):
        product0 = c0 * _MULTIPLIER_0
        product1 = c2 * _MULTIPLIER_1
        c0 = (product1 >> _SHIFT) ^ c1 ^ key0
        c1 = product1 & _LOW
        c2 = (product0 >> _SHIFT) ^ c3 ^ key1
        c3 = product0 & _LOW
        key0 = (key0 + _WEYL_0) & _LOW
        key1 = (key1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


def uniforms(
    seed: int, row: ArrayLike, position: ArrayLike, sweep: int, purpose: int, step: int
) -> np.ndarray:
    """Uniform numbers in (0, 1) for the given rows and positions (arrays that broadcast).

    Four neighbouring positions of a row share a block of the generator. This is the plain form;
    the compiled engine makes the same numbers block by block.
    """
    row, position = np.broadcast_arrays(np.asarray(row), np.asarray(position))
    zeros = np.zeros(row.shape, dtype=np.uint64)
    words = np.stack(
        philox(
            row.astype(np.uint64),
            position.astype(np.uint64) >> np.uint64(2),
            zeros + np.uint64(sweep),
            zeros + np.uint64(stream(purpose, step)),
            *split_seed(seed),
        )
    )
    word = np.take_along_axis(words, (position & 3)[None].astype(np.intp), axis=0)[0]
    return (word.astype(np.float64) + 0.5) * 2.0**-32


def split_seed(seed: int) -> tuple[np.uint64, np.uint64]:
    """Two 32-bit key words of a 64-bit seed."""
    return np.uint64(seed & 0xFFFFFFFF), np.uint64((seed >> 32) & 0xFFFFFFFF)


def stream(purpose: int, step: int) -> int:
    """Last counter word: the purpose and, above it, the number of the Gibbs step."""
    return int(purpose) | (step << 8)


compiled_philox = inlined(philox)


@inlined
def uniform(word):
    """Uniform number in (0, 1), bounds excluded, from a 32-bit word held in uint64."""
    return (np.float64(np.int64(word)) + 0.5) * 2.3283064365386963e-10


@inlined
def fill_uniforms(out, n, row, sweep, stream, key0, key1):
    """Fill out[:n] (and up to three places beyond) with the uniform numbers of a row."""
    for block in range((n + 3) // 4):
        w0, w1, w2, w3 = compiled_philox(
            np.uint64(row), np.uint64(block), sweep, np.uint64(stream), key0, key1
        )
        out[4 * block] = uniform(w0)
        out[4 * block + 1] = uniform(w1)
        out[4 * block + 2] = uniform(w2)
        out[4 * block + 3] = uniform(w3)
