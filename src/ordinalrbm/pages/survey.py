"""The page of a survey: what its sections show."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm import plots
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.data.tables import Encoded
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.factor_analysis import FactorReading
from ordinalrbm.estimators.poles import in_short
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate import hidden as hiding
from ordinalrbm.files.survey import REASONS, Survey
from ordinalrbm.pages import page
from ordinalrbm.pages.factors import (
    MOST_ROWS,
    N_FACTORS_TOLD,
    NamedFactor,
    Related,
    factor_table,
    loadings_table,
    named_factors,
    telling_curves,
)
from ordinalrbm.pages.frequencies import batteries, direction, frequencies, summary_of
from ordinalrbm.pages.groups import Compared, Grouping, group_sections, grouping_of
from ordinalrbm.pages.points import Described, Variable, map_section, some_of, variable_of
from ordinalrbm.plots.style import shortened
from ordinalrbm.schema.vocabulary import asks
from ordinalrbm.stats.welch import counting

_MOST_SCORED_ROWS = 10_000
_SHARE_HIDDEN_AFTERWARDS = 0.1
_TOLD_ANSWERS, _TOLD_BACKGROUND = 4, 6
_N_ERRORS = 8  # questions whose errors are shown at once
_MOST_LOADINGS = 16  # rows; a longer table starts folded
_SHORT = 90  # letters of a question in a list


def survey_page(
    model: CumulativeRBM,
    survey: Survey,
    *,
    held_out: Cells | None = None,
    group: str | None = None,
    title: str | None = None,
    progress: page.Progress | None = None,
    random_state: int = 0,
) -> page.Page:
    """A page about a survey: what was found, and what a model has learnt from it.

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
        By default the name of the survey, with the number of respondents.
    progress : callable, optional
        Called with words for what is being done.
    random_state : int, default=0
        Seed of the map and of what is drawn at random.

    Returns
    -------
    Page
        HTML, a ``str``; ``tables`` are those in it, by what they are about.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> from ordinalrbm import pages
    >>> from ordinalrbm.files.survey import read_survey
    >>> answers = pd.DataFrame({"tea": ["no", "yes", "maybe"] * 9, "milk": ["yes", "no", "no"] * 9})
    >>> survey = read_survey(answers)
    >>> shown, held_out = orbm.evaluate.hide_answers(survey.encoded, share=0.1)
    >>> model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(shown)
    >>> page = pages.survey_page(model, survey, held_out=held_out)
    >>> page.startswith("<!DOCTYPE html>")
    True
    """
    say = progress or (lambda text: None)
    survey = _checked(model, survey, group)
    if held_out is not None:
        survey = replace(survey, encoded=hiding.restored(survey.encoded, held_out))
    others = survey.background[survey.chosen.asked].notna().to_numpy()
    answered = np.hstack([survey.encoded.observations.to_dense() >= 0, others])
    if not answered.any():
        raise DataError("Nobody has answered any question, so there is nothing to report.")
    say("inferring the factors of all respondents")
    about = _Sections.of(model, survey, np.asarray(answered.any(axis=1)), random_state)
    rows = np.flatnonzero(about.answered)
    say("predicting hidden answers")
    hidden = about.hidden(held_out)
    say("comparing groups")
    labels, factors = about.labels, about.factors
    groups: dict[str, Any] = group_sections(model, about.compared(), factors, labels, group)
    say(f"placing {rows.size:,} respondents on a map")
    leader = groups["leader"]
    described = partial(about.points, leader and leader["name"])
    n_variables = len(about.names) + survey.background.shape[1] + len(factors)
    the_map = map_section(rows, about.scores, described, random_state, n_variables)
    say("drawing")
    curves = telling_curves(about.reading, labels)
    facts = {
        "n_rows": len(answered),
        "n_questions": survey.n_questions,
        "share_answered": float(answered.mean()),
        "n_silent": len(answered) - rows.size,
    }
    related = about.related()
    asked = [labels[name] for name in about.names]
    given = frequencies(survey.encoded, asked, about.weight, survey.no_answers)
    shown, folded = batteries(given, [about.short[name] for name in about.names])
    return page.render(
        "survey.html.j2",
        title or f"{_in_words(survey.name)}: what {len(answered):,} respondents answered",
        model,
        facts=facts,
        closest=related.closest,
        heat=related.merged(),
        is_merged=len(related.texts) > MOST_ROWS,
        batteries=shown,
        folded=folded,
        others=about.other_kinds() if survey.chosen.columns else None,
        map=the_map,
        factors=factors[:N_FACTORS_TOLD],
        factor_table=about.factor_table(),
        loadings=loadings_table(about.reading, factors[:N_FACTORS_TOLD], labels),
        most_loadings=_MOST_LOADINGS,
        n_not_told=len(about.reading.factors) - min(len(factors), N_FACTORS_TOLD),
        groups=groups,
        hidden=hidden,
        curves=page.drawing(plots.item_curves(curves), "curves", "item-curves") if curves else None,
        left_out=_left_out(survey),
        unanswered=model.unanswered,
        n_factors=model.model_.n_factors,
        n_styles=len(model.model_.stretches),
        weighted=survey.weight is not None,
        weighted_learning=bool(model.about_.get("weighted")),
        seed=random_state,
    )


def _in_words(name: str) -> str:
    """The name of a file as a title: "food_world-cup" is "Food world cup"."""
    words = " ".join(name.replace("_", " ").replace("-", " ").split()) or "Survey"
    return words[0].upper() + words[1:]


def _checked(model: CumulativeRBM, survey: Survey, group: str | None) -> Survey:
    """The survey with the columns of the model, on whose scales its answers must be."""
    check_is_fitted(model, "model_")
    names, known = survey.encoded.names or [], model.questionnaire_
    learnt = list(getattr(model, "feature_names_in_", names))
    if learnt[: known.kinds.count("ordinal")] != names or set(known.kinds[: len(names)]) != {"ordinal"}:
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
    return survey.aligned_to(learnt, known)


def comparable(survey: Survey) -> pd.DataFrame:
    """What people can be compared by: background, not fieldwork, and education and income as answered."""
    asked = page.labels_of(survey.encoded.names or [], page.texts_of(survey.schema))
    columns = {
        name: survey.encoded.column(j)
        for j, (name, label) in enumerate(asked.items())
        if asks(label.text, "banded") or asks(f"level of {label.text}", "banded")
    }
    people = survey.background.drop(columns=survey.schema.names("fieldwork"), errors="ignore")
    # Codes of categories have no order, and make no bands.
    codes = [name for name in survey.schema.names("nominal") if name in people.columns]
    people = people.astype(dict.fromkeys(codes, "category"))
    return people.assign(**columns)


def check_group(survey: Survey, group: str | None) -> Grouping | None:
    """The groups of a variable; refuses one that makes none, or too many."""
    if group is None:
        return None
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
    return found


# ---- what is learnt from the data -------------------------------------------------------------


@dataclass(frozen=True)
class _Sections:
    """A survey with nothing hidden, what the model says of it, and sections made of both."""

    model: CumulativeRBM
    survey: Survey
    answered: np.ndarray  # whether each person has answered anything
    scores: np.ndarray  # (n, K) on rotated factors
    reading: FactorReading
    labels: dict[str, page.Label]
    factors: list[NamedFactor]
    seed: int

    @classmethod
    def of(cls, model: CumulativeRBM, survey: Survey, answered: np.ndarray, seed: int) -> Self:
        texts = page.texts_of(survey.schema)
        reading = model.factor_solution(questions=texts)
        labels = page.labels_of([*(survey.encoded.names or []), *map(str, survey.background)], texts)
        labels |= page.labels_of(set(reading.loadings.index) - set(labels), reading.questions)
        factors = named_factors(reading, {str(name): labels[name] for name in reading.loadings.index})
        scores = model.scores(survey.table).to_numpy()
        return cls(model, survey, answered, scores, reading, labels, factors, seed)

    @property
    def names(self) -> list[str]:
        """Names of the questions on ordered scales."""
        return self.survey.encoded.names or []

    @property
    def weight(self) -> np.ndarray | None:
        weight = self.survey.weight
        return None if weight is None else weight.to_numpy(float)

    @cached_property
    def short(self) -> dict[str, str]:
        """Short texts of all questions but nominal ones."""
        asked = [*self.names, *self.survey.chosen.numeric]
        return in_short({name: self.labels[name].text for name in asked}, _SHORT)

    def related(self) -> Related:
        """How questions are correlated, by the model."""
        scales = zip(self.names, self.survey.encoded.scales, strict=True)
        return Related.of(self.reading, self.short, {name: direction(scale.names) for name, scale in scales})

    def factor_table(self) -> page.Table:
        """Ends and reliability of the factors that are told."""
        level = self.survey.encoded.observations.to_dense().astype(np.float64)
        level[level < 0] = np.nan
        answers = pd.DataFrame(level, columns=self.names)
        weight = None if self.weight is None else counting(self.weight, len(level))
        return factor_table(self.reading, self.factors[:N_FACTORS_TOLD], answers, weight)

    def other_kinds(self) -> dict[str, object]:
        """Categories and how often they were chosen, and numbers in short."""
        survey, labels = self.survey, self.labels
        chosen, learnt = survey.chosen, list(self.model.feature_names_in_)
        scales = [self.model.scales_[learnt.index(name)] for name in chosen.nominal]
        levels = [
            scale.encode(survey.background[name], name)
            for scale, name in zip(scales, chosen.nominal, strict=True)
        ]
        categories = []
        if levels:
            counts = Observations.from_dense(np.column_stack(levels), [s.n_levels for s in scales])
            asked = [labels[name] for name in chosen.nominal]
            # Of other kinds than scales, nothing tells why there is none.
            why = np.full(counts.to_dense().shape, REASONS.index("no answer"))
            categories = frequencies(Encoded(counts, scales), asked, self.weight, why, ordered=False)
        found = [summary_of(survey.background[n], labels[n], self.weight) for n in chosen.numeric]
        head = ("question", "answered", "mean", "sd", "minimum", "25%", "median", "75%", "maximum")
        numbers = [(s.label, s.n_answered, s.mean, s.deviation, *s.quantiles) for s in found]
        return {
            "categories": categories,
            "numbers": page.Table(head, numbers, ("", ",d", *[".5g"] * 7)),
            "background": [labels[name] for name in chosen.background],
        }

    def hidden(self, held_out: Cells | None) -> dict[str, object] | None:
        """How well hidden answers are predicted."""
        learnt_from = held_out is None or not held_out.row.size
        if held_out is None or learnt_from:
            held_out = _hide_some(self.survey.encoded, self.seed)
        # Of at most 10,000 people: predicting takes milliseconds per person.
        rows = some_of(np.unique(held_out.row), _MOST_SCORED_ROWS, self.seed)
        kept = np.isin(held_out.row, rows)
        if not rows.size:
            return None
        asked = held_out.at(kept)
        scores = hiding.score_hidden(self.model, self.survey.table, asked)
        lines = scores.by_question.assign(gain=lambda t: t["usual_error"] - t["model_error"])
        lines = lines.sort_values("gain", ascending=False, kind="stable")
        return {
            "overall": scores.overall,
            "table": _hidden_table(lines, self.labels),
            "errors": [(self.labels[str(name)], line) for name, line in lines.head(_N_ERRORS).iterrows()],
            "largest": float(lines[["model_error", "usual_error"]].max(axis=None)) or 1.0,
            "learnt_from": learnt_from,
            "n_rows": rows.size,
            "n_left_aside": held_out.row.size - asked.row.size,
        }

    def _variables(self, table: pd.DataFrame, section: str) -> dict[str, Variable]:
        named = {
            str(name): variable_of(table[name], shortened(self.labels[str(name)].plain, 90), section)
            for name in table
        }
        return {name: one for name, one in named.items() if one is not None}

    def points(self, opening: str | None, rows: np.ndarray) -> Described:
        """Names, what to colour points by, and what to tell of each: questions that move most."""
        known = self._variables(self.survey.background.reset_index(drop=True).iloc[rows], "Background")
        asked = self._variables(self.survey.encoded.subset(rows).to_frame(), "Answers")
        scored = [
            variable_of(pd.Series(self.scores[rows, factor.place]), shortened(factor.short, 120), "Factors")
            for factor in self.factors
        ]
        found = [one for one in scored if one is not None]
        places = {name: len(found) + place for place, name in enumerate([*known, *asked])}
        moved = self.reading.communalities.sort_values(ascending=False, kind="stable").index
        telling = [places[name] for name in moved if name in asked]
        told = [places[name] for name in list(known)[:_TOLD_BACKGROUND]] + telling[:_TOLD_ANSWERS]
        if self.survey.ids is None:
            names = [f"Row {row + 1}" for row in rows]
        else:
            names = [shortened(name, 60) for name in self.survey.ids.iloc[rows]]
        variables = [*found, *known.values(), *asked.values()]
        return Described(names, variables, told, places.get(opening or "", 0))

    def compared(self) -> Compared:
        """Those who have answered something, for comparisons on the factors."""
        there, survey, weight = self.answered, self.survey, self.weight
        return Compared(
            survey.table.subset(there),
            survey.asked.subset(there),
            survey.chosen.numeric,
            comparable(survey).reset_index(drop=True)[there],
            self.scores[there][:, [factor.place for factor in self.factors]],
            None if weight is None else weight[there],
            survey.schema,
            None if survey.design is None else survey.design.sample.take(there),
        )


def _hide_some(answers: Encoded, random_state: int) -> Cells:
    given, rng = answers.observations, np.random.default_rng(random_state)
    rows = some_of(np.flatnonzero(given.row_counts > 1), _MOST_SCORED_ROWS, rng)
    entries = np.flatnonzero(np.isin(given.cells().row, rows))
    chosen = rng.random(entries.size) < _SHARE_HIDDEN_AFTERWARDS
    if entries.size and not chosen.any():
        chosen[0] = True
    is_hidden = np.zeros(given.n_entries, dtype=bool)
    is_hidden[entries[chosen]] = True
    return hiding.cells_of(given, is_hidden)


def _hidden_table(lines: pd.DataFrame, labels: dict[str, page.Label]) -> page.Table:
    columns = {
        "count": ("n", ",d"),
        "model_error": ("error", ".2f"),
        "usual_error": ("error, baseline", ".2f"),
        "gain": ("gain", "+.2f"),
        "model_hits": ("exact", ".0%"),
        "usual_hits": ("exact, baseline", ".0%"),
        "model_nll": ("NLL", ".2f"),
        "usual_nll": ("NLL, baseline", ".2f"),
    }
    head, formats = zip(("question", ""), *columns.values(), strict=True)
    rows = lines[list(columns)].itertuples(name=None)
    return page.Table(head, [(labels[str(name)], *line) for name, *line in rows], formats)


# ---- what is not used -------------------------------------------------------------------------


def _left_out(survey: Survey) -> list[tuple[str, page.Table]]:
    found = page.left_out_table(survey.left_out)
    ignored = [c for c in survey.schema.columns if c.role == "ignored"]
    if ignored:
        known = page.labels_of([column.name for column in ignored], page.texts_of(survey.schema))
        rows = [(known[column.name], column.reason) for column in ignored]
        found.append(
            ("Columns that are not used", page.Table(("column", "why it is not used"), rows, ("", "")))
        )
    codes = _codes_without_answer(survey)
    if codes:
        head = ("code", "columns", "which")
        found.append(("Codes that are no answer", page.Table(head, codes, ("", "d", ""))))
    return found


def _codes_without_answer(survey: Survey) -> list[tuple[str, int, str]]:
    columns: dict[str, list[str]] = {}
    for column in survey.schema.columns:
        names = column.missing_names or ("",) * len(column.missing)
        for code, name in zip(column.missing, names, strict=False):
            what = str(code) if name in ("", str(code)) else f"{code} ({name})"
            columns.setdefault(what, []).append(column.name)
    return [(what, len(names), ", ".join(names)) for what, names in columns.items()]
