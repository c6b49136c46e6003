"""Cumulative Restricted Boltzmann Machines for ordinal data.

>>> import ordinalrbm as orbm
>>> orbm.CumulativeRBM(n_factors=20)
CumulativeRBM(n_factors=20)
"""

from ordinalrbm.data import datasets
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import CumulativeRBM, load

__version__ = "0.1.0"
__all__ = ["CumulativeRBM", "DataError", "datasets", "load"]
