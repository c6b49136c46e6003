"""Whether a person's answers go together: what is computed from their distributions, and from runs."""

import numpy as np

from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY, log_of_level


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
