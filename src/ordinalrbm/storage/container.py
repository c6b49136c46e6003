"""The container of our files: safetensors, with a version and a checksum over every bit.

safetensors checks that the types, shapes and places of all arrays agree with one another and with the size of
the file before any memory is taken. Nothing in such a file can be executed, and other programs can read it.

The only metadata, ``ordinalrbm``, is a JSON text. It begins with the checksum of all that comes
before the arrays, in which that checksum itself counts as zeros, and holds one of every array.

Files of another version are refused.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from ordinalrbm.errors import DataError
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.blocks import each
from ordinalrbm.runtime.places import Address, place
from ordinalrbm.runtime.process_group import Stream
from ordinalrbm.storage.atomic import atomic_write

FORMAT = "ordinalrbm"
VERSION = "2.0"

TYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
_NAMES = {kind: name for name, kind in TYPES.items()}
_LENGTH = 8  # bytes of the number that a file begins with: how long the JSON is
# How every file of ours goes on, of whatever version.
_MAGIC = b'{"__metadata__":{"ordinalrbm":"'
_CHECKSUM = len(_MAGIC) + _LENGTH + len(rb"{\"checksum\": \"")  # where it begins
_ZEROS = b"0" * 32
# Parsed JSON takes up to twenty times its own length, and a file may say what it likes.
MOST_JSON = 16 * 2**20
_MOST_NUMBERS = 2**40  # of an array, also where a zero among its dimensions hides the others
_MOST_SAID = 200  # letters of what is wrong; names from a file may be of any length

Header = dict[str, Any]  # what JSON can hold


class BrokenFileError(Exception):
    """What is wrong with the bytes of a file, to be said in brackets."""


class DamagedFileError(BrokenFileError):
    """A checksum differs."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is not what was written (its checksum differs)")


# Writing


def as_stored(name: str, array: np.ndarray) -> np.ndarray:
    """An array as a file holds it: numbers, little end first, row by row."""
    array = np.asarray(array)
    if array.dtype.newbyteorder("<") not in _NAMES:
        raise TypeError(f"The array {name!r} is of type {array.dtype}; files hold numbers only.")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def write(path: str | os.PathLike, arrays: Mapping[str, np.ndarray | Stream], header: Header) -> None:
    """Write a file, all of it or nothing; equal arrays and headers make equal bytes."""
    # Not by safetensors' save_file, which leaves a half-written file of its own when it is killed.
    order = in_order(arrays)
    stored = {name: array if isinstance(array, Stream) else as_stored(name, array) for name, array in order}
    checksums = _checksums({n: array for n, array in stored.items() if not isinstance(array, Stream)})
    with atomic_write(path) as target, target.open("wb") as file:
        file.write(_front(header, stored, checksums))  # of the same length as in the end
        for name, array in stored.items():
            if not isinstance(array, Stream):
                file.write(_bytes_of(array))
                continue
            digest = _Digest()
            for block in array.blocks:
                content = _bytes_of(as_stored(name, block))
                file.write(content)
                digest.update(content)
            checksums[name] = digest.hexdigest()
        file.seek(0)
        file.write(_front(header, stored, checksums))


def in_order(arrays: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """As they are in a file: wide types first, so that every array begins where its type wants to."""
    return sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))


def _front(header: Header, arrays: Mapping[str, np.ndarray | Stream], checksums: dict[str, str]) -> bytes:
    """What comes before the arrays: the length of the JSON, and the JSON; with its own checksum."""
    about = {
        "checksum": _ZEROS.decode(),
        "format": FORMAT,
        "version": VERSION,
        "release": __version__,
        **header,
        "checksums": {name: checksums.get(name, _ZEROS.decode()) for name in sorted(arrays)},
    }
    said: Header = {"__metadata__": {FORMAT: json.dumps(about, allow_nan=False)}}
    end = 0
    for name, array in arrays.items():
        offsets = [end, end := end + array.nbytes]
        said[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
    text = json.dumps(said, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_JSON:
        raise DataError(
            f"The model's header has {len(text):,} bytes, more than the {MOST_JSON:,} that a file "
            "can have; give fewer item_scales or shorter notes."
        )
    front = len(text).to_bytes(_LENGTH, "little") + text
    return _with_checksum(front, _digest(front).encode())


def _with_checksum(front: bytes, checksum: bytes) -> bytes:
    return front[:_CHECKSUM] + checksum + front[_CHECKSUM + len(checksum) :]


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _checksums(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    contents = [_bytes_of(array) for array in arrays.values()]
    return dict(zip(arrays, each(_digest, contents, sum(map(len, contents))), strict=True))


_Digest = partial(blake2b, digest_size=len(_ZEROS) // 2)


def _digest(content: bytes | memoryview) -> str:
    return _Digest(content).hexdigest()


# Reading


class Contents(NamedTuple):
    """An open file: its header, and arrays that are read when they are needed."""

    header: Header
    shapes: dict[str, tuple[int, ...]]
    checksums: Header
    layout: Any  # of safetensors

    def arrays(self, prefix: str = "") -> dict[str, np.ndarray]:
        """The arrays whose names begin so, in memory of their own, their checksums verified."""
        names = [name for name in self.shapes if name.startswith(prefix)]
        size = sum(prod(self.shapes[name]) for name in names)
        return dict(zip(names, each(self._array, names, size), strict=True))

    def _array(self, name: str) -> np.ndarray:
        try:
            array: np.ndarray = self.layout.get_tensor(name)
        except ValueError as error:
            raise _senseless(name) from error
        content = _bytes_of(array)
        if _digest(content) != self.checksums[name]:
            raise DamagedFileError(f"its array '{name:.80}'")
        if array.dtype == np.bool_ and np.asarray(content).max(initial=0) > 1:
            raise _senseless(name)
        return array


@contextmanager
def opened(path: str | os.PathLike) -> Iterator[Contents]:
    """A file of ours with its header verified; whatever is wrong with it is a DataError."""
    target = place(path)
    if target.is_dir():
        raise DataError(f"'{target}' is a folder; give a model file.")
    if not target.is_file():
        raise DataError(f"File '{target}' does not exist; give the path that was saved to.")
    try:
        # Opened once: another file may take the place of this one at any time.
        with open(target, "rb", buffering=0) as file:
            front = _read_front(file)
            # Not by a map, which would end the process should the file get shorter meanwhile.
            with safe_open(_name_of(file, target), "np", backend="pread") as layout:
                yield _contents(target, front, layout)
    except DamagedFileError as error:
        raise DataError(
            f"File '{target}' is damaged: {error}; take another copy of the file, or save the model again."
        ) from error
    except (BrokenFileError, SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())[:_MOST_SAID]
        raise DataError(
            f"File '{target}' is not a model file of ordinalrbm ({reason}); give a file written by save() "
            "or `ordinalrbm fit`."
        ) from error


def is_ours(path: str | os.PathLike) -> bool:
    """Whether a file begins like one of ours, whatever is in it."""
    try:
        # What is no file, such as a pipe, would let us wait for ever.
        target = place(path)
        if not target.is_file():
            return False
        with target.raw() if isinstance(target, Address) else open(target, "rb") as file:
            return file.read(_LENGTH + len(_MAGIC)).endswith(_MAGIC)
    except (OSError, ValueError):
        return False


def which_release(header: Header) -> str:
    """The advice to use the release that wrote a file, with its number if there is one."""
    release = header.get("release")
    if isinstance(release, str) and re.fullmatch(r"[0-9][0-9A-Za-z.+-]{0,30}", release):
        return f"use the release that wrote it, ordinalrbm {release}"
    return "use the release that wrote it"


def _name_of(file: FileIO, path: Path) -> Path:
    """A name by which a library opens the file that is open, and no later one at its path."""
    name = Path("/dev/fd") / str(file.fileno())
    return name if name.exists() else path  # Windows replaces no file that is open


def _read_front(file: FileIO) -> bytes:
    first = file.read(_LENGTH + len(_MAGIC))
    length = int.from_bytes(first[:_LENGTH], "little")
    if not first.endswith(_MAGIC) or length < len(_MAGIC):
        raise BrokenFileError("it does not begin like one")
    if length > MOST_JSON:
        raise BrokenFileError(f"its header is longer than {MOST_JSON:,} bytes")
    return first + file.read(length - len(_MAGIC))


def _contents(path: Path, front: bytes, layout: Any) -> Contents:
    header = _parsed((layout.metadata() or {}).get(FORMAT, ""))
    if header.get("format") != FORMAT:
        raise BrokenFileError("its header is of another format")
    if header.get("version") != VERSION:  # before the checksum, which may then be another one
        raise DataError(
            f"File '{path}' has format version {header.get('version')!s:.20}, and this ordinalrbm "
            f"reads version {VERSION}; {which_release(header)}, or fit again."
        )
    if header.pop("checksum", None) != _digest(_with_checksum(front, _ZEROS)):
        raise DamagedFileError("its header")
    shapes = {name: _shape(name, layout.get_slice(name)) for name in layout.keys()}  # noqa: SIM118
    sums = header.pop("checksums", None)
    if not isinstance(sums, dict) or set(sums) != set(shapes):
        raise BrokenFileError("its header lacks the checksums of some arrays")
    return Contents(header, shapes, sums, layout)


def _shape(name: str, array: Any) -> tuple[int, ...]:
    shape = tuple(array.get_shape())
    # Python's integers do not overflow, whatever the file says.
    if array.get_dtype() not in TYPES or prod(max(n, 1) for n in shape) > _MOST_NUMBERS:
        raise _senseless(name)
    return shape


def _senseless(name: str) -> BrokenFileError:
    return BrokenFileError(f"its header says nothing sensible about the array {name[:80]!r}")


def _parsed(text: str) -> Header:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} stands in it")

    try:
        parsed = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"its header is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise BrokenFileError("its header is no JSON object")
    return parsed
