"""How biases of rows drift, as models keep it: levels of bins, and when each bin ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Cells, Observations, starts
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.drift import bins_at, last_levels
from ordinalrbm.engine.side import Array
from ordinalrbm.runtime.process_group import Group
from ordinalrbm.storage.reader import LARGEST_NUMBER, Stored, wrong

_LARGEST_LEVEL = 1e3


class RowDrift(NamedTuple):
    """Levels of the drift in each of S models; the rows' own biases are those of their last bins."""

    start: np.ndarray  # (rows + 1,) int64; row d has the bins start[d]:start[d + 1]
    last: np.ndarray  # (bins,) int64, time of the last rating of each
    level: np.ndarray  # (S, bins) float16 of draws, else float32
    variance: np.ndarray  # of levels, likewise; of draws (S, 0)

    @property
    def is_any(self) -> bool:
        return self.last.size > 0

    def at(self, rows: np.ndarray, time: np.ndarray) -> np.ndarray:
        """The bin of each row at a time; that of a later time is the last; −1 if it has none."""
        return bins_at(self.start, self.last, rows, time)

    def offsets(self, ratings: Observations, time: np.ndarray) -> np.ndarray:
        """(entries,) how far the level of each rating is from that of now, the mean of the models."""
        rows = ratings.cells().row
        known = rows < self.start.size - 1
        found = np.zeros(rows.size, dtype=np.float32)
        level = self.level.mean(axis=0, dtype=np.float32)
        found[known] = _away(level, self._last_bins(rows[known]), self.at(rows[known], time[known]))
        return found

    def now(self, k: int, rows: np.ndarray) -> np.ndarray:
        """Levels of the last bins of rows in one model, zero for those without."""
        levels = np.append(last_levels(self.start, self.level[k]).astype(np.float32), np.float32(0.0))
        return levels[np.minimum(rows, levels.size - 1)]

    def as_of_now(self, rows: FactorPosterior) -> FactorPosterior:
        """Rows of the first model, whose biases have no drift yet, with that of their last bins."""
        mean, variance = 1.0 * rows.mean, 1.0 * rows.variance  # copies, whatever kind of array they are
        mean[:, 0] += _like(last_levels(self.start, self.level[0]), mean)
        variance[:, 0] += _like(last_levels(self.start, self.variance[0]), mean)
        return rows._replace(mean=mean, variance=variance)

    def placed(self, rows: FactorPosterior, k: int, which: np.ndarray, bins: np.ndarray) -> FactorPosterior:
        is_last = self._last_bins(which)
        found = FactorPosterior(*(part[which] for part in rows))
        found.mean[:, 0] += _like(_away(self.level[k].astype(np.float32), is_last, bins), rows.mean)
        if self.variance.shape[1]:
            variance = found.variance[:, 0] + _like(_away(self.variance[k], is_last, bins), rows.mean)
            found.variance[:, 0] = variance.clip(0.0)
        return found

    def _last_bins(self, rows: np.ndarray) -> np.ndarray:
        return self.start[rows + 1] - 1

    @classmethod
    def joined(cls, parts: list[RowDrift]) -> RowDrift:
        level, variance = (np.concatenate([part[which] for part in parts]) for which in (2, 3))
        return parts[0]._replace(level=level, variance=variance)

    def gathered(self, group: Group) -> RowDrift:
        return self._replace(level=group.all_gather(self.level)) if self.is_any else self

    def with_rows(
        self, change: Callable[[Array], Array], of_bins: Callable[[Array], Array] | None = None
    ) -> RowDrift:
        """With every array changed that has a line per row, or per bin in the order of the rows."""
        of_bins = of_bins or change
        level, variance = (of_bins(np.ascontiguousarray(part.T)).T for part in (self.level, self.variance))
        return RowDrift(starts(change(np.diff(self.start))), of_bins(self.last), level, variance)

    def ordered(self, position: np.ndarray) -> RowDrift:
        """Of rows from these positions; those at −1 have none."""
        if not self.is_any:
            return self
        counts = np.where(position >= 0, np.diff(self.start)[position], 0)
        start = starts(counts)
        index = np.arange(start[-1]) + np.repeat(self.start[position] - start[:-1], counts)
        variance = self.variance[:, index] if self.variance.shape[1] else self.variance
        return RowDrift(start, self.last[index], self.level[:, index], variance)

    def longer(self, n_rows: int) -> RowDrift:
        """With more rows, which have none."""
        n_before = self.start.size - 1
        return self.ordered(np.append(np.arange(n_before), np.full(n_rows - n_before, -1)))

    def to_arrays(self) -> dict[str, np.ndarray]:
        parts = self._asdict() if self.is_any else {}
        return {f"drift.{name}": part for name, part in parts.items()}

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_models: int, kind: type) -> RowDrift:
        stored = stored.under("drift.")
        if "last" not in stored:
            return NO_DRIFT
        last = stored.checked_array("last", np.int64, (None,))
        if not last.size:
            return NO_DRIFT
        start = stored.checked_array("start", np.int64, (n_rows + 1,), 0)
        level = stored.parameter("level", kind, (n_models, last.size), -_LARGEST_LEVEL, _LARGEST_LEVEL)
        width = 0 if kind is np.float16 else last.size
        variance = stored.parameter("variance", kind, (n_models, width), 0.0, LARGEST_NUMBER)
        if start[0] or start[-1] != last.size or (np.diff(start) < 0).any():
            raise wrong("drift.start", "does not have all bins in order")
        return cls(start, last, level, variance)


NO_DRIFT = RowDrift(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros((1, 0)), np.zeros((1, 0)))


class PlacedCells(NamedTuple):
    """Cells whose rows are others in one of their bins: which, and the cells among these."""

    rows: np.ndarray
    bins: np.ndarray
    cells: Cells

    @classmethod
    def of(cls, cells: Cells, bins: np.ndarray) -> PlacedCells:
        known = np.flatnonzero((cells.row >= 0) & (bins >= 0))
        (places, rows), index = np.unique(
            np.stack([bins[known], cells.row[known]]), axis=1, return_inverse=True
        )
        row = np.full(cells.row.size, -1)
        row[known] = index.ravel()
        return cls(rows, places, cells._replace(row=row))


def _away(level: np.ndarray, last: np.ndarray, bins: np.ndarray) -> np.ndarray:
    return np.where(bins >= 0, level[bins] - level[last], np.float32(0.0)).astype(np.float32)


def _like(values: np.ndarray, like: Array) -> Array:
    """An array where another is: on the host, or a device."""
    return values if isinstance(like, np.ndarray) else like.new_tensor(values)
