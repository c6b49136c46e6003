"""The half-sweep of Gaussian factors in stages, where a row's answers are not all in one place.

:mod:`ordinalrbm.engine.half_sweep` updates a row from its first answer to its last cutpoint. On a
GPU long rows are shared by many programs, and where several processes learn together a column's
answers are spread over all of them: there every sum over answers is a stage of its own, and what
lies between is arithmetic on arrays with a line per row. Stages are functions of an engine; the
first three are sums over answers, without what the prior says:

- ``gather(answers, this, other)``: slope and diagonal of the system, (rows, 2, 1 + R), and the
  features' variances, which are its ridge, (rows, 1 + R);
- ``apply(answers, other, ridge, direction)``: the system times a direction;
- ``gap_sums(answers, this, other, rows)``: for some rows, the (M, M) systems of the log gaps
  that move, with the slopes in place of the first column;
- ``move_gaps(this, prior, system, rows)``: Newton's step for them; variances of the cutpoints;
- ``library``: numpy or torch, of which ``where``, ``isinf`` and the like are used, and
  ``array(values, like)`` to hand over a small array.

Where several processes have answers of the same rows, each looks after a share of these: what lies
between the stages is done once for every row, and it does not matter if some round differently.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.engine import thresholds
from ordinalrbm.engine.gaussian_state import FactorPosterior, Prior
from ordinalrbm.runtime.process_group import ALONE

# Steps of conjugate gradients. The next sweep goes on where this one ends, so that few will do.
STEPS = 2
# A residual that is smaller than this share of the first is rounding.
SOLVED = 1e-10
# Coordinates that are taken as independent seem to be known better than they are: answers tell less
# about each, by about this factor (found on the validation ratings of MovieLens 1M and 100K).
UNDERSTATED = 1.15
# The logarithm of a gap moves by no more than this in one step.
LARGEST_MOVE = 0.7
# Of the systems that log gaps are solved for with: priors put pivots far higher. That of a gap of
# nearly nothing, whose curvature is the difference of two huge numbers, may come out below.
LEAST_PIVOT = 1e-3
# Bytes of the systems of gaps that are in memory together.
_BLOCK_BYTES = 2**28


def half_sweep(
    stages: Any, answers: Any, this: FactorPosterior, other: FactorPosterior, prior: Prior,
    spread: bool = True, among: Any = ALONE,
) -> Any:  # fmt: skip
    """Update the rows in place, given the columns; returns the variances of their cutpoints.

    Equals :func:`ordinalrbm.engine.half_sweep.half_sweep` to float rounding; ``among`` are the
    processes that have answers of these rows.
    """
    where, mine = stages.library.where, among.share(len(this.mean))
    precision = stages.array(prior.precision, this.mean)
    stays = stages.library.isinf(precision)
    own = where(stays, 0.0, precision)
    sums, ridge = stages.gather(answers, this, other)
    found = among.reduce_scatter(sums)
    away = this.mean[mine] - prior.mean[mine] if prior.mean.shape[1] else this.mean[mine]
    slope = where(stays, 0.0, found[:, 0] - own * away)
    diagonal = where(stays, 1.0, found[:, 1] + own)  # of what stays, anything but zero
    this.mean[mine] += _solved(stages, answers, other, ridge, slope, diagonal, own, stays, among)
    if spread:
        informed = (diagonal - own) / UNDERSTATED
        this.variance[mine] = where(stays, 0.0, 1.0 / (own + informed))
    among.complete(this.mean, this.variance)
    variance = 0.0 * this.cutpoints
    if prior.cutpoints_precision.size < 2 or np.isinf(prior.cutpoints_precision[1]):
        return variance
    n_rows, n_cutpoints = this.cutpoints.shape
    for rows in _row_blocks(n_rows, thresholds.moving_gaps(n_cutpoints).size):
        systems = among.reduce_scatter(stages.gap_sums(answers, this, other, rows))
        share = among.share(rows.stop - rows.start)
        mine = slice(rows.start + share.start, rows.start + share.stop)
        variance[mine] = stages.move_gaps(this, prior, systems, mine)
        among.complete(this.cutpoints[rows], this.gaps[rows], variance[rows])
    return variance


def _row_blocks(n_rows: int, n_gaps: int) -> list[slice]:
    """Rows whose systems of gaps fit into little memory together."""
    size = max(1, _BLOCK_BYTES // (8 * n_gaps**2))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _solved(
    stages: Any, answers: Any, other: Any, ridge: Any, slope: Any, diagonal: Any, own: Any,
    stays: Any, among: Any,
) -> Any:  # fmt: skip
    """Conjugate gradients with the diagonal as preconditioner, for all of this process' rows.

    Ridge is of all rows; slope and diagonal of those that it looks after, ``own`` what the prior
    adds to them.
    """
    where, whole = stages.library.where, stages.library.empty_like(ridge)
    direction = whole[among.share(len(whole))]
    direction[:] = slope / diagonal
    size = (slope * direction).sum(1)
    least = SOLVED * size
    move = 0.0 * direction
    for step in range(STEPS):
        among.complete(whole)
        image = among.reduce_scatter(stages.apply(answers, other, ridge, whole))
        image += own * direction
        # What is solved stays; its direction may be zero, and a share of nothing is not a number.
        goes_on = size > least
        along = where(goes_on, size / where(goes_on, (direction * image).sum(1), 1.0), 0.0)
        move += along[:, None] * direction
        if step == STEPS - 1:
            break
        slope = where(stays, 0.0, slope - along[:, None] * image)
        scaled = slope / diagonal
        before, size = size, (slope * scaled).sum(1)
        direction *= where(goes_on, size / where(goes_on, before, 1.0), 0.0)[:, None]
        direction += scaled
    return move
