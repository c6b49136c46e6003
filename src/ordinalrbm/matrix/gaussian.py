"""The matrix model with continuous factors: the limit of many binary units per factor.

A factor of M binary units with the same weights is binomial, and the more units, the closer to a
Gaussian. With utilities that nobody has answered integrated over, the Gaussian RBM of a row

    log Ψ(u, h) = −½|u|² − ½|h|² + u·(α + W h)    has    Cov(u) = (I − W Wᵀ)⁻¹ = I + Λ Λᵀ,

so that it is the same as drawing h from N(0, I) and u around α + Λ h, with Λ = W (I − Wᵀ W)^−½.
In that form, answers that are missing can just be left out. The matrix model has such factors on
both sides,

    μ_di = α_i + β_d + w_i·h_d + ω_d·g_i,

and given all but one of its four parts each is Gaussian. Rows and columns both bring a bias and
K + S coordinates, (h_d, ω_d) and (w_i, g_i), whose products add up. The posterior is a Gaussian
with independent coordinates: what is not known about one side is carried into the regressions of
the other, and the priors are learnt from the data, so that factors nobody needs fade away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.data.observations import Counted, Observations
from ordinalrbm.engine import half_sweep
from ordinalrbm.engine.gaussian_state import FactorPosterior, Moments, Prior, Rotation
from ordinalrbm.engine.half_sweep import gaps_of
from ordinalrbm.matrix.model import Half, MatrixModel, common_cutpoints

# So many ratings of a row or column, on average, can tell one factor. With more factors than that,
# noise would be learnt before the priors are.
_RATINGS_PER_FACTOR = 2.0
_FEWEST_FACTORS = 2
# Epochs before the priors of factors are learnt, and precisions of the priors where learning
# begins. Weak for factors, or these would be given up before they have learnt anything.
_WEAK_EPOCHS = 2
_BIAS_PRECISION, _FACTOR_PRECISION, _STEPS_PRECISION = 5.0, 1.0, 20.0
# Widths change slowly, and take as long as all else: they are renewed in every so manyth epoch.
_EPOCHS_PER_WIDTHS = 2
# Expected square of one more of each kind, so that few rows do not talk themselves into a prior of
# no width; small beside one, the variance of a utility.
_SIZE_OF_ONE_MORE = 0.1
# Learnt priors of independent coordinates are too narrow: factors fade that are still needed.
# Variances count a little more, so that only what is useless does (found on MovieLens 1M and 100K,
# where 1.1 to 1.2 are about as good).
_AGAINST_FADING = 1.1
_SMALLEST_SIZE = 1e-12
# Of the largest eigenvalue: smaller ones are no directions, but rounding.
_NO_DIRECTION = 1e-12


class _How(NamedTuple):
    """What an epoch does: whether priors of factors stay weak, and whether widths are renewed."""

    weak: bool
    gaps: bool


class GaussianState(NamedTuple):
    """Rows and columns, what is known of them, and their priors."""

    rows: FactorPosterior
    columns: FactorPosterior
    row_prior: Prior
    column_prior: Prior

    def copy(self) -> GaussianState:
        """The same with arrays of its own."""
        rows, columns = (FactorPosterior(*map(np.copy, posterior)) for posterior in self[:2])
        row_prior, column_prior = (Prior(*map(np.copy, prior)) for prior in self[2:])
        return GaussianState(rows, columns, row_prior, column_prior)


def start(observations: Counted, most_factors: int, rows_differ: bool, seed: int) -> GaussianState:
    """Before learning: marginal thresholds, random factors of the columns, none of the rows.

    There are as many factors as the ratings can tell, at most ``most_factors``. Without
    ``rows_differ`` rows have factors but no biases and widths of their own.
    """
    rng = np.random.default_rng(seed)
    n_rows, n_columns = observations.n_rows, observations.n_columns
    n_factors = min(most_factors, _tellable(observations))
    cutpoints = common_cutpoints(observations)
    width = cutpoints.shape[1]
    most = np.full(n_rows, width + 1, dtype=np.int32)
    columns = _nobody(n_columns, n_factors, cutpoints, observations.n_levels.astype(np.int32))
    # Unequal from the start, so that factors need not first find out which one leads.
    columns.mean[:, 1:] = rng.standard_normal((n_columns, n_factors))
    columns.mean[:, 1:] /= np.sqrt(np.arange(1, n_factors + 1))
    rows = _nobody(n_rows, n_factors, np.zeros((n_rows, width)), most)
    row_prior, column_prior = _first_prior(rows), _first_prior(columns)
    if not rows_differ:
        row_prior.precision[0] = np.inf
        row_prior.cutpoints_precision[:] = np.inf
    return GaussianState(rows, columns, row_prior, column_prior)


def _tellable(observations: Counted) -> int:
    per_party = observations.n_entries / max(observations.n_rows + observations.n_columns, 1)
    return max(_FEWEST_FACTORS, int(per_party / _RATINGS_PER_FACTOR))


def _nobody(n: int, n_factors: int, cutpoints: np.ndarray, n_levels: np.ndarray) -> FactorPosterior:
    nothing = np.zeros((n, 1 + n_factors), dtype=np.float32)
    return FactorPosterior(nothing, nothing.copy(), cutpoints.copy(), gaps_of(cutpoints), n_levels)


def _first_prior(posterior: FactorPosterior) -> Prior:
    precision = np.full(posterior.mean.shape[1], _FACTOR_PRECISION, dtype=np.float32)
    precision[0] = _BIAS_PRECISION
    return Prior(
        precision,
        posterior.cutpoints.copy(),
        np.full(posterior.cutpoints.shape[1], _STEPS_PRECISION),
    )


# ---- one epoch --------------------------------------------------------------------------------


class View(NamedTuple):
    """How a party is seen: its answers, and the engine that renews it and sums over it.

    Engines have the functions of :mod:`ordinalrbm.engine.half_sweep`; answers are in their form.
    """

    answers: Any
    engine: Any


class Data(NamedTuple):
    """The same ratings as rows and as columns see them, and the scales' numbers of levels."""

    rows: View
    columns: View
    scales: np.ndarray


def on_cpu(observations: Observations) -> Data:
    """Ratings for the engine of this machine's cores."""
    transposed = observations.transpose()
    return Data(
        View(observations, half_sweep),
        View(transposed, half_sweep),
        np.unique(observations.n_levels),
    )


def epoch(data: Data, parties: GaussianState, number: int) -> GaussianState:
    """Rows given the columns, columns given the rows; what was given may be changed in place.

    ``number`` counts epochs from 1.
    """
    rows, columns, row_prior, column_prior = parties
    how = _How(weak=number <= _WEAK_EPOCHS, gaps=number % _EPOCHS_PER_WIDTHS == 1)
    rows, columns, row_prior, column_prior = _half(
        data.rows, data.columns, (rows, columns, row_prior, column_prior), how
    )
    columns, rows, column_prior, row_prior = _half(
        data.columns, data.rows, (columns, rows, column_prior, row_prior), how
    )
    return _with_common_cutpoints(data, GaussianState(rows, columns, row_prior, column_prior))


def _half(
    view: View,
    other_view: View,
    both: tuple[FactorPosterior, FactorPosterior, Prior, Prior],
    how: _How,
) -> tuple[FactorPosterior, FactorPosterior, Prior, Prior]:
    """Renew one party, then turn to the axes that suit both, and learn the priors."""
    this, other, prior, other_prior = both
    prior = _renewed(view, this, other, prior, how.gaps)
    sums, other_sums = view.engine.moments(this), other_view.engine.moments(other)
    centred = bool(np.isfinite(other_prior.precision[0]))
    rotation, other_rotation = view.engine.broadcast(*_rotations(sums, other_sums, centred))
    this, other = (
        view.engine.rotate(this, rotation),
        other_view.engine.rotate(other, other_rotation),
    )
    precision = _learnt(prior.precision, sums.rotate(rotation), how.weak)
    other_precision = _learnt(other_prior.precision, other_sums.rotate(other_rotation), how.weak)
    return (
        this, other, prior._replace(precision=precision),
        other_prior._replace(precision=other_precision),
    )  # fmt: skip


def _renewed(
    view: View, this: FactorPosterior, other: FactorPosterior, prior: Prior, gaps: bool
) -> Prior:
    """Renew a party in place; the prior with what its widths say, where they were renewed."""
    if not gaps:
        stay = np.full_like(prior.cutpoints_precision, np.inf)
        view.engine.half_sweep(view.answers, this, other, prior._replace(cutpoints_precision=stay))
        return prior
    cutpoints_variance = view.engine.half_sweep(view.answers, this, other, prior)
    n, squares = view.engine.step_squares(this, prior, cutpoints_variance)
    found = (n + 1.0) / (squares + _SIZE_OF_ONE_MORE)
    return prior._replace(cutpoints_precision=_kept_if_fixed(prior.cutpoints_precision, found))


def _rotations(this: Moments, other: Moments, centred: bool) -> tuple[Rotation, Rotation]:
    """Turns to the axes that suit both parties; they change no product.

    ``centred`` moves the mean of this party's factors into the other's biases: priors are around
    zero.
    """
    width = this.total.size
    rotation, other_rotation = Rotation.none(width), Rotation.none(width)
    if centred:
        centre = this.total[1:] / max(this.n, 1)
        rotation.shift[1:] = -centre
        other_rotation.matrix[1:, 0] = centre
    forward, backward = _axes(
        _second_moment(this.rotate(rotation)), _second_moment(other.rotate(other_rotation))
    )
    return rotation.then(forward), other_rotation.then(backward)


def _second_moment(sums: Moments) -> np.ndarray:
    return (sums.products + np.diag(sums.variance))[1:, 1:] / max(sums.n, 1)


def _axes(this: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maps of both parties' factors to axes in which they are uncorrelated and as large.

    Products do not change, but priors with a precision per factor fit best in these axes, and
    half-sweeps alone would turn there very slowly (Luttinen and Ilin 2010).
    """
    values, axes = np.linalg.eigh(this)
    root = np.sqrt(_raised(values))
    spread, rotation = np.linalg.eigh(root[:, None] * (axes.T @ other @ axes) * root)
    size = _raised(spread[::-1]) ** 0.25
    rotation = rotation[:, ::-1]
    return (axes / root) @ rotation * size, (axes * root) @ rotation / size


def _raised(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, values.max(initial=0.0) * _NO_DIRECTION + 1e-300)


def _learnt(precision: np.ndarray, sums: Moments, weak: bool) -> np.ndarray:
    """Most likely precisions; while they are weak, only that of the bias."""
    squares = np.diag(sums.products) + _AGAINST_FADING * sums.variance
    found = (sums.n + 1.0) / (squares + _SIZE_OF_ONE_MORE)
    if weak:
        found[1:] = precision[1:]
    return _kept_if_fixed(precision, found).astype(np.float32)


def _kept_if_fixed(precision: np.ndarray, found: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(precision), precision, found)


def _with_common_cutpoints(data: Data, parties: GaussianState) -> GaussianState:
    """Renew the common steps of each scale, and move into them what all biases share.

    What all rows have in common belongs to the columns, so that a row of zeros is the usual one.
    Distributions stay as they are.
    """
    rows, columns, _, column_prior = parties
    of_rows, of_columns = data.rows.engine, data.columns.engine
    bias, cutpoints = of_rows.shares(rows).means()
    of_rows.shift(rows, -bias, -cutpoints)
    of_columns.shift(columns, 0.0, cutpoints - _first(bias, cutpoints))
    for n_levels in data.scales:
        bias, cutpoints = of_columns.shares(columns, n_levels).means()
        of_columns.shift(columns, -bias, -_first(bias, cutpoints), n_levels)
        of_columns.draw_towards(
            column_prior, columns, cutpoints - _first(bias, cutpoints), n_levels
        )
    return parties


def _first(value: float, cutpoints: np.ndarray) -> np.ndarray:
    """A number as the first of so many steps, the others zero."""
    return np.append(value, np.zeros(cutpoints.size - 1))


# ---- as a matrix model ------------------------------------------------------------------------


def to_matrix(parties: GaussianState, n_row_factors: int, n_column_factors: int) -> MatrixModel:
    """The same as a matrix model; coordinates go to the rows' and the columns' factors in turn.

    Factors have a mean square of one, and weights say how much they matter; those that the ratings
    could not tell are zero.
    """
    rows, columns = parties.rows, parties.columns
    of_rows, of_columns = dealt(rows.mean.shape[1] - 1, n_row_factors, n_column_factors)
    by_rows = _half_of(columns, rows, 1 + of_rows, n_row_factors)
    by_columns = _half_of(rows, columns, 1 + of_columns, n_column_factors)
    return MatrixModel(by_rows, by_columns, columns.n_levels.copy())


def dealt(n: int, most_first: int, most_second: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions 0 to n − 1 dealt to two in turn, as long as both may have more.

    Examples
    --------
    >>> [part.tolist() for part in dealt(4, 3, 1)]
    [[0, 2, 3], [1]]
    """
    first = np.arange(n) % 2 == 0
    both = 2 * min(most_first, most_second)
    first[both:] = most_first > most_second
    return np.flatnonzero(first), np.flatnonzero(~first)


def _half_of(
    weighing: FactorPosterior, acting: FactorPosterior, chosen: np.ndarray, n_factors: int
) -> Half:
    """Factors of the acting party, and what the weighing one makes of them."""
    size = size_of_factors(acting, chosen)

    def filled(array: np.ndarray) -> np.ndarray:
        # Choosing columns turns the order of the memory; kernels want rows.
        return np.ascontiguousarray(np.pad(array, ((0, 0), (0, n_factors - chosen.size))))

    return Half(
        weights=filled(weighing.mean[:, chosen] * size),
        bias=weighing.mean[:, 0].copy(),
        cutpoints=weighing.cutpoints.copy(),
        factor_bias=np.zeros(n_factors, dtype=np.float32),
        factors=filled(acting.mean[:, chosen] / size),
        weights_variance=filled(weighing.variance[:, chosen] * size**2),
        bias_variance=weighing.variance[:, 0].copy(),
        factors_variance=filled(acting.variance[:, chosen] / size**2),
    )


def size_of_factors(posterior: FactorPosterior, chosen: np.ndarray) -> np.ndarray:
    """Root of the mean square of some coordinates."""
    square = posterior.mean[:, chosen] ** 2 + posterior.variance[:, chosen]
    size = np.sqrt(np.mean(square, axis=0, dtype=np.float64))
    return np.maximum(size, _SMALLEST_SIZE).astype(np.float32)


def facing(acting: Half, own: Half, n_levels: np.ndarray) -> FactorPosterior:
    """What those whose factors act in one half, and whose weights the other holds, see before them.

    For rows, ``acting`` is ``by_rows`` and they see the columns: biases, w and g.
    """
    return FactorPosterior(
        np.hstack([acting.bias[:, None], acting.weights, own.factors]),
        np.hstack([acting.bias_variance[:, None], acting.weights_variance, own.factors_variance]),
        acting.cutpoints,
        gaps_of(acting.cutpoints),
        n_levels.astype(np.int32),
    )
