"""Figures: what stands on them."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from ordinalrbm import plots

FORMULA = "$x^2$ <b> $\\frac"


def texts(figure) -> str:
    """All that is written on a figure; it must be possible to draw it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    found = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return "\n".join(artist.get_text() for artist in found)


def formula_figures():
    curve = pd.DataFrame({FORMULA: [0.9, 0.1], "b": [0.1, 0.9]}, index=pd.Index([-1.0, 1.0], name="Factor 1"))
    return {
        "learning": plots.learning_curve(
            pd.DataFrame({"epoch": [1, 2], "validation": [-2.0, -1.0]}), title=FORMULA
        ),
        "curves": plots.item_curves({FORMULA: curve}),
        "loadings": plots.loading_map(pd.DataFrame({"Factor 1": [0.5]}, index=[FORMULA])),
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
