"""Model files with right checksums and wrong contents: are all refused, or all answers right?

    python benchmarks/model_files.py [--files 5000] [--kinds vector point ...] [--jobs 2]
        [--all-questions]

Every array of a small model of every kind is filled, in one entry, one row or everywhere, with
numbers that cannot be or hardly can, and then two arrays at a time, at random. A file that loads is
asked everything that its model can answer cheaply: predictions, recommendations, newcomers,
updates, reasons, imputations, likelihoods, samples (by default predictions of each, and one of the
others that is drawn). Probabilities must be finite, not below zero
and add up to one, points must be on the scale, all else must be finite, and NumPy must have no
warning. Files are read by a process of their own: should it end, the file is wrong, too. The exit
code is 1 if a file was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "storage"))

from contents import Outcome, cases, outcome
from stored_models import MAKERS, MORE_MAKERS, file_of

# Longer than this, and a file is taken to keep the process busy for ever.
_LONGEST = 120.0


def outcomes(
    kind: str, every: list[Any], folder: str, *, all_questions: bool
) -> Iterator[tuple[Any, Outcome]]:
    """Each case and what became of it, in a process that is replaced when it ends."""
    source, left = file_of(kind), list(every)
    while left:
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            # Compiled code is loaded before anything is measured.
            pool.submit(outcome, source, (0, ()), folder).result()
            ask = partial(outcome, all_questions=all_questions)
            while left:
                found = pool.submit(ask, source, left[0], folder).result(_LONGEST)
                yield left.pop(0), found
        except (BrokenProcessPool, TimeoutError) as error:
            for process in (pool._processes or {}).values():
                process.kill()
            yield left.pop(0), Outcome(None, [f"the process: {error!r}"], 0.0, 0.0)
        finally:
            pool.shutdown(cancel_futures=True)


def line(kind: str, found: list[tuple[Any, Outcome]]) -> str:
    """One line of the table."""
    refused = sum(one.refusal is not None for _, one in found)
    wrong = sum(bool(one.faults) for _, one in found)
    right = len(found) - refused - wrong
    memory = max(one.megabytes for _, one in found)
    seconds = max(one.seconds for _, one in found)
    numbers = f"{len(found):>8,} {refused:>8,} {right:>17,} {wrong:>6,}"
    return f"{kind:<17}{numbers} {memory:>8.0f} {seconds:>9.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5000, help="of each kind")
    parser.add_argument("--kinds", nargs="+", default=[*MAKERS, *MORE_MAKERS])
    parser.add_argument("--every", type=int, default=1, help="take each so many-th file only")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    parser.add_argument("--all-questions", action="store_true", help="ask each model all of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="kinds side by side")
    arguments = parser.parse_args()
    print(
        f"{'kind':<17}{'files':>8} {'refused':>8} {'loaded and right':>17} {'wrong':>6} "
        f"{'most MB':>8} {'most s':>9}"
    )
    for kind in arguments.kinds:
        file_of(kind)  # models are learnt before, one after the other

    def tried(kind: str) -> list[tuple[Any, Outcome]]:
        every = cases(kind, arguments.files)[arguments.first :: arguments.every]
        with tempfile.TemporaryDirectory() as folder:
            return list(outcomes(kind, every, folder, all_questions=arguments.all_questions))

    n_wrong = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for kind, found in zip(arguments.kinds, pool.map(tried, arguments.kinds), strict=True):
            print(line(kind, found), flush=True)
            for case, one in found:
                if one.faults:
                    n_wrong += 1
                    said = "; ".join(one.faults)[:300]
                    print(f"    {case}: {said}", file=sys.stderr, flush=True)
    if n_wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
