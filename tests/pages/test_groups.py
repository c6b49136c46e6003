"""How groups are compared: recomputed with independent code, and by simulation."""

from __future__ import annotations

import inspect
import itertools
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from small_pages import Page, answers, background, fitted, means_of, survey

import ordinalrbm as orbm
from ordinalrbm import pages
from ordinalrbm.errors import DataError
from ordinalrbm.files.survey import REASONS
from ordinalrbm.pages.frequencies import frequencies
from ordinalrbm.pages.groups import Grouping, _within, group_means, grouping_of, groupings, level_values
from ordinalrbm.pages.page import Label
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.stats.welch import Comparison, Moments, holm, moments, most_sure, welch


def in_groups(samples: list[np.ndarray]) -> Moments:
    """What the test needs of some samples, written down by hand."""
    size = np.array([len(x) for x in samples], dtype=float)
    variance = np.array([x.var(ddof=1) for x in samples])
    mean = np.array([x.mean() for x in samples])
    return Moments(mean, variance, np.sqrt(variance / size), size - 1.0, size, size)


def grouping(labels: list, name: str = "g") -> Grouping:
    return grouping_of(pd.Series(labels, name=name))


# The test


def test_two_groups_give_welchs_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.0, 1.0, 20), rng.normal(0.8, 3.0, 50)
    found, known = welch(in_groups([a, b])), stats.ttest_ind(a, b, equal_var=False)
    assert found.statistic == pytest.approx(known.statistic**2)
    assert found.within == pytest.approx(known.df)
    assert found.p == pytest.approx(known.pvalue)


def test_several_groups_by_welchs_formulas():
    samples = [
        np.array([21.3, 24.1, 19.8, 27.0, 22.5, 23.3, 20.7]),
        np.array([26.8, 33.9, 20.1, 31.6, 38.2, 24.7, 29.9, 35.5]),
        np.array([23.0, 28.4, 31.1, 26.3, 22.2, 29.7]),
    ]
    found = welch(in_groups(samples))
    # As Welch (1951) writes them, one number at a time.
    w = [len(x) / x.var(ddof=1) for x in samples]
    centre = sum(wi * x.mean() for wi, x in zip(w, samples, strict=True)) / sum(w)
    above = sum(wi * (x.mean() - centre) ** 2 for wi, x in zip(w, samples, strict=True)) / 2
    tail = sum((1 - wi / sum(w)) ** 2 / (len(x) - 1) for wi, x in zip(w, samples, strict=True))
    assert found.statistic == pytest.approx(above / (1 + 2 * 1 / 8 * tail))
    assert found.within == pytest.approx(8 / (3 * tail))
    assert found.p == pytest.approx(stats.f.sf(found.statistic, 2, found.within))
    if "equal_var" in inspect.signature(stats.f_oneway).parameters:  # SciPy has it since 1.16
        known = stats.f_oneway(*samples, equal_var=False)
        assert (found.statistic, found.p) == pytest.approx((known.statistic, known.pvalue))


def test_the_interval_of_omega_is_where_the_statistic_is_usual():
    rng = np.random.default_rng(1)
    found = welch(in_groups([rng.normal(m, 1.0, 60) for m in (0.0, 0.4, 0.9)]))
    people = 180.0
    for share, quantile in ((found.low, 0.975), (found.high, 0.025)):
        noncentrality = people * share / (1.0 - share)
        below = stats.ncf.cdf(found.statistic, 2, found.within, noncentrality)
        assert below == pytest.approx(quantile, abs=1e-4)
    assert found.low < found.omega < found.high


def test_many_people_have_an_interval_too():
    rng = np.random.default_rng(2)
    found = welch(in_groups([rng.normal(m, 1.0, 40_000) for m in (0.0, 1.0)]))
    # Half a standard deviation to either side: 0.25 of 1.25 of the variance.
    assert found.low < 0.2 < found.high
    assert found.high - found.low < 0.01


def test_intervals_hold_the_truth_in_nineteen_of_twenty_cases():
    """Groups of unequal size and a known share of variance between them."""
    rng, sizes, shifts = np.random.default_rng(3), (30, 60, 90), np.array([-0.4, 0.0, 0.3])
    weight = np.array(sizes) / sum(sizes)
    between = weight @ (shifts - weight @ shifts) ** 2
    truth, hits, estimates = between / (1.0 + between), 0, []
    for _ in range(600):
        found = welch(in_groups([rng.normal(m, 1.0, n) for m, n in zip(shifts, sizes, strict=True)]))
        hits += found.low <= truth <= found.high
        estimates.append(found.omega)
    assert 0.92 < hits / 600 < 0.98
    # Cut off at 0, it is a little too large on average.
    assert np.mean(estimates) == pytest.approx(truth, abs=0.01)


def test_holm_by_hand():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_people_who_do_not_differ_make_no_test():
    one = np.ones(2)
    alike = Moments(np.array([0.0, 1.0]), 0 * one, 0 * one, 9 * one, 10 * one, 10 * one)
    assert welch(alike) is None
    assert welch(alike.at(np.array([True, False]))) is None
    # Where only one group is all of one opinion, the others' spread stands in for its own.
    found = welch(alike._replace(variance=np.array([0.0, 1.0]), error=np.array([0.0, 0.1**0.5])))
    assert 0.0 < found.p < 1.0


# Groups


def test_numbers_make_bands_of_about_equally_many():
    found = grouping_of(pd.Series([*range(100), None], name="age"))
    assert found.groups == ("0 to 24", "25 to 49", "50 to 74", "75 to 99")
    assert found.counts.tolist() == [25] * 4
    assert found.code[-1] == -1
    assert found.ordered
    assert found.banded
    few = grouping_of(pd.Series([1, 2, 3] * 9, name="children"))
    assert few.groups == ("1", "2", "3")
    assert grouping_of(pd.Series([0] * 99 + list(range(1, 20)), name="cars")).groups[0] == "0"


def test_variables_without_groups_are_told_with_the_reason():
    people = pd.DataFrame(
        {"same": "x", "nobody": None, "each": [f"id {k}" for k in range(60)], "sex": ["f", "m"] * 30}
    )
    found, others = groupings(people)
    assert [one.name for one in found] == ["sex"]
    assert others == {
        "same": "one group only",
        "nobody": "nothing is known of anybody",
        "each": "60 groups, more than 30",
    }


def test_moments_are_those_of_each_group_alone():
    rng = np.random.default_rng(6)
    values, weight = rng.normal(size=(200, 3)), rng.gamma(2.0, 1.0, 200)
    values[rng.random(values.shape) < 0.2] = np.nan
    who = pd.Series(rng.choice(["a", "b", None], 200), name="g")
    made = grouping_of(who)
    found = moments(values, made.code, len(made.groups), weight)
    for (g, name), j in itertools.product(enumerate("ab"), range(3)):
        own = (who == name).to_numpy() & ~np.isnan(values[:, j])
        x, w = values[own, j], weight[own]
        mean, n = np.average(x, weights=w), own.sum()
        assert found.mean[g, j] == pytest.approx(mean)
        assert found.people[g, j] == n
        error = np.sqrt(n / (n - 1) * np.sum((w * (x - mean)) ** 2)) / w.sum()
        assert found.error[g, j] == pytest.approx(error)
        assert found.size[g, j] == pytest.approx(w.sum() ** 2 / np.sum(w**2))


# Frequencies


def test_frequencies_are_counts_and_weighted_shares():
    whole, weight = survey(), np.random.default_rng(7).gamma(2.0, 1.0, 60)
    labels = [Label(name) for name in whole.encoded.names]
    frame = whole.answers
    for one, name in zip(frequencies(whole.encoded, labels, weight), frame, strict=True):
        counted = frame[name].value_counts(sort=False)
        by_weight = pd.Series(weight).groupby(frame[name], observed=False).sum()
        assert [level.name for level in one.levels] == list(counted.index)
        assert [level.people for level in one.levels] == counted.tolist()
        shares = [level.share for level in one.levels]
        assert shares == pytest.approx((by_weight / by_weight.sum()).tolist())
        assert one.n_answered + sum(count for _, count, _ in one.none) == 60


def test_reasons_for_no_answer_are_counted_apart():
    whole = survey(np.array([[0], [-1], [-1], [-1], [2]]))
    why = np.array([[-1], [REASONS.index("refused")], [REASONS.index("don't know")]] * 1)
    why = np.vstack([why, [[REASONS.index("don't know")], [-1]]])
    (one,) = frequencies(whole.encoded, [Label("q0")], None, why)
    assert one.none == [("don't know", 2, 0.4), ("refused", 1, 0.2)]


# Means


def test_means_of_answers_are_those_of_any_package():
    level = answers(gaps=0.2)
    x = np.where(level < 0, np.nan, level + 1.0)
    weight, who = np.random.default_rng(9).gamma(3.0, 1.0, 60), grouping(["a", "b", "c"] * 20)
    found = group_means(x, who, weight)
    known = ~np.isnan(x[::3, 2])
    own, w = x[::3, 2][known], weight[::3][known]
    mean, n = np.average(own, weights=w), known.sum()
    error = np.sqrt(n / (n - 1) * np.sum((w * (own - mean)) ** 2)) / w.sum()
    freedom = w.sum() ** 2 / np.sum(w**2) - 1.0
    assert found.mean[0, 2] == pytest.approx(mean) and found.people[0, 2] == n
    assert found.high[0, 2] == pytest.approx(mean + stats.t.ppf(0.975, freedom) * error)
    plain = group_means(x, who)
    samples = [x[k::3, 2][~np.isnan(x[k::3, 2])] for k in range(3)]
    assert plain.comparisons[2] == pytest.approx(welch(in_groups(samples)))


def test_means_of_a_clustered_sample_have_the_errors_of_its_design():
    rng, school = np.random.default_rng(11), np.repeat(np.arange(12), 5)
    design = orbm.SurveyDesign(rng.gamma(3.0, 1.0, 60), school % 2, school)
    taste = rng.normal(size=(60, 1)) + rng.normal(size=12)[school, None]
    who = grouping(["a", "b", "c"] * 20)
    found = group_means(taste, who, sample=design.sample)
    known = design.mean(taste, who.code).loc[0]
    for own, theirs in (("mean", "estimate"), ("low", "low"), ("high", "high"), ("effect", "deff")):
        assert getattr(found, own)[:, 0].tolist() == pytest.approx(known[theirs].tolist())
    # Two groups: Wald's F is the square of t.
    two = grouping(["a", "b"] * 30)
    (test,) = group_means(taste, two, sample=design.sample).comparisons
    apart = design.difference(taste, two.code).iloc[0]
    assert test.statistic == pytest.approx((apart["estimate"] / apart["se"]) ** 2)
    assert (test.between, test.within) == (1.0, 10.0)
    # People without a group leave, and their schools stay.
    partly = grouping(["a", "b", None] * 20)
    assert group_means(taste, partly, sample=design.sample).low[:, 0].tolist() == pytest.approx(
        design.mean(taste, pd.Series(["a", "b", None] * 20))["low"].tolist()
    )


def test_intervals_of_means_stay_within_the_scale():
    """19 of 20 people give the highest of four answers; plain limits would be 3.85 and 4.05."""
    level = answers(40, gaps=0.0)
    level[::2, 0], level[0, 0] = 3, 2
    level[1::2, 1] = 0  # all of them the same
    bounds = np.array([[1.0], [4.0]]) * np.ones(5)
    found = group_means(level + 1.0, grouping(["a", "b"] * 20), bounds=bounds)
    assert found.mean[0, 0] == pytest.approx(3.95)
    assert 3.6 < found.low[0, 0] < 3.9 and 3.95 < found.high[0, 0] < 4.0
    assert (found.low[1, 1], found.high[1, 1]) == (1.0, 1.0)
    assert np.nanmin(found.low) >= 1.0 and np.nanmax(found.high) <= 4.0


def test_intervals_near_the_end_of_a_scale_hold_the_truth():
    rng, p, n = np.random.default_rng(0), [0.01, 0.02, 0.07, 0.90], 30
    truth = np.dot(p, [1, 2, 3, 4])
    x = rng.choice(4, size=(3_000, n), p=p) + 1.0
    mean, reach = x.mean(axis=1), stats.t.ppf(0.975, n - 1) * x.std(axis=1, ddof=1) / np.sqrt(n)
    low, high = _within(mean, reach, np.array(1.0), np.array(4.0))
    plain = (np.abs(mean - truth) <= reach).mean()
    assert plain < 0.9 < ((low <= truth) & (truth <= high)).mean() < 0.98


def test_levels_count_by_their_codes_where_these_rise():
    whole = survey()
    scale = whole.encoded.scales[0]
    rising = Column("q", "ordinal", levels=(0, 1, 5, 9), names=tuple(scale.names))
    falling = Column("q", "ordinal", levels=(4, 3, 2, 1), names=tuple(scale.names))
    assert level_values(scale, rising).tolist() == [0.0, 1.0, 5.0, 9.0]
    assert level_values(scale, falling).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert level_values(scale, None).tolist() == [1.0, 2.0, 3.0, 4.0]


# Pages


def test_a_group_that_was_never_asked_makes_no_difference():
    """Two unrelated batteries; one country was never asked the second, and differs on nothing."""
    rng = np.random.default_rng(10)
    taste = np.repeat(rng.normal(size=(300, 2)), 4, axis=1)
    level = np.clip(np.digitize(taste + 0.4 * rng.normal(size=(300, 8)), [-1, 0, 1]), 0, 3)
    country = np.array(["north", "south", "east"] * 100)
    level[country == "east", 4:] = -1
    whole = survey(level, pd.DataFrame({"country": country}))
    model = orbm.CumulativeRBM(2, n_epochs=5, random_state=0).fit(whole.encoded)
    read = Page(pages.survey_page(model, whole, group="country"))
    rows = means_of(read, 0)["rows"]
    east = sorted(set(country)).index("east")
    asked = {row["text"]: row["never"] != [east] for row in rows}
    assert asked == {f"q{k}": k < 4 for k in range(8)}
    section = read.text.split("4. How groups differ")[1]
    (told,) = re.findall(r"east was never asked (.*?), and is left out of (.*?)\.", section)
    asked, factor = told
    assert set(re.findall(r"q\d", asked)) <= {"q4", "q5", "q6", "q7"}
    panels = section.split("is left out of")[1].split("Two groups, question by question")[0]
    panels = panels.removeprefix(f" {factor}")
    start = panels.index(factor) + len(factor)
    lines = re.split(r"q\d: ", panels[start:])[0]
    assert "north 100" in lines
    assert "east" not in lines


def test_what_cannot_be_compared_is_told_of_the_group_that_was_asked_for():
    """One taste, and one question that men answer higher whatever their taste."""
    rng = np.random.default_rng(0)
    sex = np.array(["f", "m"] * 200)
    utility = rng.normal(size=(400, 1)) + 0.8 * rng.normal(size=(400, 5))
    utility[sex == "m", 3] += 1.0
    whole = survey(np.digitize(utility, [-1, 0, 1]), pd.DataFrame({"sex": sex}))
    model = orbm.CumulativeRBM(1, n_epochs=3, random_state=0).fit(whole.encoded)
    page = pages.survey_page(model, whole, group="sex")
    section = Page(page).text.split("What cannot be compared: sex")[1]
    assert (
        "5 questions in 2 groups, 5 comparisons: deviations are large (C) in 1, moderate (B) in 0." in section
    )
    (table,) = (one for about, one in page.tables.items() if "invariance" in about)
    ((label, group, uniform, *_, grade),) = table.rows
    assert (label.text, group, grade) == ("q3", "m", "C") and uniform > 0.5
    assert "What cannot be compared" not in pages.survey_page(model, whole)


def test_education_among_the_answers_makes_groups():
    schema = Schema(
        (
            Column("q0", "ordinal", "What is your highest level of education?"),
            *(Column(f"q{k}", "ordinal") for k in range(1, 5)),
        )
    )
    whole = survey(background=background(), schema=schema)
    text = Page(pages.survey_page(fitted(whole), whole, group="q0")).text
    assert "What is your highest level of education? (q0) (4 groups)" in text


def test_one_group_only_is_said_in_a_sentence():
    whole = survey(background=pd.DataFrame({"planet": ["Earth"] * 60}))
    text = Page(pages.survey_page(fitted(whole), whole)).text
    assert "There is no background variable with 2 to 30 groups" in text
    assert "Not compared planet (one group only)." in text
    with pytest.raises(DataError, match=r"'planet' makes no groups to compare \(one group only\)"):
        pages.survey_page(fitted(whole), whole, group="planet")


def test_an_answer_that_is_constant_within_every_group_is_not_tested():
    level = answers(gaps=0.0)
    level[:, 0] = np.arange(60) % 2 * 3
    whole = survey(level, pd.DataFrame({"sex": ["f", "m"] * 30}))
    text = Page(pages.survey_page(fitted(whole), whole)).text
    assert "1 question is not tested" in text
    assert "nobody differs within any group" in text


def test_small_groups_are_shown_and_not_tested():
    people = background()
    people.loc[:2, "country"] = "few"
    whole = survey(background=people)
    text = Page(pages.survey_page(fitted(whole), whole, group="country")).text
    assert "Too small to be tested (fewer than 5 people): few." in text


def test_comparisons_are_ordered_by_what_is_sure():
    tests = [Comparison(1.0, 1.0, 9.0, p, 0.1, low, 0.5) for p, low in ((0.5, 0.0), (0.1, 0.02))]
    assert most_sure([None, *tests], [np.nan, 0.5, 0.1]) == [2, 1, 0]
    # What is significant after Holm's correction comes first, whatever the lower bounds are.
    assert most_sure(tests, [0.01, 0.2]) == [0, 1]
    # Of both, it is the share of everybody's variance that counts.
    assert most_sure(tests[1:] * 2, [0.01, 0.01], [69 / 1_183, 0.9]) == [1, 0]
    # And what is not significant stands in the order of how many people it tells of.
    assert most_sure(tests[::-1], [0.23, 1.0], [69 / 1_183, 0.9]) == [1, 0]


def test_a_variable_known_of_few_people_does_not_come_in_front():
    """Twenty people at both ends of a taste make a large difference, and tell of nobody else."""
    level, taste = one_taste(300)
    order = np.argsort(taste)
    club = pd.Series([None] * 300, dtype=object)
    club[order[:10]], club[order[-10:]] = "chess", "tennis"
    school = np.where(taste + 2.0 * np.random.default_rng(1).normal(size=300) > 0, "high", "low")
    whole = survey(level, pd.DataFrame({"club": club, "school": school}))
    page = pages.survey_page(fitted(whole), whole)
    overview = page.split("they differ most on", 1)[1].split("</table>")[0]
    assert overview.index("school") < overview.index("club")
    assert Page(page).text.count("20 people in 2 groups are compared") == 1


def one_taste(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    taste = rng.normal(size=n)
    utility = 1.5 * taste[:, None] + rng.normal(size=(n, 5))
    return np.clip(np.digitize(utility, [-1, 0, 1]), 0, 3), taste


def test_those_are_counted_who_are_compared():
    """69 people of 300 have a group; 13 of them are in groups that are too small for a test."""
    level, taste = one_taste(300)
    sizes = {"a": 28, "b": 28, "c": 4, "d": 4, "e": 3, "f": 2}
    club = pd.Series([None] * 300, dtype=object)
    club[:69] = np.repeat(list(sizes), list(sizes.values()))
    whole = survey(level, pd.DataFrame({"club": club}))
    text = Page(pages.survey_page(fitted(whole), whole)).text
    assert "56 people in 2 groups are compared." in text and "69 people" not in text
    who = grouping(club)
    without = np.zeros((len(who.groups), 1), dtype=bool)
    assert group_means(taste[:, None], who).people[:2].sum() == 56
    without[0] = True  # never asked what the factor rests on
    found = group_means(taste[:, None], who, without=without)
    assert found.tested[:, 0].tolist() == [False, True] + [False] * 4 and found.comparisons == [None]
