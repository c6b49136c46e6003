"""From a rating matrix to what learners take, and from their model back to the order of the ids.

Batches are neighbours, so users and items come in random order; a few ratings are held out; and
users and items without a rating that says something are not learnt, but have a cold start.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Counted, Counts, Observations, SharedRows
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.data.recency import NOW, by_cell
from ordinalrbm.errors import user_stacklevel
from ordinalrbm.matrix.feature_priors import NO_TABLES, Tables
from ordinalrbm.matrix.model import Precisions
from ordinalrbm.matrix.variational import Data
from ordinalrbm.runtime.blocks import each_block
from ordinalrbm.runtime.process_group import ALONE, Alone, Group

# Ratings held out to watch learning by: more would not tell more, and cost time in every epoch.
_MOST_HELD_OUT = 200_000
_NO_HISTORY = ("epoch", "validation", "seconds")


class RatingTimes(NamedTuple):
    """When ratings were given, int64, in their order; None without times."""

    ratings: np.ndarray | None = None
    validation: np.ndarray | None = None


NO_TIMES = RatingTimes()


class TrainingData(NamedTuple):
    """Ratings in the order to learn them in."""

    observations: Observations | SharedRows
    validation: Cells | None  # held-out ratings, at the positions of the observations
    row_position: np.ndarray  # of each user among the observations; -1 for who is not learnt
    column_position: np.ndarray  # the same of each item
    n_levels: np.ndarray  # of each item, in the order of the ids
    is_given: bool = False  # whether the validation ratings were given, and not held out
    tables: Tables = NO_TABLES  # features of users and items, at the positions of the observations
    times: RatingTimes = NO_TIMES
    validation_weight: np.ndarray | None = None  # how many times each of these ratings counts, if not once

    def with_times(
        self, known: Ratings, given: Cells | None, given_time: np.ndarray | None, among: Alone | Group = ALONE
    ) -> TrainingData:
        """With times of the ratings, if there are any, and of given validation ratings."""
        if known.times is None:
            return self
        seen, time, own = known.observations, known.times.value, self.times.ratings
        if isinstance(self.observations, Observations):
            own = self._looked_up(self.observations.cells(), seen, time, NOW)
        # Of several processes, the one that has read a rating knows its time; the others add nothing.
        default = NOW if given is not None or among.size == 1 else 0
        of_validation = self._of_validation(seen, time, given, given_time, default)
        if of_validation is not None and given is None:
            of_validation = among.summed(of_validation)
        return self._replace(times=RatingTimes(own, of_validation))

    def with_weights(
        self, known: Ratings, given: Cells | None, given_weight: np.ndarray | None
    ) -> TrainingData:
        """With weights of the validation ratings, if ratings have any; those of the rest are with these."""
        seen = known.observations
        if not seen.weight.size and given_weight is None:
            return self
        return self._replace(validation_weight=self._of_validation(seen, seen.weight, given, given_weight, 1))

    def _of_validation(
        self,
        seen: Observations,
        value: np.ndarray,
        given: Cells | None,
        given_value: np.ndarray | None,
        default: int,
    ) -> np.ndarray | None:
        """A number of each validation rating, of those that were given or else of the ratings seen."""
        if self.validation is None:
            return None
        if given is not None:
            if given_value is None:
                given_value = np.full(given.row.size, default, dtype=value.dtype)
            seen, value = _by_cell(given, given_value, seen)
        return self._looked_up(self.validation, seen, value, default)

    def _looked_up(self, cells: Cells, seen: Observations, value: np.ndarray, default: int) -> np.ndarray:
        """Numbers of cells among ratings in the order of the ids; the default for those of no rating."""
        users, items = (np.append(_order(part), 0) for part in (self.row_position, self.column_position))
        entry = seen.search(users[cells.row], items[cells.column])
        entry[(cells.row < 0) | (cells.column < 0)] = -1
        return np.where(entry >= 0, np.append(value, default)[entry], default).astype(value.dtype)

    def with_tables(self, of_ids: Tables) -> TrainingData:
        orders = _order(self.row_position), _order(self.column_position)
        tables = (
            None if table is None else table[order] for table, order in zip(of_ids, orders, strict=True)
        )
        return self._replace(tables=Tables(*tables))


def _by_cell(cells: Cells, value: np.ndarray, like: Observations) -> tuple[Observations, np.ndarray]:
    known = (cells.row >= 0) & (cells.column >= 0)
    row, column, _ = some = cells.at(known)
    nothing = np.zeros(row.size, dtype=np.int8)
    found = Observations.from_triples(row, column, nothing, like.n_rows, like.n_columns, like.n_levels)
    return found, by_cell(found, some, value[known])


class Loaded(NamedTuple):
    """Ratings where a backend has them, so that they need not be brought there again."""

    backend: Any
    counted: Counted | Counts  # how many there are
    views: Data


class Fitted(NamedTuple):
    """What was learnt, and how learning went.

    There is one posterior of a model, or pairs of models and what they learnt of an ensemble.
    ``precisions`` are those of the priors of columns and of rows of binary factors, None for what
    has nothing to learn; models with Gaussian factors hold theirs. ``loaded`` are all ratings, with
    those that were held out, if they were learnt from in the end.
    """

    models: list[Any]
    best_epoch: int
    history: Sequence[Any]
    interrupted: bool
    precisions: tuple[Precisions | None, Precisions | None] = (None, None)
    loaded: Loaded | None = None

    @property
    def columns(self) -> list[str]:
        return list(self.history[0]._fields if self.history else _NO_HISTORY)


def prepare(
    known: Ratings, given: Cells | None, fraction: float, seed: int, among: Alone | Group = ALONE
) -> TrainingData:
    """Prepare ratings for learning, and those ``given`` to watch it by, else a fraction of them.

    Several processes, ``among`` which the known ratings are shared, each have all those of some
    users, in the order of the processes (:mod:`ordinalrbm.data.ratings`). What is held out, and
    the order of users and items, is what one process with all ratings finds.
    """
    rng = np.random.default_rng(seed)
    observations, held_out = _informative(known.observations, among), given
    if given is None and fraction > 0:
        observations, held_out = hold_out(observations, fraction, rng, among)
    row_counts, column_counts = map(among.summed, (observations.row_counts, observations.column_counts))
    rows, columns = (rng.permutation(np.flatnonzero(counts)) for counts in (row_counts, column_counts))
    positions = _positions(rows, row_counts.size), _positions(columns, column_counts.size)
    n_levels = observations.n_levels
    validation = None if held_out is None else _moved(held_out, *positions, n_levels)
    shuffled: Observations | SharedRows
    times = NO_TIMES
    if isinstance(among, Group):
        time = None
        if known.times is not None:  # without those of what is held out
            time = known.times.value[known.observations.search(*observations.cells()[:2])]
        own, time = _exchanged(observations, time, rows, columns, among)
        times = RatingTimes(time)
        by_level = {int(n): among.summed(own.level_counts(n)) for n in np.unique(own.n_levels)}
        shuffled = SharedRows(own, row_counts[rows], column_counts[columns], by_level)
    else:
        shuffled = observations.reorder(rows, columns)
    return TrainingData(shuffled, validation, *positions, n_levels, given is not None, times=times)


def _informative(observations: Observations, among: Alone | Group) -> Observations:
    """Without the ratings on a scale of one level; a warning counts them."""
    if observations.n_levels.min() > 1:
        return observations
    says_something = observations.n_levels[observations.column] > 1
    n_useful, n_all = among.summed(np.array([np.count_nonzero(says_something), observations.n_entries]))
    if n_useful < n_all:
        rest = "" if n_useful else ": there is nothing to rate, and only who chooses what is learnt"
        warnings.warn(
            f"From {n_all - n_useful:,} of {n_all:,} ratings nothing can be learnt, because they are on a "
            f"scale of one level{rest}; give the whole scale, for example scale=[1, 2, 3, 4, 5].",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    return observations.select(says_something)


def as_choices(data: TrainingData, known: Ratings) -> TrainingData:
    """All ratings, in the order of the ids: on a scale of one level they tell who chose what.

    Of shared ratings, those that are prepared for learning have to do.
    """
    if not isinstance(data.observations, Observations):
        return data
    own = known.observations
    positions = np.arange(own.n_rows), np.arange(own.n_columns)
    return TrainingData(own, None, *positions, own.n_levels)


def _order(position: np.ndarray) -> np.ndarray:
    """Which of those with a position is first, second and so on."""
    order = np.empty(np.count_nonzero(position >= 0), dtype=np.int32)
    order[position[position >= 0]] = np.flatnonzero(position >= 0)
    return order


def _positions(order: np.ndarray, n: int) -> np.ndarray:
    """The position of each of n in an order, -1 for those that are not in it."""
    position = np.full(n, -1, dtype=np.int64)
    position[order] = np.arange(order.size)
    return position


def _exchanged(
    observations: Observations, time: np.ndarray | None, rows: np.ndarray, columns: np.ndarray, group: Group
) -> tuple[Observations, np.ndarray | None]:
    """The rows, of those in this order, that are this rank's; sent by the ranks that have them.

    So are the times of their ratings, if there are any.
    """
    row = np.repeat(_positions(rows, observations.n_rows).astype(np.int32), observations.row_counts)
    column = _positions(columns, observations.n_columns).astype(np.int32)[observations.column]
    further = [] if time is None else [time]
    own_row, own_column, own_level, *own_time = group.all_to_all(
        lambda block: group.owner(row[block], rows.size), row, column, observations.level, *further
    )
    mine = group.share(rows.size)
    cells = Cells(own_row - mine.start, own_column, own_level)
    found = Observations.from_triples(
        *cells, mine.stop - mine.start, columns.size, observations.n_levels[columns]
    )
    return found, by_cell(found, cells, own_time[0]) if own_time else None


def _moved(
    held_out: Cells, row_position: np.ndarray, column_position: np.ndarray, n_levels: np.ndarray
) -> Cells | None:
    """Held-out ratings at their positions, if a model can be judged by any.

    Not by those of unknown items that have no scale, or one with more levels than are learnt, nor
    by those on a scale of one level; a warning counts them.
    """
    longest = n_levels[column_position >= 0].max(initial=1)
    says_nothing = np.append(n_levels < 2, False)[held_out.column]
    useful = (held_out.level >= 0) & (held_out.level < longest) & ~says_nothing
    n = int(np.count_nonzero(~useful))
    if n:
        warnings.warn(
            f"{n:,} of {useful.size:,} validation ratings are not used, because nothing is learnt "
            "of the scale of their items; give ratings of known items.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    if not useful.any():
        return None
    # An unknown user or item, at -1, finds the last.
    return Cells(
        np.append(row_position, -1)[held_out.row[useful]],
        np.append(column_position, -1)[held_out.column[useful]],
        held_out.level[useful],
    )


def hold_out(
    observations: Observations, fraction: float, rng: np.random.Generator, among: Alone | Group = ALONE
) -> tuple[Observations, Cells]:
    """The ratings without some that are drawn at random, and those, in the order of the rows.

    No user and no item loses all ratings. ``rng`` is a new one; all processes get all held-out ratings.
    """
    n = observations.n_entries
    n_all = int(among.summed(np.array([n]))[0])
    share = min(fraction, _MOST_HELD_OUT / max(n_all, 1))
    before = among.before(n)

    def drawn(block: slice) -> np.ndarray:
        draws = _stretch(rng, before + block.start, block.stop - block.start)
        return block.start + np.flatnonzero(draws < share)

    chosen = np.concatenate([np.zeros(0, dtype=np.int64), *each_block(drawn, n)])
    _skip(rng, n_all)
    row = np.searchsorted(observations.row_start, chosen, side="right") - 1
    for of_chosen, counts in (
        (row, observations.row_counts),
        (observations.column[chosen], observations.column_counts),
    ):
        n_chosen = among.summed(np.bincount(of_chosen, minlength=counts.size))
        # Put back what would leave a user or an item with nothing.
        chosen = np.where((n_chosen < among.summed(counts))[of_chosen], chosen, -1)
    kept = chosen >= 0
    chosen, row = chosen[kept], row[kept]
    held_out = Cells(row, observations.column[chosen], observations.level[chosen])
    mask = np.ones(n, dtype=bool)
    mask[chosen] = False
    return observations.select(mask), Cells(*map(among.all_gather, held_out))


def times_with_cells(whole: Observations, parts: list[tuple[Cells, np.ndarray | None]]) -> np.ndarray | None:
    """Times of all ratings, of those of each part; of a cell in several, that of the first."""
    found = np.full(whole.n_entries, NOW)
    for cells, time in reversed(parts):
        if time is None:
            return None
        known = (cells.row >= 0) & (cells.column >= 0)
        entry = whole.search(cells.row[known], cells.column[known])
        found[entry[entry >= 0]] = time[known][entry >= 0]
    return found


def with_cells(observations: Observations, cells: Cells, weight: np.ndarray | None = None) -> Observations:
    """The ratings with those of cells, but for unknown rows and columns and what was rated before."""
    known = (cells.row >= 0) & (cells.column >= 0)
    if weight is not None:
        known &= weight > 0
    some = cells.at(known)
    return observations.insert(some, None if weight is None else weight[known])


def _stretch(rng: np.random.Generator, start: int, n: int) -> np.ndarray:
    """Draws ``start`` to ``start + n`` of those that a new generator would make; it stays new."""
    own = copy.deepcopy(rng)
    _skip(own, start)
    return own.random(n, dtype=np.float32)


def _skip(rng: np.random.Generator, n: int) -> None:
    """Leave a new generator as n draws of float32 would; two are made of one step of it."""
    rng.bit_generator.advance(n // 2)  # type: ignore[attr-defined]  # PCG64 has it
    if n % 2:
        rng.random(dtype=np.float32)
