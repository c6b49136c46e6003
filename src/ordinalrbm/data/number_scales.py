"""Numbers on the scale that a model has of them, and back.

That is the number of standard deviations from the mean. Of a clearly skewed number, such as an age
or an income, it is the normal score instead: where its rank would be in a normal distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import skew

from ordinalrbm.data.features import standardised
from ordinalrbm.data.scales import Name, place
from ordinalrbm.errors import DataError

# Beyond this a number is not normal around anything.
_SKEWED = 1.0
_MOST_KNOTS = 100
_LARGEST, _SMALLEST = 1e300, 1e-300
# Nodes and weights for means over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_SHARES = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class NumberScale:
    """Mean and deviation of a number; of a skewed one also some values and their normal scores.

    Examples
    --------
    >>> scale = learn_number_scale(np.array([10.0, 20.0, 30.0]), "hours")
    >>> scale.standardise(np.array([20.0, 30.0]), "hours").round(2).tolist()
    [0.0, 1.22]
    >>> scale.restore(np.array([0.0])).tolist()
    [20.0]
    """

    mean: float
    deviation: float
    values: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    def standardise(self, values: np.ndarray, name: Name) -> np.ndarray:
        """Numbers on the scale of the model; NaN stays."""
        found = standardised(values, self.mean, self.deviation, name)
        if not self.values:
            return found
        # Beyond what was seen, in standard deviations from there.
        low, high = self.values[0], self.values[-1]
        beyond = np.maximum(values - high, 0.0) + np.minimum(values - low, 0.0)
        return np.interp(values, self.values, self.scores) + beyond / self.deviation

    def restore(self, standardised: np.ndarray) -> np.ndarray:
        """Numbers as they are; a skewed one stays within those that were seen."""
        if not self.values:
            return self.mean + self.deviation * standardised
        return np.interp(standardised, self.scores, self.values)

    def restore_given(self, standardised: np.ndarray) -> np.ndarray:
        """The same of numbers that were given, which may be beyond those that were seen."""
        if not self.values:
            return self.restore(standardised)
        low, high = self.scores[0], self.scores[-1]
        beyond = np.maximum(standardised - high, 0.0) + np.minimum(standardised - low, 0.0)
        return self.restore(standardised) + self.deviation * beyond

    def moments(self, mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of numbers that are normal on the scale of the model."""
        if not self.values:
            return self.restore(mean), self.deviation * deviation
        points = self.restore(mean[:, None] + deviation[:, None] * _NODES)
        first = points @ _SHARES
        return first, np.sqrt(np.maximum((points - first[:, None]) ** 2 @ _SHARES, 0.0))

    def to_json(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "deviation": self.deviation,
            "values": list(self.values),
            "scores": list(self.scores),
        }

    @classmethod
    def from_json(cls, content: Any) -> NumberScale:
        """The scale that `to_json` wrote; a file may hold anything instead."""
        wrong = DataError(f"its header has {content!r:.80} as the scale of a number")
        names = ("mean", "deviation", "values", "scores")
        if not isinstance(content, dict) or set(content) != set(names):
            raise wrong
        mean, deviation, values, scores = (content[name] for name in names)
        if not isinstance(values, list) or not isinstance(scores, list):
            raise wrong
        every = [mean, deviation, *values, *scores]
        if not all(type(one) in (int, float) and abs(one) <= _LARGEST for one in every):
            raise wrong
        ascending = all(np.all(np.diff(part) > 0) for part in (values, scores) if len(part))
        if deviation < _SMALLEST or len(values) != len(scores) or not ascending:
            raise wrong
        if len(values) == 1 or len(values) > _MOST_KNOTS:
            raise wrong
        return cls(float(mean), float(deviation), *(tuple(map(float, p)) for p in (values, scores)))


def learn_number_scale(values: np.ndarray, name: Name) -> NumberScale:
    """Learn the scale of a column of numbers, NaN where unanswered."""
    known = np.sort(values[~np.isnan(values)])
    if not known.size:
        raise DataError(f"{place(name)} has no answer at all; drop it.")
    if known[0] == known[-1]:
        raise DataError(
            f"{place(name)} has only the value {known[0]:g}, from which nothing can be learnt as a "
            "number; leave it out."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not (_SMALLEST < deviation < _LARGEST and abs(mean) < _LARGEST):
        raise DataError(
            f"{place(name)} has numbers too large or too close to be told apart; give it in other "
            "units."
        )
    found = NumberScale(mean, deviation)
    if not abs(float(skew((known - mean) / deviation))) > _SKEWED:
        return found
    distinct, scores = _normal_scores(known)
    return NumberScale(mean, deviation, tuple(distinct.tolist()), tuple(scores.tolist()))


def _normal_scores(ascending: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some values and their normal scores, which have mean zero and variance one over all."""
    distinct, count = np.unique(ascending, return_counts=True)
    score = ndtri((np.cumsum(count) - 0.5 * count) / ascending.size)
    mean = np.average(score, weights=count)
    score = (score - mean) / np.sqrt(np.average((score - mean) ** 2, weights=count))
    if distinct.size > _MOST_KNOTS:  # those at evenly spaced scores, and both ends
        wanted = np.linspace(score[0], score[-1], _MOST_KNOTS)
        chosen = np.unique(np.searchsorted(score, wanted))
        distinct, score = distinct[chosen], score[chosen]
    return distinct, score
