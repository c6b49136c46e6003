"""Judging predictions, whatever model they come from: what is hidden, and how it is scored.

Nothing here knows a model, so that every method is judged by the same code.
"""

from ordinalrbm.evaluate.baselines import DampedBiases, popular
from ordinalrbm.evaluate.hidden import hide_answers
from ordinalrbm.evaluate.metrics import point_scores, reliability, score
from ordinalrbm.evaluate.model_scores import FactorNumbers, ModelScores, compare_factor_numbers, score_model
from ordinalrbm.evaluate.ranking import RankingScores, ranking
from ordinalrbm.evaluate.splits import split

__all__ = [
    "DampedBiases",
    "FactorNumbers",
    "ModelScores",
    "RankingScores",
    "compare_factor_numbers",
    "hide_answers",
    "point_scores",
    "popular",
    "ranking",
    "reliability",
    "score",
    "score_model",
    "split",
]
