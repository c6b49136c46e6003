"""Files that a command is given: looked at before anything slow is imported or done."""

from __future__ import annotations

from pathlib import Path

from ordinalrbm.errors import DataError
from ordinalrbm.storage.atomic import check_place


def check_files(*read: Path | None, out: Path | None = None) -> None:
    """Refuse files that are not there, and a result that cannot be written or would destroy them.

    Parameters
    ----------
    *read : Path or None
        Files and folders that will be read; None is an option that was not given.
    out : Path or None
        Where a result will go.
    """
    given = [path for path in read if path is not None]
    for path in given:
        _check_there(path)
    if out is None:
        return
    check_place(out)
    for path in given:
        if out.exists() and out.samefile(path):
            raise DataError(f"File '{out}' is read and would be written over; write elsewhere.")


def _check_there(path: Path) -> None:
    try:
        is_there = path.exists()
    except OSError as error:  # a folder that must not be looked into, a name that is too long
        raise DataError(
            f"File '{path}' cannot be read ({error.strerror}); check the path."
        ) from error
    if not is_there:
        raise DataError(f"File '{path}' does not exist; check the path.")
