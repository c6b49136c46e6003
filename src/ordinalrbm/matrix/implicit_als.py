"""Which columns a row chooses at all, however it likes them: a one-class factor model.

Of all cells those that were answered count as one, the others as zero, and a cell that was not
answered counts little (implicit ALS: Hu, Koren, Volinsky 2008; in the form of Rendle et al. 2021):

    Σ_answered (1 − p_d · q_i)² + α Σ_all (p_d · q_i)² + λ (Σ_d |p_d|² + Σ_i |q_i|²).

Answers with weights, such as how often something was chosen, count as many times in the first sum.
Given the columns, each row is a ridge regression. The sum over all cells is one product with the
Gram matrix of the columns, so that only answers cost; a few steps of conjugate gradients, all rows
at once, go on where those of the last half-sweep have ended.

A row with few answers is not one that chooses little: most of what it would choose is yet to come.
Until it has as many answers as half of the rows, it is drawn to the rows that have as many, which
are taken as Gaussian around their mean m with covariance S (empirical Bayes: that of their factors,
and what their answers leave open of these). With the share w of the usual number of answers,

    Σ_answered (1 − p · q_i)² + w (α Σ_all (p · q_i)² + λ |p|²) + (1 − w) σ² (p − m)ᵀ S⁻¹ (p − m),

where σ² is the mean square of 1 − p · q over the answers of those rows.

Arrays are NumPy's or torch's, and rows may be spread over processes: sums are the engine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Counted, Counts, Observations, rows_of_all
from ordinalrbm.engine.half_sweep import CPU_ENGINE
from ordinalrbm.engine.rated_sets import usual_count
from ordinalrbm.engine.side import Array
from ordinalrbm.matrix.blend import Blend, DemandArrays, demand_arrays, set_demand
from ordinalrbm.matrix.feature_priors import View
from ordinalrbm.matrix.item_weights import Past
from ordinalrbm.matrix.protocol import ChangedRatings
from ordinalrbm.matrix.variational import Data
from ordinalrbm.runtime.blocks import each_block, over_rows, taken
from ordinalrbm.runtime.jit import compiled
from ordinalrbm.runtime.process_group import ALONE, Alone, Group
from ordinalrbm.runtime.threads import one_blas_thread
from ordinalrbm.storage.reader import Stored, wrong

# What a cell without an answer counts, α, and the usual λ, as a multiple of a power of how many
# answers rows and columns have on average (the geometric mean of both). By how much λ is another is
# chosen by the data: :mod:`ordinalrbm.matrix.demand_choice`.
_UNANSWERED = 0.2
_RIDGE, _POWER = 0.32, 0.75
SWEEPS, _STEPS = 10, 3
# Of a file: λ is never below half of _RIDGE. Where all factors are zero the sum above is the number
# of answers, so that λ Σ |p|² of what was learnt is no more; beyond ten times that, sums of an
# update may overflow float32.
_SMALLEST_RIDGE, _MOST_SQUARES = 0.1, 30.0 / _RIDGE
# At first factors are this large compared to 1/√K.
_FIRST = 0.1
# Of rows with as many answers as usual, about so many tell where they are.
_ENOUGH = 2_000
_LEAST_NOISE = 1e-6
_DRAWN_STEPS = 8


class Factors(NamedTuple):
    """What is learnt, where the backend has it."""

    rows: Array  # (rows, K)
    columns: Array  # (columns, K)

    def with_rows(
        self, change: Callable[[Array], Array], of_bins: Callable[[Array], Array] | None = None
    ) -> Factors:
        return self._replace(rows=change(self.rows))


class RowPrior(NamedTuple):
    """Where rows are that have as many answers as usual, to whom those with fewer are drawn."""

    n_answers: float  # how many are usual; with none, no row is drawn
    mean: np.ndarray  # (K,) float64, m
    precision: np.ndarray  # (K, K) float64, σ² S⁻¹

    @classmethod
    def of(
        cls,
        rows: np.ndarray,
        columns: np.ndarray,
        alone: np.ndarray,
        answers: Observations,
        among: Alone | Group = ALONE,
    ) -> RowPrior:
        """``alone`` is what rows without any answer are solved by."""
        counts = among.summed(answers.row_counts)
        count, active = usual_count(counts), np.flatnonzero(counts >= max(usual_count(counts), 1.0))
        if not active.size or not rows.shape[1]:
            return cls.flat(rows.shape[1])
        some = active[:: -(-active.size // _ENOUGH)]
        these, own = rows_of_all(answers, some, among), rows[some]
        # Of the squares of all answers, only the sums of each row are needed.
        sums = CPU_ENGINE.rated_sums(these, columns, weighted=True)
        products = CPU_ENGINE.rated_products(these, columns, own)
        squares = these.total_weight + float((own * (products - 2.0 * sums)).sum(dtype=np.float64))
        noise = max(squares / these.total_weight, _LEAST_NOISE)
        if not np.isfinite(noise):  # of a file whose factors are no such
            return cls.flat(rows.shape[1])
        away = own - own.mean(axis=0, dtype=np.float64)
        of_columns = these.column_counts
        if these.weight.size:
            of_columns = np.bincount(these.column, these.weight, minlength=these.n_columns)
        answered = (columns.T * (of_columns / some.size)) @ columns
        covariance = away.T @ away / some.size + noise * _inverse(alone + answered)
        return cls(count, own.mean(axis=0, dtype=np.float64), noise * _inverse(covariance))

    @classmethod
    def flat(cls, n_factors: int) -> RowPrior:
        return cls(0.0, np.zeros(n_factors), np.zeros((n_factors, n_factors)))

    def share(self, counts: np.ndarray) -> np.ndarray:
        """Of the usual number of answers, at most one; w."""
        return np.minimum(counts / self.n_answers, 1.0) if self.n_answers else np.ones(len(counts))


class Demand(NamedTuple):
    """Factors whose product is about one where a row would choose a column, and else about zero."""

    rows: np.ndarray  # (rows, K) float32
    columns: np.ndarray  # (columns, K) float32
    ridge: float  # λ
    alone: np.ndarray  # (K, K) float64, what rows without any answer are solved by
    row_prior: RowPrior
    blend: Blend | None = None  # with other parts

    @classmethod
    def of(
        cls,
        rows: np.ndarray,
        columns: np.ndarray,
        ridge: float,
        answers: Observations | None = None,
        blend: Blend | None = None,
        among: Alone | Group = ALONE,
    ) -> Demand:
        """Rounded as files have it, so that a model is the same before and after.

        Rows without answers are at the mean of those that have as many as usual. Answers may be those of
        a run of rows, of which processes have one each.
        """
        rows, columns = (_rounded(part) for part in (rows, columns))
        row_prior = RowPrior.flat(rows.shape[1])
        with one_blas_thread():
            alone = _alone(columns, ridge)
            if answers is not None:
                row_prior = RowPrior.of(rows, columns, alone, answers, among)
                rows[among.summed(answers.row_counts) == 0] = row_prior.mean.astype(np.float16)
        return cls(rows, columns, ridge, alone, row_prior, blend)

    @classmethod
    def none(cls, n_rows: int, n_columns: int) -> Demand:
        rows, columns = (np.zeros((n, 0), dtype=np.float32) for n in (n_rows, n_columns))
        return cls.of(rows, columns, 1.0)

    @property
    def n_factors(self) -> int:
        return self.rows.shape[1]

    @classmethod
    def from_stored(cls, stored: Stored, answers: Observations) -> Demand:
        """Of a file; rows without answers are at zero, and not in the file."""
        counts, width, found = (answers.row_counts, answers.column_counts), None, []
        for name, own in zip(("rows", "columns"), counts, strict=True):
            part = stored.parameter(name, np.float16, (int((own > 0).sum()), width))
            found.append(np.zeros((own.size, part.shape[1]), dtype=np.float32))
            found[-1][own > 0] = part
            if np.vdot(found[-1], found[-1]) > _MOST_SQUARES * max(answers.n_entries, answers.total_weight):
                raise wrong(name, "has larger numbers than so many ratings can lead to")
            width = part.shape[1]
        ridge = stored.parameter("ridge", np.float64, (1,), _SMALLEST_RIDGE)
        rows, columns = found
        blend = Blend.from_stored(stored, answers.n_columns)
        return cls.of(rows, columns, float(ridge[0]), answers, blend)

    def to_arrays(self, row_counts: np.ndarray, column_counts: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "rows": self.rows[row_counts > 0].astype(np.float16),
            "columns": self.columns[column_counts > 0].astype(np.float16),
            "ridge": np.array([self.ridge]),
            **(self.blend.to_arrays() if self.blend else {}),
        }

    def scores(self, factors: np.ndarray, past: Past, rows: np.ndarray) -> np.ndarray:
        """(rows, columns) float32: how likely rows with these factors and this past choose each.

        Up to a number that is the same for all columns of a row.
        """
        found = np.empty((rows.size, len(self.columns)), dtype=np.float32)
        over_rows(_set_scores, rows.size, factors, past.arrays(), rows, *self.arrays(), found)
        return found if self.blend is None else np.exp(found, out=found)

    def arrays(self) -> DemandArrays:
        return demand_arrays(self.columns, self.blend)

    def infer_rows(self, answers: Observations) -> np.ndarray:
        """(rows, K) where rows with these answers are, given the columns."""
        return _solved_exactly(answers, self.columns, self.alone, self.row_prior)

    def after_learning(self, answers: Observations, among: Alone | Group = ALONE) -> Demand:
        """With rows that have few answers drawn to the others, by the process that has their answers."""
        if not self.n_factors:
            return self
        found = Demand.of(self.rows, self.columns, self.ridge, answers, among=among)
        counts = answers.row_counts
        few = np.flatnonzero((counts > 0) & (counts < found.row_prior.n_answers))
        found = found.refit_rows(answers, few)
        if among.size == 1:
            return found
        rows = among.all_gather(found.rows[counts > 0])
        return Demand.of(rows, found.columns, found.ridge, answers, among=among)

    def refit_rows(self, answers: Observations, which: np.ndarray) -> Demand:
        """With some rows nearer to where their answers put them.

        Rows do not depend on each other: many are solved in blocks that fit into a cache, shared by
        threads.
        """
        these, rows = answers.take_rows(which), self.rows.copy()
        pull = _Pull.of(self, these.row_counts)

        def refit(block: slice) -> None:
            part = these.take_rows(np.arange(block.start, block.stop))
            rows[which[block]] = _solved(
                View(part, CPU_ENGINE),
                rows[which[block]],
                self.columns,
                CPU_ENGINE,
                self.ridge,
                _DRAWN_STEPS,
                pull._replace(known=pull.known[block]),
            )

        with one_blas_thread():
            each_block(refit, which.size, self.n_factors)
        return Demand.of(rows, self.columns, self.ridge, answers, self.blend)

    def with_new(self, answers: Observations) -> Demand:
        """With more rows and columns, inferred from their answers; the first of these are known."""
        if not self.n_factors:
            return Demand.none(answers.n_rows, answers.n_columns)
        n_rows, n_columns = len(self.rows), len(self.columns)
        new = answers.take_rows(np.arange(n_rows, answers.n_rows))
        rows = np.vstack([self.rows, self.infer_rows(new.select(new.column < n_columns))])
        columns = self.columns
        if answers.n_columns > n_columns:
            of_new = answers.transpose().take_rows(np.arange(n_columns, answers.n_columns))
            flat = RowPrior.flat(self.n_factors)
            columns = np.vstack([columns, _solved_exactly(of_new, rows, _alone(rows, self.ridge), flat)])
        return Demand.of(rows, columns, self.ridge, answers, self.blend)

    def updated(self, changed: ChangedRatings) -> Demand:
        answers, columns = changed.ratings, changed.columns
        wider = self.with_new(answers)
        if not self.n_factors:
            return wider
        found = wider.refit_rows(answers, changed.rows)
        facing, view = wider.columns.copy(), View(answers.transpose().take_rows(columns), CPU_ENGINE)
        with one_blas_thread():
            facing[columns] = _solved(view, facing[columns], found.rows, CPU_ENGINE, self.ridge)
        return Demand.of(found.rows, facing, self.ridge, answers, self.blend)

    def taken(self, rows: np.ndarray, columns: np.ndarray, answers: Observations) -> Demand:
        facing = self.columns[columns] * (answers.column_counts > 0)[:, None]
        blend = self.blend and self.blend.taken(columns)
        return Demand.of(self.rows[rows], facing, self.ridge, answers, blend)


def reordered_factors(found: Factors, rows: np.ndarray, columns: np.ndarray, ridge: float) -> Demand:
    """In another order, at these positions; of whom nothing is known, at −1, is at zero."""
    return Demand.of(_taken(found.rows, rows), _taken(found.columns, columns), ridge)


def _taken(part: np.ndarray, position: np.ndarray) -> np.ndarray:
    found = taken(part, position)
    found[position < 0] = 0.0
    return found


def _rounded(table: np.ndarray) -> np.ndarray:
    """As float16 has it, in float32."""
    found = np.empty(table.shape, dtype=np.float32)

    def round_off(block: slice) -> None:
        found[block] = table[block].astype(np.float16)

    each_block(round_off, *table.shape)
    return found


def ridge_of(answers: Counted | Counts) -> float:
    """λ for so many answers, or for so much weight of theirs if that is more."""
    rated = [int((counts > 0).sum()) for counts in (answers.row_counts, answers.column_counts)]
    n_answers = max(answers.n_entries, answers.total_weight)
    per_line = [n_answers / max(n, 1) for n in rated]
    return _RIDGE * float(np.prod(per_line)) ** (_POWER / 2)


def start(answers: Counted, n_factors: int, seed: int) -> Factors:
    rng = np.random.default_rng(seed)
    scale = _FIRST / np.sqrt(max(n_factors, 1))
    return Factors(
        *(
            rng.standard_normal((n, n_factors), dtype=np.float32) * np.float32(scale)
            for n in (answers.n_rows, answers.n_columns)
        )
    )


def learn(data: Data, first: Factors, ridge: float, n_sweeps: int = SWEEPS) -> Factors:
    """Factors after some sweeps, from the first on; arrays are in the form of the data."""
    found = first
    # Sums of matrix products must not depend on how many threads there are.
    with one_blas_thread():
        for _ in range(n_sweeps):
            rows = _solved(data.rows, found.rows, found.columns, data.columns.engine, ridge)
            columns = _solved(data.columns, found.columns, rows, data.rows.engine, ridge)
            found = Factors(rows, columns)
    return found


class _Pull(NamedTuple):
    """What draws rows with few answers to those with as many as usual, in the form of rows."""

    known: np.ndarray  # (rows, 1), w
    precision: np.ndarray  # (K, K), σ² S⁻¹
    towards: np.ndarray  # (K,), the same times m
    inverse: np.ndarray  # (K, K), about that of what rows are solved by

    @classmethod
    def of(cls, demand: Demand, counts: np.ndarray) -> _Pull:
        own = demand.row_prior
        parts = (
            own.share(counts)[:, None],
            own.precision,
            own.precision @ own.mean,
            _inverse(demand.alone + own.precision),
        )
        return cls(*(part.astype(np.float32) for part in parts))


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Of a positive matrix, also where it is hardly that."""
    least = 1e-9 * np.trace(matrix) / max(len(matrix), 1)
    return np.linalg.inv(matrix + least * np.eye(len(matrix)))


def _alone(columns: np.ndarray, ridge: float) -> np.ndarray:
    """(K, K) what rows without any answer are solved by, given the columns."""
    return _UNANSWERED * (columns.T @ columns).astype(np.float64) + ridge * np.eye(columns.shape[1])


def _solved_exactly(
    answers: Observations, columns: np.ndarray, alone: np.ndarray, row_prior: RowPrior
) -> np.ndarray:
    """(rows, K) of rows with these answers, solved to the end."""
    found = np.zeros((answers.n_rows, columns.shape[1]), dtype=np.float32)
    for d, share in enumerate(row_prior.share(answers.row_counts).tolist()):
        chosen = columns[answers.row(d)[0]].astype(np.float64)
        pull, counted = (1.0 - share) * row_prior.precision, chosen
        if answers.weight.size:
            counted = answers.weight[answers.row_start[d] : answers.row_start[d + 1], None] * chosen
        system = share * alone + pull + counted.T @ chosen
        found[d] = np.linalg.solve(system, counted.sum(axis=0) + pull @ row_prior.mean)
    return found


def _solved(
    view: View,
    this: Array,
    other: Array,
    other_engine: Array,
    ridge: float,
    n_steps: int = _STEPS,
    pull: _Pull | None = None,
) -> Array:
    """Rows nearer to their regression on the columns."""
    gram = _UNANSWERED * other_engine.gram(other)

    def times(own: Array) -> Array:
        total = own @ gram + ridge * own
        if pull is not None:
            total = pull.known * total + (1.0 - pull.known) * (own @ pull.precision)
        return total + view.engine.rated_products(view.answers, other, own)

    def conditioned(residual: Array) -> Array:
        return residual if pull is None else residual @ pull.inverse

    residual = -times(this)
    if pull is not None:
        residual = residual + (1.0 - pull.known) * pull.towards
    residual = residual + view.engine.rated_sums(view.answers, other, weighted=True)
    direction = conditioned(residual)
    size = _products(residual, direction)
    for step in range(n_steps):
        image = times(direction)
        along = size / (_products(direction, image) + _TINY)
        this = this + along * direction
        if step == n_steps - 1:
            return this
        residual = residual - along * image
        downhill = conditioned(residual)
        before, size = size, _products(residual, downhill)
        direction = downhill + size / (before + _TINY) * direction
    return this


_TINY = 1e-30


def _products(one: Array, other: Array) -> Array:
    return (one * other).sum(1)[:, None]


# ---- kernels ----------------------------------------------------------------------------------


@compiled
def _set_scores(
    start, stop, factors, past, rows, columns, neighbours, liked, sequence, exponents, least, found
):
    for r in range(start, stop):
        parts = neighbours, liked, sequence
        set_demand(factors[r], past, rows[r], columns, *parts, exponents, least, found[r])
