from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib import _pylab_helpers
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from ordinalrbm import plots
from ordinalrbm.errors import DataError

PLACES = np.random.default_rng(3).normal(size=(50, 2))


@pytest.fixture(autouse=True)
def no_open_figures():
    before = set(_pylab_helpers.Gcf.figs)
    yield
    assert set(_pylab_helpers.Gcf.figs) == before


def drawn(figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def points(axes) -> list[PathCollection]:
    found = [c for c in axes.collections if isinstance(c, PathCollection)]
    return [c for c in found if len(c.get_offsets())]


# Maps of rows


def test_a_panel_for_each_colouring_with_all_points():
    figure = plots.row_map(
        PLACES,
        {"Age": np.arange(50.0), "Sex": ["f", "m"] * 25},
        title="Who is who",
        note="Source: none",
        axis_name="PCA",
    )
    age, sex = figure.axes[:2]
    assert [age.get_title(), sex.get_title()] == ["Age", "Sex"]
    assert [age.get_xlabel(), age.get_ylabel()] == ["PCA 1", "PCA 2"]
    assert figure.get_suptitle() == "Who is who"
    assert figure.get_supxlabel() == "Source: none"
    for axes in (age, sex):
        (collection,) = points(axes)
        np.testing.assert_array_equal(collection.get_offsets(), PLACES)
    np.testing.assert_array_equal(points(age)[0].get_array(), np.arange(50.0))
    assert drawn(figure).startswith(b"\x89PNG")


def test_legend_names_each_kind_in_its_colour():
    kinds = np.array(["b", "a", "c", "a", "b"] * 10)
    axes = plots.row_map(PLACES, {"Kind": kinds}).axes[0]
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "c"]
    of_legend = {
        text.get_text(): tuple(handle.get_facecolor()[0])
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    of_points = [tuple(colour) for colour in points(axes)[0].get_facecolors()]
    assert of_points == [of_legend[kind] for kind in kinds]
    assert len(set(of_legend.values())) == 3


def test_ordered_kinds_go_from_dark_to_light():
    levels = ["never", "sometimes", "often", "always"]
    values = pd.Categorical(np.resize(levels, 50), levels, ordered=True)
    legend = plots.row_map(PLACES, {"How often": values}).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == levels
    lightness = [handle.get_facecolor()[0][:3] @ (0.3, 0.6, 0.1) for handle in legend.legend_handles]
    assert np.all(np.diff(lightness) > 0.1)


@pytest.mark.parametrize("kind", ["numbers", "words"])
def test_missing_values_are_hollow_and_named(kind):
    values = pd.Series(np.arange(50.0) if kind == "numbers" else ["x", "y"] * 25)
    values[:7] = None
    axes = plots.row_map(PLACES, {"Some": values}).axes[0]
    hollow, full = points(axes)
    np.testing.assert_array_equal(hollow.get_offsets(), PLACES[:7])
    np.testing.assert_array_equal(full.get_offsets(), PLACES[7:])
    assert hollow.get_facecolors().size == 0
    assert hollow.get_zorder() < full.get_zorder()
    assert "not known" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_zero_is_in_the_middle_when_numbers_have_both_signs():
    values = np.linspace(-1.0, 4.0, 50)
    (collection,) = points(plots.row_map(PLACES, {"Change": values}).axes[0])
    assert collection.norm(0.0) == pytest.approx(0.5)
    assert collection.norm.vmax == -collection.norm.vmin > 3.0


def test_one_outlier_leaves_the_colours_to_the_others():
    values = np.append(np.linspace(1.0, 5.0, 999), 1e6)
    places = np.random.default_rng(0).normal(size=(1000, 2))
    (collection,) = points(plots.row_map(places, {"Income": values}).axes[0])
    assert collection.norm.vmax < 6.0


@pytest.mark.parametrize("values", [[2.0] * 50, [None] * 50, [True, False] * 25])
def test_odd_columns_can_be_drawn(values):
    assert drawn(plots.row_map(PLACES, {"Odd": values}))


@pytest.mark.parametrize(
    ("places", "colour_by", "message"),
    [
        (PLACES, {"Age": [1, 2]}, "'Age' has 2 values for 50 points"),
        (PLACES, {}, "colour_by is empty"),
        (PLACES, {"Who": [str(i) for i in range(50)]}, "50 kinds cannot be told apart"),
        (PLACES.T, {"Age": [1, 2]}, "two columns"),
    ],
)
def test_row_map_refuses(places, colour_by, message):
    with pytest.raises(DataError, match=message):
        plots.row_map(places, colour_by)


# Positions


def test_positions_keep_neighbours_together_and_repeat():
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], 40)
    factors = rng.normal(scale=0.02, size=(80, 5)) + 0.6 * group[:, None]
    places = plots.row_positions(factors, max_iter=300)
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (group[distance.argmin(axis=1)] == group).all()
    np.testing.assert_array_equal(places, plots.row_positions(factors, max_iter=300))


@pytest.mark.parametrize("shape", [(4, 3), (30, 1)])
def test_positions_of_little_data(shape):
    places = plots.row_positions(np.random.default_rng(0).random(shape), max_iter=250)
    assert places.shape == (shape[0], 2)
    assert np.isfinite(places).all()


def test_positions_of_rows_that_are_all_alike():
    assert np.isfinite(plots.row_positions(np.full((20, 3), 0.5), max_iter=250)).all()


def test_positions_need_rows():
    with pytest.raises(DataError, match=r"at least 4 rows, got shape \(3, 2\)"):
        plots.row_positions(np.zeros((3, 2)))


# Axes of one's own


def given(*shape):
    return pd.DataFrame(np.random.default_rng(0).random(shape) * 0.5 + 0.2)


CURVE = pd.DataFrame({"no": [0.9, 0.1], "yes": [0.1, 0.9]}, index=pd.Index([-1.0, 1.0], name="Factor 1"))
HISTORY = pd.DataFrame({"epoch": [1, 2], "validation": [-1.5, -1.4]})
SINGLE = {
    "loading_map": lambda **o: plots.loading_map(given(3, 2), **o),
    "information_curves": lambda **o: plots.information_curves(CURVE, **o),
    "learning_curve": lambda **o: plots.learning_curve(HISTORY, best_epoch=2, **o),
}


@pytest.mark.parametrize("name", SINGLE)
def test_it_draws_into_axes_that_are_given(name):
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    assert SINGLE[name](ax=left, title="What $x", note="and why") is figure
    assert left.get_title() == "What $x" and left.get_xlabel().endswith("and why")
    assert left.has_data() and not right.has_data()
    assert drawn(figure)


# Imputed answers


def test_observed_and_imputed():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"tea": ["no", "yes", None, None], "age": [20.0, np.nan, 30.0, 40.0], "id": [1, 2, 3, 4]}
    )
    X = pd.concat([X] * 10, ignore_index=True)
    X["age"] += rng.normal(size=40)
    tables = [X.fillna({"tea": "yes", "age": 25.0}), X.fillna({"tea": "no", "age": 35.0})]
    figure = plots.observed_and_imputed(X, tables, title="Gaps")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["tea", "age"]
    assert [bar.get_height() for bar in figure.axes[0].patches] == [0.5, 0.5, 0.5, 0.5]
    assert figure.axes[1].get_ylabel() == "share of answers" and len(figure.axes[1].patches) == 20
    assert sum(bar.get_height() for bar in figure.axes[1].patches[10:]) == pytest.approx(1.0)
    assert drawn(figure)
    with pytest.raises(DataError, match="40 rows of X"):
        plots.observed_and_imputed(X, [tables[0][:3]])
    for wrong in (tables[0], [tables[0].rename(columns={"tea": "milk"})]):
        with pytest.raises(DataError, match="a list of imputed tables"):
            plots.observed_and_imputed(X, wrong)
    with pytest.raises(DataError, match="no imputed answer"):
        plots.observed_and_imputed(tables[0], tables)
