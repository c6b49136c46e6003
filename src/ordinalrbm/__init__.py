"""Cumulative Restricted Boltzmann Machines for ordinal data.

>>> import ordinalrbm as orbm
>>> orbm.CumulativeRBM(n_factors=20)
CumulativeRBM(n_factors=20)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ordinalrbm.errors import DataError
from ordinalrbm.estimators import ESTIMATORS
from ordinalrbm.runtime import __version__ as __version__

if TYPE_CHECKING:  # for editors and type checkers
    from ordinalrbm import data, evaluate, files, pages, plots, rerank
    from ordinalrbm.data import datasets
    from ordinalrbm.data.never_asked import never_asked
    from ordinalrbm.estimators.correlations import polychoric
    from ordinalrbm.estimators.ensemble import RatingEnsemble
    from ordinalrbm.estimators.imputer import OrdinalImputer
    from ordinalrbm.estimators.matrix import MatrixCumulativeRBM
    from ordinalrbm.estimators.multinomial import MultinomialRBM
    from ordinalrbm.estimators.ordinal_mf import GaussianMF, OrdinalMF
    from ordinalrbm.estimators.survey import CumulativeRBM
    from ordinalrbm.files.ratings import RatingsPart
    from ordinalrbm.files.survey import read_survey
    from ordinalrbm.pages.reporting import report
    from ordinalrbm.stats.design import SurveyDesign
    from ordinalrbm.stats.pooling import pool, pool_test, with_imputations
    from ordinalrbm.storage.model_file import load

# Where public names are. They are fetched when first asked for: the libraries behind them take
# seconds to import, and the command line should not wait for what it does not use.
_HOMES = {name: f"estimators.{module}" for module, name in ESTIMATORS.values()} | {
    "OrdinalImputer": "estimators.imputer",
    "RatingEnsemble": "estimators.ensemble",
    "RatingsPart": "files.ratings",
    "SurveyDesign": "stats.design",
    "load": "storage.model_file",
    "never_asked": "data.never_asked",
    "polychoric": "estimators.correlations",
    "pool": "stats.pooling",
    "pool_test": "stats.pooling",
    "read_survey": "files.survey",
    "report": "pages.reporting",
    "with_imputations": "stats.pooling",
}
_MODULES = {"data", "datasets", "evaluate", "files", "pages", "plots", "rerank"}
__all__ = sorted({"DataError", *_HOMES, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"ordinalrbm.{_HOMES[name]}"), name)
    elif name in _MODULES:
        found = importlib.import_module(
            "ordinalrbm.data.datasets" if name == "datasets" else f"ordinalrbm.{name}"
        )
    else:
        raise AttributeError(f"module 'ordinalrbm' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
