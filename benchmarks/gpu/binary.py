"""Binary factors on the GPU: seconds per epoch, and whether the held-out likelihood is the cores'.

    python benchmarks/gpu/binary.py [ratings.npz] [--epochs 3] [--scale 1.0] [--factors 100]

First a few epochs on made-up ratings of Netflix' shape, for two sizes of batches. Then, if a file
is given, MovieLens 1M on the GPU and on the cores with the same seed; the file is that of
benchmarks/gpu/movielens.py.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from movielens import learnt_and_scored
from netflix_shaped import made

import ordinalrbm as orbm
from ordinalrbm.matrix import binary_learner
from ordinalrbm.matrix.binary_learner import BinarySettings
from ordinalrbm.matrix.prepare import hold_out

# The first of these also compiles.
BATCHES = (300, 3000)
# Chains part where a uniform number ties with its probability, and then are other draws from the
# same posterior: what both devices agree in is the mean over seeds.
SEEDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--movielens-factors", type=int, default=50)
    parser.add_argument("--movielens-epochs", type=int, default=None)
    given = parser.parse_args()
    if torch.cuda.is_available():
        print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    if given.scale:
        of_netflix_shape(given.scale, given.factors, given.epochs)
    if given.file is not None:
        of_movielens(given.file, given.movielens_factors, given.movielens_epochs)


def of_netflix_shape(scale: float, n_factors: int, n_epochs: int) -> None:
    where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = time.perf_counter()
    data = made(where, scale).observations()
    known, held_out = hold_out(data, 0.002, np.random.default_rng(0))
    print(
        f"{known.n_rows:,} x {known.n_columns:,}, {known.n_entries:,} ratings, "
        f"{held_out.row.size:,} held out (made in {time.perf_counter() - start:.1f} s)"
    )
    for batch_size in BATCHES:
        how = BinarySettings(
            n_row_factors=n_factors,
            n_column_factors=n_factors,
            n_epochs=n_epochs,
            batch_size=batch_size,
            learning_rate=0.15,
            gibbs_steps=1,
            free_phase="contrastive",
            memory=0.5,
            weight_decay=None,
            patience=5,
            calibrate=False,
            seed=0,
            device="cuda",
            verbose=False,
        )
        start = time.perf_counter()
        fitted = binary_learner.fit(known, held_out, how)
        seconds = time.perf_counter() - start
        bounds = [line.seconds for line in fitted.history]
        print(
            f"batches of {batch_size}: {seconds:.2f} s in all, epochs "
            + " ".join(f"{each:.2f}" for each in np.diff(bounds, prepend=0.0))
            + " s, held out "
            + " ".join(f"{line.validation:.4f}" for line in fitted.history),
            flush=True,
        )
    if torch.cuda.is_available():
        print(f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the device", flush=True)


def of_movielens(file: Path, n_factors: int, n_epochs: int | None) -> None:
    ratings = pd.DataFrame(dict(np.load(file)))
    train, validation, test = orbm.evaluate.split(ratings, protocol="chronological", other_users="drop")
    for seed, device in itertools.product(range(SEEDS), ("cuda", "cpu")):  # the first compiles
        model = orbm.MatrixCumulativeRBM(
            n_factors, n_factors, n_epochs=n_epochs, random_state=seed, device=device
        )
        said = learnt_and_scored(model, train, validation, test)
        print(f"seed {seed}  {device:5s} {said}", flush=True)


if __name__ == "__main__":
    main()
