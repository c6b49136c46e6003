"""Summaries of fitted models: what they were learnt from, how that went, and what they found; model cards."""

import platform
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data.recency import NO_TIME, NOW
from ordinalrbm.data.scales import shorten
from ordinalrbm.estimators.persistence import plain_parameters
from ordinalrbm.evaluate.baselines import marginal
from ordinalrbm.evaluate.hidden import level_values
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.display import Readable, printable, two_digits

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


# ---- cards --------------------------------------------------------------------------------------

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")
_LIMITS = (
    "Held-out figures decide when learning ends, so that they flatter a little; judge by data that are new.",
    "Nothing but the levels above is predicted.",
)
_OF_RATINGS = (
    "The ratings are of what users have chosen, and predictions are of such ratings.",
    "The file has the ids of users and what each has rated; `forget` takes somebody out.",
)
_OF_SURVEYS = ("Whoever has not answered the survey may answer differently.",)


class Carded:
    """An estimator that describes itself once it is fitted."""

    def card(self: Any) -> str:
        """A model card in Markdown: data, settings, held-out figures, limits and versions.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> model = orbm.OrdinalMF(2, n_epochs=2).fit(([1, 1, 2, 3], [5, 6, 5, 6], [1, 2, 2, 1]))
        >>> [line for line in model.card().splitlines() if line.startswith("- Levels")]
        ['- Levels: 1 (50.0%), 2 (50.0%)']
        """
        is_survey = hasattr(self, "questionnaire_")
        first, *learning = self.summary().lines[:-1]  # the last one is about a table
        notes, settings = ({k: v for k, v in self.about_.items() if k != "schema"}, plain_parameters(self))
        libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
        parts = {
            "Data": [first, *(_about_survey(self) if is_survey else _about_ratings(self)), *_named(notes)],
            "Settings": _named(settings),
            "Held-out figures": learning,
            "Limits": [*_LIMITS, *(_OF_SURVEYS if is_survey else _OF_RATINGS)],
            "Written by": [f"ordinalrbm {__version__}, Python {platform.python_version()}, {libraries}"],
        }
        page = f"# Model card: {type(self).__name__}\n"
        for heading, lines in parts.items():
            # Names from files stay on their line, and are no HTML.
            plain = (escape(printable(" ".join(line.split())), quote=False) for line in lines)
            page += "\n".join([f"\n## {heading}\n", *(f"- {line}" for line in plain), ""])
        return page


def _named(values: dict[str, Any]) -> list[str]:
    return [f"{name}: {value}" for name, value in values.items() if isinstance(value, str | int | float)]


def _about_ratings(model: Any) -> Iterator[str]:
    known, (scale, *others) = model.ratings_, model.ratings_.distinct()[0]
    count = np.bincount(known.observations.level, minlength=scale.n_levels)
    named = zip(scale.labels, count / max(count.sum(), 1), strict=False)
    levels = ", ".join(f"{label} ({share:.1%})" for label, share in named)
    yield f"Levels: {len(others) + 1} different scales" if others else f"Levels: {levels}"
    if known.times is not None and known.times.clock != "fraction":
        time = known.times.value[~np.isin(known.times.value, (NO_TIME, NOW))]
        shown = (lambda end: pd.Timestamp(end).date()) if known.times.clock == "dates" else int
        yield f"Times: {shown(time.min())} to {shown(time.max())}" if time.size else "Times: unknown"


def _about_survey(model: Any) -> Iterator[str]:
    for labels, n in Counter(scale.labels for scale in model.scales_ if scale is not None).most_common():
        yield f"Levels of {n:,} questions: {shorten(labels)}"
