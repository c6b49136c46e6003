"""Model files: arrays and a JSON header that can be trusted. Nothing in them can be executed.

The container is safetensors (:mod:`ordinalrbm.storage.container`). Its first text, ``ordinalrbm``, is the
header of the model with format, version, release and a checksum of every array; its second,
``checksum``, is over all that stands before the arrays, itself written as zeros. So every bit of a
file is covered, and equal models make equal files.

Versions are major.minor. A new minor adds what older releases can do without: they ignore it. A
new major is refused by them. What is needed stays as it is within a major.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm import __version__
from ordinalrbm.errors import DataError
from ordinalrbm.storage import container
from ordinalrbm.storage.atomic import atomic_write
from ordinalrbm.storage.container import BrokenFileError, Front
from ordinalrbm.storage.reader import Stored

FORMAT = "ordinalrbm"
MAJOR, MINOR = 1, 0
# How every model file goes on after its first eight bytes.
MAGIC = b'{"__metadata__":{"ordinalrbm":"'
_CHECKSUM = "checksum"
_ZEROS = "0" * 32
_MOST_SAID = 300  # letters of what is wrong; values from a file may be of any length
# The kind of a file that is no model, but where a learner stands.
CHECKPOINT = "checkpoint"
# Where the estimator behind each kind of file is; looked up only when such a file is read, because
# estimators in turn write files.
_KINDS = {
    "vector": ("ordinalrbm.estimators.survey", "CumulativeRBM"),
    "matrix": ("ordinalrbm.estimators.ratings", "MatrixCumulativeRBM"),
    "gaussian_mf": ("ordinalrbm.estimators.baselines", "GaussianMF"),
    "ordinal_mf": ("ordinalrbm.estimators.baselines", "OrdinalMF"),
    "multinomial_rbm": ("ordinalrbm.estimators.baselines", "MultinomialRBM"),
}


def load(path: str | os.PathLike) -> Any:
    """Read a model that was written with ``save``; no training data is needed.

    A file that is damaged, or that fits together in no way, is refused with a ``DataError``; files
    of strangers can be read without danger.

    Examples
    --------
    >>> import tempfile, os, numpy as np, ordinalrbm as orbm
    >>> X = np.array([[1, 1], [2, 2], [3, 3]] * 20)
    >>> model = orbm.CumulativeRBM(n_factors=2, n_epochs=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "survey.orbm")
    ...     model.save(path)
    ...     again = orbm.load(path)
    >>> bool(np.array_equal(again.transform(X), model.transform(X)))
    True
    """
    with _opened(path) as (file, front, header):
        estimator_of(path, header)
        arrays = _arrays(file, front, header)
    with refused_if_useless(path):
        return _model(arrays, header)


@contextmanager
def refused_if_useless(path: str | os.PathLike) -> Iterator[None]:
    """Say of which file it is that its contents do not fit together."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:  # DataError is a ValueError
        raise DataError(
            f"File '{path}' holds a model that cannot be used ({_shortened(error)}); save it "
            "again, or take another copy of the file."
        ) from error


def _model(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Any:
    """The estimator that these make, if they fit together."""
    module, name = _KINDS[header["model"]]
    stored = Stored(arrays, header, is_newer=_version(header)[1] > MINOR)
    return getattr(importlib.import_module(module), name)._from_file(stored)


def _shortened(error: Exception) -> str:
    said = str(error).rstrip(".")
    return said if len(said) <= _MOST_SAID else said[:_MOST_SAID] + "..."


def save(path: str | os.PathLike, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    """Write a model file, unless it could not be read again: parameters may be no numbers."""
    plain = {name: container.plain(name, array) for name, array in arrays.items()}
    as_read = json.loads(json.dumps(header, allow_nan=False))
    try:
        _model(plain, as_read)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(
            f"The model was not saved to '{path}', because it could not be read again "
            f"({_shortened(error)}); fit it again, with a smaller learning rate if it has one."
        ) from error
    write(path, plain, header)


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    """Write a file; equal arrays and headers make equal files."""
    places = container.layout(arrays)
    plain = {name: container.plain(name, arrays[name]) for name in places}
    about = {
        "format": FORMAT,
        "version": f"{MAJOR}.{MINOR}",
        "release": __version__,
        **header,
        "checksums": {name: container.digest([container.as_bytes(plain[name])]) for name in places},
    }
    text = json.dumps(about, ensure_ascii=False, allow_nan=False)
    open_front = container.front_bytes({FORMAT: text, _CHECKSUM: _ZEROS}, places)
    checksum = container.digest([open_front])
    front = container.front_bytes({FORMAT: text, _CHECKSUM: checksum}, places)
    with atomic_write(path) as file:
        container.write(file, front, plain.values())


def _checksum_text(checksum: str) -> bytes:
    # Quotes inside the header are escaped, so that this stands nowhere else.
    return f'","{_CHECKSUM}":"{checksum}"}}'.encode()


def _anything(name: str) -> bool:
    return True


def read(
    path: str | os.PathLike, wanted: Callable[[str], bool] = _anything
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and header of a model file, all checksums verified; or only some of the arrays."""
    with _opened(path) as (file, front, header):
        return _arrays(file, front, header, wanted), header


class Glance(NamedTuple):
    """What a file says of itself: its header, the shapes of its arrays, and a few small ones."""

    header: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    arrays: dict[str, np.ndarray]

    @property
    def is_checkpoint(self) -> bool:
        """Whether it is no model, but where a learner stands."""
        return self.header.get("model") == CHECKPOINT


def glance(path: str | os.PathLike, prefix: str = "history.") -> Glance:
    """Read the header and the arrays whose names begin so; the others may be of any size."""
    with _opened(path) as (file, front, header):
        arrays = _arrays(file, front, header, lambda name: name.startswith(prefix))
        return Glance(header, {place.name: place.shape for place in front.places}, arrays)


class _DamagedFileError(BrokenFileError):
    """A checksum differs."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is not what was written (its checksum differs)")


@contextmanager
def _opened(path: str | os.PathLike) -> Iterator[tuple[Any, Front, dict[str, Any]]]:
    """A model file with what stands before its arrays and its header; trouble is one sentence."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"'{target}' is a folder; give a model file.")
    if not target.is_file():
        raise DataError(f"File '{target}' does not exist; give the path that was saved to.")
    try:
        with target.open("rb", buffering=0) as raw:
            if not container.begins_with(raw, MAGIC):
                raise BrokenFileError("it does not begin like one")
            front = container.read_front(raw)
            header = container.parse(front.texts.get(FORMAT, ""))
            _check_header(target, front, header)
            yield raw, front, header
    except _DamagedFileError as error:
        raise DataError(
            f"File '{target}' is damaged: {error}; take another copy of the file, or save the "
            "model again."
        ) from error
    except (BrokenFileError, OSError) as error:
        raise DataError(
            f"File '{target}' is not a model file of ordinalrbm ({error}); "
            "give a file written by save()."
        ) from error


def is_model(path: str | os.PathLike) -> bool:
    """Whether a file is one of ours, whatever is in it."""
    try:
        # What is no file, such as a pipe, would let us wait for ever.
        if not Path(path).is_file():
            return False
        with open(path, "rb", buffering=0) as file:
            return container.begins_with(file, MAGIC)
    except (OSError, ValueError):
        return False


def plain_number(value: Any) -> Any:
    """A NumPy number as one of Python's, which JSON can hold; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


# Reading


def _check_header(path: Path, front: Front, header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT:
        raise BrokenFileError("its header is of another format")
    if _version(header)[0] != MAJOR:  # before the checksum, which may then be another one
        raise DataError(
            f"File '{path}' has format version {header.get('version')!s:.20}, this ordinalrbm "
            f"reads version {MAJOR}; {_which_release(header)}, or fit again."
        )
    checksum = front.texts.get(_CHECKSUM, "")
    written, blank = _checksum_text(checksum), _checksum_text(_ZEROS)
    if container.digest([front.content.replace(written, blank, 1)]) != checksum:
        raise _DamagedFileError("its header")
    sums = header.get("checksums")
    if not isinstance(sums, dict) or set(sums) != {place.name for place in front.places}:
        raise BrokenFileError("its header lacks the checksums of some arrays")


def _version(header: dict[str, Any]) -> tuple[int, int]:
    """Major and minor; (-1, -1) for what is no version."""
    said = header.get("version")
    found = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", said) if isinstance(said, str) else None
    return (int(found[1]), int(found[2])) if found else (-1, -1)


def _which_release(header: dict[str, Any]) -> str:
    release = header.get("release")
    if isinstance(release, str) and re.fullmatch(r"[0-9][0-9A-Za-z.+-]{0,30}", release):
        return f"use the release that wrote it, ordinalrbm {release}"
    return "use the release that wrote it"


def _arrays(
    file: Any, front: Front, header: dict[str, Any], wanted: Callable[[str], bool] = _anything
) -> dict[str, np.ndarray]:  # fmt: skip
    arrays = {}
    for place in front.places:
        if not wanted(place.name):
            continue
        arrays[place.name], checksum = container.read_array(file, front, place)
        if checksum != header["checksums"][place.name]:
            raise _DamagedFileError(f"its array '{place.name:.80}'")
    return arrays


def estimator_of(path: str | os.PathLike, header: dict[str, Any]) -> tuple[str, str]:
    """Module and name of the estimator that a file is of."""
    kind = header.get("model")
    if kind == CHECKPOINT:
        raise DataError(
            f"File '{path}' is a checkpoint, of a fit that may not have ended, and no model; use "
            f"fit(..., checkpoint='{Path(path).parent}') with the data and settings of that fit to "
            "go on from it."
        )
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(
            f"File '{path}' holds a model of a kind this ordinalrbm does not know "
            f"({kind!r:.80}); {_which_release(header)}."
        )
    return _KINDS[kind]
