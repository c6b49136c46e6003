"""What is waited for on cores beside learning: the program's start, and the way from file to model.

    python benchmarks/start_up.py [--data ml-1m]

Processor time of an import and of `--help` beyond that of Python itself, the median of five. Then
`ordinalrbm fit` of the ratings as a CSV file, twice; the second finds everything
compiled. Install the package as users do (`pip install .`), with its bytecode.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-1m")
    given = parser.parse_args()
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
