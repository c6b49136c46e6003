"""The input of every kernel: answers in two views, and the parameters that meet there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.runtime.jit import inlined
from ordinalrbm.runtime.process_group import Array

_NO_NUMBERS = np.zeros(0, dtype=np.int32)
_NOTHING = np.zeros(0, dtype=np.float32)
_NO_TABLE = np.zeros((0, 0), dtype=np.float32)

# What ``Side.members`` says of a column that does not begin a group of categories.
ORDINAL, CATEGORY, NUMBER = 0, -1, -2


class Side(NamedTuple):
    """One side of the data, rows facing columns. Every kernel takes this and nothing else.

    The vector model is one Side with no offset. A matrix model is two Sides over the same answers,
    each with the roles swapped and offset by the other's posterior.

    Attributes
    ----------
    row_start, column, level
        Row view: answers ``row_start[d]:row_start[d+1]`` of row d, with their column and level.
    column_start, entry_row, entry
        Column view: answers ``column_start[i]:column_start[i+1]`` of column i, ordered by row;
        ``entry`` is the place of the same answer in the row view.
    offset
        Added to the mean utility of each answer; an array of length zero means none.
    row_weight
        How much each row counts in the statistics; an array of length zero means one each.
    stretch
        What the thresholds are multiplied by in each row: people differ in how readily they use
        the outer levels of a scale. An array of length zero means one each.
    row_gaps
        (rows, L): first what is added to the first threshold in each row, then what each gap
        between thresholds is multiplied by, ∞ beyond the row's last level. An array of length zero
        means nothing and one each. Not together with ``stretch``. Statistics of thresholds are
        then those of the gaps.
    weights, bias
        (N, K) and (N,): w and α of the columns.
    thresholds
        (N, L + 1): the bounds of the levels, from −∞ to +∞, padded with +∞.
    factor_bias
        (K,): γ of the rows' factors.
    units
        How many binary units with the same weights and bias make one factor. A factor is the
        number of them that are on: with one it is a bit, with many it is close to a Gaussian.
    members
        What kind of column each one is: ``ORDINAL``, an ordered scale; ``NUMBER``; or one of the
        categories of a nominal question, which are neighbours: the first of them has their number
        here, the others ``CATEGORY``. A row has all categories of a question or none. An array of
        length zero means that all are ordered scales.
    known
        What is known of each answer besides an interval: the number itself, on a scale on which
        its utility is ``thresholds[i, 1]`` times it; one for the chosen category and zero for the
        others; NaN on ordered scales and where nothing is known. Of length zero like ``members``.
    shift
        What the utility of each answer has on top of that of the model, in that row: thresholds
        are lower by it. An array of length zero means nothing.
    row_bias
        (rows, K): what is added to the bias of each row's factors. An array of length zero means
        nothing.
    covariates
        (rows, P): numbers that are known of each row and multiply its statistics, so that slopes
        by them can be learnt. An array of length zero means none.

    The standard deviation σ of a utility is one: scaling utility, thresholds and σ by a number and
    α and w by its inverse gives the same model, so that thresholds carry the scale.
    """

    row_start: Array
    column: Array
    level: Array
    column_start: Array
    entry_row: Array
    entry: Array
    offset: Array
    row_weight: Array
    stretch: Array
    row_gaps: Array
    weights: Array
    bias: Array
    thresholds: Array
    factor_bias: Array
    units: int = 1
    members: Array = _NO_NUMBERS
    known: Array = _NOTHING
    shift: Array = _NOTHING
    row_bias: Array = _NO_TABLE
    covariates: Array = _NO_TABLE

    @property
    def n_rows(self) -> int:
        return len(self.row_start) - 1

    def rows(self, start: int, stop: int) -> Side:
        """Neighbouring rows, to be read only: answers are looked up where they were."""
        return self._replace(
            row_start=self.row_start[start : stop + 1],
            **{name: getattr(self, name)[start:stop] for name in _OF_ROWS},
        )


# Arrays of a Side that have a number per row, or nothing.
_OF_ROWS = ("row_weight", "stretch", "row_bias", "covariates")


class Batch(NamedTuple):
    """A run of neighbouring rows, and the counters that name its random draws."""

    start: int
    stop: int
    seed: int
    sweep: int
    gibbs_steps: int


class Statistics(NamedTuple):
    """Expected sufficient statistics of one phase, summed over the (weighted) rows of a batch."""

    weights: Array
    bias: Array
    thresholds: Array
    factor_bias: Array
    answers: Array  # (N,) weighted number of answers per column
    # (N, P) and (K, P): those of the utilities (beyond their means, if clamped and not of a
    # category) and of the factors, times the rows' covariates.
    slopes: Array = _NO_TABLE
    factor_slopes: Array = _NO_TABLE


def empty_statistics(side: Side) -> Statistics:
    parts = (side.weights, side.bias, side.thresholds, side.factor_bias, side.bias)
    found = [np.zeros_like(part) for part in parts]
    for part in (side.bias, side.factor_bias):
        found.append(np.zeros((part.size, side.covariates.shape[1]), dtype=side.bias.dtype))
    return Statistics(*found)


def row_view(answers: Observations) -> tuple[np.ndarray, ...]:
    return answers.row_start, answers.column, answers.level, answers.offset, answers.weight


@inlined
def answers_of(view, row):
    row_start, column, level, offset, weight = view
    entries = slice(row_start[row], row_start[row + 1])
    return column[entries], level[entries], offset[entries], weight[entries]
