"""What is waited for on cores beside learning: compiling, the program's start, the way from file to model.

    python benchmarks/start_up.py [--data ml-1m]
    python benchmarks/start_up.py --compile

Processor time of an import and of `--help` beyond that of Python itself, the median of five. Then
`ordinalrbm fit` of the ratings as a CSV file, twice; the second finds everything
compiled. Install the package as users do (`pip install .`), with its bytecode.

With --compile: processor seconds of compiling, by kernel, each from an empty folder: of a survey's first
fit, of a rating model's, and of all that the tests use.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from numba.core import event
from sources import ratings

PROGRAM = [sys.executable, "-m", "ordinalrbm"]
STARTS = {
    "import ordinalrbm": [sys.executable, "-c", "import ordinalrbm"],
    "ordinalrbm --help": [*PROGRAM, "--help"],
    "import of OrdinalMF": [sys.executable, "-c", "import ordinalrbm; ordinalrbm.OrdinalMF"],
}


def processor_seconds(command: list[str]) -> float:
    """The median of five runs."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return float(np.median(found))


def survey() -> None:
    import ordinalrbm as orbm

    answers = np.random.default_rng(0).integers(1, 6, (60, 5)).astype(float)
    answers[::7, ::2] = np.nan
    model = orbm.CumulativeRBM(2, random_state=0, n_epochs=2).fit(answers)
    model.predict_proba(answers)
    model.impute(answers)
    model.factor_solution()


def rater() -> None:
    import ordinalrbm as orbm

    user, item = np.nonzero(np.random.default_rng(0).random((60, 20)) < 0.6)
    model = orbm.OrdinalMF(2, random_state=0, n_epochs=2).fit((user, item, (user + item) % 5 + 1))
    model.recommend(0)
    model.recommend("all")


def warm_up() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from warm_up import use

    use("surveys")
    use("ratings")


FIRST_USES = {use.__name__: use for use in (survey, rater, warm_up)}


class Compiling(event.Listener):
    """Processor seconds of each kernel, with what becomes part of it."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.seconds: Counter[str] = Counter()
        self.signatures: Counter[str] = Counter()

    def on_start(self, happening: event.Event) -> None:
        self.begun.append(time.process_time())

    def on_end(self, happening: event.Event) -> None:
        begun, function = self.begun.pop(), happening.data["dispatcher"].py_func
        if not self.begun:
            name = f"{function.__module__}.{function.__qualname__}"
            self.seconds[name] += time.process_time() - begun
            self.signatures[name] += 1


def compile_for(name: str) -> None:
    warnings.simplefilter("ignore")  # there are many about so few answers
    compiling = Compiling()
    event.register("numba:compile", compiling)
    FIRST_USES[name]()
    total, n = compiling.seconds.total(), compiling.signatures.total()
    print(f"--- {name}: {total:.1f} s of processor time, {len(compiling.seconds)} kernels, {n} signatures")
    for kernel, seconds in compiling.seconds.most_common():
        print(f"{seconds:7.2f} s {compiling.signatures[kernel]:3} {kernel}", flush=True)


def compile_all() -> None:
    for name in FIRST_USES:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, __file__, "--first-use", name], check=True, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--first-use", choices=FIRST_USES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.first_use:
        compile_for(given.first_use)
        return
    if given.compile:
        compile_all()
        return
    python = processor_seconds([sys.executable, "-c", "pass"])
    print(f"{os.cpu_count()} cores; Python itself {python:.3f} s of processor time", flush=True)
    for name, command in STARTS.items():
        print(f"{name:20} {processor_seconds(command) - python:7.3f} s more", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings.csv"
        ratings(given.data).to_csv(file, index=False)
        command = [*PROGRAM, "fit", file.name, "--out", "a.orbm", "--seed", "0", "--quiet"]
        for which in ("first", "second"):
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
            print(f"--- {which} fit: {time.perf_counter() - begun:.1f} s in all", flush=True)


if __name__ == "__main__":
    main()
