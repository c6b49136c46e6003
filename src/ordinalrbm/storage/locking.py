"""One at a time: a lock on a folder, which the system takes back when its holder dies."""

from __future__ import annotations

import os
from pathlib import Path

from ordinalrbm.errors import DataError

try:
    import fcntl
except ImportError:  # Windows, where two that write to one folder are not noticed
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


class Lock:
    """Holds a folder until it is released, or its process ends in whatever way.

    The lock is on an empty file in the folder, which stays: to remove it would let two hold the
    folder, each by another file of that name. A folder on a file system that knows no locks is not
    held.

    Raises
    ------
    DataError
        When somebody else holds it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> lock = Lock(folder, "model")
    >>> Lock(folder, "model")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ordinalrbm.errors.DataError: Another model is written to folder '...
    >>> lock.release()
    >>> Lock(folder, "model").release()
    """

    def __init__(self, folder: Path, what: str) -> None:
        # Not handed on to programs that are started meanwhile. A fork of this process does share
        # it, and holds the folder until it ends as well.
        self._handle: int | None = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
        if fcntl is None:
            return
        try:
            # Not lockf: a process could lock what it has locked itself, in another thread.
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise DataError(
                f"Another {what} is written to folder '{folder}'; wait for its end, or give "
                "another folder."
            ) from None
        except OSError:  # no locks on this file system
            pass

    def release(self) -> None:
        """Let others have it; once is enough."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None
