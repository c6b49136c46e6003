"""Judging predictions, whatever model they come from: splits, and scores of distributions.

Nothing here knows a model, so that every method is judged by the same code.
"""

from ordinalrbm.evaluate.metrics import point_scores, reliability, score
from ordinalrbm.evaluate.splits import split

__all__ = ["point_scores", "reliability", "score", "split"]
