"""What every model of a matrix of ratings can do.

A model says how likely each level of each cell is. There is one file for each kind: Gaussian
factors (``gaussian_model``), binary factors (``model``), the multinomial RBM (``multinomial``), and
draws of Gaussian factors (``draws``). Whoever predicts, recommends, explains, folds in or writes
files calls the methods below and need not know which kind it is; a new kind is a new file with
these methods, and an estimator that learns it.

Three protocols build on each other. A :class:`Posterior` is what an estimator keeps: it takes new
ratings and explains its predictions. A :class:`Model` is a posterior that also predicts by itself;
draws do not, since each of them is a model (``Posterior.models``). A :class:`UtilityModel` is a
model whose levels are intervals of a Gaussian utility.

Models are named tuples of arrays. Methods return another model, which shares what has not changed. Rows and
columns are positions. Position −1 is unknown: a model ``with_unknown()`` has it as its last row and column.
``n_levels`` has the number of levels of each column; arrays over levels are as wide as the longest scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.side import Array
from ordinalrbm.matrix.feature_priors import Tables

Tree = TypeVar("Tree")  # named tuples and lists of arrays
# Adds expected scores of all columns, (rows, columns) float32, for some rows.
AddScores = Callable[[np.ndarray, np.ndarray], None]


class ChangedRatings(NamedTuple):
    """All ratings after an update, and which rows and columns have new ones."""

    ratings: Observations
    rows: np.ndarray
    columns: np.ndarray


class ExplainedCell(NamedTuple):
    """A cell whose prediction is to be explained by the row's answers."""

    row: int
    column: int
    columns: np.ndarray  # of the row's answers, but for one to the cell itself
    levels: np.ndarray  # of the same answers
    worth: np.ndarray  # (L,) what each level of the column counts
    line: csr_array | None = None  # of the row in the table of features
    is_answered: bool = False  # whether the row has answered the cell itself
    weight: np.ndarray | float = 1.0  # how many times each of the answers counts


class Utilities(NamedTuple):
    """Utilities of cells, taken apart: one number each.

    The mean with factors in their middle, and what factors of rows and of columns add to it, where
    gains apart may be given to them; the standard deviation without a gain.
    """

    base: np.ndarray
    by_rows: np.ndarray
    by_columns: np.ndarray
    deviation: np.ndarray


class Product(NamedTuple):
    """A part of mean utilities: Σ_k weight_k (middle + gain (factor_k − middle)).

    Weights belong to one side and factors to the other; their variances are empty if they have none.
    """

    weights: Array
    factors: Array
    weights_variance: Array
    factors_variance: Array
    gain: Array  # (1,)
    middle: float
    is_of_rows: bool  # whether factors are those of rows, else those of columns


class CellTerms(NamedTuple):
    """What moments of cells are made of where an engine adds up the products."""

    mean: Array  # (cells,) before products are added
    variance: Array  # (cells,) before those of products are added
    products: list[Product]
    scale: Array  # of the standard deviation


class Backend(Protocol):
    """Where new rows are inferred; see :mod:`ordinalrbm.matrix.backends`."""

    settle: Callable[..., None]  # as engines of half-sweeps have it
    infer_binary_rows: Callable[..., None]  # those of binary factors

    def working(self) -> AbstractContextManager[None]: ...

    def to_device(self, tree: Tree) -> Tree: ...

    def to_host(self, tree: Tree) -> Tree: ...

    def answers(self, observations: Observations) -> Any: ...


class Posterior(Protocol):
    """What an estimator keeps of what was learnt."""

    @property
    def share(self) -> float:
        """Its part in what several posteriors predict together."""

    @property
    def models(self) -> Sequence[Model]:
        """Models whose mean, by their shares, is the prediction."""

    def reordered(self, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> Self:
        """With rows and columns from these positions; what was not learnt, at −1, is unknown.

        ``n_levels`` are those of all columns.
        """

    def with_newcomers(
        self, known: Observations, ratings: Observations, tables: Tables, backend: Backend
    ) -> Self:
        """With more rows and columns, inferred from their ratings and features; the others stay.

        The first rows and columns of ``ratings`` are those of ``known``; tables have all.
        """

    def compared_with(self, known: Observations, table: csr_array | None) -> Any:
        """What :meth:`infer_rows` compares new rows with; may be kept from call to call."""

    def infer_rows(
        self, ratings: Observations, lines: csr_array | None, others: Any, backend: Backend
    ) -> Sequence[Model]:
        """The models, with rows that have these ratings and features in place of their own."""

    def rating_effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        """Expected worth of a cell, and what each of the row's answers adds to it.

        The cost is linear in the answers.
        """

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a file holds; the class method ``from_stored`` reads it."""


class GaussianPosterior(Posterior, Protocol):
    """Gaussian factors, which new ratings can update, and whose means are vectors."""

    def with_feature_priors(self, ratings: Observations, tables: Tables) -> Self:
        """With rows and columns that have no ratings at the mean their features predict."""

    def updated(self, known: Observations, touched: ChangedRatings, tables: Tables, backend: Backend) -> Self:
        """After new ratings; ``known`` are those before."""

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """(n, 1 + F) mean biases and factors of rows and of columns."""

    def curves(self, worth: np.ndarray) -> Any:
        """How the expected worth of each column rises with the mean utility."""


class Model(Posterior, Protocol):
    """One model, which predicts by itself."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def n_levels(self) -> Array: ...

    @property
    def most_levels(self) -> int: ...

    def with_unknown(self, counts: np.ndarray | None = None, n_levels: int | None = None) -> Self:
        """With one more row and one more column, at position −1, of which nothing is known.

        The column has so many levels, by default the most. ``counts`` tell how often each column was
        answered: what is not known of a column is then expected as the average answer has it, and not
        the average column, because columns with few answers, of which there are many, have lower ones.
        """

    def add_probabilities(self, cells: Cells, total: np.ndarray) -> None:
        """Add the distribution over levels of some known cells, times the share."""

    def scorer(self, worth: np.ndarray) -> AddScores:
        """What adds, times the share, how much more than its lowest level a column is worth.

        ``worth``, (columns, L), is what each level counts, from 0 to 1.
        """

    def liking(self, lowest: np.ndarray) -> Any:
        """How likely rows like columns, for a kernel that can tell; else None.

        ``lowest`` are the lowest levels that are liked.
        """

    def with_utilities(self) -> UtilityModel:
        """The model itself, for a GPU; raises DataError if it has no utilities."""


class UtilityModel(Model, Protocol):
    """A model in which a level says between which two thresholds a Gaussian utility lies.

    Thresholds are a first one, that of the column, and gaps, whose logarithms are those of the row
    and of the column together.
    """

    @property
    def row_cutpoints(self) -> Array: ...

    @property
    def column_cutpoints(self) -> Array: ...

    def utilities(self, cells: Cells) -> Utilities:
        """Utilities of known cells, before calibration."""

    def moments(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the utilities of known cells."""

    def means_above(self, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        """(rows, columns) mean utilities above the first threshold of each column."""

    def inverse_deviations(self, rows: np.ndarray, n_columns: int) -> np.ndarray:
        """One over standard deviations; (rows, columns), or (rows, 1) where all columns agree."""

    # For engines that take the sums themselves; arrays may be a device's.

    def cell_terms(self, row: Array, column: Array) -> CellTerms: ...
