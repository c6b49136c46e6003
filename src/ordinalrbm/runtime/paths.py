"""Names of files, and what follows from them alone."""

import re
from pathlib import Path

from ordinalrbm.runtime.places import packing, place


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """A workbook and the name of its sheet, which may stand behind a colon: a.xlsx:Sheet 2."""
    found = re.fullmatch(r"(.+\.xlsx):([^:/\\]+)", str(path), re.IGNORECASE)
    return (place(found[1]), found[2]) if found else (path, None)


def result_path(path: Path, ending: str) -> Path:
    """The name of a result in the folder of the data: a/b.csv.gz gives a/b-report.html."""
    file, sheet = split_sheet(path)
    name = file.name if file.is_dir() else Path(file.name.removesuffix(packing(file))).stem
    return file.with_name(f"{name}{f'-{sheet}' if sheet else ''}{ending}")
