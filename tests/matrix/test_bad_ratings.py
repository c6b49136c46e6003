"""What is refused, and how: one sentence with the place and the remedy."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from small_matrices import MODELS, every_model, learnt, on_any_scales, simulated

from ordinalrbm import DataError


@pytest.fixture(params=MODELS)
def model(request):
    return learnt(request.param)


FRAME = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1, 2, 3]})


BAD_SETTINGS = [
    ("n_user_factors", 0),
    ("n_item_factors", -1),
    ("n_item_factors", 2.5),
    ("n_factors", 0),
    ("n_factors", 2.5),
    ("n_epochs", 0),
    ("batch_size", True),
    ("batch_size", 0),
    ("learning_rate", 0),
    ("gibbs_steps", "many"),
    ("free_phase", "none"),
    ("solver", "adam"),
    ("priors", None),
    ("thresholds", "odd"),
    ("schedule", 1),
    ("centred", "yes"),
    ("memory", 1.0),
    ("memory", -0.1),
    ("weight_decay", -1),
    ("weight_decay", np.nan),
    ("posterior", "both"),
    ("bias_precision", 0),
    ("factor_precision", -1.0),
    ("gap_precision", np.nan),
    ("patience", 0),
    ("patience", True),
    ("validation_fraction", 0.5),
    ("random_state", "x"),
    ("n_jobs", 0),
    ("device", "tpu"),
]


@every_model
def test_bad_settings(make):
    own = [(name, value) for name, value in BAD_SETTINGS if name in make().get_params()]
    assert len(own) > 6
    for name, value in own:
        with pytest.raises(DataError, match=f"The '{name}' parameter must be"):
            make().set_params(**{name: value}).fit(FRAME)


@every_model
def test_nothing_works_before_fit(make, tmp_path):
    new = make()
    for call in (
        lambda: new.predict(1, 1),
        lambda: new.predict_proba(1, 1),
        lambda: new.recommend(1),
        lambda: new.fold_in(FRAME),
        lambda: new.explain(1, 1),
        lambda: new.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_bad_questions(model):
    for call, message in (
        (lambda: model.predict(["u1", "u2"], ["i1"]), "2 users and 1 items"),
        (lambda: model.predict("u1", "i1", rule="best"), "'rule'"),
        (lambda: model.predict([1], ["i1"]), "users known here are text"),
        (lambda: model.predict([None], ["i1"]), "the user is missing"),
        (lambda: model.recommend("u1", n=0), "'n'"),
        (lambda: model.recommend("u1", score="best"), "'score'"),
        (lambda: model.explain("u1", "i1", n=0), "'n'"),
        (lambda: model.explain("nobody", "i1"), "user 'nobody' is not known"),
        (lambda: model.explain("u1", "nothing"), "item 'nothing' is not known"),
    ):
        with pytest.raises(DataError, match=message):
            call()


def test_bad_newcomers(model):
    seen = simulated().iloc[0]
    for data, message in (
        (([seen["user"]], [seen["item"]], [1]), "both known"),
        ((["u1", "new"], ["i0", "i1"], [1, 1]), "both known"),
        ((["new", "new"], ["i1", "i1"], [1, 2]), "rated this item before"),
        ((["new"], ["i1"], [7]), "not on the scale"),
        (([], [], []), "no rating to fold in"),
    ):
        with pytest.raises(DataError, match=message):
            model.fold_in(data)


@on_any_scales
def test_a_newcomer_without_a_scale(make):
    own = make(n_epochs=2, item_scales={1: [1, 2, 3], 2: [1, 2]}).fit(FRAME)
    with pytest.raises(DataError, match="every known item has a scale of its own"):
        own.fold_in(([1], [3], [1]))


@on_any_scales
def test_a_newcomer_on_a_longer_scale_than_any_known(make):
    """Of the upper levels of the common scale nothing was learnt: no known item has them."""
    own = {1: [1, 2, 3], 2: [1, 2]}
    longer = make(n_epochs=2, scale=[1, 2, 3, 4, 5], item_scales=own).fit(FRAME)
    with pytest.raises(DataError, match=r"item 3 is new .* \[1, 2, 3, 4, 5\].* more than 3 levels"):
        longer.fold_in(([1], [3], [5]))
    assert longer.fold_in(([9], [1], [3])).predict_proba(9, [1]).shape == (1, 3)


@pytest.mark.parametrize("users", [["u1", ("u2", "u3")], [["u1"]], {"u1"}, {"u1": 1}, b"u1"])
def test_ids_that_are_none(model, users):
    for call in (lambda: model.predict(users, "i1"), lambda: model.recommend(users)):
        with pytest.raises(DataError):
            call()
