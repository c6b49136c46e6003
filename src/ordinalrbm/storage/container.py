"""The container of model files: the safetensors format, written and read with care.

Eight bytes say how long the JSON is that follows; it has the type, the shape and the place of every
array, and a few texts; then come the arrays, without gaps. Nothing in it can be executed, and other
programs can read it.

We write it ourselves so that equal models make equal bytes and no second copy of a model is made in
memory, and read it ourselves so that every number is checked before memory is taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ordinalrbm.errors import DataError

TYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
_NAMES = {kind: name for name, kind in TYPES.items()}
_TEXTS = "__metadata__"
_LENGTH = 8  # bytes of the number that a file begins with
_ALIGNMENT = 8
# Parsed JSON takes up to twenty times its own length, and a file may say what it likes.
MOST_JSON = 16 * 2**20
_MOST_ARRAYS = 20_000
_MOST_DIMENSIONS = 8
_MOST_NUMBERS = 2**40  # of an array; also where a zero among its dimensions hides the others
_BLOCK = 4 * 2**20  # what is read and summed at a time, so that it stays in the cache


class BrokenFileError(Exception):
    """What is wrong with the bytes of a file, to be said in brackets."""


class Place(NamedTuple):
    """What a file says about one of its arrays; bytes are counted from the first array."""

    name: str
    kind: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


class Front(NamedTuple):
    """What stands before the arrays: its bytes as they are, the texts, where the arrays are."""

    content: bytes
    texts: dict[str, str]
    places: list[Place]


def digest(parts: Iterable[Any]) -> str:
    """Checksum of some bytes, in 32 letters."""
    state = blake2b(digest_size=16)
    for part in parts:
        state.update(part)
    return state.hexdigest()


# Writing


def plain(name: str, array: Any) -> np.ndarray:
    """An array as a file holds it: numbers, little end first, row by row."""
    array = np.asarray(array)
    if array.dtype.newbyteorder("<") not in _NAMES:
        raise TypeError(f"The array {name!r} is of type {array.dtype}; files hold numbers only.")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def layout(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Type, shape and place of each array, in the order in which they follow each other."""
    # Wide types first keeps every array where its type wants it; then by name, so that the order
    # in which they were made does not matter.
    order = sorted(arrays, key=lambda name: (-np.asarray(arrays[name]).dtype.itemsize, name))
    places, end = {}, 0
    for name in order:
        array = plain(name, arrays[name])
        places[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
    return places


def write(path: Path, front: bytes, arrays: Iterable[np.ndarray]) -> None:
    """Write what stands before the arrays, and these one after the other."""
    with path.open("wb") as file:
        file.write(front)
        for array in arrays:
            file.write(as_bytes(array).data)


def front_bytes(texts: dict[str, str], places: dict[str, Any]) -> bytes:
    """Length and JSON, filled up with spaces to where an array may begin."""
    text = json.dumps({_TEXTS: texts, **places}, separators=(",", ":"), allow_nan=False).encode(
        "ascii"
    )
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(places) > _MOST_ARRAYS:
        raise DataError(
            f"The model has {len(places):,} arrays, more than the {_MOST_ARRAYS:,} that a file can "
            "have; lower n_averaged."
        )
    if len(text) > MOST_JSON:
        raise DataError(
            f"The model's header has {len(text):,} bytes, more than the {MOST_JSON:,} that a file "
            "can have; give fewer item_scales or shorter notes."
        )
    return len(text).to_bytes(_LENGTH, "little") + text


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array that is contiguous, without a copy."""
    return array.reshape(-1).view(np.uint8)


# Reading


def begins_with(file: BinaryIO, text: bytes) -> bool:
    """Whether the JSON of a file begins with these bytes; nothing else is read."""
    file.seek(_LENGTH)
    return file.read(len(text)) == text


def read_front(file: BinaryIO) -> Front:
    """What stands before the arrays, checked against the size of the file."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    first = file.read(_LENGTH)
    length = int.from_bytes(first, "little")
    if len(first) < _LENGTH or length > size - _LENGTH:
        raise BrokenFileError("it ends too early")
    if length > MOST_JSON:
        raise BrokenFileError(f"its header is longer than {MOST_JSON:,} bytes")
    text = file.read(length)
    parsed = parse(text)
    texts = parsed.pop(_TEXTS, None)
    if not isinstance(texts, dict) or not all(isinstance(one, str) for one in texts.values()):
        raise BrokenFileError("its header has no texts")
    if len(parsed) > _MOST_ARRAYS:
        raise BrokenFileError(f"it has more than {_MOST_ARRAYS:,} arrays")
    places = [_place(name, said) for name, said in parsed.items()]
    _check_order(places, size - _LENGTH - length)
    return Front(first + text, texts, places)


def parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object in which no name stands twice and every number is one."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = dict(pairs)
        if len(names) < len(pairs):
            raise ValueError("a name stands twice in it")
        return names

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} stands in it")

    try:
        parsed = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"its header is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise BrokenFileError("its header is no JSON object")
    return parsed


def _place(name: str, said: Any) -> Place:
    wrong = BrokenFileError(f"its header says nothing sensible about the array {name[:80]!r}")
    if not isinstance(said, dict) or set(said) != {"dtype", "shape", "data_offsets"}:
        raise wrong
    kind, shape, offsets = said["dtype"], said["shape"], said["data_offsets"]
    if not (isinstance(kind, str) and kind in TYPES and _whole(shape) and _whole(offsets)):
        raise wrong
    if len(shape) > _MOST_DIMENSIONS or len(offsets) != 2:
        raise wrong
    # Python's integers do not overflow, whatever the file says.
    n_numbers, hidden = 1, 1
    for length in shape:
        n_numbers, hidden = n_numbers * length, hidden * max(length, 1)
    if hidden > _MOST_NUMBERS or offsets[1] - offsets[0] != n_numbers * TYPES[kind].itemsize:
        raise wrong
    return Place(name, TYPES[kind], tuple(shape), *offsets)


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)


def _check_order(places: list[Place], size: int) -> None:
    """The arrays must follow each other to the end of the file, without gap or overlap."""
    end = 0
    for place in sorted(places, key=lambda place: (place.start, place.stop)):
        if place.start != end:
            raise BrokenFileError(f"the array {place.name[:80]!r} is not where it should be")
        end = place.stop
    if end != size:
        raise BrokenFileError(f"its arrays have {end:,} bytes, but there are {size:,}")


def read_array(file: BinaryIO, front: Front, place: Place) -> tuple[np.ndarray, str]:
    """One array, in memory of its own, and the checksum of its bytes.

    What was summed is what is used, even if the file changes meanwhile; a map of the file would
    not promise that, and would end the process when the file gets shorter.
    """
    content = np.empty(place.stop - place.start, dtype=np.uint8)
    file.seek(len(front.content) + place.start)

    def blocks() -> Iterable[memoryview]:
        for start in range(0, content.size, _BLOCK):
            block = content[start : start + _BLOCK].data
            if file.readinto(block) != len(block):  # type: ignore[attr-defined]
                raise BrokenFileError("it became shorter while it was read")
            yield block

    checksum = digest(blocks())
    if place.kind == np.bool_ and content.max(initial=0) > 1:
        raise BrokenFileError(f"the array {place.name[:80]!r} is neither true nor false somewhere")
    return content.view(place.kind).reshape(place.shape), checksum
