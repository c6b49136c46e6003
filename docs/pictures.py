"""Draw the pictures of README and documentation: `make pictures`.

    python docs/pictures.py                 # all of them, into docs/pictures
    python docs/pictures.py hero benchmarks # some of them

Everything is drawn from the embedded survey and from benchmarks/results, with fixed seeds. Screenshots of
the report need Chromium; without it they are left as they are. `logo.svg` and `model.svg` are drawn by hand.
"""

from __future__ import annotations

import functools
import io
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle
from PIL import Image
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

import ordinalrbm as orbm
from ordinalrbm import plots
from ordinalrbm.cli.demo_run import as_ratings
from ordinalrbm.plots.style import KINDS, QUIET

FOLDER = Path(__file__).parent / "pictures"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
MOST_BYTES = 150_000
_SEED = 0
_GROUPS = 6
_OURS, _OTHERS = KINDS[0], "#B8BEC7"


# ---- what is drawn from -----------------------------------------------------------------------


@functools.cache
def food() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Everybody who gave an answer, and their background."""
    answers, background = orbm.datasets.load_food_world_cup(background=True)
    answered = answers.notna().any(axis=1)
    return answers[answered], background[answered]


@functools.cache
def survey_model() -> orbm.CumulativeRBM:
    """The model of the demo."""
    return orbm.CumulativeRBM(n_factors=12, random_state=_SEED).fit(food()[0])


@functools.cache
def few_factors() -> orbm.CumulativeRBM:
    """A model whose factors are to be read."""
    return orbm.CumulativeRBM(n_factors=4, random_state=_SEED).fit(food()[0])


@functools.cache
def reading() -> orbm.estimators.factor_analysis.FactorReading:
    """The rotated factors of the small model."""
    return few_factors().factor_solution(food()[0])


@functools.cache
def tested_ratings() -> tuple[np.ndarray, pd.DataFrame, pd.DataFrame]:
    """Distributions of hidden ratings, these ratings, and those that were learnt from."""
    train, _, test = orbm.evaluate.split(
        as_ratings(food()[0]), protocol="random", min_ratings=15, n_validation=1, n_test=4, random_state=_SEED
    )
    model = orbm.OrdinalMF(20, scale=[1, 2, 3, 4, 5], random_state=_SEED).fit(train)
    return model.predict_proba(test["user"], test["item"]), test, train


# ---- README -----------------------------------------------------------------------------------


def hero() -> Figure:
    """Cuisines that are liked by the same people, and what one person would say of three of them."""
    figure = Figure(figsize=(12, 5.6), layout="constrained", facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=[1.2, 1], wspace=0.02)
    factors = survey_model().factor_solution()
    implied = factors.loadings @ factors.correlations @ factors.loadings.T
    _cuisines(left.subplots(), implied)
    _person(right)
    return figure


def _cuisines(axes: Axes, correlation: pd.DataFrame) -> None:
    values = correlation.to_numpy(copy=True)
    np.fill_diagonal(values, 1.0)
    distance = np.clip(1 - (values + values.T) / 2, 0, None)
    np.fill_diagonal(distance, 0)
    tree = hierarchy.linkage(squareform(distance), "average", optimal_ordering=True)
    order = hierarchy.leaves_list(tree)
    axes.imshow(values[np.ix_(order, order)], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    group = hierarchy.fcluster(tree, _GROUPS, "maxclust")[order]
    edges = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
    for start, stop in itertools.pairwise(edges):
        if stop - start > 1:
            corner, side = (start - 0.5, start - 0.5), stop - start
            axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor="black", lw=1.4))
    names = correlation.index[order]
    axes.set_yticks(np.arange(len(names)), names, fontsize=7.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Cuisines liked by the same people", fontsize=13, loc="left")


def _person(figure: SubFigure) -> None:
    """Three predictions for somebody of pronounced taste, furthest from what everybody says."""
    answers, _ = food()
    given = answers[answers.notna().sum(axis=1).between(9, 14)]
    given = given[given.std(axis=1) > 1.1]
    chances = np.stack(survey_model().predict_proba(given), axis=1)
    usual = np.stack([answers[name].value_counts(normalize=True).sort_index() for name in answers])
    shift = (chances - usual) @ np.arange(1, 6)
    shift[given.notna().to_numpy()] = 0
    row = int((shift.max(axis=1) - shift.min(axis=1)).argmax())
    order = np.argsort(-shift[row])
    told = given.iloc[row].dropna().astype(int).sort_values(ascending=False, kind="stable")
    all_axes = figure.subplots(3, 1, sharex=True, sharey=True)
    for axes, column in zip(all_axes, (order[0], order[1], order[-1]), strict=True):
        _two_bars(axes, usual[column], chances[row, column])
        axes.set_title(f"{answers.columns[column]}, not rated", fontsize=10.5, loc="left", y=0.86, x=0.02)
    all_axes[0].legend(frameon=False, fontsize=9, loc="lower right", ncols=2, bbox_to_anchor=(1.0, 1.0))
    all_axes[-1].set_xticks(np.arange(5), ["1 hate", "2", "3", "4", "5 love"], fontsize=10)
    figure.suptitle("What would this person say?", fontsize=13, x=0.02, ha="left")
    known = ", ".join(f"{name} {rating}" for name, rating in told.items())
    figure.supxlabel(textwrap.fill(f"Rated: {known}", 82), fontsize=8.5, color=QUIET, x=0.02, ha="left")


def _two_bars(axes: Axes, usual: np.ndarray, predicted: np.ndarray) -> None:
    place = np.arange(len(usual))
    axes.bar(place - 0.2, usual, 0.38, color=_OTHERS, label="everybody")
    axes.bar(place + 0.2, predicted, 0.38, color=_OURS, label="this person, predicted")
    for x, share in zip(place, predicted, strict=True):
        if share >= 0.005:
            axes.text(x + 0.2, share + 0.01, f"{share:.0%}", ha="center", fontsize=8.5)
    axes.set_yticks([])
    axes.set_ylim(0, 0.98)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def benchmarks() -> Figure:
    """Hidden answers of surveys, and MovieLens 1M, beside other libraries."""
    figure = Figure(figsize=(12, 3.9), layout="constrained", facecolor="white")
    surveys, errors, seconds = figure.subplots(1, 3, width_ratios=[2.5, 1.05, 0.95])
    _survey_bars(surveys)
    rows = movielens_peers()
    _dots(errors, {name: error for name, (error, _) in rows.items()}, "MovieLens 1M: RMSE", "{:.4f}")
    errors.set_xlim(0.875, 0.931)
    _dots(seconds, {name: time for name, (_, time) in rows.items()}, "… and seconds (log)", "{:.1f}")
    seconds.set_xscale("log")
    seconds.set_xlim(0.8, 4000)
    seconds.set_yticklabels([])
    for axes in (errors, seconds):
        axes.minorticks_off()
        axes.set_xticks([])
    return figure


def _dots(axes: Axes, values: dict[str, float], title: str, form: str) -> None:
    """A dot per library, with its figure: no bars, whose lengths would depend on where the axis begins."""
    place = np.arange(len(values))
    colours = [_OURS if name == "OrdinalMF" else "#7F8A99" for name in values]
    axes.hlines(place, 0, 1, transform=axes.get_yaxis_transform(), color="#EEF0F3", lw=1, zorder=0)
    axes.scatter(list(values.values()), place, 90, color=colours)
    for y, value in zip(place, values.values(), strict=True):
        axes.text(value, y, f"    {form.format(value)}", va="center", fontsize=9.5)
    axes.set_yticks(place, list(values), fontsize=10)
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_title(title, fontsize=12, loc="left")
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _survey_bars(axes: Axes) -> None:
    table = survey_errors()
    width = 0.88 / len(table.columns)
    colours = [_OURS, "#7F8A99", "#B8BEC7", "#DEE2E7"]
    for k, (name, colour) in enumerate(zip(table.columns, colours, strict=True)):
        place = np.arange(len(table)) + (k - 1.5) * width
        axes.bar(place, table[name], width * 0.92, color=colour, label=name)
        for x, value in zip(place, table[name], strict=True):
            axes.text(
                x,
                value + 0.01,
                f"{value:.2f}"[1:] if value < 1 else f"{value:.2f}",
                ha="center",
                fontsize=7.5,
            )
    axes.set_xticks(np.arange(len(table)), table.index, fontsize=10)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title("Five surveys: mean absolute error of hidden answers", fontsize=12, loc="left")
    axes.set_ylim(0, 1.42)
    axes.legend(frameon=False, fontsize=9, ncols=4, loc="upper left")


def survey_errors() -> pd.DataFrame:
    """Mean absolute errors of hidden answers, surveys by methods, from the result files."""
    ours = _results("hidden-answers.txt", r"^(\w+) +CumulativeRBM\(\) +([\d.]+)")
    columns = {"CumulativeRBM()": ours}
    named = {
        "Gaussian copula": "gaussian_copula",
        "IterativeImputer": "iterative_imputer",
        "marginal": "marginal",
    }
    for name, method in named.items():
        columns[name] = _results("hidden-answers-peers.txt", rf"^(\w+) +{method} +([\d.]+)")
    return pd.DataFrame(columns).loc[["food", "bfi", "spi", "big5", "pisa"]]


def movielens_peers() -> dict[str, tuple[float, float]]:
    """RMSE and seconds of the run in which all methods ran one after the other."""
    text = (RESULTS / "peers-movielens.txt").read_text()
    (run,) = re.findall(r"each method in a process of its own.*?\n\n", text, re.DOTALL)
    names = {"matrix_crbm": "OrdinalMF", "myfm": "myFM", "cmfrec": "cmfrec", "libmf": "LIBMF"}
    found = {}
    for method, name in {**names, "surprise_svd": "Surprise SVD"}.items():
        ((error, seconds),) = re.findall(rf"^{method} +([\d.]+) .*? (\d+\.\d) +[\d.]+ +\d+", run, re.M)
        found[name] = (float(error), float(seconds))
    return found


def _results(file: str, line: str) -> dict[str, float]:
    found = re.findall(line, (RESULTS / file).read_text(), re.MULTILINE)
    return {name: float(value) for name, value in found}


# ---- gallery ----------------------------------------------------------------------------------


def row_map() -> Figure:
    """People by taste."""
    answers, background = food()
    interest = pd.Categorical(
        background["interest"], ["Not at all", "Not much", "Some", "A lot"], ordered=True
    )
    return plots.row_map(
        plots.row_positions(survey_model().transform(answers)),
        {"Mean rating given (1 to 5)": answers.mean(axis=1), "Interest in world food": interest},
        title="Neighbours like the same cuisines",
    )


def loading_map() -> Figure:
    """A heat map of loadings."""
    table = reading().loadings
    order = np.lexsort((-table.abs().max(axis=1), table.abs().to_numpy().argmax(axis=1)))
    return plots.loading_map(table.iloc[order], title="Loadings after varimax")


def item_curves() -> Figure:
    """How likely each category is along a factor."""
    items = reading().items("Factor 1")[:4]
    curves = {item: reading().curves(item, "Factor 1") for item in items}
    return plots.item_curves(curves, title="Item response curves")


def information_curves() -> Figure:
    """Where along a factor the items tell people apart."""
    return plots.information_curves(reading().information("Factor 1"), title="Item and test information")


def learning_curve() -> Figure:
    """Log-likelihood by epoch."""
    return plots.learning_curve(survey_model().history_, title="Learning curve")


def calibration() -> Figure:
    """Predicted probabilities and frequencies."""
    chances, test, _ = tested_ratings()
    return plots.calibration(orbm.evaluate.reliability(chances, test["rating"]), title="Calibration")


# ---- screenshots of the report -------------------------------------------------------------------


def report_screens(folder: Path) -> dict[str, bytes]:
    """The report of the embedded survey on a desktop, in the dark and on a phone."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed: screenshots of the report are left as they are.")
        return {}
    answers, background = orbm.datasets.load_food_world_cup(background=True)
    background.join(answers).to_csv(folder / "food.csv")
    page = folder / "report.html"
    background_scales = "knowledge,interest,Household*,Education"
    _command("report", str(folder / "food.csv"), "--exclude", background_scales, "-o", str(page), "--quiet")
    as_ratings(answers).to_csv(folder / "cuisines.csv", index=False)
    _command("report", str(folder / "cuisines.csv"), "-o", str(folder / "ratings.html"), "--quiet")
    screens = {
        "report": (1280, 800, "", False),
        "report-dark": (1280, 800, "", True),
        "report-phone": (390, 844, "", False),
        "report-answers": (1280, 520, "#answers", False),
        "report-factors": (1280, 540, "#factors", False),
        "report-groups": (1280, 740, "#groups", False),
        "report-ratings": (1280, 670, "#example", False, "ratings.html"),
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        found = {name: _screen(browser, folder, address, *how) for name, how in screens.items()}
        server.shutdown()
    return found


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: requests of our own browser are of no interest."""


def _command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "ordinalrbm", *arguments], check=True)


def _screen(
    browser: str,
    folder: Path,
    address: str,
    width: int,
    height: int,
    section: str,
    is_dark: bool,
    page: str = "report.html",
) -> bytes:
    # Windows of Chromium are 500 pixels wide at least: a phone is a frame in one. Sections move until
    # all is drawn.
    picture, style = folder / "screen.png", f"border: 0; width: {width}px; height: {height}px"
    place = f"frames[0].document.querySelector('{section}')"
    scroll = f"setTimeout(() => {place}.scrollIntoView({{behavior: 'instant'}}), 2000)"
    (folder / "frame.html").write_text(
        f'<body style="margin: 0"><iframe src="{page}" style="{style}"></iframe>'
        f"<script>{scroll if section else ''}</script>"
    )
    dark = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
    size = f"--window-size={max(width, 500)},{height}"
    flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000", size, *dark]
    command = [browser, *flags, f"--screenshot={picture}", f"{address}/frame.html"]
    subprocess.run(command, check=True, capture_output=True)
    buffer = io.BytesIO()
    Image.open(picture).crop((0, 0, width, height)).save(buffer, "png")
    return buffer.getvalue()


# ---- files ------------------------------------------------------------------------------------


def predictive_check() -> Figure:
    """Answers beside those that a model draws for the same people."""
    check = few_factors().predictive_check(food()[0])
    return plots.predictive_check(check, title="Four factors of 40 cuisines")


FIGURES: dict[str, Callable[[], Figure]] = {
    draw.__name__: draw
    for draw in (
        hero,
        benchmarks,
        row_map,
        loading_map,
        item_curves,
        information_curves,
        learning_curve,
        calibration,
        predictive_check,
    )
}


def write(name: str, picture: bytes) -> None:
    """A PNG with as many colours as fit into its share of the repository."""
    path = FOLDER / f"{name.replace('_', '-')}.png"
    for colours in (256, 128, 64, 32):
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        buffer = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
        if buffer.tell() <= MOST_BYTES:
            break
    path.write_bytes(buffer.getvalue())
    print(f"{path.name}: {buffer.tell() / 1000:.0f} kB, {image.width} × {image.height}")


def main(names: list[str]) -> None:
    """Draw those named, or all."""
    FOLDER.mkdir(exist_ok=True)
    wanted = names or [*FIGURES, "report"]
    for name in wanted:
        if name in FIGURES:
            buffer = io.BytesIO()
            FIGURES[name]().savefig(buffer, format="png", dpi=100, metadata={"Software": None})
            write(name, buffer.getvalue())
    if "report" in wanted:
        with tempfile.TemporaryDirectory() as folder:
            for name, picture in report_screens(Path(folder)).items():
                write(name, picture)


if __name__ == "__main__":
    main(sys.argv[1:])
