"""Files that are there whole or not at all: written beside their place first, then moved."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ordinalrbm.errors import DataError


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[Path]:
    """A file to write to, which takes the place of ``path`` when all has gone well.

    Raises
    ------
    DataError
        When the folder does not exist, ``path`` is a folder, or the system refuses to write.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "note.txt") as file:
    ...     _ = file.write_text("done")
    >>> [(file.name, file.read_text()) for file in folder.iterdir()]
    [('note.txt', 'done')]
    """
    target = Path(path)
    check_place(target)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(handle)
        file = Path(name)
        try:
            yield file
            _settle(file)
            os.replace(file, target)
        finally:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(target, error) from error


def check_place(path: str | os.PathLike) -> None:
    """Refuse a place where nothing can be written, before any work is done for it."""
    target = Path(path)
    if not target.parent.is_dir():
        raise DataError(f"Folder '{target.parent}' does not exist; create it or write elsewhere.")
    if target.is_dir():
        raise DataError(f"'{target}' is a folder; give the name of a file in it.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise unwritable(target, error) from error


def unwritable(path: Path, error: OSError) -> DataError:
    """What to say when the system refuses to write."""
    return DataError(
        f"File '{path}' cannot be written ({error.strerror or error}); write elsewhere."
    )


def _settle(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())
    # Temporary files are for their owner alone; this one is a file like any other.
    os.chmod(file, 0o666 & ~_umask())


def _umask() -> int:
    """The umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
