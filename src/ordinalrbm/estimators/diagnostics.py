"""Chains for ArviZ: effective sample size, R-hat, traces."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.errors import DataError


def to_arviz(draws: dict[str, np.ndarray], dims: dict[str, list[str]]) -> Any:
    """Draws (chain, draw, …) by name in ArviZ's own container, with named dimensions."""
    try:
        import arviz
    except ImportError as error:
        raise DataError(
            "Chain diagnostics need ArviZ; install it with pip install 'ordinalrbm[diagnostics]'."
        ) from error
    values: dict[str, Any] = {
        "posterior": {name: part.astype(np.float64) for name, part in draws.items()}
    }
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(values, dims=dims)
    return arviz.from_dict(**values, dims=dims)
