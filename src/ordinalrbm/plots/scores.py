"""How learning went, and how what a model predicts, draws or imputes differs from what was answered."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ordinalrbm.errors import DataError
from ordinalrbm.plots import style

_PANELS_PER_ROW, _MOST_BARS = 4, 12  # of imputed questions, and of a number's classes
# What a learning history calls them, and what they are.
_CURVES = {
    "validation": "hidden from learning",
    "pseudo_likelihood": "learnt from, given the person's other answers",
}


@style.plain_text
def learning_curve(
    history: pd.DataFrame,
    *,
    best_epoch: int | None = None,
    title: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Log-likelihood per answer, epoch by epoch.

    Parameters
    ----------
    history : DataFrame
        What ``history_`` of a fitted model is: ``epoch``, and ``validation`` or
        ``pseudo_likelihood`` or both.
    best_epoch : int, optional
        The epoch that was kept, marked by a line.
    title, note, ax : str, str and Axes, optional

    Examples
    --------
    >>> history = pd.DataFrame({"epoch": [1, 2, 3], "validation": [-1.6, -1.4, -1.35]})
    >>> learning_curve(history, best_epoch=3).axes[0].get_xlabel()
    'epoch'
    """
    figure, (axes,) = style.panels(1, 1, 5.4, 3.4, ax=ax)
    curves = {name: label for name, label in _CURVES.items() if name in history}
    for (name, label), colour in zip(curves.items(), style.KINDS, strict=False):
        if history[name].notna().any():
            axes.plot(history["epoch"], history[name], "o-", color=colour, ms=3, label=label)
    if best_epoch is not None:
        axes.axvline(best_epoch, color=style.QUIET, lw=1, ls=":", label=f"epoch {best_epoch} was kept")
    axes.set(xlabel="epoch", ylabel="log-likelihood\nper answer")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.unboxed(axes)
    if axes.get_legend_handles_labels()[0]:
        style.add_legend(axes, "left", inside=ax is not None)
    return style.framed(figure, title, note, ax)


@style.plain_text
def calibration(reliability: pd.DataFrame, *, title: str = "", note: str = "") -> Figure:
    """How often levels were answered, by the probability that was predicted for them.

    Parameters
    ----------
    reliability : DataFrame
        From :func:`ordinalrbm.evaluate.reliability`.
    title, note : str, optional

    Examples
    --------
    >>> from ordinalrbm.evaluate import reliability
    >>> figure = calibration(reliability([[0.9, 0.1], [0.8, 0.2]], truth=[1, 2], n_bins=2))
    >>> figure.axes[0].get_xlabel(), figure.axes[1].get_ylabel()
    ('predicted probability', 'how many')
    """
    known = reliability[reliability["count"] > 0]
    figure = Figure(figsize=(5.2, 6.2), layout="constrained")
    axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=[3.4, 1])
    axes.plot([0, 1], [0, 1], color="#AAAAAA", lw=1, ls="--", label="perfect calibration")
    axes.errorbar(
        known["predicted"],
        known["observed"],
        yerr=1.96 * known["standard_error"],
        fmt="o",
        color=style.KINDS[0],
        ms=5,
        label="model, with 95% intervals",
    )
    axes.set(ylabel="how often it was answered", xlabel="predicted probability")
    axes.set(xlim=(0, 1), ylim=(-0.02, 1.02))
    axes.tick_params(labelbottom=True)
    axes.legend(frameon=False, loc="upper left", fontsize="small")
    width = reliability["high"] - reliability["low"]
    counts.bar(reliability["low"], reliability["count"], width * 0.94, align="edge", color=style.QUIET)
    counts.set_ylabel("how many")
    for one in (axes, counts):
        style.unboxed(one)
    return style.framed(figure, title, note)


@style.plain_text
def predictive_check(check: pd.DataFrame, *, title: str = "", note: str = "") -> Figure:
    """Shares of levels, totals and correlations as observed, and where a model's draws are.

    Parameters
    ----------
    check : DataFrame
        From :meth:`ordinalrbm.CumulativeRBM.predictive_check`.
    title, note : str, optional

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> food = orbm.datasets.load_food_world_cup().iloc[:, :5]
    >>> model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(food)
    >>> [axes.get_xlabel() for axes in predictive_check(model.predictive_check(food, n_draws=5)).axes]
    ['predicted share of a level', 'mean place on all scales', 'predicted correlation']
    """
    figure, (shares, totals, correlations) = style.panels(3, 3, 4.0, 3.9)
    for axes, kind, what in (
        (shares, "share", "share of a level"),
        (correlations, "correlation", "correlation"),
    ):
        lines = check[check.index.get_level_values(0) == kind]
        away = (lines["observed"] < lines["low"]) | (lines["observed"] > lines["high"])
        for some, colour in ((~away, style.KINDS[0]), (away, style.KINDS[5])):
            x, low, high, y = (lines.loc[some, name] for name in ("predicted", "low", "high", "observed"))
            label = f"{some.sum()} {'outside' if colour == style.KINDS[5] else 'inside'}"
            axes.hlines(y, low, high, color=colour, lw=1, alpha=0.5)
            axes.plot(x, y, "o", color=colour, ms=3, label=label)
        axes.axline((0, 0), slope=1, color="#AAAAAA", lw=1, ls="--")
        axes.set(xlabel=f"predicted {what}", ylabel=f"observed {what}")
        axes.legend(frameon=False, fontsize="small", title="95% of the draws", title_fontsize="small")
    bars = check.loc["total"]
    place = bars.index.get_level_values("of").to_numpy(dtype=np.float64)
    totals.fill_between(
        place, bars["low"], bars["high"], color=style.KINDS[4], alpha=0.4, label="95% of the draws"
    )
    totals.plot(place, bars["observed"], "o-", color="black", ms=3, lw=1, label="observed")
    totals.set(xlabel="mean place on all scales", ylabel="share of people", xlim=(0, 1), ylim=(0, None))
    totals.legend(frameon=False, fontsize="small")
    for axes in (shares, totals, correlations):
        style.unboxed(axes)
    return style.framed(figure, title, note)


@style.plain_text
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
    figure, all_axes = style.panels(len(gaps), _PANELS_PER_ROW, 2.8, 2.2, (0.3, 0.4))
    for axes, name in zip(all_axes, gaps, strict=True):
        there = seen[name].isna().to_numpy()
        labels, given, *imputed = _shares(seen[name].dropna(), [table[name][there] for table in filled])
        mean, x = np.mean(imputed, axis=0), np.arange(len(labels))
        ends = np.abs(np.array([np.min(imputed, axis=0), np.max(imputed, axis=0)]) - mean)
        axes.bar(x - 0.2, given, 0.4, color=style.KINDS[0], label="observed")
        axes.bar(x + 0.2, mean, 0.4, color=style.KINDS[1], label="imputed", yerr=ends, error_kw={"lw": 0.8})
        axes.set_xticks(x, [style.wrapped(style.shortened(label, 20), 10) for label in labels], fontsize=7)
        axes.set_title(style.wrapped(name, 34), fontsize="small", loc="left")
        axes.set(xlabel="answer", ylabel="share of answers")
        style.unboxed(axes)
    all_axes[0].margins(y=0.4)  # room for the legend
    style.add_legend(all_axes[0], "right", inside=True)
    return style.framed(figure, title, note)


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
