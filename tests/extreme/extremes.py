"""What every model must pass, however strange its data: numbers, distributions, a file."""

import numpy as np
from long_form import LONG

import ordinalrbm as orbm

SURVEY_MODELS = {
    "paper": {},
    "draws": {"inference": "mcmc", "n_draws": 25, "unanswered": "latent"},
    "styles": {
        "units_per_factor": 20,
        "response_styles": 3,
        "unanswered": "latent",
        "inference": "linear_response",
        "learning_rate": 0.003,
    },
}
if LONG:
    SURVEY_MODELS["persistent"] = {"free_phase": "persistent"}
RATING_MODELS = ("OrdinalMF", "MatrixCumulativeRBM", "point", "GaussianMF", "MultinomialRBM")
# Models that can say why.
EXPLAINED = (orbm.OrdinalMF, orbm.MatrixCumulativeRBM)


def survey_model(how, n_factors=6, **more):
    few = {"random_state": 0, "n_epochs": 20}
    return orbm.CumulativeRBM.binary(n_factors, **{**few, **SURVEY_MODELS[how], **more})


def rating_model(kind, n_factors=4, **more):
    more = {"n_epochs": 20, **more}
    if kind != "OrdinalMF":  # lists are learnt in the same way by all
        more = {"demand_factors": 0, **more}
    if kind == "MatrixCumulativeRBM":
        return orbm.MatrixCumulativeRBM(n_factors, n_factors, random_state=0, **more)
    if kind == "point":
        return orbm.OrdinalMF(n_factors, posterior="point", random_state=0, **more)
    if kind == "MultinomialRBM":  # whose batches are made for more users than there are here
        more = {"batch_size": 4, **more, "n_epochs": 40}
    return getattr(orbm, kind)(n_factors, random_state=0, **more)


def checked_survey(model, X, tmp_path):
    """Distributions of all answers, after checks that hold for any survey."""
    assert all(np.isfinite(part).all() for part in model.model_[:-1])
    found = model.predict_proba(X)
    for distribution, scale in zip(found, model.scales_, strict=True):
        assert_distributions(distribution)
        assert (distribution > 0).all()
        assert distribution.shape == (len(X), scale.n_levels)
    factors = model.transform(X)
    assert ((factors >= 0) & (factors <= 1)).all()
    assert not np.isnan(model.impute(X)).any()
    assert model.score(X) <= 0
    again = saved_and_loaded(model, tmp_path)
    for one, other in zip(found, again.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, other)
    return found


def checked_ratings(model, users, items, tmp_path):
    """Distributions of some ratings, after checks that hold for any."""
    assert all(np.isfinite(part).all() for part in numbers_of(model))
    found = model.predict_proba(users, items)
    assert_distributions(found)
    assert_distributions(model.predict_proba([users[0], -5, -5], [-5, items[0], -5]))
    for rule in ("mean", "mode", "median"):
        assert np.isfinite(model.predict(users, items, rule=rule)).all()
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(found, again.predict_proba(users, items))
    some = np.unique(users)[:5]
    best = model.recommend(some, n=3)
    assert np.isfinite(best["score"]).all()
    assert best.equals(again.recommend(some, n=3))
    seen = set(zip(*model.ratings_.to_frame()[["user", "item"]].to_numpy().T, strict=True))
    assert not seen & set(zip(best["user"], best["item"], strict=True))
    if type(model) in EXPLAINED:
        assert np.isfinite(model.explain(users[0], items[0]).expected)
    return found


def saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model.orbm")
    return orbm.load(tmp_path / "model.orbm")


def assert_distributions(found):
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


def numbers_of(model):
    """All arrays of numbers that were learnt."""
    parts = list(model.models_)
    while parts:
        part = parts.pop()
        if hasattr(part, "precision") or hasattr(
            part, "weights_precision"
        ):  # which is infinite for what is not learnt
            continue
        if isinstance(part, tuple):
            parts.extend(part)
        elif isinstance(part, np.ndarray):
            yield part


def shares(levels, n_levels, pseudo=0.5):
    """How often each level occurs."""
    counts = np.bincount(levels, minlength=n_levels) + pseudo
    return counts / counts.sum()


def mean_loss(distributions, levels):
    """Negative log probability of the true levels, on average."""
    return -np.log(distributions[np.arange(levels.size), levels]).mean()
