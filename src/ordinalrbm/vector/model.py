"""The vector model: parameters, and the Side they make with some answers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine import thresholds
from ordinalrbm.engine.side import Side
from ordinalrbm.errors import DataError
from ordinalrbm.storage.reader import Stored

# The parameters of a model that are arrays, in the order of its fields.
ARRAYS = (
    "weights", "bias", "factor_bias", "cutpoints", "n_levels", "stretches", "style_weights",
)  # fmt: skip

MOST_UNITS = 10_000  # of a factor
MOST_STYLES = 100
_SMALLEST_STRETCH = 1e-9
_ROUNDING = 1e-3

Unanswered = Literal["absent", "latent"]


class VectorModel(NamedTuple):
    """Parameters of the Cumulative RBM for vectors.

    Attributes
    ----------
    weights : (N, K) float32, w
    bias : (N,) float32, α
    factor_bias : (K,) float32, γ
    cutpoints : (N, L − 1) float64, τ: the first threshold and the log gaps above it
    n_levels : (N,) int32
    units : number of binary units with the same weights and bias that make one factor; the model
        is the Cumulative RBM with each column of ``weights`` repeated that often
    stretches, style_weights : (G,) what the thresholds are multiplied by in each style of using
        the scales, and the share of rows with that style; a single one is the plain model
    """

    weights: np.ndarray
    bias: np.ndarray
    factor_bias: np.ndarray
    cutpoints: np.ndarray
    n_levels: np.ndarray
    units: int = 1
    stretches: np.ndarray = np.ones(1)
    style_weights: np.ndarray = np.ones(1)

    @property
    def n_factors(self) -> int:
        return self.weights.shape[1]

    @property
    def thresholds(self) -> np.ndarray:
        """Bounds of all levels, (N, L + 3); see :func:`ordinalrbm.engine.thresholds.table`."""
        return thresholds.table(self.cutpoints, self.n_levels)

    @classmethod
    def from_stored(cls, stored: Stored, n_levels: list[int]) -> VectorModel:
        """Return the model of a file, whose columns must have these numbers of levels."""
        n_columns, width = len(n_levels), thresholds.n_cutpoints(np.array(n_levels))
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
            n_levels=stored.checked_array("n_levels", np.int32, (n_columns,)),
            units=stored.whole("units", 1, MOST_UNITS),
            stretches=stretches,
            style_weights=stored.checked_array(
                "style_weights", np.float64, stretches.shape, 0.0, 1.0
            ),
        )
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


def factor_type(units: int) -> type[np.unsignedinteger]:
    """Return the smallest number type that counts the units of a factor."""
    return np.uint8 if units <= np.iinfo(np.uint8).max else np.uint16


def coins(n_rows: int, model: VectorModel, rng: np.random.Generator) -> np.ndarray:
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
    if unanswered == "latent":
        observations = with_unknown_answers(observations, thresholds.unknown_level(bounds))
    view = observations.column_view
    return Side(
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
        weights=model.weights,
        bias=model.bias,
        thresholds=bounds,
        factor_bias=model.factor_bias,
        units=model.units,
    )


def with_parameters(this: Side, model: VectorModel) -> Side:
    """Return the same answers under other parameters."""
    return this._replace(
        weights=model.weights,
        bias=model.bias,
        thresholds=model.thresholds,
        factor_bias=model.factor_bias,
    )


def with_unknown_answers(observations: Observations, unknown: int) -> Observations:
    """Fill every gap with the level that stands for an unknown answer."""
    small = unknown <= np.iinfo(np.int8).max
    n_rows, n_columns = observations.n_rows, observations.n_columns
    level = np.full((n_rows, n_columns), unknown, dtype=np.int8 if small else np.int16)
    rows = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(observations.row_start))
    level[rows, observations.column] = observations.level
    return Observations(
        row_start=np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        column=np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        level=level.reshape(-1),
        n_levels=observations.n_levels,
    )


def complete_rows(model: VectorModel, n_rows: int) -> Observations:
    """Return rows that have every column, with unknown answers: what the free model is over."""
    n_columns = model.n_levels.size
    empty = Observations.from_dense(np.full((n_rows, n_columns), -1), model.n_levels)
    return with_unknown_answers(empty, thresholds.unknown_level(model.thresholds))
