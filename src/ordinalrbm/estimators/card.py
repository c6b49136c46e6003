"""Model cards: what somebody should know of a model before using it, as a page of Markdown."""

import platform
from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data.recency import NO_TIME, NOW
from ordinalrbm.data.scales import shorten
from ordinalrbm.estimators.persistence import plain_parameters
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.display import printable

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
            "Data": [first, *(_of_survey(self) if is_survey else _of_ratings(self)), *_named(notes)],
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


def _of_ratings(model: Any) -> Iterator[str]:
    known, (scale, *others) = model.ratings_, model.ratings_.distinct()[0]
    count = np.bincount(known.observations.level, minlength=scale.n_levels)
    named = zip(scale.labels, count / max(count.sum(), 1), strict=False)
    levels = ", ".join(f"{label} ({share:.1%})" for label, share in named)
    yield f"Levels: {len(others) + 1} different scales" if others else f"Levels: {levels}"
    if known.times is not None and known.times.clock != "fraction":
        time = known.times.value[~np.isin(known.times.value, (NO_TIME, NOW))]
        shown = (lambda end: pd.Timestamp(end).date()) if known.times.clock == "dates" else int
        yield f"Times: {shown(time.min())} to {shown(time.max())}" if time.size else "Times: unknown"


def _of_survey(model: Any) -> Iterator[str]:
    for labels, n in Counter(scale.labels for scale in model.scales_ if scale is not None).most_common():
        yield f"Levels of {n:,} questions: {shorten(labels)}"
