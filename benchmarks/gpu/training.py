"""A whole training on the GPU, to the early stop, on ratings of Netflix' shape.

    python benchmarks/gpu/training.py [--scale 1.0] [--factors 200] [--cpu]

Seconds are counted from ratings in memory (as the learner takes them: positions and levels, users
and films in random order) to a model in memory. ``--cpu`` learns the same on the cores, for a
smaller scale.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from netflix_shaped import made

from ordinalrbm.engine.base import NO_VALUES
from ordinalrbm.matrix import variational_learner
from ordinalrbm.matrix.predict import log_probability
from ordinalrbm.matrix.prepare import hold_out
from ordinalrbm.matrix.variational import Precisions
from ordinalrbm.matrix.variational_learner import GaussianSettings


def settings(n_factors: int, device: str) -> GaussianSettings:
    """Those of OrdinalMF."""
    return GaussianSettings(
        n_factors=n_factors,
        precisions=Precisions(),
        is_point=False,
        n_epochs=30,
        patience=2,
        seed=0,
        device=device,
        verbose=False,
        values=NO_VALUES,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=200, help="at most what ratings can tell")
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    if torch.cuda.is_available():
        print(torch.cuda.get_device_name(), "torch", torch.__version__)
    where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = time.perf_counter()
    data = made(where, given.scale).observations()
    rng = np.random.default_rng(0)
    data, test = hold_out(data, 0.002, rng)
    known, held_out = hold_out(data, 0.05, rng)
    print(
        f"{known.n_rows:,} x {known.n_columns:,}, {known.n_entries:,} ratings, "
        f"{held_out.row.size:,} held out (made in {time.perf_counter() - start:.1f} s)"
    )
    for device in ("cuda", "cpu") if given.cpu else ("cuda",):
        start = time.perf_counter()
        fitted = variational_learner.fit(known, held_out, settings(given.factors, device))
        seconds = time.perf_counter() - start
        nll = -log_probability(fitted.models, test).mean()
        last = fitted.history[-1]
        print(
            f"{device}: {seconds:.2f} s, {last.epoch} epochs ({last.seconds:.2f} s), best "
            f"{fitted.best_epoch}, test NLL {nll:.5f}"
        )
        print("  held out " + " ".join(f"{line.validation:.4f}" for line in fitted.history))
    if torch.cuda.is_available():
        print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the device")


if __name__ == "__main__":
    main()
