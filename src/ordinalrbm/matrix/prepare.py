"""From a rating matrix to what the learner takes, and back.

Batches are neighbours, so users and items come in random order; a few ratings are held out; and
whoever has no rating that says something is not learnt at all, but a stranger.
"""

from __future__ import annotations

import copy
import warnings
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Observations, SharedRows
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.runtime.process_group import ALONE, Alone, Group

# Ratings held out to watch learning by: more would not tell more, and cost time in every epoch.
_MOST_HELD_OUT = 200_000


class TrainingData(NamedTuple):
    """Ratings in the order to learn them in, and where each user and item has gone.

    Users and items without ratings that say something are not learnt: their place is −1.
    """

    observations: Observations | SharedRows
    validation: Cells | None
    user_place: np.ndarray
    item_place: np.ndarray
    n_levels: np.ndarray


def prepare(
    known: Ratings, given: Cells | None, fraction: float, seed: int,
    among: Alone | Group = ALONE,
) -> TrainingData:  # fmt: skip
    """What to learn; held-out ratings are those given, or a fraction of the known ones.

    Several processes, ``among`` which the known ratings are shared, each have all those of some
    users, in the order of the processes (:mod:`ordinalrbm.data.exchange`). What is held out, and the
    order of users and items, is what one process with all ratings finds.
    """
    rng = np.random.default_rng(seed)
    observations = known.observations
    n_levels = observations.n_levels
    if n_levels.min() < 2:  # a scale of one level says nothing
        tell_of_one_level(observations, among)
        observations = observations.select(n_levels[observations.column] > 1)
    held_out = given
    if given is None and fraction > 0:
        observations, held_out = hold_out(observations, fraction, rng, among)
    user_counts, item_counts = map(
        among.summed, (observations.row_counts, observations.column_counts)
    )
    users, user_place = _random_places(user_counts, rng)
    items, item_place = _random_places(item_counts, rng)
    if held_out is not None:
        held_out = _watched(held_out, user_place, item_place, n_levels)
    arranged: Observations | SharedRows
    if isinstance(among, Group):
        own = _exchanged(observations, users, items, among)
        by_level = {int(n): among.summed(own.level_counts(n)) for n in np.unique(own.n_levels)}
        arranged = SharedRows(own, user_counts[users], item_counts[items], by_level)
    else:
        arranged = observations.reorder(users, items)
    return TrainingData(arranged, held_out, user_place, item_place, n_levels)


def tell_of_one_level(observations: Observations, among: Alone | Group = ALONE) -> None:
    """Warn of ratings from which nothing can be learnt."""
    one_level = np.count_nonzero(observations.n_levels[observations.column] < 2)
    n, n_all = among.summed(np.array([one_level, observations.n_entries]))
    if n:
        warnings.warn(
            f"From {n:,} of {n_all:,} ratings nothing can be learnt, because they "
            "are on a scale of one level; give the whole scale, for example scale=[1, 2, 3, 4, 5].",
            UserWarning,
            stacklevel=4,
        )


def _watched(
    held_out: Cells, user_place: np.ndarray, item_place: np.ndarray, n_levels: np.ndarray
) -> Cells | None:
    """Held-out ratings where the learner finds them, without those that it cannot judge."""
    useful = can_be_judged(held_out, n_levels, n_levels[item_place >= 0].max(initial=1))
    if not useful.any():
        return None
    return Cells(
        _moved(user_place, held_out.row[useful]),
        _moved(item_place, held_out.column[useful]),
        held_out.level[useful],
    )


def can_be_judged(held_out: Cells, n_levels: np.ndarray, longest: int) -> np.ndarray:
    """Which validation ratings a model can be judged by; a warning counts the others.

    Not by those of unknown items that have no scale, or one with more levels than were learnt, nor
    by those on a scale of one level.
    """
    says_nothing = np.append(n_levels < 2, False)[held_out.column]
    useful = (held_out.level >= 0) & (held_out.level < longest) & ~says_nothing
    n = int(np.count_nonzero(~useful))
    if n:
        warnings.warn(
            f"{n:,} of {useful.size:,} validation ratings are not used, because nothing is learnt "
            "of the scale of their items; give ratings of known items.",
            UserWarning,
            stacklevel=4,
        )
    return useful


def hold_out(
    observations: Observations,
    fraction: float,
    rng: np.random.Generator,
    among: Alone | Group = ALONE,
) -> tuple[Observations, Cells]:
    """Take some ratings out at random, but from nobody all.

    ``rng`` is a new one. What is taken out is known to all processes, in the order of the rows.
    """
    n = observations.n_entries
    n_all = int(among.summed(np.array([n]))[0])
    share = min(fraction, _MOST_HELD_OUT / max(n_all, 1))
    chosen = np.flatnonzero(_stretch(rng, among.before(n), n) < share)
    _skip(rng, n_all)
    row = np.searchsorted(observations.row_start, chosen, side="right") - 1
    for of_chosen, counts in (
        (row, observations.row_counts),
        (observations.column[chosen], observations.column_counts),
    ):
        taken, counts = map(among.summed, (np.bincount(of_chosen, minlength=counts.size), counts))
        # Put back what would leave somebody with nothing.
        chosen = np.where((taken < counts)[of_chosen], chosen, -1)
    kept = chosen >= 0
    chosen, row = chosen[kept], row[kept]
    pairs = Cells(row, observations.column[chosen], observations.level[chosen])
    mask = np.ones(n, dtype=bool)
    mask[chosen] = False
    return observations.select(mask), Cells(*map(among.all_gather, pairs))


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


def _random_places(counts: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Those with ratings in random order, and the place of each in it."""
    order = rng.permutation(np.flatnonzero(counts))
    return order, _places(order, counts.size)


def _places(order: np.ndarray, n: int) -> np.ndarray:
    """The place of each of n in an order, −1 for those that are not in it."""
    place = np.full(n, -1, dtype=np.int64)
    place[order] = np.arange(order.size)
    return place


def _moved(place: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return np.append(place, -1)[positions]  # an unknown position, −1, finds the last


def _exchanged(
    observations: Observations, users: np.ndarray, items: np.ndarray, group: Group
) -> Observations:
    """Those of the arranged rows that are this rank's, sent by the ranks that have them."""
    row = np.repeat(_places(users, observations.n_rows).astype(np.int32), observations.row_counts)
    column = _places(items, observations.n_columns).astype(np.int32)[observations.column]
    own_row, own_column, own_level = group.all_to_all(
        lambda block: group.owner(row[block], users.size), row, column, observations.level
    )
    mine = group.share(users.size)
    own_row -= mine.start
    return Observations.from_triples(
        own_row, own_column, own_level, mine.stop - mine.start, items.size,
        observations.n_levels[items],
    )  # fmt: skip
