"""Cumulative Restricted Boltzmann Machines for ordinal data.

>>> import ordinalrbm as orbm
>>> orbm.CumulativeRBM(n_factors=20)
CumulativeRBM(n_factors=20)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    from ordinalrbm import data, evaluate, files, plots, report, words
    from ordinalrbm.data import datasets
    from ordinalrbm.data.never_asked import never_asked
    from ordinalrbm.estimators.ensemble import RatingEnsemble
    from ordinalrbm.estimators.matrix import MatrixCumulativeRBM
    from ordinalrbm.estimators.multinomial import MultinomialRBM
    from ordinalrbm.estimators.ordinal_mf import GaussianMF, OrdinalMF
    from ordinalrbm.estimators.survey import CumulativeRBM
    from ordinalrbm.files.parquet_parts import RatingsPart
    from ordinalrbm.stats.pooling import pool
    from ordinalrbm.storage.model_file import load

__version__ = "0.1.0"
__all__ = [
    "CumulativeRBM",
    "DataError",
    "GaussianMF",
    "MatrixCumulativeRBM",
    "MultinomialRBM",
    "OrdinalMF",
    "RatingEnsemble",
    "RatingsPart",
    "data",
    "datasets",
    "evaluate",
    "files",
    "load",
    "never_asked",
    "plots",
    "pool",
    "report",
    "words",
]

# Where public names are. They are fetched when first asked for: the libraries behind them take
# seconds to import, and the command line should not wait for what it does not use.
_HOMES = {
    "CumulativeRBM": "estimators.survey",
    "GaussianMF": "estimators.ordinal_mf",
    "MatrixCumulativeRBM": "estimators.matrix",
    "MultinomialRBM": "estimators.multinomial",
    "OrdinalMF": "estimators.ordinal_mf",
    "RatingEnsemble": "estimators.ensemble",
    "RatingsPart": "files.parquet_parts",
    "load": "storage.model_file",
    "never_asked": "data.never_asked",
    "pool": "stats.pooling",
}
_MODULES = {"datasets": "data.datasets"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"ordinalrbm.{_HOMES[name]}"), name)
    elif name in __all__:
        found = importlib.import_module(f"ordinalrbm.{_MODULES.get(name, name)}")
    else:
        raise AttributeError(f"module 'ordinalrbm' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
