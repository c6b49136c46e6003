"""The demo: a survey about food, as a survey and as ratings."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

import ordinalrbm as orbm
from ordinalrbm import report
from ordinalrbm.cli.output import plain_table
from ordinalrbm.data.datasets import load_food_world_cup
from ordinalrbm.data.tables import Encoded, read_table
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.hidden import distributions, hide_answers, marginals, rows_of
from ordinalrbm.evaluate.metrics import score
from ordinalrbm.files.schema import Column, Schema
from ordinalrbm.files.survey import Survey
from ordinalrbm.report.page import Table
from ordinalrbm.report.ratings import example_of
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
_WORDING = Wording(more="likes {} more", less="likes {} less", rows="respondents")
# What a terminal without Unicode shows instead.
_ASCII = str.maketrans({"−": "-", "→": "->", "“": '"', "”": '"', "…": "...", "–": "-", "½": "1/2"})

# Things to try: code that runs as it stands, where there are such files.
NEXT_STEPS = """\
# 1. Fit your own survey: one row per person, one column per question.
import pandas as pd, ordinalrbm as orbm
answers = pd.read_csv("survey.csv", index_col=0)
model = orbm.CumulativeRBM(random_state=0, verbose=True).fit(answers)
# 2. Fill in the answers that nobody gave.
model.impute(answers).to_csv("survey-complete.csv")
# 3. Ratings have the columns user, item, rating; the best items for all.
ratings = pd.read_csv("ratings.csv")
rater = orbm.OrdinalMF(random_state=0, verbose=True).fit(ratings)
rater.recommend("all", n=10).to_csv("best.csv")
# 4. Keep the model, and use its factors elsewhere (regression, maps).
model.save("survey.orbm")
factors = orbm.load("survey.orbm").transform(answers)"""
COMMANDS = """\
ordinalrbm report survey.sav --out report.html   # SPSS, Stata, CSV, Parquet
ordinalrbm fit ratings.csv --out films.orbm      # columns user, item, rating
ordinalrbm recommend films.orbm --users all -n 10 --out best.csv"""


class Outcome(NamedTuple):
    """What the demo found; scores are those of :func:`ordinalrbm.evaluate.score`."""

    model: CumulativeRBM
    scores: dict[str, float]
    baseline: dict[str, float]
    rater: Any
    rating_scores: dict[str, float]
    factors: list[FactorInWords]
    pictures: list[Path]
    page: Path


def run(
    out: str | os.PathLike = "ordinalrbm-demo", *, console: Console | None = None, **settings: Any
) -> Outcome:
    """Hide answers, learn, predict them, tell the factors, recommend, draw, and write a report.

    ``out`` is the folder for two pictures and the report, made when it is not there. The settings
    are parameters of :class:`ordinalrbm.CumulativeRBM` in place of the demo's own.
    """
    console = console or Console(highlight=False)
    started = time.perf_counter()
    with _folder(Path(out)) as folder:
        answers, background = load_food_world_cup(background=True)
        survey = _survey(answers, background)
        shown, hidden = hide_answers(survey.encoded, HIDDEN_SHARE, HIDING_SEED)
        truth = hidden.level + 1
        _introduce(console, answers, truth.size)
        warm_up()
        model = _learn(console, shown, {**SETTINGS, **settings})
        scores = score(distributions(model, shown, hidden), truth)
        baseline = score(np.stack(marginals(shown.observations))[hidden.column], truth)
        rater = _learn_ratings(console, shown)
        rated = rater.predict_proba(hidden.row, answers.columns[hidden.column])
        rating_scores = score(rated, truth)
        judged = {
            "survey model (CumulativeRBM)": scores,
            f"rating model ({type(rater).__name__})": rating_scores,
            "cuisine's usual answer": baseline,
        }
        _tell_scores(console, judged, truth.size)
        factors = describe_factors(model, survey.encoded, n_factors=5, wording=_WORDING)
        _tell_factors(console, factors)
        _tell_recommendations(console, rater)
        pictures = _draw(console, model, answers, background)
        with console.status("Writing the report"):
            page = report.survey_page(model, survey, held_out=hidden)
        paths = _write(folder, pictures, page)
        _tell_pictures(console, paths, answers)
    _tell_next_steps(console, time.perf_counter() - started)
    page_path = paths.pop(PAGE)
    drawn = list(paths.values())
    return Outcome(model, scores, baseline, rater, rating_scores, factors, drawn, page_path)


# Learning


def warm_up() -> None:
    """Compile what the demo needs, with both models of a few answers; takes a minute, once.

    Better while things are set up, or else before a progress bar starts to estimate.
    """
    few = read_table(load_food_world_cup().head(100), _LEVELS)
    CumulativeRBM(**{**SETTINGS, "n_factors": 1, "n_epochs": 1}).fit(few).predict_proba(few)
    rater = orbm.OrdinalMF(**RATING_SETTINGS, n_epochs=1).fit(as_ratings(few))
    example_of(rater, n_items=1)


def _survey(answers: pd.DataFrame, background: pd.DataFrame) -> Survey:
    names = tuple(map(str, _LEVELS))
    columns = [
        Column(name, "ordinal", f"How much do you like the food of {name}?", tuple(_LEVELS), names)
        for name in answers
    ]
    encoded = read_table(answers, _LEVELS)
    return Survey("Food World Cup", encoded, background, None, None, Schema(tuple(columns)), ())


def _learn(console: Console, shown: Encoded, settings: dict[str, Any]) -> CumulativeRBM:
    n_factors, n_answers = settings["n_factors"], shown.observations.n_entries
    _say(console, f"Learning {n_factors} factors from the other {n_answers:,} answers ...")
    # Where nobody watches, a bar that redraws itself is only noise.
    return CumulativeRBM(**settings, verbose=sys.stderr.isatty()).fit(shown)


def as_ratings(answers: Any) -> pd.DataFrame:
    """A table of answers 1..5 as ratings: who, what, how much.

    Examples
    --------
    >>> as_ratings(pd.DataFrame({"tea": [1.0, None], "milk": [4.0, 5.0]})).values.tolist()
    [[0, 'tea', 1], [0, 'milk', 4], [1, 'milk', 5]]
    """
    encoded = answers if isinstance(answers, Encoded) else read_table(answers, _LEVELS)
    given, names = encoded.observations, np.array(encoded.names, dtype=object)
    rating = given.level.astype(np.int64) + 1
    return pd.DataFrame({"user": rows_of(given), "item": names[given.column], "rating": rating})


def _learn_ratings(console: Console, shown: Encoded) -> Any:
    _say(console, "Learning the same answers as ratings of cuisines by users ...")
    return orbm.OrdinalMF(**RATING_SETTINGS).fit(as_ratings(shown))


# Pictures


def _draw(
    console: Console, model: CumulativeRBM, answers: pd.DataFrame, background: pd.DataFrame
) -> dict[str, Figure]:
    from ordinalrbm import plots  # matplotlib takes a while to import

    _say(console, "Drawing a map of the respondents and one of the cuisines ...")
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


@contextmanager
def _folder(folder: Path) -> Iterator[Path]:
    """A folder that can be written to; when the work fails, one made for it is removed."""
    made = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        _check_writable(folder)
        yield folder
    except BaseException:
        for part in made:  # the innermost comes first
            with suppress(OSError):
                part.rmdir()
        raise


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "there is a file of that name" if in_the_way else (error.strerror or str(error))
        raise DataError(
            f"Cannot write to the folder '{folder}' ({reason}); choose another one with --out."
        ) from error


def _write(folder: Path, pictures: dict[str, Figure], page: str) -> dict[str, Path]:
    """Save all; everything is made before the first is written, and none is ever half there."""
    contents = {PAGE: page.encode()}
    for name, figure in pictures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
        contents[name] = buffer.getvalue()
    for name, content in contents.items():
        with atomic_write(folder / name) as file:
            file.write_bytes(content)
    return {name: folder / name for name in contents}


# What is printed


def _introduce(console: Console, answers: pd.DataFrame, n_hidden: int) -> None:
    n_rows, n_columns = answers.shape
    given = answers.notna().to_numpy().mean()
    _title(console, "Food World Cup")
    _say(
        console,
        f"In 2014 FiveThirtyEight asked {n_rows:,} Americans how they like {n_columns} national "
        f"cuisines, from 1 (hate) to 5 (love), and got {given * 100:.0f} % of the answers: many "
        "cuisines are unfamiliar (data: FiveThirtyEight, CC BY 4.0). This demo hides "
        f"{HIDDEN_SHARE * 100:.0f} % of the given answers, learns from the others which tastes go "
        f"together, predicts the {n_hidden:,} hidden ones, recommends, draws two "
        "pictures and writes a report.",
    )
    console.print()


def _tell_scores(console: Console, scores: dict[str, dict[str, float]], n_hidden: int) -> None:
    _title(console, f"How well the {n_hidden:,} hidden answers are predicted")
    head = ("", "mean absolute\nerror", "exactly\nright", "log-likelihood\nper answer")
    rows: list[tuple[Any, ...]] = [
        (name, line["mae_median"], line["accuracy"], -line["nll"]) for name, line in scores.items()
    ]
    _show(console, Table(head, rows, ("", ".3f", ".1%", ".3f")))
    _say(
        console,
        "Error of the median, hits of the most likely answer; larger log-likelihood is better. "
        "The usual answer is the cuisine's own median, mode and frequencies, whoever is asked.",
        style="dim",
    )


def _tell_factors(console: Console, factors: list[FactorInWords]) -> None:
    _title(console, "The tastes it found")
    if not factors:
        _say(console, "None: no factor moves any answer. Let it learn for more epochs.")
        return
    _say(
        console,
        "A factor is a taste that cuisines share. In brackets: how the expected rating changes "
        "between people low and high on it (10th and 90th percentile), all other factors at their "
        "mean. Last: how likely a 4 or 5 becomes.",
        style="dim",
    )
    for factor in factors:
        _say(console, factor.text, indent=2)


def _tell_recommendations(console: Console, rater: Any) -> None:
    """Cuisines that somebody with a usual number of answers has not rated, and why the first."""
    example = example_of(rater, n_items=N_RECOMMENDED)
    if example is None:
        return
    _title(console, f"What respondent {example['user']} should try next")
    _show(console, example["recommended"])
    reasons = ", ".join(
        f"{item} {rating} ({effect:+.2f})".replace("-", "−")
        for item, rating, effect in example["reasons"].rows[:N_REASONS]
    )
    _say(
        console,
        f"Ratings that speak most for {example['first']} (or against), and what each adds to the "
        f"expected rating: {reasons}.",
        style="dim",
    )


def _tell_pictures(console: Console, paths: dict[str, Path], answers: pd.DataFrame) -> None:
    silent = int((~answers.notna().any(axis=1)).sum())
    _title(console, "A report and two pictures")
    what = {
        PAGE: "the report: open it in a browser, and point at the map",
        MAP: f"{len(answers) - silent:,} respondents by taste ({silent} gave no answer: left out)",
        CUISINES: "which cuisines are liked by the same people",
    }
    for name, path in paths.items():
        # A path is for copying: never broken over lines.
        console.print(Text(_fit(console, f"  {path}")), soft_wrap=True)
        console.print(f"    {what[name]}", style="dim", markup=False)


def _tell_next_steps(console: Console, seconds: float) -> None:
    _title(console, "What to try next, on the command line")
    _list(console, COMMANDS)
    _title(console, "What to try next, in Python")
    _list(console, NEXT_STEPS)
    console.print()
    _say(console, f"Done in {seconds:.0f} s.", style="dim")


def _list(console: Console, code: str) -> None:
    for line in code.splitlines():
        style = "dim" if line.startswith("#") else ""
        console.print(Text(f"  {line}", style=style), soft_wrap=True)


def _show(console: Console, table: Table) -> None:
    """A table of the report, on the terminal."""
    shown = plain_table(*table.head)
    for row in table.rows:
        cells = (table.cell(column, value) for column, value in enumerate(row))
        shown.add_row(*(_fit(console, cell) for cell in cells))
    console.print(shown)


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(Text(_fit(console, text), style="bold"))


def _say(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Print a paragraph; a number stays on the line of its unit, a bracket on that of its word."""
    glued = re.sub(r"(?<=\d) (?=[%(])|(?<=\w) (?=\([+−])|(?<=%) (?=→)|(?<=→) ", "\xa0", text)
    lines = textwrap.fill(
        glued,
        width=min(console.width, _WIDTH),
        initial_indent=" " * indent,
        subsequent_indent=" " * 2 * indent,
    )
    console.print(Text(_fit(console, lines.replace("\xa0", " ")), style=style), soft_wrap=True)


def _fit(console: Console, text: str) -> str:
    """The text in characters that the terminal has."""
    return text if console.encoding.lower().startswith("utf") else text.translate(_ASCII)
