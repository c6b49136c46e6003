"""The multinomial restricted Boltzmann machine (Salakhutdinov, Mnih and Hinton 2007): model and learner.

Every answer is a softmax unit that knows nothing of the order of its levels; every row has K
binary factors h and only the columns it has answered:

    log Ψ(v, h) = Σ_i ( b_{i,v_i} + w_{i,v_i} · (h − ½) ) + γ · h

Counting factors from their middle makes b the bias at an undecided h. It is the same model as with h in the
product, and easier to learn: a weight then turns the preference of a row without shifting that of all.

It is learnt by contrastive divergence. Answers are the ones in a sparse matrix of rows by units, one unit
for each level of each column, so that what units and factors tell each other are products with it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, softmax

from ordinalrbm.data.observations import Cells, Observations, count_levels
from ordinalrbm.errors import DataError
from ordinalrbm.matrix.explain import effects_of_copies
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.predict import log_probability, set_products
from ordinalrbm.matrix.protocol import AddScores, Backend, ExplainedCell
from ordinalrbm.matrix.variational_learner import Record
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training import state as states
from ordinalrbm.training.schedule import EarlyStopping

f32 = np.float32
# A column's marginals are learnt from its own answers and so many of the whole table.
_PSEUDO_ANSWERS = 5.0
_FIRST_WEIGHT = 0.01
_BIAS_DECAY = 2.5  # precision of the prior of how biases differ from those of the whole table
# Adam's: no step is much larger than the rate, so that learning does not diverge.
_RATE, _FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.002, 0.9, 0.999, 1e-8
# Contrastive divergence takes one more Gibbs step after so many epochs; the model is an average of about
# as many of the last, which takes out the noise of sampling.
_EPOCHS_PER_STEP = _AVERAGED_EPOCHS = 10
_NO_ROWS = np.zeros((0, 0), dtype=f32)
_WORTHWHILE = 1e-4  # a rise of the mean log probability that is worth waiting for


class MultinomialModel(NamedTuple):
    """Parameters, and the factors of the rows that were learnt from."""

    units: np.ndarray  # (N, L, 1 + K) float32, b and w of each level; unused beyond a column's own
    factor_bias: np.ndarray  # (K,) float32, γ
    n_levels: np.ndarray  # (N,) int32
    factors: np.ndarray  # (D, K) float32, P(h = 1 | v) of each row
    share: float = 1.0  # it predicts alone

    @classmethod
    def from_stored(cls, stored: Stored, n_rows: int, n_levels: np.ndarray) -> MultinomialModel:
        """The model of a file whose columns are on scales of so many levels."""
        factor_bias = stored.parameter("factor_bias", f32, (None,))
        shape = n_levels.size, int(n_levels.max()), 1 + factor_bias.size
        factors = stored.parameter("factors", f32, (n_rows, factor_bias.size), 0.0, 1.0)
        return cls(stored.parameter("units", f32, shape), factor_bias, n_levels, factors)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"units": self.units, "factor_bias": self.factor_bias, "factors": self.factors}

    @property
    def models(self) -> list[MultinomialModel]:
        return [self]

    @property
    def n_rows(self) -> int:
        return len(self.factors)

    @property
    def n_columns(self) -> int:
        return len(self.units)

    @property
    def most_levels(self) -> int:
        return self.units.shape[1]

    def with_unknown(self, counts: np.ndarray | None = None, n_levels: int | None = None) -> MultinomialModel:
        """With the average column on its scale, and a row that has said nothing."""
        levels = self.most_levels if n_levels is None else n_levels
        return self._replace(
            units=np.concatenate([self.units, self._typical_column(levels, counts)[None]]),
            n_levels=np.append(self.n_levels, levels).astype(self.n_levels.dtype),
            factors=np.vstack([self.factors, expit(self.factor_bias)]),
        )

    def _typical_column(self, n_levels: int, counts: np.ndarray | None = None) -> np.ndarray:
        """The mean of the columns on this scale; where there is none, all levels are equally likely."""
        alike = self.n_levels == n_levels
        if counts is not None and counts[alike[: counts.size]].any():
            alike = alike[: counts.size] * counts  # each counted as often as it was answered
        return np.einsum("i,ilk->lk", alike / max(alike.sum(), 1), self.units[: alike.size]).astype(f32)

    def reordered(self, rows: np.ndarray, columns: np.ndarray, n_levels: np.ndarray) -> MultinomialModel:
        units = np.zeros((columns.size, n_levels.max(initial=1), self.units.shape[2]), dtype=f32)
        units[columns >= 0, : self.most_levels] = self.units[columns[columns >= 0]]
        for levels in np.unique(n_levels[columns < 0]):
            alike = (columns < 0) & (n_levels == levels)
            units[alike, : self.most_levels] = self._typical_column(levels)
        factors = np.vstack([self.factors, expit(self.factor_bias)])[rows]
        return self._replace(units=units, n_levels=n_levels, factors=factors)

    def with_newcomers(
        self, known: Observations, ratings: Observations, tables: Tables, backend: Backend
    ) -> MultinomialModel:
        if ratings.n_columns > self.n_columns:
            raise DataError(
                "MultinomialRBM cannot fold in new items, only new users; leave their ratings out, "
                "or fit again with them."
            )
        new = ratings.take_rows(np.arange(self.n_rows, ratings.n_rows))
        return self._replace(factors=np.vstack([self.factors, self.expected_factors(new)]))

    def compared_with(self, known: Observations, table: csr_array | None) -> None:
        return None

    def infer_rows(
        self, ratings: Observations, lines: csr_array | None, others: None, backend: Backend
    ) -> list[MultinomialModel]:
        return [self._replace(factors=self.expected_factors(ratings))]

    def expected_factors(self, answers: Observations) -> np.ndarray:
        """(rows, K): P(h = 1 | v) of rows with these answers."""
        return self.factors_of(_chosen(answers, answers.level, self.most_levels))

    def factors_of(self, chosen: csr_array) -> np.ndarray:
        return expit(self.factor_bias + (chosen @ self.units.reshape(-1, self.units.shape[2]))[:, 1:])

    def level_probabilities(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """(cells, L): P(v | h) of cells with the factors of their rows."""
        levels, column = np.arange(self.most_levels, dtype=np.int32), column.astype(np.int32)
        unit = column[:, None] * np.int32(levels.size) + levels
        each, logits = row.astype(np.int32).repeat(levels.size), np.empty(unit.size)
        units = self.units.reshape(-1, self.units.shape[2])
        arguments = _facing_units(self.factors, 0.0), units, each, unit.ravel(), logits
        over_rows(set_products, unit.size, *arguments)
        exists = levels < self.n_levels[column, None]
        return softmax(np.where(exists, logits.reshape(unit.shape), -np.inf), axis=1)

    def add_probabilities(self, cells: Cells, total: np.ndarray) -> None:
        total[:, : self.most_levels] += self.level_probabilities(cells.row, cells.column)

    def liking(self, lowest: np.ndarray) -> None:
        return None

    def scorer(self, worth: np.ndarray) -> AddScores:
        return partial(self._add_scores, worth - worth[:, :1])

    def _add_scores(self, worth: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> None:
        n, width = worth.shape
        for place, row in enumerate(rows):
            chances = self.level_probabilities(np.full(n, row), np.arange(n))
            scores[place] += (chances[:, :width] * worth).sum(axis=1)

    def rating_effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        """The row with all these answers, and again without each of them."""
        added = self.units[cell.columns, cell.levels, 1:]
        activation = self.factor_bias + added.sum(axis=0)
        factors = expit(np.vstack([activation, activation - added]))
        return effects_of_copies(self._replace(factors=factors), cell)

    def with_utilities(self) -> NoReturn:
        raise DataError("MultinomialRBM predicts on the cores only; set device='cpu'.")


def _chosen(answers: Observations, level: np.ndarray, most_levels: int) -> csr_array:
    """(rows, N · L): a one for each answer, at the unit of its level."""
    ones, unit = np.ones(level.size, dtype=f32), answers.column * most_levels + level
    return csr_array((ones, unit, answers.row_start), shape=(answers.n_rows, answers.n_columns * most_levels))


def _facing_units(factors: np.ndarray, first: float) -> np.ndarray:
    """Factors from their middle, as weights face them; ``first`` is what faces the biases."""
    return np.pad(factors.astype(f32) - f32(0.5), ((0, 0), (1, 0)), constant_values=first)


def gradient(
    model: MultinomialModel, answers: Observations, gibbs_steps: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Expectations given the answers minus those after some Gibbs steps, summed over the model's rows."""
    row, column, level = answers.cells()
    seen = fantasy = _chosen(answers, level, model.most_levels)
    given = expected = model.factors
    for _ in range(gibbs_steps):
        drawn = model._replace(factors=rng.random(expected.shape) < expected)
        below = np.cumsum(drawn.level_probabilities(row, column), axis=1) <= rng.random((row.size, 1))
        level = np.minimum(below.sum(axis=1), answers.n_levels[column] - 1)
        fantasy = _chosen(answers, level, model.most_levels)
        expected = model.factors_of(fantasy)
    uphill = seen.T @ _facing_units(given, 1.0) - fantasy.T @ _facing_units(expected, 1.0)
    return uphill.reshape(model.units.shape), (given - expected).sum(axis=0)


class Learner:
    """Learns a model; ``settings`` is the estimator, whose parameters they are."""

    schedule = None  # it does not diverge

    def __init__(self, observations: Observations, validation: Cells | None, settings: Any, seed: int):
        self.observations, self.validation = observations, validation
        self.settings, self.seed = settings, seed
        counts = count_levels(observations)
        of_all, size = counts.sum(axis=0) + 1.0, (*counts.shape, 1 + settings.n_factors)
        self.usual_bias = _centred_log(of_all / of_all.sum())
        self.start = f32(_FIRST_WEIGHT) * np.random.default_rng(seed).standard_normal(size, dtype=f32)
        self.start[:, :, 0] = _centred_log(counts + _PSEUDO_ANSWERS * of_all / of_all.sum())
        line = np.append(self.start, np.zeros(settings.n_factors, dtype=f32))
        # Units, then factor biases, each in one line: the parameters, Adam's two moments, the average of
        # the last epochs, and the best of these.
        self.moving = [line, *(np.zeros_like(line) for _ in range(3)), line.copy()]
        self.stopping = EarlyStopping(settings.patience, _WORTHWHILE)
        self.history: list[Record] = []
        self.started = time.perf_counter()

    @property
    def has_model(self) -> bool:
        return self.stopping.best_epoch > 0

    def goes_on(self) -> bool:
        return len(self.history) < self.settings.n_epochs and not self.stopping.is_over

    def epoch(self) -> None:
        number, (parameters, _, _, average, best) = len(self.history) + 1, self.moving
        self._pass(number)
        average += (parameters - average) / f32(min(number, _AVERAGED_EPOCHS))
        value = np.nan
        if self.validation is not None:
            model = self.model(average, self.observations)
            value = float(log_probability([model], self.validation).mean())
        self.history.append(Record(number, value, time.perf_counter() - self.started))
        if self.stopping.after(value):
            best[:] = average

    def _pass(self, epoch: int) -> None:
        """A step of Adam for each batch of rows, which are in random order."""
        n_rows, size = self.observations.n_rows, self.settings.batch_size
        parameters, first, second, _, _ = self.moving
        rng, starts = np.random.default_rng([self.seed, epoch]), np.arange(0, n_rows, size)
        for number, start in enumerate(rng.permutation(starts), 1 + (epoch - 1) * starts.size):
            answers = self.observations.take_rows(np.arange(start, min(start + size, n_rows)))
            model = self.model(parameters, answers)
            of_units, of_factors = gradient(model, answers, 1 + (epoch - 1) // _EPOCHS_PER_STEP, rng)
            slope = np.append(of_units - self.prior_slope(model, answers), of_factors)
            first += f32(1.0 - _FIRST_DECAY) * (slope - first)
            second += f32(1.0 - _SECOND_DECAY) * (slope * slope - second)
            rate = _RATE * np.sqrt(1.0 - _SECOND_DECAY**number) / (1.0 - _FIRST_DECAY**number)
            parameters += f32(rate) * first / (np.sqrt(second) + f32(_EPSILON))

    def prior_slope(self, model: MultinomialModel, answers: Observations) -> np.ndarray:
        """How fast the priors fall, where each answer has its share of the prior of its column."""
        share = answers.column_counts / np.maximum(self.observations.column_counts, 1)
        exists = np.arange(model.most_levels) < model.n_levels[:, None]
        mean = np.einsum("ilk,il->ik", model.units, exists / exists.sum(axis=1, keepdims=True))
        away = f32(self.settings.weight_decay) * (model.units - mean[:, None])
        away[:, :, 0] = f32(_BIAS_DECAY) * (model.units[:, :, 0] - self.usual_bias)
        return away * share[:, None, None].astype(f32)

    def model(self, line: np.ndarray, answers: Observations) -> MultinomialModel:
        units, factor_bias = np.split(line, [self.start.size])  # which are views
        model = MultinomialModel(units.reshape(self.start.shape), factor_bias, answers.n_levels, _NO_ROWS)
        return model._replace(factors=model.expected_factors(answers))

    def state(self) -> states.State:
        return {**states.flatten("moving", self.moving), **states.flatten_history(self.history)}

    def restore(self, state: states.State) -> None:
        unwatched = ("validation",) if self.validation is None else ()
        history = states.unflatten_history(state, Record, unwatched=unwatched)
        self.moving = states.unflatten("moving", state, self.moving)
        self.stopping.replay(line.validation for line in history)
        self.history, self.started = history, states.virtual_start_time(history)


def _centred_log(shares: np.ndarray) -> np.ndarray:
    logs = np.log(shares)
    return (logs - logs.mean(axis=-1, keepdims=True)).astype(f32)
