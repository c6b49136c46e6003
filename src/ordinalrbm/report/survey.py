"""The page of a survey: what its sections show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm import plots
from ordinalrbm.data.observations import Cells
from ordinalrbm.data.tables import Encoded
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate import hidden as hiding
from ordinalrbm.files.survey import LeftOut, Survey
from ordinalrbm.plots.style import shades, shortened
from ordinalrbm.report import groups as grouping
from ordinalrbm.report import questions as asking
from ordinalrbm.report.page import Table, drawing, render, small_chart
from ordinalrbm.report.placing import Described, map_section, some_of
from ordinalrbm.report.points import variable_of
from ordinalrbm.words import FactorInWords, Wording, describe_factors, factor_effects

_MOST_SCORED_ROWS = 10_000
# So many people are enough for means and percentiles of factors.
_ENOUGH_ROWS = 4_000
_SHARE_HIDDEN_AFTERWARDS = 0.1
N_FACTORS_TOLD = 8
_N_FACTORS_COMPARED = 6
_MOST_GROUPINGS = 12
_TOLD_ANSWERS, _TOLD_BACKGROUND = 4, 6
_WORDING = Wording(rows="respondents")

Progress = Callable[[str], None]


class People(NamedTuple):
    """People of a survey: their answers with nothing hidden, and what the model says of them."""

    answers: Encoded
    answered: np.ndarray
    factors: np.ndarray

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
    answers = _checked(model, survey, group)
    if held_out is not None:
        answers = hiding.restored(answers, held_out)
    say("inferring the factors of all respondents")
    people = People(
        answers, answers.observations.row_counts > 0, np.asarray(model.transform(answers))
    )
    texts = asking.question_texts(people.names, survey.schema)
    rows = np.flatnonzero(people.answered)
    if not rows.size:
        raise DataError("Nobody has answered any question, so there is nothing to report.")
    say("predicting hidden answers")
    hidden = _hidden(model, people, held_out, random_state)
    say("putting the factors into words")
    factors = people.factors[some_of(rows, _ENOUGH_ROWS, random_state)]
    effects = factor_effects(model, posterior=factors)
    described = describe_factors(
        model, n_factors=N_FACTORS_TOLD, wording=_WORDING, posterior=factors
    )
    say(f"placing {rows.size:,} respondents on a map")
    names_of_factors = asking.factor_names(effects)
    the_map = map_section(
        rows, people.factors,
        lambda shown: _points(survey, people, shown, texts, names_of_factors, effects),
        "respondents", random_state,
    )  # fmt: skip
    say("comparing groups")
    groups = _groups(survey, people, names_of_factors, group)
    compared = {section["variable"] for section in groups}
    say("drawing")
    curves = asking.response_curves(model, list(texts.values()), people.factors[rows])
    return render(
        "survey.html.j2",
        title=title or survey.name,
        facts={
            "n_rows": len(people.answered),
            "n_questions": answers.shape[1],
            "share_answered": answers.observations.density,
            "n_silent": len(people.answered) - rows.size,
        },
        scales=_scales(people),
        questions=_questions(people, texts),
        left_out=_left_out(survey),
        hidden=hidden,
        map=the_map,
        factors=factor_sections(model, factors, described, texts),
        curves=[small_chart(one) for one in curves],
        groups=groups,
        **about_learning(model),
        unanswered=model.unanswered,
        weighted_note="" if survey.weight is None else ", people counting by their weights",
        weighted_learning=bool(model.about_.get("weighted")),
        not_compared=[str(name) for name in survey.background if str(name) not in compared],
        seed=random_state,
    )


def _checked(model: CumulativeRBM, survey: Survey, group: str | None) -> Encoded:
    """The survey's answers, which must be on the scales of the model."""
    check_is_fitted(model, "model_")
    answers = survey.encoded
    names = answers.names or []
    if list(getattr(model, "feature_names_in_", names)) != names:
        raise DataError(
            "The questions of the survey are not those that the model was fitted on; give the "
            "survey that it has learnt from."
        )
    for name, own, scale in zip(names, answers.scales, model.scales_, strict=True):
        if own != scale:
            raise DataError(
                f"The levels of '{name}' in the survey are not those of the model; give the survey "
                "that it has learnt from."
            )
    check_group(survey.background, group)
    return answers


def check_group(background: pd.DataFrame, group: str | None) -> None:
    """Refuse a variable that makes no groups, or too many."""
    if group is None:
        return
    if group not in background:
        raise DataError(
            f"There is no background variable '{group}'; choose one of "
            f"{', '.join(map(str, background.columns)) or 'none'}."
        )
    n_groups, fewest, most = background[group].nunique(), grouping.FEWEST, grouping.MOST
    if not fewest <= n_groups <= most:
        raise DataError(
            f"The background variable '{group}' has {n_groups} groups; choose one with "
            f"{fewest} to {most}, or merge some."
        )


# 1. What the data is


def _scales(people: People) -> list[dict[str, Any]]:
    """Scales, their colours, and the questions that use them."""
    users: dict[tuple[str, ...], list[str]] = {}
    for name, scale in zip(people.names, people.answers.scales, strict=True):
        users.setdefault(tuple(map(str, scale.labels)), []).append(name)
    return [
        {"levels": list(zip(levels, shades(len(levels)), strict=True)), "questions": names}
        for levels, names in users.items()
    ]


def _questions(people: People, texts: dict[str, str]) -> Table:
    counts = hiding.count_levels(people.answers.observations)
    rows = [
        (
            text,
            scale.n_levels,
            float(count.sum() / len(people.answered)),
            str(scale.labels[count.argmax()]) if count.any() else None,
        )
        for text, scale, count in zip(texts.values(), people.answers.scales, counts, strict=True)
    ]
    return Table(("question", "levels", "answered", "most frequent"), rows, ("", "d", ".0%", ""))


def _left_out(survey: Survey) -> list[tuple[str, Table]]:
    """Tables of what is not used, each with a heading."""
    found = left_out_table(survey.left_out)
    ignored = [(c.name, c.question, c.reason) for c in survey.schema.columns if c.role == "ignored"]
    if ignored:
        head = ("column", "question", "why it is not used")
        found.append(("Columns that are not used", Table(head, ignored, ("", "", ""))))
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


# 2. Learning


def about_learning(model: Any) -> dict[str, Any]:
    """What every page says: the learning curve, if there is one, the settings, and the time.

    Of the settings, only what fits on a line; model files do not say how long learning took.
    """
    history, figure = getattr(model, "history_", pd.DataFrame()), None
    measured = [name for name in ("validation", "pseudo_likelihood") if name in history]
    if not history.empty and history[measured].notna().any(axis=None):
        curve = plots.learning_curve(history, best_epoch=model.best_epoch_)
        figure = drawing(curve, "learning", "learning-curve")
    settings = [
        (name, str(value))
        for name, value in model.get_params().items()
        if name not in ("scales", "scale", "item_scales", "verbose", "n_jobs")
    ]
    return {
        "learning": figure,
        "settings": Table(("setting", "value"), settings, ("", "")),
        "seconds": float(history["seconds"].max()) if len(history.get("seconds", ())) else None,
    }


# 3. Hidden answers


def _hidden(
    model: CumulativeRBM, people: People, held_out: Cells | None, random_state: int
) -> dict[str, Any] | None:
    learnt_from = held_out is None or not held_out.row.size
    if held_out is None or learnt_from:
        held_out = _hide_some(people.answers, random_state)
    # Of at most 10,000 people: predicting takes milliseconds per person.
    rows = some_of(np.unique(held_out.row), _MOST_SCORED_ROWS, random_state)
    kept = np.isin(held_out.row, rows)
    if not rows.size:
        return None
    asked = Cells(*(part[kept] for part in held_out))
    scores = hiding.score_hidden(model, people.answers, asked)
    lines = scores.by_question.rename(columns={"model_error": "model", "usual_error": "usual"})
    figure = plots.hidden_answers(
        lines[["model", "usual"]], measure="mean absolute error in levels"
    )
    return {
        "overall": scores.overall,
        "table": _hidden_table(scores.by_question),
        "drawing": drawing(figure, "hidden", "hidden-answers"),
        "learnt_from": learnt_from,
        "n_rows": rows.size,
        "n_left_aside": held_out.row.size - asked.row.size,
    }


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


def _hidden_table(scores: pd.DataFrame) -> Table:
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
    lines = scores.assign(gain=lambda t: t["usual_error"] - t["model_error"])
    lines = lines.sort_values("gain", ascending=False, kind="stable")[list(columns)]
    head, formats = zip(("question", ""), *columns.values(), strict=True)
    return Table(head, list(lines.itertuples(name=None)), formats)


# 4. The map


def _points(
    survey: Survey, people: People, rows: np.ndarray, texts: dict[str, str],
    names_of_factors: dict[int, str], effects: pd.DataFrame,
) -> Described:  # fmt: skip
    """Names, what to colour points by, and what to tell of each: the questions that move most."""
    background = survey.background.reset_index(drop=True).iloc[rows]
    answers = people.answers.subset(rows).to_frame()
    labels = asking.question_texts([str(name) for name in background.columns], survey.schema)
    found = [
        variable_of(background[name], shortened(labels[str(name)], 90), "Background")
        for name in background.columns
    ]
    n_background = sum(one is not None for one in found)
    found += [
        variable_of(answers[name], shortened(texts[name], 90), "Answers") for name in people.names
    ]
    asked = [name for name, one in zip(people.names, found[len(labels) :], strict=True) if one]
    found += [
        variable_of(pd.Series(people.factors[rows, k]), name, "Factors")
        for k, name in names_of_factors.items()
    ]
    size = effects["strength"].abs().groupby(effects["column"], sort=False).mean()
    questions = size.sort_values(ascending=False, kind="stable").index
    telling = [n_background + asked.index(name) for name in questions if name in asked]
    told = [*range(min(n_background, _TOLD_BACKGROUND)), *telling[:_TOLD_ANSWERS]]
    if survey.ids is None:
        names = [f"Row {row + 1}" for row in rows]
    else:
        names = [shortened(name, 60) for name in survey.ids.iloc[rows]]
    return names, [one for one in found if one is not None], told


# 5. Factors


def factor_sections(
    model: CumulativeRBM, factors: np.ndarray, described: list[FactorInWords], texts: dict[str, str]
) -> list[dict[str, Any]]:
    """The most telling factors, each with the questions that it moves most."""
    ends = ("off", "on") if model.model_.units == 1 else ("low", "high")
    moved = asking.moved_questions(model, factors, described, texts)
    sections = []
    for one, questions in zip(described, moved, strict=True):
        # Without its number, which stands in the heading.
        text = one.text.removeprefix(f"Factor {one.factor}, ")
        bars = drawing(plots.factor_bars(questions, ends=ends), f"factor-{one.factor}")
        sections.append({"factor": one, "text": text[:1].upper() + text[1:], "drawing": bars})
    return sections


# 7. Groups


def _groups(
    survey: Survey, people: People, names_of_factors: dict[int, str], first: str | None
) -> list[dict[str, Any]]:
    """One section per background variable, the one to show first in front."""
    background = survey.background.reset_index(drop=True)[people.answered]
    factors = people.factors[people.answered]
    weight = None if survey.weight is None else survey.weight.to_numpy(float)[people.answered]
    means = {
        name: grouping.group_means(factors, background[name], weight)
        for name in grouping.grouping_variables(background)
    }
    order = sorted(means, key=lambda name: (name != first, -_adjusted_share(means[name])))
    return [
        _group_section(means[name], names_of_factors, number)
        for number, name in enumerate(order[:_MOST_GROUPINGS])
    ]


def _adjusted_share(means: grouping.GroupMeans) -> float:
    """Mean share of variance between groups, less what so many groups would have by chance."""
    n, n_groups = means.counts.sum(), len(means.counts)
    if n <= n_groups:
        return 0.0
    return float(np.mean(1.0 - (1.0 - means.share) * (n - 1) / (n - n_groups)))


def _group_section(
    means: grouping.GroupMeans, names_of_factors: dict[int, str], number: int
) -> dict[str, Any]:
    strongest = np.argsort(-means.share, kind="stable")[:_N_FACTORS_COMPARED].tolist()
    lines = means.table[means.table["factor"].isin(strongest)].copy()
    lines["panel"] = lines["factor"].map(names_of_factors)
    lines["order"] = lines["factor"].map(strongest.index)
    lines = lines.sort_values(["order", "difference"], ascending=[True, False], kind="stable")
    figure = plots.group_differences(
        lines.drop(columns="mean").rename(columns={"difference": "mean"})
    )
    columns = ["panel", "group", "count", "mean", "difference", "low", "high"]
    head = ("factor", "group", "people", "mean posterior", "difference", "from", "to")
    formats = ("", "", ",d", ".3f", "+.2f", "+.2f", "+.2f")
    rows = list(lines[columns].itertuples(index=False, name=None))
    return {
        "variable": means.variable,
        "drawing": drawing(figure, f"groups-{number}", "groups"),
        "table": Table(head, rows, formats),
        "strongest": [(names_of_factors[k], float(means.share[k])) for k in strongest],
        "n_groups": lines["group"].nunique(),
        "n_people": int(means.counts.sum()),
    }
