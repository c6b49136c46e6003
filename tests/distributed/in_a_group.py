"""Work that the processes of a group do together, and a way to start them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ordinalrbm as orbm
from ordinalrbm import ranks
from ordinalrbm.data.observations import Observations
from ordinalrbm.infer.pairs import Pairs
from ordinalrbm.learn.machines import machine_for
from ordinalrbm.model import continuous

# Nothing of these tests should take longer, on however busy a machine.
PATIENCE = 600
_HERE = Path(__file__).resolve()
_SOURCE = Path(orbm.__file__).resolve().parents[1]


def environment() -> dict[str, str]:
    """One thread each, and the code that is tested."""
    path = os.pathsep.join([str(_SOURCE), str(_HERE.parent)])
    return {**os.environ, "PYTHONPATH": path, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def found_by(work: str, size: int, folder: Path, script: Path = _HERE) -> list[dict[str, Any]]:
    """What each process of a group has found that does the work with this name in a script."""
    run = folder / f"{work}-{size}"
    run.mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), work, str(rank), str(size), str(run)],
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    for process in processes:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
    return [pickle.loads((run / f"{rank}.pickle").read_bytes()) for rank in range(size)]


# ---- what is there to be learnt ------------------------------------------------------------------


def ragged_observations(n_rows: int = 13) -> Observations:
    """Two scales, an empty row, a row with one rating, an empty column."""
    rng = np.random.default_rng(0)
    n_levels = np.array([5, 5, 3, 5, 3, 5, 5])
    dense = rng.integers(0, n_levels, (n_rows, 7))
    dense[rng.random(dense.shape) < 0.3] = -1
    dense[1], dense[2, 1:], dense[2, 0], dense[:, 6] = -1, -1, 2, -1
    return Observations.from_dense(dense, n_levels)


def held_out(n_rows: int) -> Pairs:
    """Of the first and the last row, and of strangers."""
    row = np.array([0, n_rows - 1, 1, -1, 2, -1])
    return Pairs(row, np.array([0, 2, 3, 4, -1, -1]), np.array([4, 1, 2, 2, 3, 0]))


def ratings() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    user, item = (rng.integers(0, size, 900) for size in (50, 30))
    taste = rng.normal(size=(50, 2))[user] * rng.normal(size=(30, 2))[item]
    score = np.clip(np.rint(3 + taste.sum(axis=1) + rng.normal(0, 0.7, 900)), 1, 5).astype(int)
    return pd.DataFrame({"user": user, "item": item, "rating": score}).drop_duplicates(
        ["user", "item"]
    )


# ---- work ---------------------------------------------------------------------------------------


def three_epochs(n_rows: int, watched: Pairs) -> dict[str, Any]:
    """Parties after three epochs, whole, and the likelihood of held-out ratings."""
    observations = ragged_observations(n_rows)
    machine = machine_for(os.environ.get("DEVICE", "cpu"))
    data = machine.data(observations)
    parties = machine.placed(continuous.start(observations, 4, True, seed=0))
    for number in (1, 2, 3):
        parties = continuous.epoch(data, parties, number)
    likelihoods = [
        machine.likelihood(parties, (2, 2), Pairs(*(part[:n] for part in watched)))
        for n in (1, 3, watched.row.size)
    ]
    return {"parties": machine.fetched(parties), "likelihoods": likelihoods}


def ragged(folder: Path) -> dict[str, Any]:
    return three_epochs(13, held_out(13))


def three_rows(folder: Path) -> dict[str, Any]:
    """With four processes, one has no rows."""
    return three_epochs(3, held_out(3))


def whole_fit(folder: Path) -> dict[str, Any]:
    """With the seed left to chance, in which the processes must agree."""
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=4).fit(ratings())
    return {"model": model.model_, "history": model.history_["validation"].to_numpy()}


def fit_with_checkpoints(folder: Path) -> dict[str, Any]:
    """Three epochs, with a checkpoint after each in a folder that all runs share."""
    steps = folder.parent / "steps"
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0)
    model.fit(ratings(), checkpoint=steps, every=1)
    return {"model": model.model_, "history": model.history_["validation"].to_numpy()}


def different_ratings(folder: Path) -> dict[str, Any]:
    rank = ranks.current().rank
    try:
        orbm.MatrixCumulativeRBM(2, 2, random_state=0).fit(ratings().iloc[rank:])
    except orbm.DataError as error:
        return {"error": str(error)}
    return {}


def _join(rank: int, size: int, folder: Path) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)


def work_as_told(works: dict[str, Any]) -> None:
    """Be the process that :func:`found_by` has started."""
    work, rank, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    _join(rank, size, folder)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(works[work](folder)))


if __name__ == "__main__":
    work_as_told(globals())
