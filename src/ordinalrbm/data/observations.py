"""Observations: the answers of a table as integer levels and index arrays.

This is the one in-memory form that models, engines and samplers see. It holds only what was
answered, once by rows and, when asked for, once by columns; 5 bytes per answer for the row view
and 8 for the column view, so that a large survey fits beside its own model.

Kernels fill its arrays, in loops because NumPy would need temporaries of 8 bytes and more per
answer for the same work (``nonzero``, ``argsort``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.blocks import MANY, each, each_block, over_rows
from ordinalrbm.runtime.jit import allocating_function, allocating_kernel, compiled
from ordinalrbm.runtime.process_group import Alone, Group
from ordinalrbm.runtime.threads import thread_count
from ordinalrbm.storage.reader import Stored

# Larger weights would leave nothing of other answers in sums of float32; smaller ones count as zero.
LARGEST_WEIGHT, LEAST_WEIGHT = 1e6, 1e-30
# Runs that are sorted by insertion before they are merged; longer rows are sorted by their digits.
_SORTED_BY_INSERTION, _SORTED_BY_MERGING = 16, 512


class Cells(NamedTuple):
    """Cells of a matrix and, where it is known, their level; a position of -1 is unknown."""

    row: np.ndarray
    column: np.ndarray
    level: np.ndarray

    def at(self, which: Any) -> Cells:
        return Cells(*(part[which] for part in self))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnView:
    """The same answers, column by column and by row within a column."""

    column_start: np.ndarray  # int64; column j has column_start[j]:column_start[j + 1]
    row: np.ndarray  # int32
    entry: np.ndarray  # where the row view holds the same answer; int32, int64 beyond 2**31 answers


@dataclass(frozen=True, eq=False)
class Observations:
    """Answers by rows, made by a `from_` constructor; the arrays are not to be written to.

    Examples
    --------
    >>> obs = Observations.from_dense([[0, -1, 2], [-1, -1, 1]], n_levels=3)
    >>> obs.n_entries, obs.density
    (3, 0.5)
    >>> columns, levels = obs.row(0)
    >>> columns.tolist(), levels.tolist()
    ([0, 2], [0, 2])
    >>> obs.column_view.row.tolist()
    [0, 0, 1]
    """

    row_start: np.ndarray  # int64; row d has row_start[d]:row_start[d + 1]
    column: np.ndarray  # int32, of each answer, ascending within a row
    level: np.ndarray  # from 0; int8, int16 when a scale has more than 127 levels
    n_levels: np.ndarray  # int32, of each column's scale
    # Kinds of columns and covariates of rows, which only answers to surveys have: questionnaire.Answers.
    kind = np.zeros(0, dtype=np.int8)
    covariates = np.zeros((0, 0), dtype=np.float32)
    # What is added to the mean utility of each answer, (entries,) float32; nothing if it is empty.
    offset = np.zeros(0, dtype=np.float32)
    # How many times each answer counts, (entries,) float32 above zero; once if it is empty.
    weight = np.zeros(0, dtype=np.float32)
    _transposed: Observations | None = field(default=None, init=False, repr=False)
    # Whether that is kept once it is made: of what is learnt from, which is seen by rows and by
    # columns again and again.
    _keeps_transposed: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        bounds = (self.row_start[0], self.row_start[-1])
        if bounds != (0, len(self.column)) or len(self.level) != len(self.column):
            raise ValueError(
                f"row_start runs from {bounds[0]} to {bounds[1]}, but there are {len(self.column)} "
                f"columns and {len(self.level)} levels; build Observations with one of its "
                "from_ constructors."
            )

    @property
    def n_rows(self) -> int:
        return len(self.row_start) - 1

    @property
    def n_columns(self) -> int:
        return len(self.n_levels)

    @property
    def n_entries(self) -> int:
        return len(self.column)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum(dtype=np.float64)) if self.weight.size else self.n_entries

    def entry_numbers(self) -> np.ndarray:
        """(entries,) the number of each answer that is one, NaN for all others."""
        return np.full(self.n_entries, np.nan)

    @property
    def density(self) -> float:
        cells = self.n_rows * self.n_columns
        return self.n_entries / cells if cells else 0.0

    @cached_property
    def row_counts(self) -> np.ndarray:
        return np.diff(self.row_start)

    @cached_property
    def column_counts(self) -> np.ndarray:
        counts, ends = _chunks(self.n_entries, self.n_columns)
        _each_chunk(_count_keys, np.concatenate([[0], ends]), self.n_entries, counts, self.column)
        return counts.sum(axis=0)

    def level_counts(self, n_levels: int) -> np.ndarray:
        are_alike = bool((self.n_levels == n_levels).all())

        def count(block: slice) -> np.ndarray:
            level = self.level[block]
            if not are_alike:
                level = level[self.n_levels[self.column[block]] == n_levels]
            return _counts(level, n_levels)

        if self.weight.size:
            own = self.n_levels[self.column] == n_levels
            return np.bincount(self.level[own], self.weight[own], minlength=n_levels)
        none = np.zeros(n_levels, dtype=np.int64)
        return np.sum([none, *each_block(count, self.n_entries)], axis=0)

    def levels_of_columns(self, columns: np.ndarray) -> np.ndarray:
        """(columns asked for, L): how often each level was given in each of them."""
        view = self.column_view
        unique, place = np.unique(columns, return_inverse=True)
        counts = np.zeros((unique.size, self.n_levels.max(initial=1)), dtype=np.int64)
        if self.weight.size:
            counts = counts.astype(np.float64)
        _count_levels(view.column_start, view.entry, self.level, self.weight, unique, counts)
        return counts[place]

    def levels_of_rows(self, rows: np.ndarray, n_levels: int) -> np.ndarray:
        """(rows asked for, L): how often each gave each level of the scales with n_levels."""
        unique, place = np.unique(rows, return_inverse=True)
        some = self.take_rows(unique)
        row, column, level = some.cells()
        own = self.n_levels[column] == n_levels
        width, weight = self.n_levels.max(initial=1), some.weight[own] if some.weight.size else None
        counts = np.bincount(row[own] * width + level[own], weight, minlength=unique.size * width)
        return counts.reshape(unique.size, width)[place]

    @cached_property
    def column_view(self) -> ColumnView:
        if self._transposed is not None:  # whose arrays need not be there twice
            column_start, row = self._transposed.row_start, self._transposed.column
        else:
            column_start = starts(self.column_counts)
            row = np.empty(self.n_entries, dtype=np.int32)
        is_short = self.n_entries <= np.iinfo(np.int32).max
        entry = np.empty(self.n_entries, dtype=np.int32 if is_short else np.int64)
        _fill_column_view(self.row_start, self.column, column_start[:-1].copy(), row, entry)
        return ColumnView(column_start, row, entry)

    def with_offset(self, offset: np.ndarray) -> Observations:
        return self._changed(offset=offset)

    def with_weight(self, weight: np.ndarray) -> Observations:
        return self._changed(weight=weight.astype(np.float32, copy=False))

    def _changed(self, **numbers: np.ndarray) -> Observations:
        found = copy.copy(self)
        for name, value in {**numbers, "_transposed": None, "_keeps_transposed": False}.items():
            object.__setattr__(found, name, value)
        return found

    def _with_numbers_of(self, whole: Observations, entry: Callable[[], np.ndarray]) -> Observations:
        """With offsets and weights of answers of the whole; ``entry`` says which ones these are."""
        names = [name for name in ("offset", "weight") if getattr(whole, name).size]
        if not names:
            return self
        place, keeps = entry(), self._keeps_transposed
        found = self._changed(**{name: getattr(whole, name)[place] for name in names})
        object.__setattr__(found, "_keeps_transposed", keeps)
        return found

    def cells(self) -> Cells:
        rows = np.repeat(np.arange(self.n_rows), self.row_counts)
        return Cells(rows, self.column, self.level)

    def row(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        if not 0 <= d < self.n_rows:
            raise IndexError(f"Row {d} is not between 0 and {self.n_rows - 1}.")
        part = slice(self.row_start[d], self.row_start[d + 1])
        return self.column[part], self.level[part]

    def take_rows(self, index: Any) -> Observations:
        index = _row_index(index, self.n_rows)
        row_start = starts(self.row_counts[index])
        column = np.empty(row_start[-1], dtype=self.column.dtype)
        level = np.empty(row_start[-1], dtype=self.level.dtype)
        _copy_rows(index, self.row_start, self.column, self.level, row_start, column, level)
        found = Observations(row_start, column, level, self.n_levels)
        return found._with_numbers_of(
            self,
            lambda: (
                np.arange(level.size) + np.repeat(self.row_start[index] - row_start[:-1], found.row_counts)
            ),
        )

    def select(self, entry_mask: Any) -> Observations:
        """Only the answers where the mask over the row view is true; all rows stay."""
        mask = np.asarray(entry_mask)
        if mask.dtype != bool or mask.shape != (self.n_entries,):
            raise ValueError(
                f"entry_mask must be a boolean array of shape ({self.n_entries},), one per "
                f"answer. Got {mask.dtype} of shape {mask.shape} instead."
            )
        left_out = np.flatnonzero(~mask)
        row_start = self.row_start - np.searchsorted(left_out, self.row_start)
        column, level = (_without(part, mask, left_out) for part in (self.column, self.level))
        return Observations(row_start, column, level, self.n_levels)._with_numbers_of(self, lambda: mask)

    def insert(self, cells: Cells, weight: np.ndarray | None = None) -> Observations:
        """With those of these cells that are not there yet; of a cell that comes twice, the first."""
        key = cells.row * np.int64(self.n_columns) + cells.column
        _, first = np.unique(key, return_index=True)  # in the order of cells
        row, column, level = (part[first] for part in cells)
        position = self.search(row, column)
        new = position < 0
        added = np.bincount(row[new], minlength=self.n_rows)
        before = -1 - position[new]
        found = Observations(
            self.row_start + starts(added),
            _with(self.column, before, column[new]),
            _with(self.level, before, level[new]),
            self.n_levels,
        )
        if weight is None and not self.weight.size:
            return found
        own = self.weight if self.weight.size else np.ones(self.n_entries, dtype=np.float32)
        given = np.ones(before.size) if weight is None else weight[first][new]
        return found.with_weight(_with(own, before, given))

    def search(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which entries cells are; −1 − p for those that are not there and would be at p."""
        position = np.empty(rows.size, dtype=np.int64)
        _search(self.row_start, self.column, rows, columns, position)
        return position

    def to_dense(self) -> np.ndarray:
        """An int16 array of n_rows x n_columns, -1 where unanswered; for tests and references."""
        dense = np.full((self.n_rows, self.n_columns), -1, dtype=np.int16)
        dense[self.cells().row, self.column] = self.level
        return dense

    def transpose(self) -> Observations:
        """Roles swapped: columns become rows.

        A row has no scale of its own, so in the result every ``n_levels`` is the largest of this
        one's; with one scale for all columns, nothing is lost.
        """
        if self._transposed is not None:
            return self._transposed
        arrays = _transposed(self.row_start, self.column, self.level, self.n_columns)
        n_levels = np.full(self.n_rows, self.n_levels.max(initial=1), dtype=np.int32)
        found = Observations(*arrays, n_levels)._with_numbers_of(self, lambda: self.column_view.entry)
        if self._keeps_transposed:
            object.__setattr__(self, "_transposed", found)
        return found

    def reorder(self, rows: np.ndarray, columns: np.ndarray) -> Observations:
        """Only these rows and columns (positions, each at most once), in this order.

        It keeps the transposed matrix when that is asked for.
        """
        position = np.full(self.n_columns, -1)
        position[columns] = np.arange(columns.size)
        n_levels = self.n_levels[columns]
        by_rows = _reordered(rows, self.row_start, self.column, self.level, position, columns.size)
        found = Observations(*by_rows, n_levels)
        object.__setattr__(found, "_keeps_transposed", True)
        return found._with_numbers_of(
            self, lambda: self.search(rows[found.cells().row], columns[found.column])
        )

    @classmethod
    def from_dense(cls, levels: Any, n_levels: Any) -> Observations:
        """From a 2-D array of levels with -1 where unanswered; `n_levels` for all or by column."""
        levels = np.asarray(levels)
        if levels.ndim != 2:
            raise DataError(
                f"Expected a 2D array of levels, got shape {levels.shape}; pass n_rows x n_columns."
            )
        return cls.from_columns(lambda j: levels[:, j], levels.shape[1], n_levels)

    @classmethod
    def from_columns(
        cls, encoded: Callable[[int], np.ndarray], n_columns: int, n_levels: Any
    ) -> Observations:
        """From columns of levels, -1 where unanswered; ``encoded(j)`` is column j.

        Each is asked for twice, once to count, once to fill (column 0 once more, for its length).
        Nothing as large as the table is made on the way; a caller for whom making a column is slow
        may keep them, in one or two bytes per cell.
        """
        n_levels = _level_counts(n_levels, n_columns)
        if n_columns < 1:
            raise DataError("There is no column; observations need at least one.")
        n_rows = len(encoded(0))

        def column(j: int) -> np.ndarray:
            return _checked_column(encoded(j), j, n_rows, n_levels[j])

        per_row = np.zeros(n_rows, dtype=np.int64)
        for j in range(n_columns):
            per_row += column(j) >= 0
        row_start = starts(per_row)
        columns = np.empty(row_start[-1], dtype=np.int32)
        level = np.empty(row_start[-1], dtype=level_type(n_levels))
        cursor = row_start[:-1].copy()
        for j in range(n_columns):
            _fill_column(column(j), j, cursor, columns, level)
        return cls(row_start, columns, level, n_levels)

    @classmethod
    def from_triples(
        cls, rows: Any, columns: Any, levels: Any, n_rows: int, n_columns: int, n_levels: Any
    ) -> Observations:
        """From (row, column, level) triples in any order; out of range or twice is a DataError."""
        n_levels = _level_counts(n_levels, n_columns)
        rows = _checked_index(rows, n_rows, "row")
        columns = _checked_index(columns, n_columns, "column")
        levels = _integers(levels, "The levels")
        if not len(rows) == len(columns) == len(levels):
            raise DataError(
                f"There are {len(rows)} rows, {len(columns)} columns and {len(levels)} "
                "levels; give as many of each."
            )
        bad = _off_scale(columns, levels, n_levels)
        if bad >= 0:
            j = columns[bad]
            raise DataError(
                f"Triple {bad} (row {rows[bad]}, column {j}): the level {levels[bad]} is "
                f"not between 0 and {n_levels[j] - 1}; leave unanswered cells out and "
                "encode the others with their scale."
            )
        levels = levels.astype(level_type(n_levels), copy=False)
        row_start, column, level = _by_row(rows, columns, levels, n_rows, n_columns)
        twice = _out_of_order(row_start, column)  # sorted, so that only equal ones are
        if twice >= 0:
            d = int(np.searchsorted(row_start, twice, side="right")) - 1
            raise DataError(
                f"Row {d} answers column {column[twice]} more than once; keep one answer per row and column."
            )
        return cls(row_start, column, level, n_levels)

    def to_arrays(self) -> dict[str, np.ndarray]:
        is_short = self.n_columns <= np.iinfo(np.uint16).max + 1
        column = self.column.astype(np.uint16) if is_short else self.column
        arrays = {"row_start": self.row_start, "column": column, "level": self.level}
        return arrays | ({"weight": self.weight} if self.weight.size else {})

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> Observations:
        """From the arrays of a model file, with everything checked that kernels rely on."""
        row_start = stored.checked_array("row_start", np.int64, (n_rows + 1,), low=0)
        kinds = (np.int32, np.uint16)
        column = stored.checked_array("column", kinds, (None,), 0, len(n_levels) - 1)
        column = column.astype(np.int32, copy=False)
        level = stored.checked_array("level", (np.int8, np.int16), column.shape)
        if row_start[0] or row_start[-1] != len(column) or (np.diff(row_start) < 0).any():
            raise DataError("the rows of its answers do not follow each other")
        if _off_scale(column, level, n_levels) >= 0:
            raise DataError("one of its answers is not on its scale")
        if _out_of_order(row_start, column) >= 0:
            raise DataError("its answers are out of order, or there are two for one cell")
        found = cls(row_start, column, level, n_levels)
        if "weight" not in stored:
            return found
        weight = stored.checked_array("weight", np.float32, column.shape, LEAST_WEIGHT, LARGEST_WEIGHT)
        return found.with_weight(weight)


def rows_of_all(
    answers: Observations, which: np.ndarray, among: Alone | Group, only_first: bool = False
) -> Observations:
    """Some rows (ascending), on all the processes of which each has the answers of a run of rows.

    Or on the first of them alone; then the others have no answers.
    """
    own = answers.take_rows(which)
    if among.size == 1:
        return own
    gather = among.gather if only_first else among.all_gather
    counts, column, level = among.summed(own.row_counts), gather(own.column), gather(own.level)
    return Observations(starts(counts if column.size else 0 * counts), column, level, own.n_levels)


@allocating_kernel
def first_of_each(row, column):
    """Which rows there are, where each begins, and the first entry of each pair; none of column −1."""
    order, key = np.empty_like(row), np.empty_like(row)
    for k in range(row.size):
        order[k], key[k] = k, (row[k] << 32) + column[k]
    sort_together(key, order)
    who, start, found = np.empty_like(row), np.zeros(row.size + 1, dtype=np.int64), np.empty_like(row)
    n_rows, n, before = 0, 0, np.int64(0)
    for k in range(order.size):
        e = order[k]
        is_next = k == 0 or row[e] != row[before]
        if is_next:
            who[n_rows] = row[e]
            n_rows += 1
        if column[e] >= 0 and (is_next or column[e] != column[before]):
            found[n] = e
            n += 1
        before, start[n_rows] = e, n
    return who[:n_rows], start[: n_rows + 1], found[:n]


def is_any_twice(rows: np.ndarray, columns: np.ndarray) -> bool:
    if not rows.size:
        return False
    rows, columns = (part.astype(np.int32, copy=False) for part in (rows, columns))
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    levels = np.zeros(rows.size, dtype=np.int8)
    row_start, column, _ = _by_row(rows, columns, levels, n_rows, n_columns)
    return _out_of_order(row_start, column) >= 0


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Answers that several processes share, each with some of the rows.

    Sizes and counts are those of all rows, which all processes know.
    """

    own: Observations  # the rows of this process, with all columns
    row_counts: np.ndarray  # int64
    column_counts: np.ndarray  # int64
    of_level: dict[int, np.ndarray]  # of columns with so many levels, how often each was given

    @property
    def n_levels(self) -> np.ndarray:
        return self.own.n_levels

    @property
    def n_rows(self) -> int:
        return len(self.row_counts)

    @property
    def n_columns(self) -> int:
        return self.own.n_columns

    @property
    def total_weight(self) -> float:
        return self.n_entries  # parts of ratings have no weights

    @property
    def n_entries(self) -> int:
        return int(self.row_counts.sum())

    def level_counts(self, n_levels: int) -> np.ndarray:
        return self.of_level[int(n_levels)]


# Answers of which only sizes and counts are asked.
Counted = Observations | SharedRows


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many answers rows and columns have, where the answers themselves are elsewhere."""

    row_counts: np.ndarray  # int64
    column_counts: np.ndarray  # int64
    total_weight: float = 0.0  # as in Observations, where they have weights

    @property
    def n_entries(self) -> int:
        return int(self.row_counts.sum())


# ---- checks -----------------------------------------------------------------------------------


def _level_counts(n_levels: Any, n_columns: int) -> np.ndarray:
    counts = np.array(np.broadcast_to(np.asarray(n_levels, dtype=np.int32), (n_columns,)))
    if n_columns and not (counts.min() >= 1 and counts.max() <= np.iinfo(np.int16).max):
        raise DataError(
            f"Every column must have between 1 and 32,767 levels, but they have between "
            f"{counts.min()} and {counts.max()}; bin or drop the columns beyond."
        )
    return counts


def level_type(n_levels: Any) -> type[np.signedinteger]:
    return np.int8 if np.max(n_levels, initial=1) <= np.iinfo(np.int8).max else np.int16


def _integers(values: Any, what: str) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "iu" and values.size:
        raise DataError(f"{what} must be integers, not {values.dtype}; convert them first.")
    return values if values.size else values.astype(np.int16)


def _row_index(index: Any, n_rows: int) -> np.ndarray:
    index = np.asarray(index)
    if index.dtype == bool:
        if index.shape != (n_rows,):
            raise IndexError(f"The mask has shape {index.shape}, but there are {n_rows} rows.")
        return np.flatnonzero(index)
    if index.size == 0:
        return np.empty(0, dtype=np.int64)
    if index.dtype.kind not in "iu" or index.ndim != 1:
        raise IndexError(
            f"Rows are taken by a list of integers, not by {index.dtype} of shape {index.shape}."
        )
    if index.min() < 0 or index.max() >= n_rows:
        raise IndexError(
            f"Row positions must lie between 0 and {n_rows - 1}, but range from "
            f"{index.min()} to {index.max()}."
        )
    return index.astype(np.int64, copy=False)


def _checked_column(levels: Any, j: int, n_rows: int, n_levels: int) -> np.ndarray:
    levels = _integers(levels, f"The levels of column {j}")
    if levels.shape != (n_rows,):
        raise DataError(
            f"Column {j} has shape {levels.shape}, but column 0 has {n_rows} rows; "
            "give columns of equal length."
        )
    if n_rows and not (levels.min() >= -1 and levels.max() < n_levels):
        bad = int(((levels < -1) | (levels >= n_levels)).argmax())
        raise DataError(
            f"Column {j}, row {bad}: the level {levels[bad]} is not between -1 "
            f"(unanswered) and {n_levels - 1}; encode the column with its scale."
        )
    return np.ascontiguousarray(levels, dtype=np.int16)


def _off_scale(columns: np.ndarray, levels: np.ndarray, n_levels: np.ndarray) -> int:
    def look(block: slice) -> int:
        found = _first_off_scale(columns[block], levels[block], n_levels)
        return found if found < 0 else block.start + found

    return next((found for found in each_block(look, len(levels)) if found >= 0), -1)


def _out_of_order(row_start: np.ndarray, column: np.ndarray) -> int:
    """The first answer whose column is not behind that of the one before; -1 if there is none."""

    def look(rows: slice) -> int:
        return _first_out_of_order(row_start[rows.start : rows.stop + 1], column)

    n_rows = len(row_start) - 1
    per_row = len(column) // max(n_rows, 1)
    return next((found for found in each_block(look, n_rows, per_row) if found >= 0), -1)


def _checked_index(index: Any, size: int, what: str) -> np.ndarray:
    index = _integers(index, f"The {what}s")
    if index.size and not (index.min() >= 0 and index.max() < size):
        bad = int(((index < 0) | (index >= size)).argmax())
        raise DataError(
            f"Triple {bad}: the {what} {index[bad]} is not between 0 and {size - 1}; "
            f"correct it or raise n_{what}s."
        )
    return index.astype(np.int32, copy=False)


# ---- building ---------------------------------------------------------------------------------


def starts(counts: np.ndarray) -> np.ndarray:
    """Where each of so many begins, one behind the other, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _without(values: np.ndarray, mask: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """Values under a mask; ``left_out`` are the positions of the others."""
    found = np.empty(values.size - left_out.size, dtype=values.dtype)

    def keep(block: slice) -> None:
        first, last = np.searchsorted(left_out, (block.start, block.stop))
        found[block.start - first : block.stop - last] = values[block][mask[block]]

    each_block(keep, values.size)
    return found


def _with(values: np.ndarray, place: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Values with new ones before those at these places, which ascend."""
    new = new.astype(values.dtype)
    if values.size < MANY:
        return np.insert(values, place, new)
    found = np.empty(values.size + new.size, dtype=values.dtype)

    def fill(block: slice) -> None:
        first, last = np.searchsorted(place, (block.start, block.stop))
        if block.stop == values.size:
            last = place.size
        own = np.insert(values[block], place[first:last] - block.start, new[first:last])
        found[block.start + first : block.stop + last] = own

    each_block(fill, values.size)
    return found


def _transposed(
    row_start: np.ndarray, column: np.ndarray, level: np.ndarray, n_columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same by columns: column_start, row and level; rows ascend within a column."""
    counts, ends = _chunks(len(column), n_columns)
    bounds = np.concatenate([[0], np.searchsorted(row_start, ends[:-1]), [row_start.size - 1]])
    _each_chunk(_count_keys, row_start[bounds], len(column), counts, column)
    column_start = _cursors(counts)
    new_row = np.empty(column_start[-1], dtype=np.int32)
    new_level = np.empty(column_start[-1], dtype=level.dtype)
    arguments = row_start, column, level, new_row, new_level
    _each_chunk(_fill_transposed, bounds, len(column), counts, *arguments)
    return column_start, new_row, new_level


def _by_row(
    rows: np.ndarray, columns: np.ndarray, levels: np.ndarray, n_rows: int, n_columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts, ends = _chunks(len(rows), n_rows)
    bounds = np.concatenate([[0], ends])
    column, level = np.empty_like(columns), np.empty_like(levels)
    _each_chunk(_count_keys, bounds, len(rows), counts, rows)
    row_start = _cursors(counts)
    _each_chunk(_fill_by_row, bounds, len(rows), counts, rows, columns, levels, column, level)
    over_rows(_sort_rows, n_rows, row_start, column, level, n_columns)
    return row_start, column, level


def _reordered(
    rows: np.ndarray,
    row_start: np.ndarray,
    column: np.ndarray,
    level: np.ndarray,
    position: np.ndarray,
    n_columns: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in this order, columns at these positions (-1: left out) and sorted by them."""
    counts = row_start[rows + 1] - row_start[rows]
    if (position < 0).any():
        over_rows(_count_placed, rows.size, rows, row_start, column, position, counts)
    new_start = starts(counts)
    new_column = np.empty(new_start[-1], dtype=np.int32)
    new_level = np.empty(new_start[-1], dtype=level.dtype)
    arguments = rows, row_start, column, level, position, new_start, new_column, new_level
    over_rows(_place_rows, rows.size, *arguments)
    over_rows(_sort_rows, rows.size, new_start, new_column, new_level, n_columns)
    return new_start, new_column, new_level


# Sorting by counting is shared by threads: each has a stretch of what is sorted, counts it by
# itself, and then knows where its part of every key begins. The order does not depend on them.


def _chunks(n_entries: int, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    n_chunks = 1
    if n_entries >= MANY:
        n_chunks = int(np.clip(n_entries // max(n_keys, 1), 1, thread_count()))
    ends = n_entries * np.arange(1, n_chunks + 1) // n_chunks
    return np.zeros((n_chunks, n_keys), dtype=np.int64), ends


def _each_chunk(
    kernel: Callable, bounds: np.ndarray, n_entries: int, of_chunks: np.ndarray, *arguments: np.ndarray
) -> None:
    """Call a kernel for every chunk, with its bounds and what it has for itself."""
    each(
        lambda k: kernel(bounds[k], bounds[k + 1], of_chunks[k], *arguments), range(len(of_chunks)), n_entries
    )


def _cursors(counts: np.ndarray) -> np.ndarray:
    """Starts of all keys; counts of the chunks become where each begins to write."""
    first = starts(counts.sum(axis=0))
    before = np.zeros(counts.shape[1], dtype=np.int64)
    for k in range(len(counts)):
        own = counts[k].copy()
        counts[k] = first[:-1] + before
        before += own
    return first


@allocating_kernel
def _counts(keys, n_keys):
    counts = np.zeros(n_keys, dtype=np.int64)
    for key in keys:
        counts[key] += 1
    return counts


@compiled
def _count_levels(column_start, entry, level, weight, columns, counts):
    for k in range(columns.size):
        for e in range(column_start[columns[k]], column_start[columns[k] + 1]):
            if weight.size > 0:
                counts[k, level[entry[e]]] += weight[entry[e]]
            else:
                counts[k, level[entry[e]]] += 1


@compiled
def _fill_column(levels, j, cursor, column, level):
    for d in range(len(levels)):
        if levels[d] >= 0:
            column[cursor[d]] = j
            level[cursor[d]] = levels[d]
            cursor[d] += 1


@compiled
def _fill_column_view(row_start, column, cursor, row, entry):
    for d in range(len(row_start) - 1):
        for e in range(row_start[d], row_start[d + 1]):
            slot = cursor[column[e]]
            row[slot] = d
            entry[slot] = e
            cursor[column[e]] = slot + 1


@compiled
def _fill_transposed(start, stop, cursor, row_start, column, level, new_row, new_level):
    for d in range(start, stop):
        for e in range(row_start[d], row_start[d + 1]):
            slot = cursor[column[e]]
            new_row[slot] = d
            new_level[slot] = level[e]
            cursor[column[e]] = slot + 1


@compiled
def _copy_rows(index, row_start, column, level, new_start, new_column, new_level):
    for d in range(len(index)):
        shift = row_start[index[d]] - new_start[d]
        for e in range(new_start[d], new_start[d + 1]):
            new_column[e] = column[e + shift]
            new_level[e] = level[e + shift]


@compiled
def _count_keys(start, stop, counts, keys):
    for e in range(start, stop):
        counts[keys[e]] += 1


@compiled
def _fill_by_row(start, stop, cursor, rows, columns, levels, column, level):
    for e in range(start, stop):
        slot = cursor[rows[e]]
        column[slot] = columns[e]
        level[slot] = levels[e]
        cursor[rows[e]] = slot + 1


@compiled
def _count_placed(start, stop, rows, row_start, column, position, counts):
    for k in range(start, stop):
        counts[k] = 0
        for e in range(row_start[rows[k]], row_start[rows[k] + 1]):
            counts[k] += position[column[e]] >= 0


@compiled
def _place_rows(start, stop, rows, row_start, column, level, position, new_start, new_column, new_level):
    for k in range(start, stop):
        slot = new_start[k]
        for e in range(row_start[rows[k]], row_start[rows[k] + 1]):
            i = position[column[e]]
            if i >= 0:
                new_column[slot] = i
                new_level[slot] = level[e]
                slot += 1


@allocating_function
def sort_together(key, value):
    """Sort keys in place, and values along with them; equal keys stay in their order.

    Sorts that Numba has take seconds to compile.
    """
    n, width = key.size, _SORTED_BY_INSERTION
    for first in range(0, n, width):
        for e in range(first + 1, min(first + width, n)):
            new, with_new, place = key[e], value[e], e
            while place > first and key[place - 1] > new:
                key[place], value[place] = key[place - 1], value[place - 1]
                place -= 1
            key[place], value[place] = new, with_new
    while width < n:
        keys, values = key.copy(), value.copy()
        for first in range(0, n, 2 * width):
            middle, stop = min(first + width, n), min(first + 2 * width, n)
            left, right = first, middle
            for place in range(first, stop):
                is_left = left < middle and (right == stop or keys[left] <= keys[right])
                chosen = left if is_left else right
                key[place], value[place] = keys[chosen], values[chosen]
                left, right = left + is_left, right + 1 - is_left
        width *= 2


@allocating_function
def _sorted_by_digits(both, n_columns):
    """Numbers sorted by what is above their lowest 16 bits; in time that does not depend on it."""
    other, shift = np.empty_like(both), 16
    while n_columns >> (shift - 16):
        start = np.zeros(2049, dtype=np.int64)
        for number in both:
            start[((number >> shift) & 2047) + 1] += 1
        for digit in range(2048):
            start[digit + 1] += start[digit]
        for number in both:
            digit = (number >> shift) & 2047
            other[start[digit]] = number
            start[digit] += 1
        both, other, shift = other, both, shift + 11
    return both


@allocating_kernel
def _sort_rows(start, stop, row_start, column, level, n_columns):
    """Sort the answers of every row by column, in place."""
    for d in range(start, stop):
        first, last = row_start[d], row_start[d + 1]
        is_sorted = True
        for e in range(first + 1, last):
            is_sorted &= column[e - 1] <= column[e]
        if not is_sorted:
            if last - first <= _SORTED_BY_MERGING:
                sort_together(column[first:last], level[first:last])
                continue
            # Both in one number, so that a level goes along with its column.
            both = np.empty(last - first, dtype=np.int64)
            for e in range(first, last):
                both[e - first] = (np.int64(column[e]) << 16) | level[e]
            both = _sorted_by_digits(both, n_columns)
            for e in range(first, last):
                column[e] = both[e - first] >> 16
                level[e] = both[e - first] & 0x7FFF


@compiled
def _search(row_start, column, rows, columns, position):
    """Where cells are among those that are there; −1 − p for those that would be at p."""
    for k in range(rows.size):
        low, high = row_start[rows[k]], row_start[rows[k] + 1]
        stop = high
        while low < high:
            middle = (low + high) // 2
            if column[middle] < columns[k]:
                low = middle + 1
            else:
                high = middle
        is_there = low < stop and column[low] == columns[k]
        position[k] = low if is_there else -1 - low


@compiled
def _first_off_scale(columns, levels, n_levels):
    for e in range(len(levels)):
        if levels[e] < 0 or levels[e] >= n_levels[columns[e]]:
            return e
    return -1


@compiled
def _first_out_of_order(row_start, column):
    for d in range(len(row_start) - 1):
        for e in range(row_start[d] + 1, row_start[d + 1]):
            if column[e] <= column[e - 1]:
                return e
    return -1


# ---- of each answer ---------------------------------------------------------------------------


def weight_of_answers(observations: Observations, row_weight: np.ndarray | None) -> np.ndarray:
    if row_weight is None:
        return np.ones(observations.n_entries, dtype=np.float32)
    return np.repeat(row_weight, observations.row_counts)


def count_levels(observations: Observations, row_weight: np.ndarray | None = None) -> np.ndarray:
    """Return (columns, L) how often each level of each column was given; rows may have weights."""
    width = int(observations.n_levels.max(initial=1))
    cell = observations.column.astype(np.int64) * width + observations.level
    weight = None if row_weight is None else weight_of_answers(observations, row_weight)
    return np.bincount(cell, weight, minlength=observations.n_columns * width).reshape(-1, width)
