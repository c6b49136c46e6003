"""Ours beside the peers on the same split in one run: errors, seconds, peak memory.

    python benchmarks/speed/peers.py [--data ml-1m] [--protocol chronological] [--methods ...]

Every method runs in a process of its own. Seconds and memory are those of one fit from arrays of
positions and ratings, settings known; choosing settings by validation is not counted, and what
had to be compiled is compiled before. Memory is the peak above what the process had before the
fit. Items without training ratings are predicted from the user's other ratings, in the same way
for every method. The peers come with ``pip install '.[peers]'``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from isolated import Failure, alone, measured
from methods import METHODS, Options, Predict, Ratings, Task

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import RATINGS, Parts, ratings, usual_protocol

PRIOR_RATINGS = 10
"""How many ratings of everybody's a user's own are mixed with, to predict unknown items."""
FEW, WARM_UP = 2_000, 20
"""Ratings and iterations of the fit that compiles."""


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
    method: str, setting: Any, task: Task, test: Ratings, options: Options
) -> dict[str, Any]:
    """Scores and costs of one method; runs in a process of its own."""
    fit = METHODS[method].fit
    fit(a_few(task), options._replace(iterations=WARM_UP), setting)
    predict, fitting = measured(lambda: fit(task, options, setting))
    found, predicting = measured(lambda: with_cold_start(predict, task, test))
    costs = {
        "setting": setting,
        "fit_seconds": fitting.seconds,
        "predict_seconds": predicting.seconds,
        "peak_mb": fitting.peak / 1e6,
    }
    return scores(found, test.level, task.values) | costs


def run(method: str, task: Task, test: Ratings, options: Options, limit: float) -> dict[str, Any]:
    """Choose the setting if there is a choice, then evaluate; or say why it failed."""
    choices = METHODS[method].choices
    found = choices[0]
    if len(choices) > 1:
        found = alone(choose, method, task, options, limit=limit)
    if not isinstance(found, Failure):
        found = alone(evaluate, method, found, task, test, options, limit=limit)
    return {"failure": found.reason} if isinstance(found, Failure) else found


def a_few(task: Task) -> Task:
    """The same with the first training ratings only."""
    return task._replace(train=Ratings(*(part[:FEW] for part in task.train)))


def choose(method: str, task: Task, options: Options) -> Any:
    """The setting with the least validation error; runs in a process of its own."""
    fit, choices = METHODS[method]
    errors = []
    for setting in choices:
        found = with_cold_start(fit(task, options, setting), task, task.validation)
        errors.append(scores(found, task.validation.level, task.values)["rmse"])
    return choices[int(np.argmin(errors))]


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
    return {"mae_median": None, "nll": None} | orbm.evaluate.point_scores(
        found, values[level], values
    )


def line(result: dict[str, Any]) -> str:
    """A row of the printed table."""
    if "failure" in result:
        return f"{result['method']:16} {result['failure']}"
    errors = "".join(
        f"{'-' if result[name] is None else f'{result[name]:.4f}':>8}"
        for name in ("rmse", "mae", "mae_median", "nll")
    )
    setting = "" if result["setting"] is None else f"   penalty {result['setting']:g}"
    return (
        f"{result['method']:16}{errors} {result['fit_seconds']:8.1f} "
        f"{result['predict_seconds']:8.2f} {result['peak_mb']:8.0f}{setting}"
    )


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
    parser.add_argument("--rank", type=int, default=20, help="of the peers")
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
    options = Options(given.factors, given.rank, given.iterations, given.threads, given.seed)
    frame = ratings(given.data)
    protocol = given.protocol or usual_protocol(frame)
    task, test = positions(orbm.evaluate.split(frame, protocol))
    unknown = int((~np.isin(test.item, task.train.item)).sum())
    setup = {"data": given.data, "protocol": protocol, **options._asdict()}
    print(", ".join(f"{name} {value}" for name, value in setup.items()))
    print(
        f"training, validation, test: {task.train.user.size} {task.validation.user.size} "
        f"{test.user.size}, of these {unknown} of items without training ratings"
    )
    print(
        f"{'method':16}{'RMSE':>8}{'MAE':>8}{'median':>8}{'NLL':>8} {'fit s':>8} {'predict':>8} "
        f"{'peak MB':>8}"
    )
    for method in given.methods:
        result = setup | {"method": method} | run(method, task, test, options, given.limit)
        print(line(result), flush=True)
        if given.out is not None:
            with given.out.open("a") as out:
                out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
