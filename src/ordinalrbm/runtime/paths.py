"""Names of files, and what follows from them alone."""

from __future__ import annotations

import re
from pathlib import Path


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """A workbook and the name of its sheet, which may stand behind a colon.

    Examples
    --------
    >>> split_sheet(Path("a.xlsx:Sheet 2"))[1], split_sheet(Path("a.xlsx"))[1]
    ('Sheet 2', None)
    """
    found = re.fullmatch(r"(.+\.xlsx):([^:/\\]+)", str(path), re.IGNORECASE)
    return (Path(found[1]), found[2]) if found else (path, None)


def beside(path: Path, ending: str) -> Path:
    """The name of a result in the folder of the data: survey.sav gives survey-report.html.

    Examples
    --------
    >>> beside(Path("a/survey.csv.gz"), ".orbm").as_posix()
    'a/survey.orbm'
    """
    file, sheet = split_sheet(path)
    name = file.name if file.is_dir() else Path(file.name.removesuffix(".gz")).stem
    return file.with_name(f"{name}{f'-{sheet}' if sheet else ''}{ending}")
