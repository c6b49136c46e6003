"""What the model of demand is made of, chosen by choices that are held out.

With times, the last choice of each row is held out, since what comes next is to be predicted;
without, some at random. One part after the other is learnt from the rest with a few ridges, the
best of which stays if it helps (:mod:`ordinalrbm.matrix.blend`); in the end all choices are learnt
from with what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix import implicit_als
from ordinalrbm.matrix.blend import Blend, HeldOutChoices, least_of, logarithms
from ordinalrbm.matrix.item_weights import ItemWeights, Past, frequent, gram_of, neighbours
from ordinalrbm.matrix.prepare import hold_out
from ordinalrbm.matrix.sequence import NormalEquations
from ordinalrbm.matrix.variational import on_cpu

# With fewer choices held out, nothing is chosen by them.
_FEWEST = 50
# Answers of as many rows, at random, as are looked at: to choose by, and to learn weights from.
_TO_CHOOSE, _TO_LEARN = 1_000_000, 4_000_000
# Ridges that are tried: of factors in multiples of the usual one, of weights in means of the diagonal.
_OF_FACTORS, _OF_NEIGHBOURS, _OF_SEQUENCE = (1.0, 2.0, 4.0), (1.0, 4.0, 16.0), (0.6, 2.4)
_MORE_SWEEPS = 4
# What a part must take off the loss of a held-out choice to stay.
_LEAST_GAIN = 1e-3


class Settings(NamedTuple):
    """What was chosen; a ridge of None leaves a part out."""

    ridge: float = 1.0  # of factors, in multiples of the usual one
    neighbours: float | None = None
    sequence: float | None = None
    exponents: tuple[float, ...] = ()  # nothing is blended where there are none
    least: tuple[float, ...] = ()

    def blend(self, past: Past, seed: int) -> Blend | None:
        """Parts that are learnt from all choices."""
        if not self.exponents:
            return None
        past = _some_rows(past, _TO_LEARN, np.random.default_rng(seed))
        columns = frequent(past.answers)
        near: ItemWeights | None = None
        following: ItemWeights | None = None
        with threadpool_limits(limits=1, user_api="blas"):  # the same on any number of threads
            if self.neighbours is not None:
                near = neighbours(gram_of(past.answers, columns), columns, self.neighbours)
            if self.sequence is not None and past.age is not None:
                following = NormalEquations(past, columns).solved(self.sequence)
        return Blend(near, following, np.array(self.exponents), np.array(self.least))


class _Chooser:
    """Parts so far, as logarithms of scores, and how likely they make what was held out."""

    def __init__(self, held: HeldOutChoices) -> None:
        self.held = held
        self.parts: list[np.ndarray] = []
        self.least: list[float] = []
        self.exponents, self.loss = np.zeros(0), np.inf

    def choose(self, ridges: tuple[float, ...], scores: Callable[[float], np.ndarray]) -> float | None:
        """The ridge whose scores, which become a part, rank best; None if none makes choices likelier.

        A later one takes the place of an earlier one if it is better by more than two standard errors.
        """
        best, highest = None, np.full(self.held.row.size, -1.0)
        start = np.append(self.exponents, float(not self.parts))
        for ridge in ridges:
            part = scores(ridge)
            least = least_of(part)
            parts = [*self.parts, logarithms(part, least)]
            start, loss = self.held.exponents(parts, start=start)
            if loss >= self.loss - _LEAST_GAIN:
                continue
            exponents = self.held.among_best(parts, start)
            gains = self.held.gains(parts, exponents)
            better = gains - highest
            if better.mean() > 2.0 * better.std() / np.sqrt(better.size):
                best, highest = (ridge, loss, parts, least, exponents), gains
            elif better.mean() < 0.0:  # and with a larger one still worse
                break
        if best is None:
            return None
        ridge, self.loss, self.parts, least, self.exponents = best
        self.least.append(least)
        return ridge


def chosen(past: Past, n_factors: int, fraction: float, seed: int) -> Settings:
    """Settings for so many factors, by this fraction of the choices."""
    rng = np.random.default_rng(seed)
    past = _some_columns(_some_rows(past, _TO_CHOOSE, rng))
    train, held = _held_out(past, fraction, rng)
    if held.row.size < _FEWEST or not n_factors:
        return Settings()
    answers, choices = train.answers, HeldOutChoices.of(train.answers, held, rng)
    chooser, columns = _Chooser(choices), frequent(answers)
    with threadpool_limits(limits=1, user_api="blas"):
        ridge = chooser.choose(_OF_FACTORS, _factor_scores(answers, n_factors, seed, choices.rows))
        gram = gram_of(answers, columns)

        def by_neighbours(ridge: float) -> np.ndarray:
            return neighbours(gram, columns, ridge).scores(train, choices.rows)

        near, following = chooser.choose(_OF_NEIGHBOURS, by_neighbours), None
        if train.age is not None:
            equations = NormalEquations(train, columns)

            def by_sequence(ridge: float) -> np.ndarray:
                return equations.solved(ridge).scores(train, choices.rows)

            following = chooser.choose(_OF_SEQUENCE, by_sequence)
    is_part = [True, near is not None, following is not None]
    exponents, least = np.zeros(3), np.ones(3)
    exponents[is_part], least[is_part] = chooser.exponents, chooser.least
    return Settings(ridge or 1.0, near, following, tuple(exponents.tolist()), tuple(least.tolist()))


def _factor_scores(
    answers: Observations, n_factors: int, seed: int, rows: np.ndarray
) -> Callable[[float], np.ndarray]:
    """Scores of rows with a ridge; each begins where the one before has ended."""
    data, usual = on_cpu(answers), implicit_als.ridge_of(answers)
    found, n_sweeps = implicit_als.start(answers, n_factors, seed), implicit_als.SWEEPS

    def scores(ridge: float) -> np.ndarray:
        nonlocal found, n_sweeps
        found = implicit_als.learn(data, found, ridge * usual, n_sweeps)
        n_sweeps = _MORE_SWEEPS
        return found.rows[rows] @ found.columns.T

    return scores


def _some_rows(past: Past, most: int, rng: np.random.Generator) -> Past:
    """Of as many rows, at random, that they have about so many answers."""
    answers = past.answers
    if answers.n_entries <= most:
        return past
    is_one = rng.random(answers.n_rows) < most / answers.n_entries
    age = None if past.age is None else past.age[np.repeat(is_one, answers.row_counts)]
    return Past(answers.take_rows(is_one), age)


def _some_columns(past: Past) -> Past:
    """Of the columns that may have weights: scores of a row are as many as there are columns."""
    columns, answers = frequent(past.answers), past.answers
    if columns.size == answers.n_columns:
        return past
    is_one = np.isin(answers.column, columns)
    some = answers.select(is_one).reorder(np.arange(answers.n_rows), columns)
    return Past(some, None if past.age is None else past.age[is_one])


def _held_out(past: Past, fraction: float, rng: np.random.Generator) -> tuple[Past, Cells]:
    """The choices without some, and those: the last one of each row, or some at random."""
    answers = past.answers
    if past.age is None:
        train, held = hold_out(answers, fraction, rng)
        return Past(train, None), held
    # Those of one time are as late as each other; who chose everything at one time has no last choice.
    n_left = answers.select(past.age > 0).row_counts
    is_last = (past.age == 0) & np.repeat(n_left > 0, answers.row_counts)
    row, column, level = answers.cells()
    held = Cells(row[is_last], column[is_last], level[is_last])
    return Past(answers.select(~is_last), past.age[~is_last]), held
