"""Draws of a sampled posterior, as they are kept: what predictions, new rows and files need.

Factors are float16, in memory as in files, so that both predict the same. A draw is a model of its
own (:meth:`Draws.model`), and predictions are the mean of those of all draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array
from scipy.special import ndtr

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.drift import Bins
from ordinalrbm.engine.normal_reference import truncated_mean
from ordinalrbm.engine.ordinal_gibbs import CPU_GIBBS, DrawnSide, Sweep
from ordinalrbm.matrix.cold_start import in_turns
from ordinalrbm.matrix.drift import NO_DRIFT, PlacedCells, RowDrift
from ordinalrbm.matrix.feature_priors import CutSets, FactorPrior, Tables, TrainedRows, Weights
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.gibbs_sampler import Hyper, SampledState, Scales, bounds_of, own_cutpoints
from ordinalrbm.matrix.protocol import Backend, ChangedRatings, ExplainedCell
from ordinalrbm.matrix.top_n import Curves
from ordinalrbm.matrix.variational import posterior_of
from ordinalrbm.runtime.blocks import taken
from ordinalrbm.runtime.process_group import Group
from ordinalrbm.storage.reader import Stored, wrong

# Gibbs steps for a new row in each draw, whose few unknowns soon forget where they began: some are
# dropped, and of the others mean and variance are kept. One step would be a draw as good, but the
# mean over all draws of a new row, which may be anywhere, would be left to chance.
_DROPPED, _AVERAGED = 6, 4
# Of rows that were learnt and have more ratings, which begin near where they will be; and of those
# with others, and as many. Draws are overrelaxed: the mean of an even number of steps is the closest.
_REDRAWN, _MOVED = 2, 8
_LARGEST_WIDTH, _LARGEST_MEAN = 1e5, 1e4
# Newcomers' widths are drawn with it: with less, some are too large for float32. None that was
# drawn, by a prior around 20, is anywhere near.
_SMALLEST_WIDTH_PRECISION = 0.01
# Of the matrices, in any direction: rows that differ by thirty times the deviation of utilities are
# not learnt, and float32 has no digits left for one direction that is a millionth of another.
_SMALLEST_OF_MATRIX, _SMALLEST_BESIDE_LARGEST = 1e-3, 1e-6
# Utilities have a standard deviation of one: nothing that was drawn is near this. From 1e4 on,
# answers were no numbers in some files.
_LARGEST_FACTOR = 1e3
# Weights of features are kept as means over so many draws: they are as many numbers as factors, and
# only new rows need them. Axes turn little from one draw to the next.
BLOCK = 24
# Of new rows: the same ratings give the same model.
_SEED = 0


def n_blocks(n_draws: int) -> int:
    return -(-n_draws // BLOCK)


class BlockWeights(NamedTuple):
    """Weights over the draws of a block: of rated sets, and of tables; none has no lines."""

    rows: list[Any]
    columns: list[Any]

    @classmethod
    def of_state(cls, state: SampledState, *, rated_sets: bool) -> BlockWeights:
        """Those of one draw, where they are; of two kinds, rated sets come first."""
        hypers = (state.row_hyper, state.column_hyper)
        return cls(*(_both_kinds(hyper, rated_sets=rated_sets) for hyper in hypers))

    def plus(self, other: BlockWeights) -> BlockWeights:
        return BlockWeights(
            *(
                [own + part for own, part in zip(mine, others, strict=True)]
                for mine, others in zip(self, other, strict=True)
            )
        )

    def over(self, n: int) -> BlockWeights:
        return BlockWeights(*([part / n for part in mine] for mine in self))


def _both_kinds(hyper: Hyper, *, rated_sets: bool) -> list[Any]:
    none = np.zeros((0, hyper.mean.size), dtype=np.float32)
    found = [*hyper.weights] if rated_sets else [none, *hyper.weights]
    return [*found, none][:2]


_NONE = np.zeros((0, 0), dtype=np.float32)
NO_WEIGHTS = BlockWeights([_NONE, _NONE], [_NONE, _NONE])


class DrawnSides(NamedTuple):
    """Rows or columns in all draws, and what was drawn for them as a whole."""

    factors: np.ndarray  # (S, n, 1 + F) float16, bias and factors
    width: np.ndarray  # (S, n) float32
    mean: np.ndarray  # (S, 1 + F) float32, of the prior
    precision: np.ndarray  # (S, 1 + F, 1 + F) float32
    weights: np.ndarray  # (blocks, features, 1 + F) float16, of the rated sets; none without these
    table_weights: np.ndarray  # (blocks, features, 1 + F) float16, of what a table says of them
    block: np.ndarray  # (S,) int32, which weights go with each draw
    width_precision: np.ndarray  # (S,) float32
    is_known: np.ndarray  # (n,) uint8: 0 nothing is known of it, 1 learnt, 2 inferred later
    # (S, rows that were not learnt, 1 + F) float16, of these in each draw; others have none.
    variance: np.ndarray

    def ordered(self, position: np.ndarray, feature_position: np.ndarray) -> DrawnSides:
        """In another order; rows without a position, at −1, are like the average of the known."""
        known = position >= 0
        # Taken, not indexed: widths of a draw are to stay beside each other, as kernels know them.
        factors, width = _lines(self.factors, position), np.take(self.width, position, axis=1)
        is_known = np.where(known, self.is_known[position], 0).astype(np.uint8)
        before = position[is_known != 1]
        variance = np.zeros((len(factors), before.size, factors.shape[2]), dtype=np.float16)
        variance[:, before >= 0] = self.variance[:, self._among_others(before[before >= 0])]
        if not known.all():
            learnt = self.is_known == 1
            width[:, ~known] = np.exp(np.log(self.width[:, learnt]).mean(axis=1, keepdims=True))
            for k, table in enumerate(self.factors):
                reordered_factors = table[learnt].astype(np.float32)
                factors[k, ~known] = reordered_factors.mean(axis=0)
                variance[k, before < 0] = _as_half(reordered_factors.var(axis=0))
        weights = self.weights
        if weights.shape[1]:
            weights = _lines(weights, feature_position)
            weights[:, feature_position < 0] = 0.0
        return self._replace(
            factors=factors, width=width, weights=weights, is_known=is_known, variance=variance
        )

    def _among_others(self, which: np.ndarray) -> np.ndarray:
        return np.cumsum(self.is_known != 1)[which] - 1

    def prior(self, k: int) -> FactorPrior:
        """What features expect of rows in the k-th draw; of the precision, only the diagonal."""
        each, table = (
            part[self.block[k]].astype(np.float32) if part.shape[1] else _NONE
            for part in (self.weights, self.table_weights)
        )
        weights = Weights(each, table, -self.mean[k].astype(np.float64))
        return FactorPrior(np.diag(self.precision[k]), self.width_precision[k : k + 1], weights)

    @classmethod
    def from_stored(
        cls, stored: Stored, n: int, n_features: int, n_draws: int, n_factors: int | None
    ) -> DrawnSides:
        width = None if n_factors is None else 1 + n_factors
        factors = stored.parameter(
            "factors", np.float16, (n_draws, n, width), -_LARGEST_FACTOR, _LARGEST_FACTOR
        )
        if not factors.shape[2]:
            raise wrong("factors", "has no biases")
        width = factors.shape[2]
        least = 1.0 / _LARGEST_WIDTH
        found = cls(
            factors,
            stored.checked_array("width", np.float32, (n_draws, n), least, _LARGEST_WIDTH),
            stored.parameter("mean", np.float32, (n_draws, width), -_LARGEST_MEAN, _LARGEST_MEAN),
            stored.parameter("precision", np.float32, (n_draws, width, width)),
            (weights := stored.parameter("weights", np.float16, (None, None, width))),
            stored.parameter("table_weights", np.float16, (len(weights), None, width)),
            stored.checked_array("block", np.int32, (n_draws,), 0, len(weights) - 1),
            stored.checked_array(
                "width_precision", np.float32, (n_draws,), _SMALLEST_WIDTH_PRECISION, np.inf
            ),
            (is_known := stored.checked_array("is_known", np.uint8, (n,), 0, 2)),
            stored.checked_array("variance", np.float16, (n_draws, int((is_known != 1).sum()), width), 0.0),
        )
        if found.weights.shape[1] not in (0, n_features):
            raise wrong("weights", "has not one line for each feature")
        precision = found.precision.astype(np.float64)
        if not np.allclose(precision, precision.transpose(0, 2, 1), rtol=1e-3, atol=1e-3):
            raise wrong("precision", "is not symmetric")
        values = np.linalg.eigvalsh(precision)
        least = np.maximum(_SMALLEST_OF_MATRIX, _SMALLEST_BESIDE_LARGEST * values[:, -1])
        if (values[:, 0] < least).any():
            raise wrong("precision", "is not positive definite, or hardly")
        return found

    @classmethod
    def joined(cls, sides: list[DrawnSides]) -> DrawnSides:
        before = np.cumsum([0, *(len(side.weights) for side in sides[:-1])])
        blocks = [side.block + np.int32(first) for side, first in zip(sides, before, strict=True)]
        found = cls(*map(np.concatenate, zip(*sides, strict=True)))
        return found._replace(block=np.concatenate(blocks), is_known=sides[0].is_known)

    def gathered(self, group: Group) -> DrawnSides:
        """With the draws of all processes of a group, in the order of these."""
        before = group.before(len(self.weights))
        own = self._replace(block=self.block + np.int32(before))
        parts = {name: group.all_gather(part) for name, part in own._asdict().items()}
        return DrawnSides(**parts | {"is_known": self.is_known})

    def to_arrays(self, name: str) -> dict[str, np.ndarray]:
        return {f"{name}.{part}": array for part, array in self._asdict().items()}


class _Drawn(NamedTuple):
    """Rows that are drawn given the other side, or columns in turn 1."""

    which: np.ndarray  # where they are, or will be
    answers: Observations
    turn: int
    alike: bool = False  # what is found of one does not depend on how many there are


@dataclass(frozen=True)
class Draws:
    """S draws of everything, each of which is a model of Gaussian factors."""

    rows: DrawnSides
    columns: DrawnSides
    cutpoints: np.ndarray  # (S, scales, L − 1) float64
    scale_levels: np.ndarray  # (scales,) int32, levels of each scale
    scale: np.ndarray  # (columns,) int32, which scale
    gaps: np.ndarray  # (S, columns, L − 2) float16, by which log gaps of a column are larger
    drift: RowDrift = NO_DRIFT
    share: ClassVar[float] = 1.0

    @classmethod
    def of_states(
        cls, states: list[SampledState], weights: list[BlockWeights], scales: Scales, bins: Bins | None = None
    ) -> Draws:
        rows = _stacked([(state.rows, state.row_hyper) for state in states], [part.rows for part in weights])
        columns = _stacked(
            [(state.columns, state.column_hyper) for state in states], [part.columns for part in weights]
        )
        cutpoints = np.stack([state.cutpoints for state in states])
        gaps = np.stack([state.gaps.astype(np.float16) for state in states])
        found = cls(rows, columns, cutpoints, scales.n_levels.astype(np.int32), scales.of_columns, gaps)
        if bins is None:
            return found
        level = np.stack([state.drift.level.astype(np.float16) for state in states])
        nothing = np.zeros((len(level), 0), dtype=np.float16)
        return replace(found, drift=RowDrift(bins.start, bins.last, level, nothing))

    def at(self, placed: PlacedCells) -> list[GaussianModel]:
        place = self.drift.placed
        return [
            model._replace(rows=place(model.rows, k, placed.rows, placed.bins))
            for k, model in enumerate(self.models)
        ]

    @classmethod
    def joined(cls, chains: list[Draws]) -> Draws:
        return replace(
            chains[0],
            rows=DrawnSides.joined([chain.rows for chain in chains]),
            columns=DrawnSides.joined([chain.columns for chain in chains]),
            cutpoints=np.concatenate([chain.cutpoints for chain in chains]),
            gaps=np.concatenate([chain.gaps for chain in chains]),
            drift=RowDrift.joined([chain.drift for chain in chains]),
        )

    @property
    def n_draws(self) -> int:
        return len(self.cutpoints)

    def gathered(self, group: Group) -> Draws:
        return replace(
            self,
            rows=self.rows.gathered(group),
            columns=self.columns.gathered(group),
            cutpoints=group.all_gather(self.cutpoints),
            gaps=group.all_gather(self.gaps),
            drift=self.drift.gathered(group),
        )

    def reordered(self, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> Draws:
        scale_levels, cutpoints = self._with_scales(np.unique(n_levels))
        gaps = np.zeros((self.n_draws, columns.size, cutpoints.shape[2] - 1), dtype=np.float16)
        gaps[:, columns >= 0, : self.gaps.shape[2]] = self.gaps[:, columns[columns >= 0]]
        return Draws(
            self.rows.ordered(rows, columns),
            self.columns.ordered(columns, rows),
            cutpoints,
            scale_levels,
            np.searchsorted(scale_levels, n_levels).astype(np.int32),
            gaps,
            self.drift.ordered(rows),
        )

    def _with_scales(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scales that were never seen have evenly spaced thresholds."""
        every = np.union1d(levels, self.scale_levels).astype(np.int32)
        cutpoints = np.tile(thresholds.even(every), (self.n_draws, 1, 1))
        known = np.searchsorted(every, self.scale_levels)
        cutpoints[:, known, : self.cutpoints.shape[2]] = self.cutpoints
        return every, cutpoints

    @cached_property
    def models(self) -> list[GaussianModel]:
        return [self.model(k) for k in range(self.n_draws)]

    def model(self, k: int) -> GaussianModel:
        """One draw. Widths of the first threshold are one more factor of both sides.

        Bounds are the widths times the thresholds, w_d w_i θ_l, and models have a first threshold
        that is added and gaps that are multiplied: w_d w_i θ_1 is a product, like that of factors.
        """
        cutpoints, levels = self._own_cutpoints(k), self.scale_levels[self.scale]
        most = np.full(len(self.rows.is_known), self.scale_levels.max())
        no_gaps = np.zeros((most.size, cutpoints.shape[1]))
        rows = _posterior(self.rows, k, np.float32(1.0), no_gaps, most)
        columns = _posterior(self.columns, k, -cutpoints[:, 0], cutpoints, levels)
        sides = (self.rows, self.columns)
        of_rows, of_columns = (_diagonal(side, k, cutpoints.shape[1]) for side in sides)
        model = GaussianModel(rows, columns, of_rows, of_columns, share=1.0 / self.n_draws, is_draw=True)
        return model._replace(is_exact=all((side.is_known == 1).all() for side in sides))

    def utilities(self, k: int, row: int, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean utilities of a row's cells in one draw, and bounds of all levels, (n, L + 1)."""
        own = self.rows.factors[k, row].astype(np.float64)
        facing = self.columns.factors[k, columns].astype(np.float64)
        mean = own[0] + facing[:, 0] + facing[:, 1:] @ own[1:]
        width = self.rows.width[k, row].astype(np.float64) * self.columns.width[k, columns]
        return mean, width[:, None] * self._bounds(k)[columns]

    def curves(self, worth: np.ndarray) -> Curves:
        """How expected ratings rise with the mean utility, by the average of thresholds."""
        bounds = np.mean(
            [self.columns.width[k][:, None] * self._bounds(k)[:, 1:-1] for k in range(self.n_draws)], axis=0
        )
        doubt = self.columns.factors[:, :, 0].astype(np.float64).var(axis=0)
        gains = np.where(np.isfinite(bounds), np.diff(worth, axis=1)[:, : bounds.shape[1]], 0.0)
        return Curves(bounds, gains, np.sqrt(1.0 + doubt))

    # ---- new rows -----------------------------------------------------------------------------

    def with_newcomers(
        self, known: Observations, ratings: Observations, tables: Tables, backend: Backend
    ) -> Draws:
        """Each is drawn given the draw of the others and its ratings."""
        n_rows, n_columns = len(self.rows.is_known), len(self.columns.is_known)
        found = self._longer(ratings)
        new_rows = np.arange(n_rows, ratings.n_rows)
        new_columns = np.arange(n_columns, ratings.n_columns)
        turns = iter((0, 2))  # those of rows
        in_turns(
            ratings,
            n_rows,
            n_columns,
            lambda rows: found._draw(_Drawn(new_rows, rows, next(turns)), known, tables.rows),
            lambda columns: found._draw(_Drawn(new_columns, columns, 1), known.transpose(), tables.columns),
        )
        return found

    def with_feature_priors(self, ratings: Observations, tables: Tables) -> Draws:
        """Draws, in place, rows of which nothing is known but their features."""
        for turn, (side, table) in enumerate(zip((self.rows, self.columns), tables, strict=True)):
            if table is not None:
                known = ratings.transpose() if turn else ratings
                which = np.flatnonzero(side.is_known == 0)
                self._draw(_Drawn(which, known.take_rows(which), turn), known, table)
        return self

    def updated(
        self, known: Observations, touched: ChangedRatings, tables: Tables, backend: Backend
    ) -> Draws:
        """With rows drawn again that have new ratings, given the others; see :mod:`update`."""
        found, ratings = self._longer(touched.ratings), touched.ratings
        before, after = (known, known.transpose()), (ratings, ratings.transpose())
        for turn in range(3):
            side = turn % 2
            which = (touched.rows, touched.columns)[side]
            was_learnt = (found.rows, found.columns)[side].is_known[which] == 1
            new, old = which[~was_learnt], which[was_learnt]
            if new.size:
                rows = _Drawn(new, after[side].take_rows(new), turn)
                found._draw(rows, before[side], tables[side])
            is_longer = after[side].row_counts[old] > before[side].row_counts[old]
            longer, changed = old[is_longer], old[~is_longer]
            if longer.size:
                found._redraw(_Drawn(longer, after[side].take_rows(longer), turn), tables[side])
            if changed.size:
                known_answers = before[side].take_rows(changed)
                rows = _Drawn(changed, after[side].take_rows(changed), turn)
                found._move(rows, known_answers, self, tables[side])
        return found

    def _longer(self, ratings: Observations) -> Draws:
        rows, columns = (
            np.where(np.arange(n) < len(side.is_known), np.arange(n), -1)
            for n, side in ((ratings.n_rows, self.rows), (ratings.n_columns, self.columns))
        )
        return self.reordered(rows, columns, ratings.n_levels)

    def compared_with(
        self, known: Observations, table: csr_array | None
    ) -> tuple[Observations, csr_array | None, CutSets]:
        return known, table, CutSets.of(known)

    def infer_rows(
        self, ratings: Observations, lines: csr_array | None, others: tuple, backend: Backend
    ) -> list[GaussianModel]:
        new = _Drawn(np.arange(ratings.n_rows), ratings, 0, alike=True)
        found = (self._inferred(k, new, lines, *others) for k in range(self.n_draws))
        factors, width, variance = map(np.stack, zip(*found, strict=True))
        is_known = np.full(ratings.n_rows, 2, dtype=np.uint8)
        rows = self.rows._replace(factors=factors, width=width, variance=variance, is_known=is_known)
        most = np.full(ratings.n_rows, self.scale_levels.max())
        no_gaps = np.zeros((most.size, self.cutpoints.shape[2]))
        return [
            model._replace(rows=_posterior(rows, k, np.float32(1.0), no_gaps, most), is_exact=False)
            for k, model in enumerate(self.models)
        ]

    def _draw(self, new: _Drawn, known: Observations, table: csr_array | None) -> None:
        """Draw new rows in place, if anything is known of them; the table has features of all."""
        own, _ = self._sides(new.turn)
        lines = None if table is None else table[new.which]
        observed = new.answers.row_counts > 0
        if lines is not None:
            observed |= np.diff(lines.indptr) > 0
        if not observed.any():
            return
        which, others = new.which[observed], None if table is None else table[: known.n_rows]
        compared = self.compared_with(known, others)
        for k in range(self.n_draws):
            factors, width, variance = self._inferred(k, new, lines, *compared)
            own.factors[k, which], own.width[k, which] = factors[observed], width[observed]
            own.variance[k, own._among_others(which)] = variance[observed]
        own.is_known[which] = 2

    def _sides(self, turn: int) -> tuple[DrawnSides, DrawnSides]:
        return (self.columns, self.rows) if turn == 1 else (self.rows, self.columns)

    def _redraw(self, rows: _Drawn, table: csr_array | None) -> None:
        own, which = self._sides(rows.turn)[0], rows.which
        for k in range(self.n_draws):
            *_, last = self._redrawn(k, rows, table, _REDRAWN)
            own.factors[k, which], own.width[k, which] = _as_half(last.factors), last.width

    def _move(self, rows: _Drawn, answers: Observations, before: Draws, table: csr_array | None) -> None:
        """Rows with others than the answers of before, and as many, in place.

        They go as far as the mean of Gibbs steps goes, with the same random numbers: where answers
        are the same, they stay, and where these come back, so do the rows.
        """
        (own, _), (old, _), which = self._sides(rows.turn), before._sides(rows.turn), rows.which
        for k in range(self.n_draws):
            factors, width = old.factors[k, which], old.width[k, which]
            own.factors[k, which], own.width[k, which] = factors, width
            now = self._mean_of_steps(k, rows, table)
            was = before._mean_of_steps(k, rows._replace(answers=answers), table)
            own.factors[k, which] = _as_half(factors + (now[0] - was[0]))
            own.width[k, which] = width * np.exp(now[1] - was[1])

    def _mean_of_steps(self, k: int, rows: _Drawn, table: csr_array | None) -> tuple[np.ndarray, np.ndarray]:
        """Mean factors and log widths of rows over some Gibbs steps from where they are."""
        steps = [(1.0 * this.factors, np.log(this.width)) for this in self._redrawn(k, rows, table, _MOVED)]
        return sum(step[0] for step in steps) / len(steps), sum(step[1] for step in steps) / len(steps)

    def _redrawn(self, k: int, rows: _Drawn, table: csr_array | None, n: int) -> Iterator[DrawnSide]:
        """Rows after each of some Gibbs steps from where they are; the same arrays each time."""
        own, which = self._sides(rows.turn)[0], rows.which
        expected = own.prior(k).expected(rows.answers, None if table is None else table[which])
        if self.drift.is_any and own is self.rows:  # biases are those of now
            expected[:, 0] += self.drift.now(k, which)
        start = own.factors[k, which].astype(np.float32)
        this = DrawnSide(start, own.width[k, which], self._scales(rows))
        steps = Sweep(_SEED, k * (_DROPPED + _AVERAGED), 5 + rows.turn)
        for _ in self._gibbs(k, rows, this, expected, steps, n):
            yield this

    def _inferred(
        self,
        k: int,
        new: _Drawn,
        lines: csr_array | None,
        known: Observations,
        table: csr_array | None,
        sets: CutSets,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, widths and variances of new rows in one draw, by Gibbs steps.

        Lines are their features, the table has those of others, whose ratings are known. Rows with
        features alone are at the mean that these predict, with the variance of the prior.
        """
        (own, facing), rows = self._sides(new.turn), new.answers
        factors = own.factors[k, : known.n_rows].astype(np.float32)
        by = facing.factors[k] if new.turn == 1 else None
        others = TrainedRows.of(factors, known, table, sets, by)
        expected = own.prior(k).expected(rows, lines, others)
        ones = np.ones(rows.n_rows, dtype=np.float32)
        this = DrawnSide(expected.copy(), ones, self._scales(new))
        steps = Sweep(_SEED, k * (_DROPPED + _AVERAGED), 2 + new.turn, new.alike)
        total, squares = np.zeros((2, *expected.shape))
        log_width = np.zeros(len(expected))
        for step in self._gibbs(k, new, this, expected, steps, _DROPPED + _AVERAGED):
            if step >= _DROPPED:
                total += this.factors
                squares += np.square(this.factors)
                log_width += np.log(this.width)
        has_ratings = rows.row_counts[:, None] > 0
        mean = np.where(has_ratings, total / _AVERAGED, expected)
        spread = np.diag(linalg.inv(own.precision[k].astype(np.float64)))
        variance = np.where(has_ratings, np.maximum(squares / _AVERAGED - mean**2, 0.0), spread)
        width = np.exp(has_ratings[:, 0] * log_width / _AVERAGED).astype(np.float32)
        return _as_half(mean), width, _as_half(variance)

    def _gibbs(
        self, k: int, rows: _Drawn, this: DrawnSide, expected: np.ndarray, steps: Sweep, n: int
    ) -> Iterator[int]:
        """So many Gibbs steps of rows given the k-th draw of the other side; changes ``this``."""
        own, facing = self._sides(rows.turn)
        n_facing = len(facing.is_known)
        scale = np.zeros(n_facing, np.int32) if rows.turn == 1 else np.arange(n_facing, dtype=np.int32)
        other = DrawnSide(facing.factors[k].astype(np.float32), facing.width[k], scale)
        bounds, answers = self._bounds(k), rows.answers
        for step in range(n):
            name = steps._replace(number=steps.number + step)
            CPU_GIBBS.draw_rows(answers, this, other, bounds, expected, own.precision[k], name)
            CPU_GIBBS.move_widths(answers, this, other, bounds, float(own.width_precision[k]), name)
            yield step

    def _scales(self, rows: _Drawn) -> np.ndarray:
        return rows.which.astype(np.int32) if rows.turn == 1 else np.zeros(rows.which.size, np.int32)

    def _own_cutpoints(self, k: int) -> np.ndarray:
        return own_cutpoints(self.cutpoints[k], self.gaps[k], self.scale, self.scale_levels)

    def _bounds(self, k: int) -> np.ndarray:
        return bounds_of(self._own_cutpoints(k), self.scale_levels[self.scale])

    # ---- reasons ------------------------------------------------------------------------------

    def rating_effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        """Given a draw of the columns, the row is a regression of its utilities on their features.

        It is linear in the utilities, so that every answer has a part of its own; all parts
        together are what the answers add to that which the prior expects of the row, to first
        order.
        """
        worth, n, target = cell.worth, self.n_draws, np.array([cell.column])
        one = Cells(np.array([cell.row]), target, np.zeros(1, dtype=np.int8))
        expected, parts = 0.0, np.zeros(cell.columns.size)
        for k, model in enumerate(self.models):
            mean, bounds = self.utilities(k, cell.row, target)
            deviation = model.utilities(one).deviation[0]
            away = (bounds[0, : worth.size + 1] - mean[0]) / deviation
            expected += np.diff(ndtr(away)) @ worth
            slope = -np.diff(np.exp(-0.5 * away**2)) @ worth / np.sqrt(2.0 * np.pi) / deviation
            parts += slope * self._regression_parts(k, cell)
        return float(expected / n), parts / n

    def _regression_parts(self, k: int, cell: ExplainedCell) -> np.ndarray:
        """What each answer adds to the mean utility of a cell, in one draw."""
        precision = self.rows.precision[k].astype(np.float64)
        prior = self.rows.prior(k).without_answers(cell.line, len(self.scale))
        features, target = (
            self.columns.factors[k, which].astype(np.float64) for which in (cell.columns, [cell.column])
        )
        biases = features[:, 0].copy()
        features[:, 0] = target[:, 0] = 1.0  # where the row's own bias meets them
        mean, bounds = self.utilities(k, cell.row, cell.columns)
        low, high = (
            np.take_along_axis(bounds, (cell.levels + end)[:, None].astype(np.intp), axis=1)[:, 0] - mean
            for end in (0, 1)
        )
        utility = mean + truncated_mean(low, high) - biases
        weighted = features * np.reshape(cell.weight, (-1, 1))
        system = precision + weighted.T @ features
        weight = weighted @ linalg.solve(system, target[0], assume_a="pos")
        return weight * (utility - features @ prior)

    # ---- files --------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            **self.rows.to_arrays("rows"),
            **self.columns.to_arrays("columns"),
            "cutpoints": self.cutpoints,
            "scale_levels": self.scale_levels,
            **({"gaps": self.gaps} if self.gaps.any() else {}),
            **self.drift.to_arrays(),
        }

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> Draws:
        n_columns, most = n_levels.size, thresholds.LARGEST_CUTPOINT
        scale_levels = stored.checked_array("scale_levels", np.int32, (None,), 1)
        if (np.diff(scale_levels) <= 0).any() or not np.isin(n_levels, scale_levels).all():
            raise wrong("scale_levels", "does not have the scales of all items")
        width = thresholds.n_cutpoints(scale_levels)
        shape = (None, scale_levels.size, width)
        cutpoints = stored.parameter("cutpoints", np.float64, shape, high=most)
        if not len(cutpoints):
            raise wrong("cutpoints", "has no draws")
        rows = DrawnSides.from_stored(stored.under("rows."), n_rows, n_columns, len(cutpoints), None)
        n_factors = rows.factors.shape[2] - 1
        columns = DrawnSides.from_stored(
            stored.under("columns."), n_columns, n_rows, len(cutpoints), n_factors
        )
        scale = np.searchsorted(scale_levels, n_levels).astype(np.int32)
        drift = RowDrift.from_stored(stored, n_rows, len(cutpoints), np.float16)
        gaps = np.zeros((len(cutpoints), n_columns, width - 1), dtype=np.float16)
        if "gaps" in stored:  # older files have none
            gaps = stored.parameter("gaps", np.float16, gaps.shape, -most, most)
        return cls(rows, columns, cutpoints, scale_levels, scale, gaps, drift)

    # ---- on the whole -------------------------------------------------------------------------

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean biases and factors of rows and of columns, all draws in the axes of the last.

        Products do not tell the axes of factors, so that draws may be rotated against each other.
        """
        sides, turns = (self.rows, self.columns), []
        for k in range(self.n_draws):
            # The rotation that brings this draw's factors nearest to the last's (Procrustes).
            left, _, right = linalg.svd(sum(_products_with_last(side, k) for side in sides))
            turns.append(left @ right)
        return _means(self.rows, turns), _means(self.columns, turns)


def _products_with_last(side: DrawnSides, k: int) -> np.ndarray:
    """(F, F) products of a draw's factors with those of the last, summed over all learnt rows."""
    own, last = (side.factors[j, side.is_known == 1, 1:].astype(np.float32) for j in (k, -1))
    return own.T @ last


def _means(side: DrawnSides, turns: list[np.ndarray]) -> np.ndarray:
    """(rows, 1 + F) biases and factors, whose axes are turned, averaged over draws."""
    total = np.zeros(side.factors.shape[1:], dtype=np.float32)
    for turn, table in zip(turns, side.factors, strict=True):
        total[:, 0] += table[:, 0]
        total[:, 1:] += table[:, 1:].astype(np.float32) @ turn.astype(np.float32)
    return total / np.float32(len(turns))


def _lines(tables: np.ndarray, position: np.ndarray) -> np.ndarray:
    found = np.empty((len(tables), position.size, tables.shape[2]), dtype=tables.dtype)
    for table, own in zip(tables, found, strict=True):
        own[:] = taken(table, position)
    return found


def _as_half(numbers: np.ndarray) -> np.ndarray:
    """Numbers as float16, clipped to its range."""
    most = np.finfo(np.float16).max
    return np.clip(numbers, -most, most).astype(np.float16)


def _stacked(states: list[tuple[DrawnSide, Hyper]], weights: list[list[np.ndarray]]) -> DrawnSides:
    def stack(parts: Any, kind: Any) -> np.ndarray:
        return np.stack([np.asarray(part, dtype=kind) for part in parts])

    rated, table = (stack((block[kind] for block in weights), np.float16) for kind in (0, 1))
    return DrawnSides(
        stack((side.factors for side, _ in states), np.float16),
        stack((side.width for side, _ in states), np.float32),
        stack((hyper.mean for _, hyper in states), np.float32),
        stack((hyper.precision for _, hyper in states), np.float32),
        rated,
        table,
        np.arange(len(states), dtype=np.int32) // BLOCK,
        stack((hyper.width_precision for _, hyper in states), np.float32),
        np.ones(len(states[0][0].width), dtype=np.uint8),
        np.zeros((len(states), 0, states[0][1].mean.size), dtype=np.float16),
    )


def _posterior(
    side: DrawnSides, k: int, by_width: Any, gaps: np.ndarray, n_levels: np.ndarray
) -> FactorPosterior:
    width = side.width[k]
    n_rows, n_coordinates = side.factors[k].shape
    mean = np.empty((n_rows, n_coordinates + 1), dtype=np.float32)
    mean[:, :-1], mean[:, -1] = side.factors[k], width * by_width
    # Of most there are only zeros; these take no memory before they are written, as ones like the
    # mean would.
    variance = np.zeros(mean.shape, dtype=np.float32)
    variance[side.is_known != 1, :-1] = side.variance[k]
    cutpoints = gaps + np.log(width.astype(np.float64))[:, None]
    cutpoints[:, 0] = 0.0
    return posterior_of(mean, variance, cutpoints, n_levels)


def _diagonal(side: DrawnSides, k: int, width: int) -> FactorPrior:
    precision = np.append(np.diag(side.precision[k]), 1.0).astype(np.float32)
    return FactorPrior(precision, np.full(width, float(side.width_precision[k])))
