"""The scores of the "predicting hidden answers" benchmark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FLOOR = 1e-6
"""Smallest probability that is scored: one impossible answer must not make the mean infinite."""


def mae(point: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean absolute error, in levels: the codes of every survey are one apart."""
    return float(np.mean(np.abs(point - truth)))


def accuracy(point: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of hidden answers that were predicted exactly."""
    return float(np.mean(point == truth))


def nll(
    probabilities: np.ndarray, truth: np.ndarray, columns: np.ndarray, levels: Sequence[np.ndarray]
) -> float:
    """Return the mean negative log probability (nats) of the hidden answers.

    ``probabilities[i, k]`` belongs to level ``levels[columns[i]][k]``. An answer that the column
    never took in training has no probability and scores as the floor.
    """
    given = np.zeros(truth.size)
    for column in np.unique(columns):
        cells = np.flatnonzero(columns == column)
        column_levels = levels[column]
        place = np.searchsorted(column_levels, truth[cells]).clip(max=column_levels.size - 1)
        known = column_levels[place] == truth[cells]
        given[cells[known]] = probabilities[cells[known], place[known]]
    return float(-np.mean(np.log(np.maximum(given, FLOOR))))


def mode(probabilities: np.ndarray, columns: np.ndarray, levels: Sequence[np.ndarray]) -> np.ndarray:
    """Return the most probable level of each cell: the best guess where only accuracy counts."""
    best = np.argmax(probabilities, axis=1)
    return np.array([levels[column][k] for column, k in zip(columns, best, strict=True)])
