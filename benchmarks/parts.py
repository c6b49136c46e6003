"""Memory and bytes read of processes that learn together: all read all ratings, or each a part.

    python benchmarks/parts.py [--data ml-1m | --made-up 5000000] [--processes 1 2 4] [--read part]

needs torch. Ratings are written to a folder of 8 Parquet files in the order of their time, so that
users are spread over files. Measured is how far the resident memory of a process goes up from when
it begins to read to when it has the model (VmHWM, set back before), with compiled code loaded, and
what it reads of the files (rchar). Two epochs; later ones do the same again. Times are learnt from, and
the model is written to a file. What lists are made of, which process 0 finds, is left out unless --lists
is given.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.runtime import process_group

FILES, ROWS_PER_GROUP = 8, 25_000


def write_folder(frame: pd.DataFrame, folder: Path) -> None:
    if "timestamp" in frame:
        frame = frame.sort_values("timestamp", kind="stable")
    for number in range(FILES):
        part = slice(len(frame) * number // FILES, len(frame) * (number + 1) // FILES)
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", row_group_size=ROWS_PER_GROUP, index=False)


def made_up(n: int) -> pd.DataFrame:
    """So many ratings of 10,000 items, or a few fewer: nobody rates an item twice."""
    rng = np.random.default_rng(0)
    cell = rng.permutation(np.unique(rng.integers(0, 50 * n, n)))
    user, item = np.divmod(cell, 10_000)
    table = {"user": user, "item": item, "rating": rng.integers(1, 6, cell.size)}
    return pd.DataFrame(table | {"timestamp": rng.integers(10**9, 2 * 10**9, cell.size)})


def of_process(file: str, name: str) -> int:
    """A number that the system has of this process."""
    text = Path(f"/proc/self/{file}").read_text()
    return int(text.split(f"{name}:")[1].split()[0])


def measure(folder: Path, how: str, factors: int, lists: bool, file: Path) -> dict[str, float]:
    """Mebibytes of this process: its peak, and what it has read of the files."""
    import ordinalrbm as orbm
    from ordinalrbm.files.formats import read
    from ordinalrbm.files.ratings import ratings_of

    class Noted(orbm.RatingsPart):
        """Ratings that are read when they are asked for, and how much that was."""

        n_read = 0

        def table(self) -> pd.DataFrame:
            before = of_process("io", "rchar")
            found = super().table() if how == "part" else ratings_of(read(folder))
            Noted.n_read += of_process("io", "rchar") - before
            return found

    def fit(n_factors: int, ratings: Any) -> None:
        model = orbm.OrdinalMF(n_factors, n_epochs=2, random_state=0, demand_factors=64 if lists else 0)
        model.fit(ratings).save(file)

    rank = process_group.current().rank if process_group.current() else 0
    few = made_up(2_000)
    fit(2, few)  # compiled code, and connections to the others
    fit(2, orbm.RatingsPart(few if rank == 0 else few.iloc[:0]))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = of_process("status", "VmRSS")
    part = Noted.from_parquet(folder)
    fit(factors, part if how == "part" else part.table())
    return {"peak": (of_process("status", "VmHWM") - before) / 2**10, "read": Noted.n_read / 2**20}


def work(folder: Path, how: str, factors: int, lists: bool, rank: int, size: int, meeting: Path) -> None:
    """One of the processes."""
    if size > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo", f"file://{meeting}/meeting", rank=rank, world_size=size)
    (meeting / f"{rank}.json").write_text(
        json.dumps(measure(folder, how, factors, lists, meeting / f"{rank}.orbm"))
    )


def found(folder: Path, how: str, factors: int, lists: bool, size: int) -> list[dict[str, float]]:
    """What each of so many processes has measured."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as meeting:
        given = [str(folder), how, str(factors), "lists" if lists else ""]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--as", *given, str(rank), str(size), meeting], env=environment
            )
            for rank in range(size)
        ]
        if any([process.wait() for process in processes]):
            raise SystemExit("A process has failed.")
        return [json.loads((Path(meeting) / f"{rank}.json").read_text()) for rank in range(size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--made-up", type=int, metavar="RATINGS")
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--lists", action="store_true")
    parser.add_argument("--read", nargs="+", choices=["all", "part"], default=["all", "part"])
    parser.add_argument("--as", nargs=7, dest="own", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.own:
        folder, how, factors, lists, rank, size, meeting = given.own
        work(Path(folder), how, int(factors), bool(lists), int(rank), int(size), Path(meeting))
        return
    from sources import ratings

    frame = made_up(given.made_up) if given.made_up else ratings(given.data)
    print(
        f"{len(frame):,} ratings by {frame['user'].nunique():,} users of "
        f"{frame['item'].nunique():,} items; {given.factors} factors"
    )
    print(f"{'processes':>9}  {'each reads':10}  {'MiB read':>20}  MiB at the peak", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(frame, Path(folder))
        del frame
        for size in given.processes:
            for how in given.read:
                all_ranks = found(Path(folder), how, given.factors, given.lists, size)
                read = " ".join(f"{each['read']:.2f}" for each in all_ranks)
                peak = " ".join(f"{each['peak']:.0f}" for each in all_ranks)
                print(f"{size:>9}  {how:10}  {read:>20}  {peak}", flush=True)


if __name__ == "__main__":
    main()
