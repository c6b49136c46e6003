"""What all estimators of ratings do with their catalogue: ratings from it, and model files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

import numpy as np
import pandas as pd

from ordinalrbm.data.catalogue import Catalogue
from ordinalrbm.data.ids import Ids
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.points import Rule, point
from ordinalrbm.storage.model_file import plain_number
from ordinalrbm.storage.reader import Stored, columns_kept

RULES: tuple[str, ...] = get_args(Rule)
Estimator = TypeVar("Estimator")


def predicted_ratings(
    known: Catalogue, distribution: np.ndarray, columns: np.ndarray, rule: Rule
) -> np.ndarray:
    """One rating per distribution over the levels of an item: a number, or labels.

    Examples
    --------
    >>> ids = Ids(np.array([10, 20]))
    >>> known = Catalogue(ids, ids, Scale((1, 2, 3)), Scale((1, 2, 3)))
    >>> predicted_ratings(known, np.array([[0.5, 0.1, 0.4]]), np.array([0]), "median").tolist()
    [1]
    """
    if rule == "mean":
        return known.expected(distribution, columns)
    return known.decode(point(distribution, rule), columns)


# Files


def written(
    estimator: Any, catalogue: Catalogue
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:  # fmt: skip
    """Arrays and header of what every estimator of ratings keeps, whatever its model."""
    distinct, of_item = catalogue.distinct()
    arrays = {"scale_of_item": of_item}
    for name in ("users", "items"):
        parts = getattr(catalogue, name).to_arrays()
        arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    for column in columns_kept(estimator.history_):
        arrays[f"history.{column}"] = estimator.history_[column].to_numpy()
    default = catalogue.default_scale
    header = {
        "parameters": plain_parameters(estimator, catalogue),
        "item_scales": _plain_item_scales(estimator, catalogue),
        "scales": [scale.to_json() for scale in distinct],
        "one_scale": isinstance(catalogue.scales, Scale),
        "default_scale": None if default is None else default.to_json(),
        "history": columns_kept(estimator.history_),
        "best_epoch": estimator.best_epoch_,
        "about": estimator.about_,
    }
    return arrays, header


def restored(
    kind: type[Estimator], stored: Stored, check: Callable[[Any], None]
) -> tuple[Estimator, Catalogue]:
    """An estimator with its parameters and history, and what it knows."""
    estimator: Any = stored.estimator(kind, check)
    if estimator.scale is not None:
        estimator.scale = Scale.from_json(estimator.scale).to_json()
    estimator.item_scales = _read_item_scales(stored)
    estimator.best_epoch_ = stored.whole("best_epoch", 0)
    estimator.about_ = stored.notes()
    estimator.history_ = pd.DataFrame(stored.history())
    estimator.n_iter_ = len(estimator.history_)
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
    which = stored.array("scale_of_item", np.int64, (len(items),), 0, len(distinct) - 1)
    one_scale = stored.entry("one_scale", bool)
    if one_scale and len(distinct) != 1:
        raise DataError(f"it has {len(distinct)} scales where there should be one")
    return Catalogue(
        users,
        items,
        distinct[0] if one_scale else tuple(distinct[k] for k in which),
        None if default is None else Scale.from_json(default),
    )


def plain_parameters(estimator: Any, catalogue: Catalogue) -> dict[str, Any]:
    """Parameters as JSON can hold them; a generator cannot be."""
    plain = {name: plain_number(value) for name, value in estimator.get_params(deep=False).items()}
    seed, default = plain["random_state"], catalogue.default_scale
    plain["random_state"] = seed if isinstance(seed, int) else None
    given = estimator.scale is not None and default is not None
    plain["scale"] = default.to_json() if given and default else None
    plain["item_scales"] = None  # JSON has no dictionaries from numbers
    plain.pop("models", None)  # those of an ensemble are described by themselves
    plain.pop("device", None)  # a model may be used elsewhere than it was learnt
    return plain


def _plain_item_scales(estimator: Any, catalogue: Catalogue) -> list[Any] | None:
    if not estimator.item_scales:
        return None
    labels = list(estimator.item_scales)
    positions = catalogue.lookup(labels, "item")
    return [
        [plain_number(label), catalogue.scale_of(j).to_json()]
        for label, j in zip(labels, positions, strict=True)
    ]
