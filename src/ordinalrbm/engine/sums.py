"""Sums over factors, part of every kernel that calls them.

In the type of what is summed: float32 of float32 factors, float64 if one of both is.
"""

from __future__ import annotations

import numpy as np

from ordinalrbm.runtime.jit import inlined_sum


@inlined_sum
def dot(a, b):
    """Scalar product."""
    total = np.float32(0.0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@inlined_sum
def add_scaled(target, scale, source):
    """Add a multiple of one array to another."""
    for k in range(target.size):
        target[k] += scale * source[k]
