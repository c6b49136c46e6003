"""Ratings: who rated what how, as positions on lists of ids and levels on scales.

Tables, triples of arrays and sparse matrices come in, `Ratings` goes out: `Observations` whose
rows are users and whose columns are items, the ids behind rows and columns, and the scales.

A hundred million ratings must fit beside their own arrays. So columns are worked on in blocks,
ids and ratings are looked at once per distinct value, and nothing wider than 8 bytes per rating
is made on the way.

Several processes may each bring some of the ratings; one process is a group of one. They agree on
ids and scales, and then send each rating to the one that has its user. In the end all know all
ids, and each has all ratings of some users: users are cut where about equally many ratings lie
between two cuts, in the order of their ids. So the ratings of process 0, 1 and so on, one after the
other, are in the order in which one process would have them. Whatever is wrong with the ratings of
one process is raised by all, and none waits for another.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import Column, Ids, mapped, read_text, shown
from ordinalrbm.data.frames import as_frame
from ordinalrbm.data.observations import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    Cells,
    Observations,
    is_any_twice,
    level_type,
    starts,
)
from ordinalrbm.data.recency import NO_TIME, NOW, Times, ages, by_cell, times_of
from ordinalrbm.data.scales import MANY_LEVELS, MAX_LEVELS, OFF_SCALE, Scale, check_labels, shorten
from ordinalrbm.data.triples import COLUMNS, Part, Triples, as_triples
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel
from ordinalrbm.runtime.blocks import MANY, blocks, each_block
from ordinalrbm.runtime.process_group import ALONE, Alone, Group, Stream, current
from ordinalrbm.runtime.timing import stage
from ordinalrbm.storage.reader import Stored

_NO_LEVEL = -1  # in a table of levels: not a rating, or no scale to read it on


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """The users, the items and the scales of a rating matrix.

    Examples
    --------
    >>> ids = Ids(np.array([10, 20]))
    >>> catalogue = Catalogue(ids, ids, Scale((1, 2, 3)), Scale((1, 2, 3)))
    >>> catalogue.cells(20, [10, 30]).column.tolist()
    [0, -1]
    >>> catalogue.expected(np.array([[0.5, 0.1, 0.4]]), np.array([0])).tolist()
    [1.9]
    """

    users: Ids
    items: Ids
    scales: Scale | tuple[Scale, ...]  # one for all items, or one per item where they differ
    # What ratings of unknown items are read with; None when each item has a scale of its own.
    default_scale: Scale | None

    @property
    def n_users(self) -> int:
        """Number of users, those without ratings in a sparse matrix included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    def lookup(self, labels: Any, what: str) -> np.ndarray:
        """Positions of a single id or of many, -1 for the unknown; `what` is "user" or "item"."""
        ids = self.users if what == "user" else self.items
        return ids.lookup(as_list(labels), what)

    def cells(self, users: Any, items: Any) -> Cells:
        """The cells of users and items, pair by pair; a single id stands for all."""
        row, column = self.lookup(users, "user"), self.lookup(items, "item")
        if is_single(users):
            row = np.repeat(row, column.size)
        elif is_single(items):
            column = np.repeat(column, row.size)
        if row.size != column.size:
            raise DataError(
                f"There are {row.size} users and {column.size} items; give as many of each, pair "
                "by pair, or a single id."
            )
        return Cells(row, column, np.zeros(row.size, dtype=np.int8))

    def scale_of(self, item: int) -> Scale:
        return self.scales if isinstance(self.scales, Scale) else self.scales[item]

    def distinct(self, *further: Scale) -> tuple[list[Scale], np.ndarray]:
        """The different scales, and which of them each item and each further scale is on."""
        if isinstance(self.scales, Scale):
            return [self.scales], np.zeros(self.n_items + len(further), dtype=np.int64)
        known: dict[Scale, int] = {}
        which = [known.setdefault(scale, len(known)) for scale in (*self.scales, *further)]
        return list(known), np.array(which, dtype=np.int64)

    def cold_start_scale(self) -> Scale:
        """The scale on which an unknown item is predicted.

        Of a scale that is longer than any item's, nothing could be learnt.
        """
        longest = max(self.distinct()[0], key=lambda scale: scale.n_levels)
        common = self.default_scale
        return longest if common is None or common.n_levels > longest.n_levels else common

    def level_counts(self) -> np.ndarray:
        distinct, of_item = self.distinct()
        return np.array([scale.n_levels for scale in distinct], dtype=np.int32)[of_item]

    def decode(self, levels: Any, columns: Any) -> np.ndarray:
        """The ratings behind levels of items (positions); level -1 becomes missing."""
        distinct, which = self._scales_of(np.asarray(columns))
        levels = np.asarray(levels)
        if len(distinct) == 1:
            return distinct[0].decode(levels)
        numeric = all(scale.is_numeric for scale in distinct)
        labels = np.empty(which.size, dtype=np.float64 if numeric else object)
        for k, scale in enumerate(distinct):
            labels[which == k] = scale.decode(levels[which == k])
        return labels

    def expected(self, distribution: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """(cells,) mean of each distribution (cells, L) over the levels of an item."""
        distinct, which = self._scales_of(columns)
        expected = np.empty(which.size)
        for k, scale in enumerate(distinct):
            chosen = which == k
            expected[chosen] = distribution[chosen, : scale.n_levels] @ scale.values
        return expected

    def _scales_of(self, columns: np.ndarray) -> tuple[list[Scale], np.ndarray]:
        distinct, of_item = self.distinct(self.cold_start_scale())
        return distinct, of_item[columns]  # an unknown item, at -1, finds the last


def is_single(labels: Any) -> bool:
    return isinstance(labels, str | bytes | Set | Mapping) or not np.iterable(labels)


def as_list(labels: Any) -> Any:
    """Ids one after the other; of a generator, a list."""
    if is_single(labels):
        return [labels]
    return list(labels) if isinstance(labels, Iterator) else labels


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
    times: Times | None = None  # in the order of the observations
    _age: np.ndarray | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, known: Catalogue, observations: Observations, times: Times | None = None) -> Ratings:
        return cls(known.users, known.items, known.scales, known.default_scale, observations, times)

    @property
    def age(self) -> np.ndarray | None:
        """How many ratings its user has given since each, in their order; None without times."""
        if self.times is not None and self._age is None:  # kept for the next time
            object.__setattr__(self, "_age", ages(self.observations.row_start, self.times.value))
        return self._age

    @property
    def n_ratings(self) -> int:
        return self.observations.n_entries

    def have_rated(self, rows: np.ndarray) -> np.ndarray:
        start = self.observations.row_start
        return (rows >= 0) & (start[rows + 1] > start[rows])

    def to_frame(self, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
        """The ratings as a table with labels, by user and then by item."""
        row, column, level = self.observations.cells()
        users, items = self.users.labels[row], self.items.labels[column]
        values = (users, items, self.decode(level, column))
        return pd.DataFrame(dict(zip(columns, values, strict=True)))


class SharedRatings(Ratings):
    """Users, items and scales of ratings that several processes have; asking for the ratings is an error.

    Each has those of its own users, who follow those of the process before; together they can write a file.
    """

    __slots__ = ("among", "own")
    own: Ratings
    among: Group

    def __init__(self, own: Ratings, among: Group) -> None:
        for name in ("users", "items", "scales", "default_scale"):
            object.__setattr__(self, name, getattr(own, name))
        nothing = None if own.times is None else own.times._replace(value=own.times.value[:0])
        for name, value in {"times": nothing, "_age": None, "own": own, "among": among}.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type, tuple[Ratings, Any]]:
        return SharedRatings, (self.own, self.among)

    def have_rated(self, rows: np.ndarray) -> np.ndarray:
        """Whether each user has a rating: all whose ids the processes have read."""
        return rows >= 0

    @property
    def observations(self) -> Observations:
        """An error: they are not here."""
        raise DataError(
            "This process was given only some of the ratings, and none knows what all users have rated; let "
            "all processes save() the model, and load the file."
        )

    def of_all(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | Stream]:
        """The arrays of a model file that are other ones when it has the ratings of all processes."""
        counts = self.among.summed(self.own.observations.row_counts)
        parts = ("seen.column", "seen.level", "time")
        streams = {name: self.among.stream(arrays[name]) for name in parts if name in arrays}
        return {"seen.row_start": starts(counts), **streams}


# ---- reading ----------------------------------------------------------------------------------


def read_given(
    ratings: Any, validation: Any, *, scale: Any, item_scales: Any, sample_weight: Any = None
) -> tuple[Ratings, Cells | None, Alone | Group, np.ndarray | None]:
    """What was given to a fit: ratings, validation ratings, the processes that share them, and weights.

    Those are the weights of the validation ratings, where they have a column of the same name.
    """
    group, is_part = current() or ALONE, isinstance(ratings, Part)
    if not group.agree(is_part):
        raise DataError(
            "Some processes of this run were given a RatingsPart and others all ratings; give all "
            "of them the same."
        )
    among = group if is_part else ALONE
    if sample_weight is not None and not isinstance(among, Alone):
        raise DataError(
            "sample_weight goes with all ratings in every process, not with a RatingsPart; give all "
            "processes the same ratings and weights."
        )
    own = {"scale": scale, "item_scales": item_scales, "sample_weight": sample_weight}
    known, weight = read_ratings(ratings, among=among, **own), None
    if not is_part and not group.agree(None if known.times is None else known.times.clock):
        raise DataError(
            "Some processes of this run were given times of the ratings and others none, or of another kind; "
            "give all of them the same ratings."
        )
    if among.size > 1 and known.level_counts().max() < 2:
        raise DataError(
            "Processes that share the ratings learn from scales of two levels or more, and these are "
            "choices; give all processes all of them, or fit in a single process."
        )
    frame = as_frame(validation) if isinstance(sample_weight, str) else None
    if frame is not None and sample_weight in frame.names:
        validation = as_triples(validation, sample_weight=sample_weight)
        weight = validation.weight
    return known, _read_validation(known, validation, among), among, weight


def _read_validation(known: Ratings, ratings: Any, among: Alone | Group) -> Cells | None:
    """Validation ratings, of which all processes have all."""
    if not among.agree(type(ratings).__name__):
        raise _different_validation()
    if ratings is None:
        return None
    if isinstance(ratings, Part):
        return encode(known, ratings, among=current() or ALONE)
    with among.raise_on_all_ranks():
        given = encode(known, ratings)
    if among.size > 1 and not among.agree(tuple(blake2b(part.tobytes()).hexdigest() for part in given)):
        raise _different_validation()
    return given


def _different_validation() -> DataError:
    return DataError(
        "The processes of this run were given different validation ratings; give all of them the "
        "same, or give each its own as a RatingsPart."
    )


def read_ratings(
    data: Any,
    *,
    scale: Any = None,
    item_scales: Mapping[Any, Any] | None = None,
    among: Alone | Group = ALONE,
    sample_weight: Any = None,
) -> Ratings:
    """Read a rating matrix.

    Parameters
    ----------
    data : frame, tuple of three arrays, or scipy.sparse matrix or array
        One row per rating with user, item and rating, and perhaps timestamp (numbers, dates or
        dates in text), which tells what is recent; other columns are left alone. Other usual names,
        such as customer_id, movieId and stars, are known, too (`ordinalrbm.data.triples` has all of
        them); capitals, blanks, hyphens and underscores make no difference. Of a sparse
        matrix the stored entries are the ratings, rows are users and columns are items, and their
        positions are the ids; **a stored zero is a rating only where 0 is on the given scale.**
    scale : labels from lowest to highest, optional
        The scale of all items. By default the distinct ratings in ascending order, or the
        categories of an ordered categorical; text has no order of its own and needs one of both.
    item_scales : dict of item to labels, optional
        Items with a scale of their own; the others have `scale`.
    among : Group, optional
        Processes that all call this, each with some of the ratings, perhaps none.
    sample_weight : array with a number per rating, or name of a column, optional
        How many times each rating counts; one of weight zero is left out, and its user and its item
        stay. Of a table without ratings, pairs that come several times are one that counts as often.

    Returns
    -------
    Ratings
        All users, items and scales; of the ratings, those of this process's users.

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
    table = _own_table(data, among, sample_weight)
    known, cells = _read_cells(table, scale, item_scales, among)
    if isinstance(among, Group):
        times = times_of(table.time, among=among, n=len(table))
        del table  # the largest that there is
        return _of_own_users(known, cells, times, among)
    times, weight = None if table.time is None else times_of(table.time), table.weight
    if not table.has_ratings:
        cells, weight, value = _counted(cells, weight, None if times is None else times.value)
        times = times if value is None or times is None else times._replace(value=value)
    with stage("by user and item"):
        observations = _by_user_and_item(known, cells, table)
    with stage("when each was given"):
        if times is not None:
            times = times._replace(value=by_cell(observations, cells, times.value))
    if weight is None:
        return Ratings.of(known, observations, times)
    if table.is_sparse:  # where stored zeros may be no ratings
        weight = weight[observations.search(table.user.values, table.item.values) >= 0]
    return _weighted(Ratings.of(known, observations, times), by_cell(observations, cells, weight))


def _counted(
    cells: Cells, weight: np.ndarray | None, time: np.ndarray | None
) -> tuple[Cells, np.ndarray | None, np.ndarray | None]:
    """Cells that come several times once each, with the sum of their weights and the last of their times."""
    if not is_any_twice(cells.row, cells.column):
        return cells, weight, time
    key = cells.row.astype(np.int64) * (int(cells.column.max()) + 1) + cells.column
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    last = None
    if time is not None:
        last = np.full(first.size, NO_TIME)
        np.maximum.at(last, which, time)
    total = np.minimum(np.bincount(which, weight), LARGEST_WEIGHT)
    return cells.at(first), total, last


def _weighted(known: Ratings, weight: np.ndarray) -> Ratings:
    """With weights, but for ratings of weight zero."""
    weight, observations, times = weight.astype(np.float32), known.observations, known.times
    counts = weight > LEAST_WEIGHT
    if (weight[counts] != 1.0).any():
        observations = observations.with_weight(weight)
    if not counts.all():
        observations = observations.select(counts)
        times = None if times is None else times._replace(value=times.value[counts])
    return Ratings.of(known, observations, times)


def _own_table(data: Any, among: Alone | Group, sample_weight: Any = None) -> Triples:
    with among.raise_on_all_ranks():
        table = as_triples(data, sample_weight)
        if table.is_sparse and among.size > 1:
            raise DataTypeError(
                "Part of the ratings must be a DataFrame or a tuple of three arrays (user, item, "
                "rating), not a sparse matrix, whose rows are all users; convert it first."
            )
    if not among.agree(table.has_ratings):
        raise DataError(
            "Some parts of the ratings have no column 'rating', and others have one; give all of them "
            "ratings, or none."
        )
    return replace(table, first_row=among.before(len(table)))


def _read_cells(
    table: Triples, scale: Any, item_scales: Mapping[Any, Any] | None, among: Alone | Group
) -> tuple[Catalogue, Cells]:
    """Ids and scales of all ratings, and the cells of those that are brought here."""
    with among.raise_on_all_ranks():
        with stage("ids to positions"):
            (user, users), (item, items) = table.number("user"), table.number("item")
        with stage("ratings to levels"):
            values = _read_values(table)
    user, users = _agreed_ids(user, users, "user", among)
    item, items = _agreed_ids(item, items, "item", among)
    values = _agreed_values(values, among)
    with stage("ratings to levels"):
        with among.raise_on_all_ranks():
            common, own = _given_scales(scale, item_scales, items)
        if common is None and len(own) < len(items):
            seen = among.summed(_values_seen(values, item, own).astype(np.int64)) > 0
            common = _infer_scale(values, seen, zeros_count=not table.is_sparse)
        scales: Any = tuple(own.get(j, common) for j in range(len(items))) if own else common
        known = Catalogue(users, items, scales, common)
        with among.raise_on_all_ranks():
            cells = Cells(user, item, _levels(table, values, item, known))
    if not table.is_sparse:
        return known, cells
    if not (cells.level >= 0).any():
        raise no_rating()
    return known, _without_gaps(cells)


def _by_user_and_item(known: Catalogue, cells: Cells, table: Triples | None = None) -> Observations:
    try:
        return Observations.from_triples(*cells, known.n_users, known.n_items, known.level_counts())
    except DataError:
        _refuse_repeated(known, cells, table)
        raise


def no_rating() -> DataError:
    return DataError("There is no rating in the data; give at least one.")


def encode(known: Catalogue, data: Any, *, among: Alone | Group = ALONE) -> Cells:
    """Read further ratings (validation, test), perhaps none, on known ids and scales.

    They stay in the order of the data. Unknown users and items have position -1; the level of an
    unknown item is -1 when every known item has a scale of its own. Where processes bring some of
    them each, all have all of them then.

    Examples
    --------
    >>> known = read_ratings((["u", "v"], [10, 20], [1, 2]))
    >>> more = encode(known, (["v", "w"], [10, 20], [2, 1]))
    >>> more.row.tolist(), more.column.tolist(), more.level.tolist()
    ([1, -1], [0, 1], [1, 0])
    """
    table = _own_table(data, among)
    with among.raise_on_all_ranks():
        cells, _, _ = _encode_with_new(known, table)
    cells.row[cells.row >= known.n_users] = -1
    cells.column[cells.column >= known.n_items] = -1
    if isinstance(among, Group):
        cells = Cells(*map(among.all_gather, cells))
        both = (cells.row >= 0) & (cells.column >= 0)
        _refuse_repeated(known, cells.at(both))
    return cells


def _encode_with_new(
    known: Catalogue, table: Triples, *, counts_repeated: bool = False
) -> tuple[Cells, Ids, Ids]:
    """Ratings with unknown ids numbered on after the known ones, and the new users and items."""
    user, new_users = known.users.encode(table.user, "user", table.location)
    item, new_items = known.items.encode(table.item, "item", table.location)
    if table.has_ratings or not counts_repeated:
        _refuse_repeated(known, Cells(user, item, user), table)
    known_item = np.where(item < known.n_items, item, np.int32(-1)) if len(new_items) else item
    cells = Cells(user, item, _levels(table, _read_values(table), known_item, known))
    # In a sparse matrix a level of -1 may be a stored zero.
    return _without_gaps(cells) if table.is_sparse else cells, new_users, new_items


def encode_with_new_users(known: Ratings, data: Any) -> tuple[Cells, Ids, np.ndarray]:
    """Cells of ratings, new users after the known ones, new items at −1; new users; times."""
    table = as_triples(data)
    cells, new_users, _ = _encode_with_new(known, table)
    column = np.where(cells.column < known.n_items, cells.column, -1)
    time = times_of_cells(known, table)
    return cells._replace(column=column), new_users, np.full(len(table), NOW) if time is None else time


# ---- values and scales ------------------------------------------------------------------------


def _read_values(table: Triples) -> Column:
    column = table.rating
    if column.kind in ("list", "other"):
        value = column.values[column.wrong]
        raise DataTypeError(
            f"{table.location(column.wrong)}: a rating must be a real number or text, but {value!r} "
            f"is of type {type(value).__name__}; convert the ratings."
        )
    missing = column.first_missing()
    if missing >= 0:
        raise DataError(
            f"{table.location(missing)}: the rating is missing; drop such rows, for example with "
            "dropna(), what is not rated needs no row."
        )
    coded = column.coded()
    plain = np.asarray(coded.distinct).tolist() if not column.is_coded else list(coded.distinct)
    if len(plain) > MAX_LEVELS:
        raise _too_many_values(len(plain))
    if not column.is_coded and column.values.dtype.kind == "f":
        if column.values.dtype.itemsize < 8:  # at the written value: float32 0.1 is 0.1
            plain = [float(str(value)) for value in coded.distinct]
        for k, value in enumerate(plain):
            if math.isinf(value):
                raise DataError(
                    f"{table.location(int((coded.codes == k).argmax()))}: the rating {value} is "
                    "infinity, which is on no scale; correct or drop it."
                )
    return replace(coded, distinct=plain)


def _too_many_values(n: int) -> DataError:
    return DataError(
        f"There are {n:,} distinct ratings or more, and a scale can have {MAX_LEVELS:,} levels; "
        "bin the ratings, for example with pandas.qcut."
    )


def _given_scales(
    scale: Any, item_scales: Mapping[Any, Any] | None, items: Ids
) -> tuple[Scale | None, dict[int, Scale]]:
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


def _as_scale(labels: Any, where: str) -> Scale:
    return labels if isinstance(labels, Scale) else Scale(check_labels(labels, where))


def _values_seen(values: Column, item: np.ndarray, own: dict[int, Scale]) -> np.ndarray:
    """Which of the distinct ratings were given to items without a scale of their own."""
    seen = np.full(len(values.distinct), not own)
    for block in blocks(len(item) if own else 0):
        seen[values.codes[block][~np.isin(item[block], list(own))]] = True
    return seen


def _infer_scale(values: Column, seen: np.ndarray, zeros_count: bool) -> Scale:
    """The scale of the ratings that were seen; zeros may mean no rating."""
    if values.kind == "ordered":
        return Scale(check_labels(values.distinct, "The ratings' categorical"))
    found = [value for value, there in zip(values.distinct, seen, strict=True) if there]
    is_unordered = values.kind == "category"
    if is_unordered or any(isinstance(value, str) for value in found):
        what = "are a categorical without an order" if is_unordered else "are text"
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


def _levels(table: Triples, values: Column, item: np.ndarray, known: Catalogue) -> np.ndarray:
    """Level of each rating; an item of -1 is unknown, a level of -1 no rating or no scale."""
    own, scale_of = known.distinct()
    scales: list[Scale | None] = [*own]
    if not isinstance(known.scales, Scale):  # one more, so that an item of -1 finds the default
        scale_of = np.append(scale_of, len(own))
        scales.append(known.default_scale)
    width = level_type([scale.n_levels for scale in (*scales, known.default_scale) if scale])
    distinct = np.array(values.distinct, dtype=object)
    no_level = np.full(len(distinct), _NO_LEVEL)
    level_of = np.stack([scale.match(distinct) if scale else no_level for scale in scales])
    if table.is_sparse:  # there an off-scale zero is not a rating
        zero = [value == 0 for value in distinct]
        level_of[:, zero] = np.maximum(level_of[:, zero], _NO_LEVEL)
    level_of = level_of.astype(width)
    level = np.empty(len(item), dtype=width)

    def look_up(block: slice) -> None:
        scale = 0 if len(scales) == 1 else scale_of[item[block]]
        level[block] = level_of[scale, values.codes[block]]
        if level[block].min() == OFF_SCALE:
            row = block.start + int((level[block] == OFF_SCALE).argmax())
            raise _off_scale(table, row, known, int(item[row]))

    each_block(look_up, len(item))
    return level


def _off_scale(table: Triples, row: int, known: Catalogue, item: int) -> DataError:
    scale, remedy = known.default_scale, "scale=[...]"
    if not isinstance(known.scales, Scale):
        scale = known.scales[item] if item >= 0 else known.default_scale
        remedy = f"item_scales={{{shown(table.item.value(row))}: [...]}}"
    assert scale is not None
    return DataError(
        f"{table.location(row)}: the rating {shown(table.rating.value(row))} is not on the scale "
        f"{shorten(scale.labels)}; correct or drop it, or give the whole scale with {remedy}."
    )


def _without_gaps(cells: Cells) -> Cells:
    """Only what has a level; a warning counts the others, which are stored zeros."""
    kept = cells.level >= 0
    if kept.all():
        return cells
    warnings.warn(
        f"{np.count_nonzero(~kept):,} stored zeros are taken as not rated; if they are ratings, "
        "give a scale with 0, for example scale=[0, 1, 2, 3, 4, 5].",
        stacklevel=user_stacklevel(),
    )
    return cells.at(kept)


# ---- one rating per user and item -------------------------------------------------------------


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


def _refuse_repeated(known: Catalogue, cells: Cells, table: Triples | None = None) -> None:
    """Refuse two ratings of one cell; the rows of the table, if it is here, are those of the cells.

    They are not once zeros of a sparse matrix are left out.
    """
    user, item, level = cells
    twice = repeated_cell(user, item)
    if twice is None:
        return
    first, second = twice
    if table is not None and len(table) == user.size:
        raise DataError(
            f"{table.location(second)}: this user has rated this item before, in row "
            f"{table.first_row + first} with {shown(table.rating.value(first))}; keep one of them with "
            "drop_duplicates(), or average them."
        )
    ratings = known.decode(level[[first, second]], item[[first, second]])
    raise DataError(
        f"User {shown(known.users.labels[user[first]])} has rated item "
        f"{shown(known.items.labels[item[first]])} more than once, with {shown(ratings[0])} and "
        f"with {shown(ratings[1])}; keep one of them with drop_duplicates(), or average them."
    )


# ---- between processes ------------------------------------------------------------------------


def _agreed_ids(position: np.ndarray, own: Ids, what: str, among: Alone | Group) -> tuple[np.ndarray, Ids]:
    """Positions among the ids of all processes instead of the own ones, and those, ascending."""
    said = among.all_gather_object((own.is_text, shown(own.labels[0])) if len(own) else None)
    examples = dict(each for each in said if each is not None)  # by whether they are text
    if not examples:
        raise no_rating()
    if len(examples) == 2:
        raise DataError(
            f"Some {what}s are text, such as {examples[True]}, and others are numbers, such as "
            f"{examples[False]}; give all {what}s one type, for example with astype(str)."
        )
    if among.size == 1:
        return position, own
    if False in examples:
        ids = Ids(np.unique(among.all_gather(own.labels)))
    else:
        arrays = Ids(own.labels.astype(object)).to_arrays()
        length = among.all_gather(np.diff(arrays["end"], prepend=0))
        text = {"text": among.all_gather(arrays["text"]), "end": np.cumsum(length)}
        ids = Ids(np.array(sorted(set(read_text(Stored(text, {})))), dtype=object))
    if not len(own):
        return position, ids
    return mapped(position, ids.match(own, what).astype(np.int32)), ids


def _agreed_values(own: Column, among: Alone | Group) -> Column:
    if among.size == 1:
        return own
    said = [each for each in among.all_gather_object((own.distinct, own.kind)) if each[0]]
    known: dict[Any, int] = {}
    for distinct, _ in said:
        for value in distinct:
            known.setdefault(value, len(known))
    if len(known) > MAX_LEVELS:
        raise _too_many_values(len(known))
    table = np.array([known[value] for value in own.distinct], dtype=np.int32)
    kinds = {kind for _, kind in said}
    # Categories that are not the same everywhere have no order that all would agree on.
    is_ordered = kinds == {"ordered"} and all(each == said[0] for each in said)
    kind = "ordered" if is_ordered else "category" if kinds & {"ordered", "category"} else own.kind
    return replace(own, kind=kind, codes=mapped(own.codes, table), distinct=list(known))


def _of_own_users(known: Catalogue, cells: Cells, times: Times | None, group: Group) -> Ratings:
    """All ratings of this process's users, with times, sent by the processes that have read them."""
    user = cells.row
    counts = group.summed(np.bincount(user, minlength=known.n_users))
    before = np.cumsum(counts) - counts
    owner = before * group.size // counts.sum()
    further = [] if times is None else [times.value]
    parts = group.all_to_all(lambda block: owner[user[block]], *cells, *further)
    own = Cells(*parts[:3])
    with group.raise_on_all_ranks():
        found = _by_user_and_item(known, own)
    if times is not None:
        times = times._replace(value=by_cell(found, own, parts[3]))
    return Ratings.of(known, found, times)


# ---- fewer users and items --------------------------------------------------------------------


def between(known: Ratings, rows: np.ndarray, columns: np.ndarray) -> Ratings:
    by, of = np.zeros(known.n_users, dtype=bool), np.zeros(known.n_items, dtype=bool)
    by[rows], of[columns] = True, True
    row, column, _ = known.observations.cells()
    stays, times = by[row] & of[column], known.times
    times = None if times is None else times._replace(value=times.value[stays])
    return Ratings.of(known, known.observations.select(stays), times)


def taken(known: Ratings, rows: np.ndarray, columns: np.ndarray) -> Ratings:
    """Some users and items (ascending positions), between whom all ratings are."""
    scales = known.scales
    if not isinstance(scales, Scale):
        scales = tuple(scales[j] for j in columns)
    users, items = Ids(known.users.labels[rows]), Ids(known.items.labels[columns])
    few = Catalogue(users, items, scales, known.default_scale)
    # In this order, times stay with their ratings.
    return Ratings.of(few, known.observations.reorder(rows, columns), known.times)


# ---- new users and items ----------------------------------------------------------------------


def merged(
    known: Ratings, data: Any, policy: Literal["refuse", "replace"], sample_weight: Any = None
) -> tuple[Ratings, np.ndarray, np.ndarray]:
    """All ratings, known and new, with new users and items after the known ones.

    A rating of a known item by a known user is refused, or replaces what there was. Returns also
    whose ratings are new or others than before, and of what: one that is known already is neither.
    Choices without ratings count as often as they come, or as before if that is more.

    Examples
    --------
    >>> known = read_ratings((["u", "v"], [10, 20], [1, 2]))
    >>> both, rows, columns = merged(known, (["v", "w"], [20, 20], [1, 2]), "replace")
    >>> both.to_frame()["rating"].tolist(), rows.tolist(), columns.tolist()
    ([1, 1, 2], [1, 2], [1])
    >>> merged(known, (["u", "v"], [10, 20], [1, 1]), "replace")[1].tolist()
    [1]
    >>> merged(known, (["a", "v"], [10, 15], [2, 1]), "refuse")[0].to_frame()
      user  item  rating
    0    u    10       1
    1    v    20       2
    2    v    15       1
    3    a    10       2
    """
    table = as_triples(data, sample_weight=sample_weight)
    if table.weight is not None:
        table = table.take(np.flatnonzero(table.weight > LEAST_WEIGHT))
    new, new_users, new_items = _encode_with_new(known, table, counts_repeated=True)
    given, weight = times_of_cells(known, table), table.weight
    if not table.has_ratings:
        new, weight, given = _counted(new, weight, given)
    _check_new(known, new, new_items, policy)
    wider = _widened(known, new_users, new_items)
    old, times = wider.observations, known.times
    before = np.zeros(0, dtype=np.int64) if times is None else times.value
    if policy == "replace":
        replaced = old.search(new.row, new.column)
        if table.weight is None and weight is not None and old.weight.size:
            weight = np.where(replaced >= 0, np.maximum(weight, old.weight[replaced]), weight)
        differs = _differs(old, before, replaced, new.level, given, weight)
        new, replaced = new.at(differs), replaced[differs]
        given, weight = (None if part is None else part[differs] for part in (given, weight))
        stays = np.ones(old.n_entries, dtype=bool)
        stays[replaced[replaced >= 0]] = False
        old, before = old.select(stays), before[stays] if before.size else before
    both = old.insert(new, weight)
    if times is not None:
        is_old, entry = np.ones(both.n_entries, dtype=bool), both.search(new.row, new.column)
        is_old[entry] = False
        value = np.empty(both.n_entries, dtype=np.int64)
        value[is_old], value[entry] = before, NOW if given is None else given
        times = times._replace(value=value)
    return Ratings.of(wider, both, times), np.unique(new.row), np.unique(new.column)


def times_of_cells(known: Ratings, data: Any, among: Alone | Group = ALONE) -> np.ndarray | None:
    """Times of further ratings, in the order in which :func:`encode` has them; None without."""
    if known.times is None:
        return None
    table = as_triples(data)
    if table.time is None and among.size == 1:
        return None
    found = times_of(table.time, known.times.clock, among, len(table))
    return None if found is None else among.all_gather(found.value)


def refuse_without_scale(cells: Cells, n_levels: int, data: Any) -> None:
    """Refuse levels that a model with so many does not have: those of unknown items on other scales."""
    is_other = (cells.level < 0) | (cells.level >= n_levels)
    if is_other.any():
        item = as_triples(data).item.value(int(is_other.argmax()))
        raise DataError(f"The item {shown(item)} is new, and nothing is learnt of its scale; leave it out.")


def _differs(
    known: Observations,
    time: np.ndarray,
    entry: np.ndarray,
    level: np.ndarray,
    given: np.ndarray | None,
    weight: np.ndarray | None,
) -> np.ndarray:
    """Whether ratings are new (their entry is negative), or others than known; also in time or weight."""
    there = np.flatnonzero(entry >= 0)
    same = known.level[entry[there]] == level[there]
    if given is not None:
        same &= time[entry[there]] == given[there]
    if weight is not None:
        before = known.weight[entry[there]] if known.weight.size else 1.0
        same &= before == weight[there].astype(np.float32)
    found = np.ones(entry.size, dtype=bool)
    found[there] = ~same
    return found


def with_ids(known: Ratings, users: Ids | None, items: Ids | None, *, is_learnt: bool = False) -> Ratings:
    """The same ratings with more users and items, who have none, after those known.

    If a model of them is learnt already, items must be on a scale of which it knows.
    """
    new_users, new_items = (
        Ids(ids.labels[:0]) if more is None else Ids(more.labels[ids.match(more, what) < 0])
        for ids, more, what in ((known.users, users, "user"), (known.items, items, "item"))
    )
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
    if not len(new_users) and not len(new_items):
        return known
    scales, common = known.scales, known.default_scale
    if not isinstance(scales, Scale) and common is not None:
        scales = (*scales, *([common] * len(new_items)))
    wider = Catalogue(known.users.with_new(new_users), known.items.with_new(new_items), scales, common)
    old = known.observations
    start = np.concatenate([old.row_start, np.full(len(new_users), old.n_entries)])
    observations = Observations(start, old.column, old.level, wider.level_counts())
    return Ratings.of(wider, observations.with_weight(old.weight), known.times)


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
