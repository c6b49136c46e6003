"""Categories of nominal questions in kernels: neighbours in a row, of which one is chosen.

P(category l) is proportional to exp(mean_l), where the means are those that the columns of the
categories have given the factors.
"""

from __future__ import annotations

import numpy as np

from ordinalrbm.engine.side import NUMBER
from ordinalrbm.runtime.jit import inlined


@inlined
def log_sum(mean, first, n):
    """Logarithm of the sum of exponentials of n means, the first of them at a place."""
    largest = mean[first]
    for e in range(first + 1, first + n):
        largest = max(largest, mean[e])
    total = 0.0
    for e in range(first, first + n):
        total += np.exp(mean[e] - largest)
    return largest + np.log(total)


@inlined
def expect(mean, first, n, utility):
    """Replace the utilities of n categories by their probabilities."""
    whole = log_sum(mean, first, n)
    for e in range(first, first + n):
        utility[e] = np.exp(mean[e] - whole)


@inlined
def draw(mean, first, n, uniform, utility):
    """Draw one of n categories: its utility is one, that of the others zero."""
    whole = log_sum(mean, first, n)
    rest, chosen = uniform, n - 1
    for c in range(n):
        rest -= np.exp(mean[first + c] - whole)
        if rest < 0.0:
            chosen = c
            break
    for c in range(n):
        utility[first + c] = 1.0 if c == chosen else 0.0


@inlined
def known_utility(side, entry):
    """Utility of a number, beyond what the row adds to it, or whether a category was chosen."""
    value = np.float64(side.known[entry])
    i = side.column[entry]
    if side.members[i] == NUMBER:
        value *= side.thresholds[i, 1]
        if side.shift.size > 0:
            value -= np.float64(side.shift[entry])
    return value


@inlined
def is_known(side, entry):
    return not np.isnan(side.known[entry])


@inlined
def has_kinds(side):
    """Whether there are columns that are no ordered scales."""
    return side.members.size > 0
