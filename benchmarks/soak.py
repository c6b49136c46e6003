"""One process that fits, saves, loads, predicts and recommends for an hour: does anything leak?

    python benchmarks/soak.py [--minutes 60]

A cycle is a fit of a survey, of ratings by OrdinalMF, MatrixCumulativeRBM and both together in
turn, and of a baseline; every model is saved, loaded and asked. Every third cycle keeps
checkpoints. Seeds differ
from cycle to cycle, the work does not. Ends with 1 when the memory of the last five minutes (the
median) is more than 2 % over that of minutes 5 to 10, or when a handle or a thread is left open.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import ordinalrbm as orbm

KINDS = (
    lambda seed: orbm.OrdinalMF(6, n_epochs=3, random_state=seed),
    lambda seed: orbm.MatrixCumulativeRBM(6, 6, n_epochs=3, random_state=seed),
    lambda seed: orbm.RatingEnsemble([KINDS[0](None), KINDS[1](None)], random_state=seed),
)
BASELINES = (orbm.GaussianMF, orbm.MultinomialRBM)
TURNS = len(KINDS)  # cycles until the work is the same again
LIMIT = 1.02
WINDOW = 5.0  # minutes


class Use(NamedTuple):
    """What the process holds after a cycle."""

    minute: float
    memory: float  # MiB
    handles: int
    threads: int


def use(minute: float = 0.0) -> Use:
    """What the process holds now, as Linux counts it."""
    status = Path("/proc/self/status").read_text()
    kib = int(status.split("VmRSS:")[1].split()[0])
    handles, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
    return Use(minute, kib / 1024, handles, threads)


def made_up_ratings(seed: int, n_users: int, n_items: int) -> pd.DataFrame:
    """Tastes of one dimension, a tenth of all cells."""
    rng = np.random.default_rng(seed)
    cell = np.sort(rng.choice(n_users * n_items, n_users * n_items // 10, replace=False))
    user, item = np.divmod(cell, n_items)
    taste, kind = rng.normal(size=n_users), rng.normal(size=n_items)
    utility = taste[user] * kind[item] + rng.normal(size=cell.size)
    rating = 1 + np.digitize(utility, [-1.5, -0.5, 0.5, 1.5])
    return pd.DataFrame({"user": user, "item": item, "rating": rating})


def cycle(
    number: int, folder: Path, n_respondents: int | None = None, n_users: int = 600, n_items: int = 200
) -> None:
    """All that users do, once, with files in a folder that is empty again afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        here = Path(name)
        checkpoint = here / "checkpoints" if number % 3 == 2 else None
        answers = orbm.datasets.load_food_world_cup()[:n_respondents]
        survey(number, here, answers, None if checkpoint is None else checkpoint / "survey")
        known = made_up_ratings(number, n_users, n_items)
        ratings(number, here, known, None if checkpoint is None else checkpoint / "ratings")
        baseline(number, here, known)


def survey(seed: int, folder: Path, answers: pd.DataFrame, checkpoint: Path | None) -> None:
    model = orbm.CumulativeRBM.binary(5, n_epochs=3, random_state=seed)
    model.fit(answers, checkpoint=checkpoint, every=1)
    model.save(folder / "survey.orbm")
    again = orbm.load(folder / "survey.orbm")
    again.transform(answers)
    again.predict_proba(answers)
    again.predict(answers)
    again.impute(answers)


def ratings(seed: int, folder: Path, known: pd.DataFrame, checkpoint: Path | None) -> None:
    model = KINDS[seed % TURNS](seed)
    model.fit(known, checkpoint=checkpoint, every=1)
    model.save(folder / "ratings.orbm")
    again = orbm.load(folder / "ratings.orbm")
    again.predict(known["user"], known["item"])
    again.predict_proba(known["user"], known["item"])
    again.recommend("all", n=10)
    new = known["user"].max() + 1
    wider = again.fold_in((np.full(20, new), np.arange(20), 1 + np.arange(20) % 5))
    wider.recommend(new)


def baseline(seed: int, folder: Path, known: pd.DataFrame) -> None:
    model = BASELINES[seed % 2](4, n_epochs=2, random_state=seed).fit(known)
    model.save(folder / "baseline.orbm")
    orbm.load(folder / "baseline.orbm").predict_proba(known["user"], known["item"])


def soak(minutes: float) -> list[Use]:
    """Cycles for so many minutes, with a line for each minute.

    The clock starts when each kind of cycle has been gone through, and all is compiled.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(TURNS):
            cycle(number, folder)
        started, found = time.monotonic(), [use()]
        tell(0, found[0])
        while found[-1].minute < minutes:
            cycle(len(found) - 1, folder)
            gc.collect()
            found.append(use((time.monotonic() - started) / 60))
            if int(found[-1].minute) > int(found[-2].minute):
                tell(len(found) - 1, found[-1])
    return found


def tell(n_cycles: int, now: Use) -> None:
    print(
        f"minute {now.minute:5.1f}  cycles {n_cycles:5d}  memory {now.memory:7.1f} MiB"
        f"  handles {now.handles}  threads {now.threads}",
        flush=True,
    )


def judged(found: list[Use], minutes: float) -> bool:
    """Whether nothing has grown, said in words."""
    window = min(WINDOW, minutes / 6)
    first = [one for one in found if window <= one.minute < 2 * window] or found[:1]
    last = [one for one in found if one.minute >= minutes - window] or found[-1:]
    before, after = (float(np.median([one.memory for one in part])) for part in (first, last))
    ratio = after / before
    handles, threads = ((first[0][i], last[-1][i]) for i in (2, 3))
    print(
        f"\n{len(found) - 1} cycles in {found[-1].minute:.1f} minutes"
        f"\nmemory, median of minutes {window:g} to {2 * window:g}: {before:.1f} MiB; of the "
        f"last {window:g}: {after:.1f} MiB; ratio {ratio:.4f} (limit {LIMIT})"
        f"\nhandles {handles[0]} then {handles[1]}; threads {threads[0]} then {threads[1]}"
    )
    return ratio <= LIMIT and handles[0] >= handles[1] and threads[0] >= threads[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    minutes = parser.parse_args().minutes
    print(f"ordinalrbm {orbm.__version__}, Python {platform.python_version()}, ", end="")
    print(f"{platform.machine()}, threads: {os.environ.get('NUMBA_NUM_THREADS', 'all')}\n")
    fine = judged(soak(minutes), minutes)
    print("flat" if fine else "GROWN")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
