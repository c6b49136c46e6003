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

from ordinalrbm.data.observations import Counted, Observations
from ordinalrbm.matrix.gaussian import Data
from ordinalrbm.matrix.prior_means import View
from ordinalrbm.storage.reader import Stored

# What a cell without an answer counts, α, and λ as a multiple of a power of how many answers rows
# and columns have on average (the geometric mean of both): chosen by the NDCG of products with the
# chance to be liked, on ratings held out of the training ratings of MovieLens 100K and 1M, dating
# and lecture evaluations.
_UNANSWERED = 0.2
_RIDGE, _POWER = 0.32, 0.75
_SWEEPS, _STEPS = 10, 3
# At first factors are this large beside 1/√K.
_FIRST = 0.1


class Demand(NamedTuple):
    """Factors whose product is about one where a row would choose a column, and else about zero."""

    rows: np.ndarray  # (rows, K) float32
    columns: np.ndarray  # (columns, K) float32

    @classmethod
    def none(cls, n_rows: int, n_columns: int) -> Demand:
        return cls(*(np.zeros((n, 0), dtype=np.float32) for n in (n_rows, n_columns)))

    @property
    def n_factors(self) -> int:
        return self.rows.shape[1]

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_columns: int) -> Demand:
        rows = stored.parameter("rows", np.float16, (n_rows, None))
        columns = stored.parameter("columns", np.float16, (n_columns, rows.shape[1]))
        return cls(rows.astype(np.float32), columns.astype(np.float32))

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {name: part.astype(np.float16) for name, part in self._asdict().items()}

    def with_rows(self, change: Callable[[Any], Any]) -> Demand:
        return self._replace(rows=change(self.rows))

    def rounded(self) -> Demand:
        """As files have it, so that a model is the same before and after."""
        return Demand(*(part.astype(np.float16).astype(np.float32) for part in self))

    def ordered(self, rows: np.ndarray, columns: np.ndarray) -> Demand:
        """With rows and columns at these positions; of whom nothing is known, at −1, is at zero."""
        return Demand(*(_taken(part, at) for part, at in zip(self, (rows, columns), strict=True)))

    def with_new(self, known: Observations, answers: Observations) -> Demand:
        """With more rows and columns, placed by their answers; the first of these are known."""
        ridge, found = ridge_of(known), self.ordered(*_positions(self, answers))
        if not self.n_factors:
            return found
        for own, other, view in (
            ("rows", "columns", answers), ("columns", "rows", answers.transpose())
        ):  # fmt: skip
            first = len(getattr(self, own))
            if view.n_rows > first:
                new = placed(view.take_rows(np.arange(first, view.n_rows)),
                             getattr(found, other), ridge)  # fmt: skip
                getattr(found, own)[first:] = new
        return found


def _taken(part: np.ndarray, position: np.ndarray) -> np.ndarray:
    return np.where((position >= 0)[:, None], part[position], np.float32(0.0))


def _positions(known: Demand, answers: Observations) -> list[np.ndarray]:
    return [
        np.where(np.arange(n) < len(part), np.arange(n), -1)
        for n, part in zip((answers.n_rows, answers.n_columns), known, strict=True)
    ]


def ridge_of(answers: Counted) -> float:
    """λ for so many answers."""
    rated = [int((counts > 0).sum()) for counts in (answers.row_counts, answers.column_counts)]
    per_line = [answers.n_entries / max(n, 1) for n in rated]
    return _RIDGE * float(np.prod(per_line)) ** (_POWER / 2)


def start(answers: Counted, n_factors: int, seed: int) -> Demand:
    rng = np.random.default_rng(seed)
    scale = _FIRST / np.sqrt(max(n_factors, 1))
    return Demand(
        *(
            rng.standard_normal((n, n_factors), dtype=np.float32) * np.float32(scale)
            for n in (answers.n_rows, answers.n_columns)
        )
    )


def learn(data: Data, demand: Any, ridge: float) -> Any:
    """Factors after some sweeps; ``demand`` is where they begin, in the form of the data.

    Ctrl-C ends it with those of the last whole sweep.
    """
    # Sums of matrix products must not depend on how many threads there are.
    with threadpool_limits(limits=1, user_api="blas"):
        for _ in range(_SWEEPS):
            rows = _solved(data.rows, demand.rows, demand.columns, data.columns.engine, ridge)
            columns = _solved(data.columns, demand.columns, rows, data.rows.engine, ridge)
            demand = Demand(rows, columns)
    return demand


def placed_in(demand: Demand, answers: Observations, known: Observations) -> np.ndarray:
    """(rows, K) of rows with these answers, beside those known."""
    return placed(answers, demand.columns, ridge_of(known))


def placed(answers: Observations, columns: np.ndarray, ridge: float) -> np.ndarray:
    """(rows, K) where rows with these answers are, given the columns; solved to the end."""
    found = np.zeros((answers.n_rows, columns.shape[1]), dtype=np.float32)
    gram = _UNANSWERED * (columns.T @ columns).astype(np.float64)
    gram[np.diag_indices_from(gram)] += ridge
    for d in range(answers.n_rows):
        chosen = columns[answers.row(d)[0]].astype(np.float64)
        if len(chosen):
            found[d] = np.linalg.solve(gram + chosen.T @ chosen, chosen.sum(axis=0))
    return found


def _solved(view: View, this: Any, other: Any, other_engine: Any, ridge: float) -> Any:
    """Rows nearer to their regression on the columns."""
    engine, gram = view.engine, _UNANSWERED * other_engine.gram(other)

    def times(own: Any) -> Any:
        return own @ gram + ridge * own + engine.rated_products(view.answers, other, own)

    residual = engine.rated_sums(view.answers, other) - times(this)
    direction, size = residual, _squares(residual)
    for step in range(_STEPS):
        image = times(direction)
        along = size / ((direction * image).sum(1)[:, None] + _TINY)
        this = this + along * direction
        if step == _STEPS - 1:
            return this
        residual = residual - along * image
        before, size = size, _squares(residual)
        direction = residual + size / (before + _TINY) * direction
    return this


_TINY = 1e-30


def _squares(table: Any) -> Any:
    return (table * table).sum(1)[:, None]
