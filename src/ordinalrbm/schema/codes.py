"""Codes: the values that stand in a file, written one way whatever type they were stored in."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.schema.schema import Code

Missing = Code | tuple[float, float]  # a code, or a range of codes with both ends


def plain_code(value: Any) -> Code | None:
    """A value as a code: 2.0 and True are whole numbers, blanks around text do not count.

    Gives None for what is no code: nothing, NaN, empty text, a date, a list.

    Examples
    --------
    >>> plain_code(2.0), plain_code(0.5), plain_code(" never "), plain_code(float("nan"))
    (2, 0.5, 'never', None)
    """
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool | np.bool_):
        return int(value)
    if not isinstance(value, numbers.Real | Decimal) or pd.isna(value):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    number = float(value)
    return int(number) if number.is_integer() else number


def count_codes(values: pd.Series) -> dict[Code, int]:
    """How often each code stands in a column, by first appearance; values that are none are left.

    Examples
    --------
    >>> count_codes(pd.Series([2.0, None, 1.0, 2.0]))
    {2: 2, 1: 1}
    """
    position, codes = factorise_codes(values)
    counts = np.bincount(position[position >= 0], minlength=len(codes))
    return dict(zip(codes, counts.tolist(), strict=True))


def factorise_codes(values: pd.Series) -> tuple[np.ndarray, list[Code]]:
    """For each row the position of its code among the distinct ones (-1 for none), and these."""
    position, distinct = pd.factorize(values)
    if isinstance(distinct, pd.CategoricalIndex):
        distinct = distinct.astype(object)
    known: dict[Code, int] = {}
    of_distinct = np.full(len(distinct) + 1, -1, dtype=np.int64)  # the last one is for -1
    for k, value in enumerate(distinct.tolist()):
        code = plain_code(value)
        if code is not None:
            of_distinct[k] = known.setdefault(code, len(known))
    return of_distinct[position], list(known)


def as_number(code: Code) -> float | None:
    """The number that a code is or that its text says.

    Examples
    --------
    >>> as_number("07"), as_number(3), as_number("seven")
    (7.0, 3.0, None)
    """
    if not isinstance(code, str):
        return float(code)
    try:
        number = float(code)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def alike(code: Code) -> Code:
    """What spellings of one code share: the number, or the text without case and extra blanks.

    Examples
    --------
    >>> alike("01") == alike(1) == alike("1.0"), alike("Very  good") == alike("very good")
    (True, True)
    """
    if not isinstance(code, str):
        return code
    try:
        return int(code)  # exact where ids are longer than a float can hold
    except ValueError:
        number = as_number(code)
    return " ".join(code.casefold().split()) if number is None else number


def position_finder(codes: Iterable[Code]) -> Callable[[Code], int]:
    """Finds where a code stands in a list: as it is written, or else in another spelling, or -1.

    Examples
    --------
    >>> find = position_finder(["never", "1"])
    >>> find("Never"), find(1), find("often")
    (0, 1, -1)
    """
    written: dict[Code, int] = {}
    spelt: dict[Code, int] = {}
    for position, code in enumerate(codes):
        written.setdefault(code, position)
        spelt.setdefault(alike(code), position)
    return lambda code: written.get(code, spelt.get(alike(code), -1))


def is_among(code: Code, missing: Iterable[Missing]) -> bool:
    """Whether a code is one of these or lies in one of these ranges.

    Examples
    --------
    >>> is_among(-5, [99, (-9.0, -1.0)]), is_among("x", [(-9.0, -1.0)])
    (True, False)
    """
    for entry in missing:
        if isinstance(entry, tuple):
            if not isinstance(code, str) and entry[0] <= code <= entry[1]:
                return True
        elif code == entry:
            return True
    return False
