"""What users would think of items that they did not choose.

Distributions of those who chose are tilted, p*(l) ∝ p(l) exp((a + b log q − c) v_l), q being the share
of cells in less demand and v_l levels from −1/2 to 1/2: a and b by ratings held out in turns, c by which
items these are of, beside items that the user has not rated (docs/mathematics-matrix.md).
"""

import warnings
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ordinalrbm.data.observations import Cells
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ratings import RatingModel, ReadRatings
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.blocks import each_block
from ordinalrbm.runtime.threads import seed_from
from ordinalrbm.storage.reader import Stored, wrong
from ordinalrbm.training.checkpoint import Checkpoints

# One part of the ratings is held out at a time, as many times as it takes to have enough of them.
_PARTS, _ENOUGH, _LEAST = 5, 20_000, 200
# Beside each item that was chosen; cells that tell the quantiles of demand; how many of these.
_ALTERNATIVES, _CELLS, _QUANTILES = 16, 100_000, 129
_LEAST_SHARE, _AVERAGE = 1e-3, -1.0  # of q; E log q, where demand is not known
_PRECISION = 0.1  # of the numbers that are learnt, a priori


class Selection(NamedTuple):
    """How ratings of all differ from those of who chose."""

    quantiles: np.ndarray  # of the demand of all cells, at equal distances from 0 to 1
    shift: float  # a
    slope: float  # b
    choice: float  # c

    def of_everyone(self, model: RatingModel, cells: Cells, found: np.ndarray) -> np.ndarray:
        """Distributions of those who chose, as those of all."""
        wanted = _demand(model.demand_, cells.row, cells.column)
        strength = self.shift + self.slope * _log_shares(self.quantiles, wanted) - self.choice
        return _tilted(found, _values(model, cells.column, found.shape[1]), strength)

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        """Of a model file."""
        quantiles = stored.parameter("quantiles", np.float64, (_QUANTILES,))
        if (np.diff(quantiles) < 0).any():
            raise wrong("quantiles", "do not ascend")
        return cls(quantiles, *stored.parameter("numbers", np.float64, (3,)).tolist())

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a model file."""
        return {"selection.quantiles": self.quantiles, "selection.numbers": np.array(self[1:])}


class _HeldOut(NamedTuple):
    """Ratings that a model has not seen, each beside alternatives; the chosen item is the first."""

    level: np.ndarray  # (n,) of the chosen
    distribution: np.ndarray  # (n, items, L) predicted
    values: np.ndarray  # of the same shape, v
    log_share: np.ndarray  # (n, items), log q
    demand: np.ndarray  # z
    is_option: np.ndarray  # not what the user has rated


def learnt_selection(model: RatingModel) -> Selection:
    """From the ratings of a fitted model, held out in turns."""
    if process_group.current() is not None:
        raise DataError("learn_selection() runs in a single process; load the model in one.")
    n_ratings = model.ratings_.n_ratings
    if n_ratings < _LEAST or not model.demand_.n_factors:
        raise DataError(
            f"learn_selection() needs {_LEAST} ratings and the demand that they tell of; got "
            f"{n_ratings} ratings and demand_factors={model.demand_factors}."
        )
    seed = seed_from(model.random_state)
    rng = np.random.default_rng(seed)
    part_of, n_parts = rng.permutation(n_ratings) % _PARTS, min(_PARTS, -(-_ENOUGH * _PARTS // n_ratings))
    parts = [_held_out(model, part_of == part, seed, rng) for part in range(n_parts)]
    together = _HeldOut(*map(np.concatenate, zip(*parts, strict=True)))
    return Selection(_quantiles(model.demand_, rng), *_most_likely(together))


def _most_likely(held_out: _HeldOut) -> tuple[float, float, float]:
    level, distribution, values, log_share, demand, is_option = held_out
    n = level.size

    def of_ratings(numbers: np.ndarray) -> float:
        tilted = _tilted(distribution[:, 0], values[:, 0], numbers[0] + numbers[1] * log_share[:, 0])
        found = np.log(np.maximum(tilted[np.arange(n), level], np.finfo(np.float64).tiny))
        return (0.5 * _PRECISION * (numbers**2).sum() - found.sum()) / n

    shift, slope = minimize(of_ratings, np.zeros(2), method="BFGS").x.tolist()
    expected = (_tilted(distribution, values, shift + slope * log_share) * values).sum(axis=-1)

    def of_choices(numbers: np.ndarray) -> float:
        score = numbers[0] * expected + numbers[1] * log_share + numbers[2] * demand
        against = np.where(is_option, np.exp(score - score[:, :1]), 0.0).sum(axis=1)
        return (0.5 * _PRECISION * (numbers**2).sum() + np.log(against).sum()) / n

    return shift, slope, float(minimize(of_choices, np.zeros(3), method="BFGS").x[0])


def _held_out(model: RatingModel, is_out: np.ndarray, seed: int, rng: np.random.Generator) -> _HeldOut:
    """What a model without some ratings says of these, and of items that their users have not rated."""
    known, part = model.ratings_, _learnt_without(model, is_out, seed)
    some = rng.permutation(np.flatnonzero(is_out))[:_ENOUGH]
    row, column, level = (array[some] for array in known.observations.cells())
    shape = some.size, 1 + _ALTERNATIVES
    columns = rng.integers(known.n_items, size=shape)
    columns[:, 0] = column
    rows, columns = np.repeat(row, shape[1]), columns.ravel()
    is_option = (known.observations.search(rows, columns) < 0).reshape(shape)
    is_option[:, 0] = True
    time = None if known.times is None else np.repeat(known.times.value[some], shape[1])
    found = part._distribution(Cells(rows, columns, np.zeros(rows.size, np.int8)), time)
    values = _values(model, columns, found.shape[1])
    wanted = _demand(part.demand_, rows, columns)
    shares = _log_shares(_quantiles(part.demand_, rng), wanted).reshape(shape)
    found, values = (array.reshape(*shape, -1) for array in (found, values))
    return _HeldOut(level, found, values, shares, wanted.reshape(shape), is_option)


def _learnt_without(model: RatingModel, is_out: np.ndarray, seed: int) -> RatingModel:
    known, times = model.ratings_, model.ratings_.times
    times = None if times is None else times._replace(value=times.value[~is_out])
    kept = Ratings.of(known, known.observations.select(~is_out), times)
    part = clone(model).set_params(verbose=False)
    part._features, read = model._features, ReadRatings(kept, None, process_group.ALONE, seed, None)
    with warnings.catch_warnings(), Checkpoints(None) as nowhere:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the whole model has said so
        trained = part._train(read, nowhere)
        if trained.fitted.interrupted:  # by Ctrl-C, after an epoch
            raise KeyboardInterrupt
        part._finish(read, trained)
    return part


def _tilted(distribution: np.ndarray, values: np.ndarray, strength: np.ndarray) -> np.ndarray:
    found = distribution * np.exp(strength[..., None] * values)
    return found / found.sum(axis=-1, keepdims=True)


def _values(model: RatingModel, column: np.ndarray, width: int) -> np.ndarray:
    """(cells, width) v, on the scales of columns; an unknown one is at −1."""
    n_levels = np.append(model.ratings_.level_counts(), model.ratings_.cold_start_scale().n_levels)
    return np.minimum(np.arange(width) / np.maximum(n_levels[column] - 1, 1)[:, None], 1.0) - 0.5


def _demand(demand: Demand, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """NaN where the row or the column is not known."""
    found = np.empty(row.size)

    def multiply(block: slice) -> None:
        rows, columns = demand.rows[row[block]], demand.columns[column[block]]
        found[block] = np.einsum("nk,nk->n", rows, columns)

    each_block(multiply, row.size, demand.n_factors)
    return np.where((row < 0) | (column < 0), np.nan, found)


def _quantiles(demand: Demand, rng: np.random.Generator) -> np.ndarray:
    row, column = (rng.integers(len(side), size=_CELLS) for side in (demand.rows, demand.columns))
    return np.quantile(_demand(demand, row, column), np.linspace(0.0, 1.0, _QUANTILES))


def _log_shares(quantiles: np.ndarray, demand: np.ndarray) -> np.ndarray:
    share = np.interp(demand, quantiles, np.linspace(0.0, 1.0, _QUANTILES))
    return np.where(np.isnan(demand), _AVERAGE, np.log(np.maximum(share, _LEAST_SHARE)))
