"""Ends of a cell's levels when row and column both have a say.

The first threshold is the sum of a number of the column and one of the row; every inner level is as
wide as the product of their widths. That stands here in three forms: of the logarithms that are
learnt, of the widths, and of tables made for a whole pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.runtime.jit import inlined


@inlined
def width(column_steps: Any, row_steps: Any, level: Any) -> Any:
    """Width of an inner level, of logarithms; level 0 and the last have none."""
    return np.exp(column_steps[level] + row_steps[level])


@inlined
def of_level(column_steps: Any, row_steps: Any, level: Any) -> Any:
    """Lower and upper end of a level, of logarithms.

    The last level of a shorter scale has no upper end, which only the caller knows.
    """
    low, high = -np.inf, column_steps[0] + row_steps[0]
    for m in range(1, level + 1):
        low = high
        if m < column_steps.size:
            high += width(column_steps, row_steps, m)
    return low, high


@inlined
def of_level_in_widths(column_widths: Any, row_widths: Any, level: Any) -> Any:
    """The same of widths themselves, their first one to be added."""
    low, high = -np.inf, column_widths[0] + row_widths[0]
    for m in range(1, level + 1):
        low = high
        if m < column_widths.size:
            high += column_widths[m] * row_widths[m]
    return low, high


@inlined
def of_level_in_table(column_ends: Any, row_widths: Any, level: Any) -> Any:
    """The same of a column's ends, from −∞ to ∞, and a row's widths, its first one to be added."""
    low, high = -np.inf, column_ends[1] + row_widths[0]
    for m in range(1, level + 1):
        low = high
        high += row_widths[m] * (column_ends[m + 1] - column_ends[m])
    return low, high
