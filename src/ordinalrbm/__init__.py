"""Cumulative Restricted Boltzmann Machines for ordinal data.

>>> import ordinalrbm as orbm
>>> orbm.CumulativeRBM(n_factors=20)
CumulativeRBM(n_factors=20)
"""

from ordinalrbm import evaluate
from ordinalrbm.data import datasets
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import CumulativeRBM, load
from ordinalrbm.recommender import MatrixCumulativeRBM

__version__ = "0.1.0"
__all__ = ["CumulativeRBM", "DataError", "MatrixCumulativeRBM", "datasets", "evaluate", "load"]
