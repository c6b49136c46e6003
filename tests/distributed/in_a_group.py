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
from ordinalrbm.matrix import binary_learner, gaussian
from ordinalrbm.matrix import model as matrix
from ordinalrbm.matrix.backends import backend_for
from ordinalrbm.matrix.binary_learner import BinarySettings
from ordinalrbm.matrix.binary_state import Sampling
from ordinalrbm.matrix.gaussian import Precisions
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.runtime import process_group
from ordinalrbm.training.checkpoint import CheckpointWriter

# Nothing of these tests should take longer, on however busy a computer.
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
    said = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    # The one that failed first says why; the others say only that they have lost it.
    assert not any(process.returncode for process in processes), "\n".join(said)
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
    """Of the first and the last row, and of unknown rows and columns."""
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


def three_epochs(n_rows: int) -> dict[str, Any]:
    """The state after three epochs, whole, and the likelihood of held-out ratings."""
    observations, watched = ragged_observations(n_rows), held_out(n_rows)
    backend = backend_for(DEVICE)
    data = backend.data(observations, 4)
    state = backend.to_device(gaussian.start(observations, 4, 0, Precisions()))
    for number in (1, 2, 3):
        state = gaussian.epoch(data, state, number)
    model = GaussianModel.of_state(state)
    likelihoods = [
        backend.log_probability(model, Cells(*(part[:n] for part in watched)))
        for n in (1, 3, watched.row.size)
    ]
    return {"state": backend.to_host(state), "likelihoods": np.concatenate(likelihoods)}


def gaussian_epochs() -> dict[str, Any]:
    """With four processes, one has none of three rows."""
    return {"ragged": three_epochs(13), "three rows": three_epochs(3)}


def about(model: Any) -> dict[str, Any]:
    return {"model": model.model_, "history": model.history_["validation"].to_numpy()}


def whole_fit() -> dict[str, Any]:
    """With the seed left to chance, in which the processes must agree."""
    return about(orbm.OrdinalMF(4, n_epochs=4).fit(ratings()))


def fit_with_checkpoints(folder: Path) -> dict[str, Any]:
    """Three epochs, with a checkpoint after each."""
    model = orbm.OrdinalMF(4, n_epochs=3, random_state=0)
    return about(model.fit(ratings(), checkpoint=folder, every=1))


def binary_fit_with_checkpoints(folder: Path) -> dict[str, Any]:
    """Four epochs, with a checkpoint after each."""
    model = orbm.MatrixCumulativeRBM(
        2, 2, n_epochs=4, batch_size=16, free_phase="persistent", random_state=0
    )
    return about(model.fit(ratings(), checkpoint=folder, every=1))


def sampled_fit(folder: Path | None, **changes: Any) -> dict[str, Any]:
    """Eighteen sweeps, the draws kept in blocks that do not come out even; a checkpoint each."""
    given = {"n_draws": 24, "n_epochs": 18, "random_state": 0} | changes
    model = orbm.OrdinalMF(3, posterior="sampled", **given)
    model.fit(ratings(), checkpoint=folder, every=1)
    return {
        "draws": model.draws_.to_arrays(),
        "predicted": _predictions(model),
        # who needs the weights of rated sets, too
        "newcomer": model.fold_in(([99, 99], [1, 2], [5, 1])).predict_proba(99, np.arange(30)),
        "history": model.history_["log_likelihood"].to_numpy(),
    }


def refused_part() -> str:
    part = orbm.RatingsPart(ratings().iloc[process_group.current().rank :: 2])
    try:
        orbm.OrdinalMF(3, posterior="sampled", n_epochs=4, random_state=0).fit(part)
    except orbm.DataError as error:
        return str(error)
    return ""


def killed_after(epochs: int, fit: Any, folder: Path) -> None:
    """A fit whose last checkpoint is written as usual, and then learning ends."""
    plain = CheckpointWriter.after

    def killed(writer: Any, learner: Any, state: Any = None) -> None:
        plain(writer, learner, state)
        if len(learner.history) == epochs:
            raise RuntimeError("killed")

    CheckpointWriter.after = killed
    try:
        fit(folder)
    except RuntimeError:
        pass
    finally:
        CheckpointWriter.after = plain
    if process_group.current() is not None:
        process_group.current().counts(0)  # nobody looks for a checkpoint before it is written


def different_ratings() -> str:
    rank = process_group.current().rank
    try:
        orbm.OrdinalMF(4, random_state=0).fit(ratings().iloc[rank:])
    except orbm.DataError as error:
        return str(error)
    return ""


# ---- binary factors


def long_and_short() -> Observations:
    """Most rows have a few ratings, one has all; an empty row, one with one rating."""
    rng = np.random.default_rng(2)
    dense = rng.integers(0, 5, (31, 23))
    dense[rng.random(dense.shape) < 0.7] = -1
    dense[5] = rng.integers(0, 5, 23)
    dense[7], dense[8], dense[8, 3] = -1, -1, 2
    return Observations.from_dense(dense, 5)


def learner_of(
    observations: Observations, n_row_factors: int, n_column_factors: int, **options: Any
) -> Any:
    """The learner of binary factors, before its first epoch."""
    given = {
        "n_epochs": 15, "batch_size": 6, "learning_rate": 0.15, "gibbs_steps": 1,
        "free_phase": "contrastive", "memory": 0.5, "weight_decay": None, "patience": 5,
        "n_averaged": 1, "calibrate": True, "seed": 0, "device": DEVICE, "verbose": False,
    }  # fmt: skip
    settings = BinarySettings(n_row_factors, n_column_factors, **(given | options))
    model = matrix.start(observations, n_row_factors, n_column_factors, 0)
    return binary_learner._Learner(model, observations, held_out(observations.n_rows), settings)


def _on_host(part: Any) -> np.ndarray:
    return part if isinstance(part, np.ndarray) else part.cpu().numpy()


def phases(n_row_factors: int, n_column_factors: int, is_contrastive: bool) -> dict[str, Any]:
    """Both phases of all batches of both processes, without a step in between."""
    learner = learner_of(long_and_short(), n_row_factors, n_column_factors)
    backend, state, statistics = learner.backend, learner.binary, []
    for process in learner.processes:
        side = backend.side(process, state)
        for first in range(0, process.n_rows, 6):
            batch = Batch(first, min(first + 6, process.n_rows), 2**40 + 7, 3, 2)
            how = Sampling(is_contrastive, 0.4)
            found = backend.phases(process, side, state, batch, how)
            statistics.append([Statistics(*map(_on_host, phase)) for phase in found])
    return {
        "state": backend.to_host(state),
        "statistics": statistics,
        "rows": np.arange(31) if backend.group is None else backend.rows,
    }


def chains() -> dict[str, Any]:
    """Different numbers of factors on both sides, one each, and none of the columns."""
    return {
        "different": phases(4, 2, True),
        "one": phases(1, 1, False),
        "rows only": phases(3, 0, True),
    }


def binary_epochs(observations: Observations, **options: Any) -> dict[str, Any]:
    """Three epochs: all that has moved, whole, and the likelihoods of held-out ratings."""
    learner = learner_of(observations, 2, 3, **options)
    for _ in range(3):
        learner.epoch()
    return {
        "state": learner.backend.to_host(learner.binary),
        "likelihoods": [line.validation for line in learner.history],
    }


def three_binary_epochs() -> dict[str, Any]:
    """Two scales; all rows in one batch, so that some of four processes have none; long rows."""
    return {
        "two scales": binary_epochs(ragged_observations(13), free_phase="persistent"),
        "one batch": binary_epochs(ragged_observations(3), batch_size=300),
        "long": binary_epochs(long_and_short(), gibbs_steps=2, weight_decay=3.0),
    }


def _predictions(model: Any) -> np.ndarray:
    users, items = np.divmod(np.arange(50 * 30), 30)
    return model.predict_proba(users, items)


def fits() -> dict[str, Any]:
    """What estimators predict after three epochs."""
    binary = orbm.MatrixCumulativeRBM(2, 3, n_epochs=3, batch_size=16, random_state=0)
    members = [binary, orbm.OrdinalMF(5, n_epochs=3)]
    models = {
        "binary": binary,
        "points": orbm.OrdinalMF(3, posterior="point", n_epochs=3, random_state=0),
        "both": orbm.RatingEnsemble(members, random_state=0),
    }
    return {kind: _predictions(model.fit(ratings())) for kind, model in models.items()}


# ---- all of it: starting processes is what takes time


def everything() -> dict[str, Any]:
    """What any number of processes finds."""
    return {
        "gaussian": gaussian_epochs(),
        "chains": chains(),
        "epochs": three_binary_epochs(),
        "fits": fits(),
    }


def by_two(run: Path) -> dict[str, Any]:
    """What two find, also of what one process or they themselves have left."""
    top = run.parent
    found = everything() | {
        "seed": whole_fit(),
        "error": different_ratings(),
        "from one": fit_with_checkpoints(top / "of one"),
        "binary from one": binary_fit_with_checkpoints(top / "binary of one"),
    }
    killed_after(2, fit_with_checkpoints, top / "of two")
    killed_after(2, binary_fit_with_checkpoints, top / "killed")
    found["resumed"] = binary_fit_with_checkpoints(top / "killed")
    found["unharmed"] = binary_fit_with_checkpoints(top / "unharmed")
    found["sampled"], found["part"] = sampled_fit(None), refused_part()
    killed_after(11, sampled_fit, top / "killed chains")
    found["resumed chains"] = sampled_fit(top / "killed chains")
    return found


def by_four(run: Path) -> dict[str, Any]:
    """What four find, also of what two have left."""
    return everything() | {"from two": fit_with_checkpoints(run.parent / "of two")}


def _join(rank: int, size: int, folder: Path) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)


def work_as_asked(works: dict[str, Any]) -> None:
    """Be the process that :func:`found_by` has started."""
    work, rank, size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    _join(rank, size, folder)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(works[work](folder)))


if __name__ == "__main__":
    work_as_asked(globals())
