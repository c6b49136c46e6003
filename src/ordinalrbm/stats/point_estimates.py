"""From a distribution over levels to one number: its mean, mode or median, a log probability, a surprise."""

from typing import Literal

import numpy as np

Rule = Literal["mean", "mode", "median"]
# A probability is never quite zero: one answer that a model thought impossible must not turn the
# mean log probability of a million others into minus infinity.
SMALLEST_PROBABILITY = 1e-12
_ROUNDING = 1e-9  # 0.1 + 0.2 + 0.2 is a half, whatever its last digit


def point(distribution: np.ndarray, rule: Rule, values: np.ndarray | None = None) -> np.ndarray:
    """Return one prediction per distribution: a level, counted from 0, or a number.

    The mean minimises the squared error, the median the absolute error, the mode the number of
    misses. The median is the smallest level whose cumulative probability reaches one half (within
    1e-9, for rounding); the mode is the smallest of the most probable levels. Distributions are
    (..., L), and ``values`` (L,) those of which "mean" is the mean, by default the levels.
    """
    if rule == "mode":
        return distribution.argmax(axis=-1)
    if rule == "median":
        return (np.cumsum(distribution, axis=-1)[..., :-1] < 0.5 - _ROUNDING).sum(axis=-1)
    return distribution @ (np.arange(distribution.shape[-1]) if values is None else values)


def log_of_level(distribution: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the log probability of a level under each distribution, at least log(1e-12)."""
    chosen = np.take_along_axis(distribution, level.astype(np.intp)[:, None], axis=1)[:, 0]
    return np.log(np.maximum(chosen, SMALLEST_PROBABILITY))


# ---- whether a person's answers go together -----------------------------------------------------


def surprise(distribution: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log probability of each level less what was to be expected of it, and its variance.

    Sums of the first over √ sums of the second are l_z (Drasgow, Levine and Williams 1985).
    """
    chance = np.maximum(distribution, SMALLEST_PROBABILITY)
    logs = np.log(chance)
    expected = (chance * logs).sum(axis=1)
    return log_of_level(chance, level) - expected, (chance * logs**2).sum(axis=1) - expected**2


def longest_runs(levels: np.ndarray, n_levels: np.ndarray) -> np.ndarray:
    """(rows,) the longest run of the same level in neighbouring columns on scales of the same length.

    Levels are (rows, columns), −1 where there is no answer, which ends a run.
    """
    longest = current = (levels[:, :1] >= 0).sum(axis=1)
    for i in range(1, levels.shape[1]):
        is_same = (levels[:, i] == levels[:, i - 1]) & (n_levels[i] == n_levels[i - 1])
        current = np.where(levels[:, i] < 0, 0, np.where(is_same, current + 1, 1))
        longest = np.maximum(longest, current)
    return longest
