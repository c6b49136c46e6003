"""Files with right checksums and wrong contents: refused in one sentence, or all answers right.

A few dozens of each kind; `make test-long` tries 5,000.
"""

from concurrent.futures.process import BrokenProcessPool
from functools import partial

import numpy as np
import pytest
from contents import cases, outcome, some_cases
from long_form import LONG
from questions import faults
from stored_models import MAKERS, MORE_MAKERS, file_of, rewritten
from test_spoilt_files import assert_is_a_sentence

import ordinalrbm as orbm

every_kind = pytest.mark.parametrize("kind", [*MAKERS, *MORE_MAKERS])


@every_kind
def test_files_are_refused_or_say_what_can_be(kind, another_process, tmp_path):
    chosen = cases(kind, 5000) if LONG else some_cases(kind, 18)
    ask = partial(outcome, all_questions=not LONG)
    futures = [another_process.submit(ask, file_of(kind), case, tmp_path) for case in chosen]
    n_refused = 0
    for case, future in zip(chosen, futures, strict=True):
        try:
            found = future.result(timeout=600)
        except BrokenProcessPool:
            pytest.fail(f"{case} ended the process")
        assert not found.faults, case
        if found.refusal is not None:
            n_refused += 1
            assert_is_a_sentence(found.refusal, tmp_path / "contents.orbm")
    assert 0 < n_refused < len(chosen)


@every_kind
def test_nothing_is_wrong_with_what_was_learnt(kind):
    assert faults(orbm.load(file_of(kind))) == []


def test_wrong_answers_are_seen():
    """Of a model that was spoilt after it had been loaded."""
    ratings = orbm.load(file_of("point"))
    ratings.models_[0].columns.mean[0] = np.nan
    said = faults(ratings)
    assert any("predict_proba: not finite" in one for one in said)
    assert any("mean: not on the scale" in one for one in said)
    survey = orbm.load(file_of("vector"))
    survey.model_.weights[0] = np.nan
    # Nothing is drawn: the sampler relies on readers that let no NaN pass.
    assert any("predict_proba" in one for one in faults(survey, turn=1))


# ---- priors that nothing was learnt with --------------------------------------------------------

PRIORS = {
    "ordinal_mf": (
        "0.row_prior.precision",
        "0.row_prior.cutpoints_precision",
        "0.column_prior.precision",
        "0.column_prior.cutpoints_precision",
    ),
    "matrix_crbm": tuple(
        f"0.by_rows.cold_start.{name}"
        for name in ("weights_precision", "bias_precision", "cutpoints_precision", "cutpoints")
    ),
    "sampled": ("draws.rows.precision", "draws.rows.width_precision", "draws.columns.mean"),
    "gaussian_mf": ("0.row_prior.precision", "0.values"),
}


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e30, 1e-8, 0.0, -1.0])
@pytest.mark.parametrize("kind", PRIORS)
def test_stored_priors_of_any_size(kind, value, tmp_path):
    for name in PRIORS[kind]:
        path = tmp_path / "prior.orbm"

        def change(arrays, header, name=name):
            arrays[name] = np.full_like(arrays[name], value)

        rewritten(file_of(kind), path, change)
        assert_refused_or_right(path)


def assert_refused_or_right(path):
    try:
        model = orbm.load(path)
    except orbm.DataError as error:
        assert_is_a_sentence(str(error), path)
    else:
        assert faults(model) == []


# ---- what long runs have found ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "array", "place", "value"),
    [
        ("ordinal_mf", "0.columns.cutpoints", (1, 2), -14.0),  # a level of nearly no width
        ("ordinal_mf", "0.columns.cutpoints", (1, 2), -800.0),
        ("ordinal_mf", "0.row_prior.precision", 2, 1e30),
        ("gaussian_mf", "0.row_prior.precision", slice(None), 3e38),
        ("featured", "0.column_prior.precision", slice(None), 1e30),
        ("mixed", "cutpoints", slice(None), -10_000.0),  # the scale of numbers
        ("sampled_featured", "user_features.value", 0, 1e30),
        ("sampled_featured", "user_features.value", slice(None), 1e6),
    ],
)
def test_found_before(kind, array, place, value, tmp_path):
    path = tmp_path / "found.orbm"

    def change(arrays, header):
        arrays[array][place] = value

    rewritten(file_of(kind), path, change)
    assert_refused_or_right(path)


@pytest.mark.parametrize("kind", ["sampled", "gaussian_mf", "matrix_crbm"])
def test_unknown_items_on_another_scale(kind, tmp_path):
    path = tmp_path / "scales.orbm"
    rewritten(file_of(kind), path, lambda arrays, header: header.update(default_scale=[1, 3, 4]))
    with pytest.raises(orbm.DataError, match="on one scale") as caught:
        orbm.load(path)
    assert_is_a_sentence(str(caught.value), path)
