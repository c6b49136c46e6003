"""Files elsewhere, at addresses such as s3://bucket/films.orbm; text packed in .gz or .zst; names of files.

fsspec knows the systems, and each of them its own credentials. fsspec is imported when an address is given.
"""

import atexit
import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import ENOENT
from fnmatch import fnmatch
from functools import cache, cached_property
from pathlib import Path
from stat import S_IFDIR, S_IFREG, S_ISDIR, S_ISREG
from typing import Any

from ordinalrbm.errors import DataError

_CODECS = {".gz": ("gzip", b"\x1f\x8b"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:/")  # a drive of Windows has one letter
_PIECE = 1 << 20  # bytes unpacked at a time
_MOST_SAID = 200  # letters of what a library says
_copies: dict[str, tuple[tuple[int, ...], Path]] = {}


def place(path: str | os.PathLike) -> Path:
    """A path of this machine, or the address that a text or a path holds."""
    if isinstance(path, Address):
        return path
    text = os.fspath(path)
    if text.startswith("file:/"):
        return Path("/" + text[5:].lstrip("/"))
    return Address(text) if _ADDRESS.match(text) else Path(path)


def packing(path: Path) -> str:
    return next((end for end in _CODECS if path.name.lower().endswith(end)), "")


def refuse_address(path: str | os.PathLike, what: str) -> Path:
    if isinstance(place(path), Address):
        raise DataError(f"{what} are kept on this machine, not at '{place(path)}'; give a folder of it.")
    return Path(path)


class Address(type(Path())):  # type: ignore[misc]
    """A file that is not here: its text is where it is, and what opens it opens a copy.

    The copy is made when it is first opened, and again when the file has changed; it goes with
    the process. Empty parts of a key (``a//b``) are not kept, as in any path.
    """

    def __str__(self) -> str:
        return re.sub(r"(?<=\w):/(?!/)", "://", super().__str__())

    def __fspath__(self) -> str:
        found = self.stat()
        now = found.st_ino, found.st_size, 0 if found.st_mtime_ns is None else found.st_mtime_ns
        stamp, copy = _copies.get(str(self), (None, Path()))
        if stamp == now and copy.exists():
            return str(copy)
        if stamp is not None:
            shutil.rmtree(copy.parent, ignore_errors=True)
        copy = Path(tempfile.mkdtemp(dir=_folder())) / self.name
        try:
            with self.raw("readahead") as there, copy.open("wb") as file:
                shutil.copyfileobj(there, file)
        except BaseException:
            shutil.rmtree(copy.parent)
            raise
        _copies[str(self)] = now, copy
        return str(copy)

    @property
    def name(self) -> str:
        """The last part, of zip://a.csv::s3://b/c.zip what is inside."""
        return str(self).split("::")[0].rsplit("/", 1)[-1].split("?")[0]

    def with_name(self, name: str) -> Path:
        return place(f"{str(self).split('::')[-1].rpartition('/')[0]}/{name}")

    def stat(self, **_: Any) -> os.stat_result:
        """The kind and size of the file; the place of its inode has what changes when the file does."""
        with self._told():
            info = self._at[0].info(self._at[1])
        stamp = int(hashlib.sha256(repr(sorted(info.items(), key=str)).encode()).hexdigest()[:15], 16)
        size = -1 if info.get("size") is None else info["size"]
        kind = S_IFDIR if info["type"] == "directory" else S_IFREG
        return os.stat_result((kind, stamp, 0, 0, 0, 0, size, 0, 0, 0))

    def exists(self, **_: Any) -> bool:
        return self._mode() != 0

    def is_dir(self, **_: Any) -> bool:
        return S_ISDIR(self._mode())

    def is_file(self, **_: Any) -> bool:
        return S_ISREG(self._mode())

    def _mode(self) -> int:
        try:
            return self.stat().st_mode
        except FileNotFoundError:
            return 0

    def rglob(self, pattern: str, **_: Any) -> Iterator["Address"]:
        with self._told():
            fs, top = self._at
            for path in fs.find(top):
                if fnmatch(path.rpartition("/")[2], pattern):
                    child = self / path[len(top) :].lstrip("/")
                    child.__dict__["_at"] = fs, path
                    yield child

    def raw(self, ahead: str = "none") -> Any:
        """The file itself, to read here and there; or from its beginning, then with what comes next."""
        with self._told():
            fs, path = self._at
            is_web = ahead != "none" and "https" in fs.protocol  # a server may know no parts of files
            return fs.open(path, "rb", **({"block_size": 0} if is_web else {"cache_type": ahead}))

    def check_writable(self) -> None:
        if self.is_dir():
            raise DataError(f"'{self}' is a folder; give the name of a file in it.")
        fs, path = self._at
        if "::" in str(self) or "https" in fs.protocol:
            raise DataError(f"File '{self}' can only be read; write elsewhere.")
        bucket = path.split("/")[0]
        with suppress(PermissionError):  # who may write need not be allowed to look
            if bucket and bucket != path and not fs.exists(bucket):
                raise DataError(
                    f"'{bucket}' does not exist, where '{self}' should be; create it or write elsewhere."
                )

    @contextmanager
    def written(self) -> Iterator[Path]:
        """A file to write to, which is sent as a whole; if that fails, it stays here."""
        file = Path(tempfile.mkdtemp(prefix="ordinalrbm-")) / self.name
        try:
            file.touch()
            yield file
        except BaseException:
            shutil.rmtree(file.parent)
            raise
        try:
            with self._told("written"):
                self._at[0].put_file(str(file), self._at[1])
        except DataError as error:
            raise DataError(f"{str(error).rstrip('.')}; what should be there is in '{file}'.") from error
        shutil.rmtree(file.parent)

    @cached_property
    def _at(self) -> Any:
        """The file system and the path in it."""
        with self._told():
            from fsspec.core import url_to_fs

            fs, path = url_to_fs(str(self))
            fs.invalidate_cache()  # others may have changed it since the last look
            return fs, path

    @contextmanager
    def _told(self, done: str = "read") -> Iterator[None]:
        """Turn whatever a file system raises into one sentence; only that there is no file stays."""
        try:
            yield
        except (DataError, MemoryError):
            raise
        except Exception as error:  # each system has errors of its own
            cause: Any = error
            if isinstance(error, FileNotFoundError) and done == "read":
                cause = error.__cause__  # https calls any failure a missing file
                if cause is None or getattr(cause, "status", 404) in (404, 410):
                    raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(self)) from error
            is_refused = isinstance(cause, PermissionError) or getattr(cause, "status", 0) in (401, 403)
            short = " ".join(str(cause).split()).rstrip(".")[:_MOST_SAID] or type(cause).__name__
            if isinstance(cause, ImportError):
                said = f"needs another package ({short}); pip install 'ordinalrbm[cloud]', or that package"
            elif "Protocol not known" in short:
                said = "is at an address of an unknown kind; begin it with s3://, gs://, abfs:// or https://"
            elif is_refused or "Credentials" in type(cause).__name__:
                said = f"may not be {done} ({short}); check the credentials"
            else:
                said = f"cannot be {done} ({short}); check the address and the network"
            raise DataError(f"File '{self}' {said}.") from error


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="ordinalrbm-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def stream(path: Path) -> Iterator[io.BufferedReader]:
    """A file from its beginning, unpacked if it is packed."""
    import pyarrow as pa  # the header of a model is read sooner

    with ExitStack() as opened:
        raw = path.raw("readahead") if isinstance(path, Address) else path.open("rb", buffering=0)
        file = opened.enter_context(io.BufferedReader(opened.enter_context(raw)))
        start = file.peek(4)
        for ending, (codec, magic) in _CODECS.items():
            if start.startswith(magic):
                unpacked = opened.enter_context(pa.CompressedInputStream(file, codec))
                file = opened.enter_context(io.BufferedReader(unpacked, _PIECE))
            elif packing(path) == ending:
                raise OSError(f"it is not packed with {codec}")
        yield file


def in_arrow(path: Path) -> tuple[Any, str]:
    """The file system and the name by which Arrow reads of a file elsewhere only what it needs."""
    from pyarrow import PythonFile
    from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

    class WithoutCache(FSSpecHandler):
        """Reads no more than is asked for, where fsspec would read megabytes ahead."""

        def open_input_file(self, path: str) -> PythonFile:
            return PythonFile(self.fs.open(path, "rb", cache_type="none"), mode="r")

    if isinstance(path, Address):
        with path._told():
            system, name = path._at
            return PyFileSystem(WithoutCache(system)), name
    return LocalFileSystem(), os.fspath(path)


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """A workbook and the name of its sheet, which may stand behind a colon: a.xlsx:Sheet 2."""
    found = re.fullmatch(r"(.+\.xlsx):([^:/\\]+)", str(path), re.IGNORECASE)
    return (place(found[1]), found[2]) if found else (path, None)


def result_path(path: Path, ending: str) -> Path:
    """The name of a result in the folder of the data: a/b.csv.gz gives a/b-report.html."""
    file, sheet = split_sheet(path)
    name = file.name if file.is_dir() else Path(file.name.removesuffix(packing(file))).stem
    return file.with_name(f"{name}{f'-{sheet}' if sheet else ''}{ending}")
