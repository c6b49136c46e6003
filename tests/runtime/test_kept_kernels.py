"""Machine code that several processes keep on disk, and another one loads."""

import os
import subprocess
import sys
from pathlib import Path

import ordinalrbm

SOURCE = str(Path(ordinalrbm.__file__).parents[1])
# Both sorts of Numba have inner functions of the same names, which it would also give the same numbers
# here: three functions more come before the second one.
KERNELS = """
import sys
import numba
import numpy as np
from ordinalrbm.runtime.jit import allocating_kernel

@allocating_kernel
def in_order(values):
    return np.sort(values)

@allocating_kernel
def order(values):
    return np.argsort(values)

values = np.arange(1000) * 7919 % 1009
if "in_order" in sys.argv:
    assert (in_order(values) == sorted(values)).all()
if sys.argv[1:] == ["order"]:
    for _ in range(3):
        numba.njit(lambda: 0)()
if "order" in sys.argv:
    assert (values[order(values)] == sorted(values)).all()
if "both" in sys.argv:
    assert sum(in_order.stats.cache_hits.values()) == sum(order.stats.cache_hits.values()) == 1
"""


def test_code_kept_by_two_processes_works_in_a_third(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    environment = {**os.environ, "PYTHONPATH": SOURCE, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    for given in (["in_order"], ["order"], ["in_order", "order", "both"]):
        command = [sys.executable, "kernels.py", *given]
        found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert found.returncode == 0, (given, found.returncode, found.stderr)
