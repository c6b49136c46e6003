"""Answers of people of whom levels do not tell everything: numbers, and what else is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ordinalrbm.data.observations import Observations

# Kinds of columns: ordered scales, unordered categories, numbers.
ORDINAL, NOMINAL, NUMERIC = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Answers(Observations):
    """Observations in which columns are of several kinds, of rows with a background.

    An answer that is a number has the level 0, which says that it is there; the number itself, in
    standard deviations from the mean, is in ``numbers``. Levels of nominal columns are categories,
    whose order means nothing. ``covariates`` are never answers.

    Examples
    --------
    >>> levels = Observations.from_dense([[0, 0], [1, -1]], [2, 1])
    >>> answers = Answers.of(levels, [ORDINAL, NUMERIC], numbers=[[0.5], [np.nan]])
    >>> answers.take_rows([1, 0]).numbers.tolist()
    [[nan], [0.5]]
    """

    kind: np.ndarray = field(kw_only=True)  # (columns,) int8, empty where all are ordinal
    numbers: np.ndarray = field(kw_only=True)  # (rows, columns of numbers) float64, NaN if missing
    covariates: np.ndarray = field(kw_only=True)  # (rows, P) float32

    @classmethod
    def of(cls, levels: Observations, kind: Any = (), numbers: Any = None, covariates: Any = None) -> Answers:
        """Return levels together with the numbers and covariates of their rows."""
        empty = np.zeros((levels.n_rows, 0))
        return cls(
            levels.row_start,
            levels.column,
            levels.level,
            levels.n_levels,
            kind=np.asarray(kind, dtype=np.int8),
            numbers=np.asarray(empty if numbers is None else numbers, dtype=np.float64),
            covariates=np.asarray(empty if covariates is None else covariates, dtype=np.float32),
        )

    def take_rows(self, index: Any) -> Answers:
        """The rows at these positions (or under a mask), in this order; also more than once."""
        levels = super().take_rows(index)
        return Answers.of(levels, self.kind, self.numbers[index], self.covariates[index])

    def select(self, entry_mask: Any) -> Answers:
        """Only the answers where the mask over the row view is true; all rows stay."""
        return Answers.of(super().select(entry_mask), self.kind, self.numbers, self.covariates)


def covariates_of(observations: Observations) -> np.ndarray:
    """Return (rows, P) what is known of each row; P is zero where nothing is."""
    if isinstance(observations, Answers):
        return observations.covariates
    return np.zeros((observations.n_rows, 0), dtype=np.float32)


def kinds_of(observations: Observations) -> np.ndarray:
    """Return (columns,) kinds, or an array of length zero where all columns are ordinal."""
    return observations.kind if isinstance(observations, Answers) else np.zeros(0, dtype=np.int8)


def numbers_of(answers: Observations) -> np.ndarray:
    """Return the number of each answer that is one, NaN for all others."""
    kind = kinds_of(answers)
    result = np.full(answers.n_entries, np.nan)
    if isinstance(answers, Answers) and kind.size:
        of_number = np.cumsum(kind == NUMERIC) - 1
        is_number = kind[answers.column] == NUMERIC
        row = np.repeat(np.arange(answers.n_rows), np.diff(answers.row_start))[is_number]
        result[is_number] = answers.numbers[row, of_number[answers.column[is_number]]]
    return result
