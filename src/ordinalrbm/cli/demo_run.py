"""The demo: a survey about food, as a survey and as ratings."""

from __future__ import annotations

import errno
import io
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

import ordinalrbm as orbm
from ordinalrbm.cli.output import results_table
from ordinalrbm.data.datasets import load_food_world_cup
from ordinalrbm.data.tables import Encoded, read_table
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.hidden import distributions, hide_answers, marginals
from ordinalrbm.evaluate.metrics import score
from ordinalrbm.files.survey import Survey
from ordinalrbm.pages.page import Table
from ordinalrbm.pages.ratings import example_of
from ordinalrbm.pages.reporting import Subject
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.storage.atomic import atomic_write
from ordinalrbm.words import FactorInWords, Wording, column_similarity, describe_factors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAP, CUISINES, PAGE = "food-map.png", "food-cuisines.png", "report.html"
HIDDEN_SHARE = 0.1
HIDING_SEED = 2014
# The defaults; fewer factors than those predict as well, and are easier to read.
SETTINGS: dict[str, Any] = {"n_factors": 12, "random_state": 0}
_LEVELS = [1, 2, 3, 4, 5]
# The same answers as ratings of cuisines by users.
RATING_SETTINGS: dict[str, Any] = {"n_factors": 10, "random_state": 0, "scale": _LEVELS}
N_RECOMMENDED, N_REASONS = 3, 3
_WIDTH = 80  # longer lines are hard to read, however wide the terminal is
_ASIA = ["China", "India", "Japan", "South Korea", "Thailand", "Vietnam"]
_NORTH_WEST_EUROPE = ["Belgium", "England", "Germany", "Ireland", "Netherlands", "Switzerland"]
_INTEREST = ["Not at all", "Not much", "Some", "A lot"]
_SOURCE = "Data: FiveThirtyEight, CC BY 4.0."
_WORDING = Wording(more="likes {} more", less="likes {} less")
# What a terminal without Unicode shows instead.
_ASCII = str.maketrans({"−": "-", "→": "->", "“": '"', "”": '"', "…": "...", "–": "-", "½": "1/2"})

# Things to try: code that runs as it stands, where there are such files.
NEXT_STEPS = """\
import pandas as pd, ordinalrbm as orbm
# A survey of your own: one row per person, one column per question.
answers = pd.read_csv("survey.csv", index_col=0)
model = orbm.CumulativeRBM(random_state=0).fit(answers)
model.impute(answers).to_csv("survey-complete.csv")
factors = model.transform(answers)
# Ratings: the columns user, item and rating; the best items for all.
rater = orbm.OrdinalMF(random_state=0).fit(pd.read_csv("ratings.csv"))
rater.recommend("all", n=10).to_csv("best.csv")"""
COMMANDS = """\
ordinalrbm report survey.sav            # SPSS, Stata, Excel, CSV, Parquet
ordinalrbm impute survey.sav            # fill its missing values
ordinalrbm fit ratings.csv -o films.orbm  # columns user, item, rating
ordinalrbm recommend films.orbm --users all -n 10 -o best.csv"""


class Outcome(NamedTuple):
    """What the demo found."""

    model: CumulativeRBM
    rater: orbm.OrdinalMF
    scores: dict[str, dict[str, float]]  # of both models and of the usual answer, in this order
    factors: list[FactorInWords]
    paths: dict[str, Path]  # of the report and the pictures, by their names


def run(
    out: str | os.PathLike = "ordinalrbm-demo", *, console: Console | None = None, **settings: Any
) -> Outcome:
    """Hide answers, learn, predict them, describe the factors, recommend, draw, and write a report.

    ``out`` is the folder for two pictures and the report, made when it is not there. The settings
    are parameters of :class:`ordinalrbm.CumulativeRBM` in place of the demo's own.
    """
    screen, started = _Screen(console or Console(highlight=False)), time.perf_counter()
    folder = Path(out)
    _check_folder(folder)
    answers, background = load_food_world_cup(background=True)
    survey = _survey(answers, background)
    shown, hidden = hide_answers(survey.encoded, HIDDEN_SHARE, HIDING_SEED)
    n_hidden, (n_rows, n_columns) = hidden.level.size, answers.shape
    screen.title("Food World Cup")
    screen.say(
        f"In 2014 FiveThirtyEight asked {n_rows:,} Americans how they like {n_columns} national cuisines, "
        f"from 1 (hate) to 5 (love), and got {answers.notna().to_numpy().mean():.0%} of the answers: many "
        f"cuisines are unfamiliar (data: FiveThirtyEight, CC BY 4.0). This demo hides {HIDDEN_SHARE:.0%} of "
        f"the given answers, learns from the others which tastes go together, predicts the {n_hidden:,} "
        "hidden ones, recommends, draws two pictures and writes a report."
    )
    screen.console.print()
    warm_up()
    model, rater = _learn(screen, shown, {**SETTINGS, **settings})
    predicted = {
        "survey model (CumulativeRBM)": distributions(model, shown, hidden),
        f"rating model ({type(rater).__name__})": rater.predict_proba(
            hidden.row, answers.columns[hidden.column]
        ),
        "cuisine's usual answer": np.stack(marginals(shown.observations))[hidden.column],
    }
    scores = {name: score(found, hidden.level + 1) for name, found in predicted.items()}
    _print_scores(screen, scores, n_hidden)
    factors = describe_factors(model, wording=_WORDING)
    _print_factors(screen, factors)
    _print_recommendations(screen, rater)
    screen.say("Drawing a map of the respondents and one of the cuisines ...")
    pictures = _draw(model, answers, background)
    with screen.console.status("Writing the report"):
        page = Subject(model, survey, {"held_out": hidden}).page()
    paths = _write(folder, pictures, page)
    n_silent = int(answers.isna().all(axis=1).sum())
    about = {
        PAGE: "the report: open it in a browser, and point at the map",
        MAP: f"{n_rows - n_silent:,} respondents by taste ({n_silent} gave no answer: left out)",
        CUISINES: "which cuisines are liked by the same people",
    }
    screen.title("A report and two pictures")
    for name, path in paths.items():
        screen.lines(str(path))  # for copying: never broken over lines
        screen.console.print(f"    {about[name]}", style="dim", markup=False)
    for where, code in (("on the command line", COMMANDS), ("in Python", NEXT_STEPS)):
        screen.title(f"What to try next, {where}")
        screen.lines(code)
    screen.console.print()
    screen.note(f"Done in {time.perf_counter() - started:.0f} s.")
    return Outcome(model, rater, scores, factors, paths)


def _print_scores(screen: _Screen, scores: dict[str, dict[str, float]], n_hidden: int) -> None:
    screen.title(f"How well the {n_hidden:,} hidden answers are predicted")
    head = ("", "mean absolute\nerror", "exactly\nright", "log-likelihood\nper answer")
    rows: list[tuple[object, ...]] = [
        (name, line["mae_median"], line["accuracy"], -line["nll"]) for name, line in scores.items()
    ]
    screen.table(Table(head, rows, ("", ".3f", ".1%", ".3f")))
    screen.note(
        "Error of the median, hits of the most likely answer; larger log-likelihood is better. "
        "The usual answer is the cuisine's own median, mode and frequencies, whoever is asked."
    )


def _print_factors(screen: _Screen, factors: list[FactorInWords]) -> None:
    screen.title("The tastes it found")
    if not factors:
        screen.say("None: no factor moves any answer. Let it learn for more epochs.")
        return
    screen.note(
        "A factor is a taste that cuisines share. In brackets: how the expected rating changes "
        "between people low and high on it (one standard deviation below and above the mean), "
        "all other factors at their mean. Last: how likely a 4 or 5 becomes."
    )
    for factor in factors:
        screen.say(factor.text, indent=2)


def _print_recommendations(screen: _Screen, rater: orbm.OrdinalMF) -> None:
    """Cuisines that a respondent with a median number of answers has not rated, and why."""
    example = example_of(rater, n_items=N_RECOMMENDED)
    if example is None:
        return
    screen.title(f"What respondent {example['user']} should try next")
    screen.table(example["recommended"])
    reasons = ", ".join(
        f"{item} {rating} ({effect:+.2f})".replace("-", "−")
        for item, rating, effect in example["reasons"].rows[:N_REASONS]
    )
    screen.note(
        "Score: demand for the cuisine times the chance of a 4 or 5; only its order counts. "
        f"Ratings that speak most for {example['first']} (or against), and what each adds to "
        f"the expected rating: {reasons}."
    )


# ---- learning ---------------------------------------------------------------------------------


def warm_up() -> None:
    """Compile what the demo needs, before a progress bar starts to estimate; takes a minute, once."""
    answers = load_food_world_cup().head(100)
    few = read_table(answers, _LEVELS)
    CumulativeRBM(**{**SETTINGS, "n_factors": 1, "n_epochs": 1}).fit(few).predict_proba(few)
    rater = orbm.OrdinalMF(**RATING_SETTINGS, n_epochs=1).fit(as_ratings(answers))
    example_of(rater, n_items=1)


def _survey(answers: pd.DataFrame, background: pd.DataFrame) -> Survey:
    names = tuple(map(str, _LEVELS))
    columns = [
        Column(name, "ordinal", f"How much do you like the food of {name}?", tuple(_LEVELS), names)
        for name in answers
    ]
    encoded = read_table(answers, _LEVELS)
    return Survey("Food World Cup", encoded, background, None, None, Schema(tuple(columns)), ())


def _learn(screen: _Screen, shown: Encoded, settings: dict[str, Any]) -> tuple[CumulativeRBM, orbm.OrdinalMF]:
    n_factors, n_answers = settings["n_factors"], shown.observations.n_entries
    screen.say(f"Learning {n_factors} factors from the other {n_answers:,} answers ...")
    # In a log, a bar that redraws itself is only noise.
    model = CumulativeRBM(**settings, verbose=sys.stderr.isatty()).fit(shown)
    screen.say("Learning the same answers as ratings of cuisines by users ...")
    return model, orbm.OrdinalMF(**RATING_SETTINGS).fit(as_ratings(shown.to_frame()))


def as_ratings(answers: pd.DataFrame) -> pd.DataFrame:
    values, items = answers.to_numpy(dtype=float, na_value=np.nan), answers.columns.to_numpy(object)
    user, item = np.nonzero(~np.isnan(values))
    return pd.DataFrame({"user": user, "item": items[item], "rating": values[user, item].astype(np.int64)})


# ---- pictures and files -----------------------------------------------------------------------


def _draw(model: CumulativeRBM, answers: pd.DataFrame, background: pd.DataFrame) -> dict[str, Figure]:
    from ordinalrbm import plots  # matplotlib takes a while to import

    answered = answers.notna().any(axis=1)
    answers, background = answers[answered], background[answered]
    contrast = answers[_ASIA].mean(axis=1) - answers[_NORTH_WEST_EUROPE].mean(axis=1)
    interest = pd.Categorical(background["interest"], _INTEREST, ordered=True)
    method = f"a Cumulative RBM with {model.n_factors} factors"
    respondents = plots.row_map(
        plots.row_positions(model.transform(answers)),
        {
            "Mean rating given\n(1 hate … 5 love)": answers.mean(axis=1),
            "Mean rating of Asian minus\nof north-west European cuisines": contrast,
            "Stated interest in world food\n(the model never saw it)": interest,
        },
        title=f"{len(answers):,} people by taste: neighbours like the same cuisines",
        note=f"t-SNE of the factor posteriors of {method}; "
        f"{(~answered).sum()} respondents without any answer are left out. {_SOURCE}",
    )
    cuisines = plots.similarity_map(
        column_similarity(model),
        title="Which cuisines are liked by the same people",
        note=f"From the weights of {method}; frames: groups of like cuisines. {_SOURCE}",
    )
    return {MAP: respondents, CUISINES: cuisines}


def _check_folder(folder: Path) -> None:
    there = next(part for part in (folder.absolute(), *folder.absolute().parents) if part.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return
    why = os.strerror(errno.EACCES) if there.is_dir() else "there is a file of that name"
    raise DataError(f"Cannot write to the folder '{folder}' ({why}); choose another one with --out.")


def _write(folder: Path, pictures: dict[str, Figure], page: str) -> dict[str, Path]:
    contents = {PAGE: page.encode()}
    for name, figure in pictures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
        contents[name] = buffer.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        with atomic_write(folder / name) as file:
            file.write_bytes(content)
    return {name: folder / name for name in contents}


# ---- what is printed --------------------------------------------------------------------------


class _Screen:
    """The terminal; texts are wrapped, and in characters that it has."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def table(self, table: Table) -> None:
        rows = [
            [self.fit(table.cell(column, value)) for column, value in enumerate(row)] for row in table.rows
        ]
        first, *others = table.head
        self.console.print(results_table({first: ""} | dict.fromkeys(others, "s"), rows))

    def title(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(self.fit(text), style="bold"))

    def lines(self, code: str) -> None:
        for line in code.splitlines():
            style = "dim" if line.startswith("#") else ""
            self.console.print(Text(self.fit(f"  {line}"), style=style), soft_wrap=True)

    def note(self, text: str) -> None:
        self.say(text, style="dim")

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        start, width = " " * indent, min(self.console.width, _WIDTH)
        filled = textwrap.fill(text, width, initial_indent=start, subsequent_indent=2 * start)
        self.console.print(Text(self.fit(filled), style=style), soft_wrap=True)

    def fit(self, text: str) -> str:
        """The text in characters that the terminal has."""
        return text if self.console.encoding.lower().startswith("utf") else text.translate(_ASCII)
