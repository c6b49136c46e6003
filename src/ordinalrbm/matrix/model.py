"""The matrix model: two sets of parameters that face each other, and the Sides they make.

Each observed cell (d, i) joins the factors h_d of its row and g_i of its column:

    μ_di = α_i + β_d + w_i·h_d + ω_d·g_i
    θ_di,1 = τ_i,1        θ_di,l+1 = θ_di,l + exp(τ_i,l + κ_d,l)

Given the columns' expected factors, the rows are independent vector models with an offset, and the
other way round. Both processes are the same computation on the other view of the data: what a
:class:`Half` holds of the columns in one of them, the other one's holds of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Counted, Observations
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.side import Array, Side
from ordinalrbm.storage.reader import Stored

# Two levels of a threshold table are no levels, see :mod:`ordinalrbm.engine.thresholds`.
_EXTRA_ENDS = 3
# Distributions are divided by a gain.
_SMALLEST_GAIN = 1e-9


class Half(NamedTuple):
    """One process: parameters of the columns that the rows' factors act on, and these factors."""

    weights: Array  # (C, K) float32, w (or ω)
    bias: Array  # (C,) float32, α (or β)
    cutpoints: Array  # (C, L − 1) float64, τ (or κ): first threshold, which stays, then log gaps
    factor_bias: Array  # (K,) float32, γ (or ξ)
    factors: Array  # (R, K) float32, ĥ (or ĝ): expected factors of the rows

    @property
    def n_factors(self) -> int:
        return self.weights.shape[1]

    def with_columns(self, change: Callable[[Any], Any]) -> Half:
        """Every array changed that has a line per column."""
        return self._replace(
            weights=change(self.weights), bias=change(self.bias), cutpoints=change(self.cutpoints)
        )

    @classmethod
    def from_stored(cls, stored: Stored, n_columns: int, n_rows: int, width: int) -> Half:
        weights = stored.parameter("weights", np.float32, (n_columns, None))
        n_factors, most = weights.shape[1], thresholds.LARGEST_CUTPOINT
        return cls(
            weights,
            stored.parameter("bias", np.float32, (n_columns,)),
            stored.parameter("cutpoints", np.float64, (n_columns, width), high=most),
            stored.parameter("factor_bias", np.float32, (n_factors,)),
            stored.parameter("factors", np.float32, (n_rows, n_factors), 0.0, 1.0),
        )


class MatrixModel(NamedTuple):
    """Both processes, and the number of levels of each column's scale.

    ``by_rows`` holds what belongs to the columns (w, α, τ, γ) and ĥ; ``by_columns`` what belongs
    to the rows (ω, β, κ, ξ) and ĝ. ``gains`` are three numbers for predictions: what w·(ĥ − ½) and
    ω·(ĝ − ½) are multiplied by, and the standard deviation of a utility around its mean. Expected
    factors are less extreme than the sampled ones that weights are learnt with, and parameters are
    not known exactly: all three are a little above one. ``share`` is the model's part in what
    several of them predict together.
    """

    by_rows: Half
    by_columns: Half
    n_levels: Array
    gains: Array = np.ones(3)
    share: float = 1.0

    @property
    def most_levels(self) -> int:
        return self.column_cutpoints.shape[1] + 1

    @property
    def row_cutpoints(self) -> Array:
        """(rows, L − 1) κ."""
        return self.by_columns.cutpoints

    @property
    def column_cutpoints(self) -> Array:
        """(columns, L − 1) τ."""
        return self.by_rows.cutpoints

    @property
    def n_rows(self) -> int:
        return self.by_columns.bias.size

    @property
    def n_columns(self) -> int:
        return self.by_rows.bias.size

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> MatrixModel:
        """The model of a file whose columns are on scales of so many levels."""
        n_columns, width = n_levels.size, thresholds.n_cutpoints(n_levels)
        by_rows = Half.from_stored(stored.under("by_rows."), n_columns, n_rows, width)
        by_columns = Half.from_stored(stored.under("by_columns."), n_rows, n_columns, width)
        gains = stored.parameter("gains", np.float64, (3,), low=_SMALLEST_GAIN)
        share = stored.checked_array("share", np.float64, (1,), 0.0, 1.0)
        return cls(by_rows, by_columns, n_levels, gains, float(share[0]))

    def with_rows(self, change: Callable[[Any], Any]) -> MatrixModel:
        """Every array changed that has a line per row."""
        by_rows = self.by_rows._replace(factors=change(self.by_rows.factors))
        return self._replace(by_rows=by_rows, by_columns=self.by_columns.with_columns(change))

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"gains": self.gains, "share": np.array([self.share])}
        for name in ("by_rows", "by_columns"):
            half = getattr(self, name)._asdict()
            arrays |= {f"{name}.{part}": array for part, array in half.items()}
        return arrays


def start(
    observations: Observations, n_row_factors: int, n_column_factors: int, seed: int, *,
    at_marginals: bool = True, balanced: bool = True,
) -> MatrixModel:  # fmt: skip
    """Model to start learning from.

    Everyone's thresholds are at the common marginal quantiles, or else a unit apart around zero.
    Half of the factors are on at first, so a balanced bias takes half of the weights back.
    """
    rng = np.random.default_rng(seed)
    n_levels, n_rows = observations.n_levels, observations.n_rows
    cutpoints = common_cutpoints(observations) if at_marginals else thresholds.even(n_levels)
    by_rows = _start_half(cutpoints, n_rows, n_row_factors, rng, balanced)
    none = np.zeros((n_rows, cutpoints.shape[1]))
    by_columns = _start_half(none, observations.n_columns, n_column_factors, rng, balanced)
    return MatrixModel(by_rows, by_columns, n_levels)


# Weights of the first step: large enough to tell factors apart, too small to matter.
_NOISE = 0.2


def _start_half(
    cutpoints: np.ndarray, n_rows: int, n_factors: int, rng: np.random.Generator, balanced: bool
) -> Half:
    weights = _NOISE * rng.normal(size=(len(cutpoints), n_factors)).astype(np.float32)
    return Half(
        weights=weights,
        bias=np.float32(-0.5 * balanced) * weights.sum(axis=1),
        cutpoints=cutpoints,
        factor_bias=np.zeros(n_factors, dtype=np.float32),
        factors=np.full((n_rows, n_factors), 0.5, dtype=np.float32),
    )


def common_cutpoints(observations: Counted) -> np.ndarray:
    """Thresholds at the marginals of all columns with the same number of levels together."""
    width = int(observations.n_levels.max(initial=2))
    cutpoints = np.zeros((observations.n_columns, width - 1))
    for n_levels in np.unique(observations.n_levels):
        counts = np.zeros((1, width), dtype=np.int64)
        counts[0, :n_levels] = observations.level_counts(n_levels)
        cutpoints[observations.n_levels == n_levels] = thresholds.at_marginals(
            counts, np.array([n_levels])
        )
    return cutpoints


def row_side(model: MatrixModel, observations: Observations, offset: np.ndarray) -> Side:
    """The row process over some answers; fills ``offset`` (one float32 per answer)."""
    return _side(model.by_rows, model.by_columns, model.n_levels, observations, offset)


def column_side(model: MatrixModel, transposed: Observations, offset: np.ndarray) -> Side:
    """The column process over the same answers with the roles swapped."""
    width, n_levels = model.most_levels - 1, np.full(model.n_rows, model.most_levels)
    side = _side(model.by_columns, model.by_rows, n_levels, transposed, offset)
    beyond = thresholds.unused(model.n_levels, width)
    side.row_gaps[:, 1:width][beyond[:, 1:]] = np.inf
    return side


def _gaps(cutpoints: np.ndarray) -> np.ndarray:
    """What a row makes of each gap; beyond its last level there is no bound."""
    gaps = np.full((cutpoints.shape[0], cutpoints.shape[1] + _EXTRA_ENDS), np.inf, dtype=np.float32)
    np.exp(cutpoints, out=gaps[:, : cutpoints.shape[1]], casting="same_kind")
    gaps[:, 0] = cutpoints[:, 0]  # the first threshold is no gap: it adds up
    return gaps


def _side(
    own: Half, other: Half, n_levels: np.ndarray, observations: Observations, offset: np.ndarray
) -> Side:
    answers = observations.row_start, observations.column
    gibbs.fill_offsets(*answers, other.weights, other.bias, other.factors, offset)
    return answers_only(observations)._replace(
        offset=offset,
        row_gaps=_gaps(other.cutpoints),
        weights=own.weights,
        bias=own.bias,
        thresholds=thresholds.table(own.cutpoints, n_levels),
        factor_bias=own.factor_bias,
    )


def answers_only(observations: Observations) -> Side:
    """A Side of answers, the parameters of which are still to come."""
    view = observations.column_view
    nothing = np.zeros(0, dtype=np.float32)
    no_table = np.zeros((0, 0), dtype=np.float32)
    return Side(
        row_start=observations.row_start,
        column=observations.column,
        level=observations.level,
        column_start=view.column_start,
        entry_row=view.row,
        entry=view.entry,
        offset=nothing,
        row_weight=nothing,
        stretch=nothing,
        row_gaps=no_table,
        weights=no_table,
        bias=nothing,
        thresholds=no_table.astype(np.float64),
        factor_bias=nothing,
        units=1,
    )
