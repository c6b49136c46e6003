"""Designs of samples, against the R package survey 4.1, closed forms, and samples with a known truth."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.stats.design import SurveyDesign, group_moments
from ordinalrbm.stats.welch import welch

# People in clusters within strata, numbers with gaps, groups that cross clusters.
TABLE = pd.DataFrame(
    {
        "stratum": list("aaaaaaabbbbbbbcccccc"),
        "cluster": [1, 1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 2, 3, 3, 1, 1, 1, 2, 2, 2],
        "weight": [1.5, 2, 1, 3, 2.5, 1, 0.5, 2, 2, 1, 4, 1.5, 2, 3, 1, 1, 2.5, 2, 1.5, 3.5],
        "hours": [4, 5.5, 3, 7, 8.5, 2, 3.5, 9, 7.5, 4, 6, 5, 8, 9.5, 1, 2.5, 2, 4.5, 5, 3],
        "group": list("ffmfmmfmffmfmfmmfmff"),
    }
)  # fmt: skip
OF_PAIRS = ["estimate", "se"]


def designed(**more) -> SurveyDesign:
    return SurveyDesign(TABLE["weight"], TABLE["stratum"], TABLE["cluster"], **more)


def jackknife(stratum: pd.Series) -> tuple[np.ndarray, list[float]]:
    """Weights without one cluster each, and (m - 1) / m of its stratum."""
    columns, scale = [], []
    cluster = TABLE["stratum"] + TABLE["cluster"].astype(str)
    for name in cluster.unique():
        gone = cluster == name
        inside = stratum == stratum[gone].iloc[0]
        m = cluster[inside].nunique()
        columns.append(TABLE["weight"] * np.where(gone, 0.0, np.where(inside, m / (m - 1), 1.0)))
        scale.append((m - 1) / m)
    return np.column_stack(columns), scale


def stratified_jackknife() -> SurveyDesign:
    weights, scale = jackknife(TABLE["stratum"])
    return SurveyDesign(TABLE["weight"], replicates=weights, kind="JKn", scale=scale)


def simple_jackknife() -> SurveyDesign:
    weights, _ = jackknife(pd.Series("all", TABLE.index))
    return SurveyDesign(TABLE["weight"], replicates=weights, kind="JK1")


# svymean, svyby with covmat=TRUE, deff="replace", and svycontrast of survey 4.1.
IN_R = {
    designed: ((5.571428571, 0.595173679, 1.10888, 5), (0.6344644347, 0.7556097706), 0.66686, 0.71915228),
    stratified_jackknife: (
        (5.571428571, 0.615287237, 1.18509, 5),
        (0.6494615409, 0.7893924705),
        0.6799,
        0.75355191,
    ),
    simple_jackknife: (
        (5.571428571, 0.881426644, 2.43202, 7),
        (0.9413225803, 0.9120920824),
        0.6039,
        1.58300852,
    ),
}


@pytest.mark.parametrize("made", IN_R)
def test_means_and_differences_are_those_of_r(made):
    (mean, error, effect, freedom), of_groups, of_difference, of_women = IN_R[made]
    design = made()
    line = design.mean(TABLE["hours"]).loc["hours"]
    assert line[["estimate", "se", "deff", "df"]].tolist() == pytest.approx(
        [mean, error, effect, freedom], 1e-5
    )
    reach = stats.t.ppf(0.975, freedom) * error
    assert (line["low"], line["high"]) == pytest.approx((mean - reach, mean + reach), 1e-6)
    groups = design.mean(TABLE["hours"], TABLE["group"])
    assert groups["estimate"].tolist() == pytest.approx([5.352272727, 5.863636364], 1e-8)
    assert groups["se"].tolist() == pytest.approx(of_groups, 1e-8)
    assert groups["deff"].iloc[0] == pytest.approx(of_women, 1e-6)
    apart = design.difference(TABLE["hours"], TABLE["group"])
    assert apart[OF_PAIRS].iloc[0].tolist() == pytest.approx([0.51136364, of_difference], 1e-4)
    back = design.difference(TABLE["hours"], TABLE["group"], "m")
    assert back["estimate"].tolist() == pytest.approx((-apart["estimate"]).tolist())


def test_shares_are_means_of_indicators():
    shares = designed().mean(TABLE["group"])
    assert shares.index.tolist() == ["group: f", "group: m"]
    assert shares["estimate"].tolist() == pytest.approx([0.571428571, 0.428571429])
    assert shares["se"].tolist() == pytest.approx([0.052047347] * 2)
    gaps = TABLE["group"].where(TABLE["hours"] < 9)
    own = SurveyDesign(TABLE["weight"]).mean(gaps)
    women, weight = (gaps == "f")[gaps.notna()], TABLE["weight"][gaps.notna()]
    assert own["estimate"].iloc[0] == pytest.approx(np.average(women, weights=weight))
    assert own["count"].tolist() == [gaps.notna().sum()] * 2


@pytest.mark.parametrize(
    ("kind", "more", "scale"),
    [
        ("JK1", {}, 9 / 10),
        ("BRR", {}, 1 / 10),
        ("Fay", {"rho": 0.3}, 1 / (10 * 0.49)),
        ("bootstrap", {}, 1 / 9),
        ("SDR", {}, 4 / 10),
        ("other", {"scale": 0.25}, 0.25),
    ],
)
def test_each_kind_of_replicates_has_its_scale(kind, more, scale):
    weight = TABLE["weight"].to_numpy()
    replicates = weight[:, None] * np.random.default_rng(0).gamma(2.0, 0.5, (20, 10))
    found = SurveyDesign(weight, replicates=replicates, kind=kind, **more).mean(TABLE["hours"])
    means = np.array([np.average(TABLE["hours"], weights=one) for one in replicates.T])
    assert found["se"].iloc[0] == pytest.approx(np.sqrt(scale * ((means - means.mean()) ** 2).sum()))
    assert found["df"].iloc[0] == 9


def test_people_drawn_one_by_one_are_known_as_any_package_knows_them():
    design = SurveyDesign(np.full(20, 7.0))
    found = design.mean(TABLE["hours"]).loc["hours"]
    assert found[["se", "df", "deff"]].tolist() == pytest.approx([TABLE["hours"].sem(), 19, 1.0])
    by = TABLE["group"]
    apart = design.difference(TABLE["hours"], by).iloc[0]
    own = [TABLE["hours"][by == g] for g in "fm"]
    known = stats.ttest_ind(*own, equal_var=False)
    # Groups are of random size here: n / (n - 1) is that of everybody, not of each group.
    assert apart["df"] == pytest.approx(known.df, rel=0.02)
    assert apart["p"] == pytest.approx(known.pvalue, rel=0.05)


def test_several_groups_are_tested_as_wald_and_r_have_it():
    code = np.resize([0, 1, 2], 20)
    made = group_moments(TABLE[["hours"]].to_numpy(), code, 3, designed().sample)
    test = welch(made.every.at(slice(3), 0), made.covariance[0, :3, :3], made.every.freedom[-1, 0])
    assert (test.statistic, test.p) == pytest.approx((2.1920892575, 0.2276139886))
    assert (test.between, test.within) == (2, 4)
    assert welch(made.every.at(slice(3), 0), made.covariance[0, :3, :3], 1.0) is None


def test_imputed_tables_are_pooled_by_rubins_rules():
    rng = np.random.default_rng(1)
    tables = [TABLE[["hours"]] + rng.normal(0, 0.5, (20, 1)) for _ in range(5)]
    found = designed().mean(tables, TABLE["group"])
    each = [designed().mean(one, TABLE["group"]) for one in tables]
    known = orbm.pool(
        [one["estimate"] for one in each], [one["se"] for one in each], df_complete=each[0]["df"]
    )
    shared = ["estimate", "se", "low", "high", "df", "fmi"]
    assert np.allclose(found[shared], known[shared])
    assert found.index.tolist() == [("hours", "f"), ("hours", "m")]


def test_a_cluster_without_the_group_counts_as_nobody():
    """As in R, a group's clusters vary with those that have none of it."""
    women = TABLE["hours"].where(TABLE["group"] == "f")
    by = designed().mean(TABLE["hours"], TABLE["group"])["se"].iloc[0]
    assert designed().mean(women)["se"].iloc[0] == pytest.approx(by)
    single = TABLE["group"].where(TABLE.index > 0, "x")
    found = designed().mean(TABLE["hours"], single).loc[("hours", "x")]
    assert found["estimate"] == 4.0 and np.isnan(found["se"]) and np.isnan(found["low"])


def test_intervals_hold_the_truth_in_clustered_samples():
    rng, hits, ignored = np.random.default_rng(2), [], []
    cluster = np.repeat(np.arange(40), 8)
    for _ in range(250):
        y = rng.normal(size=40)[cluster] * 0.6 + rng.normal(size=320)
        weight = rng.gamma(4.0, 0.25, 320)
        for design, into in (
            (SurveyDesign(weight, cluster % 4, cluster), hits),
            (SurveyDesign(weight), ignored),
        ):
            line = design.mean(y).iloc[0]
            into.append(line["low"] <= 0.0 <= line["high"])
    assert 0.92 < np.mean(hits) < 0.98
    assert np.mean(ignored) < 0.85


W, S, C = TABLE["weight"], TABLE["stratum"], TABLE["cluster"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give at least one"),
        ({"weights": W.where(W.index != 3, -1.0)}, r"weights of row 3 .counted from 0. is -1\.0"),
        ({"weights": W.where(W.index != 3)}, "weights of row 3 .counted from 0. is nan"),
        ({"weights": W * 0}, "weights is zero for every row"),
        ({"weights": W, "strata": S.where(S.index > 0, "alone")}, "Stratum 'alone' has a single row"),
        ({"strata": S.where(C > 1, "one") + C.astype(str), "clusters": C}, "has a single cluster"),
        ({"clusters": np.ones(20)}, "The sample has a single cluster"),
        ({"weights": W, "strata": S.where(S.index != 5)}, "strata of row 5 is missing"),
        ({"weights": W, "clusters": C[:9]}, r"clusters has shape \(9,\), but there are 20 rows"),
        ({"weights": W, "replicates": np.ones((19, 4)), "kind": "BRR"}, r"replicates has shape \(19, 4\)"),
        (
            {"weights": W, "replicates": np.full((20, 4), np.nan), "kind": "BRR"},
            "replicates of row 0 .* is nan",
        ),
        ({"weights": W, "replicates": np.ones((20, 4))}, "must be one of JK1, JKn, BRR.* Got None"),
        ({"weights": W, "replicates": np.ones((20, 4)), "kind": "JKn"}, "need a scale"),
        ({"weights": W, "replicates": np.ones((20, 4)), "kind": "BRR", "scale": [1, 2]}, "one for each of 4"),
        ({"weights": W, "replicates": np.ones((20, 4)), "kind": "Fay", "rho": 1.0}, "scale and rho"),
        ({"replicates": np.ones((20, 4)), "kind": "BRR"}, "need the weights"),
        ({"weights": W, "strata": S, "replicates": np.ones((20, 4)), "kind": "BRR"}, "stand for strata"),
        ({"weights": W, "kind": "BRR"}, "are those of replicates"),
    ],
)
def test_a_wrong_design_is_one_sentence(given, said):
    with pytest.raises(DataError, match=said):
        SurveyDesign(**given)


# Loadings


@pytest.fixture(scope="module")
def learnt() -> tuple[orbm.CumulativeRBM, np.ndarray]:
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(300, 1))
    level = np.digitize(factor + rng.normal(size=(300, 5)), [-1.0, 0.0, 1.0])
    return orbm.CumulativeRBM(1, response_styles=1, n_epochs=3, random_state=0).fit(level), level


def test_loadings_of_people_counted_twice_are_not_known_better(learnt):
    model, level = learnt
    twice = np.repeat(level, 2, axis=0)
    design = SurveyDesign(clusters=np.repeat(np.arange(300), 2))
    plain, honest = (model.factor_solution(twice, design=one).standard_errors for one in (None, design))
    # Errors come from draws, which are the same in both.
    assert np.allclose(honest / plain, np.sqrt(2.0), rtol=0.05)


def test_loadings_by_replicates_are_those_by_linearisation(learnt):
    model, level = learnt
    cluster = np.arange(300) // 5
    gone = np.where(cluster[:, None] == np.arange(60), 0.0, 60 / 59)
    linear = SurveyDesign(clusters=cluster)
    jackknife = SurveyDesign(np.ones(300), replicates=gone, kind="JK1")
    errors = [model.factor_solution(level, design=one).standard_errors for one in (linear, jackknife)]
    assert np.allclose(*errors, rtol=1e-5)
    with pytest.raises(DataError, match="The design has 300 rows, but X 10"):
        model.factor_solution(level[:10], design=linear)
    with pytest.raises(DataError, match="A design holds the weights"):
        model.factor_solution(level, design=linear, sample_weight=np.ones(300))
