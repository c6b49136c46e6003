"""Questions that work differently in groups: against integrals, simulated truth, and bad input."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.stats import group_items

THRESHOLDS = np.array([-1.4, -0.2, 1.1])
SLOPES = np.array([0.7, 1.0, 1.4, -0.9, 1.2, 0.8, 1.1, 1.0])
MEANS, SDS = np.array([-0.3, 0.1, 0.4]), np.array([0.9, 1.0, 1.2])


def draw(rng, n, shift=0.0, change=0.0, means=MEANS, sds=SDS):
    """Levels (n, J) of groups of equal size, with deviations (G, J), and the groups."""
    code = np.arange(n) % means.size
    factor = means[code] + sds[code] * rng.normal(size=n)
    slope = SLOPES + np.broadcast_to(change, (means.size, SLOPES.size))
    utility = slope[code] * factor[:, None] + np.broadcast_to(shift, slope.shape)[code]
    return (utility[..., None] + rng.normal(size=(n, SLOPES.size, 1)) > THRESHOLDS).sum(axis=2), code


def answers_of(level, code, weight=None):
    n_levels = level.max(axis=0) + 1
    return group_items.Answers(level, n_levels, code, np.ones(len(code)) if weight is None else weight)


def log_likelihood(answers, items, g, shift, slope):
    """Of the answers of a group, by a finer rule than that of the fit."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    at = items.mean[g] + items.sd[g] * nodes
    distance = items.bounds[:, :, None] - (slope[:, None] * at + shift[:, None])[:, None]
    chance = np.log(np.diff(ndtr(distance), axis=1) + 1e-300)
    level = answers.level[answers.code == g]
    logs = sum(chance[j][level[:, j]] for j in range(level.shape[1]))
    return np.log(np.exp(logs) @ (weights / weights.sum())).sum()


def test_parameters_are_where_the_likelihood_is_largest():
    answers = answers_of(*draw(np.random.default_rng(0), 600))
    none = np.zeros((3, 8), dtype=bool)
    items = group_items._fit(answers, group_items._first(answers, np.sign(SLOPES)), none)

    def whole(items):
        return sum(log_likelihood(answers, items, g, np.zeros(8), items.slope) for g in range(3))

    best = whole(items)
    for name in ("bounds", "slope", "mean", "sd"):
        part = getattr(items, name)
        for step in (-0.05, 0.05):
            moved = np.array(part)
            moved[(1,) * part.ndim] += step
            assert whole(items._replace(**{name: moved})) < best - 0.1
    share = np.full(3, 1 / 3)
    assert share @ items.mean == pytest.approx(0, abs=1e-9)
    assert share @ (items.sd**2 + items.mean**2) == pytest.approx(1)


def test_a_deviation_is_about_the_most_likely_one():
    """With all else where it is, the likelihood of a free shift and slope is largest near the estimates."""
    shift = np.zeros((3, 8))
    shift[1, 2] = 0.5
    answers = answers_of(*draw(np.random.default_rng(1), 1500, shift))
    found = group_items.compare(answers, np.sign(SLOPES))

    def at(by, change):
        moved, slope = np.zeros(8), found.items.slope.copy()
        moved[2], slope[2] = by - change * found.items.mean[1], slope[2] + change
        return log_likelihood(answers, found.items, 1, moved, slope)

    by, change = found.value[1, 2]
    for other in ((0.15, 0.0), (-0.15, 0.0), (0.0, 0.25), (0.0, -0.25)):
        assert at(by, change) > at(by + other[0], change + other[1])
    assert by / found.error[1, 2, 0] > norm.isf(1e-6)
    assert abs(by - 0.5) < 3 * found.error[1, 2, 0]


@pytest.mark.parametrize(("size", "n_sets"), [(40, 8), (300, 4)])
def test_tests_hold_their_level_where_nothing_deviates(size, n_sets):
    """Mean of z² over questions, groups and sets is 1; so it is where groups are small."""
    squares = []
    for seed in range(n_sets):
        answers = answers_of(*draw(np.random.default_rng(seed), 3 * size))
        found = group_items.compare(answers, np.sign(SLOPES))
        squares.append((found.value / found.error) ** 2)
    assert np.mean(squares) == pytest.approx(1.0, abs=0.25)


def test_groups_are_placed_without_the_questions_that_deviate():
    shift = np.zeros((3, 8))
    shift[2, :3] = 0.9 * np.sign(SLOPES[:3])
    bias = []
    for seed in range(3):
        level, code = draw(np.random.default_rng(seed), 1200, shift)
        found = group_items.compare(answers_of(level, code), np.sign(SLOPES))
        bias.append([one.mean[2] - one.mean[0] for one in (found.items, found.alike)])
    spread = np.sqrt(np.mean(SDS**2) + np.var(MEANS))
    aside, alike = np.mean(bias, axis=0) - (MEANS[2] - MEANS[0]) / spread
    assert abs(aside) < 0.08 and alike > 0.15


def test_deviations_keep_more_of_themselves_the_surer_they_are():
    error = np.full((200, 2), 0.1)
    value = np.random.default_rng(0).normal(size=error.shape) * np.hypot([0.0, 0.3], 0.1)
    nothing, much = group_items.shrinkage(value, error).mean(axis=0)
    assert nothing < 0.3 and much == pytest.approx(0.9, abs=0.05)
    assert np.isnan(group_items.shrinkage(np.array([[np.nan, 1.0]]), np.array([[np.nan, 0.5]]))[0, 0])


# ---- with a model -----------------------------------------------------------------------------


@cache
def fitted():
    shift = np.zeros((3, 8))
    shift[1, 4] = 0.8
    level, code = draw(np.random.default_rng(3), 900, shift)
    table = pd.DataFrame(level + 1.0, columns=[f"q{j}" for j in range(8)])
    model = orbm.CumulativeRBM(3, n_epochs=5, random_state=0).fit(table)
    return model, table, np.array(["a", "b", "c"])[code]


def test_the_question_that_deviates_is_named():
    model, table, group = fitted()
    found = model.invariance(table, group, n_factors=1)
    assert len(found.questions) == 24 and len(found.means) == 3
    (line,) = found.deviating().to_dict("records")
    assert (line["question"], line["group"], line["class"]) == ("q4", "b", "C")
    assert line["uniform"] == pytest.approx(0.8 / np.hypot(1, 1.2), abs=0.15)
    assert 0 < line["uniform_shrunk"] < line["uniform"] and line["points"] > 0.3
    assert line["unsigned"] >= abs(line["effect"]) - 1e-12
    assert "q4" in repr(found) and "24 comparisons: deviations are large (C) in 1," in found.summary
    assert (found.questions["uniform_holm"] >= found.questions["uniform_p"]).all()
    named = model.invariance(table.assign(land=group), "land", n_factors=1)
    pd.testing.assert_frame_equal(named.questions, found.questions)


def test_a_scale_turned_around_turns_the_deviations():
    model, table, group = fitted()
    found = model.invariance(table, group, n_factors=1).questions
    model = orbm.CumulativeRBM(3, n_epochs=5, random_state=0).fit(5.0 - table)
    turned = model.invariance(5.0 - table, group, n_factors=1).questions
    np.testing.assert_allclose(turned["uniform"], -found["uniform"], atol=0.03)
    np.testing.assert_allclose(turned["points"], -found["points"], atol=0.04)


def test_weights_count_rows_and_widen_errors():
    model, table, group = fitted()
    alike = model.invariance(table, group, n_factors=1).questions
    same = model.invariance(table, group, n_factors=1, sample_weight=np.full(900, 7.0)).questions
    pd.testing.assert_frame_equal(same, alike)
    weight = np.random.default_rng(0).choice([1, 3], 900)
    weighted = model.invariance(table, group, n_factors=1, sample_weight=weight).questions
    times = np.repeat(np.arange(900), weight)
    repeated = model.invariance(table.iloc[times], group[times], n_factors=1).questions
    aside = [1 * (one["class"] > "A") for one in (weighted, repeated)]
    assert (aside[0] == aside[1]).all()
    unsure = weighted["uniform_se"] / repeated["uniform_se"]
    assert np.median(np.abs(weighted["uniform"] - repeated["uniform"])) < 0.02
    assert unsure.median() == pytest.approx(np.sqrt(weight @ weight / weight.sum()), rel=0.15)


def test_groups_that_lack_a_level_or_a_question():
    model, table, group = fitted()
    gaps = table.copy()
    gaps.loc[group == "c", "q1"] = np.nan
    gaps.loc[(group == "a") & (gaps["q2"] == 4), "q2"] = np.nan
    found = model.invariance(gaps, group, n_factors=1).questions.set_index(["question", "group"])
    assert np.isnan(found.loc[("q1", "c"), "uniform"]) and found.loc[("q1", "c"), "class"] == ""
    known = found.drop(index=("q1", "c"))[["uniform", "uniform_se", "nonuniform", "effect"]]
    assert np.isfinite(known).all(axis=None)
    only = table.assign(q0=table["q0"].where(group == "a"))
    left = model.invariance(only, group, n_factors=1)
    assert left.questions.set_index("question").loc["q0", "uniform"].isna().all()


def test_groups_that_cannot_be_compared_are_refused_or_left_out():
    model, table, group = fitted()
    with pytest.raises(DataError, match=r"Of 900 groups 0 have answers of at least 30 people"):
        model.invariance(table, np.arange(900), n_factors=1)
    with pytest.raises(DataError, match="Of 1 groups 1 have answers"):
        model.invariance(table, ["x"] * 900, n_factors=1)
    with pytest.raises(DataError, match="no column 'land'"):
        model.invariance(table, "land")
    with pytest.raises(DataError, match="have 3 rows, but X has 900"):
        model.invariance(table, ["x", "y", "x"])
    with pytest.raises(DataError, match="weights must be finite and not negative"):
        model.invariance(table, group, sample_weight=-np.ones(900))
    few = np.where(np.arange(900) < 6, "few", group)
    with pytest.warns(UserWarning, match="1 of 4 groups are left out.*few"):
        found = model.invariance(table, few, n_factors=1)
    assert found.means["group"].tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="No factor has 3 questions"):
        model.invariance(table[["q0", "q1"]], group, n_factors=1)
    by_question = model.invariance(table, "q3", n_factors=1)
    assert by_question.left_out == {"q3": "it makes the groups"}
