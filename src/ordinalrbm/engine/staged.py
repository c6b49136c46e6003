"""The half-sweep of continuous factors in stages, where a row's answers are not all in one place.

:mod:`ordinalrbm.engine.regress` renews a row from its first answer to its last step. On a GPU long
rows are shared by many programs, and on many machines a column's answers are spread over all of
them: there every sum over answers is a stage of its own, and what lies between is arithmetic on
arrays with a line per row. Stages are functions of an engine or methods of an object:

- ``gather(answers, this, other)``: sums of pull times feature, of the features' variances, and of
  squared features, each (rows, 1 + R);
- ``apply(answers, other, direction)``: the answers' part of the system times a direction;
- ``width_sums(answers, this, other, rows)``: for some rows, the (M, M) systems of the log widths,
  with the slopes in place of the first column;
- ``move_widths(this, prior, system, rows)``: Newton's step for them; variances of the steps;
- ``library``: numpy or torch, of which ``where``, ``isinf`` and the like are used, and
  ``array(values, like)`` to hand over a small array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.engine.party import Party, Prior

# Steps of conjugate gradients. The next sweep goes on where this one ends, so that few will do.
STEPS = 2
# A residual that is smaller than this share of the first is rounding.
SOLVED = 1e-10
# Coordinates that are taken as independent seem to be known better than they are: answers tell less
# about each, by about this factor (found on the validation ratings of MovieLens 1M and 100K).
UNDERSTATED = 1.15
# The logarithm of a width moves by no more than this in one step.
LARGEST_MOVE = 0.7
# Bytes of the systems of widths that are in memory together.
_BLOCK_BYTES = 2**28


def renew(
    stages: Any, answers: Any, this: Party, other: Party, prior: Prior, spread: bool = True
) -> Any:
    """Renew the rows in place, given the columns; returns the variances of their steps.

    The same as :func:`ordinalrbm.engine.regress.renew`, to float rounding.
    """
    where = stages.library.where
    precision = stages.array(prior.precision, this.mean)
    stays = stages.library.isinf(precision)
    own = where(stays, 0.0, precision)
    slope, ridge, diagonal = stages.gather(answers, this, other)
    ridge += own
    diagonal = where(stays, 1.0, diagonal + ridge)  # of what stays, anything but zero
    slope = where(stays, 0.0, slope - ridge * this.mean)
    this.mean[:] += _solved(stages, answers, other, (slope, ridge, diagonal), stays)
    if spread:
        told = (diagonal - own) / UNDERSTATED
        this.variance[:] = where(stays, 0.0, 1.0 / (own + told))
    if prior.steps_precision.size < 2 or np.isinf(prior.steps_precision[1]):
        return 0.0 * this.steps
    found = []
    for rows in _row_blocks(*this.steps.shape):
        system = stages.width_sums(answers, this, other, rows)
        found.append(stages.move_widths(this, prior, system, rows))
    return stages.library.concatenate(found) if found else 0.0 * this.steps


def _row_blocks(n_rows: int, n_steps: int) -> list[slice]:
    """Rows whose systems of widths fit into little memory together."""
    size = max(1, _BLOCK_BYTES // (8 * n_steps**2))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _solved(
    stages: Any, answers: Any, other: Party, system: tuple[Any, Any, Any], stays: Any
) -> Any:
    """Conjugate gradients with the diagonal as preconditioner, for all rows at once."""
    where = stages.library.where
    slope, ridge, diagonal = system
    direction = slope / diagonal
    size = (slope * direction).sum(1)
    least = SOLVED * size
    move = 0.0 * direction
    for _ in range(STEPS):
        image = stages.apply(answers, other, direction)
        image += ridge * direction
        # What is solved stays; its direction may be zero, and a share of nothing is not a number.
        goes_on = size > least
        along = where(goes_on, size / where(goes_on, (direction * image).sum(1), 1.0), 0.0)
        move += along[:, None] * direction
        slope = where(stays, 0.0, slope - along[:, None] * image)
        scaled = slope / diagonal
        before, size = size, (slope * scaled).sum(1)
        direction = (
            scaled + where(goes_on, size / where(goes_on, before, 1.0), 0.0)[:, None] * direction
        )
    return move
