"""Ratings that come later: new users and new items beside the known ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.data.columns import shown
from ordinalrbm.data.ids import Ids
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import Encoded, Ratings, encode
from ordinalrbm.data.scales import Scale, shorten
from ordinalrbm.errors import DataError


def extended(known: Ratings, data: Any) -> Ratings:
    """All ratings, known and new, with the new users and items after the known ones.

    Examples
    --------
    >>> from ordinalrbm.data.ratings import read_ratings
    >>> known = read_ratings((["u", "v"], [10, 20], [1, 2]))
    >>> extended(known, (["a", "v"], [10, 15], [2, 1])).to_frame()
      user  item  rating
    0    u    10       1
    1    v    20       2
    2    v    15       1
    3    a    10       2
    """
    new = encode(known, data, extend=True)
    _check(known, new)
    old = known.observations
    n_users = known.n_users + len(new.new_users)
    added = [_scale_for_new(known)] * len(new.new_items)
    scales = known.scales if isinstance(known.scales, Scale) else (*known.scales, *added)
    n_levels = np.append(old.n_levels, [scale.n_levels for scale in added]).astype(np.int32)
    new_part = Observations.from_triples(
        new.user, new.item, new.level, n_users, n_levels.size, n_levels
    )
    users = _joined(known.users, new.new_users)
    items = _joined(known.items, new.new_items)
    return Ratings(_merged(old, new_part), users, items, scales, known.default_scale)


def _check(known: Ratings, new: Encoded) -> None:
    if not len(new):
        raise DataError("There is no rating to fold in; give at least one.")
    both = (new.user < known.n_users) & (new.item < known.n_items)
    if both.any():
        place = int(both.argmax())
        user, item = known.users.labels[new.user[place]], known.items.labels[new.item[place]]
        raise DataError(
            f"Rating {place} (counted from 0) is of item {shown(item)} by user {shown(user)}, both "
            "known; fold_in() is for new users and new items: leave it out, or fit() again."
        )
    if new.level.min() < 0:
        item = new.new_items.labels[new.item[int(new.level.argmin())] - known.n_items]
        raise DataError(
            f"The item {shown(item)} is new, and every known item has a scale of its own, so that "
            "its ratings cannot be read; fit() again with item_scales."
        )
    _check_length(known, new)


def _check_length(known: Ratings, new: Encoded) -> None:
    """Refuse new items on a scale longer than all known: of its last levels nothing is learnt."""
    if isinstance(known.scales, Scale) or not len(new.new_items):
        return
    common = known.default_scale
    longest = max(scale.n_levels for scale in known.scales)
    if common is not None and common.n_levels > longest:
        raise DataError(
            f"The item {shown(new.new_items.labels[0])} is new and on the common scale "
            f"{shorten(common.labels)}, of which nothing has been learnt because no known item has "
            f"more than {longest} levels; fit() again with its ratings."
        )


def _scale_for_new(known: Ratings) -> Any:
    return known.scales if isinstance(known.scales, Scale) else known.default_scale


def _joined(known: Ids, new: Ids) -> Ids:
    return Ids(np.concatenate([known.labels, new.labels])) if len(new) else known


def _merged(old: Observations, new: Observations) -> Observations:
    """The ratings of both; a user's new ratings, all of new items, follow the old ones."""
    n_new = np.diff(new.row_start)
    n_old = np.zeros_like(n_new)
    n_old[: old.n_rows] = np.diff(old.row_start)
    row_start = np.concatenate([[0], np.cumsum(n_old + n_new)])
    if not n_new[: old.n_rows].any():  # nothing moves
        column = np.concatenate([old.column, new.column])
        return Observations(row_start, column, np.concatenate([old.level, new.level]), new.n_levels)
    # Old ratings move up by the new ones of the users before theirs, and keep their order.
    before = row_start[:-1] + n_old
    place = np.repeat(before - new.row_start[:-1], n_new) + np.arange(new.n_entries)
    is_old = np.ones(row_start[-1], dtype=bool)
    is_old[place] = False
    column = np.empty(is_old.size, dtype=np.int32)
    level = np.empty(is_old.size, dtype=np.promote_types(old.level.dtype, new.level.dtype))
    for target, first, second in (
        (column, old.column, new.column),
        (level, old.level, new.level),
    ):
        target[is_old] = first
        target[place] = second
    return Observations(row_start, column, level, new.n_levels)
