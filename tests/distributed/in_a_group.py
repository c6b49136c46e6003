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
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.engine.side import Batch, Statistics
from ordinalrbm.matrix import binary_learner as alternate
from ordinalrbm.matrix import gaussian
from ordinalrbm.matrix import model as matrix
from ordinalrbm.matrix.binary_backends import Sampling
from ordinalrbm.matrix.gaussian_backends import backend_for
from ordinalrbm.runtime import process_group
from ordinalrbm.training.checkpoint import CheckpointWriter

# Nothing of these tests should take longer, on however busy a machine.
PATIENCE = 600
DEVICE = os.environ.get("DEVICE", "cpu")
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


def held_out(n_rows: int) -> Cells:
    """Of the first and the last row, and of strangers."""
    row = np.array([0, n_rows - 1, 1, -1, 2, -1])
    return Cells(row, np.array([0, 2, 3, 4, -1, -1]), np.array([4, 1, 2, 2, 3, 0]))


def ratings() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    user, item = (rng.integers(0, size, 900) for size in (50, 30))
    taste = rng.normal(size=(50, 2))[user] * rng.normal(size=(30, 2))[item]
    score = np.clip(np.rint(3 + taste.sum(axis=1) + rng.normal(0, 0.7, 900)), 1, 5).astype(int)
    return pd.DataFrame({"user": user, "item": item, "rating": score}).drop_duplicates(
        ["user", "item"]
    )


# ---- work ---------------------------------------------------------------------------------------


def three_epochs(n_rows: int, watched: Cells) -> dict[str, Any]:
    """Parties after three epochs, whole, and the likelihood of held-out ratings."""
    observations = ragged_observations(n_rows)
    backend = backend_for(DEVICE)
    data = backend.data(observations)
    parties = backend.to_device(gaussian.start(observations, 4, True, seed=0))
    for number in (1, 2, 3):
        parties = gaussian.epoch(data, parties, number)
    likelihoods = [
        backend.likelihood(parties, (2, 2), Cells(*(part[:n] for part in watched)))
        for n in (1, 3, watched.row.size)
    ]
    return {"parties": backend.to_host(parties), "likelihoods": likelihoods}


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
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0)
    model.fit(ratings(), checkpoint=folder.parent / "kept", every=1)
    return {"model": model.model_, "history": model.history_["validation"].to_numpy()}


def killed_after(epochs: int) -> Any:
    """For ``CheckpointWriter.after``: the state is written as usual, and then learning ends."""
    after = CheckpointWriter.after

    def killed(writer: Any, learner: Any, state: Any = None) -> None:
        after(writer, learner, state)
        if len(learner.history) == epochs:
            raise RuntimeError("killed")

    return killed


def stopped_after_two_epochs(folder: Path) -> dict[str, Any]:
    """The same, but for the end."""
    plain, CheckpointWriter.after = CheckpointWriter.after, killed_after(2)
    try:
        return fit_with_checkpoints(folder)
    except RuntimeError:
        return {}
    finally:
        CheckpointWriter.after = plain


# ---- binary factors


def long_and_short() -> Observations:
    """Most rows have a few ratings, one has all; an empty row, one with one rating."""
    rng = np.random.default_rng(2)
    dense = rng.integers(0, 5, (31, 23))
    dense[rng.random(dense.shape) < 0.7] = -1
    dense[5] = rng.integers(0, 5, 23)
    dense[7], dense[8], dense[8, 3] = -1, -1, 2
    return Observations.from_dense(dense, 5)


def binary_learner(
    observations: Observations, n_row_factors: int, n_column_factors: int, **options: Any
) -> Any:
    """The learner of binary factors, before its first epoch."""
    estimator = orbm.MatrixCumulativeRBM(
        n_row_factors, n_column_factors, factors="binary", device=DEVICE,
        **({"batch_size": 6} | options),
    )  # fmt: skip
    model = matrix.start(observations, n_row_factors, n_column_factors, 0)
    return alternate._Learner(
        model, observations, held_out(observations.n_rows), estimator._settings(0)
    )


def _on_host(part: Any) -> np.ndarray:
    return part if isinstance(part, np.ndarray) else part.cpu().numpy()


def phases(n_row_factors: int, n_column_factors: int, is_contrastive: bool) -> dict[str, Any]:
    """Both phases of all batches of both processes, without a step in between."""
    learner = binary_learner(long_and_short(), n_row_factors, n_column_factors)
    backend, learnt, statistics = learner.backend, learner.learnt, []
    for process in learner.processes:
        side = backend.side(process, learnt.model)
        for first in range(0, process.n_rows, 6):
            batch = Batch(first, min(first + 6, process.n_rows), 2**40 + 7, 3, 2)
            how = Sampling(is_contrastive, 0.4)
            found = backend.phases(process, side, learnt, batch, how)
            statistics.append([Statistics(*map(_on_host, phase)) for phase in found])
    return {
        "learnt": backend.to_host(learnt),
        "statistics": statistics,
        "rows": np.arange(31) if backend.group is None else backend.rows,
    }


def chains(folder: Path) -> dict[str, Any]:
    """Different numbers of factors on both sides, one each, and none of the columns."""
    return {
        "different": phases(4, 2, True),
        "one": phases(1, 1, False),
        "rows only": phases(3, 0, True),
    }


def binary_epochs(observations: Observations, **options: Any) -> dict[str, Any]:
    """Three epochs: all that has moved, whole, and the likelihoods of held-out ratings."""
    learner = binary_learner(observations, 2, 3, **options)
    for _ in range(3):
        learner.epoch()
    return {
        "learnt": learner.backend.to_host(learner.learnt),
        "likelihoods": [line.validation for line in learner.history],
    }


def three_binary_epochs(folder: Path) -> dict[str, Any]:
    """Two scales; all rows in one batch, so that some of four processes have none; long rows."""
    return {
        "two scales": binary_epochs(ragged_observations(13), free_phase="persistent"),
        "one batch": binary_epochs(ragged_observations(3), batch_size=300),
        "long": binary_epochs(long_and_short(), gibbs_steps=2, weight_decay=3.0),
    }


def _predictions(model: Any) -> np.ndarray:
    users, items = np.divmod(np.arange(50 * 30), 30)
    return model.predict_proba(users, items)


def binary_fits(folder: Path) -> dict[str, Any]:
    """What the estimator predicts after three epochs."""
    found = {}
    for kind in ("binary", "mixed"):
        model = orbm.MatrixCumulativeRBM(
            2, 3, factors=kind, n_epochs=3, batch_size=16, random_state=0
        )
        found[kind] = _predictions(model.fit(ratings()))
    return found


def binary(folder: Path) -> dict[str, Any]:
    """All of it in one run: starting processes is what takes time."""
    return {
        "chains": chains(folder),
        "epochs": three_binary_epochs(folder),
        "fits": binary_fits(folder),
    }


def binary_fit_with_checkpoints(folder: Path) -> dict[str, Any]:
    """Four epochs, with a checkpoint after each in a folder that all runs share."""
    model = orbm.MatrixCumulativeRBM(
        2, 2, factors="binary", n_epochs=4, batch_size=16, free_phase="persistent", random_state=0
    )
    model.fit(ratings(), checkpoint=folder.parent / "kept", every=1)
    return {"model": model.model_, "history": model.history_["validation"].to_numpy()}


def binary_fit_killed_and_resumed(folder: Path) -> dict[str, Any]:
    """Killed after two epochs, and gone on with; and the same in one go."""
    runs = folder.parent / "killed", folder.parent / "unharmed"
    plain, CheckpointWriter.after = CheckpointWriter.after, killed_after(2)
    try:
        binary_fit_with_checkpoints(runs[0] / "run")
        return {}
    except RuntimeError:
        pass
    finally:
        CheckpointWriter.after = plain
    process_group.current().total(0.0)  # nobody looks for a checkpoint before it is written
    return {
        "resumed": binary_fit_with_checkpoints(runs[0] / "run"),
        "unharmed": binary_fit_with_checkpoints(runs[1] / "run"),
    }


def different_ratings(folder: Path) -> dict[str, Any]:
    rank = process_group.current().rank
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
