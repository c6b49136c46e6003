"""Surveys coded as SPSS users do, 1 = Yes, 2 = No and 1 = Strongly agree: which end is which.

Wherever a factor is named, people high on it give the answers that the name says, and these are
the affirmative ones.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from program import found, succeed_here

import ordinalrbm as orbm
from ordinalrbm.files.survey import read_survey
from ordinalrbm.schema.known_scales import polarity

YES = {1: "Yes", 2: "No"}
AGREE = {1: "Strongly agree", 2: "Agree", 3: "Neither", 4: "Disagree", 5: "Strongly disagree"}
NEARBY = "In the neighbourhood, within walking distance, there is a "
ABOUT = "Thinking of people around here, how far do you agree: "
# Text, labels, and how strongly the two traits, town and trust, speak for the first answer.
QUESTIONS = {
    "e1": (f"171. {NEARBY}supermarket", YES, 2.0, 0.0),
    "e2": (f"159. {NEARBY}police station", YES, 1.8, 0.0),
    "e3": (f"158. {NEARBY}post office", YES, 1.6, 0.0),
    "e4": ("Household yards contain livestock", YES, -1.5, 0.0),
    "t1": (f"{ABOUT}most people can be trusted", AGREE, 0.0, 1.8),
    "t2": (f"{ABOUT}neighbours help each other", AGREE, 0.0, 1.6),
    "t3": (f"{ABOUT}people keep their promises", AGREE, 0.0, 1.5),
    "t4": (f"{ABOUT}you cannot be too careful", AGREE, 0.0, -1.4),
}
TOWN, TRUST = ["e1", "e2", "e3", "e4"], ["t1", "t2", "t3", "t4"]
# What those in town, and those who trust, answer: the ends with more of yes and agree.
ANSWERS = {
    name: list(labels.values())[0 if of_town + of_trust > 0 else -1]
    for name, (_, labels, of_town, of_trust) in QUESTIONS.items()
}
N = 500


def traits() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(2, N))


def frame() -> pd.DataFrame:
    rng, (town, trust) = np.random.default_rng(6), traits()
    table = pd.DataFrame({"place": np.where(town + rng.normal(size=N) > 0, 1.0, 2.0)})
    for name, (_, labels, of_town, of_trust) in QUESTIONS.items():
        against = -(of_town * town + of_trust * trust) + rng.normal(size=N)
        cuts = np.quantile(against, np.arange(1, len(labels)) / len(labels))
        table[name] = np.digitize(against, cuts) + 1.0
        table.loc[rng.random(N) < 0.05, name] = np.nan
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("poles")
    texts = {"place": "Place of residence"} | {name: one[0] for name, one in QUESTIONS.items()}
    labels = {"place": {1: "Town", 2: "Village"}} | {n: one[1] for n, one in QUESTIONS.items()}
    pyreadstat.write_sav(frame(), where / "s.sav", column_labels=texts, variable_value_labels=labels)
    succeed_here("fit", "s.sav", "-k", 2, "--out", "s.orbm", cwd=where)
    return where


@pytest.fixture(scope="module")
def fitted(folder):
    return orbm.load(folder / "s.orbm"), read_survey(folder / "s.sav")


def check_names(names: list[str]) -> None:
    """Two factors, each named by questions of one trait with the answers at its natural end."""
    about = []
    for name in names:
        told = []
        for part in name.split(" · "):
            text, _, answer = part.rpartition(": ")
            ending = text.lstrip("… ")
            (question,) = [q for q, one in QUESTIONS.items() if ending and one[0].endswith(ending)]
            assert answer == ANSWERS[question], name
            told.append(question[0])
        about.append(set(told))
    assert sorted(map(sorted, about)) == [["e"], ["t"]]


def test_levels_keep_the_order_of_their_codes(fitted):
    _, survey = fitted
    assert survey.schema.column("e1").names == ("Yes", "No")
    assert survey.schema.column("t1").names == tuple(AGREE.values())


@pytest.mark.parametrize("rotation", ["varimax", "oblimin"])
def test_names_and_everything_derived_from_the_sign(fitted, rotation):
    model, survey = fitted
    reading = model.factor_solution(survey.table, rotation=rotation)
    check_names(list(reading.names.values()))
    scores = model.scores(survey.table, rotation=rotation)
    draws = model.scores(survey.table, rotation=rotation, n_draws=1, random_state=0)[0]
    for questions, trait in zip((TOWN, TRUST), traits(), strict=True):
        factor = reading.loadings.loc[questions].abs().sum().idxmax()
        # Codes run from yes to no, so that those who say yes have negative loadings.
        assert (reading.loadings.loc[questions[:3], factor] < -0.3).all()
        assert reading.loadings.loc[questions[3], factor] > 0.3
        # Errors around a loading of the other sign would be as large as the loading.
        assert (reading.standard_errors[factor] < 0.2).all()
        assert np.corrcoef(scores[factor], trait)[0, 1] > 0.7
        assert np.corrcoef(draws[factor], trait)[0, 1] > 0.5
        item = reading.items(factor)[0]
        assert reading.curves(item, factor)[ANSWERS[item]].iloc[-1] > 0.7
    assert abs(reading.correlations.iloc[0, 1]) < 0.25  # the traits have nothing in common


def test_correlations_are_turned_with_the_factors(fitted):
    """Utilities have the same correlations, whichever end of a factor is the positive one."""
    model, _ = fitted
    reading = model.factor_solution(rotation="oblimin")
    pattern, correlation = reading.loadings.to_numpy(), reading.correlations.to_numpy()
    unrotated = model.loadings("none").to_numpy()
    np.testing.assert_allclose(pattern @ correlation @ pattern.T, unrotated @ unrotated.T, atol=1e-6)


def test_the_factors_command(folder):
    about = found("factors", "s.sav", "-k", 2, "--out", "l.csv", cwd=folder)
    check_names(list(about["names"].values()))
    highest = {name: list(one[1].values())[-1] for name, one in QUESTIONS.items()}
    assert {n: line["highest answer"] for n, line in about["loadings"].items()} == highest
    assert pd.read_csv(folder / "l.csv", index_col="name")["highest answer"].to_dict() == highest
    shown = succeed_here("factors", "s.sav", "-k", 2, "--epochs", 1, cwd=folder).stdout
    assert "highest answer" in shown and "… supermarket" in shown
    assert "disagree" in shown  # "Strongly…" alone could be either end
    assert max(map(len, shown.splitlines())) <= 80


def test_labels_of_scores(folder):
    about = found("scores", "s.orbm", "s.sav", "--out", "scores.sav", cwd=folder)
    check_names(list(about["names"].values()))
    labels = pyreadstat.read_sav(folder / "scores.sav")[1].column_names_to_labels
    told = [re.fullmatch(r"Factor \d \((.*)\)", labels[f"factor_{k}"]) for k in (1, 2)]
    check_names([one[1] for one in told])


def test_the_report(folder):
    succeed_here("report", "s.sav", "-k", 2, "--out", "r.html", cwd=folder)
    page = (folder / "r.html").read_text(encoding="utf-8")
    # Both ends in the table of factors, by the answers there.
    ends = re.findall(r'data-head="high end"[^>]*>(.*?)</td>', page)
    assert len(ends) == 2
    for text, answer in re.findall(r"<bdi>“?([^<]*?): ([^<:]*?)”?</bdi>", " ".join(ends)):
        (question,) = [q for q, one in QUESTIONS.items() if one[0].endswith(text.lstrip("… "))]
        assert answer == ANSWERS[question]
    # The map, and the groups: those in town are high on town.
    script = re.search(r'<script type="application/json" id="people">(.*?)</script>', page)[1]
    listed = [v["name"] for v in json.loads(script)["variables"] if v["section"] == "Factors"]
    check_names([re.fullmatch(r"Factor \d \((.*)\)", one)[1] for one in listed])
    (panel,) = re.findall(r"<figcaption><bdi>[^<]*supermarket.*?</figcaption>(.*?)</figure>", page, re.DOTALL)
    town = re.search(r"Town.*?figures\">(.\d.\d\d)", panel, re.DOTALL)[1]
    assert float(town.replace("−", "-")) > 0.2


@pytest.mark.parametrize(
    ("labels", "direction"),
    [
        (["Yes", "No"], -1),
        (list(AGREE.values()), -1),
        (["stimme voll und ganz zu", "teils/teils", "stimme überhaupt nicht zu"], -1),
        (["Pas du tout d'accord", "Plutôt d'accord", "Tout à fait d'accord"], 1),
        (["Muy de acuerdo", "De acuerdo", "En desacuerdo"], -1),
        (["Discordo totalmente", "Discordo", "Concordo"], 1),
        (["Always", "Sometimes", "Never"], -1),
        (["Very satisfied", "Satisfied", "Dissatisfied"], -1),
        (["Male", "Female"], 0),
    ],
)
def test_which_way_labels_run(labels, direction):
    assert polarity(labels) == direction
    assert polarity(labels[::-1]) == -direction


def test_plain_numbers_are_answered_more_and_less():
    rng = np.random.default_rng(0)
    taste = rng.normal(size=300)
    pulls = {"Spain": 2.0, "Portugal": 1.8, "Italy": 1.6, "England": -1.7}
    table = pd.DataFrame(
        {n: np.digitize(p * taste + rng.normal(size=300), [-1, 0, 1]) for n, p in pulls.items()}
    )
    model = orbm.CumulativeRBM(1, n_epochs=3, random_state=0).fit(table)
    name = model.factor_solution().name("Factor 1")
    more, less = re.fullmatch("more: (.*) / less: (.*)", name).groups()
    assert set(more.split(" · ")) <= {"Spain", "Portugal", "Italy"} and less == "England"
    assert "highest answer" not in model.factor_solution().table()
