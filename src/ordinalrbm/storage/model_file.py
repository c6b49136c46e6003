"""Model files: arrays and a JSON header, and the estimators that they make.

The container (:mod:`ordinalrbm.storage.container`) vouches for every bit. Here is what a file is
of, and the look at its contents: checksums tell damage, but anybody can compute them.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import place
from ordinalrbm.runtime.process_group import ALONE, Alone, Group, Stream
from ordinalrbm.storage import container
from ordinalrbm.storage.container import Header
from ordinalrbm.storage.reader import Stored

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_MOST_SAID = 300  # letters of what is wrong; values from a file may be of any length
is_model, write = container.is_ours, container.write
# The kind of a file that is no model, but the state of a learner.
CHECKPOINT = "checkpoint"


def load(path: str | os.PathLike) -> Any:
    """Read a model that was written with ``save``; no training data is needed.

    A file that is damaged, or that fits together in no way, is refused with a ``DataError``; files
    of unknown origin can be read without danger.

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
    with container.opened(path) as contents:
        estimator_of(path, contents.header)
        arrays = contents.arrays()
    with refused_if_useless(path):
        return _model(arrays, contents.header)


@contextmanager
def refused_if_useless(path: str | os.PathLike) -> Iterator[None]:
    """Name the file whose contents do not fit together."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:  # DataError is a ValueError
        raise DataError(
            f"File '{path}' holds a model that cannot be used ({_shortened(error)}); fit again, or take "
            "another copy of the file."
        ) from error


def _model(arrays: dict[str, np.ndarray], header: Header) -> BaseEstimator:
    module, name = _estimators()[header["model"]]
    return getattr(importlib.import_module(f"ordinalrbm.estimators.{module}"), name)._from_file(
        Stored(arrays, header)
    )


def _estimators() -> dict[str, tuple[str, str]]:
    """Looked up by name, because estimators in turn write files."""
    return importlib.import_module("ordinalrbm.estimators").ESTIMATORS


def _shortened(error: Exception) -> str:
    said = str(error).rstrip(".")
    return said if len(said) <= _MOST_SAID else said[:_MOST_SAID] + "..."


def save(
    path: str | os.PathLike,
    arrays: dict[str, np.ndarray],
    header: Header,
    of_all: dict[str, np.ndarray | Stream] | None = None,
    among: Alone | Group = ALONE,
) -> None:
    """Write a model file, unless it could not be read again: parameters may be no numbers.

    Several processes call this together, each with arrays that make a model of their own; the first writes
    the file, with those ``of_all`` in place of its own.
    """
    with among.raise_on_all_ranks():
        stored = {name: container.as_stored(name, array) for name, array in arrays.items()}
        as_read = json.loads(json.dumps(header, allow_nan=False))
        try:
            _model(stored, as_read)
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(
                f"The model was not saved to '{path}', because it could not be read again "
                f"({_shortened(error)}); fit it again, with a smaller learning rate if it has one."
            ) from error
    with among.raise_on_all_ranks():
        replaced = of_all or {}
        try:
            if not among.rank:
                write(path, stored | replaced, header)
        finally:  # others wait until what they send is taken
            for _, array in container.in_order(replaced):
                for _ in array.blocks if isinstance(array, Stream) else ():
                    pass


def read(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], Header]:
    """Arrays and header of a file, all checksums verified."""
    with container.opened(path) as contents:
        return contents.arrays(), contents.header


class Glance(NamedTuple):
    """The header of a file, the shapes of its arrays, and a few small ones."""

    header: Header
    shapes: dict[str, tuple[int, ...]]
    arrays: dict[str, np.ndarray]

    @property
    def is_checkpoint(self) -> bool:
        return self.header.get("model") == CHECKPOINT


def glance(path: str | os.PathLike, prefix: str = "history.") -> Glance:
    """Read the header and the arrays whose names begin so; the others may be of any size."""
    with container.opened(path) as contents:
        return Glance(contents.header, contents.shapes, contents.arrays(prefix))


def plain_number(value: Any) -> Any:
    """A NumPy number as one of Python's, which JSON can hold; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def estimator_of(path: str | os.PathLike, header: Header) -> tuple[str, str]:
    kind = header.get("model")
    if kind == CHECKPOINT:
        raise DataError(
            f"File '{path}' is a checkpoint, of a fit that may not have ended, and no model; use fit(..., "
            f"checkpoint='{place(path).parent}') with the data and settings of that fit to go on from it."
        )
    if not isinstance(kind, str) or kind not in _estimators():
        raise DataError(
            f"File '{path}' holds a model of a kind this ordinalrbm does not know "
            f"({kind!r:.80}); {container.which_release(header)}."
        )
    return _estimators()[kind]
