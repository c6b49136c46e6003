"""Bad input: each ends in one sentence that names the place and the remedy, and harms nothing."""

import os
import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from small_surveys import NAMES, assert_same_model, frame, levels, numbers, small

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.storage import model_file


def refusal(call, *args, **options):
    """The one sentence with which a call is refused."""
    with pytest.raises(DataError) as caught:
        call(*args, **options)
    assert isinstance(caught.value, ValueError)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith((".", "?"))
    # scikit-learn's form of a refused parameter: "... must be ... . Got ... instead."
    sentence = re.sub(r" \(.*\)", "", text).replace(". Got ", ", got ")
    assert not re.search(r"[.!?] +[A-Z]", sentence), f"more than one sentence: {text}"
    return text


def assert_says(text, *parts):
    for part in parts:
        assert part in text, f"{part!r} is not in {text!r}"


@pytest.fixture(scope="module")
def answers():
    return frame()


@pytest.fixture(scope="module")
def model(answers):
    return small().fit(answers)


METHODS = ["transform", "predict", "predict_proba", "impute", "score", "log_likelihood"]


# Answers that are none


@pytest.mark.parametrize("method", METHODS)
def test_a_level_off_the_scale(model, answers, method):
    strange = answers.copy()
    strange.loc[7, "mood"] = 9
    text = refusal(getattr(model, method), strange)
    assert_says(text, "'mood'", "row 7", "9", "[1, 2, 3, 4, 5]", "scales={'mood': [...]}")


# Tables that are none


@pytest.mark.parametrize("method", METHODS)
def test_another_number_of_columns(method):
    model = small().fit(numbers(levels()))
    text = refusal(getattr(model, method), numbers(levels())[:, :4])
    assert_says(text, "4 features", "6 features", "give the columns it was fitted on")


@pytest.mark.parametrize("method", METHODS)
def test_other_column_names(model, answers, method):
    """scikit-learn's own words, which its checks ask for."""
    with pytest.raises(ValueError, match=r"feature names should match(.|\n)*- mode(.|\n)*- mood"):
        getattr(model, method)(answers.rename(columns={"mood": "mode"}))


def test_columns_in_another_order(model, answers):
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.transform(answers[NAMES[::-1]])


def test_a_column_too_many(model, answers):
    with pytest.raises(ValueError, match=r"unseen at fit time(.|\n)*- extra"):
        model.transform(answers.assign(extra=1))


# Weights


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({5: -1.0}, ["row 5", "-1", "weight 0"]),
        ({6: np.nan}, ["row 6", "nan", "leave the row out"]),
        ({8: np.inf}, ["row 8", "inf"]),
    ],
)
def test_weights_that_are_no_weights(answers, change, parts):
    weight = np.ones(len(answers))
    for row, value in change.items():
        weight[row] = value
    assert_says(refusal(small().fit, answers, sample_weight=weight), "sample_weight", *parts)


@pytest.mark.parametrize("weight", [np.ones(149), np.ones(151), np.ones((150, 2)), 1.0, []])
def test_weights_of_another_length(answers, weight):
    text = refusal(small().fit, answers, sample_weight=weight)
    assert_says(text, "sample_weight", "150 rows", "one number per row")


def test_weights_that_are_all_zero(answers):
    text = refusal(small().fit, answers, sample_weight=np.zeros(len(answers)))
    assert_says(text, "sample_weight", "every row", "at least one row")


def test_huge_weights_are_weights_like_any_other(answers):
    one, huge = (small().fit(answers, sample_weight=np.full(len(answers), w)) for w in (1.0, 1e308))
    np.testing.assert_array_equal(one.model_.weights, huge.model_.weights)


# Parameters

WHOLE = {
    "n_factors": [0, -1, 2.5, "ten", True, np.nan],
    "units_per_factor": [0, 10_001, 1.5, "one"],
    "response_styles": [0, 101, 2.5, None],
    "n_epochs": [0, -3, 1.5, None],
    "batch_size": [0, -1, 10.0, "all"],
    "gibbs_steps": [0, 2**16 + 1, 0.5],
    "n_chains": [0, -1, 1.5],
    "patience": [0, -1, 1.5, None],
    "n_draws": [0, -1, 1.5],
}
OTHERS = {
    "learning_rate": [0, -0.1, np.nan, np.inf, "fast", None, True],
    "weight_decay": [-1, np.nan, np.inf, "strong", None],
    "background_decay": [-1, np.nan, np.inf, "strong", None],
    "nominal": ["mood", 3, {"mood": 1}, ["moood"], [9], [True]],
    "numeric": ["mood", 3, ["moood"], [-1]],
    "background": ["mood", 3, ["moood"], [1.5]],
    "validation_fraction": [-0.1, 0.5, 1, np.nan, "some", None],
    "unanswered": ["skipped", None, 0],
    "free_phase": ["none", None, 1],
    "inference": ["exact", None, True],
    "solver": ["adagrad", None, 1],
    "centred": ["yes", None, 1],
    "init": ["zeros", None, 0],
    "biases": ["random", None, 0],
    "thresholds": ["equal", None],
    "schedule": ["linear", None],
    "n_jobs": [0, -2, 1.5, "all"],
    "random_state": ["lucky", -1, 1.5],
}
BAD_PARAMETERS = [(name, value) for table in (WHOLE, OTHERS) for name in table for value in table[name]]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=lambda part: repr(part)[:20])
def test_bad_parameters(answers, name, value):
    estimator = small(**{name: value})  # the constructor takes everything, as scikit-learn has it
    text = refusal(estimator.fit, answers)
    assert_says(text, f"'{name}'", repr(value[0] if isinstance(value, list) else value))
    assert not hasattr(estimator, "model_")


def test_every_parameter_is_among_them():
    unchecked = {"verbose"}  # whatever is true shows the bar
    scales = {"scales"}  # below
    tried = set(WHOLE) | set(OTHERS) | unchecked | scales
    assert tried == set(small().get_params())


def test_a_failed_fit_leaves_the_old_model(answers):
    model, same = small().fit(answers), small().fit(answers)
    refusal(model.fit, answers.assign(mood=np.inf))
    assert_same_model(model, same)


def test_settings_that_turn_bad_after_learning(answers):
    model = small().fit(answers)
    for bad in ({"inference": "exact"}, {"unanswered": "skipped"}, {"n_draws": 0}, {"n_jobs": 0}):
        name, value = next(iter(bad.items()))
        before = model.get_params()[name]
        text = refusal(model.set_params(**bad).transform, answers)
        assert_says(text, f"'{name}'", repr(value))
        model.set_params(**{name: before})


# What methods are told


def test_unknown_words(model, answers):
    assert_says(refusal(model.predict, answers, rule="modus"), "'rule'", "'median'", "'modus'")
    assert_says(refusal(model.impute, answers, rule="mean"), "'rule'", "'mode'", "'mean'")
    assert_says(refusal(model.log_likelihood, answers, method="magic"), "'method'", "'ais'", "'magic'")


def test_exact_likelihood_with_too_many_factors(answers):
    text = refusal(small(n_factors=17, n_epochs=1).fit(answers).log_likelihood, answers)
    assert_says(text, "17 factors", "method='ais'", "n_factors <= 16")
    many_units = small(n_factors=3, units_per_factor=64, n_epochs=1).fit(answers)
    assert_says(refusal(many_units.log_likelihood, answers), "64 unit", "method='ais'")


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        (lambda m, X: m.impute(X, n_draws=0), "n_draws", 0),
        (lambda m, X: m.impute(X, n_draws="five"), "n_draws", "five"),
        (lambda m, X: m.sample(-1), "n", -1),
        (lambda m, X: m.sample(0), "n", 0),
        (lambda m, X: m.sample(2.5), "n", 2.5),
        (lambda m, X: m.sample(2, n_steps=-1), "n_steps", -1),
        (lambda m, X: m.log_likelihood(X, "ais", n_chains=0), "n_chains", 0),
        (lambda m, X: m.log_likelihood(X, "ais", n_chains=1), "n_chains", 1),
        (lambda m, X: m.log_likelihood(X, "ais", n_temperatures=0), "n_temperatures", 0),
        (lambda m, X: m.sample_factors(X, n_chains=0), "n_chains", 0),
        (lambda m, X: m.sample_factors(X, n_draws=0), "n_draws", 0),
    ],
)
def test_bad_numbers_of_draws(model, answers, call, name, value):
    text = refusal(call, model, answers)
    assert_says(text, f"'{name}'", repr(value))


@pytest.mark.parametrize("method", [*METHODS, "sample_factors"])
def test_an_unfitted_model(answers, method):
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'") as caught:
        getattr(small(), method)(answers)
    assert isinstance(caught.value, ValueError)


def test_an_unfitted_model_cannot_be_saved_or_sampled(tmp_path):
    for call in (lambda: small().save(tmp_path / "model"), lambda: small().sample(3)):
        with pytest.raises(NotFittedError):
            call()
    assert list(tmp_path.iterdir()) == []


# Files


@pytest.fixture
def file(model, tmp_path):
    path = tmp_path / "survey.orbm"
    model.save(path)
    return path


def with_header(path, change):
    """The same file with another description, arrays untouched."""
    arrays, about = model_file.read(path)
    change(about)
    model_file.write(path, arrays, about)


@pytest.mark.parametrize("part", ["parameters", "scales", "units", "columns", "best_epoch"])
def test_a_model_that_lacks_a_part(file, part):
    with_header(file, lambda about: about.pop(part))
    assert_says(refusal(orbm.load, file), "survey.orbm", part, "fit again")


def test_a_model_with_an_unknown_parameter(file):
    with_header(file, lambda about: about["parameters"].update(colour="red"))
    assert_says(refusal(orbm.load, file), "survey.orbm", "colour")


# Saving where nothing can be saved


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fills_up_leaves_the_old_file(model, file, monkeypatch, step):
    before = file.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises((DataError, OSError), match="No space left"):
        small(n_factors=7).fit(frame()).save(file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]
