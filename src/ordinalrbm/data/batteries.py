"""Questions asked on one scale: a level that nobody gave in one of them is still on its scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Labels = tuple[Any, ...]  # of a scale, from lowest to highest
Counts = Mapping[Any, int]  # how many answers each label has, of those that were given

# So many questions with the same levels are a battery.
_FEWEST_QUESTIONS = 3
# Two levels are more likely yes and no than what is left of a longer scale.
_FEWEST_LEVELS = 3
# A level is missing by chance if it would be in more than one of a hundred tables like this.
_CHANCE = 0.01


def shared_scales(scales: Sequence[Labels], counts: Sequence[Counts | None]) -> list[Labels]:
    """Scales of a table's columns, those of batteries whole.

    A column of whole numbers gets the longer scale of a battery, of at least three questions and
    no fewer than are on its own scale, where it has so few answers that the levels it lacks may
    be missing by chance. ``counts`` are None where a scale was not read from whole numbers.

    Examples
    --------
    >>> five, four = (1, 2, 3, 4, 5), (1, 2, 3, 4)
    >>> counts = [dict.fromkeys(five, 10)] * 3 + [dict.fromkeys(four, 3)]
    >>> shared_scales([five, five, five, four], counts)[3]
    (1, 2, 3, 4, 5)
    """
    columns = list(zip(scales, counts, strict=True))
    usual = Counter(scale for scale, own in columns if own is not None)
    batteries = _batteries(usual)
    rarest = {battery: _smallest_shares(battery, columns) for battery in batteries}

    def whole(scale: Labels, own: Counts | None) -> Labels:
        if own is None or len(own) < _FEWEST_LEVELS:
            return scale
        for battery in batteries:
            if set(scale) < set(battery) and usual[scale] <= usual[battery]:
                lacking = sum(rarest[battery][label] for label in set(battery) - set(scale))
                if may_be_chance(lacking, sum(own.values())):
                    return battery
        return scale

    return [whole(scale, own) for scale, own in columns]


def lacking_levels(scales: Sequence[Labels]) -> list[frozenset[Any]]:
    """Of each scale, the whole numbers that it lacks of a battery's which holds all it has.

    Examples
    --------
    >>> sorted(lacking_levels([(1, 2), *[(1, 2, 3, 4)] * 3])[0])
    [3, 4]
    """
    usual = Counter(scales)
    batteries = _batteries(usual)
    lacking = {
        scale: frozenset(
            label
            for battery in batteries
            if set(scale) < set(battery)
            for label in battery
            if type(label) is int and label not in scale
        )
        for scale in usual
    }
    return [lacking[scale] for scale in scales]


def may_be_chance(share: float, n_answers: int) -> bool:
    """Whether so many answers may all differ from levels that such a share of others gave."""
    return (1.0 - share) ** n_answers > _CHANCE


def _batteries(usual: Counter[Labels]) -> list[Labels]:
    """Scales of at least three questions, short ones first: they add the fewest levels."""
    return sorted((one for one, n in usual.items() if n >= _FEWEST_QUESTIONS), key=len)


def _smallest_shares(battery: Labels, columns: Sequence[tuple[Labels, Counts | None]]) -> dict[Any, float]:
    """The smallest share of each label among the questions in which it was given."""
    counts = [own for scale, own in columns if scale == battery and own is not None]
    return {
        label: min((own[label] / sum(own.values()) for own in counts if label in own), default=0.0)
        for label in battery
    }
