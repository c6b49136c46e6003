"""One list for all rating models: each fits, predicts, recommends, folds in and explains."""

import numpy as np
import pandas as pd
import pytest
from small_matrices import LABELS, MODELS, assert_same_models, every_model, halves, learnt, simulated

import ordinalrbm as orbm
from ordinalrbm.matrix import binary_learner, gibbs_learner, multinomial, variational_learner
from ordinalrbm.matrix.item_weights import Past

LEARNERS = (
    binary_learner._Learner,
    variational_learner._Learner,
    multinomial.Learner,
    gibbs_learner._Learner,
)


@pytest.fixture(scope="module")
def ratings():
    return simulated()


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    return learnt(name)


def test_predictions(model):
    users, items = ["u3", "u7", "nobody", "u2"], ["i1", "i4", "i4", "nothing"]
    p = model.predict_proba(users, items)
    assert p.shape == (4, 5)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    points = {rule: model.predict(users, items, rule=rule) for rule in ("mean", "mode", "median")}
    np.testing.assert_array_equal(points["mode"], LABELS[p.argmax(axis=1)])
    np.testing.assert_array_equal(points["median"], LABELS[(p.cumsum(axis=1) < 0.5).sum(axis=1)])
    if not isinstance(model, orbm.GaussianMF):  # whose mean is the Gaussian's own
        np.testing.assert_allclose(points["mean"], p @ LABELS)
    np.testing.assert_array_equal(model.predict(users, items), points["mean"])


def brute_force(model, ratings, user, n, exclude_seen=True, score="expected"):
    """Items by falling score, ties in the order of the items."""
    items = model.items_.labels
    p = model.predict_proba(user, items)
    row, known = model.users_.lookup([user]), model.ratings_
    demand = model.demand_.scores(model.demand_.rows[row], Past(known.observations, known.age), row)[0]
    if user == "nobody":
        demand = ratings.groupby("item").size()[items].to_numpy() / ratings["user"].nunique()
    demand, liked = np.maximum(demand, 1e-3), p[:, 3:].sum(axis=1)
    value = {"expected": demand * liked, "liked": liked, "rating": p @ LABELS, "demand": demand}
    value = value[score]
    seen = set(ratings.loc[ratings["user"] == user, "item"]) if exclude_seen else set()
    order = [j for j in np.argsort(-value, kind="stable") if items[j] not in seen]
    return [(items[j], value[j]) for j in order[:n]]


@pytest.mark.parametrize("score", ["expected", "liked", "rating", "demand"])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_recommendations_are_those_of_brute_force(model, ratings, exclude_seen, score):
    users = ["u3", "u113", "nobody", "u3"]  # for whom no two items are liked for sure, in float32
    found = model.recommend(users, n=7, exclude_seen=exclude_seen, score=score)
    assert found.columns.tolist() == ["user", "item", "rank", "score"]
    assert found["user"].tolist() == np.repeat(users, 7).tolist()
    assert found["rank"].tolist() == list(range(1, 8)) * 4
    for k, user in enumerate(users):
        expected = brute_force(model, ratings, user, 7, exclude_seen, score)
        part = found.iloc[7 * k : 7 * (k + 1)]
        assert part["item"].tolist() == [item for item, _ in expected]
        np.testing.assert_allclose(part["score"], [value for _, value in expected], atol=1e-5)


def test_an_explanation(model, ratings):
    reasons = model.explain("u3", "i7", n=4)
    given = ratings[ratings["user"] == "u3"].set_index("item")["rating"]
    assert len(reasons.ratings) == 4
    assert (given[reasons.ratings["item"]].to_numpy() == reasons.ratings["rating"]).all()
    assert abs(reasons.expected - model.predict("u3", "i7")) < 0.5


# ---- learning that is stopped -------------------------------------------------------------------


def stop_after(n_epochs, monkeypatch, reason):
    """Break off in the epoch after so many, whichever model learns."""
    done = []

    def stopping(epoch):
        def counted(learner):
            if len(done) >= n_epochs:
                raise reason
            epoch(learner)
            done.append(1)

        return counted

    for learner in LEARNERS:
        monkeypatch.setattr(learner, "epoch", stopping(learner.epoch))


def plain(name):
    """Settings under which the model of an epoch is kept as it is."""
    return {"calibrate": False} if name in ("matrix", "ensemble") else {}


@pytest.mark.parametrize("fraction", [0.0, 0.05])
def test_ctrl_c_keeps_the_best_epoch(name, fraction, ratings, monkeypatch, capsys, tmp_path):
    train, rest = halves(ratings)
    stop_after(3, monkeypatch, KeyboardInterrupt)
    model = MODELS[name](n_epochs=50, validation_fraction=fraction, **plain(name))
    model.fit(train, rest if fraction else None)
    said = capsys.readouterr().err
    assert "learning was stopped after epoch 3" in said
    assert f"the model of epoch {model.best_epoch_}, the best so far" in said
    values = model.history_["validation"]
    assert model.n_iter_ == len(values) == 3
    if fraction:
        # Of draws there is no best one: they are averaged.
        best = len(values) if name == "sampled" else values.argmax() + 1
        assert model.best_epoch_ == best
        p = model.predict_proba(rest["user"], rest["item"])
        found = np.log(p[np.arange(len(rest)), rest["rating"].to_numpy() - 1]).mean()
        assert found == pytest.approx(values[best - 1], abs=1e-3 if name == "sampled" else 1e-6)
    else:
        assert model.best_epoch_ == 3
    model.save(tmp_path / "stopped.orbm")
    assert_same_models(orbm.load(tmp_path / "stopped.orbm"), model)


@every_model
def test_ctrl_c_before_the_first_epoch_goes_through(make, ratings, monkeypatch):
    stop_after(0, monkeypatch, KeyboardInterrupt)
    model = make()
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings)
    assert not hasattr(model, "models_")


class KilledError(Exception):
    """As if the process were no more."""


def test_a_killed_fit_goes_on_to_the_same_bits(name, ratings, monkeypatch, tmp_path):
    make, seconds = MODELS[name], "seconds"
    whole = make().fit(ratings)
    with monkeypatch.context() as context:
        stop_after(3, context, KilledError)
        with pytest.raises(KilledError):
            make().fit(ratings, checkpoint=tmp_path, every=1)
    again = make().fit(ratings, checkpoint=tmp_path, every=1)
    assert_same_models(again, whole)
    pd.testing.assert_frame_equal(again.history_.drop(columns=seconds), whole.history_.drop(columns=seconds))
    # One that has ended gives its model at once.
    stop_after(0, monkeypatch, KilledError)
    assert_same_models(make().fit(ratings, checkpoint=tmp_path), whole)
    with pytest.raises(orbm.DataError):
        make(random_state=1).fit(ratings, checkpoint=tmp_path)


def test_the_history_tells_of_the_best_epoch(name, ratings, capsys):
    """Draws are all kept."""
    if name == "sampled":
        return
    train, rest = halves(ratings)
    # Binary factors do not just break off: their learning rate falls first. An average of epochs is slow.
    most = 300 if name == "multinomial" else 60
    model = MODELS[name](n_epochs=most, patience=1, **plain(name)).fit(train, rest)
    history = model.history_
    assert {"epoch", "validation", "seconds"} <= set(history.columns)
    assert history["epoch"].tolist() == list(range(1, model.n_iter_ + 1))
    assert model.n_iter_ < most
    assert model.best_epoch_ == history["validation"].argmax() + 1
    found = model.predict_proba(rest["user"], rest["item"])
    best = orbm.evaluate.score(found, rest["rating"])["nll"]
    assert best == pytest.approx(-history["validation"].max(), abs=1e-6)
    assert capsys.readouterr().err == ""  # patience is no interruption
