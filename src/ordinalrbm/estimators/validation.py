"""Checks of what a user sets by hand: each failure is one sentence with the remedy."""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ordinalrbm.errors import DataError
from ordinalrbm.vector.model import MOST_STYLES, MOST_UNITS

_WHOLE = {
    "n_factors": (1, None),
    "units_per_factor": (1, MOST_UNITS),
    "response_styles": (1, MOST_STYLES),
    "n_epochs": (1, None),
    "gibbs_steps": (1, 2**16),
    # Sums over a batch are float32: beyond this they lose digits, and nothing is gained.
    "batch_size": (1, 10_000),
    "n_chains": (1, 10_000),
    "patience": (1, None),
    "n_draws": (1, None),
}
_MATRIX_WHOLE = {
    "n_user_factors": (1, None),
    "n_item_factors": (0, None),
    "gibbs_steps": (1, 2**16),
    "batch_size": (1, 10_000),
    "patience": (1, None),
    "n_averaged": (1, None),
}
_BASELINE_WHOLE = {
    "n_factors": (1, None),
    "n_epochs": (1, None),
    "patience": (1, None),
    "batch_size": (1, 10_000),
    "epochs_per_step": (0, None),
    "averaged_epochs": (1, None),
    "n_averaged": (1, None),
}
# Settings of the baselines that are real numbers, and whether they must be above zero.
_BASELINE_REAL = {
    "bias_precision": True,
    "factor_precision": True,
    "gap_precision": True,
    "learning_rate": True,
    "weight_decay": False,
    "bias_decay": False,
}
# Precisions of priors: beyond this nothing is left to learn, and squares of gradients overflow.
_LARGEST_DECAY = 1e15
_CHOICES = {
    "unanswered": ("absent", "latent"),
    "free_phase": ("contrastive", "persistent"),
    "inference": ("mean_field", "linear_response", "mcmc"),
}


def check_parameters(estimator: Any) -> None:
    """Temporary."""
    {"CumulativeRBM": _check_survey, "MatrixCumulativeRBM": check_matrix_parameters}.get(
        type(estimator).__name__, check_baseline_parameters
    )(estimator)


def _check_survey(estimator: Any) -> None:
    """Refuse settings that make no sense, before any work is done."""
    for name, (low, high) in _WHOLE.items():
        check_whole(name, getattr(estimator, name), low, high)
    for name, choices in _CHOICES.items():
        check_choice(name, getattr(estimator, name), choices)
    _check_real("weight_decay", estimator.weight_decay, 0.0, _LARGEST_DECAY)
    _check_real("learning_rate", estimator.learning_rate, 0.0, None, open_below=True)
    _check_common(estimator)


def check_matrix_parameters(estimator: Any) -> None:
    """The same for the model of rating matrices."""
    for name, (low, high) in _MATRIX_WHOLE.items():
        check_whole(name, getattr(estimator, name), low, high)
    if estimator.n_epochs is not None:
        check_whole("n_epochs", estimator.n_epochs, 1)
    check_choice("free_phase", estimator.free_phase, _CHOICES["free_phase"])
    _check_real("memory", estimator.memory, 0.0, 1.0)
    if estimator.weight_decay is not None:
        _check_real("weight_decay", estimator.weight_decay, 0.0, _LARGEST_DECAY)
    _check_real("learning_rate", estimator.learning_rate, 0.0, None, open_below=True)
    check_device(estimator.device)
    _check_common(estimator)


def check_device(device: Any) -> None:
    """Refuse what names no device; whether it is there is seen when it is used."""
    if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        _refuse("device", device, "'cpu', 'cuda' or 'cuda:' with the number of a GPU")


def check_baseline_parameters(estimator: Any) -> None:
    """The same for the baselines, each of which has some of these settings."""
    given = estimator.get_params(deep=False)
    for name in ("factor_precision", "n_epochs"):
        if given.get(name, 0.0) is None:  # which leaves it to the model
            del given[name]
    for name, (low, high) in _BASELINE_WHOLE.items():
        if name in given:
            check_whole(name, given[name], low, high)
    for name, above_zero in _BASELINE_REAL.items():
        if name in given:
            most = None if name == "learning_rate" else _LARGEST_DECAY
            _check_real(name, given[name], 0.0, most, open_below=above_zero)
    if "posterior" in given:
        check_choice("posterior", given["posterior"], ("variational", "point"))
    if "device" in given:
        check_device(given["device"])
    _check_common(estimator)


def _check_common(estimator: Any) -> None:
    """What all estimators have."""
    _check_real("validation_fraction", estimator.validation_fraction, 0.0, 0.5)
    jobs = estimator.n_jobs
    if jobs is not None and (not isinstance(jobs, Integral) or (jobs < 1 and jobs != -1)):
        _refuse("n_jobs", jobs, "None, -1 or a whole number of at least 1")
    try:
        check_random_state(estimator.random_state)
    except ValueError:
        wanted = "None, a whole number from 0 to 4294967295 or a numpy.random.RandomState"
        _refuse("random_state", estimator.random_state, wanted)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        _refuse(name, value, "one of " + ", ".join(map(repr, choices)))


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Row weights, those above zero with mean one, or None when none were given."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"sample_weight must hold numbers, one per row ({error}).") from error
    if weight.shape != (n_rows,):
        raise DataError(
            f"sample_weight has shape {weight.shape}, but X has {n_rows} rows; "
            "give one number per row."
        )
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"sample_weight of row {row} is {weight[row]}; weights must be finite and not "
            "negative: leave the row out or give it weight 0."
        )
    if weight.sum() == 0:
        raise DataError("sample_weight is zero for every row; give at least one row some weight.")
    return (weight / weight[weight > 0].mean()).astype(np.float32)


def check_whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Refuse what is not a whole number in a range."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limit = f"of at least {low}" if high is None else f"from {low} to {high}"
        _refuse(name, value, f"a whole number {limit}")


def _check_real(
    name: str, value: Any, low: float, high: float | None, open_below: bool = False
) -> None:
    real = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    below = real and (value <= low if open_below else value < low)
    if not real or below or (high is not None and value >= high):
        at_least = f"above {low:g}" if open_below else f"of at least {low:g}"
        limit = at_least + ("" if high is None else f" and below {high:g}")
        _refuse(name, value, f"a number {limit}")


def _refuse(name: str, value: Any, wanted: str) -> None:
    raise DataError(f"The '{name}' parameter must be {wanted}. Got {value!r} instead.")
