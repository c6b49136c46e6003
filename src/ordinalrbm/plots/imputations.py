"""How imputed answers differ from given ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ordinalrbm.errors import DataError
from ordinalrbm.plots.style import KINDS, add_legend, framed, panels, plain_text, shortened, unboxed, wrapped

_PANELS_PER_ROW, _MOST_BARS = 4, 12


@plain_text
def observed_and_imputed(X: Any, tables: Sequence[Any], *, title: str = "", note: str = "") -> Figure:
    """Shares of levels among given answers and among imputed ones, one panel per question with gaps.

    Both need not be alike: where people with certain other answers leave a question out more often, what they
    would have said differs. A line shows how far the imputed tables differ. Numbers are put into ten classes.

    Parameters
    ----------
    X : DataFrame or array
        The table with its gaps.
    tables : sequence of DataFrame or array
        What ``impute(X, n_draws=20)`` returns.
    title, note : str, optional

    Examples
    --------
    >>> X = pd.DataFrame({"tea": [1, 2, 2, None]})
    >>> figure = observed_and_imputed(X, [X.fillna(1), X.fillna(2)])
    >>> [round(float(bar.get_height()), 2) for bar in figure.axes[0].patches]
    [0.33, 0.67, 0.5, 0.5]
    """
    several = [] if isinstance(tables, pd.DataFrame) else tables
    seen, filled = pd.DataFrame(X), [pd.DataFrame(table) for table in several]
    if not filled or any(len(one) != len(seen) or set(seen) - set(one) for one in filled):
        raise DataError(f"Give a list of imputed tables, with the {len(seen)} rows of X and its columns.")
    gaps = [name for name in seen.columns if (seen[name].isna().to_numpy() & filled[0][name].notna()).any()]
    if not gaps:
        raise DataError("There is no imputed answer to draw; give the table with its gaps as X.")
    figure, all_axes = panels(len(gaps), _PANELS_PER_ROW, 2.8, 2.2, (0.3, 0.4))
    for axes, name in zip(all_axes, gaps, strict=True):
        there = seen[name].isna().to_numpy()
        labels, given, *imputed = _shares(seen[name].dropna(), [table[name][there] for table in filled])
        mean, x = np.mean(imputed, axis=0), np.arange(len(labels))
        ends = np.abs(np.array([np.min(imputed, axis=0), np.max(imputed, axis=0)]) - mean)
        axes.bar(x - 0.2, given, 0.4, color=KINDS[0], label="observed")
        axes.bar(x + 0.2, mean, 0.4, color=KINDS[1], label="imputed", yerr=ends, error_kw={"lw": 0.8})
        axes.set_xticks(x, [wrapped(shortened(label, 20), 10) for label in labels], fontsize=7)
        axes.set_title(wrapped(name, 34), fontsize="small", loc="left")
        axes.set(xlabel="answer", ylabel="share of answers")
        unboxed(axes)
    all_axes[0].margins(y=0.4)  # room for the legend
    add_legend(all_axes[0], "right", inside=True)
    return framed(figure, title, note)


def _shares(given: pd.Series, imputed: list[pd.Series]) -> list[Any]:
    """Labels of the levels, and their shares among given answers and in each imputed table."""
    every = [given, *(part.dropna() for part in imputed)]
    if given.nunique() > _MOST_BARS and pd.api.types.is_numeric_dtype(given):
        edges = np.unique(np.quantile(given.astype(float), np.linspace(0.1, 0.9, 9)))
        every = [pd.Series(np.digitize(part.astype(float), edges)) for part in every]
        labels = [f"< {edge:.4g}" for edge in edges] + [f"≥ {edges[-1]:.4g}"]
        levels: list[Any] = list(range(len(labels)))
    else:
        levels = list(pd.concat(every).astype(given.dtype).drop_duplicates().sort_values())
        labels = levels
    return [labels, *([(part == level).mean() for level in levels] for part in every)]
