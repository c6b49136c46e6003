"""What a file held, and what is known of a file from its name alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from ordinalrbm.errors import DataError
from ordinalrbm.files.codes import Missing
from ordinalrbm.files.schema import Code

StrPath = str | os.PathLike[str]
Format = Literal["sav", "zsav", "dta", "csv", "tsv", "parquet", "frame"]

ENDINGS: dict[str, Format] = {
    ".sav": "sav",
    ".zsav": "zsav",
    ".dta": "dta",
    ".csv": "csv",
    ".tsv": "tsv",
    ".csv.gz": "csv",
    ".tsv.gz": "tsv",
    ".parquet": "parquet",
}


@dataclass(frozen=True, eq=False)
class Source:
    """A file as it was read.

    Attributes
    ----------
    path : Path or None
        Where it was read from; None for frames in memory.
    format : {"sav", "zsav", "dta", "csv", "tsv", "parquet", "frame"}
    name : str
        What to call it: the name of the file without its ending.
    frame : DataFrame
        Codes as stored; dates of SPSS and Stata files are numbers as these count them.
    value_labels : dict of str to dict
        Of each column, its labels by code.
    questions : dict of str to str
        Variable labels.
    missing : dict of str to tuple
        User-missing codes, and ranges of them as (low, high).
    measure : dict of str to {"nominal", "ordinal", "scale"}
        Where the file says so.
    dates : dict of str to {"date", "datetime", "time", "period"}
        Columns of SPSS and Stata files that hold dates.
    tags : dict of str to array
        Stata's extended missing values of a column, ".a" to ".z" row by row, "" elsewhere; in the
        frame these cells are empty.
    variable_formats : dict of str to str
        How SPSS or Stata shows each column.
    display_widths : dict of str to int
        How wide SPSS shows each column.
    file_label : str
    file_notes : tuple of str
        Notes that are kept in an SPSS file.
    remarks : tuple of str
        What had to be assumed to read the file, in sentences.
    """

    path: Path | None
    format: Format
    name: str
    frame: pd.DataFrame
    value_labels: dict[str, dict[Code, str]] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, tuple[Missing, ...]] = field(default_factory=dict)
    measure: dict[str, str] = field(default_factory=dict)
    dates: dict[str, str] = field(default_factory=dict)
    tags: dict[str, np.ndarray] = field(default_factory=dict)
    variable_formats: dict[str, str] = field(default_factory=dict)
    display_widths: dict[str, int] = field(default_factory=dict)
    file_label: str = ""
    file_notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """What error messages call it."""
        return f"File '{self.path}'" if self.path is not None else f"Table '{self.name}'"


def known_endings() -> str:
    """The endings of files that can be read, in words."""
    *most, last = ENDINGS
    return f"{', '.join(most)} and {last}"


def format_of(path: Path) -> Format:
    """The format that a path's ending stands for; a DataError when it is not known."""
    name = path.name.lower()
    ending = max((end for end in ENDINGS if name.endswith(end)), key=len, default=None)
    if ending is None:
        raise DataError(
            f"File '{path}' has an ending that is not known; known are {known_endings()}."
        )
    return ENDINGS[ending]


def unreadable(path: Path, problem: object) -> DataError:
    """The error of a file that is damaged or is not what its ending says."""
    detail = " ".join(str(problem).split()).rstrip(".")
    detail = detail if len(detail) <= 200 else detail[:197] + "..."
    return DataError(
        f"{what(path)} cannot be read ({detail}); check that it is complete and what its ending "
        "says."
    )


def name_of(path: Path) -> str:
    """The name of a file without its ending."""
    name = path.name
    ending = max((end for end in ENDINGS if name.lower().endswith(end)), key=len, default="")
    return name[: len(name) - len(ending)] or name


def what(path: Path) -> str:
    """What error messages call a path."""
    return f"Folder '{path}'" if path.is_dir() else f"File '{path}'"
