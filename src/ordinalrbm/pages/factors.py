"""Rotated factors with names that say what they are about."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.estimators.poles import answer_at, cut, in_short, with_answer
from ordinalrbm.pages.frequencies import Level, levels_of
from ordinalrbm.pages.page import Label, Table, brief
from ordinalrbm.plots.style import printable
from ordinalrbm.vector.loadings import cronbach_alpha

N_FACTORS_TOLD = 8
_LISTED = 5  # questions with positive and with negative loadings, each
_SHORT = 40  # letters of a question where a factor is one of a list
_HIGH_END = "People high on this factor answer"
_AT_A_POLE = 2  # questions that say what an end of a factor is
_WORTH_SHOWING = 0.3  # of a loading (a common rule)


class MovedQuestion(NamedTuple):
    """A question that tells of a factor: its levels for people who are low and high on it."""

    label: Label  # with the answer at the factor's high end, where levels have words
    loading: float
    low: list[Level]
    high: list[Level]
    is_ordered: bool = True
    medians: tuple[float, float] | None = None  # of a number, instead


class NamedFactor(NamedTuple):
    """A rotated factor."""

    place: int  # among the model's rotated factors
    name: str  # "Factor 1"
    label: Label  # what people who are high on it answer
    full: str  # both in one
    short: str  # the same for lists
    explained: float  # share of the total variance of the utilities
    low: Markup  # what people at either end answer to the strongest questions
    high: Markup
    ends: list[tuple[str, list[MovedQuestion]]]  # questions with a heading, the strongest first
    rests: np.ndarray  # (Q,) shares of the questions in its squared loadings, of all categories


def named_factors(reading: FactorReading, labels: Mapping[str, Label]) -> list[NamedFactor]:
    """Factors worth telling, named by the questions that load on them most.

    At least one, where any question loads on any factor at all.
    """
    return [_named(reading, factor, labels) for factor in reading.telling()]


def _named(reading: FactorReading, factor: str, labels: Mapping[str, Label]) -> NamedFactor:
    loadings = reading.loadings[factor].to_numpy()
    names = [str(name) for name in reading.loadings.index]
    texts = {name: label.text for name, label in labels.items()}
    text = printable(reading.name(factor, texts=texts))
    short = reading.name(factor, 1, texts=texts, width=_SHORT)
    squares = pd.Series(loadings**2).groupby(list(map(reading.question, names)), sort=False).sum()
    return NamedFactor(
        reading.factors.index(factor),
        factor,
        Label(text, factor),
        f"{factor} ({text})",
        f"{factor} ({printable(short)})",
        float(reading.reliability.loc[factor, "explained"]),
        _pole(reading, factor, texts, -1),
        _pole(reading, factor, texts, 1),
        _ends(reading, factor, labels),
        (squares / squares.sum()).to_numpy(),
    )


def _pole(reading: FactorReading, factor: str, texts: Mapping[str, str], sign: int) -> Markup:
    """What people at one end of a factor answer; of plain numbers, whether they are high or low."""
    parts = []
    strongest = list(reading.strongest(factor, _AT_A_POLE).items())[:_AT_A_POLE]
    short = in_short({item: texts.get(item, item) for item in texts}, _SHORT)
    for item, loading in strongest:
        is_scale = reading.question(item) == item and not reading.is_number(item)
        levels = reading.ends(item, factor).columns.tolist() if is_scale else []
        answer = answer_at(levels, sign * loading) or ("high" if sign * loading > 0 else "low")
        parts.append(printable(with_answer(brief(short.get(item, item)), cut(answer, _SHORT))))
    return Markup(" and ").join(Markup("“<bdi>{}</bdi>”").format(part) for part in parts)


def factor_table(
    reading: FactorReading, factors: list[NamedFactor], answers: pd.DataFrame, weight: np.ndarray | None
) -> Table:
    """What lies at both ends of each factor, what it explains, and how reliable its questions are.

    ``answers`` are places of levels, NaN where missing.
    """
    rows = []
    for one in factors:
        own = [item for item in reading.items(one.name) if item in answers]
        key = np.sign(reading.loadings.loc[own, one.name].to_numpy())
        with np.errstate(invalid="ignore", divide="ignore"):  # nobody has answered two of them
            alpha = cronbach_alpha(answers[own].to_numpy(), key, weight)
        line = reading.reliability.loc[one.name]
        rows.append((one.name, one.low, one.high, one.explained, int(line["items"]), line["omega"], alpha))
    head = ("factor", "low end", "high end", "variance explained", "questions", "omega (ω)", "alpha (α)")
    return Table(head, rows, ("", "", "", ".1%", "d", ".2f", ".2f"))


def loadings_table(
    reading: FactorReading, factors: list[NamedFactor], labels: Mapping[str, Label]
) -> tuple[Table, int]:
    """Loadings of 0.30 or more, sorted by factor and size, with communalities; and how many have none."""
    told = [one.name for one in factors]
    table = reading.table()
    size = table[told].abs().max(axis=1) if told else table["communality"] * 0.0
    large = table[size >= _WORTH_SHOWING]
    rows = [
        (labels[str(item)], *(x if abs(x) >= _WORTH_SHOWING else None for x in line), communality)
        for item, *line, communality in large[[*told, "communality"]].itertuples(name=None)
    ]
    return Table(("question", *told, "h²"), rows, ("", *["+.2f"] * len(told), ".2f")), len(table) - len(rows)


def _ends(
    reading: FactorReading, factor: str, labels: Mapping[str, Label]
) -> list[tuple[str, list[MovedQuestion]]]:
    """The strongest questions: with their answers at the high end, or as answered more and less."""
    ends: dict[str, list[MovedQuestion]] = {_HIGH_END: [], "More": [], "Less": []}
    for item, loading in reading.strongest(factor, _LISTED).items():
        label, answer = labels[item], printable(reading.answer(item, factor))
        heading = _HIGH_END if answer else "More" if loading > 0 else "Less"
        label = label._replace(text=with_answer(label.text, answer))
        ends[heading].append(_moved(reading, factor, item, label, loading))
    return [(heading, questions) for heading, questions in ends.items() if questions]


def _moved(reading: FactorReading, factor: str, item: str, label: Label, loading: float) -> MovedQuestion:
    ends = reading.ends(item, factor)
    if reading.is_number(item):
        return MovedQuestion(label, loading, [], [], medians=tuple(ends["median"]))
    is_ordered = reading.question(item) == item
    low, high = (levels_of(ends.columns, end, ordered=is_ordered) for end in ends.to_numpy())
    return MovedQuestion(label, loading, low, high, is_ordered)
