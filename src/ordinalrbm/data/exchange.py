"""Ratings that several processes have read, each some of them.

The processes agree on ids and scales, and then send each rating to the one that has its user. In
the end all know all ids, and each has all ratings of some users: users are cut where about equally
many ratings lie between two cuts, in the order of their ids. So the ratings of process 0, 1 and so
on, one after the other, are in the order in which one process would have them.

Whatever is wrong with the ratings of one process is raised by all, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.catalogue import Catalogue
from ordinalrbm.data.columns import shown
from ordinalrbm.data.ids import Ids, mapped, read_text
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.ratings import (
    Ratings,
    Triples,
    Values,
    as_triples,
    catalogue_of,
    encode,
    encode_triples,
    given_scales,
    infer_scale,
    levels_of,
    no_rating,
    read_ratings,
    read_values,
    repeated_cell,
    too_many_values,
    values_seen,
)
from ordinalrbm.data.scales import MAX_LEVELS
from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.runtime.process_group import ALONE, Alone, Group, current
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.identity import digest


class RemoteRatings(Ratings):
    """Users, items and scales of ratings that process 0 has; asking for more is an error."""

    __slots__ = ()

    def __init__(self, whole: Ratings) -> None:
        for name in ("users", "items", "scales", "default_scale"):
            object.__setattr__(self, name, getattr(whole, name))
        object.__setattr__(self, "age", None)

    def have_rated(self, rows: np.ndarray) -> np.ndarray:
        """Whether each user has a rating: all whose ids the processes have read."""
        return rows >= 0

    @property
    def observations(self) -> Observations:
        """An error: they are not here."""
        raise DataError(
            "This process was given only some of the ratings, and what users have rated is known "
            "to process 0 alone; ask there, or load the model file that it has saved."
        )


class Part:
    """What a process brings of the ratings, where the others bring the rest."""

    def table(self) -> Any:
        """The ratings of this process."""
        raise NotImplementedError


def read_given(
    ratings: Any, validation: Any, *, scale: Any, item_scales: Any
) -> tuple[Ratings, Cells | None, Alone | Group]:
    """What was given to a fit, encoded once: ratings, validation ratings, and who shares them."""
    known, among = _read_known(ratings, scale, item_scales)
    return known, _read_validation(known, validation, among), among


def _read_known(ratings: Any, scale: Any, item_scales: Any) -> tuple[Ratings, Alone | Group]:
    """Ratings, and the processes that they are shared among: each has those of its users."""
    how = {"scale": scale, "item_scales": item_scales}
    group, is_part = current(), isinstance(ratings, Part)
    if group is not None and not group.agree(is_part):
        raise DataError(
            "Some processes of this run were given a RatingsPart and others all ratings; give all "
            "of them the same."
        )
    if not is_part:
        return read_ratings(ratings, **how), ALONE
    if group is None:
        return read_ratings(ratings.table(), **how), ALONE
    return read_shared(ratings.table, group, **how), group


def _read_validation(known: Ratings, ratings: Any, among: Alone | Group) -> Cells | None:
    """Validation ratings, of which all processes have all."""
    if isinstance(among, Group) and not among.agree(type(ratings).__name__):
        raise _different_validation()
    if ratings is None:
        return None
    if isinstance(ratings, Part):
        group = current()
        if group is not None:
            return encode_shared(known, ratings.table, group)
        return encode(known, ratings.table())
    with among.raise_on_all_ranks():
        given = encode(known, ratings)
    if isinstance(among, Group) and not among.agree(digest(*given)):
        raise _different_validation()
    return given


def _different_validation() -> DataError:
    return DataError(
        "The processes of this run were given different validation ratings; give all of them the "
        "same, or give each its own as a RatingsPart."
    )


def read_shared(
    table_of: Callable[[], Any],
    group: Group,
    *,
    scale: Any = None,
    item_scales: Mapping[Any, Any] | None = None,
) -> Ratings:
    """Read ratings of which every process of a group brings some.

    Parameters
    ----------
    table_of : callable
        ``table_of()`` is what this process brings: a frame or three arrays, also empty ones.
    group : Group
        The processes, which all call this.
    scale, item_scales
        As in `ordinalrbm.data.ratings.read_ratings`.

    Returns
    -------
    Ratings
        All users, items and scales; of the ratings, those of this process's users.

    Raises
    ------
    DataError
        On all processes, when `read_ratings` would refuse all ratings together.
    """
    return _with_own_users(*_own_levels(table_of, group, scale, item_scales), group)


def _own_levels(
    table_of: Callable[[], Any], group: Group, scale: Any, item_scales: Mapping[Any, Any] | None
) -> tuple[Catalogue, Cells]:
    """Ids and scales of all ratings, and the cells of those that are brought here.

    The table, which is the largest array that there is, is freed on return.
    """
    table = _own_table(table_of, group)
    with group.raise_on_all_ranks():
        coded = _coded(table)
    users = _joined_ids(coded.users, "user", group)
    items = _joined_ids(coded.items, "item", group)
    values = _joined_values(coded.values, group)
    user, item = _on_lists(coded, users, items)
    with group.raise_on_all_ranks():
        common, own = given_scales(scale, item_scales, items)
    if common is None and len(own) < len(items):
        seen = group.summed(values_seen(values, item, own).astype(np.int64)) > 0
        common = infer_scale(values, seen, zeros_count=True)
    known = catalogue_of(users, items, common, own)
    with group.raise_on_all_ranks():
        level = levels_of(table, values, item, known)
    return known, Cells(user, item, level)


def gather_on_rank_0(known: Ratings, among: Alone | Group) -> Ratings:
    """All ratings on process 0; on the others `RemoteRatings`."""
    if not isinstance(among, Group):
        return known
    own = known.observations
    counts = among.summed(own.row_counts)
    column, level = among.gather(own.column), among.gather(own.level)
    if among.rank > 0:
        return RemoteRatings(known)
    row_start = np.zeros(own.n_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=row_start[1:])
    return replace(known, observations=Observations(row_start, column, level, own.n_levels))


def encode_shared(known: Catalogue, table_of: Callable[[], Any], group: Group) -> Cells:
    """Read further ratings, of which every process brings some; all have all of them then.

    As `ordinalrbm.data.ratings.encode` does; unknown ids are -1.
    """
    table = _own_table(table_of, group)
    with group.raise_on_all_ranks():
        part = encode_triples(known, table)
    cells = Cells(*map(group.all_gather, part))
    both = (cells.row >= 0) & (cells.column >= 0)
    _refuse_repeated(known, Cells(*(part[both] for part in cells)))
    return cells


def _own_table(table_of: Callable[[], Any], group: Group) -> Triples:
    """What this process brings; rows are counted through the tables of all."""
    with group.raise_on_all_ranks():
        table = _as_part(table_of())
    return replace(table, first_row=group.before(len(table)))


def _as_part(data: Any) -> Triples:
    table = as_triples(data)
    if table.is_sparse:
        raise DataTypeError(
            "Part of the ratings must be a DataFrame or a tuple of three arrays (user, item, "
            "rating), not a sparse matrix, whose rows are all users; convert it first."
        )
    return table


# ---- ids, values and scales -------------------------------------------------------------------


class _Coded(NamedTuple):
    """What a process has read: positions on its own lists of ids, those lists, and ratings."""

    user: np.ndarray
    users: Ids
    item: np.ndarray
    items: Ids
    values: Values


def _coded(table: Triples) -> _Coded:
    if len(table):
        return _Coded(*table.number_users(), *table.number_items(), read_values(table))
    none, nobody = np.empty(0, dtype=np.int32), Ids(np.empty(0, dtype=np.int64))
    nothing = Values(none.astype(np.int16), [], is_ordered=False, is_unordered=False)
    return _Coded(none, nobody, none, nobody, nothing)


def _joined_ids(own: Ids, what: str, group: Group) -> Ids:
    """The ids of all processes, in ascending order."""
    said = group.all_gather_object((own.is_text, shown(own.labels[0])) if len(own) else None)
    examples = dict(each for each in said if each is not None)  # by whether they are text
    if not examples:
        raise no_rating()
    if len(examples) == 2:
        raise DataError(
            f"Some {what}s are text, such as {examples[True]}, and others are numbers, such as "
            f"{examples[False]}; give all {what}s one type, for example with astype(str)."
        )
    if False in examples:
        return Ids(np.unique(group.all_gather(own.labels)))
    labels = own.labels if len(own) else own.labels.astype(object)
    arrays = Ids(labels).to_arrays()
    length = group.all_gather(np.diff(arrays["end"], prepend=0))
    text = {"text": group.all_gather(arrays["text"]), "end": np.cumsum(length)}
    return Ids(np.array(sorted(set(read_text(Stored(text, {})))), dtype=object))


def _on_lists(coded: _Coded, users: Ids, items: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Positions on the lists of all processes instead of the own ones."""
    if not len(coded.user):
        return coded.user, coded.item
    return (
        mapped(coded.user, users.match(coded.users, "user").astype(np.int32)),
        mapped(coded.item, items.match(coded.items, "item").astype(np.int32)),
    )


def _joined_values(own: Values, group: Group) -> Values:
    """The own ratings as codes of the distinct ratings of all processes."""
    said = [
        each for each in group.all_gather_object((own.distinct, own.is_ordered, own.is_unordered)) if each[0]
    ]
    known: dict[Any, int] = {}
    for distinct, *_ in said:
        for value in distinct:
            known.setdefault(value, len(known))
    if len(known) > MAX_LEVELS:
        raise too_many_values(len(known))
    code = np.array([known[value] for value in own.distinct], dtype=np.int16)[own.code]
    # Categories that are not the same everywhere have no order that all would agree on.
    is_ordered = all(each == said[0] and each[1] for each in said)
    is_unordered = not is_ordered and any(each[1] or each[2] for each in said)
    return Values(code, list(known), is_ordered, is_unordered)


# ---- exchange ---------------------------------------------------------------------------------


def _with_own_users(known: Catalogue, cells: Cells, group: Group) -> Ratings:
    """All ratings of this process's users, sent by those who have them."""
    user = cells.row
    counts = group.summed(np.bincount(user, minlength=known.n_users))
    before = np.cumsum(counts) - counts
    owner = before * group.size // counts.sum()
    own = Cells(*group.all_to_all(lambda block: owner[user[block]], *cells))

    with group.raise_on_all_ranks():
        _refuse_repeated(known, own)
        observations = Observations.from_triples(*own, known.n_users, known.n_items, known.level_counts())
    return Ratings.of(known, observations)


def _refuse_repeated(known: Catalogue, cells: Cells) -> None:
    user, item, level = cells
    twice = repeated_cell(user, item)
    if twice is None:
        return
    both = list(twice)
    first_rating, second_rating = map(shown, known.decode(level[both], item[both]))
    raise DataError(
        f"User {shown(known.users.labels[user[both[0]]])} has rated item "
        f"{shown(known.items.labels[item[both[0]]])} more than once, with {first_rating} and with "
        f"{second_rating}; keep one of them with drop_duplicates(), or average them."
    )
