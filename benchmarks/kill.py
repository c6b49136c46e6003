"""A fit that is killed at random moments, and goes on: does it end with the same model?

    python benchmarks/kill.py [--data ml-100k] [--factors mixed] [--kills 100] [--minutes 5]

Kills are SIGKILL, at moments that are drawn from the length of an undisturbed fit; every other one
then waits for a checkpoint that is being written. When a fit comes to its end before all kills are
done, it is done again from the beginning in a new folder. Hashes of the model files are printed;
the seconds in the history, which are never the same, are set to zero.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sources import ratings

import ordinalrbm as orbm
from ordinalrbm.whole import LEFT_OVER

CHILD = "--child"


def fit(data: str, factors: str, folder: str, out: str) -> None:
    """What is killed: says when it begins, so that moments are those of learning."""
    known = ratings(data)[["user", "item", "rating"]]
    model = orbm.MatrixCumulativeRBM(30, 30, factors=factors, random_state=0)
    print("begins", flush=True)
    model.fit(known, checkpoint=folder or None, every=1)
    model.history_["seconds"] = 0.0
    model.save(out)


def run(
    given: argparse.Namespace, folder: Path | str, out: Path, limit: float | None, at_writing: bool
) -> bool:
    """Whether the fit has come to its end before it was killed."""
    command = [sys.executable, __file__, CHILD, given.data, given.factors, str(folder), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        while at_writing and process.poll() is None and not half_written(folder):
            time.sleep(0.0005)
        process.kill()
    process.stdout.close()
    return process.wait() == 0


def half_written(folder: Path | str) -> bool:
    return any(Path(folder).glob(LEFT_OVER))


def epochs_in(folder: Path) -> str:
    """The newest checkpoint of each part."""
    newest = {
        path.stem.split("-")[0]: int(path.stem[-6:]) for path in sorted(folder.glob("*.checkpoint"))
    }
    return ", ".join(f"{part} {epoch}" for part, epoch in newest.items()) or "none"


def hash_of(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def kill_again_and_again(given: argparse.Namespace, home: Path) -> None:
    whole, pieces, folder = home / "whole.orbm", home / "pieces.orbm", home / "kept"
    assert run(given, "", whole, None, False)  # kernels may be compiled, which takes a while
    begun = time.monotonic()
    assert run(given, "", whole, None, False)
    length = time.monotonic() - begun
    print(f"never stopped        {hash_of(whole)}  ({length:.1f} s)", flush=True)
    rng = np.random.default_rng(given.seed)
    n_kills = n_halves = 0
    left: list[str] = []
    while True:
        is_enough = n_kills >= given.kills or time.monotonic() - begun > 60 * given.minutes
        limit = None if is_enough else float(rng.uniform(0.0, given.share * length))
        done = run(given, folder, pieces, limit, n_kills % 2 == 1)
        if not done:
            n_kills += 1
            n_halves += half_written(folder)
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
    if sys.argv[1:2] == [CHILD]:
        fit(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--factors", default="mixed")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=5.0, help="no more kills after that")
    parser.add_argument("--share", type=float, default=0.3, help="latest moment, of a whole fit")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        kill_again_and_again(given, Path(home))


if __name__ == "__main__":
    main()
