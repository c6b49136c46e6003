"""What a file held, and what is known of a file from its name alone."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pandas as pd

from ordinalrbm.errors import DataError
from ordinalrbm.schema.codes import Missing, alike, factorise_codes
from ordinalrbm.schema.schema import Code

StrPath = str | os.PathLike[str]
Format = Literal["sav", "zsav", "dta", "csv", "tsv", "parquet", "frame"]

ENDINGS = (".sav", ".zsav", ".dta", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


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
    file_label: str = ""
    file_notes: tuple[str, ...] = ()  # of SPSS
    remarks: tuple[str, ...] = ()  # what had to be assumed to read the file, in sentences

    @property
    def where(self) -> str:
        """What error messages call it."""
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
    def _cells(self) -> dict[str, tuple[np.ndarray, frozenset[Code]]]:
        return {}


def _ending(path: Path) -> str:
    name = path.name.lower()
    return max((end for end in ENDINGS if name.endswith(end)), key=len, default="")


def format_of(path: Path) -> Format:
    """The format that a path's ending stands for; a DataError when it is not known."""
    ending, (*most, last) = _ending(path), ENDINGS
    if not ending:
        raise DataError(
            f"File '{path}' has an ending that is not known; known are {', '.join(most)} and {last}."
        )
    return cast(Format, ending.split(".")[1])


def unreadable(path: Path, problem: object) -> DataError:
    """The error of a file that is damaged or is not what its ending says."""
    return DataError(
        f"{what(path)} cannot be read ({shortened(problem)}); check that it is complete and what "
        "its ending says."
    )


def shortened(problem: object) -> str:
    r"""What a library says of a problem, in one line that is not too long.

    Examples
    --------
    >>> shortened(ValueError("no\nnumber.")), shortened(KeyError("index"))
    ('no number', "KeyError: 'index'")
    """
    says_enough = not isinstance(problem, Exception) or isinstance(problem, (ValueError, OSError))
    detail = str(problem) if says_enough else f"{type(problem).__name__}: {problem}"
    detail = " ".join(detail.split()).rstrip(".")
    return detail if len(detail) <= 200 else detail[:197] + "..."


def name_of(path: Path) -> str:
    """The name of a file without its ending."""
    return path.name[: len(path.name) - len(_ending(path))] or path.name


def what(path: Path) -> str:
    """What error messages call a path."""
    return f"Folder '{path}'" if os.path.isdir(path) else f"File '{path}'"
