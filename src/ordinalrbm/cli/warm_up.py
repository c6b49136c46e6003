"""Checking the compiled kernels, and compiling all of them in advance.

Machine code is kept on disk; what is compiled by one process is there for the next.
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import read_ratings, repeated_cell
from ordinalrbm.vector import likelihood, posterior
from ordinalrbm.vector.model import VectorModel, side

# Answers of a few people to questions with 2, 3, 5 and 7 levels; −1 is unanswered.
_LEVELS = np.array([[1, 0, 4, 2], [0, 2, 0, 6], [-1, 1, -1, 5], [1, -1, 3, -1]], dtype=np.int16)
_N_LEVELS = np.array([2, 3, 5, 7], dtype=np.int32)
_COPIES, _DRAWS, _SEED = 500, 40, 1
# Five standard errors of means over so many draws, of which neighbours are alike.
BOUND = 0.03

_FEW: dict[str, Any] = {"n_epochs": 2, "random_state": 0}
_SURVEYS: dict[str, dict[str, Any]] = {
    "surveys": {},
    "surveys, by chains": {
        "inference": "mcmc",
        "n_draws": 3,
        "free_phase": "persistent",
        "unanswered": "latent",
    },
    "surveys, response styles": {"response_styles": 3, "units_per_factor": 4, "inference": "linear_response"},
    "surveys, mixed columns": {"nominal": ["party"], "numeric": ["age"], "background": ["country"]},
}


def difference() -> float:
    """How far sampled factors are from the enumerated ones; NaN if the kernels give no numbers."""
    rng = np.random.default_rng(0)
    cutpoints = np.zeros((_N_LEVELS.size, _N_LEVELS.max() - 1))
    cutpoints[:, 0] = rng.normal(-0.3, 0.4, _N_LEVELS.size)
    cutpoints[:, 1:] = np.log(rng.uniform(0.2, 1.0, cutpoints[:, 1:].shape))
    model = VectorModel(  # skewed: no error of sign goes unnoticed
        weights=rng.normal(0.0, 0.7, (_N_LEVELS.size, 4)).astype(np.float32),
        bias=rng.normal(0.2, 0.5, _N_LEVELS.size).astype(np.float32),
        factor_bias=rng.normal(-0.4, 0.8, 4).astype(np.float32),
        cutpoints=cutpoints,
        n_levels=_N_LEVELS,
    )
    few, many = (
        side(model, Observations.from_dense(levels, _N_LEVELS))
        for levels in (_LEVELS, np.repeat(_LEVELS, _COPIES, axis=0))
    )
    states, weight = likelihood.exact_posterior(model, few)
    sampled = posterior.sampled(model, many, _DRAWS, _SEED)
    return float(np.abs(sampled.reshape(len(_LEVELS), _COPIES, -1).mean(axis=1) - weight @ states).max())


def compile_kernels(
    device: str = "cpu", *, surveys: bool = True, ratings: bool = True
) -> Iterator[tuple[str, float, float]]:
    """Use every model once, and once more: its name, and the seconds of both."""
    rng = np.random.default_rng(0)
    table = rng.integers(1, 5, (40, 5)).astype(float)
    table[rng.random(table.shape) < 0.1] = np.nan
    user, item = np.nonzero(~np.isnan(table))
    rated = (user, item, table[user, item])
    works: dict[str, Callable[[Path], None]] = {}
    if surveys and device == "cpu":
        works |= {name: partial(_survey, table, own) for name, own in _SURVEYS.items()}
    if ratings:
        works["tables of ratings"] = partial(_read_table, rated)
        works |= {name: partial(_rater, model, rated) for name, model in raters(device).items()}
    for name, work in works.items():
        seconds = []
        for _ in range(2):
            begun = time.perf_counter()
            with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
                warnings.simplefilter("ignore")  # there are many about so few answers
                work(Path(folder))
            seconds.append(time.perf_counter() - begun)
        yield name, seconds[0], seconds[1]


def _survey(answers: np.ndarray, settings: dict[str, Any], folder: Path) -> None:
    # So few units that exact likelihoods take no time; the kernels are those of up to 255.
    settings = {"units_per_factor": 4, **settings}
    table: Any = answers
    if "background" in settings:
        table = pd.DataFrame(answers, columns=list("abcde")).assign(
            party=np.resize(["x", "y", "z"], len(answers)),
            age=np.arange(len(answers)) * 0.5,
            country=np.resize(["k", "l"], len(answers)),
        )
    model = orbm.CumulativeRBM(2, **_FEW, **settings).fit(
        table, sample_weight=np.linspace(0.5, 2, len(table))
    )
    model.predict_proba(table)
    model.impute(table, n_draws=2, random_state=0)
    model.score(table)
    model.sample_factors(table[:5], n_draws=4, random_state=0)
    if "background" not in settings:
        model.sample(5, random_state=0)
        for method in ("exact", "ais"):
            model.log_likelihood(table[:5], method, n_temperatures=5, random_state=0)


def _read_table(ratings: tuple[np.ndarray, ...], folder: Path) -> None:
    """Read ids that are positions, which are taken from the table as read-only arrays, and others."""
    user, item, rating = ratings
    frame = pd.DataFrame({"user": user, "item": item}, dtype=np.int32)
    frame["rating"] = rating.astype(np.int8)
    for ids in (frame, frame.assign(user=100 * user, item=100 * item)):
        read_ratings(ids.assign(timestamp=np.arange(len(ids))))
    repeated_cell(user, item)


def raters(device: str) -> dict[str, Any]:
    few = _FEW if device == "cpu" else {**_FEW, "device": device}
    # Widths of the sampled posterior are drawn for the first time in the second sweep.
    sampled = {**few, "posterior": "sampled", "n_draws": 2, "n_epochs": 4}
    models: dict[str, Any] = {
        "OrdinalMF": orbm.OrdinalMF(2, **few),
        "OrdinalMF, points": orbm.OrdinalMF(2, posterior="point", **few),
        "OrdinalMF, sampled": orbm.OrdinalMF(2, **sampled),
        "MatrixCumulativeRBM": orbm.MatrixCumulativeRBM(2, 2, **few),
        "MatrixCumulativeRBM, persistent": orbm.MatrixCumulativeRBM(2, 0, free_phase="persistent", **few),
    }
    if device == "cpu":  # the others know no device
        models["GaussianMF"] = orbm.GaussianMF(2, **few)
        models["MultinomialRBM"] = orbm.MultinomialRBM(2, **few)
    return models


def _rater(model: Any, ratings: tuple[np.ndarray, ...], folder: Path) -> None:
    """Call every method of a model of ratings, once more after it was stored."""
    model.fit(ratings, checkpoint=folder / "kept", every=1)
    model.save(folder / "model.orbm")
    new = ([77, 77], [0, 1], [1, 2])
    for each in (model, orbm.load(folder / "model.orbm")):
        each.predict_proba([0, -1, 1], [1, 2, -1])
        for score in ("expected", "liked", "rating"):
            each.recommend("all", n=2, score=score)
            each.recommend(0, n=2, score=score)
        each.recommend(ratings=new, n=2)
        if hasattr(each, "explain"):
            each.explain(0, 1)
        if hasattr(each, "fold_in"):
            each.fold_in(new)
