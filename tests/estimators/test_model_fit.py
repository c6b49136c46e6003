"""Fit of questions by group and predictive checks: near nothing under the model, and what was put in."""

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm import plots
from ordinalrbm.errors import DataError
from ordinalrbm.vector import loadings


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    factors = np.repeat(rng.normal(size=(600, 2)), 6, axis=1)
    level = np.searchsorted([-1.2, -0.3, 0.4, 1.1], 0.8 * factors + 0.6 * rng.normal(size=factors.shape)) + 1
    answers = pd.DataFrame(level, columns=list("abcdefghijkl"))
    return orbm.CumulativeRBM(2, n_epochs=5, response_styles=3, random_state=0).fit(answers)


@pytest.fixture(scope="module")
def answers(model):
    return model.sample(2000, random_state=1)


def test_questions_of_the_model_itself_fit(model, answers):
    found = model.item_fit(answers)
    assert found["rmsd"].max() < 0.02
    assert found["shift"].abs().max() < 0.02
    assert found["n_answers"].tolist() == [2000] * 12


def test_a_question_that_a_group_answers_lower_is_found_with_how_much(model, answers):
    """Of a fifth of one group each answer to c is one level lower, where there is a lower one."""
    group = np.repeat(["x", "y"], 1000).astype(object)
    group[0] = None
    lower = (np.arange(2000) >= 1000) & (answers["c"] > 1)
    shifted = answers.assign(c=answers["c"] - lower)
    found = model.item_fit(shifted, group)
    true_shift = -lower[1000:].mean() / 4
    assert found.loc[("c", "y"), "shift"] == pytest.approx(true_shift, rel=0.2)
    assert found.loc[("c", "y"), "rmsd"] == pytest.approx(-true_shift, rel=0.2)
    others = found.drop(index=[("c", "y")])
    assert others["rmsd"].max() < 0.05
    assert found.loc[("a", "x"), "n_answers"] == 999


def test_draws_of_the_model_are_where_its_answers_are(model, answers):
    check = model.predictive_check(answers[:500], n_draws=40)
    outside = (check["observed"] < check["low"]) | (check["observed"] > check["high"])
    assert outside.mean() < 0.12
    shares = answers[:500].apply(lambda one: one.value_counts(normalize=True)).T.stack()
    np.testing.assert_allclose(check.loc["share"]["observed"], shares, atol=1e-12)
    pairs = np.corrcoef(answers[:500].T)[np.triu_indices(12, 1)]
    np.testing.assert_allclose(check.loc["correlation"]["observed"], pairs, atol=1e-10)
    assert check.loc["total"]["predicted"].sum() == pytest.approx(1.0)


def test_a_pair_that_has_more_in_common_than_the_factors_is_outside(model, answers):
    some = answers[:500]
    same = np.random.default_rng(0).random(500) < 0.4
    check = model.predictive_check(some.assign(h=np.where(same, some["g"], some["h"])), n_draws=40)
    pair = check.loc[("correlation", "g", "h")]
    assert pair["observed"] > pair["high"]
    assert pair["p"] == pytest.approx(2 / 41)
    figure = plots.predictive_check(check)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "observed share of a level",
        "share of people",
        "observed correlation",
    ]
    figure.canvas.draw()


@pytest.mark.parametrize("groups", [[1, 2], [None] * 60])
def test_groups_that_are_none_are_said(model, answers, groups):
    with pytest.raises(DataError, match="group of each of the 60 rows"):
        model.item_fit(answers[:60], groups)


def test_bifactor_and_target_of_a_model(model, answers):
    reading = model.factor_solution(rotation="varimax")
    wanted = pd.DataFrame({"second": 0.0, "first": np.nan}, index=list("abcdef"))
    wanted.loc["a", "first"] = -0.7
    turned = model.factor_solution(answers[:400], rotation="procrustes", target=wanted)
    own = turned.loadings.to_numpy()
    assert abs(own[:6, 0]).max() < 0.1
    assert own[:6, 1].max() < -0.5
    assert 0.0 < turned.standard_errors.to_numpy().max() < 0.1
    np.testing.assert_allclose(turned.communalities, reading.communalities, atol=1e-9)
    scores = model.scores(answers[:50], rotation="procrustes", target=wanted)
    assert np.corrcoef(scores["Factor 2"], answers[:50].loc[:, "a":"f"].sum(axis=1))[0, 1] < -0.9


@pytest.mark.parametrize("rotation", ["target", "procrustes"])
def test_factors_of_which_a_target_says_only_zeros_have_positive_loadings(model, rotation):
    zeros = np.where(np.arange(12)[:, None] // 6 == [0, 1], np.nan, 0.0)
    for target in (zeros, zeros[:, ::-1]):
        own = model.factor_solution(rotation=rotation, target=target).loadings.to_numpy()
        assert (own**3).sum(axis=0).min() > 0.5


def test_omega_hierarchical_is_the_share_of_the_general_factor():
    """Of a sum of utilities with these loadings."""
    pattern = np.array([[0.7, 0.5, 0], [0.6, 0.4, 0], [-0.5, 0, 0.6], [0.6, 0, 0.3]])
    spread, mean = np.ones(4), np.zeros(3)
    found = loadings.Solution(pattern, np.eye(3), spread, mean, np.eye(3), {"rotation": "bifactor"})
    assert [own.tolist() for own in loadings.own_items(found)] == [[0, 1, 3, 2], [0, 1], [2, 3]]
    key = np.array([1, 1, -1, 1])
    covariance = pattern @ pattern.T
    np.fill_diagonal(covariance, 1.0)
    expected = 2.4**2 / (key @ covariance @ key)
    assert loadings.omega(found, np.arange(4), key, alone=0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rotation": "bifactor"}, "at least 3 factors, not 2"),
        ({"design": orbm.SurveyDesign(clusters=[1, 2])}, "of the rows of X"),
        ({"rotation": "target"}, "need a target"),
        ({"target": np.ones((12, 2))}, "no other rotation has one"),
        ({"rotation": "target", "target": np.ones((3, 2))}, "12 rows"),
        ({"rotation": "target", "target": pd.DataFrame({"f": [1.0]}, ["z"])}, "'z', which is no question"),
    ],
)
def test_rotations_that_cannot_be_are_said(model, options, said):
    with pytest.raises(DataError, match=said):
        model.factor_solution(**options)
