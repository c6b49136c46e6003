"""Pew's Global Attitudes files (SPSS .sav): which columns are ordered questions, and the country.

The rule, for files one has from pewresearch.org (the paper used Spring 2008):

- the country is the column called COUNTRY, in capitals or not, by its value labels;
- a question is a column called Q and a number (Q3, Q10a, ...) whose codes all have labels;
- codes labelled "don't know", "refused", "not asked" and the like are no answers, and neither are
  codes that the file itself declares missing;
- two to eleven levels are left, in the order of their codes. With three or more, two labels must
  share a word, as "very good" and "somewhat good" do: names of problems or parties do not;
- at least half of all people answered: questions of single countries are left out.

Codes need not be in order of degree ("too much, too little, about right"); ``--questions`` names
the columns to take instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

QUESTION = re.compile(r"q\d+[a-z0-9_]*", re.IGNORECASE)
NO_ANSWER = re.compile(
    r"don.?t know|\bdk\b|refuse|no answer|no opinion|not asked|not applicable|missing", re.IGNORECASE
)
SMALL_WORDS = {"a", "an", "and", "at", "for", "in", "is", "it", "of", "or", "the", "to", "vol"}
MOST_LEVELS = 11


def read_pew(path: Path, questions: Iterable[str] = ()) -> tuple[pd.DataFrame, pd.Series]:
    """Answers as codes (NaN = none) and the country of each person."""
    import pyreadstat  # only this file format needs it

    frame, about = pyreadstat.read_sav(path)  # codes declared missing come as NaN
    country = next((name for name in frame if name.lower() == "country"), None)
    if country is None:
        raise SystemExit(f"{path} has no column COUNTRY; is it a Global Attitudes file?")
    labels = about.variable_value_labels
    columns = list(questions) or [name for name in frame if QUESTION.fullmatch(name)]
    taken = {name: answers(frame[name], labels.get(name, {})) for name in columns}
    if not questions:
        taken = {name: column for name, column in taken.items() if is_scale(column, labels.get(name, {}))}
    if not taken:
        raise SystemExit(f"{path} has no question that fits the rule; name some by --questions.")
    return pd.DataFrame(taken), frame[country].map(labels.get(country, {})).fillna(frame[country])


def answers(column: pd.Series, labels: dict[Any, str]) -> pd.Series:
    """Codes, without those whose label says that it is no answer."""
    silent = [code for code, label in labels.items() if NO_ANSWER.search(str(label))]
    return column.where(~column.isin(silent))


def is_scale(column: pd.Series, labels: dict[Any, str]) -> bool:
    """Whether a column is an ordered question that most people answered."""
    found = set(column.dropna().unique())
    few = 2 <= len(found) <= MOST_LEVELS
    if not few or not found <= set(labels) or column.notna().mean() < 0.5:
        return False
    words = [set(re.findall(r"[a-z]+", labels[code].lower())) - SMALL_WORDS for code in found]
    return len(found) == 2 or any(one & other for one, other in combinations(words, 2))
