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
from ordinalrbm.matrix import variational
from ordinalrbm.matrix.backends import backend_for
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.variational import Precisions
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
    return pd.DataFrame({"user": user, "item": item, "rating": score}).drop_duplicates(["user", "item"])


# ---- work ---------------------------------------------------------------------------------------


def three_epochs(n_rows: int) -> dict[str, Any]:
    """The state after three epochs, whole, and the likelihood of held-out ratings."""
    observations, watched = ragged_observations(n_rows), held_out(n_rows)
    backend = backend_for(DEVICE)
    data = backend.data(observations, 4)
    state = backend.to_device(variational.start(observations, 4, 0, Precisions()))
    for number in (1, 2, 3):
        state = variational.epoch(data, state, number)
    model = GaussianModel.of_state(state)
    cells = [slice(k, k + 1) for k in range(watched.row.size)]
    likelihoods = [
        backend.mean_log_probability(model, Cells(*(part[some] for part in watched)))
        for some in [*cells, slice(0, 3), slice(None)]
    ]
    return {"state": backend.to_host(state), "likelihoods": np.array(likelihoods)}


def gaussian_epochs() -> dict[str, Any]:
    """With four processes, one has none of three rows."""
    return {"ragged": three_epochs(13), "three rows": three_epochs(3)}


def about(model: Any) -> dict[str, Any]:
    return {"model": model.model_, "history": model.history_["validation"].to_numpy()}


def whole_fit() -> dict[str, Any]:
    """With the seed left to chance, in which the processes must agree."""
    return about(orbm.OrdinalMF(4, n_epochs=4).fit(ratings()))


def fit_with_checkpoints(folder: Path) -> dict[str, Any]:
    """Three epochs, with a checkpoint after each; those begin to drift in the third."""
    model = orbm.OrdinalMF(4, n_epochs=3, random_state=0)
    return about(model.fit(timed_ratings(), checkpoint=folder, every=1))


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


def error_of(model: Any, given: Any) -> str:
    try:
        model.fit(given)
    except orbm.DataError as error:
        return str(error)
    return ""


def refused_part() -> str:
    part = orbm.RatingsPart(ratings().iloc[process_group.current().rank :: 2])
    return error_of(orbm.OrdinalMF(3, posterior="sampled", n_epochs=4, random_state=0), part)


def refused_models() -> dict[str, str]:
    """What is said by models that one process learns."""
    models = [orbm.MatrixCumulativeRBM(2, 2), orbm.GaussianMF(2), orbm.MultinomialRBM(2)]
    return {type(model).__name__: error_of(model, ratings()) for model in models}


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
    given = ratings().iloc[process_group.current().rank :]
    return error_of(orbm.OrdinalMF(4, random_state=0), given)


def _predictions(model: Any, **when: Any) -> np.ndarray:
    users, items = np.divmod(np.arange(50 * 30), 30)
    return model.predict_proba(users, items, **when)


def timed_ratings() -> pd.DataFrame:
    frame = ratings()
    return frame.assign(timestamp=np.random.default_rng(3).permutation(len(frame)))


def fits() -> dict[str, Any]:
    """What estimators predict after three epochs; of ratings with times, for a time in the middle."""
    found = {
        posterior: _predictions(
            orbm.OrdinalMF(5, posterior=posterior, n_epochs=3, random_state=0).fit(ratings())
        )
        for posterior in ("variational", "point")
    }
    for name, more in {"times": {}, "all": {"refit": "all"}}.items():
        model = orbm.OrdinalMF(5, n_epochs=4, random_state=0, **more).fit(timed_ratings())
        found[name] = _predictions(model, times=400)
    return found


# ---- all of it: starting processes is what takes time


def everything() -> dict[str, Any]:
    """What any number of processes finds."""
    return {"gaussian": gaussian_epochs(), "fits": fits()}


def by_two(run: Path) -> dict[str, Any]:
    """What two find, also of what one process or they themselves have left."""
    top = run.parent
    found = everything() | {
        "seed": whole_fit(),
        "error": different_ratings(),
        "refused": refused_models(),
        "from one": fit_with_checkpoints(top / "of one"),
    }
    killed_after(2, fit_with_checkpoints, top / "of two")
    killed_after(2, fit_with_checkpoints, top / "killed")
    found["resumed"] = fit_with_checkpoints(top / "killed")
    found["unharmed"] = fit_with_checkpoints(top / "unharmed")
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
