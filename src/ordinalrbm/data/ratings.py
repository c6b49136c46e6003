"""Ratings: who rated what how, as positions on lists of ids and levels on scales.

Tables, triples of arrays and sparse matrices come in, `Ratings` goes out: `Observations` whose
rows are users and whose columns are items, the ids behind rows and columns, and the scales.

A hundred million ratings must fit beside their own arrays. So columns are worked on in blocks,
ids and ratings are looked at once per distinct value, and nothing wider than 8 bytes per rating
is made on the way.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.catalogue import Catalogue
from ordinalrbm.data.column_roles import candidates
from ordinalrbm.data.columns import as_column, factorise, shown, warn_of_padding
from ordinalrbm.data.frames import FRAMES, as_frame
from ordinalrbm.data.ids import Ids, find, number_ids
from ordinalrbm.data.observations import Cells, Observations, is_any_twice, level_type
from ordinalrbm.data.recency import add_to_rank, ages_by_cell, recency_rank
from ordinalrbm.data.scales import MANY_LEVELS, MAX_LEVELS, Scale, check_labels, plain_categories, shorten
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel
from ordinalrbm.runtime.blocks import MANY, blocks, each_block
from ordinalrbm.runtime.timing import stage

COLUMNS = ("user", "item", "rating")

OFF_SCALE = -2  # in a table of levels: the value is not on the scale
_NO_LEVEL = -1  # in a table of levels: not a rating, or no scale to read it on


@dataclass(frozen=True, slots=True, eq=False)
class Ratings(Catalogue):
    """A rating matrix, with its users, items and scales; made by `read_ratings`.

    Rows of the observations are users, columns are items, levels are positions on the scales.

    Examples
    --------
    >>> ratings = read_ratings((["u", "v", "u"], [10, 10, 20], [0.5, 2.0, 1.0]))
    >>> ratings.n_users, ratings.n_items, ratings.scales.labels
    (2, 2, (0.5, 1.0, 2.0))
    >>> ratings.to_frame()
      user  item  rating
    0    u    10     0.5
    1    u    20     1.0
    2    v    10     2.0
    """

    observations: Observations
    # How many ratings its user has given since each, in their order; None without times.
    age: np.ndarray | None = None

    @classmethod
    def of(cls, known: Catalogue, observations: Observations, age: np.ndarray | None = None) -> Ratings:
        """Ratings on the users, items and scales of a catalogue."""
        return cls(known.users, known.items, known.scales, known.default_scale, observations, age)

    @property
    def n_ratings(self) -> int:
        return self.observations.n_entries

    def have_rated(self, rows: np.ndarray) -> np.ndarray:
        """Whether each user has a rating; the user -1 is unknown."""
        start = self.observations.row_start
        return (rows >= 0) & (start[rows + 1] > start[rows])

    def to_frame(self, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
        """The ratings as a table with labels, by user and then by item."""
        row, column, level = self.observations.cells()
        users, items = self.users.labels[row], self.items.labels[column]
        values = (users, items, self.decode(level, column))
        return pd.DataFrame(dict(zip(columns, values, strict=True)))


def read_ratings(
    data: Any,
    *,
    scale: Any = None,
    item_scales: Mapping[Any, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> Ratings:
    """Read a rating matrix.

    Parameters
    ----------
    data : frame, tuple of three arrays, or scipy.sparse matrix or array
        One row per rating with user, item and rating, and perhaps timestamp (numbers, dates or
        dates in text), which tells what is recent; other columns are left alone. Of a sparse
        matrix the stored entries are the ratings, rows are users and columns are items, and their
        positions are the ids; **a stored zero is a rating only where 0 is on the given scale.**
    scale : labels from lowest to highest, optional
        The scale of all items. By default the distinct ratings in ascending order, or the
        categories of an ordered categorical; text has no order of its own and needs one of both.
    item_scales : dict of item to labels, optional
        Items with a scale of their own; the others have `scale`.
    columns : three names, optional
        Names of the columns of a DataFrame that are user, item and rating. By default those whose
        names say so: user, item and rating, or else other usual names, such as customer_id,
        movieId and stars (`ordinalrbm.data.column_roles` has all of them). Capitals, blanks, hyphens and
        underscores make no difference.

    Returns
    -------
    Ratings

    Raises
    ------
    DataError
        When there is no rating, a column, an id or a rating is missing, a rating is infinite or
        off its scale, ids mix integers and text, or a user has rated an item more than once.

    Examples
    --------
    >>> frame = pd.DataFrame({"user": ["u", "u", "v"], "item": [7, 9, 7], "rating": [1, 3, 2]})
    >>> ratings = read_ratings(frame)
    >>> ratings.observations.to_dense().tolist()
    [[0, 2], [1, -1]]
    >>> read_ratings(frame, scale=[1, 2, 3, 4, 5]).scales.n_levels
    5
    """
    table = as_triples(data, columns)
    if not len(table):
        raise no_rating()
    with stage("ids to positions"):
        user, users = table.number_users()
        item, items = table.number_items()
    with stage("ratings to levels"):
        values = read_values(table)
        common, own = given_scales(scale, item_scales, items)
        if common is None and len(own) < len(items):
            common = infer_scale(values, values_seen(values, item, own), not table.is_sparse)
        catalogue = catalogue_of(users, items, common, own)
        cells = Cells(user, item, levels_of(table, values, item, catalogue))
        del values
    if cells.level.max() < 0:
        raise no_rating()
    cells = _without_gaps(cells)
    try:
        with stage("by user and item"):
            observations = Observations.from_triples(*cells, len(users), len(items), catalogue.level_counts())
    except DataError:
        _refuse_repeated_cells(table, cells.row, cells.column)
        raise
    if table.time is None:
        return Ratings.of(catalogue, observations)
    with stage("how recent each is"):
        return Ratings.of(catalogue, observations, ages_by_cell(observations, cells, table.time))


def encode(known: Catalogue, data: Any, *, columns: Sequence[str] | None = None) -> Cells:
    """Read further ratings (validation, test), perhaps none, on known ids and scales.

    They stay in the order of the data. Unknown users and items have position -1; the level of an
    unknown item is -1 when every known item has a scale of its own.

    Examples
    --------
    >>> known = read_ratings((["u", "v"], [10, 20], [1, 2]))
    >>> more = encode(known, (["v", "w"], [10, 20], [2, 1]))
    >>> more.row.tolist(), more.column.tolist(), more.level.tolist()
    ([1, -1], [0, 1], [1, 0])
    """
    return encode_triples(known, as_triples(data, columns))


def encode_triples(known: Catalogue, table: Triples) -> Cells:
    """What `encode` does, once it has found the three columns."""
    cells, _, _ = _numbered_on(known, table)
    cells.row[cells.row >= known.n_users] = -1
    cells.column[cells.column >= known.n_items] = -1
    return cells


def encode_with_new_users(known: Catalogue, data: Any) -> tuple[Cells, Ids, np.ndarray]:
    """Cells of ratings, new users after the known ones, new items at −1; new users; ages."""
    few = _encode_small(known, data)
    if few is not None:
        return *few, np.zeros(few[0].row.size, dtype=np.uint8)
    table = as_triples(data)
    cells, new_users, _ = _numbered_on(known, table)
    column = np.where(cells.column < len(known.items), cells.column, -1)
    return cells._replace(column=column), new_users, _ages_of_new(cells, table)


_FEW = 64  # ratings that a service may bring at once


def _encode_small(known: Catalogue, data: Any) -> tuple[Cells, Ids] | None:
    """The same of a few ratings in plain lists, at once; None if they must be looked at closely."""
    lists = list(data) if type(data) is tuple else _plain_lists(data)
    scale = known.scales
    if len(lists) != len(COLUMNS) or not isinstance(scale, Scale):
        return None
    if any(type(part) is not list or not 0 < len(part) <= _FEW for part in lists):
        return None
    users, items, values = lists
    row, column = known.users.few(users), known.items.few(items)
    levels = {label: level for level, label in enumerate(scale.labels)}
    if row is None or column is None or not len(users) == len(items) == len(values):
        return None
    if len(set(zip(users, items, strict=True))) < len(users) or any(v not in levels for v in values):
        return None
    new = sorted({user for user, at in zip(users, row.tolist(), strict=True) if at < 0})
    place = {user: len(known.users) + k for k, user in enumerate(new)}
    at = [place.get(user, own) for user, own in zip(users, row.tolist(), strict=True)]
    level = np.array([levels[value] for value in values], dtype=np.int16)
    return Cells(np.array(at), column, level), Ids(np.array(new, dtype=known.users.labels.dtype))


def _plain_lists(data: Any) -> list[Any]:
    """Columns of a small table of pandas with the usual names."""
    if not isinstance(data, pd.DataFrame) or len(data) > _FEW or len(data.columns) > len(COLUMNS):
        return []
    return [data[name].tolist() for name in COLUMNS if name in data]


def _numbered_on(known: Catalogue, table: Triples) -> tuple[Cells, Ids, Ids]:
    """Ratings with unknown ids numbered on after the known ones, and the new users and items."""
    if not len(table):
        none = np.empty(0, dtype=np.int32)
        new_users, new_items = (Ids(ids.labels[:0]) for ids in (known.users, known.items))
        return Cells(none, none, none.astype(np.int8)), new_users, new_items
    user, new_users = find(table.user, known.users, "user", table.place)
    item, new_items = find(table.item, known.items, "item", table.place)
    _refuse_repeated_cells(table, user, item)
    known_item = np.where(item < known.n_items, item, np.int32(-1)) if len(new_items) else item
    cells = Cells(user, item, levels_of(table, read_values(table), known_item, known))
    # In a sparse matrix a level of -1 may be a stored zero.
    return _without_gaps(cells) if table.is_sparse else cells, new_users, new_items


# ---- reading containers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Triples:
    """Three columns of equal length, each an array, a Categorical or another pandas array."""

    user: Any
    item: Any
    rating: Any
    shape: tuple[int, int] | None = None  # of the sparse matrix they come from, if they do
    first_row: int = 0  # how many rows there are before, where others have these
    time: Any = None  # of each, in any form, where there is a column of times

    def __len__(self) -> int:
        return len(self.rating)

    @property
    def is_sparse(self) -> bool:
        return self.shape is not None

    def place(self, row: int) -> str:
        """Where a row is, to begin an error message with."""
        user, item, rating = (shown(c[row]) for c in (self.user, self.item, self.rating))
        what = "Stored entry" if self.is_sparse else "Row"
        number = self.first_row + row
        return f"{what} {number} (counted from 0; user {user}, item {item}, rating {rating})"

    def number_users(self) -> tuple[np.ndarray, Ids]:
        """Positions of the users; of a sparse matrix, its rows, rated or not."""
        if self.shape is not None:
            return self.user, Ids(np.arange(self.shape[0]))
        return number_ids(self.user, "user", self.place)

    def number_items(self) -> tuple[np.ndarray, Ids]:
        """Positions of the items; of a sparse matrix, its columns, rated or not."""
        if self.shape is not None:
            return self.item, Ids(np.arange(self.shape[1]))
        return number_ids(self.item, "item", self.place)


def as_triples(data: Any, columns: Sequence[str] | None = None) -> Triples:
    """The three columns of whatever holds ratings, found by their names unless these are given."""
    if sp.issparse(data):
        return _from_sparse(data)
    if isinstance(data, tuple):
        return _from_arrays(data)
    frame = as_frame(data)
    if frame is None:
        raise DataTypeError(
            f"Ratings must be {FRAMES}, a tuple of three arrays (user, item, rating) or a "
            f"scipy.sparse matrix, not {type(data).__name__}; convert them first."
        )
    columns = found_columns(frame.names) if columns is None else columns
    _check_columns(columns, frame.names)
    times = [name for name in candidates(frame.names, "timestamp") if name not in columns]
    time = frame.column(frame.names.index(times[0])) if len(times) == 1 else None
    user, item, rating = (
        as_column(frame.column(frame.names.index(name)), f"Column {name!r}") for name in columns
    )
    return Triples(user, item, rating, time=time)


def found_columns(names: list[Any]) -> list[str]:
    """The columns that are user, item and rating, by their names.

    Examples
    --------
    >>> found_columns(["reviewerID", "asin", "overall", "summary"])
    ['reviewerID', 'asin', 'overall']
    """
    found = {role: candidates(names, role) for role in COLUMNS}
    for role, those in found.items():
        if not those:
            raise DataError(
                f"The ratings have no column {role!r}, only {shorten(names)}; rename the columns "
                f"to {shorten(COLUMNS)}."
            )
        if len(those) > 1:
            raise unclear(those, role)
    return [those[0] for those in found.values()]


def unclear(columns: list[str], role: str) -> DataError:
    """The error of several columns that could be the same."""
    return DataError(
        f"The columns {columns[0]!r} and {columns[1]!r} could both be the {role} of a rating; "
        f"rename the right one to {role!r}."
    )


def _check_columns(columns: Sequence[str], names: list[Any]) -> None:
    if isinstance(columns, str) or len(columns) != 3:
        raise DataError(
            f"columns must name three columns, those of user, item and rating, not {columns!r}; "
            f"write for example columns={COLUMNS}."
        )
    for name in columns:
        if name not in names:
            raise DataError(
                f"The ratings have no column {name!r}, only {shorten(names)}; rename one, or say "
                "which columns to read with columns=(user, item, rating)."
            )
        if names.count(name) > 1:
            raise DataError(
                f"The ratings have more than one column named {name!r}; rename or drop all but one."
            )


def _from_arrays(data: tuple[Any, ...]) -> Triples:
    if len(data) != 3:
        raise DataError(f"The ratings are a tuple of {len(data)}; give three arrays, (user, item, rating).")
    named = zip(data, ("users", "items", "ratings"), strict=True)
    user, item, rating = (as_column(values, f"The {what}") for values, what in named)
    if not len(user) == len(item) == len(rating):
        raise DataError(
            f"There are {len(user)} users, {len(item)} items and {len(rating)} ratings; give as many of each."
        )
    return Triples(user, item, rating)


def _from_sparse(matrix: Any) -> Triples:
    if matrix.ndim != 2:
        raise DataError(f"The sparse ratings have shape {matrix.shape}; give users x items, two dimensions.")
    coo = matrix.tocoo(copy=False)
    if matrix.format == "bsr":  # which stores zeros only to fill its blocks
        coo = coo.copy()
        coo.eliminate_zeros()
    warn_of_padding(matrix, coo.nnz, "not rated")
    return Triples(coo.row, coo.col, coo.data, coo.shape)


def no_rating() -> DataError:
    return DataError("There is no rating in the data; give at least one.")


# ---- scales -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The ratings as codes of their distinct values."""

    code: np.ndarray
    distinct: list[Any]
    is_ordered: bool  # whether `distinct` are the categories of an ordered categorical
    is_unordered: bool  # ... of one without an order

    def first(self, k: int) -> int:
        """The first row with the k-th value."""
        return int((self.code == k).argmax())


def read_values(table: Triples) -> Values:
    """The distinct ratings, and which of them each row has."""
    ratings = table.rating
    if isinstance(ratings, pd.Categorical):
        distinct = list(plain_categories(ratings.categories))
        if len(distinct) > MAX_LEVELS:
            raise too_many_values(len(distinct))
        code = ratings.codes.astype(np.int16, copy=False)
        if code.min() < 0:
            raise _missing_rating(table, int((code < 0).argmax()))
        return Values(code, distinct, bool(ratings.ordered), not ratings.ordered)
    code = np.empty(len(ratings), dtype=np.int16)

    def number(block: slice) -> list[Any]:
        """Number the values of a block for itself; returns them."""
        own, found = factorise(ratings[block], "The ratings")
        if len(own) and own.min() < 0:
            raise _missing_rating(table, block.start + int((own < 0).argmax()))
        if len(found) > MAX_LEVELS:
            raise too_many_values(len(found))
        code[block] = own
        is_narrow = found.dtype.kind == "f" and found.dtype.itemsize < 8
        # Narrow floats at their written value: float32 0.1 is 0.1.
        return [float(str(value)) for value in found] if is_narrow else found.tolist()

    known: dict[Any, int] = {}
    of_blocks = {
        block.start: np.array([known.setdefault(value, len(known)) for value in plain], np.int64)
        for block, plain in zip(blocks(len(ratings)), each_block(number, len(ratings)), strict=True)
    }
    if len(known) > MAX_LEVELS:
        raise too_many_values(len(known))

    def number_alike(block: slice) -> None:
        code[block] = of_blocks[block.start][code[block]]

    each_block(number_alike, len(ratings))
    values = Values(code, list(known), is_ordered=False, is_unordered=False)
    _check_values(table, values)
    return values


def _check_values(table: Triples, values: Values) -> None:
    for k, value in enumerate(values.distinct):
        if not isinstance(value, str | bool | numbers.Real | Decimal):
            raise DataTypeError(
                f"{table.place(values.first(k))}: a rating must be a real number or text, but "
                f"{value!r} is of type {type(value).__name__}; convert the ratings."
            )
        if isinstance(value, str):
            continue
        if math.isnan(value):  # among nullable floats NaN is not missing for pandas
            raise _missing_rating(table, values.first(k))
        if math.isinf(value):
            raise DataError(
                f"{table.place(values.first(k))}: the rating {value} is infinity, which is on no "
                "scale; correct or drop it."
            )


def _missing_rating(table: Triples, row: int) -> DataError:
    return DataError(
        f"{table.place(row)}: the rating is missing; drop such rows, for example with dropna(), "
        "what is not rated needs no row."
    )


def too_many_values(n: int) -> DataError:
    return DataError(
        f"There are {n:,} distinct ratings or more, and a scale can have {MAX_LEVELS:,} levels; "
        "bin the ratings, for example with pandas.qcut."
    )


def _as_scale(labels: Any, where: str) -> Scale:
    return labels if isinstance(labels, Scale) else Scale(check_labels(labels, where))


def given_scales(
    scale: Any, item_scales: Mapping[Any, Any] | None, items: Ids
) -> tuple[Scale | None, dict[int, Scale]]:
    """The common scale, if given, and those of single items by position."""
    common = None if scale is None else _as_scale(scale, "scale")
    item_scales = {} if item_scales is None else item_scales
    if not isinstance(item_scales, Mapping):
        raise DataTypeError(
            f"item_scales must be a dictionary from items to labels, not {item_scales!r:.80}; "
            "write for example {'tea': [1, 2, 3]}."
        )
    if not item_scales:
        return common, {}
    position = items.lookup(list(item_scales), "item")
    if position.min() < 0:
        unknown = list(item_scales)[int((position < 0).argmax())]
        raise DataError(
            f"item_scales gives labels for the item {unknown!r}, which nobody has rated; "
            "correct it or leave it out."
        )
    named = zip(position.tolist(), item_scales.items(), strict=True)
    return common, {j: _as_scale(labels, f"item_scales[{item!r}]") for j, (item, labels) in named}


def values_seen(values: Values, item: np.ndarray, own: dict[int, Scale]) -> np.ndarray:
    """Which of the distinct ratings were given to items without a scale of their own."""
    seen = np.full(len(values.distinct), not own)
    for block in blocks(len(item) if own else 0):
        seen[values.code[block][~np.isin(item[block], list(own))]] = True
    return seen


def infer_scale(values: Values, seen: np.ndarray, zeros_count: bool) -> Scale:
    """The scale of the ratings that were seen; zeros may stand for no rating."""
    if values.is_ordered:
        return Scale(check_labels(values.distinct, "The ratings' categorical"))
    found = [value for value, there in zip(values.distinct, seen, strict=True) if there]
    if values.is_unordered or any(isinstance(value, str) for value in found):
        what = "are a categorical without an order" if values.is_unordered else "are text"
        raise DataError(
            f"The ratings {what} (found {shorten(sorted(map(str, found)))}) and their order cannot "
            "be guessed; give scale=[...] from lowest to highest, or make them an ordered "
            "categorical."
        )
    if found and all(isinstance(value, bool) for value in found):
        return Scale((False, True))
    found = [value for value in found if zeros_count or value != 0]
    if not found:
        raise no_rating()
    is_whole = all(float(value).is_integer() and abs(value) < 2**53 for value in found)
    labels = tuple(sorted({int(value) if is_whole else float(value) for value in found}))
    if len(labels) > MANY_LEVELS:
        warnings.warn(
            f"The ratings have {len(labels):,} distinct values and look continuous; bin them, for "
            "example with pandas.qcut.",
            stacklevel=user_stacklevel(),
        )
    return Scale(labels)


def catalogue_of(users: Ids, items: Ids, common: Scale | None, own: dict[int, Scale]) -> Catalogue:
    """Users and items with one scale for all items, or one for each if some have their own."""
    if not own:
        assert common is not None
        return Catalogue(users, items, common, common)
    scales: Any = tuple(own.get(j, common) for j in range(len(items)))
    return Catalogue(users, items, scales, common)


# ---- levels -----------------------------------------------------------------------------------


def levels_of(table: Triples, values: Values, item: np.ndarray, known: Catalogue) -> np.ndarray:
    """Level of each rating; an item of -1 is unknown, a level of -1 no rating or no scale."""
    level_of, scale_of = _level_table(values.distinct, known)
    if table.is_sparse:  # there an off-scale zero is not a rating
        zero = [value == 0 for value in values.distinct]
        level_of[:, zero] = np.maximum(level_of[:, zero], _NO_LEVEL)
    level = np.empty(len(item), dtype=level_of.dtype)

    def look_up(block: slice) -> None:
        code = values.code[block]
        if scale_of is None:
            level[block] = level_of[0][code]
        else:
            level[block] = level_of[scale_of[item[block]], code]
        if level[block].min() == OFF_SCALE:
            row = block.start + int((level[block] == OFF_SCALE).argmax())
            raise _off_scale(table, row, known, int(item[row]))

    each_block(look_up, len(item))
    return level


def _level_table(distinct: list[Any], known: Catalogue) -> tuple[np.ndarray, np.ndarray | None]:
    """Level of each distinct rating (columns) on each scale (rows), and the row of each item."""
    scales, scale_of = known.distinct()
    width = level_type([scale.n_levels for scale in (*scales, known.default_scale) if scale])
    rows = [levels_of_values(scale, distinct) for scale in scales]
    if isinstance(known.scales, Scale):
        return np.stack(rows).astype(width), None
    # One row more, so that an item of -1 finds the default, if there is one.
    default, no_level = known.default_scale, np.full(len(distinct), _NO_LEVEL)
    rows.append(no_level if default is None else levels_of_values(default, distinct))
    return np.stack(rows).astype(width), np.append(scale_of, len(scales))


def levels_of_values(scale: Scale, distinct: list[Any]) -> np.ndarray:
    """Level of each rating, `OFF_SCALE` where it is not on the scale."""
    try:
        return scale.encode(np.array(distinct, dtype=object), "rating")
    except DataError:
        if len(distinct) == 1:
            return np.array([OFF_SCALE])
        return np.concatenate([levels_of_values(scale, [value]) for value in distinct])


def _off_scale(table: Triples, row: int, known: Catalogue, item: int) -> DataError:
    scale, remedy = known.default_scale, "scale=[...]"
    if not isinstance(known.scales, Scale):
        scale = known.scales[item] if item >= 0 else known.default_scale
        remedy = f"item_scales={{{shown(table.item[row])}: [...]}}"
    assert scale is not None
    return DataError(
        f"{table.place(row)}: the rating {shown(table.rating[row])} is not on the scale "
        f"{shorten(scale.labels)}; correct or drop it, or give the whole scale with {remedy}."
    )


def _without_gaps(cells: Cells) -> Cells:
    """Only what has a level; a warning counts the others, which are stored zeros."""
    if not len(cells.level) or cells.level.min() >= 0:
        return cells
    kept = cells.level >= 0
    warnings.warn(
        f"{np.count_nonzero(~kept):,} stored zeros are taken as not rated; if they are ratings, "
        "give a scale with 0, for example scale=[0, 1, 2, 3, 4, 5].",
        stacklevel=user_stacklevel(),
    )
    return Cells(*(part[kept] for part in cells))


def repeated_cell(user: np.ndarray, item: np.ndarray) -> tuple[int, int] | None:
    """Where the first cell that is there twice is there for the first and the second time."""
    if user.size >= MANY and not is_any_twice(user, item):  # much sooner than by hashing all
        return None
    cell = user.astype(np.int64) * (int(item.max(initial=0)) + 1) + item
    repeated = pd.Series(cell).duplicated().to_numpy()
    if not repeated.any():
        return None
    second = int(repeated.argmax())
    return int((cell == cell[second]).argmax()), second


def _refuse_repeated_cells(table: Triples, user: np.ndarray, item: np.ndarray) -> None:
    twice = repeated_cell(user, item)
    if twice is None:
        return
    first, second = twice
    if table.is_sparse:
        # With zeros left out, rows are not those of the table; but then positions are ids.
        users, items = (table.user, table.item) if len(user) == len(table) else (user, item)
        raise DataError(
            f"User {users[second]} has rated item {items[second]} more than once; store one entry "
            "per user and item, or average them."
        )
    raise DataError(
        f"{table.place(second)}: this user has rated this item before, in row "
        f"{table.first_row + first} with {shown(table.rating[first])}; keep one of them with "
        "drop_duplicates(), or average them."
    )


# ---- new users and items -----------------------------------------------------------------------


def merged(
    known: Ratings, data: Any, policy: Literal["refuse", "replace"]
) -> tuple[Ratings, np.ndarray, np.ndarray]:
    """All ratings, known and new, with new users and items after the known ones.

    A rating of a known item by a known user is refused, or replaces what there was. Returns also
    whose ratings are new, and of what.

    Examples
    --------
    >>> known = read_ratings((["u", "v"], [10, 20], [1, 2]))
    >>> both, rows, columns = merged(known, (["v", "w"], [20, 20], [1, 2]), "replace")
    >>> both.to_frame()["rating"].tolist(), rows.tolist(), columns.tolist()
    ([1, 1, 2], [1, 2], [1])
    >>> merged(known, (["a", "v"], [10, 15], [2, 1]), "refuse")[0].to_frame()
      user  item  rating
    0    u    10       1
    1    v    20       2
    2    v    15       1
    3    a    10       2
    """
    table = as_triples(data)
    new, new_users, new_items = _numbered_on(known, table)
    _check_new(known, new, new_items, policy)
    wider = _widened(known, new_users, new_items)
    old, age = wider.observations, known.age
    if policy == "replace":
        n_items, cells = np.int64(wider.n_items), old.cells()
        stays = ~np.isin(cells.row * n_items + cells.column, new.row * n_items + new.column)
        old, age = old.select(stays), None if age is None else age[stays]
    both = old.insert(new)
    if age is not None:
        marks = replace(old, level=np.zeros_like(old.level))
        is_new = marks.insert(new._replace(level=np.ones_like(new.level))).level > 0
        by_cell = np.lexsort((new.column, new.row))
        age = _ages_of_both(age, _ages_of_new(new, table)[by_cell], is_new, both.cells().row)
    return Ratings.of(wider, both, age), np.unique(new.row), np.unique(new.column)


def _ages_of_new(new: Cells, table: Triples) -> np.ndarray:
    """Among new ratings alone; without times they are all of the same age."""
    found = None if table.time is None else recency_rank(new.row, table.time)
    return np.zeros(new.row.size, dtype=np.uint8) if found is None else found


def _ages_of_both(old: np.ndarray, new: np.ndarray, is_new: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Ages of old and new ratings where they are; old ones are older by as many as are new."""
    found = np.empty(is_new.size, dtype=np.uint8)
    found[is_new] = new
    n_new = np.bincount(row[is_new], minlength=int(row.max(initial=0)) + 1)
    found[~is_new] = add_to_rank(old, n_new[row[~is_new]])
    return found


def with_ids(known: Ratings, users: Ids | None, items: Ids | None, *, is_learnt: bool = False) -> Ratings:
    """The same ratings with more users and items, who have none, after those known.

    If a model of them is learnt already, items must be on a scale of which it knows.

    Examples
    --------
    >>> known = read_ratings((["u", "v"], [10, 20], [1, 2]))
    >>> wider = with_ids(known, Ids(np.array(["a", "v"], dtype=object)), None)
    >>> wider.users.labels.tolist(), wider.n_ratings
    (['u', 'v', 'a'], 2)
    """
    new_users, new_items = (
        Ids(ids.labels[:0]) if more is None else Ids(more.labels[ids.match(more, what) < 0])
        for ids, more, what in ((known.users, users, "user"), (known.items, items, "item"))
    )
    if not len(new_users) and not len(new_items):
        return known
    if len(new_items) and known.default_scale is None:
        raise DataError(
            f"The item {shown(new_items.labels[0])} has features and no rating, and every known "
            "item has a scale of its own, so that its scale is not known; leave it out, or fit() "
            "with scale=[...] for all items that item_scales does not name."
        )
    if is_learnt:
        _check_learnt(known, new_items)
    return _widened(known, new_users, new_items)


def _widened(known: Ratings, new_users: Ids, new_items: Ids) -> Ratings:
    scales, common = known.scales, known.default_scale
    if not isinstance(scales, Scale) and common is not None:
        scales = (*scales, *([common] * len(new_items)))
    users, items = _joined(known.users, new_users), _joined(known.items, new_items)
    wider, old = Catalogue(users, items, scales, common), known.observations
    start = np.concatenate([old.row_start, np.full(len(new_users), old.n_entries)])
    seen = Observations(start, old.column, old.level, wider.level_counts())
    return Ratings.of(wider, seen, known.age)


def _check_new(known: Ratings, new: Cells, new_items: Ids, policy: str) -> None:
    if not new.level.size:
        purpose = "fold in" if policy == "refuse" else "learn from"
        raise DataError(f"There is no rating to {purpose}; give at least one.")
    both = (new.row < known.n_users) & (new.column < known.n_items)
    if policy == "refuse" and both.any():
        k = int(both.argmax())
        user, item = known.users.labels[new.row[k]], known.items.labels[new.column[k]]
        raise DataError(
            f"Rating {k} (counted from 0) is of item {shown(item)} by user {shown(user)}, both "
            "known; fold_in() is for new users and new items: leave it out, or fit() again."
        )
    if new.level.min() < 0:
        item = new_items.labels[new.column[int(new.level.argmin())] - known.n_items]
        raise DataError(
            f"The item {shown(item)} is new, and every known item has a scale of its own, so that "
            "its ratings cannot be read; fit() again with item_scales."
        )
    _check_learnt(known, new_items)


def _check_learnt(known: Ratings, new_items: Ids) -> None:
    common, longest = known.default_scale, max(scale.n_levels for scale in known.distinct()[0])
    # Of the last levels of a scale that is longer than all known, nothing has been learnt.
    if len(new_items) and common is not None and common.n_levels > longest:
        raise DataError(
            f"The item {shown(new_items.labels[0])} is new and on the common scale "
            f"{shorten(common.labels)}, of which nothing has been learnt because no known item has "
            f"more than {longest} levels; fit() again with its ratings."
        )


def _joined(known: Ids, new: Ids) -> Ids:
    return Ids(np.concatenate([known.labels, new.labels])) if len(new) else known
