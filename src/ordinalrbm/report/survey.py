"""The page of a survey: what its sections show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.tables import Encoded
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.poles import in_short
from ordinalrbm.estimators.reading import FactorReading
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate import hidden as hiding
from ordinalrbm.files.survey import REASONS, LeftOut, Survey
from ordinalrbm.files.vocabulary import asked_for_band
from ordinalrbm.plots.style import shades, shortened
from ordinalrbm.report.factors import NamedFactor, moved_questions, named_factors
from ordinalrbm.report.frequencies import frequencies, summary_of
from ordinalrbm.report.groups import Compared, Grouping, group_sections, grouping_of
from ordinalrbm.report.labels import Label, labels_of, texts_of
from ordinalrbm.report.page import Table, render, small_chart
from ordinalrbm.report.points import (
    Described,
    map_section,
    response_curves,
    some_of,
    variable_of,
)

_MOST_SCORED_ROWS = 10_000
# So many people are enough for means and percentiles of factors.
_ENOUGH_ROWS = 4_000
_SHARE_HIDDEN_AFTERWARDS = 0.1
_N_FACTORS_TOLD = 8
_TOLD_ANSWERS, _TOLD_BACKGROUND = 4, 6
# More questions than this start folded.
_MOST_UNFOLDED = 12

Progress = Callable[[str], None]


class People(NamedTuple):
    """People of a survey: their answers with nothing hidden, and what the model says of them.

    ``table`` is what the model is asked about: beside the answers, columns of other kinds.
    """

    answers: Encoded
    table: Encoded
    answered: np.ndarray
    scores: np.ndarray  # (n, K) on rotated factors

    @property
    def names(self) -> list[str]:
        """What the questions are called."""
        return self.answers.names or []


def survey_page(
    model: CumulativeRBM,
    survey: Survey,
    *,
    held_out: Cells | None = None,
    group: str | None = None,
    title: str | None = None,
    progress: Progress | None = None,
    random_state: int = 0,
) -> str:
    """A page about a survey and what a model has learnt from it.

    Parameters
    ----------
    model : CumulativeRBM, fitted
        On the answers of this survey, or on those that :func:`evaluate.hide_answers` left.
    survey : Survey
        With or without the held-out answers.
    held_out : Cells, optional
        Answers that the model has not learnt from. Without them, the page predicts answers of at
        most 10,000 people from their other answers, and says that the model had learnt from them.
    group : str, optional
        Background variable by which groups are compared first; by default the one whose groups
        differ most.
    title : str, optional
        By default the name of the survey.
    progress : callable, optional
        Called with words for what is being done.
    random_state : int, default=0
        Seed of the map and of what is drawn at random.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> from ordinalrbm import report
    >>> from ordinalrbm.files.survey import read_survey
    >>> answers = pd.DataFrame({"tea": ["no", "yes", "maybe"] * 9, "milk": ["yes", "no", "no"] * 9})
    >>> survey = read_survey(answers)
    >>> shown, held_out = orbm.evaluate.hide_answers(survey.encoded, share=0.1)
    >>> model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(shown)
    >>> page = report.survey_page(model, survey, held_out=held_out)
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    say = progress or (lambda text: None)
    survey = _checked(model, survey, group)
    if held_out is not None:
        survey = replace(survey, encoded=hiding.restored(survey.encoded, held_out))
    answers = survey.encoded
    answered = np.asarray(_answered(survey).any(axis=1))
    rows = np.flatnonzero(answered)
    if not rows.size:
        raise DataError("Nobody has answered any question, so there is nothing to report.")
    say("inferring the factors of all respondents")
    people = People(answers, survey.table, answered, model.scores(survey.table).to_numpy())
    reading = model.read_factors(questions=texts_of(survey.schema))
    labels = labels_of([*people.names, *map(str, survey.background)], texts_of(survey.schema))
    labels |= labels_of(set(reading.loadings.index) - set(labels), reading.questions)  # categories
    factors = named_factors(reading, {str(name): labels[name] for name in reading.loadings.index})
    say("predicting hidden answers")
    hidden = _hidden(model, people, labels, held_out, random_state)
    say(f"placing {rows.size:,} respondents on a map")
    the_map = map_section(
        rows, people.scores,
        lambda shown: _points(survey, people, shown, labels, factors, reading),
        "respondents", random_state,
    )  # fmt: skip
    say("comparing groups")
    compared = _compared(survey, people, factors)
    groups = group_sections(model, compared, factors, labels, group, random_state)
    say("drawing")
    some = people.table.subset(some_of(rows, _ENOUGH_ROWS, random_state))
    curves = response_curves(model, people.names, some)
    weight = None if survey.weight is None else survey.weight.to_numpy(float)
    asked = [labels[name] for name in people.names]
    return render(
        "survey.html.j2",
        title or survey.name,
        model,
        facts={
            "n_rows": len(people.answered),
            "n_questions": survey.n_questions,
            "share_answered": float(_answered(survey).mean()),
            "n_silent": len(people.answered) - rows.size,
        },
        scales=_scales(people, labels),
        left_out=_left_out(survey),
        frequencies=frequencies(answers, asked, weight, survey.no_answers),
        unfolded=survey.n_questions <= _MOST_UNFOLDED,
        others=_other_kinds(model, survey, labels, reading, factors, weight),
        hidden=hidden,
        map=the_map,
        factors=factor_sections(reading, factors),
        n_not_told=len(reading.factors) - min(len(factors), _N_FACTORS_TOLD),
        curves=[small_chart(one, labels[one.name]) for one in curves],
        groups=groups,
        unanswered=model.unanswered,
        weighted=survey.weight is not None,
        weighted_learning=bool(model.about_.get("weighted")),
        seed=random_state,
    )


def _answered(survey: Survey) -> np.ndarray:
    """(rows, questions) whether each question of any kind was answered."""
    others = survey.background[survey.chosen.asked].notna().to_numpy()
    return np.hstack([survey.encoded.observations.to_dense() >= 0, others])


def _compared(survey: Survey, people: People, factors: list[NamedFactor]) -> Compared:
    """Those who have answered something, for comparisons on some factors."""
    there, no_answers = people.answered, survey.no_answers
    background = comparable(survey).reset_index(drop=True)
    return Compared(
        people.table.subset(there),
        survey.asked.subset(there),
        survey.chosen.numeric,
        background[there],
        people.scores[there][:, [factor.place for factor in factors]],
        None if survey.weight is None else survey.weight.to_numpy(float)[there],
        None if no_answers is None else no_answers[there],
        survey.schema,
    )


def _checked(model: CumulativeRBM, survey: Survey, group: str | None) -> Survey:
    """The survey with the columns of the model, on whose scales its answers must be."""
    check_is_fitted(model, "model_")
    names, known = survey.encoded.names or [], model.questionnaire_
    learnt = list(getattr(model, "feature_names_in_", names))
    n_ordered = known.kinds.count("ordinal")
    if learnt[:n_ordered] != names or set(known.kinds[: len(names)]) != {"ordinal"}:
        raise DataError(
            "The questions of the survey are not those that the model was fitted on; give the "
            "survey that it has learnt from."
        )
    for name, own, scale in zip(names, survey.encoded.scales, known.scales, strict=False):
        if own != scale:
            raise DataError(
                f"The levels of '{name}' in the survey are not those of the model; give the survey "
                "that it has learnt from."
            )
    check_group(survey, group)
    return survey.as_learnt(learnt, known)


def comparable(survey: Survey) -> pd.DataFrame:
    """What people can be compared by: background, and education and income among the answers."""
    asked = labels_of(survey.encoded.names or [], texts_of(survey.schema))
    bands = [
        place
        for place, label in enumerate(asked.values())
        if asked_for_band(label.text) or asked_for_band(f"level of {label.text}")
    ]
    columns = {(survey.encoded.names or [])[j]: survey.encoded.column(j) for j in bands}
    return survey.background.assign(**columns)


def check_group(survey: Survey, group: str | None) -> None:
    """Refuse a variable that makes no groups, or too many."""
    if group is None:
        return
    background = comparable(survey)
    if group not in background:
        raise DataError(
            f"There is no background variable '{group}'; choose one of "
            f"{', '.join(map(str, background.columns)) or 'none'}."
        )
    found = grouping_of(background[group])
    if not isinstance(found, Grouping):
        raise DataError(
            f"The background variable '{group}' makes no groups to compare ({found}); choose one "
            "with 2 to 30 groups, merge some, or leave out the group."
        )


# 1. What the data is


def _scales(people: People, labels: dict[str, Label]) -> list[dict[str, Any]]:
    """Scales, their colours, and the questions that use them."""
    short = in_short({name: labels[name].text for name in people.names})
    users: dict[tuple[str, ...], list[str]] = {}
    for name, scale in zip(people.names, people.answers.scales, strict=True):
        users.setdefault(tuple(map(str, scale.labels)), []).append(short[name])
    return [
        {"levels": list(zip(levels, shades(len(levels)), strict=True)), "questions": asked}
        for levels, asked in users.items()
    ]


def _left_out(survey: Survey) -> list[tuple[str, Table]]:
    """Tables of what is not used, each with a heading."""
    found = left_out_table(survey.left_out)
    ignored = [c for c in survey.schema.columns if c.role == "ignored"]
    if ignored:
        known = labels_of([column.name for column in ignored], texts_of(survey.schema))
        rows = [(known[column.name], column.reason) for column in ignored]
        unused = Table(("column", "why it is not used"), rows, ("", ""))
        found.append(("Columns that are not used", unused))
    codes = _codes_without_answer(survey)
    if codes:
        head = ("code", "columns", "which")
        found.append(("Codes that are no answer", Table(head, codes, ("", "d", ""))))
    return found


def left_out_table(left_out: tuple[LeftOut, ...]) -> list[tuple[str, Table]]:
    """What was left out and why, with a heading; nothing when nothing was."""
    if not left_out:
        return []
    rows = [(part.what, part.why, part.count or None) for part in left_out]
    return [("Left out", Table(("what", "why", "how many"), rows, ("", "", ",d")))]


def _codes_without_answer(survey: Survey) -> list[tuple[str, int, str]]:
    columns: dict[str, list[str]] = {}
    for column in survey.schema.columns:
        names = column.missing_names or ("",) * len(column.missing)
        for code, name in zip(column.missing, names, strict=False):
            what = str(code) if name in ("", str(code)) else f"{code} ({name})"
            columns.setdefault(what, []).append(column.name)
    return [(what, len(names), ", ".join(names)) for what, names in columns.items()]


# 2. Questions of other kinds, and background


def _other_kinds(
    model: CumulativeRBM, survey: Survey, labels: dict[str, Label], reading: FactorReading,
    factors: list[NamedFactor], weight: np.ndarray | None,
) -> dict[str, Any] | None:  # fmt: skip
    """Categories and how often they were chosen, numbers in short, and loadings of both."""
    chosen = survey.chosen
    if not chosen.columns:
        return None
    scales = [model.scales_[list(model.feature_names_in_).index(n)] for n in chosen.nominal]
    levels = [
        s.encode(survey.background[n], n) for s, n in zip(scales, chosen.nominal, strict=True)
    ]
    categories = []
    if levels:
        counts = Observations.from_dense(np.column_stack(levels), [s.n_levels for s in scales])
        asked = [labels[name] for name in chosen.nominal]
        # Of other kinds than scales, nothing tells why there is none.
        why = np.full(counts.to_dense().shape, REASONS.index("no answer"))
        categories = frequencies(Encoded(counts, scales), asked, weight, why, ordered=False)
    summaries = [summary_of(survey.background[n], labels[n], weight) for n in chosen.numeric]
    head = ("question", "answered", "mean", "sd", "least", "25 %", "median", "75 %", "greatest")
    numbers = [(s.label, s.n_answered, s.mean, s.deviation, *s.quantiles) for s in summaries]
    return {
        "categories": categories,
        "numbers": Table(head, numbers, ("", ",d", *[".5g"] * 7)),
        "loadings": _loadings_of(chosen.asked, reading, factors, labels),
        "background": [labels[name] for name in chosen.background],
    }


def _loadings_of(
    questions: list[str], reading: FactorReading, factors: list[NamedFactor],
    labels: dict[str, Label],
) -> Table:  # fmt: skip
    own = [name for name in reading.loadings.index if reading.question(name) in questions]
    told = [factor.name for factor in factors[:_N_FACTORS_TOLD]]
    rows = [(labels[name], *reading.loadings.loc[name, told]) for name in own]
    return Table(("category or number", *told), rows, ("", *["+.2f"] * len(told)))


# 3. Hidden answers


def _hidden(
    model: CumulativeRBM, people: People, labels: dict[str, Label], held_out: Cells | None,
    random_state: int,
) -> dict[str, Any] | None:  # fmt: skip
    learnt_from = held_out is None or not held_out.row.size
    if held_out is None or learnt_from:
        held_out = _hide_some(people.answers, random_state)
    # Of at most 10,000 people: predicting takes milliseconds per person.
    rows = some_of(np.unique(held_out.row), _MOST_SCORED_ROWS, random_state)
    kept = np.isin(held_out.row, rows)
    if not rows.size:
        return None
    asked = Cells(*(part[kept] for part in held_out))
    scores = hiding.score_hidden(model, people.table, asked)
    lines = scores.by_question.assign(gain=lambda t: t["usual_error"] - t["model_error"])
    lines = lines.sort_values("gain", ascending=False, kind="stable")
    return {
        "overall": scores.overall,
        "table": _hidden_table(lines, labels),
        "errors": _errors(lines, labels),
        "learnt_from": learnt_from,
        "n_rows": rows.size,
        "n_left_aside": held_out.row.size - asked.row.size,
    }


def _errors(lines: pd.DataFrame, labels: dict[str, Label]) -> list[dict[str, Any]]:
    """Errors of the model and of the usual answer as places on a line, in percent."""
    most = float(lines[["model_error", "usual_error"]].max(axis=None)) or 1.0
    return [
        {
            "label": labels[str(name)],
            "model": 100.0 * line["model_error"] / most,
            "usual": 100.0 * line["usual_error"] / most,
            "gain": line["gain"],
        }
        for name, line in lines.iterrows()
    ]


def _hide_some(answers: Encoded, random_state: int) -> Cells:
    """Answers of some people who have answered more than one question."""
    given, rng = answers.observations, np.random.default_rng(random_state)
    rows = some_of(np.flatnonzero(given.row_counts > 1), _MOST_SCORED_ROWS, rng)
    entries = np.flatnonzero(np.isin(hiding.rows_of(given), rows))
    chosen = rng.random(entries.size) < _SHARE_HIDDEN_AFTERWARDS
    if entries.size and not chosen.any():
        chosen[0] = True
    is_hidden = np.zeros(given.n_entries, dtype=bool)
    is_hidden[entries[chosen]] = True
    return hiding.cells_of(given, is_hidden)


def _hidden_table(lines: pd.DataFrame, labels: dict[str, Label]) -> Table:
    """A line per question, those with the largest gain first."""
    columns = {
        "count": ("hidden", ",d"),
        "model_error": ("error", ".2f"),
        "usual_error": ("error, usual", ".2f"),
        "gain": ("gain", "+.2f"),
        "model_hits": ("exactly right", ".0%"),
        "usual_hits": ("right, usual", ".0%"),
        "model_nll": ("NLL", ".2f"),
        "usual_nll": ("NLL, usual", ".2f"),
    }
    head, formats = zip(("question", ""), *columns.values(), strict=True)
    rows = lines[list(columns)].itertuples(name=None)
    return Table(head, [(labels[str(name)], *line) for name, *line in rows], formats)


# 4. The map


def _points(
    survey: Survey, people: People, rows: np.ndarray, labels: dict[str, Label],
    factors: list[NamedFactor], reading: FactorReading,
) -> Described:  # fmt: skip
    """Names, what to colour points by, and what to tell of each: the questions that move most."""
    background = survey.background.reset_index(drop=True).iloc[rows]
    answers = people.answers.subset(rows).to_frame()

    def called(name: Any) -> str:
        return shortened(labels[str(name)].plain, 90)

    found = [variable_of(background[name], called(name), "Background") for name in background]
    n_background = sum(one is not None for one in found)
    found += [variable_of(answers[name], called(name), "Answers") for name in people.names]
    asked = [
        name for name, one in zip(people.names, found[background.shape[1] :], strict=True) if one
    ]
    found += [
        variable_of(
            pd.Series(people.scores[rows, factor.place]), shortened(factor.short, 120), "Factors"
        )
        for factor in factors
    ]
    questions = reading.communalities.sort_values(ascending=False, kind="stable").index
    telling = [n_background + asked.index(name) for name in questions if name in asked]
    told = [*range(min(n_background, _TOLD_BACKGROUND)), *telling[:_TOLD_ANSWERS]]
    if survey.ids is None:
        names = [f"Row {row + 1}" for row in rows]
    else:
        names = [shortened(name, 60) for name in survey.ids.iloc[rows]]
    return names, [one for one in found if one is not None], told


# 5. Factors


def factor_sections(reading: FactorReading, factors: list[NamedFactor]) -> list[dict[str, Any]]:
    """The factors that explain most, each with the questions that it moves most."""
    return [
        {
            "factor": factor,
            "ends": [
                (heading, moved_questions(reading, factor, strong))
                for heading, strong in factor.ends
            ],
        }
        for factor in factors[:_N_FACTORS_TOLD]
    ]
