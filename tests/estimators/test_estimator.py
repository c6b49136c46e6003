"""CumulativeRBM from the outside: what goes in, what comes out, how learning ends, what is kept."""

import importlib
import itertools
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from small_surveys import N_LEVELS, NAMES, SCALES, assert_same_model, frame, levels, numbers, small

import ordinalrbm as orbm
from ordinalrbm.data.tables import read_table
from ordinalrbm.estimators import survey
from ordinalrbm.runtime.threads import thread_count
from ordinalrbm.vector import likelihood, posterior
from ordinalrbm.vector.chains import start_chains
from ordinalrbm.vector.model import side

# The module; its name is also that of the function in it.
learning = importlib.import_module("ordinalrbm.vector.learner")


@pytest.fixture(scope="module")
def table():
    return numbers(levels())


@pytest.fixture(scope="module")
def model(table):
    return small(n_epochs=10).fit(table)


# What goes in


def test_encoded_columns_must_be_those_of_the_model(model):
    with pytest.raises(orbm.DataError, match="6 features"):
        model.transform(read_table(numbers(levels())[:, :2]))
    named = small(scales=SCALES).fit(frame())
    others = frame().rename(columns={"town": "country"})
    with pytest.raises(orbm.DataError, match="country"):
        named.transform(read_table(others))


def test_the_seed_decides_the_model(model, table):
    assert_same_model(small(n_epochs=10).fit(table), model)
    other = small(n_epochs=10, random_state=1).fit(table)
    assert (other.model_.weights != model.model_.weights).any()
    generator = np.random.RandomState(4)
    first, second = (small(random_state=generator).fit(table), small(random_state=generator).fit(table))
    assert (first.model_.weights != second.model_.weights).any()


def test_the_data_are_not_changed(table):
    before = table.copy()
    X = frame()
    kept = X.copy()
    small().fit(table).impute(table)
    small().fit(X).impute(X)
    np.testing.assert_array_equal(table, before)
    pd.testing.assert_frame_equal(X, kept)


def test_rows_are_shuffled_before_they_become_batches(table, monkeypatch):
    """Files are often sorted, and a batch is a run of neighbouring rows."""
    seen = []
    learn = survey.fit

    def spy(observations, *args):
        seen.append(observations.to_dense())
        return learn(observations, *args)

    monkeypatch.setattr(survey, "fit", spy)
    small().fit(table)
    dense = np.where(np.isnan(table), -1, table - 1).astype(int)
    assert (seen[0] != dense).any()
    assert sorted(map(tuple, seen[0].tolist())) == sorted(map(tuple, dense.tolist()))


# What comes out


def test_scales_of_different_length(model, table):
    distributions = model.predict_proba(table)
    assert [p.shape for p in distributions] == [(150, n) for n in N_LEVELS]
    for p in distributions:
        assert (p > 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert [scale.labels for scale in model.scales_] == [tuple(range(1, n + 1)) for n in N_LEVELS]


@pytest.mark.parametrize("inference", ["mean_field", "mcmc"])
@pytest.mark.parametrize("units", [1, 8])
def test_factors_are_probabilities(table, inference, units):
    model = small(units_per_factor=units, inference=inference, n_draws=30).fit(table)
    factors = model.transform(table)
    assert factors.shape == (150, 3)
    assert factors.dtype == np.float32
    assert factors.min() >= 0
    assert factors.max() <= 1
    assert factors.std(axis=0).min() > 1e-3  # they differ between people
    for p in model.predict_proba(table):
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


def test_points_follow_from_the_distributions(model, table):
    distributions = model.predict_proba(table)
    mode = model.predict(table, rule="mode")
    median = model.predict(table)
    mean = model.predict(table, rule="mean")
    for i, p in enumerate(distributions):
        labels = np.arange(1, N_LEVELS[i] + 1)
        np.testing.assert_array_equal(mode[:, i], labels[p.argmax(axis=1)])
        np.testing.assert_array_equal(median[:, i], labels[(p.cumsum(axis=1) < 0.5).sum(axis=1)])
        np.testing.assert_allclose(mean[:, i], p @ labels)


def test_the_mean_of_text_is_that_of_positions():
    words = ["never", "sometimes", "often"]
    X = pd.DataFrame({name: np.array(words)[levels(missing=0)[:, i]] for i, name in ((1, "a"), (5, "b"))})
    model = small(scales=words).fit(X)
    p = model.predict_proba(X)[0]
    np.testing.assert_allclose(model.predict(X, rule="mean")[:, 0], p @ [1, 2, 3])
    assert set(model.predict(X, rule="mode")["a"]) <= set(words)


def test_reversing_a_scale_reverses_its_distribution():
    """The labels of a scale are only names; its order is what counts."""
    X = frame()
    labels = SCALES["mood"]
    there = small(scales={"mood": labels}).fit(X)
    renamed = X.assign(mood=X["mood"].map(dict(zip(labels, "edcba", strict=True))))
    back = small(scales={"mood": list("edcba")}).fit(renamed)
    assert_same_model(there, back)


def test_a_column_with_one_level(table):
    X = np.column_stack([table, np.full(150, 4.0)])
    X[::3, -1] = np.nan
    model = small().fit(X)
    np.testing.assert_array_equal(model.predict_proba(X)[-1], np.ones((150, 1)))
    np.testing.assert_array_equal(model.model_.weights[-1], 0.0)
    np.testing.assert_array_equal(model.impute(X)[:, -1], 4.0)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.log_likelihood(X)).all()


def test_levels_that_nobody_chose():
    X = frame()
    X.loc[X["mood"] == 3, "mood"] = 2
    model = small(scales={**SCALES, "town": [0, 1, 2, 3, 4]}, n_epochs=8).fit(X)
    mood, town = (model.predict_proba(X)[i] for i in (2, 5))
    assert mood.shape == town.shape == (150, 5)
    assert (mood > 0).all()
    assert (town > 0).all()
    # Nearly as rare as it is in the data.
    assert mood[:, 2].max() < 0.05
    assert town[:, [0, 4]].max() < 0.05
    one = X.iloc[:1].assign(mood=3.0, town=4.0)
    assert np.isfinite(model.score(one))
    assert np.isfinite(model.transform(one)).all()


def test_rows_without_any_answer(table):
    X = table.copy()
    X[[0, 17, 149]] = np.nan
    model = small().fit(X)
    factors = model.transform(X)
    # Nothing is known but how common each factor is.
    np.testing.assert_allclose(factors[17], expit(model.model_.factor_bias), rtol=1e-5)
    np.testing.assert_array_equal(factors[[0, 149]], factors[[17, 17]])
    assert not np.isnan(model.impute(X)).any()
    np.testing.assert_allclose(model.log_likelihood(X)[[0, 17, 149]], 0.0, atol=1e-12)


def by_shares(X, learnt_from=None):
    """Log probability of each row if its answers had nothing in common."""
    rows, source = pd.DataFrame(X), pd.DataFrame(X if learnt_from is None else learnt_from)
    logs = [np.log(rows[i].map(source[i].value_counts(normalize=True))) for i in rows]
    return np.nansum(logs, axis=0)


def test_learning_finds_what_answers_have_in_common():
    X = frame(600, missing=0.05, seed=1)
    model = small(n_epochs=30, n_factors=4, learning_rate=0.03, scales=SCALES).fit(X)
    fresh = frame(300, missing=0.05, seed=2)
    per_answer = by_shares(fresh, X).sum() / fresh.notna().sum().sum()
    # Nats per answer that the other answers tell; about 0.22 here.
    assert model.score(fresh) > per_answer + 0.12
    low, high = fresh.min().to_frame().T, fresh.max().to_frame().T
    for i, name in enumerate(NAMES):
        gap = [row.assign(**{name: np.nan}) for row in (low, high)]
        expected = [model.predict(row, rule="mean")[0, i] for row in gap]
        assert expected[1] > expected[0] + 0.3  # who answers high elsewhere answers high here


def test_score_is_the_mean_over_answers_not_rows(model, table):
    """A row of many answers counts for more; rows are scored by themselves."""
    full, sparse_row = table[:60].copy(), table[60:].copy()
    answers = [np.count_nonzero(~np.isnan(part)) for part in (full, sparse_row)]
    # The folds depend on the place of a row, so parts are scored in their places.
    padded = np.full_like(table, np.nan)
    padded[60:] = sparse_row
    parts = [model.score(full), model.score(padded)]
    assert model.score(table) == pytest.approx(np.average(parts, weights=answers), rel=1e-9)


@pytest.fixture(scope="module")
def papers():
    """Answers, the paper's procedure fitted to them, and its settings."""
    X = frame(400, missing=0.0, seed=3)
    settings = {"n_epochs": 25, "batch_size": 32, "random_state": 0}
    return X, orbm.CumulativeRBM.paper(2, **settings).fit(X), settings


@pytest.mark.parametrize(
    "switch",
    [
        {},
        {"solver": "adam", "learning_rate": 0.03},
        {"centred": True},
        {"init": "polychoric"},
        {"thresholds": "marginal"},
        {"schedule": "cosine"},
        {"weight_decay": 10.0},
        {"free_phase": "persistent", "gibbs_steps": 3},
    ],
    ids=lambda switch: next(iter(switch), "paper"),
)
def test_the_papers_procedure_with_and_without_each_departure(switch, papers):
    X, plain, settings = papers
    learnt = orbm.CumulativeRBM.paper(2, **(settings | switch)).fit(X)
    assert learnt.log_likelihood(X).mean() > by_shares(X).mean() + 0.25
    assert np.array_equal(plain.model_.weights, learnt.model_.weights) == (not switch)


def test_sample_looks_like_the_data():
    X = frame(400, missing=0.0, seed=4)
    model = small(n_epochs=30, learning_rate=0.03, weight_decay=1.0).fit(X)
    drawn = model.sample(2000, n_steps=100, random_state=0)
    assert list(drawn.columns) == NAMES
    for name in NAMES:
        assert set(drawn[name]) <= set(SCALES[name])
        shares = [Z[name].value_counts(normalize=True).reindex(SCALES[name]) for Z in (X, drawn)]
        assert np.abs(shares[0] - shares[1].fillna(0)).max() < 0.12
    between = np.triu_indices(6, 1)
    correlations = [Z.corr().to_numpy()[between] for Z in (X, drawn)]
    assert correlations[1].min() > 0.12  # one trait is behind all questions
    assert np.abs(correlations[0] - correlations[1]).mean() < 0.22
    pd.testing.assert_frame_equal(drawn, model.sample(2000, n_steps=100, random_state=0))
    assert (drawn.iloc[:50] != model.sample(50, random_state=1)).any(axis=None)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_sampled_factors_come_as_an_arviz_object(model, table):
    arviz = pytest.importorskip("arviz")
    found = model.sample_factors(table[:3], n_chains=3, n_draws=400, random_state=1)
    assert dict(found.posterior.sizes) == {"chain": 3, "draw": 400, "row": 3, "factor": 3}
    assert float(arviz.rhat(found)["factors"].max()) < 1.05


# Gaps


@pytest.mark.parametrize("rule", ["mode", "median"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
def test_impute_keeps_answers_and_fills_gaps(model, table, rule, kind):
    X = table if kind == "array" else pd.DataFrame(table, columns=NAMES)
    if kind == "polars":
        X = pytest.importorskip("polars").from_pandas(X)
    filled = small(n_epochs=10).fit(X).impute(X, rule=rule)
    if kind != "array":
        assert type(filled) is type(X)
        assert list(filled.columns) == NAMES
        filled = filled.to_numpy()
    filled = np.asarray(filled, dtype=float)
    answered = ~np.isnan(table)
    np.testing.assert_array_equal(filled[answered], table[answered])
    assert not np.isnan(filled).any()
    predicted = model.predict(table, rule=rule)
    np.testing.assert_array_equal(filled[~answered], predicted[~answered])


def test_draws_for_the_gaps_differ_and_keep_the_answers(model, table):
    draws = model.impute(table, n_draws=4, random_state=0)
    answered = ~np.isnan(table)
    assert len(draws) == 4
    for drawn in draws:
        np.testing.assert_array_equal(drawn[answered], table[answered])
        assert not np.isnan(drawn).any()
    for one, other in itertools.pairwise(draws):
        share = np.mean(one[~answered] != other[~answered])
        assert 0.2 < share < 0.9
    again = model.impute(table, n_draws=4, random_state=0)
    np.testing.assert_array_equal(draws, again)
    other = model.impute(table, n_draws=4, random_state=1)
    assert (np.array(draws) != other).any()


def test_frequencies_of_drawn_gaps_are_the_predicted_probabilities():
    """Rows with the same answers are independent; draws of one row need not be."""
    model = small(n_epochs=15, learning_rate=0.05, inference="mcmc", n_draws=50).fit(numbers(levels(300)))
    n_rows, n_draws = 400, 20
    row = np.array([2.0, np.nan, np.nan, 7.0, np.nan, 1.0])
    X = np.tile(row, (n_rows, 1))
    draws = model.impute(X, n_draws=n_draws, parameters="fixed", random_state=0)
    draws = np.array(draws)
    probabilities = model.predict_proba(X)
    for i in np.flatnonzero(np.isnan(row)):
        for level in range(N_LEVELS[i]):
            drawn = (draws[:, :, i] == level + 1).mean(axis=0)
            predicted = probabilities[i][:, level]
            error = np.hypot(drawn.std(ddof=1), predicted.std(ddof=1)) / np.sqrt(n_rows)
            assert error < 0.01
            assert abs(drawn.mean() - predicted.mean()) <= 4 * error + 1e-9


# Weights


def opposite_groups(size=120):
    """The first half answers 1 nine times in ten and else 3, the second half the other way."""
    generator = np.random.default_rng(0)
    low = np.where(generator.random((size, 5)) < 0.1, 3, 1)
    return np.vstack([low, 4 - low]).astype(float), np.repeat([0, 1], size)


def share_of_low(weights, size=120, **changes):
    """Share of the answer 1 among rows of a model of two groups that weigh so much."""
    X, group = opposite_groups(size)
    settings = {"n_epochs": 30, "learning_rate": 0.05, "n_factors": 2, "scales": [1, 2, 3]}
    model = small(**{**settings, **changes})
    model.fit(X, sample_weight=np.array(weights)[group])
    return np.mean(model.sample(1500, n_steps=50, random_state=0) == 1)


@pytest.mark.parametrize("batch_size", [1, 16])
def test_weights_move_the_model_towards_the_heavy_rows(batch_size):
    settings = {1: {"size": 40, "n_epochs": 8, "learning_rate": 0.1}, 16: {"size": 120}}[batch_size]
    first, second = (
        share_of_low(weights, batch_size=batch_size, validation_fraction=0, **settings)
        for weights in ([1.0, 0.05], [0.05, 1.0])
    )
    assert first > 0.65
    assert second < 0.35


@pytest.mark.parametrize("fraction", [0.0, 0.1])
def test_rows_without_weight_do_not_count(fraction):
    """Neither in what is learnt nor in what decides which epoch is kept."""
    assert share_of_low([1.0, 0.0], validation_fraction=fraction) > 0.8
    assert share_of_low([0.0, 1.0], validation_fraction=fraction) < 0.2


def test_answers_of_rows_without_weight_change_nothing():
    """Bit for bit: the answers are dealt anew among them, each column by itself."""
    X = numbers(levels(200, missing=0.0))
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    weight[50:120] = 0.0
    other = X.copy()
    for column in other.T:
        column[50:120] = np.random.default_rng(1).permutation(column[50:120])
    assert (other != X).any()
    settings = {"validation_fraction": 0, "n_epochs": 8}
    one = small(**settings).fit(X, sample_weight=weight)
    assert_same_model(one, small(**settings).fit(other, sample_weight=weight))
    # With weight, they do count.
    assert (one.model_.weights != small(**settings).fit(other).model_.weights).any()


@pytest.mark.parametrize("constant", [1, 7.5, 1e-3])
def test_equal_weights_are_no_weights(table, constant):
    weighted = small().fit(table, sample_weight=np.full(150, constant))
    assert_same_model(weighted, small().fit(table))


def test_weights_can_be_a_column_of_the_frame(table):
    weight = pd.Series(np.random.default_rng(0).uniform(0, 3, 150), index=np.arange(150)[::-1])
    one = small().fit(table, sample_weight=weight)
    assert_same_model(one, small().fit(table, sample_weight=weight.to_numpy()))


# How learning goes


def test_history(model):
    history = model.history_
    names = ["epoch", "pseudo_likelihood", "validation", "learning_rate", "seconds", "marginal"]
    assert list(history.columns) == names
    np.testing.assert_array_equal(history["epoch"], np.arange(1, 11))
    assert model.n_iter_ == len(history) == 10
    assert (history[["pseudo_likelihood", "validation"]] < 0).all(axis=None)
    assert (np.diff(history["learning_rate"]) <= 0).all()
    assert history["learning_rate"].min() > 0
    assert history["learning_rate"][0] == model.learning_rate
    assert (np.diff(history["seconds"]) >= 0).all()
    # The epoch that predicts best, or the last, in which the rate has fallen.
    assert model.best_epoch_ in (history["validation"].idxmax() + 1, model.n_iter_)


def interrupted_after(n_epochs, monkeypatch):
    """Ctrl-C in the middle of the epoch after so many."""
    epoch = learning._VectorLearner._pass
    done = []

    def stop_later(*args):
        epoch(*args)
        if len(done) == n_epochs:
            raise KeyboardInterrupt
        done.append(1)

    monkeypatch.setattr(learning._VectorLearner, "_pass", stop_later)


def test_ctrl_c_leaves_a_model_that_can_be_used(table, monkeypatch, capsys, tmp_path):
    interrupted_after(3, monkeypatch)
    model = small(n_epochs=50).fit(table)
    assert "stopped after epoch 3" in capsys.readouterr().err
    assert model.n_iter_ == len(model.history_) == 3
    assert 1 <= model.best_epoch_ <= 3
    assert model.transform(table).shape == (150, 3)
    assert not np.isnan(model.impute(table)).any()
    model.save(tmp_path / "stopped.orbm")
    assert_same_model(orbm.load(tmp_path / "stopped.orbm"), model)


def learn_noise(**changes):
    """Answers with nothing in common: what is learnt after a while is noise."""
    X = np.random.default_rng(0).integers(1, 6, (80, 8)).astype(float)
    settings = {"n_epochs": 100, "learning_rate": 0.1, "weight_decay": 0.0, "n_factors": 8}
    return small(**{**settings, "validation_fraction": 0.2, **changes}).fit(X)


def test_patience_ends_learning():
    short, long = learn_noise(patience=3), learn_noise(patience=1000)
    assert short.n_iter_ < long.n_iter_ == 100
    assert short.n_iter_ >= short.history_["validation"].idxmax() + 1 + 3
    # Until patience is at its end, both are the same.
    same = short.history_["learning_rate"] == 0.1
    assert same.sum() >= 4
    pd.testing.assert_series_equal(
        short.history_["validation"][same], long.history_["validation"][: len(same)][same]
    )


def test_the_model_of_the_best_epoch_is_kept(monkeypatch):
    epoch, models = learning._VectorLearner._pass, []

    def spy(learner, *args):
        epoch(learner, *args)
        models.append(learner.model.copy())

    monkeypatch.setattr(learning._VectorLearner, "_pass", spy)
    kept = learn_noise(n_epochs=20, patience=1000)
    assert len(models) == kept.n_iter_ == 20
    assert kept.best_epoch_ in (kept.history_["validation"].idxmax() + 1, 20)
    for one, other in zip(kept.model_[:-1], models[kept.best_epoch_ - 1][:-1], strict=True):
        np.testing.assert_array_equal(one, other)
    assert (models[kept.best_epoch_ - 1].weights != models[kept.best_epoch_ - 2].weights).any()


@pytest.mark.parametrize("fraction", [0.0, 0.1])
def test_learning_that_diverges_goes_on_with_smaller_steps(table, fraction):
    """A rate far too large gives a warning with advice and a model of use, never NaN."""
    with pytest.warns(ConvergenceWarning, match="set learning_rate to 1 or less") as told:
        model = small(learning_rate=1e6, validation_fraction=fraction).fit(table)
    assert len(told) == 1
    assert all(np.isfinite(part).all() for part in model.model_[:-1])
    assert model.best_epoch_ >= 1
    assert model.n_iter_ == 4
    assert model.history_["learning_rate"].max() == pytest.approx(1.0)
    assert model.score(table) > -2.0  # a guess has -1.3, what has exploded -17


def test_learning_that_cannot_be_saved_is_refused(table):
    with pytest.raises(ValueError, match=r"diverged with learning_rate=1e\+30 .* much lower"):
        small(learning_rate=1e30).fit(table)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_persistent_chains(missing):
    X = numbers(levels(300, missing=missing, seed=6))
    model = small(free_phase="persistent", n_chains=20, n_epochs=25, learning_rate=0.03, n_factors=2).fit(X)
    other = small(n_epochs=25, learning_rate=0.03, n_factors=2).fit(X)
    assert (model.model_.weights != other.model_.weights).any()
    likelihoods = [each.log_likelihood(X).mean() for each in (model, other)]
    assert likelihoods[0] > by_shares(X).mean() + 0.25
    assert abs(likelihoods[0] - likelihoods[1]) < 0.3


@pytest.mark.parametrize(("missing", "n_free"), [(0.0, 20), (0.2, 150)])
def test_number_of_persistent_chains(missing, n_free):
    X = numbers(levels(missing=missing))
    model = small().fit(X)
    this = side(model.model_, model._read(X))
    chains = start_chains(model.model_, this, "persistent", 20, seed=0)
    assert chains.free.shape == (n_free, 3)
    assert (chains.free_side is None) == (missing > 0)
    assert not chains.contrastive


def test_complete_rows_share_their_persistent_chains(monkeypatch):
    seen = []

    def spy(*args):
        seen.append(start_chains(*args))
        return seen[-1]

    monkeypatch.setattr(learning, "start_chains", spy)
    X = numbers(levels(missing=0.0))
    small(free_phase="persistent", n_chains=20, validation_fraction=0).fit(X)
    assert seen[-1].free.shape == (20, 3)


def test_latent_answers_are_another_model():
    X = numbers(levels(300, missing=0.4, seed=7))
    absent, latent = (
        small(n_epochs=25, learning_rate=0.03, n_factors=2, unanswered=meaning).fit(X)
        for meaning in ("absent", "latent")
    )
    assert (absent.model_.weights != latent.model_.weights).any()
    # It is what it says: the likelihood of the answers with all else summed over.
    this = side(latent.model_, latent._read(X), "latent")
    np.testing.assert_allclose(
        latent.log_likelihood(X), likelihood.exact(latent.model_, this).value, rtol=1e-12
    )
    as_absent = clone(latent).set_params(unanswered="absent")
    as_absent.__dict__.update({k: v for k, v in vars(latent).items() if k.endswith("_")})
    assert np.abs(as_absent.log_likelihood(X) - latent.log_likelihood(X)).max() > 1e-3
    assert latent.log_likelihood(X).mean() > by_shares(X).mean() + 0.1
    complete = numbers(levels(50, missing=0.0, seed=8))
    np.testing.assert_array_equal(latent.transform(complete), as_absent.transform(complete))


def answers_with_styles(n_rows=600, n_columns=12, seed=4):
    """Five levels; half of the people go to the ends, the others keep to the middle."""
    generator = np.random.default_rng(seed)
    trait = generator.normal(size=(n_rows, 1)) * generator.choice([-1, 1], n_columns)
    stretch = generator.choice([0.5, 1.7], n_rows)
    bounds = np.array([-1.3, -0.4, 0.5, 1.2])
    utility = (trait + 0.7 * generator.normal(size=(n_rows, n_columns))) / stretch[:, None]
    return 1.0 + np.searchsorted(bounds, utility), stretch


def test_response_styles_are_found_and_predict_better():
    X, stretch = answers_with_styles()
    settings = {"n_factors": 4, "n_epochs": 30, "units_per_factor": 50}
    styled = small(response_styles=7, **settings).fit(X)
    plain = small(**settings).fit(X)
    assert styled.score(X) > plain.score(X) + 0.05
    style = styled.response_style(X)
    assert np.corrcoef(style, np.log(stretch))[0, 1] > 0.8
    assert (plain.response_style(X) == 0).all()
    weights = styled.model_.style_weights
    assert weights.sum() == pytest.approx(1.0)
    assert weights.max() < 0.9  # not all in one
    # What the model makes up has the same two kinds of people.
    made_up = styled.sample(600, random_state=1)
    extreme = np.mean((made_up == 1) | (made_up == 5), axis=1)
    assert extreme.std() == pytest.approx(np.mean((X == 1) | (X == 5), axis=1).std(), rel=0.25)


def test_rows_that_mean_field_cannot_settle_are_reported(model, table, monkeypatch):
    monkeypatch.setattr(posterior, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match=r"of 150 rows.*inference='mcmc'"):
        model.transform(table)


# The same bits on any number of threads

FIT_AND_HASH = """
import hashlib, importlib, sys
import numpy as np
from ordinalrbm.runtime import blocks
from ordinalrbm.runtime.threads import thread_count
blocks._WORTH_A_THREAD = 1e-12  # threads take blocks of a few rows, too
sys.path.insert(0, sys.argv[1])
from small_surveys import levels, numbers, small
learning = importlib.import_module("ordinalrbm.vector.learner")
threads, epoch = set(), learning._VectorLearner._pass
def spy(*args):
    threads.add(thread_count())
    epoch(*args)
learning._VectorLearner._pass = spy
X = numbers(levels())
for n_jobs in (1, 2, 4):
    threads.clear()
    digest = hashlib.sha256()
    for settings in ({}, {"inference": "mcmc", "n_draws": 5, "free_phase": "persistent"},
                     {"response_styles": 5, "units_per_factor": 200}):
        model = small(n_jobs=n_jobs, **settings).fit(X, sample_weight=np.linspace(0, 2, 150))
        for part in (*map(np.asarray, model.model_), model.transform(X), *model.predict_proba(X),
                     model.response_style(X),
                     model.log_likelihood(X[:5], "ais", n_temperatures=20, random_state=0),
                     model.sample(20, n_steps=10, random_state=0),
                     *model.impute(X, n_draws=2, random_state=0)):
            digest.update(np.ascontiguousarray(part).tobytes())
    print(n_jobs, sorted(threads), digest.hexdigest())
"""


def test_threads_do_not_change_a_bit():
    run = subprocess.run(
        [sys.executable, "-c", FIT_AND_HASH, os.path.dirname(__file__)],
        env={**os.environ, "NUMBA_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rsplit(" ", 1) for line in run.stdout.splitlines()]
    assert [threads for threads, _ in lines] == ["1 [1]", "2 [2]", "4 [4]"]
    assert len({digest for _, digest in lines}) == 1


def test_n_jobs_is_only_for_the_call(table):
    before = thread_count()
    model = small(n_jobs=1 if before > 1 else 2).fit(table)
    assert thread_count() == before
    with pytest.raises(orbm.DataError):
        model.transform(table[:, :2])
    assert thread_count() == before


# Files


def text_frame():
    words = np.array(["nie", "manchmal", "öfter", "ständig — immer"], dtype=object)
    dense = levels(n_levels=(4, 4, 2))
    return pd.DataFrame(
        {
            name: [None if level < 0 else words[level] for level in dense[:, i]]
            for i, name in enumerate(["rauchen", "λάθος", "a b,c"])
        }
    ), list(words)


def cases():
    text, words = text_frame()
    stars = numbers(levels()) / 2
    truth = pd.DataFrame({"a": [True, False] * 40, "b": [False, True, True, True] * 20})
    categories = pd.DataFrame(
        {
            name: pd.Categorical.from_codes(levels()[:, i], ["x", "y", "z"], ordered=True)
            for i, name in ((1, "one"), (5, "two"))
        }
    )
    return {
        "integers": (numbers(levels(missing=0)).astype(int), {}),
        "half stars": (stars, {}),
        "tenths": (np.round(numbers(levels()) / 10, 1), {}),
        "text": (text, {"scales": words}),
        "booleans": (truth, {}),
        "categories": (categories, {}),
        "frame": (
            frame(),
            {"scales": SCALES, "units_per_factor": 3, "unanswered": "latent", "response_styles": 4},
        ),
        "draws": (frame(), {"inference": "mcmc", "n_draws": 7}),
        "NumPy parameters": (
            frame(),
            {"inference": "mcmc", "n_draws": np.int64(7), "random_state": np.int64(5)},
        ),
    }


CASES = cases()


@pytest.mark.parametrize("case", CASES)
def test_what_is_saved_is_what_is_loaded(case, tmp_path):
    X, settings = CASES[case]
    model = small(**settings).fit(X)
    path = tmp_path / "model.orbm"
    model.save(path)
    again = orbm.load(path)
    assert type(again) is orbm.CumulativeRBM
    assert_same_model(again, model)
    assert [s.labels for s in again.scales_] == [s.labels for s in model.scales_]
    assert [type(s.labels[0]) for s in again.scales_] == [type(s.labels[0]) for s in model.scales_]
    pd.testing.assert_frame_equal(again.history_, model.history_.drop(columns="seconds"))
    assert again.n_iter_ == model.n_iter_
    assert again.n_features_in_ == model.n_features_in_
    assert hasattr(again, "feature_names_in_") == hasattr(model, "feature_names_in_")
    kept = {name: value for name, value in model.get_params().items() if name != "scales"}
    assert {name: again.get_params()[name] for name in kept} == kept
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    for one, other in zip(again.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, other)
    pd.testing.assert_frame_equal(pd.DataFrame(again.impute(X)), pd.DataFrame(model.impute(X)))
    assert again.score(X) == model.score(X)
    np.testing.assert_array_equal(again.log_likelihood(X), model.log_likelihood(X))
    again.save(tmp_path / "again.orbm")
    assert (tmp_path / "again.orbm").read_bytes() == path.read_bytes()


def test_loading_needs_no_training_data(table, tmp_path):
    """Another process, that knows only the file and one new row."""
    path = tmp_path / "model.orbm"
    model = small(n_epochs=2).fit(table)
    model.save(path)
    script = (
        "import sys, ordinalrbm as orbm\n"
        "model = orbm.load(sys.argv[1])\n"
        "print(model.transform([[1, None, 5, 7, 2, 1]]).tobytes().hex())"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    expected = model.transform([[1, None, 5, 7, 2, 1]]).tobytes().hex()
    assert run.stdout.strip() == expected
    # No trace of the table: the file grows with the model, not with the data.
    large = small(n_epochs=2).fit(np.vstack([table] * 10))
    large.save(tmp_path / "large.orbm")
    assert abs((tmp_path / "large.orbm").stat().st_size - path.stat().st_size) < 200


def test_a_model_file_holds_numbers_and_json_and_no_pickle(model, tmp_path, monkeypatch):
    path = tmp_path / "model.orbm"
    model.save(path)
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    about = json.loads(header.pop("__metadata__")["ordinalrbm"])
    assert about["format"] == "ordinalrbm"
    # Every byte behind the header belongs to an array of numbers.
    size = {"F32": 4, "F64": 8, "I32": 4, "I64": 8}
    covered = 0
    for array in header.values():
        first, last = array["data_offsets"]
        assert last - first == size[array["dtype"]] * int(np.prod(array["shape"]))
        covered += last - first
    assert covered == len(content) - end
    # What pickle says depends on the first byte, which is of the length of the header.
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        pickle.loads(content)

    def never(*args, **options):
        raise AssertionError("a pickle was read")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    assert_same_model(orbm.load(path), model)


def test_a_loaded_model_can_learn_again(tmp_path):
    """With the scales it was given: text has no order of its own."""
    X, words = text_frame()
    small(scales=words).fit(X).save(tmp_path / "m")
    again = orbm.load(tmp_path / "m")
    assert_same_model(clone(again).fit(X), again)


def test_samples_of_text_that_looks_like_numbers_can_be_read_again():
    levels = pd.CategoricalDtype(["1", "2", "10"], ordered=True)
    answers = pd.DataFrame({"a": ["1", "2", "10"] * 20, "b": ["10", "2", "1"] * 20}).astype(levels)
    model = orbm.CumulativeRBM.binary(2, n_epochs=2, random_state=0).fit(answers)
    made_up = model.sample(5, random_state=0)
    assert made_up["a"].dtype == levels
    assert model.transform(made_up).shape == (5, 2)


# Levels of a battery that nobody gave in one question


@pytest.fixture(scope="module")
def battery():
    """Four questions on 1 to 5; to the last one, asked of everybody, nobody said 5."""
    X = pd.DataFrame(numbers(levels(200, (5, 5, 5, 5), missing=0.0)), columns=list("abcd"))
    X["d"] = X["d"].clip(upper=4)
    return X, small().fit(X)


def test_a_level_that_only_the_battery_has_counts_as_the_nearest(battery):
    X, model = battery
    assert [scale.n_levels for scale in model.scales_] == [5, 5, 5, 4]
    beyond = X.head(20).copy()
    beyond.loc[beyond.index[:3], "d"] = 5
    told = r"Column 'd': the value 5 \(answers: 3\) did not occur .* counts as 4; fit with scales="
    for ask in (model.score, model.transform, model.log_likelihood):
        expected = ask(beyond.replace({"d": {5: 4}}))
        with pytest.warns(UserWarning, match=told):
            np.testing.assert_array_equal(ask(beyond), expected)


def test_what_is_filled_must_be_on_the_scale(battery):
    """Given answers come back as they are, so that none may count as another."""
    X, model = battery
    beyond = X.head(20).assign(d=5.0)
    with pytest.raises(orbm.DataError, match=r"Column 'd', row 0 .*: the value 5 is not on the scale"):
        model.impute(beyond)
