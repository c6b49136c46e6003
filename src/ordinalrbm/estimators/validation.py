"""Checks of what a user sets by hand: each failure is one sentence with the remedy."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from ordinalrbm.errors import DataError
from ordinalrbm.stats.design import checked_weights
from ordinalrbm.vector.model import MOST_STYLES, MOST_UNITS

Settings = TypeVar("Settings")
# Whole numbers, from and to.
_WHOLE: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("n_factors", "n_user_factors", "n_epochs", "patience", "n_draws"), (1, None)),
    "n_item_factors": (0, None),
    "units_per_factor": (1, MOST_UNITS),
    "response_styles": (1, MOST_STYLES),
    "gibbs_steps": (1, 2**16),
    # Sums over a batch are float32: beyond this they lose digits, and nothing is gained.
    **dict.fromkeys(("batch_size", "n_chains"), (1, 10_000)),
}
# Precisions of priors: beyond this nothing is left to learn, and squares of gradients overflow.
_LARGEST_PRECISION = 1e15
# Real numbers, from 0 to below so much.
_REAL = {
    "weight_decay": _LARGEST_PRECISION,
    "background_decay": _LARGEST_PRECISION,
    "memory": 1.0,
    "validation_fraction": 0.5,
}
# The same, but above 0.
_POSITIVE = {
    "learning_rate": None,
    "bias_precision": _LARGEST_PRECISION,
    "factor_precision": _LARGEST_PRECISION,
    "gap_precision": _LARGEST_PRECISION,
}
_SWITCHES = ("centred", "rated_sets")
_CHOICES = {
    "unanswered": ("absent", "latent"),
    "free_phase": ("contrastive", "persistent"),
    "inference": ("mean_field", "linear_response", "mcmc"),
    "posterior": ("variational", "point"),
    "init": ("polychoric", "random"),
    "biases": ("balanced", "zero"),
    "priors": ("learnt", "none"),
    "thresholds": ("marginal", "even"),
    "schedule": ("cosine", "constant"),
}


def keep_parameters(estimator: Any, given: dict[str, Any]) -> None:
    """Set the parameters of an estimator as they were given to its constructor."""
    for name in estimator._get_param_names():
        setattr(estimator, name, given[name])


@contextmanager
def as_before_if_failed(estimator: Any) -> Iterator[None]:
    """Give the estimator its attributes back if fitting fails: the model of an earlier fit stays whole."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


def settings_of(kind: type[Settings], estimator: Any, **own: Any) -> Settings:
    """Settings of a learner: these, and else the parameters of the same names."""
    same = set(kind.__dataclass_fields__) - set(own)  # type: ignore[attr-defined]
    return kind(**own, **{name: getattr(estimator, name) for name in same})


def check_parameters(estimator: Any) -> None:
    """Refuse settings of an estimator that make no sense, before any work is done.

    Where the default of a parameter is None, so may be its value.
    """
    for name, parameter in inspect.signature(type(estimator)).parameters.items():
        value = getattr(estimator, name)
        if value is not None or parameter.default is not None:
            _check(name, value, {**_CHOICES, **getattr(estimator, "_choices", {})})


def _check(name: str, value: Any, choices: dict[str, tuple[str, ...]]) -> None:
    if name in _WHOLE:
        check_whole(name, value, *_WHOLE[name])
    elif name in _REAL:
        _check_real(name, value, _REAL[name])
    elif name in _POSITIVE:
        _check_real(name, value, _POSITIVE[name], open_below=True)
    elif name in choices:
        check_choice(name, value, choices[name])
    elif name in _SWITCHES:
        if not isinstance(value, bool | np.bool_):
            _refuse(name, value, "True or False")
    elif name == "device":
        check_device(value)
    elif name == "n_jobs":
        if not isinstance(value, Integral) or (value < 1 and value != -1):
            _refuse(name, value, "None, -1 or a whole number of at least 1")
    elif name == "random_state":
        try:
            check_random_state(value)
        except ValueError:
            wanted = "None, a whole number from 0 to 4294967295 or a numpy.random.RandomState"
            _refuse(name, value, wanted)


def check_device(device: Any) -> None:
    """Refuse what names no device; whether it is there is seen when it is used."""
    if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        _refuse("device", device, "'cpu', 'cuda' or 'cuda:' with the number of a GPU")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        _refuse(name, value, "one of " + ", ".join(map(repr, choices)))


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Row weights, those above zero with mean one, or None when none were given."""
    if sample_weight is None:
        return None
    weight = checked_weights("sample_weight", sample_weight, (n_rows,))
    weight = weight / weight.max()  # so that no sum of large ones overflows
    return (weight / weight[weight > 0].mean()).astype(np.float32)


def check_whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Refuse what is not a whole number in a range."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limit = f"of at least {low}" if high is None else f"from {low} to {high}"
        _refuse(name, value, f"a whole number {limit}")


def _check_real(name: str, value: Any, high: float | None, open_below: bool = False) -> None:
    real = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value))
    below = real and (value <= 0 if open_below else value < 0)
    if not real or below or (high is not None and value >= high):
        limit = "above 0" if open_below else "of at least 0"
        _refuse(name, value, f"a number {limit}" + ("" if high is None else f" and below {high:g}"))


def _refuse(name: str, value: Any, wanted: str) -> None:
    raise DataError(f"The '{name}' parameter must be {wanted}. Got {value!r} instead.")


def to_arviz(draws: dict[str, np.ndarray], dims: dict[str, list[str]]) -> Any:
    """Draws (chain, draw, …) by name in ArviZ's own container, with named dimensions."""
    try:
        import arviz
    except ImportError as error:
        raise DataError(
            "Chain diagnostics need ArviZ; install it with pip install 'ordinalrbm[diagnostics]'."
        ) from error
    values: dict[str, Any] = {"posterior": {name: part.astype(np.float64) for name, part in draws.items()}}
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(values, dims=dims)
    return arviz.from_dict(**values, dims=dims)
