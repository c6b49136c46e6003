"""The model inside the page: its parameters, so that answers can be predicted while one looks on.

The script ``live.js`` does what ``vector.posterior`` and ``vector.predict`` do for one person: mean-field
over all response styles, widened by linear response.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL
from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.pages.frequencies import level_colours
from ordinalrbm.pages.page import Label, packed
from ordinalrbm.plots.questions import Curves
from ordinalrbm.plots.style import ink_on, kinds

_MOST_LEVELS = 250  # that fit into the bytes of a map


def live_model(
    model: CumulativeRBM,
    names: Sequence[str],
    labels: Mapping[str, Label],
    curves: Sequence[Curves] = (),
    people: Observations | None = None,
    on_map: Mapping[str, int] | None = None,
) -> dict[str, object]:
    """What the script needs: parameters, questions, and the answers of the people on the map.

    ``names`` are those of the questions; answers on ordered scales are in the map's variables,
    whose places ``on_map`` has.
    """
    own, plan, bounds = model.model_, model.model_.layout, model.model_.thresholds
    numbers = iter(getattr(people, "numbers", np.zeros((0, 0))).T)
    middles = {curve.name: curve.middle for curve in curves}
    questions: list[dict[str, object]] = []
    scales: dict[tuple[int, tuple[str, ...]], int] = {}
    for i, (name, j) in enumerate(zip(names, model.questionnaire_.questions, strict=True)):
        kind, first, scale = int(plan.kind[i]), int(plan.first[i]), model.scales_[j]
        n_levels = 0 if scale is None else scale.n_levels
        levels = () if scale is None else tuple(scale.names)
        n_bounds = {ORDINAL: n_levels - 1, NOMINAL: 0, NUMERIC: 1}[kind]
        one: dict[str, object] = {
            "text": labels[name].text,
            "code": labels[name].code,
            "kind": kind,
            "first": first,
            "scale": scales.setdefault((kind, levels), len(scales)),
            "bounds": bounds[first, 1 : 1 + n_bounds].tolist(),
            "map": (on_map or {}).get(name, -1) if kind == ORDINAL and n_levels <= _MOST_LEVELS else -1,
            "middle": middles.get(name),
        }
        if people is not None and kind != NUMERIC and one["map"] == -1 and n_levels <= _MOST_LEVELS:
            level = people.to_dense()[:, i]
            one["given"] = packed(np.where(level < 0, 255, level).astype(np.uint8))
        elif people is not None and kind == NUMERIC:
            one["given"] = packed(next(numbers).astype(np.float32))
        questions.append(one)
    parts = (own.weights, own.bias, own.factor_bias, own.slopes, own.factor_slopes)
    return {
        "units": own.units,
        "latent": model.unanswered == "latent",
        "widened": model.inference != "mean_field",
        "stretches": own.stretches.tolist(),
        "shares": own.style_weights.tolist(),
        "shape": [*own.weights.shape, own.n_covariates],
        "parameters": packed(np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)),
        "covariates": "" if people is None else packed(np.ravel(people.covariates).astype(np.float32)),
        "questions": questions,
        "scales": [_scale(kind, levels) for kind, levels in scales],
    }


def _scale(kind: int, levels: Sequence[str]) -> dict[str, object]:
    """Names and colours of levels."""
    colours = level_colours(levels) if kind == ORDINAL else kinds(len(levels))
    return {"levels": list(levels), "colours": colours, "inks": [ink_on(colour) for colour in colours]}


def worth_asking(reading: FactorReading, names: Sequence[str]) -> list[int]:
    """Questions to ask first: the strongest of each factor in turn, that tell most about the others."""
    places = {name: place for place, name in enumerate(names)}
    leading = [items[0] for items in map(reading.items, reading.telling()) if items]
    by_size = reading.communalities.sort_values(ascending=False, kind="stable").index
    asked = dict.fromkeys(reading.question(str(item)) for item in [*leading, *by_size])
    return [places[name] for name in asked if name in places]
