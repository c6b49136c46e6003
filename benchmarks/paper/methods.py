"""What the scripts of the paper share: its data sets, its methods, and how they are scored."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import DATA, Parts, ratings, split

RESULTS = Path(__file__).resolve().parents[1] / "results"
Method = Callable[..., Any]
"""From a number of factors and settings by name to a model that is not yet fitted."""


class Together:
    """Models that learn from the same ratings; then an ensemble, with shares by the validation ratings."""

    def __init__(self, models: list[Any]) -> None:
        self.models = models

    def fit(self, train: pd.DataFrame, validation: pd.DataFrame) -> Any:
        """An ensemble of the models, which are fitted first."""
        models = [model.fit(train, validation=validation) for model in self.models]
        return orbm.RatingEnsemble(models).fit(validation)


PAPERS: dict[str, Method] = {
    "gaussian_mf": lambda k, **given: orbm.GaussianMF(k, posterior="point", **given),
    "ordinal_mf": lambda k, **given: orbm.OrdinalMF(k, posterior="point", **given),
    "multinomial_rbm": orbm.MultinomialRBM,
    "matrix_crbm": lambda k, **given: orbm.MatrixCumulativeRBM.paper(k, k, **given),
}
"""The paper's four methods in its own form."""

BEYOND: dict[str, Method] = {
    "MatrixCumulativeRBM": lambda k, **given: orbm.MatrixCumulativeRBM(k, k, **given),
    # As many numbers per user as the matrix model has: factors and weights.
    "OrdinalMF": lambda k, **given: orbm.OrdinalMF(2 * k, **given),
    "RatingEnsemble": lambda k, **given: Together(
        [orbm.MatrixCumulativeRBM(k, k, **given), orbm.OrdinalMF(2 * k, **given)]
    ),
    "GaussianMF": orbm.GaussianMF,
}
"""What the library has beyond the paper, with its defaults."""


def published() -> dict[str, Any]:
    """RMSE and MAE as printed in Tran, Phung and Venkatesh (2012): data, method, factors."""
    return json.loads((DATA.parent / "paper_numbers.json").read_text())


def five_points(ten: pd.DataFrame) -> pd.DataFrame:
    """Two neighbouring ratings become one: 1 and 2, 3 and 4, …"""
    return ten.assign(rating=(ten["rating"] + 1) // 2)


def movielens() -> Parts:
    """MovieLens 1M: of each user with 30 ratings or more the last 10, and the 5 before them."""
    return split("ml-1m")


def dating(file: Path | None = None) -> Parts:
    """Libimseti on five points: its own file, or the 2,000 most active users; no times."""
    own = ["user", "item", "rating"]
    ten = ratings("dating-top2000") if file is None else pd.read_csv(file, names=own)
    return orbm.evaluate.split(five_points(ten), protocol="random", other_users="drop")


def netflix(folder: Path, n_users: int | None = None) -> Parts:
    """Netflix, chronological; of so many users, chosen at random, if that is too much."""
    frame = orbm.datasets.read_netflix(folder)
    if n_users is not None:
        users = frame["user"].unique()
        chosen = np.random.default_rng(0).permutation(users)[:n_users]
        frame = frame[frame["user"].isin(chosen)]
    return orbm.evaluate.split(frame, protocol="chronological", other_users="drop")


def fitted(make: Method, k: int, seed: int, parts: Parts, **settings: Any) -> tuple[Any, float]:
    """The model of a seed, its epoch chosen by the validation ratings, and the seconds it took."""
    train, validation, _ = parts
    begun = time.perf_counter()
    model = make(k, random_state=seed, **settings).fit(train, validation=validation)
    return model, time.perf_counter() - begun


def paper_errors(model: Any, asked: pd.DataFrame) -> tuple[float, float]:
    """RMSE of the mean, and MAE by the paper's rule.

    That is the mode for models of levels, and the number as it is for Gaussian MF.
    """
    truth = asked["rating"].to_numpy(float)
    mean = model.predict(asked["user"], asked["item"], rule="mean")
    point = mean
    if not isinstance(model, orbm.GaussianMF):
        point = model.predict(asked["user"], asked["item"], rule="mode").astype(float)
    return float(np.sqrt(np.mean((mean - truth) ** 2))), float(np.abs(point - truth).mean())


def scores(model: Any, train: pd.DataFrame, asked: pd.DataFrame) -> dict[str, float]:
    """All scores of the predicted distributions."""
    values = np.sort(train["rating"].unique()).astype(float)
    truth = asked["rating"].to_numpy(float)
    return orbm.evaluate.score(model.predict_proba(asked["user"], asked["item"]), truth, values)
