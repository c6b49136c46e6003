"""How learning went, how well hidden answers are predicted, and whether probabilities are calibrated."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ordinalrbm.errors import DataError
from ordinalrbm.plots import style

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
def hidden_answers(
    scores: pd.DataFrame,
    *,
    measure: str = "mean absolute error",
    title: str = "",
    note: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Error of the model and of always giving the most common answer, question by question.

    Parameters
    ----------
    scores : DataFrame
        One line per question (the index names it): ``model`` and ``usual`` (the most common answer),
        both errors, so that smaller is better. The question with the largest gain comes first.
    measure : str
        What the errors are.
    title, note, ax : str, str and Axes, optional

    Examples
    --------
    >>> scores = pd.DataFrame({"model": [0.6, 0.5], "usual": [0.7, 0.9]}, ["tea", "milk"])
    >>> [label.get_text() for label in hidden_answers(scores).axes[0].get_yticklabels()]
    ['milk', 'tea']
    """
    if scores.empty:
        raise DataError("There is no score to draw; give at least one question.")
    gain = (scores["usual"] - scores["model"]).to_numpy(dtype=np.float64)
    lines = scores.iloc[np.argsort(-gain, kind="stable")]
    height = np.arange(len(lines))
    figure, (axes,) = style.panels(1, 1, 7.0, 0.21 * len(lines) + 1.1, ax=ax)
    axes.hlines(height, lines["model"], lines["usual"], color="#CCCCCC", lw=2, zorder=1)
    common = "most common answer"
    axes.scatter(lines["usual"], height, 24, zorder=2, facecolor="white", edgecolor=style.QUIET, label=common)
    axes.scatter(lines["model"], height, 24, zorder=2, color=style.KINDS[0], label="model")
    axes.set_yticks(height, [style.wrapped(name, 34, max_lines=1) for name in lines.index])
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlabel(f"{measure} (less is better)")
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="x", color="#EEEEEE")
    axes.set_axisbelow(True)
    style.bare(axes)
    style.add_legend(axes, "right", inside=ax is not None, ncols=2)
    return style.framed(figure, title, note, ax)


@style.plain_text
def level_shares(
    levels: Sequence[str], counts: Sequence[int], *, title: str = "", note: str = "", ax: Axes | None = None
) -> Figure:
    """How often each level was given.

    Parameters
    ----------
    levels : sequence of str
        Names of the levels, from lowest to highest.
    counts : sequence of int
        How often each was given.
    title, note, ax : str, str and Axes, optional

    Examples
    --------
    >>> figure = level_shares(["bad", "good"], [1, 3])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['25%', '75%']
    """
    shares = np.asarray(counts, dtype=np.float64) / max(np.sum(counts), 1)
    figure, (axes,) = style.panels(1, 1, 6.0, 0.26 * len(levels) + 0.5, ax=ax)
    axes.barh(np.arange(len(levels)), shares, 0.75, color=style.shades(len(levels)))
    for level, share in enumerate(shares):
        axes.text(share + 0.01 * shares.max(), level, f"{share:.0%}", va="center", fontsize=8)
    axes.set_yticks(np.arange(len(levels)), [style.shortened(level, 30) for level in levels])
    axes.set(xticks=[], ylim=(len(levels) - 0.5, -0.5))
    axes.tick_params(labelsize=9)
    axes.spines["bottom"].set_visible(False)
    style.bare(axes)
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
