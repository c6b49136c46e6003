"""What a fitted model says, in words: what its factors do, and which columns go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data import tables
from ordinalrbm.data.scales import Label, Scale, label_name
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ensemble import RatingEnsemble
from ordinalrbm.estimators.matrix import MatrixCumulativeRBM
from ordinalrbm.estimators.poles import answer_at, with_answer
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.reading import column_names
from ordinalrbm.evaluate.points import point
from ordinalrbm.vector import predict
from ordinalrbm.vector.model import VectorModel

# A factor made of many units never goes all the way from off to on, so it is compared between
# people who are low and people who are high on it: the ends of the middle four fifths.
_LOW, _HIGH = 0.1, 0.9
# A column is worth naming when it moves at least this much as far as the one that moves most.
_WORTH_NAMING = 1 / 3
# A factor that moves no answer by a hundredth of its scale says nothing.
_WORTH_TELLING = 0.01
# Two factors tell the same story when their changes point the same (or the opposite) way.
_SAME_STORY = 0.8
_MOST_COMPARED = 20_000  # items, each with each: 3 GiB


@dataclass(frozen=True)
class Wording:
    """How a factor is put into words; ``{}`` stands for the columns.

    Examples
    --------
    >>> Wording(more="likes {} more", less="likes {} less", rows="respondents").more.format("tea")
    'likes tea more'
    """

    more: str = "answers {} higher"
    less: str = "answers {} lower"
    rows: str = "rows"
    towards: str = "tends to answer {}"  # columns whose levels have words, with the level


@dataclass(frozen=True)
class FactorInWords:
    """One factor, told in a sentence or two.

    Attributes
    ----------
    factor : int
        Which column of ``transform`` it is, counted from 0.
    share_on : float
        Its mean posterior over the rows that have answers.
    text : str
        What it does, in words; also what ``str()`` and ``print()`` give.
    effects : DataFrame
        Its lines of :func:`factor_effects`, the strongest first.
    """

    factor: int
    share_on: float
    text: str
    effects: pd.DataFrame

    def __str__(self) -> str:
        return self.text


def factor_effects(
    estimator: Any, X: Any = None, *, posterior: np.ndarray | None = None
) -> pd.DataFrame:
    """How each factor changes the answer to each column, all other factors at their mean.

    The factor goes from off to on. With ``units_per_factor`` above 1, where nobody has all units
    on or off, it goes from the 10th to the 90th percentile of the rows. Rows without any answer
    do not count, neither for the means nor for the percentiles.

    Parameters
    ----------
    estimator : CumulativeRBM, fitted
    X : table
        The rows whose factors give the means and the percentiles.
    posterior : (n, K) array, optional
        Instead of X, what ``transform`` gives of rows that have answers.

    Returns
    -------
    DataFrame
        One line per factor and column: ``factor``, ``column``; ``before`` and ``after``, the
        expected answer (the labels themselves where they are ascending numbers, else positions
        1..L); ``change`` between them; ``strength``, the change as a share of the scale;
        ``top_before`` and ``top_after``, the probability of the levels above the middle.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> X = np.array([[1, 3], [2, 2], [3, 1]] * 30)
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> change = factor_effects(model, X)["change"]
    >>> bool(change[0] * change[1] < 0)  # whatever moves one column up moves the other down
    True
    """
    return _effects(estimator, _posterior(estimator, X, posterior))


def describe_factors(
    estimator: Any,
    X: Any = None,
    n_factors: int = 5,
    *,
    n_columns: int = 4,
    wording: Wording | None = None,
    posterior: np.ndarray | None = None,
) -> list[FactorInWords]:
    """The most telling factors in words: which columns go up and down together.

    Factors come in the order of how far they move the answers on average, measured on each
    column's own scale. A factor that does nearly the same as one already told (or its opposite)
    is left out, and so is one that moves nothing; there may be fewer than ``n_factors``.

    Parameters
    ----------
    estimator : CumulativeRBM, fitted
    X, posterior
        See :func:`factor_effects`, which has all the numbers.
    n_factors : int, default=5
        How many factors to tell at most.
    n_columns : int, default=4
        How many columns to name at most in each direction.
    wording : Wording, optional

    Returns
    -------
    list of FactorInWords

    Examples
    --------
    >>> import numpy as np, pandas as pd, ordinalrbm as orbm
    >>> X = pd.DataFrame({"tea": [1, 2, 3] * 40, "coffee": [3, 2, 1] * 40})
    >>> model = orbm.CumulativeRBM.binary(n_factors=1, random_state=0).fit(X)
    >>> described = describe_factors(model, X, wording=Wording("likes {} more", "likes {} less"))
    >>> described[0].text.startswith("Factor 0, off to on (on for ")
    True
    """
    posterior = _posterior(estimator, X, posterior)
    effects, share_on = _effects(estimator, posterior), posterior.mean(axis=0)
    wording = wording or Wording()
    scales = dict(zip(column_names(estimator), estimator.scales_, strict=True))
    described = []
    for factor in _most_telling(effects, n_factors):
        own = effects[effects["factor"] == factor]
        own = own.sort_values("strength", key=np.abs, ascending=False, kind="stable")
        own = own.reset_index(drop=True)
        opening = _opening(factor, share_on[factor], estimator.model_.units, wording)
        text = opening + _sentence(own, scales, n_columns, wording)
        described.append(FactorInWords(factor, float(share_on[factor]), text, own))
    return described


def column_similarity(estimator: Any) -> pd.DataFrame:
    """How alike the columns depend on the factors: cosine of their weights, −1 to 1.

    1: the same factors move both, the same way; 0: they have nothing to do with each other;
    −1: what moves one up moves the other down. The columns of a model of ratings are its items:
    1 is for those that the same users like.

    Examples
    --------
    >>> import numpy as np, pandas as pd, ordinalrbm as orbm
    >>> X = pd.DataFrame({"tea": [1, 2, 3] * 40, "coffee": [3, 2, 1] * 40})
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> column_similarity(model).loc["tea", "coffee"].round(2).item()
    -1.0
    """
    names: Any
    if isinstance(estimator, RatingModel):
        check_is_fitted(estimator, "ratings_")
        names = _comparable_items(estimator)
        weights, _ = item_vectors(estimator)
        if not weights.shape[1]:
            raise DataError(f"{type(estimator).__name__} has no factors of items to compare.")
    else:
        check_is_fitted(estimator, "model_")
        names, weights = column_names(estimator), estimator.model_.weights
    weights = weights.astype(np.float64)
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    direction = weights / np.where(length > 0, length, 1.0)
    similarity = np.clip(direction @ direction.T, -1.0, 1.0)
    np.fill_diagonal(similarity, 1.0)
    return pd.DataFrame(similarity, index=names, columns=names)


def _comparable_items(estimator: Any) -> np.ndarray:
    n_items = estimator.ratings_.n_items
    if n_items > _MOST_COMPARED:
        raise DataError(
            f"A table of all pairs of {n_items:,} items would take "
            f"{n_items**2 * 8 / 2**30:,.0f} GiB; use similar_items(item) of the model."
        )
    return estimator.ratings_.items.take(np.arange(n_items))


def item_vectors(model: Any) -> tuple[np.ndarray, list[str]]:
    """(items, factors) what each factor adds to a usual user's utility, and names of the factors.

    Without columns where a model has no factors of items.
    """
    if isinstance(model, RatingEnsemble):  # whose models have items each in their own way
        return item_vectors(model.estimators_[-1])
    if isinstance(model, MatrixCumulativeRBM):
        half, other = model.model_.by_rows, model.model_.by_columns
        # A user's factors are around one in size; an item's count as much as users weigh them.
        vectors = np.concatenate([half.weights, other.factors * _size(other.weights)], axis=1)
        names = [f"User factor {k}" for k in range(half.n_factors)]
        return vectors, names + [f"Item factor {k}" for k in range(other.n_factors)]
    if hasattr(model, "item_factors_"):
        vectors = model.item_factors_ * _size(model.user_factors_)
        return vectors, [f"Factor {k}" for k in range(vectors.shape[1])]
    return np.zeros((model.ratings_.n_items, 0)), []


def _size(values: np.ndarray) -> np.ndarray:
    """How large the values of each column usually are."""
    return np.sqrt(np.mean(values.astype(np.float64) ** 2, axis=0))


def level_probabilities(
    estimator: Any, factors: Sequence[int], X: Any = None, *, posterior: np.ndarray | None = None
) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """How likely each level of each column is before and after some factors change.

    The changes are those of :func:`factor_effects`.

    Parameters
    ----------
    estimator : CumulativeRBM, fitted
    factors : sequence of int
        Which factors.
    X, posterior
        See :func:`factor_effects`.

    Returns
    -------
    list of lists
        For each factor and column a pair of distributions over the column's levels.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> X = np.array([[1, 3], [2, 2], [3, 1]] * 30)
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> before, after = level_probabilities(model, [0], X)[0][1]
    >>> before.shape, bool(abs(after.sum() - 1) < 1e-6)
    ((3,), True)
    """
    posterior = _posterior(estimator, X, posterior)
    chosen, mean = list(factors), posterior.mean(axis=0)
    before, after = (
        _distributions(estimator.model_, _one_by_one(mean, value)[chosen], len(estimator.scales_))
        for value in _bounds(posterior, estimator.model_.units)
    )
    levels = [scale.n_levels for scale in estimator.scales_]
    return [
        [(before[k, i, :n], after[k, i, :n]) for i, n in enumerate(levels)]
        for k in range(len(chosen))
    ]


# Numbers


def _posterior(estimator: Any, X: Any, posterior: np.ndarray | None) -> np.ndarray:
    """Factor posteriors of the rows that have answers."""
    check_is_fitted(estimator, "model_")
    if posterior is None:
        table = tables.as_table(X)
        levels = tables.encode(table, estimator.scales_)
        answers = tables.Encoded(levels, estimator.scales_, table.names)
        answered = answers.observations.row_counts > 0
        posterior = estimator.transform(answers)[answered]
    if not len(posterior):
        raise DataError("No row of X has an answer; give the rows that the model was fitted on.")
    return np.asarray(posterior, dtype=np.float64)


def _effects(estimator: Any, posterior: np.ndarray) -> pd.DataFrame:
    model: VectorModel = estimator.model_
    before, after = _bounds(posterior, model.units)
    mean = posterior.mean(axis=0)
    low, top_low = _answers(model, _one_by_one(mean, before), estimator.scales_)
    high, top_high = _answers(model, _one_by_one(mean, after), estimator.scales_)
    change = high - low
    n_factors, n_columns = change.shape
    reach = np.array([np.ptp(_values(scale)) for scale in estimator.scales_])
    return pd.DataFrame(
        {
            "factor": np.repeat(np.arange(n_factors), n_columns),
            "column": np.tile(np.array(column_names(estimator), dtype=object), n_factors),
            "before": low.ravel(),
            "after": high.ravel(),
            "change": change.ravel(),
            # A column with one level cannot change, and its scale has no length.
            "strength": (change / np.where(reach > 0, reach, 1.0)).ravel(),
            "top_before": top_low.ravel(),
            "top_after": top_high.ravel(),
        }
    )


def _bounds(posterior: np.ndarray, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each factor starts and ends."""
    n_factors = posterior.shape[1]
    if units == 1:
        return np.zeros(n_factors), np.ones(n_factors)
    low, high = np.quantile(posterior, [_LOW, _HIGH], axis=0)
    return low, high


def _one_by_one(mean: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(K, K): row k is the mean, with factor k at its own value."""
    states = np.tile(mean, (mean.size, 1))
    np.fill_diagonal(states, value)
    return states


def _answers(
    model: VectorModel, states: np.ndarray, scales: list[Scale]
) -> tuple[np.ndarray, np.ndarray]:
    """(states, N) each: expected answer, and probability of the levels above the middle."""
    cube = _distributions(model, states, len(scales))
    expected, top = np.empty((2, *cube.shape[:2]))
    for i, scale in enumerate(scales):
        distribution = cube[:, i, : scale.n_levels]
        expected[:, i] = point(distribution, "mean", _values(scale))
        top[:, i] = distribution[:, _first_top(scale) :].sum(axis=1)
    return expected, top


def _distributions(model: VectorModel, states: np.ndarray, n_columns: int) -> np.ndarray:
    """(states, N, L): how likely levels are, given shares of the factors' units that are on."""
    units_on = (states * model.units).astype(np.float32)
    cells = predict.all_cells(len(states), n_columns)
    width = int(model.n_levels.max())
    return predict.prior(model, units_on, cells).reshape(len(states), n_columns, width)


def _most_telling(effects: pd.DataFrame, n_factors: int) -> list[int]:
    """Factors by how far they move the answers, without those that tell the same story twice."""
    strength = effects.pivot(index="factor", columns="column", values="strength").to_numpy()
    size = np.linalg.norm(strength, axis=1)
    chosen: list[int] = []
    for k in np.argsort(-np.abs(strength).mean(axis=1), kind="stable"):
        if len(chosen) == n_factors or np.abs(strength[k]).max() < _WORTH_TELLING:
            break
        alike = np.abs(strength[chosen] @ strength[k]) / (size[chosen] * size[k])
        if not (alike > _SAME_STORY).any():
            chosen.append(int(k))
    return chosen


# Words


def _opening(factor: int, share_on: float, units: int, wording: Wording) -> str:
    if units == 1:
        return f"Factor {factor}, off to on (on for {share_on * 100:.0f} % of {wording.rows}): "
    return f"Factor {factor}, low to high: "


def _sentence(
    effects: pd.DataFrame, scales: dict[str, Scale], n_columns: int, wording: Wording
) -> str:
    """Both directions, the stronger first, and one column's probabilities as an example."""
    strongest = effects.iloc[0]
    worth = effects[effects["strength"].abs() >= _WORTH_NAMING * abs(strongest["strength"])]
    directions = (worth[np.sign(worth["strength"]) == one].head(n_columns) for one in (1, -1))
    clauses: dict[str, list[str]] = {}
    for line in pd.concat(directions).sort_index().itertuples():
        scale = scales[line.column]
        answer = answer_at(list(map(str, scale.labels)), line.strength)
        phrase = wording.towards if answer else wording.more if line.strength > 0 else wording.less
        named = f"{with_answer(line.column, answer)} ({_change(line.change, scale)})"
        clauses.setdefault(phrase, []).append(named)
    same_way = (effects["strength"] * strongest["strength"] > 0).all()
    everything = len(effects) > n_columns and same_way and wording.towards not in clauses
    said = [
        f"{phrase.format('everything')}, most of all {_listed(named)}"
        if everything
        else phrase.format(_listed(named))
        for phrase, named in clauses.items()
    ]
    example = (
        f"{strongest['column']} {_top_words(scales[strongest['column']])}: "
        f"{strongest['top_before'] * 100:.0f} % → {strongest['top_after'] * 100:.0f} %"
    )
    return f"{'; '.join(said)}. {example}."


def _change(change: float, scale: Scale) -> str:
    reach = np.ptp(_values(scale))
    digits = max(0, int(np.ceil(np.log10(20.0 / reach))))
    unit = "" if _is_ascending(scale) else " levels"
    return f"{change:+.{digits}f}{unit}".replace("-", "−")


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _top_words(scale: Scale) -> str:
    top = [_label_words(label) for label in scale.labels[_first_top(scale) :]]
    return " or ".join(top) if len(top) <= 2 else f"{top[0]} or above"


def _label_words(label: Label) -> str:
    if isinstance(label, str):
        return f"“{label}”"
    return str(label) if isinstance(label, bool) else label_name(label)


# Scales


def _is_ascending(scale: Scale) -> bool:
    """Whether the labels are numbers that can be averaged in the direction of the scale."""
    return scale.is_numeric and bool(np.all(np.diff(np.asarray(scale.labels, dtype=float)) > 0))


def _values(scale: Scale) -> np.ndarray:
    if _is_ascending(scale):
        return np.asarray(scale.labels, dtype=np.float64)
    return np.arange(1.0, scale.n_levels + 1.0)


def _first_top(scale: Scale) -> int:
    """First level above the middle of the scale."""
    return (scale.n_levels + 1) // 2
