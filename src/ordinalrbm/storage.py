"""Model files: safetensors with a JSON header. Nothing in them can be executed."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ordinalrbm.errors import DataError
from ordinalrbm.whole import written_whole

FORMAT = "ordinalrbm"
VERSION = 1
# Where the estimator behind each kind of file is; looked up only when such a file is read, because
# estimators in turn write files.
_KINDS = {
    "vector": ("ordinalrbm.estimators", "CumulativeRBM"),
    "matrix": ("ordinalrbm.recommender", "MatrixCumulativeRBM"),
    "gaussian_mf": ("ordinalrbm.baselines", "GaussianMF"),
    "ordinal_mf": ("ordinalrbm.baselines", "OrdinalMF"),
    "multinomial_rbm": ("ordinalrbm.baselines", "MultinomialRBM"),
}


def load(path: str | os.PathLike) -> Any:
    """Read a model that was written with ``save``; no training data is needed.

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
    arrays, header = read(path)
    if header.get("model") not in _KINDS:
        raise DataError(
            f"File '{path}' holds a model of a kind this ordinalrbm does not know "
            f"({header.get('model')!r}); use the release that wrote it."
        )
    module, name = _KINDS[header["model"]]
    try:
        return getattr(importlib.import_module(module), name)._from_file(arrays, header)
    except (KeyError, TypeError) as error:
        raise DataError(
            f"File '{path}' lacks a part of the model ({error}); save it again."
        ) from error


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    """Write a model file."""
    about = {"format": FORMAT, "version": VERSION, **header}
    content = save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={FORMAT: json.dumps(about, ensure_ascii=False, allow_nan=False)},
    )
    with written_whole(path) as file:
        file.write_bytes(content)


def read(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and header of a model file."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"'{target}' is a folder; give a model file.")
    if not target.exists():
        raise DataError(f"File '{target}' does not exist; give the path that was saved to.")
    try:
        with safe_open(target, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get(FORMAT, "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise DataError(
            f"File '{target}' is not a model file of ordinalrbm ({error}); "
            "give a file written by save()."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(
            f"File '{target}' is not a model file of ordinalrbm; give a file written by save()."
        )
    if header.get("version") != VERSION:
        raise DataError(
            f"File '{target}' has format version {header.get('version')}, this ordinalrbm reads "
            f"version {VERSION}; use the release that wrote it, or fit again."
        )
    return arrays, header


def is_model(path: str | os.PathLike) -> bool:
    """Whether a file is one of ours, whatever is in it."""
    try:
        with safe_open(path, framework="numpy") as file:
            return FORMAT in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def plain_number(value: Any) -> Any:
    """A NumPy number as one of Python's, which JSON can hold; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value
