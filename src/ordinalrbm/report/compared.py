"""The section that compares groups: on factors, and question by question."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ordinalrbm.data.never_asked import never_asked
from ordinalrbm.data.tables import Encoded
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.files.schema import Schema
from ordinalrbm.report import groups as grouping
from ordinalrbm.report.comparing import ALPHA, FEWEST_PEOPLE, Comparison, holm, most_sure
from ordinalrbm.report.factors import NamedFactor
from ordinalrbm.report.groups import Grouping, GroupMeans
from ordinalrbm.report.labels import Label, listed
from ordinalrbm.report.means import (
    N_FILLINGS,
    QuestionMeans,
    has_gaps,
    level_values,
    question_means,
)
from ordinalrbm.report.page import Table

MOST_SHOWN = 12
_PANELS = 6
_FEW_GROUPS = 8  # stand in the order of the file; more, by their means
# A group that was not asked questions with this share of a factor's squared loadings says nothing
# of its own about the factor.
_RESTS_ON = 0.05
_NARROWEST = 0.1  # what a chart reaches to either side at least, in standard deviations


class Compared(NamedTuple):
    """People who have answered something, and what is known of them, row by row.

    ``table`` is what the model takes, ``asked`` its part that are questions, of which some beside
    the answers are ``numeric``.
    """

    table: Encoded
    asked: Encoded
    numeric: tuple[str, ...]
    background: pd.DataFrame
    scores: np.ndarray
    weight: np.ndarray | None
    no_answers: np.ndarray | None
    schema: Schema

    @property
    def names(self) -> list[str]:
        """What the questions are called, those on ordered scales first."""
        return self.asked.header or []

    @property
    def averaged(self) -> list[int]:
        """Places of the questions whose answers have a mean."""
        n_ordered = self.asked.shape[1]
        return [*range(n_ordered), *(self.names.index(name) for name in self.numeric)]


class _Tested(NamedTuple):
    """A background variable, its groups' factors, and p-values adjusted over all variables."""

    means: GroupMeans
    adjusted: list[float]
    never: np.ndarray  # (G, Q) whether a group was never asked a question
    without: np.ndarray  # (G, K) which groups are left out of which factor
    itself: np.ndarray  # (K,) which factors rest on the very question that makes the groups

    @property
    def strongest(self) -> list[int]:
        """Factors on which groups surely differ most come first."""
        return most_sure(self.means.comparisons, self.adjusted)

    @property
    def best(self) -> Comparison | None:
        """The test of the factor on which they do."""
        return self.means.comparisons[self.strongest[0]]

    @property
    def n_people(self) -> int:
        """How many people take part in that test."""
        return int(self.means.n_tested[self.strongest[0]])

    @property
    def n_groups(self) -> int:
        """How many groups do."""
        return int(self.means.tested[:, self.strongest[0]].sum())


def group_sections(
    model: CumulativeRBM, people: Compared, factors: list[NamedFactor], labels: dict[str, Label],
    first: str | None = None, random_state: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """What the page shows of groups; ``first`` is the variable to show in front."""
    if not factors:
        return {"variables": [], "others": [], "no_factor": True}
    found, others = grouping.groupings(people.background)
    tested = _tested(people, found, factors)
    order = most_sure(
        [one.best for one in tested],
        [one.adjusted[one.strongest[0]] for one in tested],
        [one.n_people / len(people.scores) for one in tested],
    )
    order.sort(key=lambda k: tested[k].means.grouping.name != first)
    shown = [tested[k] for k in order[:MOST_SHOWN]]
    for k in order[MOST_SHOWN:]:
        others[found[k].name] = f"beyond the {MOST_SHOWN} that differ most"
    means = question_means(
        model, people.table, _values(people), [one.means.grouping for one in shown],
        people.weight, people.no_answers, random_state, numeric=people.numeric,
    )  # fmt: skip
    adjusted = _adjusted([one.comparisons for one in means])
    questions = [labels[name] for name in people.names]
    return {
        "no_factor": False,
        "overview": _overview(shown, factors, labels),
        "variables": [
            _section(one, own, p, factors, labels, questions, people.averaged)
            for one, own, p in zip(shown, means, adjusted, strict=True)
        ],
        "others": [(labels[name], why) for name, why in others.items()],
        "n_tests": (_count([one.means.comparisons for one in tested]),
                    _count([one.comparisons for one in means])),
        "n_fillings": N_FILLINGS,
        "has_gaps": has_gaps(people.table, people.numeric),
        "fewest": FEWEST_PEOPLE,
    }  # fmt: skip


def _tested(people: Compared, found: list[Grouping], factors: list[NamedFactor]) -> list[_Tested]:
    names = people.names
    rests = np.reshape([factor.rests for factor in factors], (len(factors), len(names))).T
    never = _never_asked(people, found)
    without = [one.astype(float) @ rests >= _RESTS_ON for one in never]
    nowhere = np.zeros(len(factors), dtype=bool)
    itself = [
        rests[names.index(own.name)] >= _RESTS_ON if own.name in names else nowhere for own in found
    ]
    means = [
        grouping.group_means(people.scores, own, people.weight, absent | circular)
        for own, absent, circular in zip(found, without, itself, strict=True)
    ]
    adjusted = _adjusted([one.comparisons for one in means])
    parts = zip(means, adjusted, never, without, itself, strict=True)
    return [_Tested(*one) for one in parts]


def _never_asked(people: Compared, found: list[Grouping]) -> list[np.ndarray]:
    """(G, Q) for each variable: whether nobody in a group was asked a question."""
    names = people.names
    groups = pd.DataFrame({str(k): pd.Series(one.code) for k, one in enumerate(found)})
    lacking = never_asked(people.asked, groups.where(groups >= 0)) if found else pd.DataFrame()
    masks = [np.zeros((len(one.groups), len(names)), dtype=bool) for one in found]
    for line in lacking.itertuples(index=False):
        masks[int(line.column)][int(line.group), names.index(line.question)] = True
    return masks


def _adjusted(families: list[list[Comparison | None]]) -> list[list[float]]:
    """p-values of all tests by Holm, NaN where there was no test."""
    p = [test.p for family in families for test in family if test is not None]
    rest = iter(holm(p))
    return [[np.nan if test is None else next(rest) for test in family] for family in families]


def _count(families: list[list[Comparison | None]]) -> int:
    return sum(test is not None for family in families for test in family)


def _values(people: Compared) -> list[np.ndarray]:
    columns = {column.name: column for column in people.schema.columns}
    answers = people.asked
    return [
        level_values(scale, columns.get(name))
        for name, scale in zip(answers.names or [], answers.scales, strict=True)
    ]


# ---- factors ----------------------------------------------------------------------------------


def _overview(shown: list[_Tested], factors: list[NamedFactor], labels: dict[str, Label]) -> Table:
    rows = []
    for one in shown:
        own, best, k = one.means.grouping, one.best, one.strongest[0]
        size = (None,) * 4 if best is None else (best.omega, best.low, best.high, one.adjusted[k])
        told = "not tested" if best is None else factors[k].label
        rows.append((labels[own.name], one.n_groups, one.n_people, told, *size))
    head = ("groups by", "groups", "people", "they differ most on", "ω²", "from", "to", "p (Holm)")
    return Table(head, rows, ("", "d", ",d", "", ".1%", ".1%", ".1%", "p"))


def _section(
    one: _Tested, means: QuestionMeans, adjusted: list[float], factors: list[NamedFactor],
    labels: dict[str, Label], questions: list[Label], averaged: list[int],
) -> dict[str, Any]:  # fmt: skip
    own, k = one.means.grouping, one.strongest[0]
    return {
        "label": labels[own.name],
        "n_groups": len(own.groups),
        "n_compared": (one.n_people, one.n_groups),
        "banded": own.banded,
        "best": one.best,
        "best_factor": factors[k].full,
        "differs": one.best is not None and one.adjusted[k] < ALPHA,
        "p": one.adjusted[k],
        "tests": _tests(one, factors),
        "panels": _panels(one, factors),
        "left_out": _left_out(one, factors, questions),
        "itself": [factors[j].label for j in np.flatnonzero(one.itself)],
        "small": [g for g, n in zip(own.groups, own.counts, strict=True) if 0 < n < FEWEST_PEOPLE],
        "means": _banner(
            means, adjusted, [questions[j] for j in averaged], one.never[:, averaged],
            labels[own.name],
        ),
    }  # fmt: skip


def _tests(one: _Tested, factors: list[NamedFactor]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for k in one.strongest:
        test = one.means.comparisons[k]
        if test is None:
            rows.append((factors[k].label, *(None,) * 7))
        else:
            freedom = f"{test.between:.0f}; {test.within:.1f}"
            size = (test.omega, test.low, test.high, test.statistic)
            rows.append((factors[k].label, *size, freedom, test.p, one.adjusted[k]))
    head = ("factor", "ω²", "from", "to", "Welch’s F", "df", "p", "p (Holm)")
    return Table(head, rows, ("", ".1%", ".1%", ".1%", ".2f", "", "p", "p"))


def _panels(one: _Tested, factors: list[NamedFactor]) -> list[dict[str, Any]]:
    """Charts of the factors on which groups differ most, all on one scale."""
    chosen = one.strongest[:_PANELS]
    lines = one.means.table[one.means.table["factor"].isin(chosen)]
    ends = np.abs(lines[["difference", "low", "high"]].to_numpy(dtype=float))
    reach = max(float(np.nanmax(ends, initial=_NARROWEST)), _NARROWEST)
    order = list(one.means.grouping.groups)
    if not one.means.grouping.ordered and len(order) > _FEW_GROUPS:
        first = lines[lines["factor"] == chosen[0]].sort_values(
            "difference", ascending=False, kind="stable"
        )
        order = [*first["group"], *(g for g in order if g not in set(first["group"]))]
    panels = []
    for k in chosen:
        own = lines[lines["factor"] == k].set_index("group")
        rows = [_row(group, own.loc[group], reach) for group in order if group in own.index]
        panels.append({"label": factors[k].label, "rows": rows})
    return panels


def _row(group: str, line: pd.Series, reach: float) -> dict[str, Any]:
    def across(value: float) -> float:
        return 50.0 + 50.0 * value / reach

    has_interval = bool(np.isfinite(line["low"]))
    return {
        "group": group,
        "count": int(line["count"]),
        "mean": float(line["difference"]),
        "low": float(line["low"]) if has_interval else None,
        "high": float(line["high"]) if has_interval else None,
        "dot": across(line["difference"]),
        "start": across(line["low"]) if has_interval else None,
        "width": across(line["high"]) - across(line["low"]) if has_interval else None,
    }


def _left_out(
    one: _Tested, factors: list[NamedFactor], questions: list[Label]
) -> list[tuple[str, Label, Any]]:
    """Groups left out of factors, with the questions that they were never asked."""
    found = []
    for g, k in np.argwhere(one.without):
        weight = factors[k].rests * one.never[g]
        asked = [questions[j] for j in np.argsort(-weight, kind="stable")[:3] if weight[j] > 0]
        found.append((one.means.grouping.groups[g], factors[k].label, listed(asked)))
    return found


# ---- questions --------------------------------------------------------------------------------


def _banner(
    means: QuestionMeans, adjusted: list[float], questions: list[Label], never: np.ndarray,
    variable: Label,
) -> dict[str, Any]:  # fmt: skip
    """Mean answers: a line per question other than the one that makes the groups."""
    rows: list[dict[str, Any]] = []
    for j in most_sure(means.comparisons, adjusted):
        if questions[j] == variable:
            continue
        test = means.comparisons[j]
        cells = [
            {
                "mean": means.mean[g, j],
                "low": means.low[g, j],
                "high": means.high[g, j],
                "count": int(means.answered[g, j]),
                "never": bool(never[g, j]),
            }
            for g in range(len(means.grouping.groups))
        ]
        size = (None, None, None) if test is None else (test.omega, test.low, test.high)
        rows.append({"label": questions[j], "cells": cells, "size": size, "p": adjusted[j]})
    untested = sum(row["size"][0] is None for row in rows)
    counts = means.grouping.counts
    heads = [(g, int(n)) for g, n in zip(means.grouping.groups, counts, strict=True)]
    return {"groups": heads, "rows": rows, "n_untested": untested}
