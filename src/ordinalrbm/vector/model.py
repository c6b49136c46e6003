"""The vector model: parameters, and the Side they make with some answers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations, level_type
from ordinalrbm.data.questionnaire import NUMERIC, ORDINAL, Answers
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.side import Side
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import Stored
from ordinalrbm.vector.kinds import Columns, Layout, in_columns, layout, with_unknown

# The parameters of a model that are arrays, in the order of its fields.
ARRAYS = (
    "weights",
    "bias",
    "factor_bias",
    "cutpoints",
    "n_levels",
    "stretches",
    "style_weights",
    "kind",
    "slopes",
    "factor_slopes",
)
# Those that a model of nothing but scales, without background, does not have.
OPTIONAL = ("kind", "slopes", "factor_slopes")
_NO_KINDS = np.zeros(0, dtype=np.int8)
_NO_SLOPES = np.zeros((0, 0), dtype=np.float32)

MOST_UNITS = 10_000  # of a factor
MOST_STYLES = 100
_SMALLEST_STRETCH = 1e-9
# Of the logarithm of what a standard deviation of a number is as a utility, to either side.
_LARGEST_LOG_SCALE = 20.0
_ROUNDING = 1e-3

Unanswered = Literal["absent", "latent"]


class VectorModel(NamedTuple):
    """Parameters of the Cumulative RBM for vectors.

    There are N questions; a question is one column, but for nominal ones, which are a column for
    each of their categories: N' columns in all.

    Attributes
    ----------
    weights : (N', K) float32, w
    bias : (N',) float32, α
    factor_bias : (K,) float32, γ
    cutpoints : (N', L − 1) float64, τ: the first threshold and the log gaps above it; of a number
        the logarithm of its scale, of a category nothing
    n_levels : (N,) int32, levels or categories of each question, one of a number
    units : number of binary units with the same weights and bias that make one factor; the model
        is the Cumulative RBM with each column of ``weights`` repeated that often
    stretches, style_weights : (G,) what the thresholds are multiplied by in each style of using
        the scales, and the share of rows with that style; a single one is the plain model
    kind : (N,) int8, which questions are ordered scales, nominal or numbers (see
        :mod:`ordinalrbm.data.questionnaire`); of length zero where all are scales
    slopes, factor_slopes : (N', P) and (K, P) float32, what a row's covariates add to its
        utilities and to the biases of its factors; of length zero where there are none
    """

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray
    cutpoints: np.ndarray
    n_levels: np.ndarray
    units: int = 1
    stretches: np.ndarray = np.ones(1)
    style_weights: np.ndarray = np.ones(1)
    kind: np.ndarray = _NO_KINDS
    slopes: np.ndarray = _NO_SLOPES
    factor_slopes: np.ndarray = _NO_SLOPES

    @property
    def n_factors(self) -> int:
        return self.weights.shape[1]

    @property
    def n_covariates(self) -> int:
        return self.slopes.shape[1]

    @property
    def layout(self) -> Layout:
        """The columns that the questions are."""
        return layout_of(self.kind, self.n_levels)

    @property
    def thresholds(self) -> np.ndarray:
        """Bounds of all levels, (N', L + 3); see :func:`ordinalrbm.engine.thresholds.table`.

        The second number of a column of numbers is the utility of one standard deviation.
        """
        if not self.kind.size:
            return thresholds.table(self.cutpoints, self.n_levels)
        plan = self.layout
        bounds = thresholds.table(self.cutpoints, plan.n_levels)
        bounds[plan.is_number, 1] = np.exp(self.cutpoints[plan.is_number, 0])
        return bounds

    @classmethod
    def from_stored(
        cls, stored: Stored, n_levels: list[int], kind: np.ndarray = _NO_KINDS, n_covariates: int = 0
    ) -> VectorModel:
        """Return the model of a file, whose questions must be of these kinds and levels."""
        plan = layout_of(kind, np.array(n_levels, dtype=np.int32))
        n_columns, width = plan.members.size, thresholds.n_cutpoints(plan.n_levels)
        weights = stored.parameter("weights", np.float32, (n_columns, None))
        stretches = stored.parameter("stretches", np.float64, (None,), _SMALLEST_STRETCH)
        if not 1 <= stretches.size <= MOST_STYLES or not weights.size:
            raise DataError("it has no factors, no response styles or too many of them")
        model = cls(
            weights=weights,
            bias=stored.parameter("bias", np.float32, (n_columns,)),
            factor_bias=stored.parameter("factor_bias", np.float32, weights.shape[1:]),
            cutpoints=stored.parameter(
                "cutpoints", np.float64, (n_columns, width), high=thresholds.LARGEST_CUTPOINT
            ),
            n_levels=stored.checked_array("n_levels", np.int32, (len(n_levels),)),
            units=stored.whole("units", 1, MOST_UNITS),
            stretches=stretches,
            style_weights=stored.checked_array("style_weights", np.float64, stretches.shape, 0.0, 1.0),
        )
        if kind.size:
            model = model._replace(kind=stored.checked_array("kind", np.int8, kind.shape, 0, 2))
        if n_covariates:
            of_factors = (weights.shape[1], n_covariates)
            model = model._replace(
                slopes=stored.parameter("slopes", np.float32, (n_columns, n_covariates)),
                factor_slopes=stored.parameter("factor_slopes", np.float32, of_factors),
            )
        if not np.array_equal(model.kind, kind):
            raise DataError("its columns are of other kinds than their scales")
        if np.abs(model.cutpoints[plan.is_number, 0]).max(initial=0.0) > _LARGEST_LOG_SCALE:
            raise DataError("the scale of a column of numbers in it is too small or too large")
        if model.n_levels.tolist() != n_levels:
            raise DataError("its columns have other numbers of levels than their scales")
        if abs(model.style_weights.sum() - 1.0) > _ROUNDING:
            raise DataError("the shares of its response styles do not add up to one")
        return model

    def copy(self) -> VectorModel:
        arrays: dict[str, Any] = {name: np.array(getattr(self, name)) for name in ARRAYS}
        return self._replace(**arrays)


class Gradient(NamedTuple):
    """Direction of steepest ascent, in the shapes of the model's parameters."""

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray
    cutpoints: np.ndarray
    slopes: np.ndarray = _NO_SLOPES
    factor_slopes: np.ndarray = _NO_SLOPES


def layout_of(kind: np.ndarray, n_levels: np.ndarray) -> Layout:
    """Return the columns of questions; where no kinds are said, all are ordered scales."""
    return layout(kind if kind.size else np.full(n_levels.size, ORDINAL, np.int8), n_levels)


def factor_type(units: int) -> type[np.unsignedinteger]:
    """Return the smallest number type that counts the units of a factor."""
    return np.uint8 if units <= np.iinfo(np.uint8).max else np.uint16


def random_factors(n_rows: int, model: VectorModel, rng: np.random.Generator) -> np.ndarray:
    """Return (rows, K) factors with every unit a fair coin."""
    on = rng.binomial(model.units, 0.5, size=(n_rows, model.n_factors))
    return on.astype(factor_type(model.units))


def level_counts(observations: Observations, row_weight: np.ndarray | None = None) -> np.ndarray:
    """Return (N, L) how often each level of each column was chosen; rows may have weights."""
    width = int(observations.n_levels.max(initial=1))
    weight = None if row_weight is None else of_answers(observations, row_weight)
    counts = np.zeros((observations.n_columns, width), np.int64 if weight is None else np.float64)
    for level in range(width):
        chosen = observations.level == level
        counts[:, level] = np.bincount(
            observations.column[chosen],
            None if weight is None else weight[chosen],
            minlength=observations.n_columns,
        )
    return counts


def of_answers(observations: Observations, row_weight: np.ndarray | None) -> np.ndarray:
    """Return the weight of each answer, that of its row; all ones where rows have none."""
    if row_weight is None:
        return np.ones(observations.n_entries, dtype=np.float32)
    return np.repeat(row_weight, np.diff(observations.row_start))


def side(
    model: VectorModel,
    observations: Observations,
    unanswered: Unanswered = "absent",
    row_weight: np.ndarray | None = None,
) -> Side:
    """Return the model's parameters over some answers.

    An unanswered variable is absent from its row's model, or it is there with an answer that
    nobody knows ("latent"): then its utility is integrated over, and every row has all columns.
    """
    bounds = model.thresholds
    covariates = observations.covariates
    columns = Columns(observations, np.zeros(0, dtype=np.float32))
    if model.kind.size:
        columns = in_columns(observations, model.layout, thresholds.unknown_level(bounds))
    if unanswered == "latent":
        columns = with_unknown(columns, thresholds.unknown_level(bounds))
    observations, known = columns
    view = observations.column_view
    this = Side(
        row_start=observations.row_start,
        column=observations.column,
        level=observations.level,
        column_start=view.column_start,
        entry_row=view.row,
        entry=view.entry,
        offset=np.zeros(0, dtype=np.float32),
        row_weight=np.zeros(0, dtype=np.float32) if row_weight is None else row_weight,
        stretch=np.zeros(0, dtype=np.float32),
        row_gaps=np.zeros((0, 0), dtype=np.float32),
        weights=_writable(model.weights),
        bias=_writable(model.bias),
        thresholds=bounds,
        factor_bias=_writable(model.factor_bias),
        units=model.units,
        members=model.layout.members if model.kind.size else np.zeros(0, dtype=np.int32),
        known=known,
    )
    return with_covariates(this, model, covariates) if model.n_covariates else this


def _writable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy if it is mapped from a file: kernels would be compiled for that anew."""
    return np.require(array, requirements="W")


def with_covariates(this: Side, model: VectorModel, covariates: np.ndarray) -> Side:
    """Return a side whose rows have covariates, and what follows from them."""
    n_entries = this.column.size
    some_are_categories = bool(this.members.size and model.layout.is_category.any())
    this = this._replace(
        covariates=np.ascontiguousarray(covariates, dtype=np.float32),
        shift=np.zeros(n_entries, dtype=np.float32),
        offset=np.zeros(n_entries if some_are_categories else 0, dtype=np.float32),
        row_bias=np.zeros((this.n_rows, model.n_factors), dtype=np.float32),
    )
    follow_covariates(this, model, 0, this.n_rows)
    return this


def follow_covariates(this: Side, model: VectorModel, start: int, stop: int) -> None:
    """Put what the covariates of some rows add, by the model's slopes, into the side's arrays.

    To categories it is added as a bias would be; utilities of scales and numbers are shifted.
    """
    rows = this.rows(start, stop)
    rows.row_bias[:] = rows.covariates @ model.factor_slopes.T
    nothing = np.zeros(stop - start, dtype=np.float32)
    gibbs.fill_offsets(rows.row_start, rows.column, rows.covariates, nothing, model.slopes, this.shift)
    if this.offset.size:
        here = slice(int(rows.row_start[0]), int(rows.row_start[-1]))
        is_category = model.layout.is_category[this.column[here]]
        this.offset[here] = np.where(is_category, this.shift[here], 0.0)
        this.shift[here][is_category] = 0.0


def with_parameters(this: Side, model: VectorModel) -> Side:
    """Return the same answers under other parameters."""
    return this._replace(
        weights=model.weights, bias=model.bias, thresholds=model.thresholds, factor_bias=model.factor_bias
    )


def complete_rows(model: VectorModel, n_rows: int) -> Observations:
    """Return rows that have every column, with unknown answers: what the free model is over.

    Where there are covariates, theirs are zero, those of an average row.
    """
    n_questions = model.n_levels.size
    # Numbers and categories have no level that stands for an unknown answer.
    unknown = -1 if model.kind.size else thresholds.unknown_level(model.thresholds)
    rows = Observations(
        row_start=np.arange(n_rows + 1, dtype=np.int64) * n_questions,
        column=np.tile(np.arange(n_questions, dtype=np.int32), n_rows),
        # As in answers: for levels of another type, all kernels would be compiled once more.
        level=np.full(n_rows * n_questions, unknown, dtype=level_type(unknown)),
        n_levels=model.n_levels,
    )
    if not model.kind.size and not model.n_covariates:
        return rows
    numbers = np.full((n_rows, np.count_nonzero(model.kind == NUMERIC)), np.nan)
    return Answers.of(rows, model.kind, numbers, np.zeros((n_rows, model.n_covariates)))
