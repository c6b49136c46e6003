"""Answers that are hidden, and how well they are predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ordinalrbm.errors import DataError
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate import score
from ordinalrbm.files.survey import Survey

MOST_HIDDEN = 200_000
# Distributions of all cells of so many rows are held at a time.
_ROWS_AT_A_TIME = 2_000
_MEASURES = {"error": "mae_median", "nll": "nll", "hits": "accuracy"}


@dataclass(frozen=True)
class HeldOut:
    """Answers that were taken out of a survey.

    Attributes
    ----------
    row, column : (n,) arrays of int
        Where they stood in ``survey.answers``, counted from 0.
    level : (n,) array of int
        What they were: positions on the scale of the question, counted from 0.
    """

    row: np.ndarray
    column: np.ndarray
    level: np.ndarray

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class HiddenScores:
    """How well hidden answers are predicted, by the model and by the question's usual answers.

    Attributes
    ----------
    by_question : DataFrame
        One line per question that had answers hidden (the index is its name): ``count``, and
        ``error``, ``nll`` and ``hits`` of the ``model`` and of the ``usual`` answer, for instance
        ``model_error``. ``error`` is the mean absolute error of the median, in levels.
    overall : Series
        The same over all hidden answers.
    """

    by_question: pd.DataFrame
    overall: pd.Series


def hide_answers(
    survey: Survey, share: float = 0.05, random_state: int = 0
) -> tuple[Survey, HeldOut]:
    """Hide some answers, so that a model learnt from the others can be tested on them.

    Parameters
    ----------
    survey : Survey
    share : float, default=0.05
        Share of the answers to hide, at most 200,000 of them.
    random_state : int, default=0

    Returns
    -------
    survey : Survey
        A copy without these answers.
    held_out : HeldOut
        The answers, for :func:`ordinalrbm.report.survey_page`.

    Examples
    --------
    >>> from ordinalrbm.files.schema import Schema
    >>> tea = pd.Categorical(["no", "yes"] * 20, ["no", "yes"], ordered=True)
    >>> answers = pd.DataFrame({"tea": tea})
    >>> survey = Survey("drinks", answers, pd.DataFrame(index=answers.index), None, None,
    ...                 Schema(()), ())
    >>> rest, held_out = hide_answers(survey, share=0.1)
    >>> int(rest.answers["tea"].isna().sum()), len(held_out)
    (4, 4)
    """
    if not 0 <= share < 1:
        raise DataError(f"share must be at least 0 and below 1, got {share}.")
    levels = level_table(survey.answers)
    row, column = np.nonzero(levels >= 0)
    count = min(round(share * row.size), MOST_HIDDEN)
    chosen = np.sort(np.random.default_rng(random_state).permutation(row.size)[:count])
    row, column = row[chosen], column[chosen]
    held_out = HeldOut(row, column, levels[row, column])
    return replace(survey, answers=without(survey.answers, held_out)), held_out


def level_table(answers: pd.DataFrame) -> np.ndarray:
    """(n, N) positions of the answers on their scales, −1 where there is none."""
    codes = [answers.iloc[:, i].cat.codes.to_numpy(np.int16) for i in range(answers.shape[1])]
    return np.column_stack(codes) if codes else np.zeros((len(answers), 0), dtype=np.int16)


def without(answers: pd.DataFrame, held_out: HeldOut) -> pd.DataFrame:
    """The answers with the held-out ones missing."""
    return _with_levels(answers, held_out, np.full(len(held_out), -1))


def restored(answers: pd.DataFrame, held_out: HeldOut) -> pd.DataFrame:
    """The answers with the held-out ones in their places."""
    return _with_levels(answers, held_out, held_out.level)


def _with_levels(answers: pd.DataFrame, held_out: HeldOut, level: np.ndarray) -> pd.DataFrame:
    columns = {}
    for i, name in enumerate(answers.columns):
        column = answers[name]
        codes = column.cat.codes.to_numpy(np.int16, copy=True)
        own = held_out.column == i
        codes[held_out.row[own]] = level[own]
        columns[name] = pd.Categorical.from_codes(codes, dtype=column.dtype)
    return pd.DataFrame(columns, index=answers.index)


def score_hidden(model: CumulativeRBM, answers: pd.DataFrame, held_out: HeldOut) -> HiddenScores:
    """Predict held-out answers from the others of the same people, and score the predictions.

    Parameters
    ----------
    model : CumulativeRBM, fitted
    answers : DataFrame
        Answers of a survey; those that are held out may still be in it.
    held_out : HeldOut
        At least one answer.
    """
    shown = without(answers, held_out)
    usual = _usual_answers(shown)
    lines = {}
    distributions = _distributions(model, shown, held_out)
    for i in np.unique(held_out.column):
        own = held_out.column == i
        n_levels = model.scales_[i].n_levels
        level = held_out.level[own]
        guessed = {
            "model": distributions[own, :n_levels],
            "usual": np.tile(usual[i], (own.sum(), 1)),
        }
        lines[answers.columns[i]] = {"count": own.sum()} | _scores(guessed, level)
    by_question = pd.DataFrame.from_dict(lines, orient="index")
    # Every measure is a mean over answers.
    weight = by_question["count"] / by_question["count"].sum()
    overall = by_question.mul(weight, axis=0).sum()
    overall["count"] = by_question["count"].sum()
    return HiddenScores(by_question, overall)


def _scores(guessed: dict[str, np.ndarray], level: np.ndarray) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, distribution in guessed.items():
        scores = score(distribution, level + 1)
        found |= {f"{name}_{short}": scores[long] for short, long in _MEASURES.items()}
    return found


def _usual_answers(shown: pd.DataFrame) -> list[np.ndarray]:
    """How often each level of each question is chosen, half an answer added to each."""
    usual = []
    for name in shown.columns:
        codes = shown[name].cat.codes.to_numpy()
        counts = np.bincount(codes[codes >= 0], minlength=len(shown[name].cat.categories)) + 0.5
        usual.append(counts / counts.sum())
    return usual


def _distributions(model: CumulativeRBM, shown: pd.DataFrame, held_out: HeldOut) -> np.ndarray:
    """(n, L): what the model expects where answers are held out."""
    found = np.zeros((len(held_out), max(scale.n_levels for scale in model.scales_)))
    rows, of_row = np.unique(held_out.row, return_inverse=True)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        some = rows[start : start + _ROWS_AT_A_TIME]
        predicted = model.predict_proba(shown.iloc[some])
        cells = np.flatnonzero((of_row >= start) & (of_row < start + len(some)))
        for i in np.unique(held_out.column[cells]):
            own = cells[held_out.column[cells] == i]
            found[own, : predicted[i].shape[1]] = predicted[i][of_row[own] - start]
    return found
