"""Files elsewhere: at addresses such as s3://bucket/films.orbm, and packed in .gz, .zst or .zip.

fsspec knows the systems, and each of them its own credentials. fsspec is imported when an address is given.
"""

import atexit
import hashlib
import io
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import ENOENT
from fnmatch import fnmatch
from functools import cache, cached_property
from pathlib import Path
from stat import S_IFDIR, S_IFREG, S_ISDIR, S_ISREG
from typing import Any

from ordinalrbm.errors import DataError

PACKED = (".gz", ".zst", ".zip")
_CODECS = {".gz": ("gzip", b"\x1f\x8b"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:/")  # a drive of Windows has one letter
_OF_EXTRA = ("s3", "s3a", "http", "https")  # what ordinalrbm[cloud] has packages for
# A file that unpacks to more than so many bytes, and so many times its size, is a decompression bomb.
_LARGE, _DENSEST, _PIECE = 1 << 28, 200, 1 << 20
_MOST_SAID = 200  # letters of what a library says
_copies: dict[Any, tuple[tuple[int, ...], Path]] = {}


def place(path: str | os.PathLike) -> Path:
    """A path of this machine, or the address that a text or a path holds."""
    if isinstance(path, Address):
        return path
    text = os.fspath(path)
    if text.startswith("file:/"):
        return Path("/" + text[5:].lstrip("/"))
    return Address(text) if _ADDRESS.match(text) else Path(path)


def unpacked(path: Path) -> Path:
    """The same file, which opens as what is packed in it if its name says that it is packed."""
    return Packed(path) if packing(path) and not path.is_dir() else path


def packing(path: Path) -> str:
    return next((end for end in PACKED if path.name.lower().endswith(end)), "")


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
        key = type(self), str(self)  # an archive, or what is in it
        now = found.st_ino, found.st_size, 0 if found.st_mtime_ns is None else found.st_mtime_ns
        stamp, copy = _copies.get(key, (None, Path()))
        if stamp == now and copy.exists():
            return str(copy)
        if stamp is not None:
            shutil.rmtree(copy.parent, ignore_errors=True)
        copy = Path(tempfile.mkdtemp(dir=_folder())) / self.name
        try:
            self._fetch(copy, found.st_size)
        except BaseException:
            shutil.rmtree(copy.parent)
            raise
        _copies[key] = now, copy
        return str(copy)

    def _fetch(self, copy: Path, size: int) -> None:
        with stream(self) as packed, copy.open("wb") as file:
            while piece := packed.read(_PIECE):
                file.write(piece)
                if file.tell() > max(_LARGE, _DENSEST * size) and isinstance(self, Packed):
                    raise DataError(f"File '{self}' unpacks to gigabytes; unpack it yourself.")

    @property
    def name(self) -> str:
        """The last part, of zip://a.csv::s3://b/c.zip what is inside."""
        return str(self).split("::")[0].rsplit("/", 1)[-1].split("?")[0]

    def with_name(self, name: str) -> Path:
        return place(f"{str(self).split('::')[-1].rpartition('/')[0]}/{name}")

    def stat(self, **_: Any) -> os.stat_result:
        """The kind and size of the file; the place of its inode has what changes when the file does."""
        if self._at is None:
            return os.stat(str(self))
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
        if self._at is None:
            return open(str(self), "rb")
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
        try:
            if bucket and bucket != path:
                fs.info(bucket)
        except FileNotFoundError as error:
            raise DataError(
                f"'{bucket}' does not exist, where '{self}' should be; create it or write elsewhere."
            ) from error
        except PermissionError:
            pass  # whoever may write need not be allowed to look

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
        """The file system and the path in it; None of a packed file of this machine."""
        text = str(self)
        if not _ADDRESS.match(text):
            return None
        with self._told():
            from fsspec.core import url_to_fs

            fs, path = url_to_fs(text)
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
            short, protocol = _short(cause), str(self).partition(":")[0]
            if isinstance(cause, ImportError):
                is_ours = protocol in _OF_EXTRA or (cause.name or "").startswith("fsspec")
                how = "pip install 'ordinalrbm[cloud]'" if is_ours else "install it with pip"
                said = f"needs another package ({short}); {how}"
            elif "Protocol not known" in short:
                said = "is at an address of an unknown kind; begin it with s3://, gs://, abfs:// or https://"
            elif is_refused or "Credentials" in type(cause).__name__:
                said = f"may not be {done} ({short}); check the credentials"
            else:
                said = f"cannot be {done} ({short}); check the address and the network"
            raise DataError(f"File '{self}' {said}.") from error


def _short(error: Exception) -> str:
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}..."


@cache
def _folder() -> str:
    folder = tempfile.mkdtemp(prefix="ordinalrbm-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Packed(Address):
    """A file, here or elsewhere, that opens as what is packed in it; its name is that of the contents."""

    @cached_property
    def name(self) -> str:
        name, _, ending = Address(self).name.rpartition(".")
        if Path(name).suffix or ending.lower() != "zip":  # survey.sav.zip need not be looked into
            return name
        with zipfile.ZipFile(_copy_of(self)) as archive:
            return _only_member(archive, self).rpartition("/")[2]


@contextmanager
def stream(path: Any) -> Iterator[io.BufferedReader]:
    """A file from its beginning, unpacked if it is packed."""
    import pyarrow as pa  # the header of a model is read sooner

    is_address = isinstance(path, Address)
    ending = packing(Address(path) if is_address else path)
    with ExitStack() as opened:
        raw = opened.enter_context(path.raw("readahead") if is_address else path.open("rb", buffering=0))
        file, start = opened.enter_context(io.BufferedReader(raw)), b""
        if ending == ".zip" and type(path) is not Address:
            archive = opened.enter_context(zipfile.ZipFile(_copy_of(path)))
            raw = opened.enter_context(archive.open(_only_member(archive, path)))
        else:
            start = file.peek(4)
        for end, (codec, magic) in _CODECS.items():
            if start.startswith(magic):
                raw = opened.enter_context(pa.CompressedInputStream(file, codec))
            elif ending == end:
                raise OSError(f"it is not packed with {codec}")
        yield file if raw is file.raw else opened.enter_context(io.BufferedReader(raw, _PIECE))


def _copy_of(path: Path) -> str:
    """An archive on this machine."""
    return os.fspath(place(str(path)))


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    names = [one.filename for one in archive.infolist() if not one.is_dir()]
    names = [name for name in names if not name.startswith(("__MACOSX/", "."))]
    if len(names) != 1:
        first = names[0] if names else "NAME"
        raise DataError(
            f"File '{path}' holds {len(names)} files; give one of them, such as 'zip://{first}::{path}'."
        )
    return names[0]


def in_arrow(path: Any) -> tuple[Any, str]:
    """The file system and the name by which Arrow reads of a file elsewhere only what it needs."""
    from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

    if isinstance(path, Address) and not isinstance(path, Packed):
        with path._told():
            system, name = path._at
            return PyFileSystem(FSSpecHandler(system)), name
    return LocalFileSystem(), os.fspath(path)
