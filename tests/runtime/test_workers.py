"""Forked and spawned workers, and several threads at once: all get the same."""

from __future__ import annotations

import sys

import pytest
from processes import MODELS, bare, good, script

ASKED = """
import sys
from ordinalrbm.runtime import blocks
blocks._WORTH_A_THREAD = 1e-12  # threads take blocks of a few rows, too
import numpy as np
import ordinalrbm as orbm

def asked(path):
    model = orbm.load(path).set_params(n_jobs=8)
    users = np.repeat(model.users_.labels, len(model.items_.labels))
    items = np.tile(model.items_.labels, len(model.users_.labels))
    best = model.recommend("all", n=3)
    return model.predict_proba(users, items).tobytes() + best["score"].to_numpy().tobytes()
"""
FORKED = """
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

path = sys.argv[1]
whole = asked(path)
with ThreadPoolExecutor(8) as threads:
    assert all(found == whole for found in threads.map(asked, [path] * 40))
workers = multiprocessing.get_context("fork")
with workers.Pool(2) as pool:
    found = pool.map_async(asked, [path] * 4).get(300)
assert found == [whole] * 4
print("same")
"""
SPAWNED = """
import joblib
from functions_of_workers import asked

path = sys.argv[1]
whole = asked(path)
for backend in ("loky", "multiprocessing", "threading"):
    found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(asked)(path) for _ in "ab")
    assert found == [whole] * 2, backend
print("same")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
def test_threads_and_forked_processes(tmp_path):
    done = script(
        ASKED + FORKED, MODELS / "matrix_crbm-2.0.orbm", env=bare(NUMBA_NUM_THREADS="2"), cwd=tmp_path
    )
    assert good(done).strip() == "same"


def test_workers_of_joblib(tmp_path):
    (tmp_path / "functions_of_workers.py").write_text(ASKED)
    env = bare(NUMBA_NUM_THREADS="1")  # fewer than n_jobs asks for
    env["PYTHONPATH"] += f":{tmp_path}"
    done = script(ASKED + SPAWNED, MODELS / "matrix_crbm-2.0.orbm", env=env, cwd=tmp_path)
    assert good(done).strip() == "same"
