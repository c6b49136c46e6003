"""Divergence: learning rates far too large, and settings that make no sense otherwise.

    python benchmarks/divergence.py [food bfi ml-100k]

For each model the default learning rate times 1 to a million: how well held-out answers (10 %) are
predicted, beside the frequencies of each column or of all ratings; how often learning went back;
which rate it ended with; what was said. Then weight decays from nothing to absurd.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sources import DATA, split

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.training.schedule import Schedule

TIMES = (1, 10, 100, 1000, 1e6)
DECAYS = (0.0, 1e6, 1e30)

Judge = Callable[[Any], float]


def main() -> None:
    wanted = sys.argv[1:] or ["food", "bfi", "ml-100k"]
    if "food" in wanted:
        of_survey("food", orbm.datasets.load_food_world_cup())
    if "bfi" in wanted:
        of_survey("bfi", pd.read_parquet(DATA / "bfi.parquet").iloc[:, :25])
    if "ml-100k" in wanted:
        of_ratings("ml-100k")


# Data: each gives models, and a judge of what they have learnt


def of_survey(name: str, answers: pd.DataFrame) -> None:
    levels = answers.apply(lambda column: pd.Categorical(column, ordered=True).codes).to_numpy()
    rng = np.random.default_rng(0)
    hidden = (levels >= 0) & (rng.random(levels.shape) < 0.1)
    shown = pd.DataFrame(np.where((levels < 0) | hidden, np.nan, levels + 1.0))

    def judge(model: Any) -> float:
        found = model.predict_proba(shown)
        chosen = [
            found[column][rows, levels[rows, column]]
            for column in range(levels.shape[1])
            for rows in [np.flatnonzero(hidden[:, column])]
        ]
        return -float(np.log(np.concatenate(chosen)).mean())

    marginal = []
    for column in range(levels.shape[1]):
        counts = np.bincount(shown[column].dropna().astype(int), minlength=7)[1:] + 0.5
        share = counts / counts[: levels[:, column].max() + 1].sum()
        marginal.append(np.log(share[levels[hidden[:, column], column]]))
    title(name, -float(np.concatenate(marginal).mean()))
    for how, make in {
        "binary": orbm.CumulativeRBM.binary,
        "defaults": orbm.CumulativeRBM,
    }.items():
        runs(how, make, lambda model: model.fit(shown), judge)


def of_ratings(name: str) -> None:
    train, validation, test = split(name)
    level = test["rating"].to_numpy() - 1

    def judge(model: Any) -> float:
        found = model.predict_proba(test["user"], test["item"])
        return -float(np.log(np.maximum(found[np.arange(level.size), level], 1e-12)).mean())

    share = np.bincount(train["rating"] - 1) / len(train)
    title(name, -float(np.log(share[level]).mean()))
    kinds = {
        "matrix CRBM": orbm.MatrixCumulativeRBM,
        "ensemble": ensemble,
        "multinomial": orbm.MultinomialRBM,
    }
    for how, make in kinds.items():
        runs(how, make, lambda model: model.fit(train, validation), judge)
    # The other two have no learning rate, only precisions.
    for kind in (orbm.GaussianMF, orbm.OrdinalMF):
        for precision in (None, 1e-6, 1e6, 1e30):
            given = {} if precision is None else {"factor_precision": precision}
            for posterior in ("variational", "point"):
                what = f"{posterior}, factor_precision {precision}"
                line(
                    kind.__name__, what, kind(random_state=0, posterior=posterior, **given),
                    lambda model: model.fit(train, validation), judge,
                )  # fmt: skip


def ensemble(random_state: int = 0, **settings: Any) -> Any:
    models = [orbm.MatrixCumulativeRBM(**settings), orbm.OrdinalMF(100)]
    return orbm.RatingEnsemble(models, random_state=random_state)


# Runs


def runs(how: str, make: Callable[..., Any], fit: Callable[[Any], Any], judge: Judge) -> None:
    usual = make()
    usual = getattr(usual, "models", [usual])[0].learning_rate
    for times in TIMES:
        line(
            how, f"rate x {times:g}", make(learning_rate=usual * times, random_state=0), fit, judge
        )
    for decay in DECAYS:
        line(how, f"decay {decay:g}", make(weight_decay=decay, random_state=0), fit, judge)


def title(name: str, marginal: float) -> None:
    print(f"\n{name}: frequencies have {marginal:.4f} nats per held-out answer")
    print(f"{'model':14s}{'setting':36s}{'held out':>9s}{'back':>6s}{'rate':>10s}{'seconds':>9s}")


def line(how: str, what: str, model: Any, fit: Callable[[Any], Any], judge: Judge) -> None:
    started = time.perf_counter()
    with counted() as schedules, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = f"{judge(fit(model)):9.4f}"
        except DataError as error:
            value = "  refused"
            warnings.warn(str(error), stacklevel=1)
    seconds = time.perf_counter() - started
    slowed = sum(schedule.n_slowed for schedule in schedules)
    rate = f"{schedules[-1].learning_rate:10.2g}" if schedules else " " * 10
    print(f"{how:14s}{what:36s}{value}{slowed:6d}{rate}{seconds:9.1f}")
    for warning in said:
        print(f"    {warning.category.__name__}: {warning.message}")
    sys.stdout.flush()


@contextmanager
def counted() -> Iterator[list[Schedule]]:
    """The schedules that are made meanwhile."""
    made: list[Schedule] = []
    begin = Schedule.__init__

    def noted(self: Schedule, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        made.append(self)

    Schedule.__init__ = noted  # type: ignore[method-assign]
    try:
        yield made
    finally:
        Schedule.__init__ = begin  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
