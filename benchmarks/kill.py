"""A fit that is killed at random moments, and goes on: does it end with the same model?

    python benchmarks/kill.py [--data ml-100k] [--model ensemble] [--kills 100] [--minutes 5]

Kills are SIGKILL, at moments that are drawn from the length of an undisturbed fit; every other one
then waits for a checkpoint that is being written. When a fit comes to its end before all kills are
done, it is done again from the beginning in a new folder. Hashes of the model files are printed;
the seconds in the history, which are never the same, are set to zero.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sources import ratings

import ordinalrbm as orbm
from ordinalrbm.storage.atomic import LEFT_OVER

# Each fit is a fork of this process, which has imported and read all that it needs, but has never
# run a kernel: threads do not survive a fork.
forks = multiprocessing.get_context("fork")


MODELS = {
    "matrix-crbm": lambda: orbm.MatrixCumulativeRBM(30, 30, random_state=0),
    "ordinal-mf": lambda: orbm.OrdinalMF(60, random_state=0),
    "ensemble": lambda: orbm.RatingEnsemble(
        [orbm.MatrixCumulativeRBM(30, 30), orbm.OrdinalMF(60)], random_state=0
    ),
}


def fit(known: pd.DataFrame, name: str, folder: Path | None, out: Path) -> None:
    """What is killed."""
    model = MODELS[name]()
    model.fit(known, checkpoint=folder, every=1)
    model.history_["seconds"] = 0.0
    model.save(out)


def run(
    known: pd.DataFrame,
    name: str,
    folder: Path | None,
    out: Path,
    limit: float | None = None,
    at_writing: bool = False,
) -> bool:
    """Whether the fit has come to its end before it was killed."""
    process = forks.Process(target=fit, args=(known, name, folder, out))
    left_before = half_written(folder)
    process.start()
    process.join(limit)
    while at_writing and process.is_alive() and not half_written(folder) - left_before:
        time.sleep(0.0005)
    process.kill()
    process.join()
    return process.exitcode == 0


def half_written(folder: Path | None) -> set[Path]:
    """Also what the one before has left, until the next one removes it."""
    return set() if folder is None else set(folder.glob(LEFT_OVER))


def epochs_in(folder: Path) -> str:
    """The newest checkpoint of each part."""
    newest = {path.stem[:-7]: int(path.stem[-6:]) for path in sorted(folder.glob("*.checkpoint"))}
    return ", ".join(f"{part} {epoch}" for part, epoch in newest.items()) or "none"


def hash_of(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def kill_again_and_again(given: argparse.Namespace, home: Path) -> None:
    whole, pieces, folder = home / "whole.orbm", home / "pieces.orbm", home / "kept"
    fits = partial(run, ratings(given.data)[["user", "item", "rating"]], given.model)
    assert fits(None, whole)  # kernels may be compiled, which takes a while
    begun = time.monotonic()
    assert fits(None, whole)
    length = time.monotonic() - begun
    print(f"never stopped        {hash_of(whole)}  ({length:.1f} s)", flush=True)
    rng = np.random.default_rng(given.seed)
    n_kills = n_halves = 0
    left: list[str] = []
    while True:
        is_enough = n_kills >= given.kills or time.monotonic() - begun > 60 * given.minutes
        limit = None if is_enough else float(rng.uniform(0.0, given.share * length))
        left_before = half_written(folder)
        done = fits(folder, pieces, limit, limit is not None and n_kills % 2 == 1)
        if not done:
            n_kills += 1
            n_halves += bool(half_written(folder) - left_before)
            left.append(epochs_in(folder))
            continue
        same = "the same" if hash_of(pieces) == hash_of(whole) else "ANOTHER"
        print(f"killed {len(left):3d} times     {hash_of(pieces)}  {same}", flush=True)
        print(f"  checkpoints left by the kills: {'; '.join(left)}", flush=True)
        shutil.rmtree(folder)
        left.clear()
        if is_enough:
            break
    print(f"{n_kills} kills, {n_halves} of them while a checkpoint was being written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--model", choices=list(MODELS), default="ensemble")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=5.0, help="no more kills after that")
    parser.add_argument("--share", type=float, default=0.3, help="latest moment, of a whole fit")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        kill_again_and_again(given, Path(home))


if __name__ == "__main__":
    main()
