"""Cumulative Restricted Boltzmann Machines for ordinal data.

>>> import ordinalrbm as orbm
>>> orbm.CumulativeRBM(n_factors=20)
CumulativeRBM(n_factors=20)
"""

from ordinalrbm import evaluate
from ordinalrbm.baselines import GaussianMF, MultinomialRBM, OrdinalMF
from ordinalrbm.data import datasets
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import CumulativeRBM
from ordinalrbm.recommender import MatrixCumulativeRBM
from ordinalrbm.storage import load

__version__ = "0.1.0"
__all__ = [
    "CumulativeRBM",
    "DataError",
    "GaussianMF",
    "MatrixCumulativeRBM",
    "MultinomialRBM",
    "OrdinalMF",
    "datasets",
    "evaluate",
    "load",
]
