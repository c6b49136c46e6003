"""What several processes send one another in an epoch of Gaussian factors, and what that costs.

    python benchmarks/plan.py               # predictions, from the constants below
    python benchmarks/plan.py --count 2 4   # the formulas against what is sent; needs torch

benchmarks/scaling.md explains the model. Constants are those measured in benchmarks/results.
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
_REGRESSION = 2  # steps of conjugate gradients, for the weights of rated sets


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
# benchmarks/results/gpu.txt: 5.49 s for 28 epochs of a fit, 100.1 million ratings, 100 factors.
# How fast GPUs of several nodes reach one another is not measured: a network card of 400 Gbit/s
# each, four fifths of it. What every rank does alike is a guess: eigenvectors on the host, and
# launching kernels.
GPU = Machine("H200", 1.94e-11, 40e9, 5e-5, 0.004)
# benchmarks/results/gpu-billion.txt: 1.755 s per epoch, 1.05 billion ratings, 50 factors. Ten
# times the users no longer fit into the caches, and with fewer factors what is the same for every
# rating counts for more.
LARGE = GPU._replace(name="H200, slow", seconds_per_product=3.27e-11)


class Measured(NamedTuple):
    """An epoch on one GPU, and where it stands."""

    what: str
    file: str
    ratings: int
    factors: int
    seconds: float

    @property
    def slope(self) -> float:
        """Seconds per rating and factor."""
        return self.seconds / self.ratings / (1 + self.factors)


MEASURED = (
    Measured("epochs alone", "gpu.txt", 100_120_121, 100, 0.172),
    Measured("a fit", "gpu.txt", 100_120_121, 100, 5.49 / 28),
    Measured("a fit", "gpu-billion.txt", 1_051_516_232, 50, (1.48 + 2.03) / 2),
)


def received(shape: Ratings, size: int) -> float:
    """Bytes that a rank receives per epoch, on average over those with and without gaps."""
    others = (size - 1) / size
    width, cutpoints = 1 + shape.factors, shape.levels - 1
    # Slope and diagonal, two images; then two directions, means and variances.
    columns = (4 + 4) * shape.table
    # Rated sets: what weights make of columns, or columns of weights, is summed, there and back.
    rated_sets = 2 * _REGRESSION * 2 * shape.table
    # Systems of the gaps, and then cutpoints, gaps and variances, in every other epoch.
    gaps = 0.5 * DOUBLE * shape.columns * (cutpoints**2 + 3 * cutpoints)
    # Four times: sums over all rows, there and back. Twice: two rotations, by rank 0.
    small = DOUBLE * (4 * 2 * (width**2 + 2 * width) + 2 * 2 * (2 * width**2 + width))
    # Averages of rated sets, likewise there and back.
    small += 5 * _REGRESSION * 2 * DOUBLE * width
    return others * (columns + rated_sets + gaps + small)


def messages(size: int) -> float:
    """Messages that a rank waits for, likewise; broadcasts of all ranks at once count once."""
    return 0.0 if size == 1 else 12 + 0.5 * 3 + 7 * _REGRESSION + 3


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
    return computing * machine.bytes_per_second / ((8 + 4 * _REGRESSION) * shape.table)


SHAPES = {
    "MovieLens 1M": (Ratings(857_628, 5_289, 3_689, 47), CORE, (1, 2, 4)),
    "Netflix": (Ratings(100e6, 480_189, 17_770, 100), GPU, (1, 8)),
    "10 billion, 17,770 items": (Ratings(10e9, 48e6, 17_770, 100), GPU, (1, 8, 64)),
    "the same, slow": (Ratings(10e9, 48e6, 17_770, 100), LARGE, (1, 8, 64)),
    "10 billion, 1.8 million items": (Ratings(10e9, 48e6, 1.777e6, 100), GPU, (1, 8, 64, 256)),
    "that, slow": (Ratings(10e9, 48e6, 1.777e6, 100), LARGE, (1, 8, 64, 256)),
}


def predict() -> None:
    for name, (shape, machine, sizes) in SHAPES.items():
        print(f"{name}: up to about {most(shape, machine):,.0f} ranks")
        alone = sum(seconds(shape, 1, machine))
        for size in sizes:
            computing, waiting = seconds(shape, size, machine)
            print(
                f"  {size:4d} x {machine.name:10s} "
                f"{received(shape, size) / 1e6:10,.1f} MB received, "
                f"{computing + waiting:8.4f} s per epoch ({waiting:.4f} waiting), "
                f"{alone / (computing + waiting):6.1f} times one, "
                f"{alone / (computing + waiting) / size:.0%}"
            )


def check() -> None:
    """Seconds per rating and factor that were measured, against what the first of them says."""
    for each in MEASURED:
        print(
            f"{each.what} ({each.file}): {each.ratings:,} ratings, {each.factors} factors, "
            f"{each.seconds:.3f} s per epoch: {each.slope * 1e12:.1f} ps per rating and factor, "
            f"{each.slope / MEASURED[0].slope:.2f} times the first"
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


def noted_epochs(counter: Counter) -> list[tuple[float, int, Ratings]]:
    """A list that grows by what was received and called so far, whenever an epoch has ended."""
    from ordinalrbm.training.checkpoint import CheckpointWriter

    after, so_far = CheckpointWriter.after, []

    def noted(writer: Any, learner: Any, state: Any = None) -> None:
        after(writer, learner, state)
        seen = learner.observations
        shape = Ratings(seen.n_entries, seen.n_rows, seen.n_columns, learner.gaussian.n_factors)
        so_far.append((counter.bytes, counter.calls, shape))

    CheckpointWriter.after = noted
    return so_far


def of_one_epoch(so_far: list[tuple[float, int, Ratings]]) -> dict[str, Any]:
    """Bytes and calls, on average over the last two epochs: one with gaps and one without."""
    (before, calls_before, _), (now, calls, shape) = so_far[-3], so_far[-1]
    return {"bytes": (now - before) / 2, "calls": (calls - calls_before) / 2, "shape": shape}


def count(data: str, rank: int, size: int, folder: Path) -> None:
    """One of the processes, in a fit of six epochs; rated sets count from the third on."""
    import torch.distributed as dist
    from sources import split

    import ordinalrbm as orbm

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)
    so_far = noted_epochs(Counter(dist, rank, size))
    orbm.OrdinalMF(100, n_epochs=6, random_state=0).fit(split(data)[0])
    (folder / f"{rank}.json").write_text(json.dumps(of_one_epoch(so_far)))


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
        check()
        predict()


if __name__ == "__main__":
    main()
