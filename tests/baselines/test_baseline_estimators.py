"""The baselines as users call them: their cores judge predictions, sentences say what is wrong."""

import numpy as np
import pandas as pd
import pytest
from made_up_ratings import ratings as made_up
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_baselines_together import assert_distributions, assert_same_bits

import ordinalrbm as orbm
from ordinalrbm.data.ratings import encode, read_ratings
from ordinalrbm.matrix.baselines import gaussian_mf, learning, multinomial_rbm, ordinal_mf

CORES = {
    orbm.GaussianMF: gaussian_mf,
    orbm.OrdinalMF: ordinal_mf,
    orbm.MultinomialRBM: multinomial_rbm,
}
every_kind = pytest.mark.parametrize("kind", CORES, ids=lambda kind: kind.__name__)
every_ordinal = pytest.mark.parametrize("kind", [orbm.OrdinalMF, orbm.MultinomialRBM])
LABELS = np.array([1, 2, 3, 4, 5])


def small(kind, **changes):
    """An estimator that learns in no time."""
    settings = {"n_epochs": 4, "random_state": 0, **changes}
    if kind is orbm.MultinomialRBM:
        settings = {"batch_size": 32, "learning_rate": 0.01, **settings}
    return kind(3, **settings)


def frame(rows, columns, levels):
    """Ids are text, so that their order is not that of the positions."""
    named = {
        "user": np.char.add("u", rows.astype(str)),
        "item": np.char.add("i", columns.astype(str)),
    }
    return pd.DataFrame(named).astype(object).assign(rating=LABELS[levels])


@pytest.fixture(scope="module")
def parts():
    """Training, validation and test ratings."""
    train, validation, test = made_up(80, 30)
    row = np.repeat(np.arange(train.n_rows), np.diff(train.row_start))
    return frame(row, train.column, train.level), frame(*validation), frame(*test)


@pytest.fixture(scope="module")
def fitted(parts):
    """Each of the three, fitted once."""
    return {kind: small(kind).fit(parts[0], validation=parts[1]) for kind in CORES}


# ---- predictions ------------------------------------------------------------------------------


def by_core(kind, known, validation, n_epochs=4):
    """What the core learns from the same ratings."""
    core, estimator = CORES[kind], small(kind, n_epochs=n_epochs)
    names = set(core.Settings.__dataclass_fields__) - {"seed"}
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    settings = core.Settings(seed=seed, **{name: getattr(estimator, name) for name in names})
    values = (known.scales.values,) if core is gaussian_mf else ()
    cells = encode(known, validation)
    return core.fit(known.observations, *values, validation=cells, settings=settings)


@every_kind
def test_predictions_are_those_of_the_core(kind, parts, fitted):
    train, validation, test = parts
    known, model = read_ratings(train), fitted[kind]
    expected, history = by_core(kind, known, validation)
    assert_same_bits(model.model_, expected)
    assert [record.validation for record in history] == model.history_["validation"].tolist()
    users, items = test["user"], test["item"]
    rows, columns = known.lookup(users, "user"), known.lookup(items, "item")
    found = model.predict_proba(users, items)
    by_core_alone = CORES[kind].predict_proba(expected, rows, columns)
    np.testing.assert_allclose(found, by_core_alone, rtol=1e-6, atol=1e-11)
    np.testing.assert_array_equal(
        model.predict(users, items, rule="mode"), LABELS[found.argmax(axis=1)]
    )
    np.testing.assert_array_equal(
        model.predict(users, items, rule="median"), LABELS[(found.cumsum(axis=1) < 0.5).sum(axis=1)]
    )
    mean = found @ LABELS
    if kind is orbm.GaussianMF:
        mean = gaussian_mf.predict_mean(expected, rows, columns)
    np.testing.assert_allclose(model.predict(users, items), mean, rtol=1e-12)


@every_kind
def test_learning_beats_the_means_of_the_items(kind):
    train, _, test = made_up(200, 60)
    row = np.repeat(np.arange(train.n_rows), np.diff(train.row_start))
    ratings, hidden = frame(row, train.column, train.level), frame(*test)
    model = small(kind, n_epochs=25).fit(ratings)
    means = ratings.groupby("item")["rating"].mean().loc[hidden["item"]].to_numpy()
    errors = [
        np.mean((predicted - hidden["rating"]) ** 2)
        for predicted in (model.predict(hidden["user"], hidden["item"]), means)
    ]
    assert errors[0] < 0.9 * errors[1]


@every_kind
def test_one_id_stands_for_all(kind, fitted):
    model = fitted[kind]
    many = model.predict(["u1"] * 3, ["i1", "i2", "i3"])
    np.testing.assert_array_equal(model.predict("u1", ["i1", "i2", "i3"]), many)
    np.testing.assert_array_equal(model.predict(["u1"], "i2"), many[1:2])
    np.testing.assert_array_equal(model.predict("u1", "i2"), many[1:2])
    assert model.predict_proba([], []).shape == (0, 5)
    for rule in ("mean", "mode", "median"):
        assert model.predict([], [], rule=rule).shape == (0,)


@every_kind
def test_strangers_are_predicted_from_what_is_known(kind, parts, fitted):
    train, model = parts[0], fitted[kind]
    users, items = model.users_.labels, model.items_.labels
    of_items = model.predict("nobody", items)
    means = train.groupby("item")["rating"].mean().loc[items]
    assert np.corrcoef(of_items, means)[0, 1] > 0.8
    of_users = model.predict(users, "nothing")
    assert np.ptp(of_users) > 0
    nothing = model.predict("nobody", "nothing")[0]
    assert abs(nothing - train["rating"].mean()) < 0.5
    # Others in the same call do not matter.
    together = model.predict(["nobody", users[0]], [items[3], "nothing"])
    np.testing.assert_array_equal(together, [of_items[3], of_users[0]])


@every_kind
def test_every_container_gives_the_same_model(kind):
    users, items = np.divmod(np.arange(60), 6)
    values = 1 + (users * items) % 5
    expected = small(kind).fit((users, items, values))
    matrix = sparse.csr_array((values, (users, items)), shape=(11, 7))  # with one more of each
    table = pd.DataFrame({"user": users, "item": items, "rating": values})
    assert_same_bits(small(kind).fit(table).model_, expected.model_)
    from_matrix = small(kind).fit(matrix)
    assert len(from_matrix.users_) == 11
    # Whoever has no ratings is like a stranger.
    assert_distributions(from_matrix.predict_proba([10, 10, 0], [6, 0, 6]), [5, 5, 5])
    np.testing.assert_allclose(from_matrix.predict(10, 0), from_matrix.predict(99, 0), rtol=1e-2)


# ---- scales -----------------------------------------------------------------------------------

SCALES = {"i0": ["bad", "good"], "i1": list("abcdefg")}
WORDS = ["one", "two", "three", "four", "five"]


def with_own_scales(train):
    """Two items have scales of their own, in words; the others 1..5 in words too."""
    text = train["rating"].map(dict(zip(LABELS, WORDS, strict=True))).astype(object)
    for item, labels in SCALES.items():
        chosen = train["item"] == item
        places = np.minimum(train.loc[chosen, "rating"] - 1, len(labels) - 1)
        text[chosen] = np.array(labels, dtype=object)[places]
    return train.assign(rating=text)


@every_ordinal
def test_items_with_scales_of_their_own(kind, parts):
    train, validation = (with_own_scales(part) for part in parts[:2])
    strangers = pd.DataFrame({"user": ["u1", "new"], "item": ["new", "i1"], "rating": ["one", "g"]})
    model = small(kind, scale=WORDS, item_scales=SCALES)
    model.fit(train, validation=pd.concat([validation, strangers]))
    asked = ["i0", "i1", "i2", "new"]
    found = model.predict_proba("u5", asked)
    assert_distributions(found, [2, 7, 5, 5])  # an unknown item has the common scale
    np.testing.assert_allclose(model.predict("u5", asked), found @ np.arange(1, 8))
    modes = model.predict("u5", asked, rule="mode")
    for mode, labels in zip(modes, [*SCALES.values(), WORDS, WORDS], strict=True):
        assert mode in labels


@every_ordinal
def test_every_item_with_a_scale_of_its_own(kind):
    users, items = np.divmod(np.arange(60), 3)
    ratings = (users, items, 1 + users % (items + 2))
    scales = {0: [1, 2], 1: [1, 2, 3], 2: [1, 2, 3, 4]}
    with pytest.warns(UserWarning, match="1 of 2 validation ratings are not used"):
        model = small(kind, item_scales=scales).fit(ratings, validation=([3, 4], [1, 77], [2, 3]))
    assert model.default_scale_ is None
    assert np.isfinite(model.history_["validation"]).all()
    assert_distributions(model.predict_proba([1, 1, 99], [0, 77, 77]), [2, 4, 4])


def test_validation_on_a_common_scale_that_no_known_item_has():
    """Of its highest level nothing was learnt."""
    ratings, scales = ([1, 1, 2], ["a", "b", "a"], [1, 2, 2]), {"a": [1, 2], "b": [1, 2, 3]}
    model = small(orbm.OrdinalMF, scale=[1, 2, 3, 4], item_scales=scales)
    with pytest.warns(UserWarning, match="1 of 2 validation ratings are not used"):
        model.fit(ratings, validation=([2, 2], ["new", "b"], [4, 3]))
    assert np.isfinite(model.history_["validation"]).all()


def test_gaussian_needs_one_scale(parts):
    train = parts[0]
    with pytest.raises(orbm.DataError, match=r"needs one scale for all items.*use OrdinalMF"):
        small(orbm.GaussianMF, item_scales={"i0": [1, 2, 3, 4, 5, 6]}).fit(train)
    same = small(orbm.GaussianMF, item_scales={"i0": [1, 2, 3, 4, 5]}).fit(train)
    assert_distributions(same.predict_proba("u1", ["i0", "new"]), [5, 5])


def test_gaussian_on_labels_that_are_not_ascending_numbers(parts):
    train, _, test = parts
    users, items = test["user"], test["item"]
    plain = small(orbm.GaussianMF).fit(train)
    text = train.assign(rating=train["rating"].map(dict(zip(LABELS, WORDS, strict=True))))
    words = small(orbm.GaussianMF, scale=WORDS).fit(text)
    assert_same_bits(words.model_, plain.model_)
    assert words.predict("u1", "i1", rule="mode")[0] in WORDS
    falling = small(orbm.GaussianMF, scale=[5, 4, 3, 2, 1])
    falling.fit(train.assign(rating=6 - train["rating"]))
    np.testing.assert_allclose(falling.predict(users, items), 6 - plain.predict(users, items))


@every_kind
def test_ratings_that_are_all_equal(kind):
    with pytest.warns(UserWarning, match="From 3 of 3 ratings nothing can be learnt"):
        model = small(kind).fit(([1, 1, 2], [1, 2, 1], [3, 3, 3]))
    np.testing.assert_allclose(model.predict([1, 9], [2, 9]), 3.0)
    assert model.predict(1, 2, rule="mode").tolist() == [3]


@every_kind
def test_a_single_rating(kind):
    model = small(kind, scale=[1, 2, 3]).fit((["u"], ["i"], [2]))
    assert_distributions(model.predict_proba(["u", "x"], ["i", "y"]), [3, 3])


# ---- learning ---------------------------------------------------------------------------------


@every_kind
def test_held_out_ratings_are_taken_from_nobody_all(kind, parts, monkeypatch):
    seen = []
    fit = CORES[kind].fit

    def spy(observations, *args, **others):
        seen.append((observations, others["validation"]))
        return fit(observations, *args, **others)

    monkeypatch.setattr(CORES[kind], "fit", spy)
    known = read_ratings(parts[0])
    small(kind, n_epochs=1, validation_fraction=0.3).fit(parts[0])
    left, cells = seen.pop()
    assert left.n_entries + cells.level.size == known.n_ratings
    assert 0.2 < cells.level.size / known.n_ratings < 0.35
    assert (np.diff(left.row_start) > 0).all()
    dense = known.observations.to_dense()
    np.testing.assert_array_equal(dense[cells.row, cells.column], cells.level)
    assert (left.to_dense()[cells.row, cells.column] == -1).all()
    small(kind, n_epochs=1, validation_fraction=0).fit(parts[0])
    assert seen.pop()[1] is None
    # Those that are given take the place of the fraction, strangers included.
    given = pd.DataFrame({"user": ["u1", "new"], "item": ["new", "i2"], "rating": [1, 5]})
    small(kind, n_epochs=1, validation_fraction=0.3).fit(parts[0], validation=given)
    left, cells = seen.pop()
    assert left.n_entries == known.n_ratings
    assert (cells.row < 0).tolist() == [False, True]
    assert (cells.column < 0).tolist() == [True, False]
    assert cells.level.tolist() == [0, 4]


@every_kind
def test_without_validation_all_epochs_are_learnt(kind, parts):
    nothing = parts[0][:0]
    for model in (
        small(kind, patience=1, validation_fraction=0).fit(parts[0]),
        small(kind, patience=1).fit(parts[0], validation=nothing),
    ):
        assert model.best_epoch_ == model.n_iter_ == 4
        assert model.history_["validation"].isna().all()


@every_kind
def test_the_history_tells_of_the_best_epoch(kind, parts, capsys):
    train, validation, _ = parts
    model = small(kind, n_epochs=200, patience=1).fit(train, validation=validation)
    history = model.history_
    assert list(history.columns) == ["epoch", "validation", "seconds"]
    assert model.n_iter_ == len(history) < 200
    assert model.best_epoch_ == history["validation"].idxmax() + 1
    found = model.predict_proba(validation["user"], validation["item"])
    best = orbm.evaluate.score(found, validation["rating"])["nll"]
    assert best == pytest.approx(-history["validation"].max(), abs=1e-6)
    assert capsys.readouterr().err == ""  # patience is no interruption


def interrupted_after(n_epochs, monkeypatch):
    """Ctrl-C while the epoch after so many is judged."""
    judge, done = learning.log_probability, []

    def stop_later(*args):
        if len(done) == n_epochs:
            raise KeyboardInterrupt
        done.append(1)
        return judge(*args)

    monkeypatch.setattr(learning, "log_probability", stop_later)


@every_kind
@pytest.mark.parametrize("fraction", [0.0, 0.05])
def test_an_interrupted_fit_keeps_the_best_so_far(
    kind, fraction, parts, monkeypatch, capsys, tmp_path
):
    interrupted_after(2, monkeypatch)
    model = small(kind, n_epochs=50, validation_fraction=fraction).fit(parts[0])
    said = capsys.readouterr().err
    assert "learning was stopped after epoch 2; the model of epoch" in said
    assert model.n_iter_ == len(model.history_) == 2
    assert f"epoch {model.best_epoch_}, the best so far" in said
    model.save(tmp_path / "stopped.orbm")
    assert_same_bits(orbm.load(tmp_path / "stopped.orbm").model_, model.model_)


@every_kind
def test_an_interruption_before_the_first_epoch_goes_through(kind, parts, monkeypatch):
    interrupted_after(0, monkeypatch)
    model = small(kind)
    with pytest.raises(KeyboardInterrupt):
        model.fit(parts[0])
    assert not hasattr(model, "model_")


@every_kind
def test_a_progress_bar_when_asked_for(kind, parts, capsys):
    for verbose in (False, True):
        small(kind, n_epochs=1, verbose=verbose).fit(parts[0])
        assert ("learning" in capsys.readouterr().err) == verbose


@every_kind
def test_threads_do_not_change_a_bit(kind, parts):
    train, _, test = parts
    one, two = (small(kind, n_jobs=n_jobs).fit(train) for n_jobs in (1, 2))
    assert_same_bits(one.model_, two.model_)
    np.testing.assert_array_equal(
        one.predict(test["user"], test["item"]), two.predict(test["user"], test["item"])
    )


# ---- scikit-learn -----------------------------------------------------------------------------


@every_kind
def test_the_seed_decides_the_model(kind, parts):
    model = small(kind).fit(parts[0])
    assert_same_bits(clone(model).fit(parts[0]).model_, model.model_)
    other = small(kind, random_state=1).fit(parts[0])
    users, items = parts[2]["user"], parts[2]["item"]
    assert (other.predict(users, items) != model.predict(users, items)).any()


@every_kind
def test_parameters_are_got_set_and_cloned(kind):
    model = kind(7, n_epochs=3)
    assert model.n_factors == model.get_params()["n_factors"] == 7
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(patience=9).patience == 9
    assert repr(kind(7)) == f"{kind.__name__}(n_factors=7)"
    core = CORES[kind].Settings()
    for name in set(core.__dataclass_fields__) - {"seed"}:
        assert getattr(kind(), name) == getattr(core, name)


@every_kind
def test_the_data_are_not_changed(kind, parts):
    before = parts[0].copy()
    small(kind).fit(parts[0])
    pd.testing.assert_frame_equal(parts[0], before)


# ---- files ------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("ids", ["text", "numbers"])
def test_a_loaded_model_says_the_same(kind, ids, parts, tmp_path):
    train, _, test = parts
    if ids == "numbers":
        number = {
            name: lambda part, name=name: part[name].str[1:].astype(int)
            for name in ("user", "item")
        }
        train, test = train.assign(**number), test.assign(**number)
    model = small(kind).fit(train)
    model.save(tmp_path / "m.orbm")
    again = orbm.load(tmp_path / "m.orbm")
    assert type(again) is kind
    assert_same_bits(again.model_, model.model_)
    assert again.get_params() == model.get_params()
    pd.testing.assert_frame_equal(again.history_, model.history_.drop(columns="seconds"))
    assert (again.n_iter_, again.best_epoch_) == (model.n_iter_, model.best_epoch_)
    stranger = "nobody" if ids == "text" else -5
    users, items = [*test["user"], stranger], [*test["item"], stranger]
    np.testing.assert_array_equal(
        again.predict_proba(users, items), model.predict_proba(users, items)
    )
    for rule in ("mean", "mode", "median"):
        np.testing.assert_array_equal(
            again.predict(users, items, rule=rule), model.predict(users, items, rule=rule)
        )
    assert_same_bits(clone(again).fit(train).model_, model.model_)


@every_ordinal
def test_scales_survive(kind, parts, tmp_path):
    model = small(kind, scale=WORDS, item_scales=SCALES, random_state=np.random.RandomState(1))
    model.fit(with_own_scales(parts[0])).save(tmp_path / "m.orbm")
    again = orbm.load(tmp_path / "m.orbm")
    assert again.scales_ == model.scales_
    assert (again.scale, again.item_scales) == (WORDS, SCALES)
    assert again.random_state is None
    asked = ["i0", "i1", "i2", "new"]
    np.testing.assert_array_equal(
        again.predict("u1", asked, rule="mode"), model.predict("u1", asked, rule="mode")
    )


@pytest.mark.parametrize("kind", [orbm.GaussianMF, orbm.OrdinalMF])
def test_a_point_posterior_survives(kind, parts, tmp_path):
    model = small(kind, posterior="point", factor_precision=3.0).fit(parts[0])
    model.save(tmp_path / "m.orbm")
    assert orbm.load(tmp_path / "m.orbm").model_.posterior == "point"


# ---- what is refused --------------------------------------------------------------------------

FRAME = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1, 2, 3]})
BAD_RATINGS = {
    "twice": (pd.concat([FRAME, FRAME[:1]]), {}, "has rated this item before"),
    "off the scale": (FRAME, {"scale": [1, 2]}, "not on the scale"),
    "no user": (FRAME.assign(user=[1, np.nan, 2]), {}, "the user is missing"),
    "no rating given": (FRAME.assign(rating=[1, np.nan, 2]), {}, "the rating is missing"),
    "nothing": (FRAME[:0], {}, "no rating"),
    "a list": ([[1, 2, 3]], {}, "must be a pandas or polars DataFrame"),
    "text": (FRAME.assign(rating=list("abc")), {}, "order cannot"),
    "an unrated item's scale": (FRAME, {"item_scales": {9: [1, 2]}}, "which nobody has rated"),
}


@every_kind
@pytest.mark.parametrize("case", BAD_RATINGS)
def test_bad_ratings(kind, case):
    data, options, message = BAD_RATINGS[case]
    with pytest.raises(orbm.DataError, match=message):
        small(kind, **options).fit(data)


BAD_SETTINGS = [
    ("n_factors", 0),
    ("n_factors", 2.5),
    ("n_epochs", 0),
    ("patience", True),
    ("validation_fraction", 0.5),
    ("random_state", "x"),
    ("n_jobs", 0),
    ("posterior", "both"),
    ("bias_precision", 0),
    ("factor_precision", -1.0),
    ("width_precision", np.nan),
    ("learning_rate", 0),
    ("batch_size", 0),
    ("epochs_per_step", -1),
    ("weight_decay", -1),
    ("bias_decay", None),
    ("averaged_epochs", 0),
]


@every_kind
def test_bad_settings(kind):
    own = [(name, value) for name, value in BAD_SETTINGS if name in kind().get_params()]
    assert len(own) > 7
    for name, value in own:
        with pytest.raises(orbm.DataError, match=f"The '{name}' parameter must be"):
            small(kind).set_params(**{name: value}).fit(FRAME)


@every_kind
def test_bad_questions(kind, fitted, tmp_path):
    model, new = fitted[kind], small(kind)
    for call, message in (
        (lambda: model.predict(["u1", "u2"], ["i1"]), "2 users and 1 items"),
        (lambda: model.predict("u1", "i1", rule="best"), "'rule'"),
        (lambda: model.predict([1], ["i1"]), "users known here are text"),
        (lambda: model.predict_proba([None], ["i1"]), "the user is missing"),
    ):
        with pytest.raises(orbm.DataError, match=message):
            call()
    for call in (
        lambda: new.predict(1, 1),
        lambda: new.predict_proba(1, 1),
        lambda: new.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(orbm.DataError, match="not on the scale"):
        small(kind).fit(FRAME, FRAME.assign(rating=[9, 1, 2]))
