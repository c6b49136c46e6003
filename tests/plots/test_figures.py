"""Figures of learning, questions, groups and ratings: what stands on them."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from ordinalrbm import plots
from ordinalrbm.errors import DataError
from ordinalrbm.plots.questions import Curves, Moved

FORMULA = "$x^2$ <b> $\\frac"


def texts(figure) -> str:
    """All that is written on a figure; it must be possible to draw it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    found = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return "\n".join(artist.get_text() for artist in found)


def formula_figures():
    x = np.linspace(-1, 1, 4)
    half = np.full((4, 2), 0.5)
    line = {"panel": [FORMULA], "group": [FORMULA], "mean": [0.1], "low": [np.nan], "high": [np.nan]}
    return {
        "learning": plots.learning_curve(
            pd.DataFrame({"epoch": [1, 2], "validation": [-2.0, -1.0]}), title=FORMULA
        ),
        "hidden": plots.hidden_answers(pd.DataFrame({"model": [1.0], "usual": [2.0]}, [FORMULA])),
        "bars": plots.factor_bars([Moved(FORMULA, [FORMULA, "b"], [0.5, 0.5], [0.1, 0.9])]),
        "curves": plots.response_curves([Curves(FORMULA, ["a", FORMULA], x, half, [0.0], (0, 1))]),
        "groups": plots.group_differences(pd.DataFrame(line), title="t", note="n"),
        "levels": plots.level_shares([FORMULA, "b"], [1, 2]),
        "map": plots.row_map(np.random.default_rng(0).random((4, 2)), {FORMULA: list("abab")}),
    }


@pytest.mark.parametrize("name", formula_figures())
def test_labels_are_no_formulas(name):
    assert FORMULA in texts(formula_figures()[name])


def test_the_kept_epoch_is_named():
    history = pd.DataFrame({"epoch": [1, 2], "validation": [np.nan] * 2, "pseudo_likelihood": 1.0})
    figure = plots.learning_curve(history, best_epoch=2)
    assert "epoch 2 was kept" in texts(figure)
    assert len(figure.axes[0].lines) == 2  # a curve without any number is not drawn


def test_the_largest_gain_comes_first():
    scores = pd.DataFrame({"model": [1.0, 1.0, 2.0], "usual": [1.1, 2.0, 1.0]}, list("abc"))
    labels = plots.hidden_answers(scores).axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["b", "a", "c"]


def test_bars_tell_shares_and_both_ends():
    written = texts(plots.factor_bars([Moved("Tea", ["no", "yes"], [0.25, 0.75], [0.97, 0.03])]))
    for told in ("25%", "75%", "97%", "no", "yes", "off", "on", "Tea"):
        assert told in written
    assert "3%" not in written.split("\n")  # too narrow a piece for its number


def test_figures_of_nothing_are_refused():
    for draw in (plots.factor_bars, plots.response_curves):
        with pytest.raises(DataError, match="at least one"):
            draw([])
    with pytest.raises(DataError, match="at least one question"):
        plots.hidden_answers(pd.DataFrame({"model": [], "usual": []}))
    with pytest.raises(DataError, match="missing"):
        plots.group_differences(pd.DataFrame({"group": ["a"]}))
