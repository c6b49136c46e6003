"""Judging predictions, whatever model they come from: what is hidden, and how it is scored.

Nothing here knows a model, so that every method is judged by the same code.
"""

from ordinalrbm.evaluate.hidden import hide_answers
from ordinalrbm.evaluate.metrics import point_scores, reliability, score
from ordinalrbm.evaluate.splits import split

__all__ = ["hide_answers", "point_scores", "reliability", "score", "split"]
