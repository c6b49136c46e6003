"""Kinds of questions: ordered scales, unordered categories, numbers; and the columns they become.

Kernels know columns, each with weights of its own. A scale and a number are one column, a nominal
question is a column for each of its categories.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations, level_type
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, numbers_of
from ordinalrbm.engine import side as engine

# The mean of a logistic of a normal of variance v is the logistic of its mean over √(1 + v c).
LOGISTIC_OF_NORMAL = 0.368


class Layout(NamedTuple):
    """Which columns questions become.

    Attributes
    ----------
    kind : (N,) of each question
    first : (N + 1,) the first column of each question, and the number of columns
    members : (columns,) as in :class:`ordinalrbm.engine.side.Side`
    n_levels : (columns,) levels of each column, two for a number: its scale stands where the
        threshold of an answer yes or no would be
    """

    kind: np.ndarray
    first: np.ndarray
    members: np.ndarray
    n_levels: np.ndarray

    @property
    def is_category(self) -> np.ndarray:
        return (self.members > 0) | (self.members == engine.CATEGORY)

    @property
    def is_number(self) -> np.ndarray:
        return self.members == engine.NUMBER

    @property
    def question(self) -> np.ndarray:
        """(columns,) the question of each column."""
        return np.repeat(np.arange(self.kind.size), np.diff(self.first))

    def columns(self, question: int) -> slice:
        return slice(int(self.first[question]), int(self.first[question + 1]))


def layout(kind: np.ndarray, n_levels: np.ndarray) -> Layout:
    """Return the columns of questions of these kinds, with so many levels or categories.

    Examples
    --------
    >>> found = layout(np.array([0, NOMINAL, NUMERIC]), np.array([5, 3, 1]))
    >>> found.first.tolist(), found.members.tolist(), found.n_levels.tolist()
    ([0, 1, 4, 5], [0, 3, -1, -1, -2], [5, 1, 1, 1, 2])
    """
    width = np.where(kind == NOMINAL, n_levels, 1)
    first = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
    members = np.full(first[-1], engine.CATEGORY, dtype=np.int32)
    members[first[:-1]] = np.choose(kind, [engine.ORDINAL, n_levels, engine.NUMBER])
    levels = np.ones(first[-1], dtype=np.int32)
    levels[first[:-1]] = np.choose(kind, [n_levels, 1, 2])
    return Layout(kind, first, members, levels)


class Columns(NamedTuple):
    """Answers by columns, and what is known of each beside its level; see ``Side.known``."""

    observations: Observations
    known: np.ndarray


def in_columns(answers: Observations, plan: Layout, unknown: int) -> Columns:
    """Return answers to questions as answers of columns: levels, numbers, and chosen or not.

    An answer that nobody knows has a level below zero, and then the level ``unknown``.
    """
    width = np.diff(plan.first)[answers.column]
    entry = np.repeat(np.arange(answers.n_entries), width)
    start = np.concatenate([[0], np.cumsum(width)])
    place = np.arange(entry.size) - start[entry]
    question = answers.column[entry]
    kind, level = plan.kind[question], answers.level[entry]
    known = np.full(entry.size, np.nan, dtype=np.float32)
    nominal, numeric = (kind == NOMINAL) & (level >= 0), kind == NUMERIC
    known[nominal] = place[nominal] == level[nominal]
    known[numeric] = numbers_of(answers)[entry[numeric]]
    # A question may have more categories than any scale has levels, but these are no levels here.
    kind_of_level = level_type(np.append(plan.n_levels, unknown + 1))
    observations = Observations(
        row_start=start[answers.row_start],
        column=(plan.first[question] + place).astype(np.int32),
        level=np.where(level < 0, unknown, np.where(nominal, 0, level)).astype(kind_of_level),
        n_levels=plan.n_levels,
    )
    return Columns(observations, known)


def with_unknown(columns: Columns, unknown: int) -> Columns:
    """Fill every gap with the level that stands for an unknown answer."""
    observations, known = columns
    small = unknown <= np.iinfo(np.int8).max
    n_rows, n_columns = observations.n_rows, observations.n_columns
    rows = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(observations.row_start))
    level = np.full((n_rows, n_columns), unknown, dtype=np.int8 if small else np.int16)
    level[rows, observations.column] = observations.level
    filled = Observations(
        row_start=np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        column=np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        level=level.reshape(-1),
        n_levels=observations.n_levels,
    )
    if not known.size:
        return Columns(filled, known)
    everything = np.full((n_rows, n_columns), np.nan, dtype=np.float32)
    everything[rows, observations.column] = known
    return Columns(filled, everything.reshape(-1))
