"""What can be seen of a column, and of all columns of a file, before anything is decided."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ordinalrbm.schema.known_scales import best_fit
from ordinalrbm.schema.missing_labels import no_answer
from ordinalrbm.schema.schema import Code
from ordinalrbm.schema.source import Source, as_number, count_codes, is_among
from ordinalrbm.schema.vocabulary import named_after

_MOST_TEXTS = 1000  # without labels that are read; more are ids or free text
_ENOUGH_COLUMNS = 3  # in which a code must be no answer to be taken for one elsewhere
_ENOUGH_INITIALS = 5  # other short texts in small letters, for "na" to be one of them
_ALL_ALIKE = 5  # columns that all declare one measure, for it to say nothing


@dataclass(frozen=True)
class ColumnProfile:
    """A column, with the codes set apart that are surely no answer."""

    name: str
    question: str
    n_rows: int
    counts: dict[Code, int]  # of answers
    labels: dict[Code, str]  # of answers
    missing: dict[Code, str]  # the other codes and their names
    measure: str = ""
    is_date: bool = False
    is_codes: bool = True
    order: tuple[Code, ...] | None = None  # the categories of an ordered categorical
    unsure: frozenset[Code] = frozenset()  # of the missing, text that does not say that it is no answer

    @property
    def is_text(self) -> bool:
        return any(isinstance(code, str) for code in self.counts)

    def named_after(self, words: frozenset[str]) -> str | None:
        """The word that the column's name or question is about, if it is one of these."""
        return named_after(self.name, words) or named_after(self.question, words)

    @property
    def n_answers(self) -> int:
        return sum(self.counts.values())

    def label(self, code: Code) -> str:
        return self.labels.get(code) or str(code)

    @cached_property
    def texts(self) -> dict[Code, str]:
        """What answers are called: labels, or text that stands in the column itself."""
        if self.labels or not self.is_text:
            return self.labels
        return {code: str(code) for code in self.counts}


def look_at(source: Source, name: str) -> ColumnProfile:
    values = source.frame[name]
    is_date = name in source.dates or pd.api.types.is_datetime64_any_dtype(values.dtype)
    is_codes, counts = _counts(values)
    # A dot or a dash, as some files have for codes in between, is no label.
    given = source.value_labels.get(name, {})
    labels = {code: label for code, label in given.items() if any(map(str.isalnum, label))}
    if values.dtype == bool or isinstance(values.dtype, pd.BooleanDtype):
        labels = {0: "false", 1: "true"}
    missing = _sure_missing(source, name, counts, labels)
    order = None
    if isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.ordered:
        codes = count_codes(pd.Series(values.dtype.categories))
        order = tuple(code for code in codes if code not in missing)
    return ColumnProfile(
        name,
        source.questions.get(name, ""),
        len(values),
        {code: count for code, count in counts.items() if code not in missing},
        {code: label for code, label in labels.items() if code not in missing},
        missing,
        source.measure.get(name, ""),
        is_date,
        is_codes,
        order,
    )


def _counts(values: pd.Series) -> tuple[bool, dict[Code, int]]:
    """Whether there are codes in a column, rather than lists or dates, and how often each is."""
    try:
        counts = count_codes(values)
    except TypeError:  # lists and the like cannot be counted
        return False, {}
    return bool(counts) or all(pd.isna(v) or str(v).strip() == "" for v in values), counts


def _sure_missing(
    source: Source, name: str, counts: dict[Code, int], labels: dict[Code, str]
) -> dict[Code, str]:
    """Codes that are no answer, by what the file declares and by what labels say."""
    declared = source.missing.get(name, ())
    codes = [entry for entry in declared if not isinstance(entry, tuple)]
    missing: dict[Code, str] = {code: labels.get(code, str(code)) for code in codes}
    tags = source.tags.get(name, np.array([], dtype=object))
    tagged = {tag: str(tag) for tag in sorted(set(tags.tolist()) - {""})}
    texts = [code for code in counts if isinstance(code, str) and as_number(code) is None]
    if len(texts) > _MOST_TEXTS:  # ids, or what people have written
        texts = sorted(texts, key=lambda code: -counts[code])[:_MOST_TEXTS]
    numbers = [code for code in counts if not isinstance(code, str)]
    for code in {**labels, **dict.fromkeys(numbers), **dict.fromkeys(texts), **tagged}:
        label = labels.get(code, str(code))
        is_tag = isinstance(code, str) and bool(re.fullmatch(r"\.[a-z]", code))
        if is_tag or is_among(code, declared) or _says_no_answer(code, label, counts):
            missing[code] = label
    return missing


def _says_no_answer(code: Code, label: str, counts: dict[Code, int]) -> bool:
    if isinstance(code, str) and label == code and _is_short_code(code):
        # Among codes of countries, NA is Namibia and DK is Denmark; among initials, ka is somebody.
        alike = sum(_is_short_code(other) for other in counts if other != code)
        few = 2 if code.isupper() else _ENOUGH_INITIALS
        if alike >= max(few, 0.8 * (len(counts) - 1)):
            return False
    if label == str(code) and not isinstance(code, str):
        return False
    found = no_answer(label)
    return found is not None and found.is_sure


def _is_short_code(code: Code) -> bool:
    return isinstance(code, str) and len(code) <= 3 and code.isalpha()


@dataclass(frozen=True)
class FileProfile:
    """What the columns of a file have in common."""

    missing_codes: frozenset[Code]  # no answer in several columns
    most_missing: frozenset[Code]  # no answer in most columns that have labels
    ranges: dict[tuple[int, int], int]  # how many columns have numbers without labels from, to
    contradicted: set[str]  # measures that mean nothing in this file

    @classmethod
    def of(cls, looks: Iterable[ColumnProfile]) -> FileProfile:
        looks = list(looks)
        times = Counter(code for look in looks for code in look.missing)
        usual = frozenset(code for code, n in times.items() if n >= _ENOUGH_COLUMNS)
        most = sum(bool(look.labels) for look in looks) / 2
        in_most = frozenset(code for code in usual if times[code] > most)
        return cls(usual, in_most, dict(Counter(filter(None, map(_range, looks)))), _contradicted(looks))


def _contradicted(looks: Sequence[ColumnProfile]) -> set[str]:
    """The measure that all columns declare, or nominal where half of the clear scales declare it."""
    declared = {look.measure for look in looks}
    if len(declared) == 1 and len(looks) >= _ALL_ALIKE:
        return declared
    fits = [(look.measure, best_fit(tuple(look.labels.values()))) for look in looks if len(look.labels) > 2]
    of_scales = [measure for measure, fit in fits if fit is not None and not fit.outside]
    is_so = len(of_scales) >= _ENOUGH_COLUMNS and 2 * of_scales.count("nominal") >= len(of_scales)
    return {"nominal"} if is_so else set()


def _range(look: ColumnProfile) -> tuple[int, int] | None:
    """The lowest and the highest of whole numbers without labels; 1 counts where all are above."""
    codes = [code for code in look.counts if isinstance(code, int)]
    if look.labels or len(codes) < 2 or len(codes) < len(look.counts):
        return None
    return min(*codes, 1), max(codes)
