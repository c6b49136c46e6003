"""Figures of factors show the numbers they are given, on axes that say what they are."""

import numpy as np
import pandas as pd
import pytest

from ordinalrbm import plots
from ordinalrbm.errors import DataError

AT = pd.Index(np.linspace(-3, 3, 7), name="Factor 2")


def test_loading_map_has_every_number_and_the_texts_as_they_are():
    loadings = pd.DataFrame(
        {"Factor 1": [0.81, -0.4, 0.0], "Factor 2": [0.1, 0.2, -0.93]}, index=["a", "b", "$c$"]
    )
    figure = plots.loading_map(loadings, {"a": "I like $x^2$ & <b>"}, title="What", note="how")
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.texts] == ["0.81", "0.10", "−0.40", "0.20", "0.00", "−0.93"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a: I like $x^2$ & <b>", "b", "$c$"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["Factor 1", "Factor 2"]
    figure.canvas.draw()


def test_item_curves_are_probabilities_along_the_factor():
    high = 1 / (1 + np.exp(-AT.to_numpy()))
    table = pd.DataFrame({"no": 1 - high, "yes": high, "information": 9.0}, index=AT)
    figure = plots.item_curves({"one": table, "two": table})
    assert len(figure.axes) == 2
    axes = figure.axes[1]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), high)
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["no", "yes"]
    assert axes.get_xlabel() == "Factor 2 (standard deviations)"
    assert axes.get_ylabel() == "probability"


def test_information_curves_show_the_questions_that_tell_most_and_all_together():
    names = [f"q{i}" for i in range(12)]
    table = pd.DataFrame({name: np.full(7, 0.1 * i) for i, name in enumerate(names)}, index=AT)
    figure = plots.information_curves(table.assign(total=table.sum(axis=1)))
    shown = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    assert shown == [*names[:4:-1], "all together"]
    assert figure.axes[0].lines[-1].get_ydata()[0] == pytest.approx(6.6)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.loading_map(pd.DataFrame()),
        lambda: plots.item_curves({}),
        lambda: plots.information_curves(pd.DataFrame()),
    ],
)
def test_nothing_to_draw_is_refused(draw):
    with pytest.raises(DataError, match="There is no"):
        draw()
