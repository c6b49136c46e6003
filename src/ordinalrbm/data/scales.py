"""Scales: the ordered labels of a column, and the way from labels to levels and back.

A level is a position on a scale, counted from 0; -1 means unanswered. Nothing here guesses an
order: numbers and booleans have one, ordered categoricals carry one, text must be given one.
"""

import difflib
import math
import numbers
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import Column, Name, location, plain_categories, read_column
from ordinalrbm.errors import DataError, DataTypeError, user_stacklevel

Label = str | int | float | bool
Labels = tuple[Label, ...]
Counts = Mapping[Any, int]  # how many answers each label has, of those that were given

MAX_LEVELS = 32_767  # levels are stored in at most 16 bits, and -1 is taken
OFF_SCALE = -2  # instead of a level: the value is not on the scale
MANY_LEVELS = 100  # beyond this, a column is more likely a measurement than an answer

# A float label matches a value this close to it, relative to its size: a half star that went
# through float32 or through arithmetic is still that half star.
_FLOAT_TOLERANCE = 1e-6
_GRID_TOLERANCE = 1e-9

# So many questions with the same levels are a battery.
_FEWEST_QUESTIONS = 3
# Two levels are more likely yes and no than what is left of a longer scale.
_FEWEST_LEVELS = 3
# A level is missing by chance if it would be in more than one of a hundred tables like this.
_CHANCE = 0.01


@dataclass(frozen=True)
class Scale:
    """The labels of one column, from lowest to highest.

    Parameters
    ----------
    labels : tuple of str, int, float or bool
        All of one type. The order given is the order of the levels; numbers need not ascend,
        so ``Scale((3, 2, 1))`` reverses a question.

    Examples
    --------
    >>> scale = Scale(("never", "sometimes", "often"))
    >>> scale.encode(["often", None, "never"], "Q1")
    array([ 2, -1,  0], dtype=int16)
    >>> scale.decode([2, 0])
    array(['often', 'never'], dtype=object)
    """

    labels: Labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", check_labels(self.labels, "The scale"))

    @property
    def n_levels(self) -> int:
        return len(self.labels)

    @property
    def is_numeric(self) -> bool:
        return not isinstance(self.labels[0], str)

    @property
    def names(self) -> list[str]:
        return [label_name(label) for label in self.labels]

    @property
    def values(self) -> np.ndarray:
        """What each level counts when levels are averaged: its number, or for text its position 1..L."""
        if self.is_numeric:
            return np.asarray(self.labels, dtype=np.float64)
        return np.arange(1, self.n_levels + 1, dtype=np.float64)

    def encode(self, values: Any, column: Name, known: Collection[Label] = ()) -> np.ndarray:
        """Levels 0..L-1 of the values, -1 where unanswered (NaN, None, pd.NA, NaT).

        Parameters
        ----------
        values : array-like of length n
            One column: a Series, Categorical, array or list, or a `Column` that has been read.
        column : str or int
            Name of the column, for error messages.
        known : labels, optional
            Numbers that are levels of this question's battery: they count as the nearest level on
            the scale, with a warning, instead of being refused.

        Returns
        -------
        numpy.ndarray of int16
        """
        answers, name = read_answers(read_column(values, column)), column
        levels = self._match(answers)
        unknown = levels == OFF_SCALE
        if known and answers.kind == "number" and unknown.any():
            self._take_nearest(levels, answers.values, set(known), name)
            unknown = levels == OFF_SCALE
        if unknown.any():
            first = int(unknown.argmax())
            raise DataError(
                f"{location(name, first)}: the value {answers.value(first)!r} is not on the "
                f"scale {shorten(self.labels)}; correct it, leave it empty, or give the whole "
                f"scale with {remedy(name)}."
            )
        return levels.astype(np.int16, copy=False)

    def match(self, values: Any) -> np.ndarray:
        """Levels of values that are on the scale, `OFF_SCALE` of others."""
        return self._match(read_answers(read_column(values, "value")))

    def _match(self, answers: Column) -> np.ndarray:
        if answers.is_coded:
            position = {label: level for level, label in enumerate(self.labels)}
            # One more entry than there are labels, so that the code -1 finds "unanswered".
            of_distinct = [position.get(label, OFF_SCALE) for label in answers.distinct] + [-1]
            return np.array(of_distinct, dtype=np.int16)[answers.codes]
        if self.is_numeric:
            return _match_numbers(answers.values, self.labels)
        return np.where(np.isnan(answers.values.astype(np.float64)), -1, OFF_SCALE)

    def _take_nearest(self, levels: np.ndarray, values: np.ndarray, known: set[Label], column: Name) -> None:
        """Levels of numbers that only the battery has; in place, with a warning."""
        for value in sorted(set(values[levels == OFF_SCALE].tolist()) & known):
            same = values == value
            level = int(np.abs(self.values - value).argmin())
            levels[same] = level
            warnings.warn(
                f"{location(column)}: the value {label_name(value)} (answers: {int(same.sum())}) did "
                "not occur in the data the model was fitted on, and counts as "
                f"{label_name(self.labels[level])}; fit with {remedy(column)} to tell them apart.",
                stacklevel=user_stacklevel(),
            )

    def decode(self, levels: Any) -> np.ndarray:
        """Labels of the levels: int, float or bool array, or objects for text.

        Level -1 becomes missing: NaN among numbers (so integers become floats), None among text and booleans.
        """
        levels = np.asarray(levels)
        if levels.size and not (levels.min() >= -1 and levels.max() < self.n_levels):
            raise DataError(
                f"Levels must lie between -1 and {self.n_levels - 1} on the scale "
                f"{shorten(self.labels)}, but range from {levels.min()} to {levels.max()}; "
                "decode each column with the scale it was encoded with."
            )
        missing = levels < 0
        plain: Any = object if not self.is_numeric else type(self.labels[0])
        labels = np.array(self.labels, dtype=plain)[levels]
        if missing.any():
            is_number = labels.dtype.kind in "if"
            labels = labels.astype(np.float64 if is_number else object)
            labels[missing] = np.nan if is_number else None
        return labels

    def to_json(self) -> list[Label]:
        return list(self.labels)

    @classmethod
    def from_json(cls, labels: Any) -> Self:
        if not isinstance(labels, list):
            raise DataError(f"a scale is a list of labels, not {labels!r:.80}")
        scale = cls(tuple(labels))
        if any(isinstance(label, int) and abs(label) >= 2**63 for label in scale.labels):
            raise DataError(f"the scale {shorten(scale.labels)} has numbers of more than 64 bits")
        return scale


def label_name(label: Any) -> str:
    return label if isinstance(label, str) else f"{label:g}"


def _inferred(column: Column) -> tuple[Labels, Counts | None]:
    """Labels of a column, from its type and values; of whole numbers also how often each was given.

    Ordered categoricals give their categories, used or not; booleans give (False, True); numbers
    give the evenly spaced grid they sit on, so that a level nobody chose is still there. Where
    that grid would be mostly empty, the values themselves are the scale.
    """
    answers, name = read_answers(column), column.name
    counts: Counts | None = None
    if answers.kind in ("text", "category"):
        raise _no_order(answers, name)
    is_category = answers.kind == "ordered"
    if not (len(answers.distinct) if is_category else pd.notna(answers.values).any()):
        raise DataError(
            f"{location(name)} has no answer at all; drop it or give its scale with {remedy(name)}."
        )
    if is_category:
        labels = check_labels(answers.distinct, location(name))
    elif answers.kind == "boolean":
        labels = (False, True)
    else:
        labels, counts = _labels_of_numbers(answers.values, name)
    if len(labels) > MANY_LEVELS:
        warnings.warn(
            f"{location(name)} has {len(labels):,} levels and looks continuous; bin it (for example "
            "with pandas.qcut) or drop it.",
            stacklevel=3,
        )
    return labels, counts


def resolve_scales(columns: Iterable[Any], names: Sequence[str] | None, given: Any = None) -> list[Scale]:
    """The scale of every column: given where it is given, inferred elsewhere.

    A list, tuple or ordered ``pandas.CategoricalDtype`` is given for all columns, a dict for some,
    by name or, where `names` is None, by position. Columns of whole numbers that belong to a
    battery have its whole scale (`shared_scales`).
    """
    columns = list(columns)
    keys: list[Name] = list(range(len(columns)) if names is None else names)
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        return [Scale(check_labels(given, "scales"))] * len(keys)
    for name in given:
        if name not in keys:
            raise _unknown_name(name, keys)
    fixed = {name: Scale(check_labels(labels, f"scales[{name!r}]")) for name, labels in given.items()}
    found = [
        (fixed[name].labels, None) if name in fixed else _inferred(read_column(values, name))
        for name, values in zip(keys, columns, strict=True)
    ]
    if not found:  # all questions are of other kinds
        return []
    return [Scale(labels) for labels in shared_scales(*zip(*found, strict=True))]


def check_labels(labels: Any, where: str) -> Labels:
    """The labels as plain Python values of one type, or a DataError that says what is wrong."""
    if isinstance(labels, pd.CategoricalDtype):
        if not labels.ordered or labels.categories is None:
            raise DataError(
                f"{where} is a categorical type without an order; pass ordered=True and the "
                "categories from lowest to highest."
            )
        labels = plain_categories(labels.categories)
    if isinstance(labels, str | bytes | Mapping | set | frozenset) or not isinstance(labels, Iterable):
        raise DataError(
            f"{where} must be a list of labels from lowest to highest, not {labels!r}; write for "
            "example [1, 2, 3] or ['no', 'maybe', 'yes']."
        )
    plain = tuple(_plain_label(label, where) for label in labels)
    kinds = {type(label) for label in plain}
    if kinds == {int, float}:
        plain = tuple(float(label) for label in plain)
    elif len(kinds) > 1:
        raise DataError(
            f"{where} mixes {' and '.join(sorted(kind.__name__ for kind in kinds))} in "
            f"{shorten(plain)}; give labels of one type."
        )
    if not plain:
        raise DataError(f"{where} has no label; give at least one.")
    if len(plain) > MAX_LEVELS:
        raise DataError(
            f"{where} has {len(plain):,} labels, more than the {MAX_LEVELS:,} a scale can have; "
            "bin the values or drop the column."
        )
    if len(set(plain)) < len(plain):
        twice = next(label for label, times in Counter(plain).items() if times > 1)
        raise DataError(f"{where} names the label {twice!r} twice; remove one of them.")
    return plain


def remedy(column: Name) -> str:
    return f"scales={{{column!r}: [...]}}"


def shorten(labels: Sequence[Any]) -> str:
    def write(label: Any) -> str:
        text = repr(label)
        return text if len(text) <= 40 else text[:36] + "...'"

    if len(labels) <= 12:
        return "[" + ", ".join(write(label) for label in labels) + "]"
    shown = [*map(write, labels[:5]), "...", *map(write, labels[-2:])]
    return f"[{', '.join(shown)}] ({len(labels):,} levels)"


# ---- reading a column -------------------------------------------------------------------------


def read_answers(column: Column) -> Column:
    """A column of answers, whose numbers are finite integers or floats of 64 bits."""
    if column.kind in ("other", "list"):
        wrong = column.values[column.wrong] if len(column) else column.values
        raise _not_an_answer(wrong, location(column.name, column.wrong))
    if column.is_coded:
        return column
    array = column.values
    if array.dtype.kind == "f":
        if np.isinf(array).any():
            first = int(np.isinf(array).argmax())
            raise DataError(
                f"{location(column.name, first)}: the value {array[first]} is infinity, which is on no "
                "scale; correct it or leave it empty (NaN)."
            )
        return replace(column, values=_widen(array))
    fits = array.dtype.kind == "b" or array.max(initial=0) <= np.iinfo(np.int64).max
    return replace(column, values=array.astype(np.int64 if fits else np.float64, copy=False))


def _widen(array: np.ndarray) -> np.ndarray:
    """As float64, taking narrow floats at their written value: float32 0.1 is 0.1."""
    if array.dtype.itemsize >= 8:
        return array.astype(np.float64, copy=False)
    wide = array.astype(np.float64)
    if (np.isnan(wide) | (wide == np.round(wide))).all():
        return wide
    distinct, position = np.unique(array, return_inverse=True)
    return np.array([float(str(value)) for value in distinct])[position]


def _not_an_answer(value: Any, where: str) -> DataError:
    if isinstance(value, complex | np.complexfloating):
        return DataError(f"Complex data not supported: {where} holds {value!r}.")
    return DataTypeError(
        f"{where}: an argument must be a string or a real number to be an answer, but {value!r} "
        f"is of type {type(value).__name__}; convert the column or drop it."
    )


# ---- labels -----------------------------------------------------------------------------------


def _plain_label(label: Any, where: str) -> Label:
    if type(label) is int or (type(label) is float and math.isfinite(label)):
        return label  # most are, and the questions below take a while
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bool | np.bool_):
        return bool(label)
    if label is None or (np.ndim(label) == 0 and pd.isna(label)):
        raise DataError(
            f"{where} holds a missing label ({label!r}); remove it, unanswered cells need no label."
        )
    if isinstance(label, numbers.Integral):
        return int(label)
    if isinstance(label, numbers.Real | Decimal):
        if math.isinf(label):
            raise DataError(
                f"{where} holds the label {label!r}; labels must be finite, so remove or replace it."
            )
        return float(label)
    raise DataError(
        f"{where} holds the label {label!r} of type {type(label).__name__}; give "
        "labels that are text or numbers."
    )


def _no_order(answers: Column, name: Name) -> DataError:
    if answers.kind == "category":
        what, found = "is a categorical without an order", list(answers.distinct)
    else:
        found = sorted({str(value) for value in answers.distinct})
        what = "holds text, whose order cannot be guessed"
    return DataError(
        f"{location(name)} {what} (found {shorten(found)}); give its labels from lowest to highest "
        f"with {remedy(name)} or make it an ordered categorical."
    )


def _unknown_name(name: Any, keys: Sequence[Name]) -> DataError:
    if keys == list(range(len(keys))):
        hint = f"the columns have no names, so use their positions 0 to {len(keys) - 1}"
    else:
        hint = f"the columns are {shorten(keys)}"
    close = difflib.get_close_matches(str(name), [key for key in keys if isinstance(key, str)])
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"{hint}."
    return DataError(f"scales gives labels for {name!r}, but there is no such column; {hint}")


# ---- numbers ----------------------------------------------------------------------------------


def _match_numbers(values: np.ndarray, labels: tuple[Any, ...]) -> np.ndarray:
    """Level of each number: -1 for NaN, `OFF_SCALE` for a number that is not on the scale."""
    whole = not isinstance(labels[0], float)
    exact = whole and values.dtype.kind == "i" and max(map(abs, labels)) < 2**63
    kind = np.int64 if exact else np.float64
    values = values.astype(kind, copy=False)
    order = np.argsort(np.array(labels, dtype=kind), kind="stable")
    ascending = np.array(labels, dtype=kind)[order]
    above = np.minimum(np.searchsorted(ascending, values), len(labels) - 1)
    if whole:
        found, matches = above, ascending[above] == values
    else:
        below = np.maximum(above - 1, 0)
        nearer_below = np.abs(values - ascending[below]) < np.abs(values - ascending[above])
        found = np.where(nearer_below, below, above)
        distance = np.abs(values - ascending[found])
        matches = distance <= _FLOAT_TOLERANCE * np.abs(ascending[found])
    levels = np.where(matches, order[found], OFF_SCALE)
    if values.dtype.kind == "f":
        levels[np.isnan(values)] = -1
    return levels


def _labels_of_numbers(values: np.ndarray, name: Name) -> tuple[tuple[Label, ...], dict[int, int] | None]:
    given = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    distinct, counts = np.unique(given, return_counts=True)
    if len(distinct) > MAX_LEVELS:
        raise DataError(
            f"{location(name)} has {len(distinct):,} distinct values, more than the {MAX_LEVELS:,} "
            "levels a scale can have; bin it (for example with pandas.qcut) or drop it."
        )
    # Beyond 2**53 a float no longer says which integer it is.
    is_exact = distinct.dtype.kind == "i" or bool((np.abs(distinct) < 2**53).all())
    if is_exact and (distinct == np.round(distinct)).all():
        whole = [int(value) for value in distinct]
        return _whole_grid(whole), dict(zip(whole, counts.tolist(), strict=True))
    return _float_grid(distinct.tolist()), None


def _most_grid_points(n_distinct: int) -> int:
    # A sparser grid would invent more levels than it found, such as 999 between 1, 2 and 1000.
    return min(2 * n_distinct + 2, MAX_LEVELS)


def _whole_grid(distinct: list[int]) -> tuple[int, ...]:
    low, high = distinct[0], distinct[-1]
    step = math.gcd(*(value - low for value in distinct)) or 1
    if (high - low) // step + 1 > _most_grid_points(len(distinct)):
        return tuple(distinct)
    return tuple(range(low, high + 1, step))


def _float_grid(distinct: list[float]) -> tuple[float, ...]:
    """The grid through all values whose step is their smallest gap, those kept exactly; else the values."""
    span = distinct[-1] - distinct[0]
    if len(distinct) <= 2 or not math.isfinite(span):
        return tuple(distinct)
    values = np.array(distinct)
    n_steps = span / float(np.diff(values).min())
    if n_steps > _most_grid_points(len(distinct)) - 0.5:
        return tuple(distinct)
    step = span / round(n_steps)
    position = np.round((values - values[0]) / step).astype(int)
    tolerance = min(_GRID_TOLERANCE * np.abs(values).max(), 1e-3 * step)
    if (np.abs(values[0] + position * step - values) > tolerance).any():
        return tuple(distinct)
    known = dict(zip(position.tolist(), distinct, strict=True))
    # Twelve digits, so that a filled-in level reads 0.3 and not 0.30000000000000004.
    return tuple(known.get(k, float(f"{distinct[0] + k * step:.12g}")) for k in range(round(n_steps) + 1))


# ---- batteries: a level that nobody gave in one question is still on the scale ------------------


def shared_scales(scales: Sequence[Labels], counts: Sequence[Counts | None]) -> list[Labels]:
    """Scales of a table's columns, those of batteries whole.

    A column of whole numbers gets the longer scale of a battery, of at least three questions and
    no fewer than are on its own scale, where it has so few answers that the levels it lacks may
    be missing by chance. ``counts`` are None where a scale was not read from whole numbers.
    """
    questions: dict[Labels, list[Counts]] = {}
    for scale, own in zip(scales, counts, strict=True):
        if own is not None:
            questions.setdefault(scale, []).append(own)
    batteries = _batteries({scale: len(own) for scale, own in questions.items()})

    def whole(scale: Labels, own: Counts | None) -> Labels:
        if own is None or len(own) < _FEWEST_LEVELS:
            return scale
        longer = [one for one in batteries if set(scale) < set(one)]
        for battery in longer:
            lacking, others = set(battery) - set(scale), questions[battery]
            if len(questions[scale]) <= len(others) and may_lack(lacking, sum(own.values()), others):
                return battery
        return scale

    return [whole(scale, own) for scale, own in zip(scales, counts, strict=True)]


def may_lack(levels: Iterable[Any], n_answers: int, others: Sequence[Counts]) -> bool:
    """Whether so many answers may lack levels by chance, by how often other questions have each.

    Of each level, the smallest share counts among the questions in which it was given.
    """
    shares = [
        min((own[level] / sum(own.values()) for own in others if level in own), default=0.0)
        for level in levels
    ]
    return (1.0 - sum(shares)) ** n_answers > _CHANCE


def lacking_levels(scales: Sequence[Labels]) -> list[frozenset[Any]]:
    """For each scale, the whole numbers it lacks of batteries that hold all it has."""
    questions = Counter(scales)
    batteries = _batteries(questions)
    lacking = {
        scale: frozenset(
            label
            for battery in batteries
            if set(scale) < set(battery)
            for label in battery
            if type(label) is int and label not in scale
        )
        for scale in questions
    }
    return [lacking[scale] for scale in scales]


def _batteries(n_questions: Mapping[Labels, int]) -> list[Labels]:
    """Scales of at least three questions, short ones first: they add the fewest levels."""
    return sorted((one for one, n in n_questions.items() if n >= _FEWEST_QUESTIONS), key=len)
