"""Ours beside the peers on the same split in one run: errors, seconds, peak memory.

    python benchmarks/speed/peers.py [--data ml-1m] [--protocol chronological] [--learn-from train]

Two ways to use validation ratings, the same for every method: for stopping, calibration and the
choice of settings alone (``--learn-from train``); or, when settings are chosen, learnt from as well
(``--learn-from all``; ours then holds out what it needs by itself). Settings of the peers are
chosen by the validation error of the mean, from grids that grow until no end is the best.

The difference to the first method and its standard error are those of the same test ratings, users
as clusters. Every method runs in a process of its own. Seconds and memory are those of one fit from
arrays of positions and ratings, settings known, what had to be compiled compiled before. Memory is
the peak above what the process had before the fit. Items without training ratings are predicted
from the user's other ratings, in the same way for every method. The peers come with
``pip install --group peers``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from isolated import Failure, alone, measured
from methods import METHODS, Options, Predict, Ratings, Task

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import RATINGS, Parts, chain_of, ratings, usual_protocol

PRIOR_RATINGS = 10
"""How many ratings of everybody's a user's own are mixed with, to predict unknown items."""
FEW, WARM_UP = 2_000, 20
"""Ratings and iterations of the fit that compiles."""
MOST_GROWN = 4
"""How often a grid grows at one end."""
CHOOSING = 0.25
"""Share of myFM's iterations that a setting is judged by."""


def positions(parts: Parts) -> tuple[Task, Ratings]:
    """Numbers instead of ids, the same in all parts; the task and the test."""
    everything = pd.concat(parts)
    users, items = (np.sort(everything[name].unique()) for name in ("user", "item"))
    values = np.sort(everything["rating"].unique()).astype(float)
    train, validation, test = (
        Ratings(
            np.searchsorted(users, part["user"]),
            np.searchsorted(items, part["item"]),
            np.searchsorted(values, part["rating"]),
        )
        for part in parts
    )
    return Task(train, validation, users.size, items.size, values), test


def evaluate(
    method: str, settings: dict[str, float], task: Task, test: Ratings, options: Options
) -> dict[str, Any]:
    """Scores and costs of one method; runs in a process of its own."""
    fit = METHODS[method].fit
    fit(a_few(task), options._replace(iterations=WARM_UP), **settings)
    predict, fitting = measured(lambda: fit(task, options, **settings))
    found, predicting = measured(lambda: with_cold_start(predict, task, test))
    costs = {
        "settings": settings,
        "chain": chain_of(getattr(predict, "__self__", None)),
        "fit_seconds": fitting.seconds,
        "predict_seconds": predicting.seconds,
        "peak_mb": fitting.peak / 1e6,
    }
    losses = {"losses": of_each(found, test.level, task.values)}
    return scores(found, test.level, task.values) | costs | losses


def run(
    method: str, task: Task, test: Ratings, options: Options, limit: float, *, from_all: bool
) -> dict[str, Any]:
    """Choose settings if there is a choice, then evaluate; or say why it failed."""
    found = alone(choose, method, task, options, limit=limit)
    if not isinstance(found, Failure):
        last = with_validation(task) if from_all else task
        found = alone(evaluate, method, found, last, test, options, limit=limit)
    return {"failure": found.reason} if isinstance(found, Failure) else found


def with_validation(task: Task) -> Task:
    """The same with validation ratings among those to learn from."""
    assert task.validation is not None
    together = (np.concatenate(parts) for parts in zip(task.train, task.validation, strict=True))
    return task._replace(train=Ratings(*together), validation=None)


def a_few(task: Task) -> Task:
    """The same with the first training ratings only."""
    return task._replace(train=Ratings(*(part[:FEW] for part in task.train)))


def choose(method: str, task: Task, options: Options) -> dict[str, float]:
    """The settings with the least validation error; runs in a process of its own."""
    fit, grids = METHODS[method]
    options = options._replace(iterations=round(CHOOSING * options.iterations))
    settings = {name: grid[len(grid) // 2] for name, grid in grids.items()}

    def error(name: str, value: float) -> float:
        found = with_cold_start(fit(task, options, **(settings | {name: value})), task, task.validation)
        return scores(found, task.validation.level, task.values)["rmse"]

    for name, grid in grids.items():
        settings[name] = best_of_grid(partial(error, name), grid)
    return settings


def best_of_grid(error: Callable[[float], float], grid: tuple[float, ...]) -> float:
    """The value with the least error, of a grid that grows until that is not at its end."""
    errors = {value: error(value) for value in grid}
    for _ in range(MOST_GROWN):
        values = sorted(errors)
        best = min(errors, key=errors.__getitem__)
        if best == values[0]:
            new = values[0] ** 2 / values[1]
        elif best == values[-1]:
            new = values[-1] ** 2 / values[-2]
        else:
            break
        errors[new] = error(new)
    return min(errors, key=errors.__getitem__)


def with_cold_start(predict: Predict, task: Task, asked: Ratings) -> np.ndarray:
    """Predictions, where items without training ratings are left to the user's other ratings."""
    known = np.isin(asked.item, task.train.item)
    found = np.asarray(predict(asked.user[known], asked.item[known]), dtype=float)
    usual = habits(task)[asked.user]
    if found.ndim == 1:
        found = np.clip(found, task.values.min(), task.values.max())
        usual = usual @ task.values
    usual[known] = found
    return usual


def habits(task: Task) -> np.ndarray:
    """(users, L): how often each user gives each rating, mixed with what all users do."""
    user, _, level = task.train
    n_levels = task.values.size
    counts = np.bincount(user * n_levels + level, minlength=task.n_users * n_levels)
    counts = counts.reshape(task.n_users, n_levels)
    mixed = counts + PRIOR_RATINGS * counts.sum(axis=0) / counts.sum()
    return mixed / mixed.sum(axis=1, keepdims=True)


def scores(found: np.ndarray, level: np.ndarray, values: np.ndarray) -> dict[str, float | None]:
    """Of distributions or of numbers; None for what numbers do not tell."""
    if found.ndim == 2:
        return orbm.evaluate.score(found, values[level], values)
    return {"mae_median": None, "nll": None} | orbm.evaluate.point_scores(found, values[level], values)


def of_each(found: np.ndarray, level: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    """Squared error of the mean and, of distributions, negative log probability of each rating."""
    if found.ndim == 1:
        return {"rmse": (found - values[level]) ** 2}
    chosen = np.maximum(np.take_along_axis(found, level[:, None], axis=1)[:, 0], 1e-12)
    return {"rmse": (found @ values - values[level]) ** 2, "nll": -np.log(chosen)}


def difference(own: dict[str, Any], first: dict[str, Any], user: np.ndarray, name: str) -> str:
    """By how much a method is worse than the first, and the standard error of that."""
    if own is first or name not in own["losses"] or name not in first["losses"]:
        return ""
    apart = own["losses"][name] - first["losses"][name]
    of_users = np.bincount(user, apart - apart.mean())
    error = np.sqrt((of_users**2).sum()) / apart.size
    unit = own["rmse"] + first["rmse"] if name == "rmse" else 1.0  # a² − b² = (a − b)(a + b)
    return f"{apart.mean() / unit:+.4f} ± {error / unit:.4f}"


def line(result: dict[str, Any], first: dict[str, Any], user: np.ndarray) -> str:
    """A row of the printed table."""
    if "failure" in result:
        return f"{result['method']:26} {result['failure']}"
    errors = "".join(
        f"{'-' if result[name] is None else f'{result[name]:.4f}':>8}"
        for name in ("rmse", "mae", "mae_median", "nll")
    )
    apart = "".join(f"{difference(result, first, user, name):>18}" for name in ("rmse", "nll"))
    settings = ", ".join(f"{name} {value:g}" for name, value in result["settings"].items())
    return (
        f"{result['method']:26}{errors}{apart} {result['fit_seconds']:8.1f} "
        f"{result['predict_seconds']:8.2f} {result['peak_mb']:8.0f}   {settings}{result['chain']}"
    ).rstrip()


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m", help=f"one of {', '.join(RATINGS)}, or a file")
    parser.add_argument(
        "--protocol", choices=("chronological", "random"), help="random where there are no times"
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument(
        "--factors",
        type=int,
        default=50,
        help="of our models, K = S; the factors and weights of a user, 2 K, in OrdinalMF",
    )
    parser.add_argument("--learn-from", choices=("train", "all"), default="train")
    parser.add_argument("--iterations", type=int, default=200, help="of myFM")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=7200.0, help="seconds for a method")
    parser.add_argument("--out", type=Path, help="file to append the results to, as JSON lines")
    return parser.parse_args()


def main() -> None:
    """Run the methods one after the other and keep each result once it is there."""
    given = arguments()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(given.threads)  # read by the methods' processes when they start
    options = Options(given.factors, given.iterations, given.threads, given.seed)
    frame = ratings(given.data)
    protocol = given.protocol or usual_protocol(frame)
    task, test = positions(orbm.evaluate.split(frame, protocol, other_users="drop"))
    unknown = int((~np.isin(test.item, task.train.item)).sum())
    setup = {"data": given.data, "protocol": protocol, "learn from": given.learn_from, **options._asdict()}
    print(", ".join(f"{name} {value}" for name, value in setup.items()))
    print(
        f"training, validation, test: {task.train.user.size} {task.validation.user.size} "
        f"{test.user.size}, of these {unknown} of items without training ratings"
    )
    print(
        f"{'method':26}{'RMSE':>8}{'MAE':>8}{'median':>8}{'NLL':>8}{'RMSE: worse by':>18}"
        f"{'NLL: worse by':>18} {'fit s':>8} {'predict':>8} {'peak MB':>8}   settings"
    )
    first = None
    for method in given.methods:
        found = run(method, task, test, options, given.limit, from_all=given.learn_from == "all")
        result = setup | {"method": method} | found
        first = first or result
        print(line(result, first, test.user), flush=True)
        if given.out is not None:
            kept = {name: value for name, value in result.items() if name != "losses"}
            with given.out.open("a") as out:
                out.write(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main()
