"""The page of a survey: what its sections show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from ordinalrbm import plots
from ordinalrbm.data.observations import Cells
from ordinalrbm.data.tables import Encoded
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.hidden import (
    HiddenScores,
    cells_of,
    count_levels,
    restored,
    rows_of,
    score_hidden,
)
from ordinalrbm.files.survey import LeftOut, Survey
from ordinalrbm.plots.style import shades, shortened
from ordinalrbm.report.groups import (
    FEWEST_GROUPS,
    MOST_GROUPS,
    GroupMeans,
    group_means,
    grouping_variables,
)
from ordinalrbm.report.page import Table, as_svg, render, small_chart
from ordinalrbm.report.placing import FEWEST_PEOPLE, Places, place
from ordinalrbm.report.points import PointMap, variable_of
from ordinalrbm.report.questions import (
    factor_names,
    moved_questions,
    question_texts,
    response_curves,
)
from ordinalrbm.words import FactorInWords, Wording, describe_factors, factor_effects

_MOST_SCORED_ROWS = 10_000
MOST_POINTS = 100_000
# So many people are enough for means and percentiles of factors.
_ENOUGH_ROWS = 4_000
_SHARE_HIDDEN_AFTERWARDS = 0.1
N_FACTORS_TOLD = 8
_N_FACTORS_COMPARED = 6
_MOST_GROUPINGS = 12
_TOLD_ANSWERS, _TOLD_BACKGROUND = 4, 6
_WORDING = Wording(rows="respondents")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class People:
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
    say = progress or say_nothing
    answers = _checked(model, survey, group)
    if held_out is not None:
        answers = restored(answers, held_out)
    say("inferring the factors of all respondents")
    people = People(
        answers, answers.observations.row_counts > 0, np.asarray(model.transform(answers))
    )
    texts = question_texts(people.names, survey.schema)
    if not people.answered.any():
        raise DataError("Nobody has answered any question, so there is nothing to report.")
    say("predicting hidden answers")
    hidden = _hidden(model, people, held_out, random_state)
    say("putting the factors into words")
    factors = people.factors[_some_rows(people, random_state)]
    effects = factor_effects(model, posterior=factors)
    described = describe_factors(
        model, n_factors=N_FACTORS_TOLD, wording=_WORDING, posterior=factors
    )
    say(f"placing {people.answered.sum():,} respondents on a map")
    names_of_factors = factor_names(effects)
    the_map = _map(survey, people, names_of_factors, _by_size(effects, "column"), random_state)
    say("comparing groups")
    groups = _groups(survey, people, names_of_factors, group)
    say("drawing")
    curves = response_curves(model, list(texts.values()), people.factors[people.answered])
    return render(
        "survey.html.j2",
        title=title or survey.name,
        facts=_facts(people),
        scales=_scales(people),
        questions=_questions(people, texts),
        left_out=_left_out(survey),
        learning=learning_figure(model),
        hidden=hidden,
        map=the_map,
        factors=factor_sections(model, factors, described, texts),
        curves=[small_chart(one) for one in curves],
        groups=groups,
        settings=settings_table(model),
        seconds=learning_seconds(model),
        unanswered=model.unanswered,
        weighted_note="" if survey.weight is None else ", people counting by their weights",
        weighted_learning=bool(model.about_.get("weighted")),
        not_compared=_not_compared(survey, groups),
        seed=random_state,
    )


def say_nothing(text: str) -> None:
    """For those who do not want to hear what is being done."""


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
    n_groups = background[group].nunique()
    if not FEWEST_GROUPS <= n_groups <= MOST_GROUPS:
        raise DataError(
            f"The background variable '{group}' has {n_groups} groups; choose one with "
            f"{FEWEST_GROUPS} to {MOST_GROUPS}, or merge some."
        )


def _some_rows(people: People, random_state: int) -> np.ndarray:
    rows = np.flatnonzero(people.answered)
    if len(rows) > _ENOUGH_ROWS:
        chosen = np.random.default_rng(random_state).choice(rows, _ENOUGH_ROWS, replace=False)
        rows = np.sort(chosen)
    return rows


def _by_size(effects: pd.DataFrame, what: str) -> list[Any]:
    """Factors or columns, those with the largest effects first."""
    size = effects["strength"].abs().groupby(effects[what], sort=False).mean()
    return list(size.sort_values(ascending=False, kind="stable").index)


# 1. What the data is


@dataclass(frozen=True)
class Facts:
    """What the data is, in numbers."""

    n_rows: int
    n_questions: int
    share_answered: float
    n_silent: int


def _facts(people: People) -> Facts:
    answers = people.answers
    return Facts(*answers.shape, answers.observations.density, int((~people.answered).sum()))


@dataclass(frozen=True)
class ScaleInUse:
    """A scale, its colours, and the questions that use it."""

    levels: list[tuple[str, str]]
    questions: list[str]


def _scales(people: People) -> list[ScaleInUse]:
    users: dict[tuple[str, ...], list[str]] = {}
    for name, scale in zip(people.names, people.answers.scales, strict=True):
        users.setdefault(tuple(map(str, scale.labels)), []).append(name)
    return [
        ScaleInUse(list(zip(levels, shades(len(levels)), strict=True)), names)
        for levels, names in users.items()
    ]


def _questions(people: People, texts: dict[str, str]) -> Table:
    counts = count_levels(people.answers.observations)
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


@dataclass(frozen=True)
class Drawing:
    """A figure on the page, and the file name it is saved under."""

    svg: Markup
    file: str


def learning_figure(model: Any) -> Drawing | None:
    """The learning curve, unless there is none."""
    history = getattr(model, "history_", pd.DataFrame())
    measured = [name for name in ("validation", "pseudo_likelihood") if name in history]
    if history.empty or not history[measured].notna().any(axis=None):
        return None
    figure = plots.learning_curve(history, best_epoch=model.best_epoch_)
    return Drawing(as_svg(figure, "learning"), "learning-curve")


def learning_seconds(model: Any) -> float | None:
    """How long learning took; model files do not say."""
    history = getattr(model, "history_", pd.DataFrame())
    return float(history["seconds"].max()) if "seconds" in history and len(history) else None


# 3. Hidden answers


@dataclass(frozen=True)
class HiddenSection:
    """How well hidden answers are predicted."""

    overall: pd.Series
    table: Table
    drawing: Drawing
    learnt_from: bool
    n_rows: int
    n_left_aside: int


def _hidden(
    model: CumulativeRBM, people: People, held_out: Cells | None, random_state: int
) -> HiddenSection | None:
    learnt_from = held_out is None or not held_out.row.size
    if held_out is None or learnt_from:
        held_out = _hide_some(people.answers, random_state)
    asked = _of_some_rows(held_out, random_state)
    if not asked.row.size:
        return None
    scores = score_hidden(model, people.answers, asked)
    drawing = Drawing(as_svg(_hidden_figure(scores), "hidden"), "hidden-answers")
    return HiddenSection(
        scores.overall,
        _hidden_table(scores),
        drawing,
        learnt_from,
        len(np.unique(asked.row)),
        held_out.row.size - asked.row.size,
    )


def _hide_some(answers: Encoded, random_state: int) -> Cells:
    """Answers of some people who have answered more than one question."""
    given = answers.observations
    rows = np.flatnonzero(given.row_counts > 1)
    rng = np.random.default_rng(random_state)
    if len(rows) > _MOST_SCORED_ROWS:
        rows = rng.choice(rows, _MOST_SCORED_ROWS, replace=False)
    entries = np.flatnonzero(np.isin(rows_of(given), rows))
    chosen = rng.random(entries.size) < _SHARE_HIDDEN_AFTERWARDS
    if entries.size and not chosen.any():
        chosen[0] = True
    is_hidden = np.zeros(given.n_entries, dtype=bool)
    is_hidden[entries[chosen]] = True
    return cells_of(given, is_hidden)


def _of_some_rows(held_out: Cells, random_state: int) -> Cells:
    """Held-out answers of at most 10,000 people: predicting takes milliseconds per person."""
    rows = np.unique(held_out.row)
    if len(rows) <= _MOST_SCORED_ROWS:
        return held_out
    chosen = np.random.default_rng(random_state).choice(rows, _MOST_SCORED_ROWS, replace=False)
    kept = np.isin(held_out.row, chosen)
    return Cells(*(part[kept] for part in held_out))


def _hidden_figure(scores: HiddenScores) -> Any:
    lines = scores.by_question.rename(columns={"model_error": "model", "usual_error": "usual"})
    return plots.hidden_answers(lines[["model", "usual"]], measure="mean absolute error in levels")


def _hidden_table(scores: HiddenScores) -> Table:
    head = (
        "question", "hidden", "error", "error, usual", "gain", "exactly right",
        "right, usual", "NLL", "NLL, usual",
    )  # fmt: skip
    lines = scores.by_question.assign(gain=lambda t: t["usual_error"] - t["model_error"])
    lines = lines.sort_values("gain", ascending=False, kind="stable")
    columns = [
        "count", "model_error", "usual_error", "gain", "model_hits", "usual_hits", "model_nll",
        "usual_nll",
    ]  # fmt: skip
    rows = [
        (str(name), int(line[0]), *map(float, line[1:]))
        for name, line in zip(lines.index, lines[columns].to_numpy(), strict=True)
    ]
    formats = ("", ",d", ".2f", ".2f", "+.2f", ".0%", ".0%", ".2f", ".2f")
    return Table(head, rows, formats)


# 4. The map


@dataclass(frozen=True)
class MapSection:
    """The map of respondents, as the page's script reads it."""

    data: dict[str, Any]
    n_points: int
    n_landmarks: int
    n_without_answer: int
    n_not_drawn: int


def _map(
    survey: Survey,
    people: People,
    names_of_factors: dict[int, str],
    questions: list[str],
    random_state: int,
) -> MapSection | None:
    rows = np.flatnonzero(people.answered)
    n_answered = len(rows)
    if n_answered < FEWEST_PEOPLE:
        return None
    if n_answered > MOST_POINTS:
        rng = np.random.default_rng(random_state)
        rows = np.sort(rng.choice(rows, MOST_POINTS, replace=False))
    places = place(people.factors[rows], random_state=random_state)
    points = _points(survey, people, rows, places, names_of_factors, questions)
    return MapSection(
        points.to_json(),
        len(rows),
        places.n_landmarks,
        int((~people.answered).sum()),
        n_answered - len(rows),
    )


def _points(
    survey: Survey,
    people: People,
    rows: np.ndarray,
    places: Places,
    names_of_factors: dict[int, str],
    questions: list[str],
) -> PointMap:
    background = survey.background.reset_index(drop=True).iloc[rows]
    answers = people.answers.subset(rows).to_frame()
    texts = question_texts(people.names, survey.schema)
    labels = question_texts([str(name) for name in background.columns], survey.schema)
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
    variables = [one for one in found if one is not None]
    telling = [n_background + asked.index(name) for name in questions if name in asked]
    told = [*range(min(n_background, _TOLD_BACKGROUND)), *telling[:_TOLD_ANSWERS]]
    return PointMap(places.positions, _names(survey, rows), variables, told, "respondents")


def _names(survey: Survey, rows: np.ndarray) -> list[str]:
    if survey.ids is None:
        return [f"Row {row + 1}" for row in rows]
    return [shortened(name, 60) for name in survey.ids.iloc[rows]]


# 5. Factors


@dataclass(frozen=True)
class FactorSection:
    """One factor in words and bars."""

    factor: FactorInWords
    drawing: Drawing

    @property
    def text(self) -> str:
        """What it does, without its number, which stands in the heading."""
        text = self.factor.text.removeprefix(f"Factor {self.factor.factor}, ")
        return text[:1].upper() + text[1:]


def factor_sections(
    model: CumulativeRBM, factors: np.ndarray, described: list[FactorInWords], texts: dict[str, str]
) -> list[FactorSection]:
    """The most telling factors, each with the questions that it moves most."""
    ends = ("off", "on") if model.model_.units == 1 else ("low", "high")
    moved = moved_questions(model, factors, described, texts)
    return [
        FactorSection(
            one,
            Drawing(
                as_svg(plots.factor_bars(questions, ends=ends), f"factor-{one.factor}"),
                f"factor-{one.factor}",
            ),
        )
        for one, questions in zip(described, moved, strict=True)
    ]


# 7. Groups


@dataclass(frozen=True)
class GroupSection:
    """How the groups of one background variable differ."""

    variable: str
    drawing: Drawing
    table: Table
    strongest: list[tuple[str, float]]
    n_groups: int
    n_people: int


def _groups(
    survey: Survey, people: People, names_of_factors: dict[int, str], first: str | None
) -> list[GroupSection]:
    """One section per background variable, the one to show first in front."""
    background = survey.background.reset_index(drop=True)[people.answered]
    factors = people.factors[people.answered]
    weight = None if survey.weight is None else survey.weight.to_numpy(float)[people.answered]
    means = {
        name: group_means(factors, background[name], weight)
        for name in grouping_variables(background)
    }
    order = sorted(means, key=lambda name: (name != first, -_adjusted_share(means[name])))
    return [
        _group_section(means[name], names_of_factors, number)
        for number, name in enumerate(order[:_MOST_GROUPINGS])
    ]


def _not_compared(survey: Survey, groups: list[GroupSection]) -> list[str]:
    """Background variables that make no groups, too many, or are beyond the number shown."""
    shown = {section.variable for section in groups}
    return [str(name) for name in survey.background if str(name) not in shown]


def _adjusted_share(means: GroupMeans) -> float:
    """Mean share of variance between groups, less what so many groups would have by chance."""
    one = means.table[means.table["factor"] == 0]
    n, n_groups = one["count"].sum(), len(one)
    if n <= n_groups:
        return 0.0
    return float(np.mean(1.0 - (1.0 - means.share) * (n - 1) / (n - n_groups)))


def _group_section(
    means: GroupMeans, names_of_factors: dict[int, str], number: int
) -> GroupSection:
    strongest = np.argsort(-means.share, kind="stable")[:_N_FACTORS_COMPARED].tolist()
    lines = means.table[means.table["factor"].isin(strongest)].copy()
    lines["panel"] = lines["factor"].map(names_of_factors)
    lines["order"] = lines["factor"].map(strongest.index)
    lines = lines.sort_values(["order", "difference"], ascending=[True, False], kind="stable")
    figure = plots.group_differences(
        lines.drop(columns="mean").rename(columns={"difference": "mean"})
    )
    return GroupSection(
        means.variable,
        Drawing(as_svg(figure, f"groups-{number}"), "groups"),
        _group_table(lines),
        [(names_of_factors[k], float(means.share[k])) for k in strongest],
        means.n_groups,
        int(means.table.loc[means.table["factor"] == 0, "count"].sum()),
    )


def _group_table(lines: pd.DataFrame) -> Table:
    head = ("factor", "group", "people", "mean posterior", "difference", "from", "to")
    columns = ["panel", "group", "count", "mean", "difference", "low", "high"]
    rows = [
        (str(a), str(b), int(n), *map(float, numbers))
        for a, b, n, *numbers in lines[columns].itertuples(index=False)
    ]
    return Table(head, rows, ("", "", ",d", ".3f", "+.2f", "+.2f", "+.2f"))


# 8. How this was made


def settings_table(model: Any) -> Table:
    """What the model was learnt with; only what fits on a line."""
    rows = [
        (name, str(value))
        for name, value in model.get_params().items()
        if name not in ("scales", "scale", "item_scales", "verbose", "n_jobs")
    ]
    return Table(("setting", "value"), rows, ("", ""))
