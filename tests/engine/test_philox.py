"""The counter-based generator against published known answers and against uniformity."""

import itertools

import numba
import numpy as np
import pytest

from ordinalrbm.engine.philox import Purpose, compiled_philox, philox, split_seed, stream, uniform, uniforms
from ordinalrbm.runtime.jit import FUSED

# philox4x32-10 of Random123's kat_vectors: four counter words, two key words, four answers.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@numba.njit(error_model="numpy", fastmath=FUSED)
def compiled_words(counters, keys, out):
    for n in range(counters.shape[0]):
        out[n] = compiled_philox(
            counters[n, 0], counters[n, 1], counters[n, 2], counters[n, 3], keys[n, 0], keys[n, 1]
        )


@numba.njit(error_model="numpy", fastmath=FUSED)
def compiled_uniforms(words, out):
    for n in range(words.size):
        out[n] = uniform(words[n])


def words_of(text):
    return np.array([int(word, 16) for word in text.split()], dtype=np.uint64)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(counter, key, answer):
    counter, key, answer = words_of(counter), words_of(key), words_of(answer)
    assert np.array_equal(philox(*counter, *key), answer)
    out = np.empty((1, 4), dtype=np.uint64)
    compiled_words(counter[None], key[None], out)
    assert np.array_equal(out[0], answer)


def test_compiled_words_equal_numpy_words():
    generator = np.random.default_rng(1)
    counters = generator.integers(0, 2**32, (20_000, 4), dtype=np.uint64)
    keys = generator.integers(0, 2**32, (20_000, 2), dtype=np.uint64)
    out = np.empty((20_000, 4), dtype=np.uint64)
    compiled_words(counters, keys, out)
    assert np.array_equal(out, np.stack(philox(*counters.T, *keys.T), axis=1))


def test_words_become_numbers_strictly_between_zero_and_one():
    """The smallest and the largest word are the ones that could round to an end."""
    words = np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint64)
    out = np.empty(words.size)
    compiled_uniforms(words, out)
    assert np.array_equal(out, (words.astype(np.float64) + 0.5) / 2**32)
    assert 0 < out[0] < out[-1] < 1


def test_uniforms_are_the_words_of_the_documented_counter():
    """Position p of a row is word p mod 4 of block p div 4, under the row, sweep and stream."""
    seed = 0x1234_5678_9ABC_DEF0
    got = uniforms(seed, 77, np.arange(9), 5, Purpose.FREE_FACTOR, 3)
    key = (0x9ABC_DEF0, 0x1234_5678)
    assert tuple(int(word) for word in split_seed(seed)) == key
    assert stream(Purpose.FREE_FACTOR, 3) == 4 + 3 * 256
    blocks = [philox(*np.array([77, block, 5, 4 + 3 * 256, *key], dtype=np.uint64)) for block in range(3)]
    expected = (np.array(blocks, dtype=np.float64).ravel()[:9] + 0.5) / 2**32
    assert np.array_equal(got, expected)


def test_neighbouring_draws_are_uncorrelated():
    u = uniforms(11, np.arange(400)[:, None], np.arange(400), 0, Purpose.CLAMPED_UTILITY, 0)
    z = (u - 0.5) * np.sqrt(12)
    shifted = {
        "row": (z[1:], z[:-1]),
        "position": (z[:, 1:], z[:, :-1]),
        "block": (z[:, 4:], z[:, :-4]),
        "both": (z[1:, 1:], z[:-1, :-1]),
    }
    for name, (x, y) in shifted.items():
        assert abs((x * y).sum() / np.sqrt(x.size)) < 4, name


def test_every_part_of_the_name_makes_other_draws():
    """Any two names that differ in one or more parts share no number."""
    rows, positions = np.arange(40)[:, None], np.arange(20)
    names = list(itertools.product([0, 1, 2**40], [0, 1, 9], list(Purpose), [0, 1, 255]))
    draws = [uniforms(seed, rows, positions, sweep, purpose, step) for seed, sweep, purpose, step in names]
    values = np.concatenate([draw.ravel() for draw in draws])
    # 129,600 words out of 2**32 collide about twice by chance; shared streams would by hundreds.
    assert values.size - np.unique(values).size < 12


def test_uniforms_do_not_depend_on_how_they_are_asked_for():
    def ask(row, position):
        return uniforms(5, row, position, 2, Purpose.CLAMPED_FACTOR, 7)

    whole = ask(np.arange(30)[:, None], np.arange(13))
    by_row = np.stack([ask(row, np.arange(13)) for row in range(30)])
    by_position = np.stack([ask(np.arange(30), position) for position in range(13)], axis=1)
    order = np.random.default_rng(2).permutation(whole.size)
    row, position = np.divmod(order, 13)
    assert np.array_equal(whole, by_row)
    assert np.array_equal(whole, by_position)
    assert np.array_equal(whole.ravel()[order], ask(row, position))
    assert float(ask(17, 6)) == whole[17, 6]
