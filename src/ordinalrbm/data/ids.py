"""Ids of users and items: the labels on sorted lists, and their positions there.

Integers are numbered by a table over their range where that is not mostly empty, anything else
once per distinct value; nothing wider than 8 bytes per rating is made on the way.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import as_column, factorise, shown
from ordinalrbm.data.scales import plain_categories
from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.runtime.blocks import BLOCK, each_block
from ordinalrbm.storage.reader import Stored

_FEW = 64  # labels that a service may ask for at once
Place = Callable[[int], str]  # where a row is, to begin an error message with


@dataclass(frozen=True, eq=False)
class Ids:
    """The labels of users or of items; a position on this list is what models see.

    Labels are distinct, int64 or str (dtype object), and in ascending order, so that they do not
    depend on the order of the ratings.

    Examples
    --------
    >>> ids = Ids(np.array(["anne", "carl"], dtype=object))
    >>> ids.lookup(["carl", "bert"])
    array([ 1, -1])
    >>> ids.take([0, 0]).tolist()
    ['anne', 'anne']
    """

    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: Any) -> bool:
        """Whether this is one of the ids.

        Examples
        --------
        >>> "anne" in Ids(np.array(["anne", "carl"], dtype=object))
        True
        """
        try:
            return bool(self._index.get_indexer([label])[0] >= 0)
        except (TypeError, ValueError):  # of another kind
            return False

    @property
    def is_text(self) -> bool:
        return self.labels.dtype.kind == "O"

    def lookup(self, labels: Any, what: str = "id") -> np.ndarray:
        """Positions (int64) of labels, -1 for unknown ones; text is not sought among integers."""
        few = self.few(labels)
        if few is not None:
            return few
        column = as_column(labels, f"The {what}s")
        if not len(column) or not len(self):
            return np.full(len(column), -1, dtype=np.int64)
        codes, distinct = number_ids(column, what)
        return self.match(distinct, what)[codes]

    def few(self, labels: Any) -> np.ndarray | None:
        """The same of a few plain ids in a list, at once; None if it must be looked at closely."""
        kind = str if self.is_text else int
        if type(labels) is not list or len(labels) > _FEW or not len(self):
            return None
        if any(type(label) is not kind for label in labels):
            return None
        return np.array([self._position(label) for label in labels], dtype=np.int64)

    def _position(self, label: Any) -> int:
        try:
            return int(self._index.get_loc(label))
        except KeyError:
            return -1

    def match(self, other: Ids, what: str = "id") -> np.ndarray:
        """Positions of another list's labels on this one, -1 for those that are unknown."""
        if self.is_text != other.is_text:
            kinds = ("text", "integers") if self.is_text else ("integers", "text")
            raise DataError(
                f"The {what}s known here are {kinds[0]}, such as {shown(self.labels[0])}, but "
                f"those asked for are {kinds[1]}, such as {shown(other.labels[0])}; convert them "
                "first."
            )
        return self._index.get_indexer(_index_of(other.labels)).astype(np.int64, copy=False)

    @cached_property
    def _index(self) -> pd.Index:
        return _index_of(self.labels)

    def take(self, positions: Any) -> np.ndarray:
        """The labels at these positions."""
        positions = np.asarray(positions)
        if positions.size and not (positions.min() >= 0 and positions.max() < len(self)):
            raise IndexError(
                f"Positions must lie between 0 and {len(self) - 1}, but range from "
                f"{positions.min()} to {positions.max()}."
            )
        return self.labels[positions.astype(np.int64, copy=False)]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays of numbers that say it all, for a model file.

        Examples
        --------
        >>> {name: a.tolist() for name, a in Ids(np.array(["a", "bc"], object)).to_arrays().items()}
        {'text': [97, 98, 99], 'end': [1, 3]}
        """
        if not self.is_text:
            return {"number": self.labels}
        encoded = [label.encode("utf-8", "surrogatepass") for label in self.labels]
        end = np.cumsum([len(label) for label in encoded], dtype=np.int64)
        return {"text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "end": end}

    @classmethod
    def from_stored(cls, stored: Stored) -> Ids:
        """The ids whose arrays `to_arrays` made, from a model file; at least one, all distinct."""
        if "number" in stored:
            labels = stored.checked_array("number", np.int64, (None,))
        else:
            labels = read_text(stored)
        if not len(labels) or len(pd.unique(labels)) < len(labels):
            raise DataError("its lists of users and items are empty or name somebody twice")
        return cls(labels)


def read_text(stored: Stored) -> np.ndarray:
    """Texts that stand one after the other, by their ends."""
    text = stored.checked_array("text", np.uint8, (None,)).tobytes()
    end = stored.checked_array("end", np.int64, (None,), 0, len(text))
    if not end.size or end[-1] != len(text) or (np.diff(end) < 0).any():
        raise DataError("the ends of its ids are not in order")
    places = pairwise([0, *end.tolist()])
    labels = [text[start:stop].decode("utf-8", "surrogatepass") for start, stop in places]
    return np.array(labels, dtype=object)


def number_ids(
    values: Any, what: str = "id", place: Place = "Row {} (counted from 0)".format
) -> tuple[np.ndarray, Ids]:
    """Number (int32) a column of ids, at least one, on the sorted list of the distinct ones.

    Examples
    --------
    >>> positions, ids = number_ids(["u", "w", "u"])
    >>> positions.tolist(), ids.labels.tolist()
    ([0, 1, 0], ['u', 'w'])
    """
    values = as_column(values, f"The {what}s")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        _check_64_bits(values, what)
    span = _dense_span(values)
    if span is not None:
        return _number_by_table(values, *span)
    if isinstance(values, pd.Categorical):
        codes, distinct = values.codes, np.array(plain_categories(values.categories), dtype=object)
    else:
        codes, distinct = factorise(values, f"The {what}s")
    if codes.min() < 0:
        raise DataError(
            f"{place(int((codes < 0).argmax()))}: the {what} is missing; drop such rows, for "
            "example with dropna(), or give each its id."
        )
    if isinstance(values, pd.Categorical):  # whose categories need not all occur
        codes, used = _number_by_table(codes, 0, len(distinct) - 1)
        distinct = distinct[used.labels]
    labels = _plain_ids(distinct, what, lambda k: place(int((codes == k).argmax())))
    order = np.argsort(labels, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return mapped(codes, rank), Ids(labels[order])


def factorize(values: Any) -> tuple[np.ndarray, int]:
    """Numbers of a column's distinct values, whatever they are, and how many there are.

    Examples
    --------
    >>> factorize(pd.Series([7, 9, 7]))[1]
    2
    """
    column = as_column(values, "The ids")
    span = _dense_span(column) if len(column) else None
    if span is not None:
        position, ids = _number_by_table(column, *span)
        return position, len(ids)
    codes, distinct = pd.factorize(column)
    return codes, len(distinct)


def _dense_span(values: Any) -> tuple[int, int] | None:
    """The least and the largest of integers, if a table over all between is not mostly empty."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        return None
    low, high = int(values.min()), int(values.max())
    return (low, high) if high - low <= len(values) + BLOCK and high < 2**63 else None


def _number_by_table(values: np.ndarray, low: int, high: int) -> tuple[np.ndarray, Ids]:
    present = np.zeros(high - low + 1, dtype=bool)

    def mark(block: slice) -> None:
        # Written to only once each: threads would wait for each other's writes.
        place = values[block].astype(np.int64) - low
        present[place[~present[place]]] = True

    each_block(mark, len(values))
    ids = Ids(np.flatnonzero(present) + low)
    if low == 0 and len(ids) == len(present):  # positions already
        return values.astype(np.int32, copy=False), ids
    rank = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return mapped(values, rank, low), ids


def mapped(codes: np.ndarray, table: np.ndarray, low: int = 0) -> np.ndarray:
    """``table[codes - low]``, without NumPy's copy of all codes to 64 bits."""
    out = np.empty(len(codes), dtype=table.dtype)

    def look_up(block: slice) -> None:
        out[block] = table[codes[block].astype(np.int64, copy=False) - low]

    each_block(look_up, len(codes))
    return out


def _plain_ids(distinct: np.ndarray, what: str, place: Place) -> np.ndarray:
    """Distinct ids as int64 or as objects that are str; `place` tells where the k-th occurs."""
    if distinct.dtype.kind in "iu":
        _check_64_bits(distinct, what)
        return distinct.astype(np.int64)
    if distinct.dtype.kind == "f":
        return _whole_ids(distinct, what, place)
    if distinct.dtype.kind not in "OU":
        raise _not_an_id(distinct[0], what, place(0))
    labels = distinct.astype(object)
    first = type(labels[0])
    for k, label in enumerate(labels):
        if isinstance(label, bool | np.bool_) or not isinstance(label, str | numbers.Real):
            raise _not_an_id(label, what, place(k))
        if isinstance(label, str) != issubclass(first, str):
            raise DataError(
                f"{place(k)}: this {what} is {'text' if isinstance(label, str) else 'a number'}, "
                f"while {labels[0]!r} is {'text' if issubclass(first, str) else 'a number'}; give "
                f"all {what}s one type, for example with astype(str)."
            )
    if issubclass(first, str):
        labels[:] = [str(label) for label in labels]  # NumPy's text is a type of its own
        return labels
    if all(isinstance(label, numbers.Integral) for label in labels):
        try:
            return labels.astype(np.int64)
        except OverflowError as error:
            raise _too_large(max(labels, key=abs), what) from error
    return _whole_ids(labels.astype(np.float64), what, place)


def _whole_ids(distinct: np.ndarray, what: str, place: Place) -> np.ndarray:
    """Integers that became floats on their way; beyond 2**53 floats do not tell them apart."""
    whole = np.isfinite(distinct) & (np.abs(distinct) < 2**53) & (distinct == np.round(distinct))
    if not whole.all():
        k = int(whole.argmin())
        raise DataError(
            f"{place(k)}: the {what} {float(distinct[k])!r} is not a whole number; give ids that "
            "are integers or text."
        )
    return distinct.astype(np.int64)


def _check_64_bits(values: np.ndarray, what: str) -> None:
    if values.dtype == np.uint64 and values.max() > np.iinfo(np.int64).max:
        raise _too_large(int(values.max()), what)


def _too_large(value: int, what: str) -> DataError:
    return DataError(
        f"The {what} {value} does not fit into 64 bits with a sign; make the {what}s text with astype(str)."
    )


def _not_an_id(value: Any, what: str, where: str) -> DataError:
    return DataTypeError(
        f"{where}: the {what} must be an integer or text, but {value!r} is of type "
        f"{type(value).__name__}; convert the {what}s, for example with astype(str)."
    )


def find(column: Any, known: Ids, what: str, place: Place) -> tuple[np.ndarray, Ids]:
    """Positions of a column's ids, the unknown ones numbered on, and those."""
    codes, distinct = number_ids(column, what, place)
    position = known.match(distinct, what) if len(known) else np.full(len(distinct), -1)
    unknown = np.flatnonzero(position < 0)
    position[unknown] = len(known) + np.arange(len(unknown))
    return mapped(codes, position.astype(np.int32)), Ids(distinct.labels[unknown])


def _index_of(labels: np.ndarray) -> pd.Index:
    if labels.dtype.kind == "i" and len(labels) > 1:
        first, last = int(labels[0]), int(labels[-1])
        # Looked up by arithmetic, without a hash table. Ids that came later need not be in order.
        if last - first == len(labels) - 1 and (np.diff(labels) == 1).all():
            return pd.RangeIndex(first, last + 1)
    return pd.Index(labels, dtype=labels.dtype)
