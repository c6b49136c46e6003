"""Polychoric correlations and their factor analysis, against R's psych 2.2.9 and lavaan 0.6-14."""

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.stats import efa
from ordinalrbm.stats.rotation import rotate

PLACE = np.arange(8)
BLOCK = PLACE < 3
CORRELATION = 0.55 - 0.04 * abs(PLACE[:, None] - PLACE) + 0.15 * (BLOCK[:, None] == BLOCK)
np.fill_diagonal(CORRELATION, 1.0)


def some_answers(n_rows=800, n_factors=2, n_questions=3, loading=0.8):
    """So many questions on each of some uncorrelated factors, five levels, some unanswered."""
    rng = np.random.default_rng(0)
    factors = np.repeat(rng.normal(size=(n_rows, n_factors)), n_questions, axis=1)
    utility = loading * factors + np.sqrt(1 - loading**2) * rng.normal(size=factors.shape)
    level = np.searchsorted([-1.0, -0.3, 0.4, 1.1], utility.ravel()).reshape(utility.shape) + 1.0
    level[rng.random(level.shape) < 0.1] = np.nan
    return pd.DataFrame(level, columns=list("abcdefghijklmnopqrstuvwx"[: level.shape[1]]))


def test_minres_and_its_fit_are_those_of_psych():
    loadings = efa.minres(CORRELATION, 2)
    fit = efa.fit_indices(CORRELATION, efa.implied(loadings), 300, 13, n_factors=2)
    assert efa.degrees_of_freedom(8, 2) == 13
    found = [fit.chi2, fit.rmsr, fit.rmsea, fit.tli]
    np.testing.assert_allclose(found, [10.7091, 0.013942, 0.0, 1.003923], atol=2e-3)
    turned = rotate(loadings, "oblimin", kaiser=False)
    expected = [0.84436, 0.81616, 0.80941, 0.72847, 0.62498, 0.10482, -0.00533, -0.04108]
    np.testing.assert_allclose(turned.pattern[[6, 7, 5, 4, 3, 2, 1, 0], 0], expected, atol=1e-3)
    np.testing.assert_allclose(turned.correlation[0, 1], 0.56355, atol=1e-3)


def test_indices_by_least_squares_are_those_of_lavaan():
    model = efa.implied(efa.minres(CORRELATION, 1))
    fit = efa.fit_indices(CORRELATION, model, 300, 20, discrepancy="uls")
    found = [fit.chi2, fit.cfi, fit.tli, fit.rmsea, fit.srmr]
    np.testing.assert_allclose(found, [109.379535, 0.959426, 0.943196, 0.122256, 0.100805], rtol=5e-3)


def test_average_partials_are_those_of_psych():
    expected = [0.07926247, 0.05119601, 0.08979930, 0.15780395]
    np.testing.assert_allclose(efa.average_partials(CORRELATION, 4)[1:], expected, rtol=1e-6)


def test_correlations_of_utilities_are_found_with_their_errors():
    found = orbm.polychoric(some_answers())
    truth = np.kron(np.eye(2), np.full((3, 3), 0.64))
    np.fill_diagonal(truth, 1.0)
    pairs = np.triu_indices(6, 1)
    away = (found.correlations.to_numpy() - truth)[pairs] / found.standard_errors.to_numpy()[pairs]
    assert abs(away).max() < 3.5
    assert 0.4 < np.square(away).mean() < 2.0
    assert found.n_common.loc["a", "b"] < found.n_rows == 800


def test_how_many_factors_and_which():
    found = orbm.polychoric(some_answers())
    number = found.n_factors(n_sets=5)
    assert (number.attrs["parallel"], number.attrs["map"]) == (2, 2)
    reading = found.factor_analysis(2, rotation="varimax")
    own = reading.loadings.abs().to_numpy().argmax(axis=1)
    assert own[:3].tolist() == [own[0]] * 3
    assert own[3:].tolist() == [1 - own[0]] * 3
    assert reading.fit["cfi"] > 0.98
    assert reading.fit["df"] == 4
    assert "residual" in repr(reading)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: orbm.polychoric(pd.DataFrame({"a": [1, 2, 3]})), "at least two questions"),
        (lambda: orbm.polychoric(some_answers(50)).factor_analysis(4), "take fewer"),
        (lambda: orbm.polychoric(some_answers(50)).factor_analysis(0), "n_factors"),
        (lambda: orbm.polychoric(some_answers(50)).n_factors(n_sets=1), "n_sets"),
    ],
)
def test_what_is_asked_wrongly_is_said(given, said):
    with pytest.raises(DataError, match=said):
        given()


def test_residual_correlations_show_what_factors_do_not_explain():
    """Two questions that ask the same have the largest one."""
    answers = some_answers(n_factors=1, n_questions=8)
    same = np.random.default_rng(1).random(len(answers)) < 0.5
    answers["h"] = np.where(same, answers["g"], answers["h"])
    model = orbm.CumulativeRBM(1, n_epochs=3, random_state=0).fit(answers)
    found = model.residual_correlations(answers)
    assert found.attrs["largest"].loc[0, ["first", "second"]].tolist() == ["g", "h"]
    expected = np.sqrt(np.square(found.to_numpy()[np.triu_indices(8, 1)]).sum() / 36)
    assert found.attrs["srmr"] == pytest.approx(expected)


def test_person_fit_is_standard_normal_under_the_model_and_low_at_random():
    answers = some_answers(600, n_questions=12, loading=0.6)
    model = orbm.CumulativeRBM(4, n_epochs=5, random_state=0).fit(answers)
    fit = model.person_fit(model.sample(300, random_state=0))["fit"]
    assert abs(fit.mean()) < 0.2
    assert 0.7 < fit.std() < 1.2
    levels = np.random.default_rng(0).integers(1, 6, (300, 24))
    at_random = pd.DataFrame(levels, columns=answers.columns)
    assert model.person_fit(at_random)["fit"].mean() < -1.0
    empty = at_random.iloc[:2].astype(float)
    empty.iloc[0] = np.nan
    empty.iloc[1] = 3.0
    found = model.person_fit(empty)
    assert np.isnan(found["fit"].iloc[0])
    assert found["longest_run"].tolist() == [0, 24]
    assert found["n_answers"].tolist() == [0, 24]


def test_weights_count_rows():
    """As often as they weigh, in whatever order; those of weight zero are not there."""
    rng, factor = np.random.default_rng(3), np.random.default_rng(4).normal(size=300)
    answers = pd.DataFrame(
        {f"q{i}": np.digitize(0.8 * factor + rng.normal(size=300), [-1, 0, 1]) for i in range(4)}
    ).astype(float)
    answers[rng.random(answers.shape) < 0.1] = np.nan
    weight = rng.integers(0, 4, 300)
    found = orbm.polychoric(answers, sample_weight=weight)
    repeated = orbm.polychoric(answers.loc[answers.index.repeat(weight)])
    np.testing.assert_allclose(found.correlations, repeated.correlations, atol=2e-3)
    order = rng.permutation(300)
    shuffled = orbm.polychoric(answers.iloc[order], sample_weight=weight[order])
    np.testing.assert_allclose(shuffled.correlations, found.correlations, atol=1e-6)
    assert found.n_rows == round(weight.sum() ** 2 / np.square(weight).sum()) < 300
    kept, half = weight > 0, (np.arange(300) < 150).astype(float)
    assert (found.n_common.to_numpy() == orbm.polychoric(answers[kept]).n_common.to_numpy()).all()
    part, alone = orbm.polychoric(answers, sample_weight=half), orbm.polychoric(answers[:150])
    for one, other in ((part.standard_errors, alone.standard_errors), (part.n_common, alone.n_common)):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    fits = [each.factor_analysis(1).fit["chi2"] for each in (part, alone)]
    assert fits[0] == pytest.approx(fits[1], rel=1e-3)
