"""Ratings: how often each is given, and whether probabilities mean what they say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ordinalrbm.plots.style import KINDS, QUIET, bare, framed, panels, plain_text, shades, shortened, unboxed


@plain_text
def level_shares(levels: Sequence[str], counts: Sequence[int], *, title: str = "", note: str = "") -> Figure:
    """How often each level was given.

    Parameters
    ----------
    levels : sequence of str
        Names of the levels, from lowest to highest.
    counts : sequence of int
        How often each was given.
    title, note : str, optional
        Above and, small, below.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> figure = level_shares(["bad", "good"], [1, 3])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['25 %', '75 %']
    """
    shares = np.asarray(counts, dtype=np.float64) / max(np.sum(counts), 1)
    figure, (axes,) = panels(1, 1, 6.0, 0.26 * len(levels) + 0.5)
    axes.barh(np.arange(len(levels)), shares, 0.75, color=shades(len(levels)))
    for place, share in enumerate(shares):
        place_of_text = share + 0.01 * shares.max()
        axes.text(place_of_text, place, f"{share * 100:.0f} %", va="center", fontsize=8)
    axes.set_yticks(np.arange(len(levels)), [shortened(level, 30) for level in levels])
    axes.set(xticks=[], ylim=(len(levels) - 0.5, -0.5))
    axes.tick_params(labelsize=9)
    axes.spines["bottom"].set_visible(False)
    bare(axes)
    framed(figure, title, note)
    return figure


@plain_text
def calibration(reliability: pd.DataFrame, *, title: str = "", note: str = "") -> Figure:
    """How often levels were answered, beside the probability that was predicted for them.

    Parameters
    ----------
    reliability : DataFrame
        From :func:`ordinalrbm.evaluate.reliability`.
    title, note : str, optional
        Above and, small, below.

    Returns
    -------
    matplotlib.figure.Figure

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
        color=KINDS[0],
        ms=5,
        label="model, with 95 % intervals",
    )
    axes.set(ylabel="how often it was answered", xlabel="predicted probability")
    axes.set(xlim=(0, 1), ylim=(-0.02, 1.02))
    axes.tick_params(labelbottom=True)
    axes.legend(frameon=False, loc="upper left", fontsize="small")
    width = reliability["high"] - reliability["low"]
    counts.bar(reliability["low"], reliability["count"], width * 0.94, align="edge", color=QUIET)
    counts.set_ylabel("how many")
    for one in (axes, counts):
        unboxed(one)
    framed(figure, title, note)
    return figure
