"""What a file holds, what is known of it from its name alone, and the codes in it."""

import math
import numbers
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from ordinalrbm.errors import DataError
from ordinalrbm.schema.schema import Code

Missing = Code | tuple[float, float]  # a code, or a range of codes with both ends
StrPath = str | os.PathLike[str]
Format = Literal["sav", "zsav", "por", "dta", "xpt", "xlsx", "csv", "tsv", "parquet", "frame"]

ENDINGS = (".sav", ".zsav", ".por", ".dta", ".xpt", ".xlsx", ".csv", ".tsv", ".parquet")
PACKED_TEXT = tuple(text + packed for text in (".csv", ".tsv") for packed in (".gz", ".zst"))


@dataclass(frozen=True, eq=False)
class Source:
    """A file as it was read; dictionaries are by column, and have those of which something is said.

    Dates of SPSS and Stata files are numbers in the frame, as these count them. `missing` are
    user-missing codes, and ranges of them as (low, high). `tags` are Stata's extended missing
    values row by row, ".a" to ".z" and "" elsewhere; in the frame these cells are empty.
    """

    path: Path | None  # None for frames in memory
    format: Format
    name: str  # of the file without its ending
    frame: pd.DataFrame  # codes as stored
    value_labels: dict[str, dict[Code, str]] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)  # variable labels
    missing: dict[str, tuple[Missing, ...]] = field(default_factory=dict)
    measure: dict[str, str] = field(default_factory=dict)  # nominal, ordinal or scale
    dates: dict[str, str] = field(default_factory=dict)  # date, datetime, time or period
    tags: dict[str, np.ndarray] = field(default_factory=dict)
    variable_formats: dict[str, str] = field(default_factory=dict)  # of SPSS or Stata
    display_widths: dict[str, int] = field(default_factory=dict)  # of SPSS
    response_sets: dict[str, dict[str, Any]] = field(default_factory=dict)  # of SPSS, as pyreadstat has them
    file_label: str = ""
    file_notes: tuple[str, ...] = ()  # of SPSS
    remarks: tuple[str, ...] = ()  # what had to be assumed to read the file, in sentences
    _cells: dict[str, tuple[np.ndarray, frozenset[Code]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def where(self) -> str:
        return f"File '{self.path}'" if self.path is not None else f"Table '{self.name}'"

    def cells(self, name: str) -> tuple[np.ndarray, frozenset[Code]]:
        """Which cells of a column are blank, and what codes there are however spelt; kept."""
        if name not in self._cells:
            try:
                position, codes = factorise_codes(self.frame[name])
            except TypeError:  # lists and the like, which are no codes
                position, codes = np.zeros(len(self.frame), dtype=np.int64), [math.nan]
            self._cells[name] = position < 0, frozenset(map(alike, codes))
        return self._cells[name]

    @cached_property
    def set_of(self) -> dict[str, str]:
        """The multiple response set of each column that is in one, with a dollar sign as SPSS has it."""
        sets = self.response_sets.items()
        return {name: f"${key}" for key, one in sets for name in one["variable_list"]}


def _ending(path: Path) -> str:
    name = path.name.lower()
    return max((end for end in (*ENDINGS, *PACKED_TEXT) if name.endswith(end)), key=len, default="")


def format_of(path: Path) -> Format:
    """The format that a path's ending stands for; a DataError when it is not known."""
    ending, (*most, last) = _ending(path), ENDINGS
    if not ending:
        raise DataError(
            f"File '{path}' has an ending that is not known; known are {', '.join(most)} and {last}."
        )
    return cast(Format, ending.split(".")[1])


def unreadable(path: Path, problem: object) -> DataError:
    return DataError(
        f"{what(path)} cannot be read ({shortened(problem)}); check that it is complete and what "
        "its ending says."
    )


def shortened(problem: object) -> str:
    """What a library says of a problem, in one line that is not too long."""
    says_enough = not isinstance(problem, Exception) or isinstance(problem, (ValueError, OSError))
    detail = str(problem) if says_enough else f"{type(problem).__name__}: {problem}"
    detail = " ".join(detail.split()).rstrip(".")
    return detail if len(detail) <= 200 else detail[:197] + "..."


def name_of(path: Path) -> str:
    return path.name[: len(path.name) - len(_ending(path))] or path.name


def what(path: Path) -> str:
    return f"Folder '{path}'" if path.is_dir() else f"File '{path}'"


def plain_code(value: object) -> Code | None:
    """A value as a code: 2.0 and True are whole numbers, blanks around text do not count.

    Gives None for what is no code: nothing, NaN, empty text, a date, a list.
    """
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool | np.bool_):
        return int(value)
    if not isinstance(value, numbers.Real | Decimal) or pd.isna(value):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    number = float(value)
    return int(number) if number.is_integer() else number


def count_codes(values: pd.Series) -> dict[Code, int]:
    position, codes = factorise_codes(values)
    counts = np.bincount(position[position >= 0], minlength=len(codes))
    return dict(zip(codes, counts.tolist(), strict=True))


def factorise_codes(values: pd.Series) -> tuple[np.ndarray, list[Code]]:
    """For each row the position of its code among the distinct ones (-1 for none), and these."""
    position, distinct = pd.factorize(values)
    if isinstance(distinct, pd.CategoricalIndex):
        distinct = distinct.astype(object)
    known: dict[Code, int] = {}
    of_distinct = np.full(len(distinct) + 1, -1, dtype=np.int64)  # the last one is for -1
    for k, value in enumerate(distinct.tolist()):
        code = plain_code(value)
        if code is not None:
            of_distinct[k] = known.setdefault(code, len(known))
    return of_distinct[position], list(known)


def as_number(code: Code) -> float | None:
    if not isinstance(code, str):
        return float(code)
    try:
        number = float(code)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def alike(code: Code) -> Code:
    """What spellings of one code share: the number, or the text without case and extra blanks."""
    if not isinstance(code, str):
        return code
    try:
        return int(code)  # exact where ids are longer than a float can hold
    except ValueError:
        number = as_number(code)
    return " ".join(code.casefold().split()) if number is None else number


def position_finder(codes: Iterable[Code]) -> Callable[[Code], int]:
    """Finds where a code stands in a list: as it is written, or else in another spelling, or -1."""
    written: dict[Code, int] = {}
    spelt: dict[Code, int] = {}
    for position, code in enumerate(codes):
        written.setdefault(code, position)
        spelt.setdefault(alike(code), position)
    return lambda code: written.get(code, spelt.get(alike(code), -1))


def is_among(code: Code, missing: Iterable[Missing]) -> bool:
    for entry in missing:
        if isinstance(entry, tuple):
            if not isinstance(code, str) and entry[0] <= code <= entry[1]:
                return True
        elif code == entry:
            return True
    return False
