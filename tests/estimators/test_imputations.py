"""Multiple imputation: how much tables differ, in which form they come, and what is left open."""

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.files.survey import read_survey


def independent(n_rows, n_columns, missing, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.choice([1.0, 2.0, 3.0, 4.0], p=[0.2, 0.5, 0.2, 0.1], size=(n_rows, n_columns))
    return np.where(rng.random(X.shape) < missing, np.nan, X)


def between_over_within(tables):
    """How much means differ between imputations, in squared standard errors."""
    means = np.array([table.mean(axis=0) for table in tables])
    within = np.mean([table.var(axis=0, ddof=1) / len(table) for table in tables], axis=0)
    return float(means.var(axis=0, ddof=1).mean() / within.mean())


def test_means_vary_as_much_as_is_not_known():
    """Of columns that tell nothing of each other the truth is known.

    With a share f missing, a mean has a variance larger by f / (1 - f) than without; the draws of
    the gaps alone give f of that, as if the distribution were known.
    """
    missing = 0.5
    X = independent(400, 10, missing)
    settings = {"units_per_factor": 50, "unanswered": "latent", "learning_rate": 0.001}
    model = orbm.CumulativeRBM.binary(2, n_epochs=4, random_state=0, **settings).fit(X)
    fixed = model.impute(X, n_draws=30, parameters="fixed", random_state=0)
    drawn = model.impute(X, n_draws=30, random_state=0)
    # Thirty draws of ten columns: a standard error of 8 %.
    assert between_over_within(fixed) == pytest.approx(missing, rel=0.25)
    assert between_over_within(drawn) == pytest.approx(missing / (1 - missing), rel=0.25)


def test_correlations_are_neither_shrunk_nor_too_sure():
    """Five questions about one trait, a third of the answers missing."""
    rng = np.random.default_rng(1)
    utility = rng.normal(size=(1500, 1)) + 0.8 * rng.normal(size=(1500, 5))
    complete = 1.0 + (utility[:, :, None] > np.array([-1.2, 0.1, 0.9])).sum(axis=2)
    X = np.where(rng.random(complete.shape) < 0.33, np.nan, complete)
    model = orbm.CumulativeRBM(5, random_state=0).fit(X)
    pairs = np.triu_indices(5, 1)
    ways = {
        way: np.arctanh(
            [
                np.corrcoef(table.T)[pairs]
                for table in model.impute(X, n_draws=12, parameters=way, random_state=0)
            ]
        )
        for way in ("drawn", "fixed")
    }
    truth = np.arctanh(np.corrcoef(complete.T)[pairs])
    assert ways["drawn"].mean() == pytest.approx(truth.mean(), rel=0.05)
    assert ways["drawn"].var(axis=0).mean() > 1.15 * ways["fixed"].var(axis=0).mean()


@pytest.fixture(scope="module")
def table():
    X = independent(120, 4, 0.2, seed=3)
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, np.clip(np.nan_to_num(X[:, 0], nan=2.0), 1, 3))
    return X


@pytest.fixture(scope="module")
def model(table):
    return orbm.CumulativeRBM.binary(3, n_epochs=3, random_state=0).fit(table)


def test_the_same_seed_gives_the_same_tables(model, table):
    first, again, other = (model.impute(table, n_draws=2, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (np.array(first) != other).any()
    one_thread = orbm.CumulativeRBM.binary(3, n_epochs=3, random_state=0, n_jobs=1).fit(table)
    np.testing.assert_array_equal(one_thread.impute(table, n_draws=2, random_state=0), first)


def test_a_loaded_model_draws_as_the_saved_one(model, table, tmp_path):
    model.save(tmp_path / "m.orbm")
    again = orbm.load(tmp_path / "m.orbm").impute(table, n_draws=2, random_state=0)
    np.testing.assert_array_equal(again, model.impute(table, n_draws=2, random_state=0))


# Stacked


def test_stacked_frames(model, table):
    X = pd.DataFrame(table, columns=list("abcd"), index=pd.Index(np.arange(120) + 7, name="who"))
    fitted = orbm.CumulativeRBM.binary(3, n_epochs=3, random_state=0).fit(X)
    whole = fitted.impute(X, n_draws=3, random_state=0, stacked=True)
    listed = fitted.impute(X, n_draws=3, random_state=0)
    assert list(whole.columns) == ["Imputation_", "a", "b", "c", "d"]
    parts = [part.drop(columns="Imputation_") for _, part in whole.groupby("Imputation_")]
    pd.testing.assert_frame_equal(parts[0], X)
    for part, alone in zip(parts[1:], listed, strict=True):
        pd.testing.assert_frame_equal(part, alone)


# Never asked


def test_a_group_that_was_never_asked_stays_open(model, table):
    country = np.repeat(["here", "there"], 60)
    X = np.where((country == "there")[:, None] & (np.arange(4) == 2), np.nan, table)
    with pytest.warns(UserWarning, match=r"Never asked: 2 where group is there \(60 people\)"):
        filled = model.impute(X, groups=country)
    assert np.isnan(filled[60:, 2]).all()
    assert not np.isnan(np.delete(filled, 2, axis=1)).any() and not np.isnan(filled[:60]).any()
    np.testing.assert_array_equal(filled[:60], model.impute(X)[:60])
    with pytest.warns(UserWarning, match="Never asked"):
        draws = model.impute(X, groups=country, n_draws=2, random_state=0)
    assert all(np.isnan(drawn[60:, 2]).all() for drawn in draws)


def test_a_survey_file_tells_of_its_groups(table):
    """`read_survey` knows the countries, though no model learns from them."""
    country = np.repeat(["here", "there"], 60)
    X = pd.DataFrame(table, columns=list("abcd")).assign(country=country)
    X.loc[country == "there", "c"] = np.nan
    survey = read_survey(X)
    model = orbm.CumulativeRBM(3, n_epochs=3, random_state=0).fit(survey.table)
    with pytest.warns(UserWarning, match=r"Never asked: 'c' where country is there.*=True fills"):
        filled = model.impute(survey.table).to_frame()
    assert filled["c"][60:].isna().all() and filled.drop(columns="c").notna().all(axis=None)
    assert filled["c"][:60].notna().all()
    some = survey.table.subset(np.arange(119, -1, -1))
    with pytest.warns(UserWarning, match="Never asked"):
        assert model.impute(some).to_frame()["c"][:60].isna().all()
    assert model.impute(some, fill_never_asked=True).to_frame().notna().all(axis=None)


def test_it_is_filled_on_request(model, table):
    X = table.copy()
    X[60:, 2] = np.nan
    groups = np.repeat(["here", "there"], 60)
    assert not np.isnan(model.impute(X, groups=groups, fill_never_asked=True)).any()


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"parameters": "guessed"}, ["'parameters'", "'drawn'", "'guessed'"]),
        ({"stacked": True}, ["stacked", "n_draws"]),
        ({"n_draws": 2, "sample_weight": [1.0]}, ["sample_weight", "120 rows"]),
        ({"groups": ["one"]}, ["'group' have 1 rows", "120"]),
    ],
)
def test_options_that_do_not_go(model, table, arguments, words):
    with pytest.raises(DataError) as refusal:
        model.impute(table, **arguments)
    assert all(word in str(refusal.value) for word in words), refusal.value


def test_too_few_rows_to_draw_parameters(model, table):
    with pytest.raises(DataError, match=r"X has 12 rows with answers.*parameters='fixed'"):
        model.impute(table[:12], n_draws=2)
    assert len(model.impute(table[:12], n_draws=2, parameters="fixed", random_state=0)) == 2


def test_a_question_without_answers_has_no_parameters_to_draw(model, table):
    X = table.copy()
    X[:, 2] = np.nan
    with pytest.raises(DataError, match=r"Column 2 has no answers in X.*parameters='fixed'"):
        model.impute(X, n_draws=2)


def test_the_name_of_the_counter_is_taken(table):
    X = pd.DataFrame(table, columns=["Imputation_", "b", "c", "d"])
    fitted = orbm.CumulativeRBM.binary(2, n_epochs=2, random_state=0).fit(X)
    with pytest.raises(DataError, match=r"'Imputation_' already.*rename"):
        fitted.impute(X, n_draws=2, parameters="fixed", stacked=True)
