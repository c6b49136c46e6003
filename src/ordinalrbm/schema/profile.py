"""What can be seen of a column, and of all columns of a file, before anything is decided."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ordinalrbm.schema.schema import Code
from ordinalrbm.schema.source import Source, alike, as_number, count_codes, is_among
from ordinalrbm.schema.vocabulary import named_after, no_answer

_MOST_TEXTS = 1000  # without labels that are read; more are ids or free text
_MOST_SPELLINGS = 50  # different codes of which some may be spellings of others
_ENOUGH_COLUMNS = 3  # in which a code must be no answer to be taken for one elsewhere


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
    # A dot or a dash, as some files have for codes in between, is no label.
    given = source.value_labels.get(name, {})
    labels = {code: label for code, label in given.items() if any(map(str.isalnum, label))}
    if values.dtype == bool or isinstance(values.dtype, pd.BooleanDtype):
        labels = {0: "false", 1: "true"}
    is_ordered = isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.ordered
    is_codes, counts = _counts(values)
    if not is_ordered:
        counts = _in_one_spelling(counts, labels)
    missing = _sure_missing(source, name, counts, labels)
    order = None
    if is_ordered:
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


def _in_one_spelling(counts: dict[Code, int], labels: Container[Code]) -> dict[Code, int]:
    """Counts with "agree" counted as "Agree" and "01" as "1": as what has a label, or is most frequent."""
    if len(counts) > _MOST_SPELLINGS:
        return counts  # of ids, each letter counts
    spelt: dict[Code, Code] = {}
    for code in sorted(counts, key=lambda code: (code not in labels, -counts[code])):
        spelt.setdefault(alike(code), code)
    merged = Counter[Code]()
    for code, count in counts.items():  # codes that have labels of their own differ
        merged[code if code in labels else spelt[alike(code)]] += count
    return dict(merged)


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
        n_alike = sum(_is_short_code(other) for other in counts if other != code)
        if n_alike >= max(2, 0.8 * (len(counts) - 1)):
            return False
    if label == str(code) and not isinstance(code, str):
        return False
    found = no_answer(label)
    return found is not None and found.is_sure


def _is_short_code(code: Code) -> bool:
    return isinstance(code, str) and len(code) <= 3 and code.isalpha()


def usually_missing(looks: Iterable[ColumnProfile]) -> frozenset[Code]:
    times = Counter(code for look in looks for code in look.missing)
    return frozenset(code for code, n in times.items() if n >= _ENOUGH_COLUMNS)
