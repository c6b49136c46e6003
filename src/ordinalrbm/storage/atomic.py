"""Files that are there whole or not at all, and folders that one process at a time writes to.

A file is written under another name first, then moved; to an address it is sent when it is whole. The
system releases a lock when the process that holds it dies.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ordinalrbm.errors import DataError, DiskError
from ordinalrbm.runtime.places import Address, place

if TYPE_CHECKING:
    from filelock import FileLock

# What files are called that a process has left behind that was killed in writing.
_UNFINISHED = ".ordinalrbm-"
LEFT_OVER = f"{_UNFINISHED}*"
# The file in a folder that the lock is on; it is empty, and stays.
LOCK = ".lock"
# What a file system says that knows no locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
# Trouble of the disk, whatever one writes to it: full, over quota, over a limit, broken.
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a file to write to, which replaces ``path`` when all has gone well, or raise DataError."""
    target = place(path)
    check_writable(target)
    if isinstance(target, Address):
        with target.written() as file:
            yield file
        return
    final = Path(os.path.realpath(target))  # a link stays, what it leads to is replaced
    # The name is known before the file is there, so that Ctrl-C never leaves one behind.
    file = final.with_name(f"{_UNFINISHED}{secrets.token_hex(6)}")
    try:
        try:
            file.touch(exist_ok=False)
            _keep_rights(final, file)
            yield file
            _keep_rights(final, file)  # libraries may have made a new one
            _settle(file)
            os.replace(file, final)
            _settle_folder(final.parent)
        finally:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(target, error) from error


def check_writable(path: str | os.PathLike) -> None:
    target = place(path)
    if isinstance(target, Address):
        target.check_writable()
        return
    try:
        if not target.parent.is_dir():
            raise DataError(f"Folder '{target.parent}' does not exist; create it or write elsewhere.")
        if target.is_dir():
            raise DataError(f"'{target}' is a folder; give the name of a file in it.")
        if target.exists() and not target.is_file():
            raise DataError(f"'{target}' is no ordinary file; write to one.")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(target))):
            pass
    except OSError as error:
        raise unwritable(target, error) from error


def unwritable(path: Path, error: OSError) -> DataError:
    # By the number, because libraries have long words for it.
    reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
    is_disk = error.errno in _OF_THE_DISK
    remedy = "make room or write elsewhere" if is_disk else "write elsewhere"
    kind = DiskError if is_disk else DataError
    return kind(f"File '{path}' cannot be written ({reason}); {remedy}.")


def _keep_rights(replaced: Path, file: Path) -> None:
    """Give a file the owner, group and mode of the one that it will replace."""
    try:
        old = replaced.stat()
    except FileNotFoundError:
        return  # a new file is as the umask says
    new, mode = file.stat(), stat.S_IMODE(old.st_mode)
    if new.st_uid != old.st_uid:
        with suppress(OSError):  # only root gives files away
            os.chown(file, old.st_uid, -1)
    if new.st_gid != old.st_gid:
        try:
            os.chown(file, -1, old.st_gid)
        except OSError:  # what its group might do is not for another group
            mode &= ~stat.S_IRWXG
    if stat.S_IMODE(file.stat().st_mode) != mode:  # some file systems know one mode only
        file.chmod(mode)


def _settle(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())


def _settle_folder(folder: Path) -> None:
    """Let the new name of a file outlast a power cut, too."""
    # Windows opens no folders, and some network file systems settle none: there, what is written
    # is as safe as the system makes it.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def lock_folder(folder: Path, what: str) -> FileLock:
    """Lock a folder until ``release()`` or the end of the process; DataError if it is locked already.

    A folder on a file system that knows no locks is not locked.
    """
    import filelock  # few commands need it

    lock = filelock.FileLock(folder / LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DataError(
            f"Another {what} is written to folder '{folder}'; wait for its end, or give another folder."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return lock
