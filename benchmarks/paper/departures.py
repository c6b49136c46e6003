"""What each departure from the paper's procedure is worth: RMSE, MAE and NLL with and without it.

    python benchmarks/paper/departures.py [matrix] [vector] [persistent] [--seeds 1] [--only WORD]

The first line of a table is the preset, and every other line differs from it in what it says.
Figures are those of *validation* ratings (which also choose the epoch) or of answers hidden from
the training part of a survey, so that no setting is ever chosen by test figures. --only prints the
preset and the lines whose names contain one of some words.

- matrix: MatrixCumulativeRBM.paper(50, 50) on MovieLens 1M, chronological.
- vector: CumulativeRBM.paper(20) on bfi; RMSE of the mean, MAE of the mode, in levels.
- persistent: free chains that go on by themselves instead of starting from the clamped ones.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from methods import Parts, fitted, movielens, scores, split
from sklearn.exceptions import ConvergenceWarning

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1] / "hidden_answers"))
from data import load, mask

Settings = dict[str, Any]
TO_THE_LETTER: Settings = {
    "centred": False,
    "schedule": "constant",
    "priors": "none",
    "weight_decay": 0.0,
    "biases": "zero",
}
MATRIX: dict[str, Settings] = {
    "MatrixCumulativeRBM.paper(50, 50)": {},
    "without centring": {"centred": False},
    "without a falling rate": {"schedule": "constant"},
    "without learnt priors": {"priors": "none"},
    "without these three": {"centred": False, "schedule": "constant", "priors": "none"},
    "without weight decay": {"weight_decay": 0.0},
    "with biases from zero": {"biases": "zero"},
    "without any: to the letter": TO_THE_LETTER,
    "with AdaGrad": {"solver": "adagrad", "learning_rate": 0.05},
    "with thresholds at quantiles": {"thresholds": "marginal"},
    "with batches of 100": {"batch_size": 100},
    "with three steps": {"gibbs_steps": 3},
    "with calibration": {"calibrate": True},
}
ADDED = {"centred": True, "schedule": "cosine", "weight_decay": 10.0}
VECTOR: dict[str, Settings] = {
    "CumulativeRBM.paper(20)": {},
    "with biases from zero": {"biases": "zero"},
    "with nothing held out": {"validation_fraction": 0.0},
    "with both: to the letter": {"biases": "zero", "validation_fraction": 0.0},
    "with centring": {"centred": True},
    "with a falling rate": {"schedule": "cosine"},
    "with weight decay 10": {"weight_decay": 10.0},
    "with these three": ADDED,
    "with thresholds at quantiles": {"thresholds": "marginal"},
    "with the start from correlations": {"init": "polychoric", "thresholds": "marginal"},
    "with Adam": {"solver": "adam", "learning_rate": 0.01},
    "with all of these (.binary)": {
        **ADDED,
        "init": "polychoric",
        "thresholds": "marginal",
        "solver": "adam",
        "learning_rate": 0.01,
        "n_epochs": 40,
        "patience": 5,
    },
    "with three steps": {"gibbs_steps": 3},
}
CHAINS: dict[str, Settings] = {
    "contrastive, 1 step": {},
    "contrastive, 5 steps": {"gibbs_steps": 5},
    "persistent, 1 step": {"free_phase": "persistent"},
    "persistent, 5 steps": {"free_phase": "persistent", "gibbs_steps": 5},
    "persistent, 10 steps": {"free_phase": "persistent", "gibbs_steps": 10},
}


def of_ratings(parts: Parts, k: int) -> Callable[[int, Settings], dict[str, float]]:
    """Scores of a seed and settings of the matrix preset, on validation ratings."""

    def run(seed: int, settings: Settings) -> dict[str, float]:
        def make(k: int, **given: Any) -> Any:
            return orbm.MatrixCumulativeRBM.paper(k, k, **given)

        model, seconds = fitted(make, k, seed, parts, **settings)
        found = scores(model, parts[0], parts[1])
        return {**found, "epoch": model.best_epoch_, "seconds": seconds}

    return run


def of_answers(name: str, k: int) -> Callable[[int, Settings], dict[str, float]]:
    """Scores of a seed and settings of the vector preset, on answers hidden from training ones."""
    train, *_ = mask(load(name), seed=0)
    shown, rows, columns, truth = mask(train, seed=1)
    levels = {column: np.sort(train[column].dropna().unique()) for column in train}

    def run(seed: int, settings: Settings) -> dict[str, float]:
        begun = time.perf_counter()
        scales = {column: list(found) for column, found in levels.items()}
        model = orbm.CumulativeRBM.paper(k, random_state=seed, scales=scales, **settings)
        probabilities = model.fit(shown).predict_proba(shown)
        seconds = time.perf_counter() - begun
        found = []
        for number, column in enumerate(train):
            here = columns == number
            of_cells, values = probabilities[number][rows[here]], levels[column]
            chance = np.take_along_axis(of_cells, np.searchsorted(values, truth[here])[:, None], 1)
            found.append(
                pd.DataFrame(
                    {
                        "square": (of_cells @ values - truth[here]) ** 2,
                        "absolute": np.abs(values[of_cells.argmax(axis=1)] - truth[here]),
                        "log": -np.log(chance[:, 0]),
                    }
                )
            )
        mean = pd.concat(found).mean()
        return {
            "rmse": np.sqrt(mean["square"]),
            "mae": mean["absolute"],
            "nll": mean["log"],
            "epoch": model.best_epoch_,
            "seconds": seconds,
        }

    return run


def table(
    title: str, variants: dict[str, Settings], run: Callable[[int, Settings], dict[str, float]], seeds: int
) -> None:
    """A line per variant, the mean of the seeds, and by how much it is worse than the first."""
    print(f"\n{title}; mean of {seeds} seeds")
    print(f"{'':36} {'RMSE':>7} {'MAE':>7} {'NLL':>7}   {'worse by':^23}   epoch  seconds")
    preset = None
    for name, settings in variants.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            mean = pd.DataFrame([run(seed, settings) for seed in range(seeds)]).mean()
        now = mean[["rmse", "mae", "nll"]]
        preset = now if preset is None else preset
        figures = " ".join(f"{value:7.4f}" for value in now)
        apart = " ".join(f"{value:+7.4f}" for value in now - preset)
        diverged = any(issubclass(each.category, ConvergenceWarning) for each in told)
        remark = "   diverged, went on with smaller steps" if diverged else ""
        print(
            f"{name:36} {figures}   {apart}   {mean['epoch']:5.0f} {mean['seconds']:8.1f}{remark}", flush=True
        )


def only(variants: dict[str, Settings], words: list[str]) -> dict[str, Settings]:
    """The preset, and the variants whose names contain a word."""
    return {
        name: settings
        for name, settings in variants.items()
        if not settings or any(word in name for word in words)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = ("matrix", "vector", "persistent")
    parser.add_argument("kinds", nargs="*", default=kinds, help=f"of {', '.join(kinds)}")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD")
    options = parser.parse_args()
    for kind in options.kinds:
        if kind == "matrix":
            run = of_ratings(movielens(), 50)
            chosen = only(MATRIX, options.only)
            table("MovieLens 1M, validation ratings", chosen, run, options.seeds)
        elif kind == "vector":
            run = of_answers("bfi", 20)
            chosen = only(VECTOR, options.only)
            table("bfi, answers hidden from training ones", chosen, run, options.seeds)
        else:
            run = of_answers("bfi", 20)
            table("bfi, CumulativeRBM.paper(20)", CHAINS, run, options.seeds)
            run = of_ratings(split("ml-100k"), 20)
            name = "MatrixCumulativeRBM.paper"
            table(f"MovieLens 100K, {name}(20, 20), validation", CHAINS, run, options.seeds)
            run = of_ratings(movielens(), 50)
            table(f"MovieLens 1M, {name}(50, 50), validation", CHAINS, run, options.seeds)


if __name__ == "__main__":
    main()
