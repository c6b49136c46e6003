"""What the paper's tables share: the models, their scores over seeds, and the printed rows."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import DATA as DATA  # these also for the files beside this one
from sources import Parts as Parts
from sources import ratings as ratings
from sources import split as split

RESULTS = Path(__file__).resolve().parents[1] / "results"
Paper = Mapping[tuple[str, int], tuple[float, float]]
"""RMSE and MAE by model and number of factors, as printed in the paper."""

MODELS = {
    "matrix CRBM": lambda k, **given: orbm.MatrixCumulativeRBM(k, k, **given),
    "vector CRBM": lambda k, **given: orbm.MatrixCumulativeRBM(k, 0, **given),
    # As many numbers per user as the matrix CRBM has: factors and weights.
    "OrdinalMF": lambda k, **given: orbm.OrdinalMF(2 * k, **given),
    "ensemble": lambda k, **given: orbm.RatingEnsemble(
        [orbm.MatrixCumulativeRBM(k, k), orbm.OrdinalMF(2 * k)], **given
    ),
    # The paper's baselines; ordinal MF with points, as there.
    "Gaussian MF": orbm.GaussianMF,
    "ordinal MF": lambda k, **given: orbm.OrdinalMF(k, posterior="point", **given),
    "multinomial RBM": orbm.MultinomialRBM,
}
SCORES = ("rmse", "mae", "mae_median", "nll", "calibration")


def make(name: str, k: int, seed: int, **settings: Any) -> Any:
    """A model of the table, not yet fitted."""
    return MODELS[name](k, random_state=seed, **settings)


def scores(model: Any, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Scores on the test ratings; a model without distributions has fewer."""
    values = np.sort(train["rating"].unique()).astype(float)
    truth = test["rating"].to_numpy(float)
    if hasattr(model, "predict_proba"):
        return orbm.evaluate.score(model.predict_proba(test["user"], test["item"]), truth, values)
    return orbm.evaluate.point_scores(model.predict(test["user"], test["item"]), truth, values)


def over_seeds(name: str, k: int, seeds: int, parts: Parts) -> pd.DataFrame:
    """One row of scores, with the seconds of the fit, per seed."""
    train, validation, test = parts
    found = []
    for seed in range(seeds):
        begun = time.perf_counter()
        model = make(name, k, seed).fit(train, validation=validation)
        seconds = time.perf_counter() - begun
        found.append(scores(model, train, test) | {"seconds": seconds})
    return pd.DataFrame(found).reindex(columns=[*SCORES, "seconds"])


def print_table(parts: Parts, options: argparse.Namespace, paper: Paper) -> None:
    """Train all models with all numbers of factors; the paper's figures beside ours."""
    print("training, validation, test:", *map(len, parts), f"; mean of {options.seeds} seeds")
    print(
        f"{'model':15} {'K':>4} {'RMSE':>7} {'MAE':>7} {'median':>7} {'NLL':>7} {'ECE':>7} "
        f"{'seconds':>7}   paper: RMSE, MAE"
    )
    for k in options.factors:
        for name in options.models:
            mean = over_seeds(name, k, options.seeds, parts).mean()
            ours = " ".join(f"{number(mean[score], 4):>7}" for score in SCORES)
            beside = " ".join(f"{number(x, 3):>6}" for x in paper.get((name, k), (np.nan,) * 2))
            print(f"{name:15} {k:4} {ours} {mean['seconds']:7.1f}   {beside}", flush=True)


def number(value: float, digits: int) -> str:
    """The number, or a dash where there is none."""
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def parser(description: str, factors: list[int]) -> argparse.ArgumentParser:
    """Options of all tables."""
    found = argparse.ArgumentParser(description=description.splitlines()[0])
    found.add_argument("--factors", type=int, nargs="+", default=factors)
    found.add_argument("--seeds", type=int, default=5)
    found.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    return found
