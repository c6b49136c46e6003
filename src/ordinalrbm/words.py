"""What a fitted model says, in words: what its factors do, and which columns go together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.scales import Scale, label_name
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.factor_analysis import FactorReading, column_names
from ordinalrbm.estimators.matrix import MatrixCumulativeRBM
from ordinalrbm.estimators.poles import with_answer
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.stats.rotation import Rotation

_MOST_COMPARED = 20_000  # items, each with each: 3 GiB


@dataclass(frozen=True)
class Wording:
    """How a factor is put into words; ``{}`` is replaced by the columns.

    Examples
    --------
    >>> Wording(more="likes {} more", less="likes {} less").more.format("tea")
    'likes tea more'
    """

    more: str = "answers {} higher"
    less: str = "answers {} lower"
    towards: str = "tends to answer {}"  # columns whose levels have words, with the level


@dataclass(frozen=True)
class FactorInWords:
    """One factor, described in a sentence or two.

    Attributes
    ----------
    factor : str
        Its name among those of :meth:`CumulativeRBM.factor_solution`, "Factor 1".
    text : str
        What it does, in words; also what ``str()`` and ``print()`` give.
    effects : DataFrame
        Its lines of :func:`factor_effects` for the columns that are named, the strongest first.
    """

    factor: str
    text: str
    effects: pd.DataFrame

    def __str__(self) -> str:
        return self.text


def factor_effects(estimator: CumulativeRBM, *, rotation: Rotation = "varimax") -> pd.DataFrame:
    """How the answer to each column differs between people low and high on each rotated factor.

    Low and high are one standard deviation below and above the mean, where all other factors stay.

    Parameters
    ----------
    estimator : CumulativeRBM, fitted
    rotation : str, default="varimax"
        See :meth:`CumulativeRBM.factor_solution`.

    Returns
    -------
    DataFrame
        One line per factor and column on an ordered scale: ``factor``, ``column``, ``loading``;
        ``low`` and ``high``, the expected answer (the labels themselves where they are ascending
        numbers, else positions 1..L), and ``change`` between them; ``top_low`` and ``top_high``,
        the probability of the levels above the middle.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> X = np.array([[1, 3], [2, 2], [3, 1]] * 30)
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> change = factor_effects(model)["change"]
    >>> bool(change[0] * change[1] < 0)  # whatever moves one column up moves the other down
    True
    """
    reading, scales = estimator.factor_solution(rotation=rotation), _scales(estimator)
    pairs = [(factor, item) for factor in reading.factors for item in scales]
    return _effects(reading, scales, pairs)


def describe_factors(
    estimator: CumulativeRBM,
    n_factors: int = 5,
    *,
    n_columns: int = 4,
    wording: Wording | None = None,
    rotation: Rotation = "varimax",
) -> list[FactorInWords]:
    """The rotated factors in words: which answers go up and down together.

    Factors come in the order of how much they explain; one on which nothing loads by 0.3 is left
    out, so that there may be fewer than ``n_factors``. Columns are those that also name the factor
    in a report: their loadings are at least half as large as the largest.

    Parameters
    ----------
    estimator : CumulativeRBM, fitted
    n_factors : int, default=5
        How many factors to describe at most.
    n_columns : int, default=4
        How many columns to name at most in each direction.
    wording : Wording, optional
    rotation
        See :func:`factor_effects`, which has all the numbers.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> X = pd.DataFrame({"tea": [1, 2, 3] * 40, "coffee": [3, 2, 1] * 40})
    >>> model = orbm.CumulativeRBM(n_factors=1, random_state=0).fit(X)
    >>> described = describe_factors(model, wording=Wording("likes {} more", "likes {} less"))
    >>> described[0].text.startswith("Factor 1, low to high: likes ")
    True
    """
    reading = estimator.factor_solution(rotation=rotation)
    scales, wording = _scales(estimator), wording or Wording()
    described = []
    for factor in reading.telling()[:n_factors]:
        strongest = reading.strongest(factor, n_columns)
        own = _effects(reading, scales, [(factor, item) for item in strongest if item in scales])
        if own.empty:
            continue
        loadings = reading.loadings[factor]
        one_way = len(loadings) > n_columns and ((loadings > 0).all() or (loadings < 0).all())
        answers = [reading.answer(item, factor) for item in own["column"]]
        text = _sentence(own, answers, scales, wording, everything=bool(one_way))
        described.append(FactorInWords(factor, f"{factor}, low to high: {text}", own))
    return described


def column_similarity(estimator: CumulativeRBM | RatingModel) -> pd.DataFrame:
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
    names: Sequence[Any] | np.ndarray
    if isinstance(estimator, RatingModel):
        check_is_fitted(estimator, "ratings_")
        n_items = estimator.ratings_.n_items
        if n_items > _MOST_COMPARED:
            raise DataError(
                f"A table of all pairs of {n_items:,} items would take {n_items**2 * 8 / 2**30:,.0f} GiB; "
                "use similar_items(item) of the model."
            )
        names = estimator.ratings_.items.take(np.arange(n_items))
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


def item_vectors(model: Any) -> tuple[np.ndarray, list[str]]:
    """(items, factors) what each factor adds to an average user's utility, and names of the factors.

    Without columns where a model has no factors of items.
    """
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
    return np.sqrt(np.mean(values.astype(np.float64) ** 2, axis=0))


def _scales(estimator: CumulativeRBM) -> dict[str, Scale]:
    known = zip(column_names(estimator), estimator.scales_, strict=True)
    kinds = estimator.questionnaire_.kinds
    return {name: s for (name, s), kind in zip(known, kinds, strict=True) if kind == "ordinal"}


def _effects(reading: FactorReading, scales: dict[str, Scale], pairs: list[tuple[str, str]]) -> pd.DataFrame:
    lines = []
    for factor, item in pairs:
        ends, scale = reading.ends(item, factor).to_numpy(), scales[item]
        low, high = ends @ _values(scale)
        top = ends[:, _first_top(scale) :].sum(axis=1)
        lines.append((factor, item, reading.loadings.at[item, factor], low, high, high - low, *top))
    names = ("factor", "column", "loading", "low", "high", "change", "top_low", "top_high")
    return pd.DataFrame(lines, columns=list(names))


def _values(scale: Scale) -> np.ndarray:
    return scale.values if _is_ascending(scale) else np.arange(1.0, scale.n_levels + 1.0)


def _is_ascending(scale: Scale) -> bool:
    """Whether the labels are numbers that can be averaged in the direction of the scale."""
    return scale.is_numeric and bool(np.all(np.diff(scale.values) > 0))


def _first_top(scale: Scale) -> int:
    return (scale.n_levels + 1) // 2


def _sentence(
    effects: pd.DataFrame, answers: list[str], scales: dict[str, Scale], wording: Wording, *, everything: bool
) -> str:
    """Both directions, the stronger first, and one column's probabilities as an example."""
    clauses: dict[str, list[str]] = {}
    for line, answer in zip(effects.itertuples(), answers, strict=True):
        phrase = wording.towards if answer else wording.more if line.loading > 0 else wording.less
        named = f"{with_answer(line.column, answer)} ({_change(line.change, scales[line.column])})"
        clauses.setdefault(phrase, []).append(named)
    if everything and len(clauses) == 1 and not any(answers):
        clauses = {
            phrase.format("everything") + ", most of all {}": named for phrase, named in clauses.items()
        }
    said = "; ".join(phrase.format(_enumerated(named)) for phrase, named in clauses.items())
    first = effects.iloc[0]
    low, high = (f"{first[end]:.0%}" for end in ("top_low", "top_high"))
    return f"{said}. {first['column']} {_top_words(scales[first['column']])}: {low} → {high}."


def _change(change: float, scale: Scale) -> str:
    digits = max(0, int(np.ceil(np.log10(20.0 / np.ptp(_values(scale))))))
    unit = "" if _is_ascending(scale) else " levels"
    return f"{change:+.{digits}f}{unit}".replace("-", "−")


def _enumerated(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _top_words(scale: Scale) -> str:
    top = [
        f"“{label}”" if isinstance(label, str) else label_name(label)
        for label in scale.labels[_first_top(scale) :]
    ]
    return " or ".join(top) if len(top) <= 2 else f"{top[0]} or above"
