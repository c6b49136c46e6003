"""Which columns a row chooses at all, however it likes them: a one-class factor model.

Of all cells those that were answered count as one, the others as zero, and a cell that was not
answered counts little (implicit ALS: Hu, Koren, Volinsky 2008; in the form of Rendle et al. 2021):

    Σ_answered (1 − p_d · q_i)² + α Σ_all (p_d · q_i)² + λ (Σ_d |p_d|² + Σ_i |q_i|²).

Given the columns, each row is a ridge regression. The sum over all cells is one product with the
Gram matrix of the columns, so that only answers cost; a few steps of conjugate gradients, all rows
at once, go on where those of the last half-sweep have ended.

Arrays are NumPy's or torch's, and rows may be spread over processes: sums are the engine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ordinalrbm.data.observations import Counted, Counts, Observations
from ordinalrbm.engine import half_sweep
from ordinalrbm.matrix.gaussian import Data
from ordinalrbm.matrix.prior_means import View
from ordinalrbm.runtime.side_by_side import each_block, taken
from ordinalrbm.storage.reader import Stored, wrong

# What a cell without an answer counts, α, and λ as a multiple of a power of how many answers rows
# and columns have on average (the geometric mean of both): chosen by the NDCG of products with the
# chance to be liked, on ratings held out of the training ratings of MovieLens 100K and 1M, dating
# and lecture evaluations.
_UNANSWERED = 0.2
_RIDGE, _POWER = 0.32, 0.75
_SWEEPS, _STEPS = 10, 3
# Where times are known, a row is placed by its last answers more than by those before: each counts
# once more for every one of these numbers of last answers that it is among.
_RECENT = (5, 20)
_RECENT_STEPS = 6
# Of a file: λ is never below _RIDGE. Where all factors are zero the sum above is the number of
# answers, so that λ Σ |p|² of what was learnt is no more (three times as many where recent answers
# count again); beyond ten times that, sums of an update may overflow float32.
_SMALLEST_RIDGE, _MOST_SQUARES = 0.1, 30.0 / _RIDGE
# At first factors are this large beside 1/√K.
_FIRST = 0.1


class Factors(NamedTuple):
    """What is learnt, where the backend has it."""

    rows: Any  # (rows, K)
    columns: Any  # (columns, K)

    def with_rows(self, change: Callable[[Any], Any]) -> Factors:
        return self._replace(rows=change(self.rows))


class Demand(NamedTuple):
    """Factors whose product is about one where a row would choose a column, and else about zero."""

    rows: np.ndarray  # (rows, K) float32
    columns: np.ndarray  # (columns, K) float32
    ridge: float  # λ
    gram: np.ndarray  # (K, K) float64, products of the columns, by which new rows are placed

    @classmethod
    def of(cls, rows: np.ndarray, columns: np.ndarray, ridge: float) -> Demand:
        """Rounded as files have it, so that a model is the same before and after."""
        rows, columns = (_rounded(part) for part in (rows, columns))
        with threadpool_limits(limits=1, user_api="blas"):
            gram = (columns.T @ columns).astype(np.float64)
        return cls(rows, columns, ridge, gram)

    @classmethod
    def none(cls, n_rows: int, n_columns: int) -> Demand:
        rows, columns = (np.zeros((n, 0), dtype=np.float32) for n in (n_rows, n_columns))
        return cls.of(rows, columns, 1.0)

    @property
    def n_factors(self) -> int:
        return self.rows.shape[1]

    @classmethod
    def from_stored(cls, stored: Stored, answers: Observations) -> Demand:
        """Of a file, beside all answers: who has none is at zero, and not in the file."""
        counts, width, found = (answers.row_counts, answers.column_counts), None, []
        for name, own in zip(("rows", "columns"), counts, strict=True):
            part = stored.parameter(name, np.float16, (int((own > 0).sum()), width))
            found.append(np.zeros((own.size, part.shape[1]), dtype=np.float32))
            found[-1][own > 0] = part
            if np.vdot(found[-1], found[-1]) > _MOST_SQUARES * answers.n_entries:
                raise wrong(name, "has larger numbers than so many ratings can lead to")
            width = part.shape[1]
        ridge = stored.parameter("ridge", np.float64, (1,), _SMALLEST_RIDGE)
        rows, columns = found
        return cls.of(rows, columns, float(ridge[0]))

    def to_arrays(self, answers: Observations) -> dict[str, np.ndarray]:
        return {
            "rows": self.rows[answers.row_counts > 0].astype(np.float16),
            "columns": self.columns[answers.column_counts > 0].astype(np.float16),
            "ridge": np.array([self.ridge]),
        }

    def placed(self, answers: Observations, age: np.ndarray | None = None) -> np.ndarray:
        """(rows, K) where rows with these answers are, given the columns."""
        return _placed(answers, self.columns, self.gram, self.ridge, age)

    def by_recent(self, answers: Observations, age: np.ndarray) -> Demand:
        """With all rows placed by recent answers more than by old ones."""
        if not self.n_factors:
            return self
        views = _recent_views(answers, age)
        with threadpool_limits(limits=1, user_api="blas"):
            rows = _solved(views, self.rows, self.columns, half_sweep, self.ridge, _RECENT_STEPS)
        return Demand.of(rows, self.columns, self.ridge)

    def with_new(self, answers: Observations, age: np.ndarray | None = None) -> Demand:
        """With more rows and columns, placed by their answers; the first of these are known."""
        if not self.n_factors:
            return Demand.none(answers.n_rows, answers.n_columns)
        n_rows, n_columns = len(self.rows), len(self.columns)
        new = answers.take_rows(np.arange(n_rows, answers.n_rows))
        is_known = new.column < n_columns
        age = None if age is None else age[answers.row_start[n_rows] :][is_known]
        rows = np.vstack([self.rows, self.placed(new.select(is_known), age)])
        columns = self.columns
        if answers.n_columns > n_columns:
            of_new = answers.transpose().take_rows(np.arange(n_columns, answers.n_columns))
            gram = (rows.T @ rows).astype(np.float64)
            columns = np.vstack([columns, _placed(of_new, rows, gram, self.ridge)])
        return Demand.of(rows, columns, self.ridge)

    def settled(
        self, answers: Observations, age: np.ndarray | None, rows: np.ndarray, columns: np.ndarray
    ) -> Demand:
        """With some rows and columns nearer to where their answers put them."""
        if not self.n_factors:
            return self
        own, facing = self.rows.copy(), self.columns.copy()
        some, of_columns = answers.take_rows(rows), answers.transpose().take_rows(columns)
        if age is not None:
            is_touched = np.isin(np.arange(answers.n_rows), rows)
            age = age[np.repeat(is_touched, answers.row_counts)]
        with threadpool_limits(limits=1, user_api="blas"):
            for which, this, other, views in (
                (rows, own, facing, _recent_views(some, age)),
                (columns, facing, own, _recent_views(of_columns, None)),
            ):
                this[which] = _solved(views, this[which], other, half_sweep, self.ridge)
        return Demand.of(own, facing, self.ridge)


def of_learnt(found: Factors, rows: np.ndarray, columns: np.ndarray, ridge: float) -> Demand:
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
    """λ for so many answers."""
    rated = [int((counts > 0).sum()) for counts in (answers.row_counts, answers.column_counts)]
    per_line = [answers.n_entries / max(n, 1) for n in rated]
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


def learn(data: Data, first: Factors, ridge: float) -> Factors:
    """Factors after some sweeps, from the first on; arrays are in the form of the data."""
    found = first
    # Sums of matrix products must not depend on how many threads there are.
    with threadpool_limits(limits=1, user_api="blas"):
        for _ in range(_SWEEPS):
            rows = _solved([data.rows], found.rows, found.columns, data.columns.engine, ridge)
            columns = _solved([data.columns], found.columns, rows, data.rows.engine, ridge)
            found = Factors(rows, columns)
    return found


def _recent_views(answers: Observations, age: np.ndarray | None) -> list[View]:
    """The answers, and again those that are recent."""
    recent = () if age is None else (answers.select(age < n) for n in _RECENT)
    return [View(some, half_sweep) for some in (answers, *recent)]


def _placed(
    answers: Observations, columns: np.ndarray, gram: np.ndarray, ridge: float,
    age: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """(rows, K) of rows with these answers, solved to the end."""
    found = np.zeros((answers.n_rows, columns.shape[1]), dtype=np.float32)
    system = _UNANSWERED * gram + ridge * np.eye(len(gram))
    times = np.ones(answers.n_entries)
    if age is not None:
        times += sum((age < n).astype(float) for n in _RECENT)
    for d in np.flatnonzero(answers.row_counts).tolist():
        chosen = columns[answers.row(d)[0]].astype(np.float64)
        counted = chosen * times[answers.row_start[d] : answers.row_start[d + 1], None]
        found[d] = np.linalg.solve(system + counted.T @ chosen, counted.sum(axis=0))
    return found


def _solved(
    views: list[View], this: Any, other: Any, other_engine: Any, ridge: float, n_steps: int = _STEPS
) -> Any:
    """Rows nearer to their regression on the columns; an answer counts once in every view."""
    gram = _UNANSWERED * other_engine.gram(other)

    def times(own: Any) -> Any:
        total = own @ gram + ridge * own
        for view in views:
            total = total + view.engine.rated_products(view.answers, other, own)
        return total

    residual = -times(this)
    for view in views:
        residual = residual + view.engine.rated_sums(view.answers, other)
    direction, size = residual, _squares(residual)
    for step in range(n_steps):
        image = times(direction)
        along = size / ((direction * image).sum(1)[:, None] + _TINY)
        this = this + along * direction
        if step == n_steps - 1:
            return this
        residual = residual - along * image
        before, size = size, _squares(residual)
        direction = residual + size / (before + _TINY) * direction
    return this


_TINY = 1e-30


def _squares(table: Any) -> Any:
    return (table * table).sum(1)[:, None]
