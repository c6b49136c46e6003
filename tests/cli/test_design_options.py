"""Columns of a file that say how its people were sampled."""

import numpy as np
import pandas as pd
import pytest
from program import found, run_here, succeed_here

import ordinalrbm as orbm

SCHOOLS = np.repeat(np.arange(20), 12)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    factor = 0.7 * rng.normal(size=20)[SCHOOLS] + rng.normal(size=240)
    words = np.array(["never", "seldom", "often", "always"])
    cuts = [-1.0, 0.0, 1.0]
    table = pd.DataFrame({f"q{k}": words[np.digitize(factor + rng.normal(size=240), cuts)] for k in range(4)})
    table["country"] = np.where(SCHOOLS % 2, "north", "south")
    table["school"], table["region"] = SCHOOLS, SCHOOLS % 2
    table["pw"] = rng.gamma(4.0, 0.25, 240).round(4)
    gone = np.where(SCHOOLS[:, None] == np.arange(20), 0.0, 20 / 19)
    replicates = (
        pd.DataFrame(gone, columns=[f"repwt{k}" for k in range(20)]).mul(table["pw"], axis=0).round(6)
    )
    table = pd.concat([table, replicates], axis=1)
    table.to_csv(tmp_path / "plain.csv", index=False)
    alone = table.assign(region=table["region"].where(table.index > 0, 7))
    alone.to_csv(tmp_path / "alone.csv", index=False)
    return tmp_path


WITH = ["--strata", "region", "--cluster", "school", "--weights", "pw"]
FACTORS = ["-k", 1, "--epochs", 2]


def test_loadings_have_the_errors_of_the_design(folder):
    shown = succeed_here("factors", "plain.csv", *FACTORS, *WITH, "--out", "l.csv", cwd=folder)
    assert "Design of 240 people: 20 clusters in 2 strata, 18 degrees of freedom." in shown.stderr
    assert "replicates" not in shown.stdout and "left aside" not in shown.stderr
    written = pd.read_csv(folder / "l.csv", index_col="name")
    assert set(written.index) == {"q0", "q1", "q2", "q3"}
    simple = found("factors", "plain.csv", *FACTORS, "--weights", "pw", cwd=folder)["loadings"]
    for name, line in simple.items():
        assert written.loc[name, "Factor 1"] == pytest.approx(line["Factor 1"])  # learnt with the weights
        assert written.loc[name, "Factor 1 (error)"] != pytest.approx(line["Factor 1 (error)"], rel=1e-3)


def test_weights_that_are_not_used_are_told(folder):
    table = pd.read_csv(folder / "plain.csv")
    table = table.drop(columns=table.filter(like="repwt").columns).rename(columns={"pw": "weight"})
    table.to_csv(folder / "weights.csv", index=False)
    shown = succeed_here("factors", "weights.csv", *FACTORS, cwd=folder)
    assert (
        "the model is fitted without the weights in 'weight'; give --weighted to fit with them"
        in shown.stderr
    )
    shown = succeed_here("factors", "weights.csv", *FACTORS, "--weighted", cwd=folder)
    assert "left aside" not in shown.stderr


def test_invariance_counts_people_by_weights_as_reports_do(folder):
    table = pd.read_csv(folder / "plain.csv")
    table = table.drop(columns=table.filter(like="repwt").columns).rename(columns={"pw": "weight"})
    table.to_csv(folder / "weights.csv", index=False)
    table.drop(columns="weight").to_csv(folder / "equal.csv", index=False)
    arguments = ["--group", "country", *FACTORS]
    said = "People count by the weights in 'weight'."
    shown = [
        succeed_here("invariance", f"{name}.csv", *arguments, cwd=folder) for name in ("weights", "equal")
    ]
    assert said in shown[0].stdout and said not in shown[1].stdout
    means = [
        found("invariance", f"{name}.csv", *arguments, cwd=folder)["means"] for name in ("weights", "equal")
    ]
    assert means[0][-1]["mean"] != pytest.approx(means[1][-1]["mean"], rel=1e-3)


def test_the_report_shows_design_effects(folder):
    options = ["--weights", "pw", "--replicates", "repwt*", "--replicate-type", "JK1", "--epochs", 2]
    succeed_here("report", "plain.csv", "--out", "page.html", *options, cwd=folder)
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert ", deff " in page and "Tests are Wald’s" in page
    succeed_here("report", "plain.csv", "--out", "plain.html", "--epochs", 2, cwd=folder)
    page = (folder / "plain.html").read_text(encoding="utf-8")
    assert ", deff " not in page and "Tests are Welch’s" in page


def test_a_pattern_of_replicates_does_not_mean_the_weights(folder):
    given = {"weights": "pw", "replicates": ["*w*"], "kind": "JK1"}
    assert orbm.read_survey(folder / "plain.csv", design=given).design.sample.replicates.shape == (240, 20)


@pytest.mark.parametrize(
    ("file", "options", "said"),
    [
        ("alone", WITH, "Stratum 7 has a single cluster"),
        (
            "plain",
            ["--replicates", "wtrep*", "--replicate-type", "JK1"],
            "'wtrep*' matches no column of 'plain'",
        ),
        ("plain", ["--strata", "regio"], "did you mean 'region'"),
        ("plain", ["--weights", "pw", "--replicates", "repwt*"], "must be one of JK1, JKn, BRR"),
        ("plain", ["--replicates", "repwt*", "--replicate-scale", "much"], "holds no numbers"),
        ("plain", ["--weights", "q1"], "weights must hold numbers"),
    ],
)
def test_a_wrong_design_stops_before_learning(folder, file, options, said):
    before = set(folder.iterdir())
    done = run_here("factors", f"{file}.csv", *FACTORS, *options, "--out", "l.csv", cwd=folder)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert set(folder.iterdir()) == before
