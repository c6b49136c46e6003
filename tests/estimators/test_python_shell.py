"""What is around the models in Python: reading, summaries, parameters by their usual names, reports."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from small_surveys import NAMES, frame, small

import ordinalrbm as orbm
from ordinalrbm import DataError

WORDS = ["never", "sometimes", "often", "always"]
HOSTILE = "<script>alert('x')</script>"


def survey_file(folder, n_rows=60):
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(n_rows, 1))
    levels = np.digitize(trait + 0.6 * rng.normal(size=(n_rows, 3)), [-0.8, 0.0, 0.8])
    table = pd.DataFrame(np.array(WORDS)[levels], columns=["tea", "milk", "cake"])
    table = table.where(rng.random(table.shape) > 0.1)
    table.assign(sex=rng.choice(["f", "m"], n_rows)).to_csv(folder / "kitchen.csv", index=False)
    return folder / "kitchen.csv"


# ---- the package itself -------------------------------------------------------------------------


def test_dir_shows_public_names_only():
    assert set(dir(orbm)) == {*orbm.__all__, "__version__"}
    assert all(hasattr(orbm, name) for name in dir(orbm))


# ---- surveys ------------------------------------------------------------------------------------


def test_a_survey_is_learnt_from_and_filled_as_it_is(tmp_path):
    survey = orbm.read_survey(survey_file(tmp_path))
    assert "60 rows, 3 ordinal questions" in repr(survey) and "never ... always" in repr(survey)
    model = orbm.CumulativeRBM(1, n_epochs=2, random_state=0).fit(survey)
    assert model.feature_names_in_.tolist() == ["tea", "milk", "cake"]
    assert model.about_["data"] == "kitchen" and not model.about_["weighted"]
    filled = model.impute(survey, fill_never_asked=True)
    given = survey.answers
    assert filled.notna().all(axis=None) and filled.index.equals(given.index)
    assert (
        (filled[given.notna()].astype(object) == given.astype(object))
        .where(given.notna(), True)
        .all(axis=None)
    )
    pd.testing.assert_frame_equal(model.predict(survey), model.predict(survey.answers))


def test_background_of_a_survey_is_taken_from_parameters_or_from_the_survey(tmp_path):
    survey = orbm.read_survey(survey_file(tmp_path))
    by_name = orbm.CumulativeRBM(1, background=["sex"], n_epochs=2, random_state=0).fit(survey)
    chosen = survey.choosing(background=["sex"])
    by_survey = orbm.CumulativeRBM(1, n_epochs=2, random_state=0).fit(chosen)
    for model in (by_name, by_survey):
        assert model.questionnaire_.kinds == ("ordinal", "ordinal", "ordinal", "background")
    np.testing.assert_array_equal(by_name.transform(survey), by_survey.transform(chosen))


@pytest.mark.parametrize(
    "model", [orbm.CumulativeRBM(), orbm.OrdinalImputer()], ids=lambda m: type(m).__name__
)
def test_a_path_is_answered_with_how_to_read_it(model):
    with pytest.raises(DataError, match=r"got 'survey.sav'; .*read_survey\('survey.sav'\)"):
        model.fit("survey.sav")


def test_a_path_to_a_model_of_ratings_is_answered_with_how_to_read_it():
    with pytest.raises(DataError, match="read_rating_file"):
        orbm.OrdinalMF().fit("ratings.csv")


# ---- columns that are not there -----------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return small(unanswered="latent").fit(frame())


def test_columns_that_a_frame_lacks_are_unanswered(fitted):
    X = frame(seed=3)
    given = X[["trust", "mood"]]
    emptied = X.assign(**{name: np.nan for name in NAMES if name not in given})
    np.testing.assert_array_equal(fitted.transform(given), fitted.transform(emptied))
    assert fitted.score(given) == fitted.score(emptied)
    pd.testing.assert_frame_equal(fitted.predict(given), fitted.predict(emptied))
    for one, other in zip(fitted.predict_proba(given), fitted.predict_proba(emptied), strict=True):
        np.testing.assert_array_equal(one, other)
    pd.testing.assert_frame_equal(fitted.impute(given), fitted.impute(emptied)[["trust", "mood"]])
    several = fitted.impute(given, n_draws=2, parameters="fixed", stacked=True, random_state=0)
    assert list(several) == ["Imputation_", "trust", "mood"]


def test_background_that_a_frame_lacks_is_missing_and_told():
    X = frame().assign(sex=np.tile(["f", "m"], 75), age=np.arange(150.0))
    model = small(background=["sex", "age"]).fit(X)
    without = X.assign(sex=pd.Series([None] * 150, dtype=object), age=np.nan)
    with pytest.warns(UserWarning, match="lacks the background column 'sex'.*add it"):
        found = model.transform(frame())
    np.testing.assert_array_equal(found, model.transform(without))


# ---- parameters by their usual names --------------------------------------------------------------


@pytest.mark.parametrize("units", [1, 4])
def test_components_and_thresholds_make_the_predictions(units, tmp_path):
    X = frame()
    small(units_per_factor=units).fit(X).save(tmp_path / "model.orbm")
    model = orbm.load(tmp_path / "model.orbm")
    utility = model.transform(X) @ model.components_ + model.intercept_visible_
    assert model.components_.shape == (3, 6) and model.intercept_hidden_.shape == (3,)
    for j, (name, found) in enumerate(zip(NAMES, model.predict_proba(X), strict=True)):
        bounds = np.concatenate([[-np.inf], model.thresholds_[name], [np.inf]])
        expected = np.diff(norm.cdf(bounds - utility[:, j : j + 1]), axis=1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


# ---- how results look -------------------------------------------------------------------------------


def test_the_summary_of_a_survey_compares_with_frequencies(fitted, tmp_path):
    summary = fitted.summary()
    X = frame()
    counts = [X[name].value_counts() for name in NAMES]
    by_hand = sum((n * np.log(n / n.sum())).sum() for n in counts) / X.notna().sum().sum()
    assert summary.marginal == pytest.approx(by_hand, abs=0.01)  # which knows no pseudo-counts
    assert summary.validation == fitted.history_["validation"][fitted.best_epoch_ - 1]
    assert "6 questions and 150 rows" in summary.lines[0]
    fitted.save(tmp_path / "model.orbm")
    assert repr(orbm.load(tmp_path / "model.orbm").summary()) == repr(summary)


def test_results_are_readable_and_escaped(fitted):
    X = frame().rename(columns={"mood": HOSTILE})
    reading = small().fit(X).factor_solution(rotation="oblimin", questions={HOSTILE: HOSTILE})
    assert "Loadings of 6 questions on 3 factors (oblimin)" in repr(reading)
    assert "VectorModel" not in repr(reading)
    users, items = np.divmod(np.arange(60), 6)
    items = np.array([HOSTILE, "b", "c", "d", "e", "f"])[items]
    ratings = pd.DataFrame({"user": users, "item": items, "rating": 1 + np.arange(60) % 3})
    model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings[6:])
    scores = orbm.evaluate.score_model(model, ratings[:6], k=3)
    assert "6 test ratings" in repr(scores) and "biases" in repr(scores)
    survey = orbm.read_survey(pd.DataFrame({HOSTILE: ["no", "yes"] * 9, "b": [1, 2, 3] * 6}))
    for result in (reading, scores, model.explain(3, "b"), survey):
        page = result._repr_html_()
        assert "<table" in page and "<script>" not in page
