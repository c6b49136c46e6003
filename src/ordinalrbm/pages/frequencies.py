"""How often each level of each question was chosen, and how often and why none was."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.data.tables import Encoded
from ordinalrbm.estimators.poles import answer_at
from ordinalrbm.files.survey import REASONS
from ordinalrbm.pages.page import Label
from ordinalrbm.plots.style import diverging, ink_on, kinds
from ordinalrbm.schema.known_scales import polarity
from ordinalrbm.stats.welch import counting

_QUARTERS = np.arange(5) / 4


class Level(NamedTuple):
    """A level of a question as part of a bar, and how many people chose it."""

    name: str
    colour: str
    ink: str  # that can be read on the colour
    share: float  # of those who have answered, by their weights
    people: int = 0


def direction(names: Sequence[str]) -> int:
    """1 or -1 where the words of a scale run towards yes, or towards no; 0 where nobody knows."""
    return polarity(names) if answer_at(names, 1.0) else 0


def level_colours(names: Sequence[str]) -> list[str]:
    """Colours of a scale, blue at the end that says yes."""
    colours = diverging(len(names))
    return colours[::-1] if direction(names) < 0 else colours


def levels_of(
    names: Sequence[str], shares: np.ndarray, people: np.ndarray | None = None, *, ordered: bool
) -> list[Level]:
    """Levels with their colours, from one end to the other where they have an order."""
    names = [str(name) for name in names]
    colours = level_colours(names) if ordered else kinds(len(names))
    counts = np.zeros(len(names)) if people is None else people
    return [
        Level(name, colour, ink_on(colour), float(share), int(n))
        for name, colour, share, n in zip(names, colours, shares, counts, strict=True)
    ]


class Frequencies(NamedTuple):
    """What was answered to a question."""

    label: Label
    levels: list[Level]
    n_answered: int
    none: list[tuple[str, int, float]]  # why there is no answer, how often, and of how many of all


def frequencies(
    answers: Encoded,
    labels: list[Label],
    weight: np.ndarray | None = None,
    no_answers: np.ndarray | None = None,
    *,
    ordered: bool = True,
) -> list[Frequencies]:
    """Counts of people and weighted shares, question by question.

    ``no_answers`` says why answers lack, as places in ``REASONS``; without it nobody knows. Where
    nothing is ``ordered``, levels are categories: the most frequent comes first.
    """
    dense = answers.observations.to_dense()
    weights = counting(weight, len(dense))
    found = []
    for j, (label, scale) in enumerate(zip(labels, answers.scales, strict=True)):
        level = dense[:, j]
        given = level >= 0
        count = np.bincount(level[given], minlength=scale.n_levels)
        total = np.bincount(level[given], weights[given], minlength=scale.n_levels)
        share = total / total.sum() if total.sum() > 0 else total
        levels = levels_of(scale.names, share, count, ordered=ordered)
        if not ordered:
            levels.sort(key=lambda level: -level.share)
        why = None if no_answers is None else no_answers[~given, j]
        found.append(Frequencies(label, levels, int(given.sum()), _reasons(why, given)))
    return found


def _reasons(why: np.ndarray | None, given: np.ndarray) -> list[tuple[str, int, float]]:
    """Why there is no answer, the most frequent reason first."""
    lacking = int((~given).sum())
    if why is None:
        why = np.full(lacking, REASONS.index("empty"))
    counts = np.bincount(np.where(why < 0, REASONS.index("empty"), why), minlength=len(REASONS))
    return [
        (REASONS[k], int(counts[k]), float(counts[k] / len(given)))
        for k in np.argsort(-counts, kind="stable")
        if counts[k]
    ]


class NumberSummary(NamedTuple):
    """What was answered to a question for a number; people count by their weights."""

    label: Label
    n_answered: int
    mean: float
    deviation: float
    quantiles: tuple[float, ...]  # least, quarter, median, three quarters, greatest


def summary_of(values: pd.Series, label: Label, weight: np.ndarray | None = None) -> NumberSummary:
    """Mean, standard deviation and quantiles of numbers, NaN where unanswered."""
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    given = ~np.isnan(numbers)
    own, people = numbers[given], counting(weight, len(numbers))[given]
    if not people.sum() > 0:
        return NumberSummary(label, int(given.sum()), np.nan, np.nan, (np.nan,) * 5)
    order = np.argsort(own, kind="stable")
    below = np.cumsum(people[order]) / max(people.sum(), 1e-300)
    # The smallest number that so large a share of the people does not exceed.
    places = np.minimum(np.searchsorted(below, _QUARTERS - 1e-9), own.size - 1)
    mean = float(np.average(own, weights=people))
    variance = np.average((own - mean) ** 2, weights=people) * own.size / max(own.size - 1, 1)
    quantiles = tuple(own[order][places].tolist())
    return NumberSummary(label, int(given.sum()), mean, float(np.sqrt(variance)), quantiles)
