"""The demo: a survey about food, as a survey and as ratings."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from numba.core import event
from rich.console import Console
from rich.text import Text

import ordinalrbm as orbm
from ordinalrbm.cli.beside import Beside
from ordinalrbm.cli.output import results_table
from ordinalrbm.data.datasets import load_food_world_cup
from ordinalrbm.data.tables import Encoded, read_table
from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.hidden import distributions, hide_answers, marginals
from ordinalrbm.evaluate.metrics import score
from ordinalrbm.files.survey import Survey
from ordinalrbm.pages.ratings import example_of
from ordinalrbm.pages.reporting import Subject
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.schema.source import StrPath
from ordinalrbm.storage.atomic import check_writable

HIDDEN_SHARE, HIDING_SEED = 0.1, 2014
# The defaults; fewer factors than those predict as well, and are easier to read.
SETTINGS: dict[str, Any] = {"n_factors": 12, "random_state": 0}
_LEVELS = [1, 2, 3, 4, 5]
# The same answers as ratings of cuisines by users.
RATING_SETTINGS: dict[str, Any] = {"n_factors": 10, "random_state": 0, "scale": _LEVELS}
N_RECOMMENDED = 3
N_FACTORS, N_CUISINES = 5, 4  # printed; cuisines with positive and with negative loadings each
_WIDTH = 80  # longer lines are hard to read, however wide the terminal is

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


def run(
    out: StrPath = "ordinalrbm-demo.html", *, console: Console | None = None, **settings: Any
) -> tuple[Subject, orbm.OrdinalMF, dict[str, dict[str, float]]]:
    """Hide answers, learn, predict them, print the factors, recommend, and write a report.

    ``out`` is the file of the report. The settings are parameters of
    :class:`ordinalrbm.CumulativeRBM` in place of the demo's own. Returned are the subject of the
    report, the model of ratings, and the scores of both models and of the usual answer.
    """
    console, started = console or Console(highlight=False), time.perf_counter()
    check_writable(out)
    answers, background = load_food_world_cup(background=True)
    n_rows, n_columns = answers.shape
    _say(console, "\nFood World Cup", "bold")
    _say(
        console,
        f"In 2014 FiveThirtyEight asked {n_rows:,} Americans how they like {n_columns} national cuisines, "
        f"from 1 (hate) to 5 (love), and got {answers.notna().to_numpy().mean():.0%} of the answers: many "
        f"cuisines are unfamiliar (data: FiveThirtyEight, CC BY 4.0). This demo hides {HIDDEN_SHARE:.0%} of "
        "the given answers, learns from the others which tastes go together, predicts the hidden ones, "
        "recommends, and writes a report.\n",
    )
    survey = _survey(answers, background)
    shown, hidden = hide_answers(survey.encoded, HIDDEN_SHARE, HIDING_SEED)
    n_hidden = hidden.level.size
    model, rater = _learn(console, shown, {**SETTINGS, **settings})
    predicted = {
        "survey model (CumulativeRBM)": distributions(model, shown, hidden),
        "rating model (OrdinalMF)": rater.predict_proba(hidden.row, answers.columns[hidden.column]),
        "cuisine's usual answer": np.stack(marginals(shown.observations))[hidden.column],
    }
    scores = {name: score(shares, hidden.level + 1) for name, shares in predicted.items()}
    _print_scores(console, scores, n_hidden)
    _print_factors(console, model.factor_solution())
    _print_recommendations(console, rater)
    with console.status("Writing the report"):
        subject = Subject(model, survey, {"held_out": hidden})
        subject.write(subject.page(), out)
    _say(console, "\nA report to open in a browser, with a map of the respondents", "bold")
    console.print(Text(str(out)), soft_wrap=True)  # for copying: never broken over lines
    for where, code in (("on the command line", COMMANDS), ("in Python", NEXT_STEPS)):
        _say(console, f"\nWhat to try next, {where}", "bold")
        console.print(Text(code), soft_wrap=True)
    _say(console, f"\nDone in {time.perf_counter() - started:.0f} s.")
    return subject, rater, scores


def _print_scores(console: Console, scores: dict[str, dict[str, float]], n_hidden: int) -> None:
    _say(console, f"\nHow well the {n_hidden:,} hidden answers are predicted", "bold")
    head = {"": "", "absolute\nerror": ".3f", "exactly\nright": ".1%", "log-\nlikelihood": ".3f"}
    rows = [(name, line["mae_median"], line["accuracy"], -line["nll"]) for name, line in scores.items()]
    console.print(results_table(head, rows))
    _say(
        console,
        "Mean error of the median, hits of the most likely answer; a larger log-likelihood is better. "
        "The usual answer is the cuisine's own median, mode and frequencies, whoever is asked.",
        "dim",
    )


def _print_factors(console: Console, reading: FactorReading) -> None:
    """The factors that explain most, each with its strongest cuisines."""
    _say(console, "\nThe tastes it found", "bold")
    _say(
        console,
        "A factor is a taste that cuisines share, and explains a part of the variance of all ratings. "
        "Loadings (after varimax) are correlations of the factor with the liking of a cuisine.",
        "dim",
    )
    rows = []
    for factor in reading.telling()[:N_FACTORS]:
        loadings = reading.strongest(factor, N_CUISINES).items()
        cuisines = ", ".join(f"{name} {loading:+.2f}" for name, loading in loadings)
        rows.append((factor, reading.reliability.at[factor, "explained"], cuisines))
    console.print(results_table({"": "", "explains": ".0%", "loadings": ""}, rows))


def _print_recommendations(console: Console, rater: orbm.OrdinalMF) -> None:
    """Cuisines that a respondent with a median number of answers has not rated, and why."""
    example = example_of(rater, n_items=N_RECOMMENDED)
    if example is None:
        return
    _say(console, f"\nWhat respondent {example['user']} should try next", "bold")
    head, rows, formats = example["recommended"]
    console.print(results_table(dict(zip(head, formats, strict=True)), rows))
    reasons = ", ".join(
        f"{item} {rating} ({effect:+.2f})" for item, rating, effect in example["reasons"].rows
    )
    _say(
        console,
        "Score: demand for the cuisine times the chance of a 4 or 5; only its order counts. "
        f"Ratings that speak most for {example['first']} (or against), and what each adds to "
        f"the expected rating: {reasons}.",
        "dim",
    )


def warm_up(kind: str) -> None:
    """Compile what the demo needs of surveys or of ratings; takes a minute, once."""
    answers = load_food_world_cup().head(100)
    if kind == "surveys":
        few = read_table(answers, _LEVELS)
        CumulativeRBM(**{**SETTINGS, "n_factors": 1, "n_epochs": 1}).fit(few).predict_proba(few)
        return
    rater = orbm.OrdinalMF(**RATING_SETTINGS, n_epochs=1).fit(as_ratings(answers))
    rater.predict_proba([0], answers.columns[:1])
    example_of(rater, n_items=1)


def _survey(answers: pd.DataFrame, background: pd.DataFrame) -> Survey:
    names = tuple(map(str, _LEVELS))
    columns = [
        Column(name, "ordinal", f"How much do you like the food of {name}?", tuple(_LEVELS), names)
        for name in answers
    ]
    encoded = read_table(answers, _LEVELS)
    return Survey("Food World Cup", encoded, background, None, None, Schema(tuple(columns)), ())


def _learn(
    console: Console, shown: Encoded, settings: dict[str, Any]
) -> tuple[CumulativeRBM, orbm.OrdinalMF]:
    n_factors, n_answers = settings["n_factors"], shown.observations.n_entries
    # Where something has to be compiled: both kinds side by side, and before a bar estimates the time.
    with Beside("from ordinalrbm.cli.demo_run import warm_up; warm_up('ratings')") as beside:
        with event.install_listener("numba:compile", beside):
            warm_up("surveys")
        _say(console, f"Learning {n_factors} factors from the other {n_answers:,} answers ...")
        # In a log, a bar that redraws itself is only noise.
        model = CumulativeRBM(**settings, verbose=sys.stderr.isatty()).fit(shown)
        _say(console, "Learning the same answers as ratings of cuisines by users ...")
        beside.output()
    return model, orbm.OrdinalMF(**RATING_SETTINGS).fit(as_ratings(shown.to_frame()))


def as_ratings(answers: pd.DataFrame) -> pd.DataFrame:
    values, items = answers.to_numpy(dtype=float, na_value=np.nan), answers.columns.to_numpy(object)
    user, item = np.nonzero(~np.isnan(values))
    return pd.DataFrame({"user": user, "item": items[item], "rating": values[user, item].astype(np.int64)})


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), width=min(console.width, _WIDTH))
