"""Rotated factors with names that say what they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.estimators.reading import FactorReading
from ordinalrbm.plots.style import ink_on, kinds, shades
from ordinalrbm.report.labels import Label, in_short

# A factor is worth telling when some question loads on it at least so much, as is usual.
WORTH_TELLING = 0.3
# A question is worth naming when it loads at least this much as strongly as the strongest.
_WORTH_NAMING = 0.5
_NAMED, _LISTED, _BARS = (
    2,
    5,
    6,
)  # questions of each end in the name, of each end in a list, in bars
_AROUND_THE_MEAN = 7  # points from 3 standard deviations below the mean to 3 above, one apart
_LOW, _HIGH = 2, 4  # one standard deviation below and above


class Strong(NamedTuple):
    """A question that tells of a factor."""

    name: str  # of the column
    label: Label
    loading: float


class NamedFactor(NamedTuple):
    """A rotated factor."""

    place: int  # among the model's rotated factors
    name: str  # "Factor 1"
    label: Label  # what people who are high on it answer more and less
    short: str
    explained: float  # share of the variance of all inclinations
    more: list[Strong]
    less: list[Strong]
    rests: np.ndarray  # (Q,) shares of the questions in its squared loadings, of all categories


def named_factors(reading: FactorReading, labels: Mapping[str, Label]) -> list[NamedFactor]:
    """Factors worth telling, named by the questions that load on them most, at both ends.

    At least one, where any question loads on any factor at all.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> from ordinalrbm.report.labels import labels_of
    >>> X = pd.DataFrame({"tea": [1, 2, 3] * 40, "milk": [1, 2, 3] * 40})
    >>> model = orbm.CumulativeRBM(1, n_epochs=2, random_state=0).fit(X)
    >>> (factor,) = named_factors(model.read_factors(), labels_of(X.columns, {}))
    >>> factor.name, sorted(strong.label.text for strong in factor.more), factor.less
    ('Factor 1', ['milk', 'tea'], [])
    """
    own = {name: label for name, label in labels.items() if reading.question(name) == name}
    texts = in_short(own)
    for name in labels.keys() - own.keys():  # a category without its question says nothing
        texts |= in_short({name: labels[name]})
    strongest = reading.loadings.abs().max().to_numpy()
    least = min(WORTH_TELLING, float(strongest.max()))
    return [
        _named(reading, int(place), labels, texts)
        for place in np.flatnonzero((strongest >= least) & (strongest > 0))
    ]


def _named(
    reading: FactorReading, place: int, labels: Mapping[str, Label], texts: Mapping[str, str]
) -> NamedFactor:
    factor = reading.factors[place]
    loadings = reading.loadings[factor].to_numpy()
    size = np.abs(loadings)
    order = np.argsort(-size, kind="stable")
    worth = [i for i in order if size[i] > 0 and size[i] >= _WORTH_NAMING * size.max()]
    names = [str(name) for name in reading.loadings.index]
    strong = [Strong(names[i], labels[names[i]], float(loadings[i])) for i in worth]
    ends = [[one for one in strong if sign * one.loading > 0] for sign in (1, -1)]
    said = [
        f"{word}: {' · '.join(texts[one.name] for one in end[:_NAMED])}"
        for word, end in zip(("more", "less"), ends, strict=True)
        if end
    ]
    text = " / ".join(said)
    squares = pd.Series(loadings**2).groupby(list(map(reading.question, names)), sort=False).sum()
    return NamedFactor(
        place,
        factor,
        Label(text, factor),
        f"{factor}, {text}",
        float(reading.reliability.loc[factor, "explained"]),
        ends[0][:_LISTED],
        ends[1][:_LISTED],
        (squares / squares.sum()).to_numpy(),
    )


class Piece(NamedTuple):
    """A level in a stacked bar."""

    name: str
    colour: str
    ink: str
    share: float


class MovedQuestion(NamedTuple):
    """How likely each level of a question is for people who are low and high on a factor.

    Of a number, its medians for both.
    """

    label: Label
    loading: float
    low: list[Piece]
    high: list[Piece]
    is_ordered: bool = True
    medians: tuple[float, float] | None = None


def moved_questions(
    reading: FactorReading, factor: NamedFactor, strong: Sequence[Strong]
) -> list[MovedQuestion]:
    """Questions that a factor moves, with their level probabilities at both sides of its mean."""
    found = []
    for one in strong:
        curves = reading.curves(one.name, factor.name, _AROUND_THE_MEAN).drop(columns="information")
        ends = [curves.iloc[k].to_numpy() for k in (_LOW, _HIGH)]
        if reading.is_number(one.name):
            medians = float(ends[0][0]), float(ends[1][0])
            found.append(MovedQuestion(one.label, one.loading, [], [], medians=medians))
            continue
        is_ordered = reading.question(one.name) == one.name
        colours = (shades if is_ordered else kinds)(len(curves.columns))
        low, high = (_pieces(curves.columns, colours, end) for end in ends)
        found.append(MovedQuestion(one.label, one.loading, low, high, is_ordered))
    return found


def _pieces(levels: Sequence[str], colours: Sequence[str], shares: np.ndarray) -> list[Piece]:
    return [
        Piece(str(level), colour, ink_on(colour), float(share))
        for level, colour, share in zip(levels, colours, shares, strict=True)
    ]
