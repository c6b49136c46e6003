"""What estimators keep in model files, beside their models: parameters, history, catalogue."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import Ids
from ordinalrbm.data.ratings import Catalogue
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.validation import check_parameters
from ordinalrbm.storage.model_file import plain_number
from ordinalrbm.storage.reader import Stored, columns_kept

Kept = tuple[dict[str, np.ndarray], dict[str, Any]]
Estimator = TypeVar("Estimator", bound=Any)
# Settings of a run: they say nothing about the model, which may be used elsewhere.
_OF_THE_RUN = ("n_jobs", "verbose", "device")
# Settings that models had once; those that were learnt with them predict without.
_NO_LONGER = {"n_averaged", "calibrate"}


def kept_learning(estimator: Any) -> Kept:
    """Arrays and header of what every estimator keeps of how it was learnt."""
    history = estimator.history_
    columns = columns_kept(history)
    arrays = {f"history.{column}": history[column].to_numpy() for column in columns}
    best_epoch, about = estimator.best_epoch_, estimator.about_
    return arrays, {"history": columns, "best_epoch": best_epoch, "about": about}


def restored(kind: type[Estimator], stored: Stored) -> Estimator:
    """An estimator with its parameters and how it was learnt."""
    parameters, gone = stored.entry("parameters", dict), _NO_LONGER - set(kind._get_param_names())
    settings = {name: value for name, value in parameters.items() if name not in gone}
    stored = replace(stored, header={**stored.header, "parameters": settings})
    estimator = stored.estimator(kind, check_parameters)
    estimator.best_epoch_ = stored.whole("best_epoch", 0)
    estimator.about_ = stored.notes()
    estimator.history_ = pd.DataFrame(stored.history())
    estimator.n_iter_ = len(estimator.history_)
    return estimator


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Parameters of the model as JSON can hold them; a generator cannot be."""
    given = estimator.get_params(deep=False).items()
    plain = {name: _plain(value) for name, value in given if name not in _OF_THE_RUN}
    seed = plain["random_state"]
    return plain | {"random_state": seed if isinstance(seed, int) else None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | np.ndarray | pd.Index):
        value = list(value)
    return [plain_number(one) for one in value] if isinstance(value, list) else plain_number(value)


def kept_ratings(estimator: Any, catalogue: Catalogue) -> Kept:
    """Arrays and header of what every estimator of ratings keeps, whatever its model."""
    distinct, of_item = catalogue.distinct()
    arrays = {"scale_of_item": of_item}
    for name in ("users", "items"):
        parts = getattr(catalogue, name).to_arrays()
        arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    of_learning, learning = kept_learning(estimator)
    default = catalogue.default_scale
    header = {
        "parameters": rating_parameters(estimator, catalogue),
        "item_scales": _plain_item_scales(estimator, catalogue),
        "scales": [scale.to_json() for scale in distinct],
        "one_scale": isinstance(catalogue.scales, Scale),
        "default_scale": None if default is None else default.to_json(),
        **learning,
    }
    return arrays | of_learning, header


def restored_ratings(kind: type[Estimator], stored: Stored) -> tuple[Estimator, Catalogue]:
    """An estimator with its parameters and how it was learnt, and the catalogue."""
    estimator = restored(kind, stored)
    if estimator.scale is not None:
        estimator.scale = Scale.from_json(estimator.scale).to_json()
    estimator.item_scales = _read_item_scales(stored)
    return estimator, _read_catalogue(stored)


def _read_item_scales(stored: Stored) -> dict[Any, Any] | None:
    pairs = stored.entry("item_scales", list, None)
    if pairs is None:
        return None
    scales = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int)):
            raise DataError(f"its header has {pair!r:.80} among the item_scales")
        scales[pair[0]] = Scale.from_json(pair[1]).to_json()
    return scales


def _read_catalogue(stored: Stored) -> Catalogue:
    distinct = [Scale.from_json(labels) for labels in stored.entry("scales", list)]
    default = stored.entry("default_scale", list, None)
    users, items = (Ids.from_stored(stored.under(f"{name}.")) for name in ("users", "items"))
    which = stored.checked_array("scale_of_item", np.int64, (len(items),), 0, len(distinct) - 1)
    one_scale = stored.entry("one_scale", bool)
    if one_scale and len(distinct) != 1:
        raise DataError(f"it has {len(distinct)} scales where there should be one")
    common = None if default is None else Scale.from_json(default)
    if one_scale and common not in (None, distinct[0]):
        raise DataError("its items are on one scale, and unknown items on another")
    return Catalogue(users, items, distinct[0] if one_scale else tuple(distinct[k] for k in which), common)


def rating_parameters(estimator: Any, catalogue: Catalogue) -> dict[str, Any]:
    """Parameters of an estimator of ratings."""
    plain, default = plain_parameters(estimator), catalogue.default_scale
    plain["scale"] = None if estimator.scale is None or default is None else default.to_json()
    plain["item_scales"] = None  # JSON has no dictionaries from numbers
    return plain


def _plain_item_scales(estimator: Any, catalogue: Catalogue) -> list[Any] | None:
    if not estimator.item_scales:
        return None
    # By the ids as they are known: those given may be 1.0 for 1.
    return [
        [plain_number(catalogue.items.labels[j]), catalogue.scale_of(j).to_json()]
        for j in catalogue.lookup(list(estimator.item_scales), "item")
        if j >= 0  # not forgotten since
    ]
