"""Tables with scales, categories, numbers and background, from the table to the file and back."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from small_surveys import assert_same_model
from test_bad_input import assert_says, refusal

import ordinalrbm as orbm
from ordinalrbm.data import tables
from ordinalrbm.data.questionnaire import NumberScale, read_questionnaire
from ordinalrbm.data.scales import Scale

KINDS = {"nominal": ["party"], "numeric": ["hours", "income"], "background": ["land", "age"]}
SMALL = {"n_factors": 3, "n_epochs": 4, "batch_size": 50, "random_state": 0}
COLUMNS = ["trust", "party", "hours", "mood", "income", "land", "age"]


def survey(n_rows=300, missing=0.15, seed=0):
    """One trait is behind all answers, and a land moves them."""
    rng = np.random.default_rng(seed)
    trait, land = rng.normal(size=n_rows), rng.integers(0, 3, n_rows)
    noise = rng.normal(size=(5, n_rows))
    moved = np.array([-0.7, 0.0, 0.9])[land]
    odds = np.stack([trait, -trait, 0.3 + 0 * trait]) + rng.gumbel(size=(3, n_rows))
    table = pd.DataFrame(
        {
            "trust": np.digitize(1.3 * trait + noise[0] + moved, [-1.2, 0.1, 0.9]) + 1.0,
            "party": pd.Categorical.from_codes(odds.argmax(axis=0), ["red", "blue", "none"]),
            "hours": pd.array(np.round(38 + 6 * (trait + 0.6 * noise[1])), dtype="Int64"),
            "mood": np.digitize(trait + noise[2] - moved, [-0.8, 0.4]) + 1.0,
            "income": 2500 + 700 * (0.8 * trait + 0.7 * noise[3] + moved),
            "land": np.array(["at", "ch", "de"], dtype=object)[land],
            "age": np.round(45 + 15 * noise[4]),
        }
    )
    gaps = rng.random(table.shape) < missing
    return table.mask(gaps)


@pytest.fixture(scope="module")
def table():
    return survey()


@pytest.fixture(scope="module")
def model(table):
    return orbm.CumulativeRBM.binary(**SMALL, **KINDS, unanswered="latent").fit(table)


def test_each_column_is_read_and_encoded_once(table, monkeypatch):
    calls = Counter()

    def counting(module, name, key):
        whole = getattr(module, name)

        def counted(*given, **named):
            calls[name, key(*given)] += 1
            return whole(*given, **named)

        monkeypatch.setattr(module, name, counted)

    counting(tables, "read_column", lambda values, name: name)
    counting(Scale, "encode", lambda scale, values, name, *rest: name)
    counting(NumberScale, "standardise", lambda scale, values, name: name)
    _, known = read_questionnaire(table, **KINDS)
    for _ in range(2):  # while it is learnt, and in a later table
        assert set(calls.values()) == {1}
        assert {name for what, name in calls if what == "read_column"} == set(COLUMNS)
        assert {name for what, name in calls if what == "encode"} == {"trust", "party", "mood"}
        calls.clear()
        known.encode(tables.as_table(table))


# ---- what is learnt, said and filled -------------------------------------------------------------


def test_distributions_of_every_kind(model, table):
    found = model.predict_proba(table)
    assert [None if part is None else part.shape for part in found] == [
        (300, 4),
        (300, 3),
        (300, 2),
        (300, 3),
        (300, 2),
        None,
        None,
    ]
    for j in (0, 1, 3):
        np.testing.assert_allclose(found[j].sum(axis=1), 1.0, rtol=1e-9)
    for j, name in ((2, "hours"), (4, "income")):
        mean, deviation = found[j].T
        assert (deviation > 0.0).all()
        own = table[name].astype(float)
        assert abs(mean.mean() - own.mean()) < 0.3 * own.std()
        assert deviation.mean() < own.std()


def test_gaps_are_filled_and_answers_stay(model, table):
    filled = model.impute(table)
    assert filled.columns.tolist() == COLUMNS
    pd.testing.assert_series_equal(filled.dtypes, table.dtypes)
    asked = COLUMNS[:5]
    assert filled[asked].notna().all(axis=None)
    for name in asked:
        given = table[name].notna()
        assert (filled[name][given] == table[name][given]).all()
    for name in ("land", "age"):  # background is no question
        pd.testing.assert_series_equal(filled[name], table[name])


def test_draws_fill_numbers_with_their_spread(model, table):
    drawn = model.impute(table, n_draws=8, random_state=1)
    gaps = table["income"].isna()
    values = np.array([each["income"][gaps] for each in drawn])
    point = model.impute(table)["income"][gaps]
    deviation = model.predict_proba(table)[4][gaps.to_numpy(), 1]
    assert 0.7 < (values - point.to_numpy()).std() / np.sqrt((deviation**2).mean()) < 1.4
    assert len({tuple(each["party"].astype(str)) for each in drawn}) > 1


def test_predictions_are_in_the_kind_of_table(model, table):
    median, mean = model.predict(table), model.predict(table, rule="mean")
    assert set(median["party"].cat.categories) == {"red", "blue", "none"}
    pd.testing.assert_series_equal(median["income"], mean["income"])
    assert mean["trust"].between(1, 4).all() and (mean["trust"] % 1 != 0).any()
    pd.testing.assert_series_equal(mean["land"], table["land"])
    assert median["trust"].isin([1, 2, 3, 4]).all()


def test_hidden_answers_are_found_again():
    """Categories and numbers help each other, and land moves what is said."""
    whole = survey(1500, missing=0.0, seed=3)
    rng = np.random.default_rng(0)
    hidden = rng.random(whole.shape) < 0.2
    hidden[:, 5:] = False
    shown = whole.mask(hidden)
    settings = {**SMALL, "n_epochs": 15, "units_per_factor": 20, "unanswered": "latent"}
    model = orbm.CumulativeRBM.binary(**settings, **KINDS).fit(shown)
    filled = model.impute(shown, rule="median")
    miss = (filled["party"] != whole["party"])[hidden[:, 1]].mean()
    assert miss < 0.9 * (whole["party"] != whole["party"].mode()[0]).mean()
    for j, name in ((2, "hours"), (4, "income")):
        error = (filled[name].astype(float) - whole[name].astype(float))[hidden[:, j]]
        assert np.sqrt((error**2).mean()) < 0.8 * whole[name].astype(float).std()
    # What was filled in has the means of each land, of which all answers together tell most.
    true = whole["income"].groupby(whole["land"]).mean()
    found = filled["income"][hidden[:, 4]].groupby(whole["land"]).mean()
    assert 0.8 < np.polyfit(true, found, 1)[0] < 1.1


def test_skewed_numbers_stay_within_those_seen(table):
    """They are learnt by normal scores, so that nobody earns less than nothing."""
    skewed = table.assign(income=np.exp(table["income"].astype(float) / 700.0))
    model = orbm.CumulativeRBM.binary(**SMALL, **KINDS, unanswered="latent").fit(skewed)
    scale = model.questionnaire_.numbers[4]
    assert len(scale.values) > 10
    gaps, own = skewed["income"].isna(), skewed["income"].dropna()
    drawn = pd.concat([each["income"][gaps] for each in model.impute(skewed, n_draws=5)])
    assert drawn.between(own.min(), own.max()).all()
    # Half of the draws are below the median, and means are above it.
    median, mean = (model.predict(skewed, rule=rule)["income"][gaps] for rule in ("median", "mean"))
    assert (mean > median).mean() > 0.9
    assert 0.35 < (drawn.to_numpy() < np.tile(median, 5)).mean() < 0.65
    np.testing.assert_allclose(model.predict_proba(skewed)[4][gaps, 0], mean, rtol=1e-6)
    far = skewed.assign(income=skewed["income"].max() * 3)  # given answers stay
    assert (model.impute(far)["income"] == far["income"]).all()


def test_codes_of_groups_are_categories(table):
    coded = table.assign(land=table["land"].map({"at": 1.0, "ch": 2.0, "de": 3.0}))
    kinds = {**KINDS, "nominal": ["party", "land"]}
    by_codes = orbm.CumulativeRBM.binary(**SMALL, **kinds).fit(coded)
    by_names = orbm.CumulativeRBM.binary(**SMALL, **KINDS).fit(table)
    assert by_codes.questionnaire_.background.names[:4] == ["land=1", "land=2", "land=3", "land is missing"]
    assert_same_model(by_codes, by_names)


def test_scores_and_likelihoods(model, table):
    assert np.isfinite(model.score(table))
    exact = model.log_likelihood(table[:20])
    value, error = model.log_likelihood(
        table[:20], method="ais", n_temperatures=200, return_std=True, random_state=0
    )
    assert (np.abs(value - exact) < 5 * error + 0.05).all()


@pytest.mark.parametrize("inference", ["mean_field", "linear_response", "mcmc"])
@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_every_way_of_inference(table, unanswered, inference):
    options = {**SMALL, "n_epochs": 2, "response_styles": 3, "units_per_factor": 10}
    model = orbm.CumulativeRBM.binary(
        **options, **KINDS, unanswered=unanswered, inference=inference, n_draws=10
    ).fit(table)
    assert np.isfinite(model.score(table))
    assert all(np.isfinite(part).all() for part in model.predict_proba(table)[:5])
    assert np.isfinite(model.transform(table)).all()


# ---- the same bits, files, checkpoints -----------------------------------------------------------


def test_files_keep_everything(model, table, tmp_path):
    path = tmp_path / "mixed.orbm"
    model.save(path)
    loaded = orbm.load(path)
    assert_same_model(loaded, model)
    assert loaded.questionnaire_ == model.questionnaire_
    pd.testing.assert_frame_equal(loaded.impute(table), model.impute(table))
    loaded.save(tmp_path / "again.orbm")
    assert path.read_bytes() == (tmp_path / "again.orbm").read_bytes()
    assert loaded.get_params()["background"] == ["land", "age"]


def test_a_fit_goes_on_from_a_checkpoint(table, tmp_path):
    whole = orbm.CumulativeRBM.binary(**SMALL, **KINDS).fit(table)
    options = {**SMALL, **KINDS}
    orbm.CumulativeRBM.binary(**options).fit(table, checkpoint=tmp_path, every=1)
    resumed = orbm.CumulativeRBM.binary(**options).fit(table, checkpoint=tmp_path)
    assert_same_model(resumed, whole)
    other = table.assign(income=table["income"] * 2 + 1 * (table["mood"] == 1))
    text = refusal(orbm.CumulativeRBM.binary(**options).fit, other, checkpoint=tmp_path)
    assert_says(text, "numbers")


# ---- bad input -----------------------------------------------------------------------------------


def fit_with(table, **kinds):
    return refusal(orbm.CumulativeRBM.binary(**SMALL, **kinds).fit, table)


def test_columns_that_are_not_there(table):
    assert_says(fit_with(table, nominal=["partei"]), "'nominal'", "'partei'", "no such column")
    assert_says(fit_with(table, numeric=[9]), "'numeric'", "9", "no such column")
    assert_says(fit_with(table, background="land"), "'background'", "a list of columns", "'land'")
    assert_says(fit_with(table, nominal=["party", "party"]), "'party'", "twice")


def test_contradictions(table):
    text = fit_with(table, nominal=["party", "income"], numeric=["income"])
    assert_says(text, "'income'", "nominal", "numeric")
    text = fit_with(table[["land", "age"]], background=["land", "age"])
    assert_says(text, "Every column is background")


def test_numbers_that_are_none(table):
    text = fit_with(table.assign(income="much"), **KINDS)
    assert_says(text, "'income'", "row 0", "'much'", "numeric")
    assert_says(fit_with(table.assign(income=3.0), **KINDS), "'income'", "only the value 3")
    assert_says(fit_with(table.assign(income=np.nan), **KINDS), "'income'", "no answer at all")
    infinite = table.assign(income=table["income"].where(table.index != 4, np.inf))
    assert_says(fit_with(infinite, **KINDS), "'income'", "row 4", "infinit")


def test_too_many_categories(table):
    kinds = {**KINDS, "nominal": ["party", "name"]}
    text = fit_with(table.assign(name=[f"n{i}" for i in range(300)]), **kinds)
    assert_says(text, "'name'", "300 categories", "200")


def test_one_group_only(table):
    text = fit_with(table.assign(land="at"), **KINDS)
    assert_says(text, "'land'", "only one value", "leave it out of background")


def test_a_new_category_and_a_far_number(model, table):
    text = refusal(model.impute, table.assign(party="green"))
    assert_says(text, "'party'", "'green'", "not on the scale")
    text = refusal(model.impute, table.assign(income=1e12))
    assert_says(text, "'income'", "row 0", "standard deviations away")
    far = table.assign(land="xx")  # a land that was not there is no mistake
    assert np.isfinite(model.transform(far)).all()


# ---- factors -------------------------------------------------------------------------------------


def in_lands(n_rows, seed, apart=0.8):
    """One trait, of which lands have different means; and the trait, standardised."""
    rng = np.random.default_rng(seed)
    land = rng.integers(0, 3, n_rows)
    trait = apart * (land - 1.0) + rng.normal(size=n_rows)
    pull = [1.2, 0.9, -0.8, 1.0, 0.7]
    table = pd.DataFrame(
        {
            f"q{j}": np.digitize(a * trait + rng.normal(size=n_rows), [-1.0, 0.0, 1.0]) + 1.0
            for j, a in enumerate(pull)
        }
    )
    odds = np.stack([1.2 * trait, -trait, 0.2 + 0 * trait]) + rng.gumbel(size=(3, n_rows))
    table["party"] = np.array(["red", "blue", "none"], dtype=object)[odds.argmax(axis=0)]
    table["income"] = 2000 + 500 * (0.8 * trait + 0.7 * rng.normal(size=n_rows))
    table["land"] = np.array(["at", "ch", "de"], dtype=object)[land]
    return table, (trait - trait.mean()) / trait.std()


def test_scores_recover_the_means_of_groups():
    """Factors are standardised among all people, and a land's mean is on the factor."""
    table, trait = in_lands(1200, seed=4)
    kinds = {"nominal": ["party"], "numeric": ["income"], "background": ["land"]}
    model = orbm.CumulativeRBM(1, n_epochs=6, random_state=0, **kinds).fit(table)
    scores, errors = (part["Factor 1"] for part in model.scores(table, return_std=True))
    sign = np.sign(np.corrcoef(scores, trait)[0, 1])
    means = pd.DataFrame({"true": trait, "found": sign * scores}).groupby(table["land"]).mean()
    assert 0.82 < np.polyfit(means["true"], means["found"], 1)[0] < 1.1
    assert abs(scores.mean()) < 0.05
    (drawn,) = model.scores(table, n_draws=1, random_state=0)
    assert 0.9 < drawn["Factor 1"].var() < 1.1
    covered = np.abs(sign * scores - trait) < 1.645 * errors
    assert 0.85 < covered.mean() < 0.95


def test_loadings_of_all_kinds():
    table, _ = in_lands(800, seed=5, apart=0.0)
    asked = table.drop(columns="land")
    kinds = {"nominal": ["party"], "numeric": ["income"]}
    model = orbm.CumulativeRBM(1, n_epochs=5, random_state=0, **kinds).fit(asked)
    reading = model.factor_solution(asked, questions={"party": "Party", "q0": "Trust"})
    found, errors = reading.loadings["Factor 1"], reading.standard_errors["Factor 1"]
    found = found * np.sign(found["q0"])
    # What the utilities were made of; of a category its log odds against the mean of the others,
    # with the variance of the logistic distribution.
    known = {"q0": 1.2 / np.sqrt(2.44), "q2": -0.8 / np.sqrt(1.64), "income": 0.8 / np.sqrt(1.13)}
    for name, loading in known.items():
        assert abs(found[name] - loading) < 3.5 * errors[name]
    assert found["party: red"] > 0.6 and found["party: blue"] < -0.6
    assert ((errors > 0.01) & (errors < 0.12)).all()
    assert reading.questions["party: red"] == "Party: red"
    assert reading.question("party: red") == "party" and reading.is_number("income")
    # Of the sum of a factor's questions, categories are no part.
    assert reading.reliability.loc["Factor 1", "items"] == 6
    curves = reading.curves("party")
    assert curves.columns.tolist() == ["blue", "none", "red", "information"]
    np.testing.assert_allclose(curves[["blue", "none", "red"]].sum(axis=1), 1.0)
    pd.testing.assert_frame_equal(curves, reading.curves("party: none"))
    high = "red" if reading.loadings.loc["party: red", "Factor 1"] > 0 else "blue"
    assert curves[high].is_monotonic_increasing
    income = reading.curves("income")["median"]
    assert income.between(0, 4000).all() and income.nunique() > 50
    assert "party" in reading.information().columns


def test_information_of_categories_is_that_of_their_curves(model):
    """Fisher's, from the slopes of the curves themselves."""
    curves = model.factor_solution().curves("party", "Factor 1", 601)
    p = curves.drop(columns="information").to_numpy()
    slope = np.gradient(p, curves.index.to_numpy(), axis=0)
    np.testing.assert_allclose((slope**2 / p).sum(axis=1)[2:-2], curves["information"][2:-2], rtol=0.01)


def test_groups_that_were_never_asked_where_there_is_background(model, table):
    """What is no question is neither told nor filled."""
    asked = table.assign(
        mood=table["mood"].mask(table["land"] == "at"), age=table["age"].mask(table["land"] == "ch")
    )
    with pytest.warns(UserWarning, match="Never asked: 'mood' where land is at") as told:
        filled = model.impute(asked, groups=asked["land"])
    assert len(told) == 1 and "age" not in str(told[0].message)
    assert filled["mood"][asked["land"] == "at"].isna().all()
    assert filled["mood"][asked["land"] == "ch"].notna().all()
    # The table itself tells of the groups.
    with pytest.warns(UserWarning, match="Never asked: 'mood' where land is at"):
        pd.testing.assert_frame_equal(model.impute(asked), filled)
    assert model.impute(asked, fill_never_asked=True)["mood"].notna().all()
