"""The last touch: how far to believe the factors, judged by ratings that were not learnt from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from ordinalrbm.infer.pairs import Pairs, log_probability
from ordinalrbm.model.matrix import MatrixModel

# More validation ratings do not change three numbers.
_ENOUGH = 50_000
# Drawn towards one as if by so many ratings: with few of them, nothing is changed much.
_PRIOR_RATINGS = 100.0


def calibrated(models: Sequence[MatrixModel], validation: Pairs) -> np.ndarray:
    """Gains of both kinds of factors and the spread of the utilities: most likely ones."""
    some = Pairs(*(part[:_ENOUGH] for part in validation))
    if some.row.size == 0:
        return np.ones(3)

    def loss(log_gains: np.ndarray) -> float:
        gains = np.exp(log_gains)
        scaled = [model._replace(gains=gains) for model in models]
        misfit = -float(log_probability(scaled, some).sum())
        return (misfit + _PRIOR_RATINGS * float(log_gains @ log_gains)) / some.row.size

    found = minimize(
        loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6}
    )
    return np.exp(found.x)
