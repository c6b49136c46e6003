"""Two states of the code in turns: what each costs, in one run, as ratios.

    python benchmarks/turns.py --base OTHER_CHECKOUT [--rounds 9] [--only TEXT]

On a machine that others use, too, the same code can take three times as long a minute later. So a
process of each checkout does the same short job, one right after the other, again and again; ratios
are of the medians, and of the best. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()


def jobs() -> dict[str, Callable[[], object]]:
    """What is timed, in the process that times it."""
    import pandas as pd
    from sources import DATA, ratings

    import ordinalrbm as orbm

    films, many = ratings("ml-100k"), ratings("ml-1m")
    pisa = pd.read_parquet(DATA / "pisa2009-north-america.parquet").drop(columns="country").head(1500)
    survey = orbm.CumulativeRBM(20, n_epochs=2, validation_fraction=0.0, random_state=0)
    binary = orbm.CumulativeRBM.binary(20, n_epochs=6, validation_fraction=0.0, random_state=0)
    rater = orbm.OrdinalMF(40, n_epochs=4, random_state=0)
    matrix = orbm.MatrixCumulativeRBM(20, 20, n_epochs=3, random_state=0)
    served = orbm.OrdinalMF(50, n_epochs=3, random_state=0, n_jobs=1).fit(many)
    users = served.users_.labels[np.random.default_rng(1).choice(6000, 200)]
    learnt = orbm.CumulativeRBM(20, n_epochs=1, validation_fraction=0.0, random_state=0).fit(pisa)
    pairs = many["user"][:100_000], many["item"][:100_000]
    program = [sys.executable, "-m", "ordinalrbm", "--help"]
    fresh = {"user": [99_999] * 3, "item": many["item"].unique()[:3], "rating": [5, 4, 1]}

    def new() -> None:
        for _ in range(50):
            served.recommend(ratings=pd.DataFrame(fresh))

    return {
        "survey, fit": lambda: survey.fit(pisa),
        "survey, binary, fit": lambda: binary.fit(pisa),
        "survey, transform": lambda: learnt.transform(pisa),
        "survey, predict_proba": lambda: learnt.predict_proba(pisa.head(500)),
        "ratings, fit of 100 K": lambda: rater.fit(films),
        "ratings, fit of 1 M": lambda: rater.fit(many),
        "ratings, binary factors, fit": lambda: matrix.fit(films),
        "ratings, predict_proba of 100 K": lambda: served.predict_proba(*pairs),
        "ratings, recommend, 200 calls": lambda: [served.recommend(int(user)) for user in users],
        "ratings, 50 new users": new,
        "ratings, recommend to all": lambda: served.recommend("all", n=10),
        "start of the program": lambda: subprocess.run(program, check=True, capture_output=True),
    }


def serve(only: str) -> None:
    """Do the jobs that are asked for on standard input, each answered with its seconds."""
    found = {name: job for name, job in jobs().items() if only in name}
    for job in found.values():
        job()
    print("|".join(found), flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        found[line.strip()]()
        print(time.perf_counter() - begun, flush=True)


def worker(checkout: Path, only: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(checkout / "src"), str(HERE.parent)])
    return subprocess.Popen(
        [sys.executable, str(HERE), "--serve", "--only", only],
        env=os.environ | {"PYTHONPATH": path, "OMP_WAIT_POLICY": "passive"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: subprocess.Popen[str], name: str) -> float:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="a checkout of the state to compare with")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="jobs with this in their names")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.only)
        return
    both = [worker(tree, options.only) for tree in (options.base.resolve(), HERE.parents[1])]
    _, names = (process.stdout.readline().strip().split("|") for process in both if process.stdout)
    print(f"{'':34}{'before, s':>11}{'now, s':>9}{'ratio':>8}{'of best':>9}")
    for name in names:
        seconds = np.array([[ask(each, name) for each in both] for _ in range(options.rounds)])
        middle, best = np.median(seconds, axis=0), seconds.min(axis=0)
        ratios = f"{middle[1] / middle[0]:8.2f}{best[1] / best[0]:9.2f}"
        print(f"{name:34}{middle[0]:11.3f}{middle[1]:9.3f}{ratios}", flush=True)
    for process in both:
        process.terminate()


if __name__ == "__main__":
    main()
