"""What several processes send one another in an epoch of Gaussian factors, and what that costs.

    python benchmarks/plan.py               # predictions, from the constants below
    python benchmarks/plan.py --count 2 4   # the formulas against what is sent; needs torch

docs/scaling.md explains the model. Constants are those measured in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

FLOAT, DOUBLE = 4, 8


class Ratings(NamedTuple):
    """How many there are, of what, and what is learnt from them."""

    ratings: float
    rows: float
    columns: float
    factors: int  # that the ratings can tell, at most
    levels: int = 5

    @property
    def table(self) -> float:
        """Bytes of one number per column and factor."""
        return FLOAT * self.columns * (1 + self.factors)


class Machine(NamedTuple):
    """A rank: how fast it computes, and how fast it is reached by others."""

    name: str
    seconds_per_product: float  # of a rating and one factor, in an epoch
    bytes_per_second: float  # that it receives, while all others do
    seconds_per_message: float
    host: float  # seconds per epoch that every rank spends alike


# benchmarks/results/scaling.txt: 0.425 s for 857,628 ratings with 47 factors. Of what two processes
# on one machine take beyond their half, profiles say that some 14 ms are messages and 14 ms work
# that each of them does.
CORE = Machine("core", 1.03e-8, 0.8e9, 8e-4, 0.014)
# benchmarks/results/gpu.txt: 0.172 s for 100.1 million ratings with 100 factors. How fast GPUs of
# several nodes reach one another is not measured: a network card of 400 Gbit/s each, four fifths
# of it. What every rank does alike is a guess: eigenvectors on the host, and launching kernels.
GPU = Machine("H200", 1.70e-11, 40e9, 5e-5, 0.004)


def received(shape: Ratings, size: int) -> float:
    """Bytes that a rank receives per epoch, on average over those with and without gaps."""
    others = (size - 1) / size
    width, cutpoints = 1 + shape.factors, shape.levels - 1
    # Slope and diagonal, two images; then two directions, means and variances.
    columns = (4 + 4) * shape.table
    # Systems of the gaps, and then cutpoints, gaps and variances, in every other epoch.
    gaps = 0.5 * DOUBLE * shape.columns * (cutpoints**2 + 3 * cutpoints)
    # Twice: sums over all rows, there and back; two rotations, by rank 0.
    small = 2 * DOUBLE * (2 * (width**2 + 2 * width) + 2 * (2 * width**2 + width))
    return others * (columns + gaps + small)


def messages(size: int) -> float:
    """Messages that a rank waits for, likewise; broadcasts of all ranks at once count once."""
    return 0.0 if size == 1 else 12 + 0.5 * 3


def seconds(shape: Ratings, size: int, machine: Machine) -> tuple[float, float]:
    """Of an epoch: computing, and waiting for others."""
    computing = shape.ratings * (1 + shape.factors) * machine.seconds_per_product / size
    waiting = received(shape, size) / machine.bytes_per_second
    waiting += messages(size) * machine.seconds_per_message
    return computing + (machine.host if size > 1 else 0.0), waiting


def most(shape: Ratings, machine: Machine) -> float:
    """Ranks with which receiving takes as long as computing: about where it stops to pay."""
    width = 1 + shape.factors
    computing = shape.ratings * width * machine.seconds_per_product
    return computing * machine.bytes_per_second / (8 * shape.table)


SHAPES = {
    "MovieLens 1M": (Ratings(857_628, 5_289, 3_689, 47), CORE, (1, 2, 4)),
    "Netflix": (Ratings(100e6, 480_189, 17_770, 100), GPU, (1, 8)),
    "10 billion, 17,770 items": (Ratings(10e9, 48e6, 17_770, 100), GPU, (1, 8, 64)),
    "10 billion, 1.8 million items": (Ratings(10e9, 48e6, 1.777e6, 100), GPU, (1, 8, 64, 256)),
}


def predict() -> None:
    for name, (shape, machine, sizes) in SHAPES.items():
        print(f"{name}: up to about {most(shape, machine):,.0f} ranks")
        alone = sum(seconds(shape, 1, machine))
        for size in sizes:
            computing, waiting = seconds(shape, size, machine)
            print(
                f"  {size:4d} x {machine.name:5s} "
                f"{received(shape, size) / 1e6:10,.1f} MB received, "
                f"{computing + waiting:8.4f} s per epoch ({waiting:.4f} waiting), "
                f"{alone / (computing + waiting):6.1f} times one, "
                f"{alone / (computing + waiting) / size:.0%}"
            )


# ---- what is really sent ------------------------------------------------------------------------


class Counter:
    """Bytes that this rank receives, as the algorithms of such messages have it, and calls."""

    def __init__(self, dist: Any, rank: int, size: int) -> None:
        self.bytes, self.calls, others = 0.0, 0, (size - 1) / size
        how = {
            "all_reduce": lambda t: 2 * others * t.nbytes,  # around a ring, and back
            "all_to_all_single": lambda into, out, *sizes: others * into.nbytes,
            "broadcast": lambda t, source: 0 if rank == source else t.nbytes,
        }
        for name, received in how.items():
            setattr(dist, name, self._counted(getattr(dist, name), received))

    def _counted(self, plain: Any, received: Any) -> Any:
        def counted(*tensors: Any, **options: Any) -> Any:
            self.bytes += received(*tensors)
            self.calls += 1
            return plain(*tensors, **options)

        return counted


def count(data: str, rank: int, size: int, folder: Path) -> None:
    """One of the processes: bytes and calls of two epochs, one with gaps and one without."""
    import torch.distributed as dist
    from sources import split

    from ordinalrbm.data.ratings import read_ratings
    from ordinalrbm.matrix import gaussian
    from ordinalrbm.matrix.backends import backend_for
    from ordinalrbm.matrix.prepare import prepare

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)
    data = prepare(read_ratings(split(data)[0]), None, 0.05, seed=0)
    backend = backend_for("cpu")
    n_factors = min(100, gaussian.tellable_factors(data.observations))
    seen = backend.data(data.observations, n_factors)
    start = gaussian.start(data.observations, n_factors, 0, gaussian.Precisions())
    state = backend.to_device(start)
    counter = Counter(dist, rank, size)
    for number in (1, 2):
        state = gaussian.epoch(seen, state, number)
    shape = Ratings(
        data.observations.n_entries, data.observations.n_rows, data.observations.n_columns,
        n_factors,
    )  # fmt: skip
    found = {"bytes": counter.bytes / 2, "calls": counter.calls / 2, "shape": shape}
    (folder / f"{rank}.json").write_text(json.dumps(found))


def compare(data: str, sizes: list[int]) -> None:
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            own = [sys.executable, __file__, "--data", data, "--as"]
            processes = [subprocess.Popen([*own, str(r), str(size), folder]) for r in range(size)]
            if any([process.wait() for process in processes]):
                raise SystemExit("A process has failed.")
            found = [json.loads((Path(folder) / f"{r}.json").read_text()) for r in range(size)]
        shape = Ratings(*found[0]["shape"])
        counted = sum(each["bytes"] for each in found) / size
        print(
            f"{data}, {shape.factors} factors, {size} processes: {counted / 1e6:.3f} MB received "
            f"per rank and epoch in {found[0]['calls']:.1f} calls; the formula says "
            f"{received(shape, size) / 1e6:.3f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--count", type=int, nargs="+", metavar="PROCESSES")
    parser.add_argument("--as", nargs=3, dest="own", metavar=("RANK", "SIZE", "FOLDER"))
    given = parser.parse_args()
    if given.own:
        count(given.data, int(given.own[0]), int(given.own[1]), Path(given.own[2]))
    elif given.count:
        compare(given.data, given.count)
    else:
        predict()


if __name__ == "__main__":
    main()
