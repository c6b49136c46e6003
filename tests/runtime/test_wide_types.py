"""More than 127 levels, and more than 255 units of a factor: the wider types of the same kernels.

They would have to be compiled once more, which takes a minute: ORDINALRBM_LONG=1 does. Else the
kernels are run as the plain Python that they are, in a process of its own.
"""

from __future__ import annotations

from long_form import LONG
from processes import bare, good, script

FITS = """
import numpy as np
import ordinalrbm as orbm

rng = np.random.default_rng(0)
X = np.column_stack([rng.permutation(140), 1 + np.arange(140) % 3]).astype(float)[:{rows}]
model = orbm.CumulativeRBM.binary(1, units_per_factor=300, n_epochs=1, n_jobs=1, random_state=0)
model.set_params(scales={{0: list(range(140)), 1: [1, 2, 3]}}).fit(X)
assert model.transform(X).max() <= 1
wide, narrow = model.predict_proba(X[:5])
assert wide.shape == (5, 140) and np.allclose(wide.sum(axis=1), 1, atol=1e-5)
assert np.allclose(narrow.sum(axis=1), 1, atol=1e-5)
users, items = np.divmod(np.arange(2 * {rows}), 2)
same = {{"scale": list(range(140)), "n_epochs": 1, "n_jobs": 1, "random_state": 0}}
for rater in (orbm.OrdinalMF(1, **same), orbm.MatrixCumulativeRBM(1, 1, **same)):
    rater.fit((users, items, X.ravel().astype(int)))
    found = rater.predict_proba(users[:5], items[:5])
    assert found.shape == (5, 140) and np.allclose(found.sum(axis=1), 1, atol=1e-5)
print("fitted")
"""


def test_many_levels_and_units(tmp_path):
    env = bare() if LONG else bare(NUMBA_DISABLE_JIT="1")
    code = FITS.format(rows=140 if LONG else 6)
    assert good(script(code, env=env, cwd=tmp_path)).strip() == "fitted"
