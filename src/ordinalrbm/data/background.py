"""Background: what is known of people that is no answer, such as country, sex and age.

Numbers become deviations from their mean, categories an indicator each, ordered ones a step each;
what is missing has an indicator of its own. Means are taken off, so that a row of zeros is average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalrbm.data.features import (
    FEWEST,
    CodedColumn,
    Coding,
    NumberColumn,
    Texts,
    learn_column,
    read_feature,
)
from ordinalrbm.data.scales import Name, place
from ordinalrbm.errors import DataError


@dataclass(frozen=True)
class Background:
    """How the columns of the background become numbers.

    Examples
    --------
    >>> table = {"land": ["at"] * 4 + ["ch"] * 4, "age": [20.0, 40.0] * 4}
    >>> background = learn_background(table)
    >>> background.names
    ['land=at', 'land=ch', 'age']
    >>> background.encode(table)[0].tolist()
    [0.5, -0.5, -1.0]
    """

    columns: tuple[Name, ...]
    coding: Coding
    has_missing: tuple[bool, ...]  # whether a column has an indicator of what is missing besides
    means: tuple[float, ...]

    @property
    def names(self) -> list[str]:
        """What each number tells, for readers."""
        found = []
        for column, missing in zip(self.coding.columns, self.has_missing, strict=True):
            found += column.feature_names
            found += [f"{column.name} is missing"] if missing else []
        return found

    def encode(self, table: Mapping[Name, Any]) -> np.ndarray:
        """(rows, P) float32 of a table's columns."""
        parts = [
            _numbers(coded, missing, table[name], name)
            for name, coded, missing in zip(
                self.columns, self.coding.columns, self.has_missing, strict=True
            )
        ]
        return np.hstack(parts) - np.array(self.means, dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "coding": self.coding.to_json(),
            "has_missing": list(self.has_missing),
            "means": list(self.means),
        }

    @classmethod
    def from_json(cls, content: Any) -> Background:
        """The background that `to_json` wrote; a file may hold anything instead."""
        wrong = DataError(f"its header has {content!r:.80} as the background")
        if not isinstance(content, dict) or set(content) != {
            "columns", "coding", "has_missing", "means",
        }:  # fmt: skip
            raise wrong
        coding = Coding.from_json(content["coding"])
        columns, missing, means = (content[name] for name in ("columns", "has_missing", "means"))
        kinds = ((columns, (str, int)), (missing, (bool,)), (means, (int, float)))
        if not all(
            isinstance(part, list) and all(type(one) in kind for one in part)
            for part, kind in kinds
        ):
            raise wrong
        found = cls(tuple(columns), coding, tuple(missing), tuple(map(float, means)))
        n = len(coding.columns)
        lengths = len(columns) == len(missing) == n and len(means) == len(found.names)
        if not lengths or not all(abs(mean) <= 1.0 for mean in found.means):
            raise wrong
        return found


def learn_background(table: Mapping[Name, Any], codes: frozenset[Name] = frozenset()) -> Background:
    """Learn from a table's columns how they become numbers; ``codes`` are of categories."""
    coded: list[CodedColumn] = []
    has_missing = []
    for name, values in table.items():
        column = read_feature(values, name)
        learnt = learn_column(column, codes=name in codes)
        if isinstance(learnt, str):
            raise DataError(
                f"{place(name)} cannot be background: {learnt}, so that there is nothing to "
                "compare; leave it out of background."
            )
        coded.append(learnt)
        missing = _missing(column)
        has_missing.append(not isinstance(learnt, NumberColumn) and int(missing.sum()) >= FEWEST)
    start = Background(tuple(table), Coding(tuple(coded)), tuple(has_missing), ())
    n = len(start.names)
    raw = Background(start.columns, start.coding, start.has_missing, (0.0,) * n).encode(table)
    means = tuple(float(mean) for mean in raw.mean(axis=0, dtype=np.float64))
    return Background(start.columns, start.coding, start.has_missing, means)


def groups_of(values: Any, name: Name, *, codes: bool) -> np.ndarray | None:
    """(rows,) which group each row is in, -1 where missing; None of a column of numbers."""
    column = read_feature(values, name)
    if isinstance(column, Texts):
        return column.code
    if not (codes or column.is_boolean):
        return None
    _, found = np.unique(column.values, return_inverse=True)
    return np.where(np.isnan(column.values), -1, found)


def _numbers(coded: CodedColumn, missing: bool, values: Any, name: Name) -> np.ndarray:
    column = read_feature(values, name)
    features = coded.encode(column).toarray().astype(np.float32)
    if not missing:
        return features
    return np.hstack([features, _missing(column)[:, None].astype(np.float32)])


def _missing(column: Any) -> np.ndarray:
    return column.code < 0 if isinstance(column, Texts) else np.isnan(column.values)
