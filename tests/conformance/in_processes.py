"""The suite's work by several processes together; each says what it has found."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import ordinalrbm

# Nothing should take longer, on however busy a computer.
PATIENCE = 900
_HERE = Path(__file__).resolve()
_SOURCE = Path(ordinalrbm.__file__).resolve().parents[1]


def found_by_ranks(name: str, size: int, folder: Path) -> list[dict]:
    """What each of so many processes has found with the backend of this name."""
    path = os.pathsep.join([str(_SOURCE), str(_HERE.parent)])
    alone = {"PYTHONPATH": path, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(_HERE), name, str(rank), str(size), str(folder)],
            env={**os.environ, **alone},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    for process in processes:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(size)]


def _work(name: str, rank: int, size: int, folder: Path) -> None:
    import torch.distributed as dist
    from work import by_backend

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(by_backend(name)))


if __name__ == "__main__":
    _work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
