"""Asking the next question: what is returned, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.errors import DataError

NAMES = list("abcdefgh")
TWO = {"factors": "all", "n_factors": 2}


@pytest.fixture(scope="module")
def survey():
    """Two tastes, of four questions each; of each the first tells most, and the last nothing."""
    rng = np.random.default_rng(0)
    taste = np.repeat(rng.normal(size=(600, 2)), 4, axis=1)
    utility = taste * np.tile([2.0, 1.2, 0.7, 0.0], 2) + rng.normal(size=taste.shape)
    return pd.DataFrame(1 + np.digitize(utility, [-1.2, -0.4, 0.5, 1.4]), columns=NAMES)


@pytest.fixture(scope="module")
def model(survey):
    return orbm.CumulativeRBM(4, n_epochs=5, response_styles=3, random_state=0).fit(survey)


def test_what_tells_most_is_asked_first(model):
    best = model.ask(k=8, **TWO)
    assert set(best["question"][:2]) == {"a", "e"} and set(best["question"][-2:]) == {"d", "h"}
    assert (np.diff(best["standard_error"]) < 1e-12).all()
    assert best["information"].between(0, 1).all()
    about_others = model.ask(k=8)["question"].tolist()
    assert about_others[0] in "abef" and not {*about_others[:4]} & {"d", "h"}


def test_a_chosen_factor_is_asked_about(model):
    loadings = model.loadings(n_factors=2).abs()
    for factor in loadings:
        first = model.ask(k=3, factors=factor, n_factors=2)
        assert set(first["question"]) == set(loadings[factor].nlargest(3).index)
        assert list(first.attrs["scores"]) == [factor]


def test_scores_and_errors_are_those_of_scores(model, survey):
    some = survey.iloc[[5]].astype(float)
    some[["a", "g"]] = np.nan
    scores, errors = model.scores(some, n_factors=2, return_std=True)
    for row in (some.iloc[0], some.iloc[0].dropna().to_dict()):
        now = model.ask(row, **TWO).attrs
        np.testing.assert_allclose(list(now["scores"].values()), scores.iloc[0], atol=0.01)
        np.testing.assert_allclose(list(now["standard_errors"].values()), errors.iloc[0], rtol=0.01)


def test_errors_fall_as_expected_on_average(model, survey):
    best = model.ask({"b": 3}, among=["a"], factors="Factor 1", n_factors=2)
    chance = model.predict_proba(pd.DataFrame([{"b": 3.0}]).reindex(columns=NAMES))[0][0]
    after = [
        model.ask({"b": 3, "a": level}, factors="Factor 1", n_factors=2).attrs["standard_errors"]["Factor 1"]
        for level in range(1, 6)
    ]
    assert best["standard_error"][0] == pytest.approx(np.sqrt(chance @ np.square(after)), rel=0.05)


def test_it_ends_when_enough_is_known_and_when_all_is_answered(model, survey):
    row = survey.iloc[0].to_dict()
    assert model.ask(row, **TWO).empty and model.ask(row).empty
    errors = model.ask({"a": 1, "b": 1}, **TWO).attrs["standard_errors"]
    low, high = sorted(errors, key=errors.get)
    until = 0.5 * (errors[low] + errors[high])
    left = model.ask({"a": 1, "b": 1}, until=until, **TWO)
    assert (
        left["question"][0]
        in model.ask({"a": 1, "b": 1}, k=2, factors=high, n_factors=2)["question"].tolist()
    )
    assert model.ask({"a": 1, "b": 1}, until=errors[high], **TWO).empty
    assert len(model.ask(among=["c", "d"], k=5, **TWO)) == 2


def test_errors_need_not_fall_below_those_wanted(model):
    row, until = {"b": 2}, 0.6
    now = model.ask(row, **TWO).attrs["standard_errors"]
    worth = dict.fromkeys((name for name in NAMES if name != "b"), 0.0)
    for name in worth:
        for factor, error in now.items():
            after = model.ask(row, among=[name], factors=factor, n_factors=2)["standard_error"][0]
            worth[name] += max(error - max(after, until), 0.0)
    assert min(now.values()) > until
    assert model.ask(row, until=until, **TWO)["question"][0] == max(worth, key=worth.get)


def test_columns_without_names_are_asked_for_by_position(survey):
    model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(survey.to_numpy())
    assert model.ask({0: 5}, k=9)["question"].isin(range(1, 8)).all()


def test_kinds_and_background(survey):
    table = survey.assign(
        income=np.exp(survey["a"] + 0.0), party=survey["e"].map(str) + "!", land=["x", "y"] * 300
    )
    model = orbm.CumulativeRBM(
        3, nominal=["party"], numeric=["income"], background=["land"], n_epochs=3, random_state=0
    ).fit(table)
    best = model.ask({"land": "x"}, k=20, factors="all", n_factors=2)
    assert set(best["question"]) == {*NAMES, "income", "party"}
    assert set(best["question"][:4]) >= {"party"}
    answered = model.ask({"land": "y", "income": 20.0, "party": "3!"}, k=20)
    assert "income" not in set(answered["question"])


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"row": {"z": 1}}, "no column 'z'"),
        ({"row": {"a": 9}}, "'a'.*9"),
        ({"row": [[1] * 8]}, r"table\.iloc\[0\]"),
        ({"among": ["z"]}, "no question 'z'"),
        ({"factors": "Factor 9"}, "no factor 'Factor 9'"),
        ({"until": 0.3}, "factors="),
        ({"k": 0}, "'k'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(model, arguments, said):
    with pytest.raises(DataError, match=said):
        model.ask(**arguments)
