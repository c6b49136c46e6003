"""Summaries of fitted models: what they were learnt from, how that went, and what they found."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.evaluate.baselines import marginal
from ordinalrbm.evaluate.hidden import level_values
from ordinalrbm.runtime.display import Readable, two_digits

_MOST_LISTED = 10  # factors or items


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Readable):
    """What a model was learnt from, how learning went, and what it found; as text and HTML.

    Attributes
    ----------
    lines : tuple of str
    table : DataFrame
        The strongest factors of a survey, or the items with most ratings.
    validation, marginal : float
        Mean log-likelihood of held-out answers or ratings: that of the model, and that of the
        frequencies of the levels alone. NaN where nothing was held out.
    """

    lines: tuple[str, ...]
    table: pd.DataFrame
    validation: float
    marginal: float

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        return iter((*self.lines, two_digits(self.table)))


def of_survey(model: Any) -> Summary:
    """The summary of a fitted CumulativeRBM."""
    n_questions = len(model.questionnaire_.questions)
    n_rows, n_answers = (model.about_.get(name) for name in ("rows", "answers"))
    learnt_from = f"{n_questions:,} questions"
    if isinstance(n_rows, int) and isinstance(n_answers, int) and n_rows > 0:
        learnt_from += f" and {n_rows:,} rows ({n_answers / (n_rows * n_questions):.0%} answered)"
    reading = model.factor_solution()
    factors = reading.telling()[:_MOST_LISTED]
    table = reading.reliability.loc[factors, ["explained", "omega", "items"]]
    table.insert(0, "about", [reading.name(factor) for factor in factors])
    by_frequencies = model.history_["marginal"].max() if "marginal" in model.history_ else np.nan
    first = f"{type(model).__name__} with n_factors={model.model_.n_factors}, learnt from {learnt_from}."
    last = "The strongest factors (varimax), and their share of the variance:"
    return _summary(model, (first,), last, table, by_frequencies, "answer")


def of_ratings(model: Any) -> Summary:
    """The summary of a fitted model of ratings."""
    known, seen = model.ratings_, model.ratings_.observations
    counts = seen.column_counts
    most = np.argsort(-counts, kind="stable")[:_MOST_LISTED]
    worth = np.bincount(seen.column, level_values(known)[seen.level], minlength=counts.size)
    mean = worth[most] / np.maximum(counts[most], 1)
    table = pd.DataFrame({"item": known.items.take(most), "ratings": counts[most], "mean": mean})
    lines = [
        f"{type(model).__name__}, learnt from {seen.n_entries:,} ratings of {known.n_items:,} items by "
        f"{known.n_users:,} users ({seen.density:.1%} of all pairs)."
    ]
    shares = marginal(known)
    by_frequencies = float(shares @ np.log(shares))
    return _summary(model, tuple(lines), "The items with most ratings:", table, by_frequencies, "rating")


def _summary(
    model: Any, first: tuple[str, ...], last: str, table: pd.DataFrame, by_frequencies: float, what: str
) -> Summary:
    history, best = model.history_, model.best_epoch_
    held_out = history.loc[history["epoch"] <= best, "validation"].dropna()
    validation = float(held_out.iloc[-1]) if len(held_out) else np.nan
    middle = [f"Epochs of learning: {len(history)}; the model is that of epoch {best}."]
    if not np.isnan(validation + by_frequencies):
        middle.append(
            f"Mean log-likelihood of held-out {what}s: {validation:.3f} ({by_frequencies:.3f} by the "
            "frequencies of the levels alone)."
        )
    return Summary((*first, *middle, last), table, validation, float(by_frequencies))
