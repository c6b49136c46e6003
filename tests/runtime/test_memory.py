"""What a fit will need is known before, and compared with what there is."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from processes import bare, good, script

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.engine import memory

ANSWERS = np.random.default_rng(0).integers(1, 4, (40, 5))
USERS, ITEMS = np.divmod(np.arange(200), 5)
RATINGS = (USERS, ITEMS, ANSWERS.ravel())
FITS = {
    "vector": lambda: orbm.CumulativeRBM.binary(3, n_epochs=1).fit(ANSWERS),
    "matrix": lambda: orbm.MatrixCumulativeRBM(3, 2, n_epochs=1).fit(RATINGS),
    "baseline": lambda: orbm.GaussianMF(3, n_epochs=1).fit(RATINGS),
}


@pytest.mark.parametrize("kind", FITS)
def test_too_little_memory_is_refused_with_numbers(kind, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(DataError) as refused:
        FITS[kind]()
    told = str(refused.value)
    assert "200 " in told and "40 " in told and " 5 " in told  # answers, rows, columns
    assert "MB of memory" in told and "fewer factors" in told and told.count(". ") == 0


@pytest.mark.parametrize("kind", FITS)
def test_little_memory_is_warned_about_at_the_caller(kind, monkeypatch):
    needed = []
    with monkeypatch.context() as change:
        change.setattr(memory, "check", lambda n_bytes, *_: needed.append(n_bytes))
        FITS[kind]()
    monkeypatch.setattr(memory, "available", lambda: int(needed[0] / 1.2))
    with pytest.warns(UserWarning, match="takes about .* should it fail") as said:
        FITS[kind]()
    assert [Path(one.filename).name for one in said] == [Path(__file__).name]
    monkeypatch.setattr(memory, "available", lambda: 2 * needed[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FITS[kind]()
    monkeypatch.setattr(memory, "available", lambda: None)
    FITS[kind]()


def _system(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_the_least_of_all_limits_counts(tmp_path):
    machine = {"proc/meminfo": "MemTotal: 900 kB\nMemAvailable:  500 kB\nSwapFree: 100 kB\n"}
    assert memory.available(_system(tmp_path / "machine", **machine)) == 600 * 1024
    second = {
        "proc/self/cgroup": "0::/jobs/mine\n",
        "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
        "sys/fs/cgroup/jobs/mine/memory.current": "10\n",
        "sys/fs/cgroup/jobs/memory.max": "5000\n",
        "sys/fs/cgroup/jobs/memory.current": "3000\n",
        "sys/fs/cgroup/jobs/memory.stat": "anon 7\ninactive_file 400\n",
    }
    assert memory.available(_system(tmp_path / "two", **machine, **second)) == 2400
    first = {
        "proc/self/cgroup": "7:cpu,cpuacct:/x\n4:memory:/mine\n",
        "sys/fs/cgroup/memory/mine/memory.limit_in_bytes": "9000\n",
        "sys/fs/cgroup/memory/mine/memory.usage_in_bytes": "1000\n",
        "sys/fs/cgroup/memory/mine/memory.stat": "total_inactive_file 50\n",
    }
    assert memory.available(_system(tmp_path / "one", **machine, **first)) == 8050
    assert memory.available(_system(tmp_path / "unknown")) is None


def test_the_limit_of_a_process(tmp_path):
    """``ulimit -v``: refused in a sentence, before the system would refuse an array."""
    code = """
import numpy as np, resource
import ordinalrbm as orbm
from ordinalrbm.engine import memory
model = orbm.MatrixCumulativeRBM(5000, 5000)
ratings = (np.arange(4000) % 2000, np.arange(4000) // 2, np.arange(4000) % 3)
used = 1024 * memory._table(memory.Path("/proc/self/status"))["VmSize"]
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
assert memory.available() <= 2**28
try:
    model.fit(ratings)
except orbm.DataError as error:
    print(error)
"""
    if memory.available() is None:
        pytest.skip("the system does not say what is free")
    told = good(script(code, env=bare(), cwd=tmp_path))
    assert "5000 + 5000 factors from 4,000 ratings" in told and "fewer users" in told


@pytest.mark.parametrize("name", ["rows", "columns", "answers", "row_factors", "column_factors"])
@pytest.mark.parametrize("kind", memory.COSTS)
def test_more_of_anything_needs_more(kind, name):
    size = memory.Size(10_000, 300, 10**6, 5, 20, 20)
    more = size._replace(**{name: 5 * getattr(size, name)})
    assert memory.needed(kind, size) < memory.needed(kind, more)
    how = {"units": 100} if kind == "survey" else {"n_averaged": 5}
    assert memory.needed(kind, size) < memory.needed(kind, size, **how)


def test_predictions_in_blocks_are_the_same(monkeypatch):
    """What is computed for each cell is never held for all rows at once."""
    rng = np.random.default_rng(1)
    X = rng.integers(1, 5, (90, 6)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = orbm.CumulativeRBM.binary(3, response_styles=3, inference="linear_response", n_epochs=2)
    model.set_params(random_state=0, unanswered="latent").fit(X)

    def asked():
        return [
            model.transform(X),
            model.response_style(X),
            np.hstack(model.predict_proba(X)),
            model.predict(X),
            model.impute(X),
            np.array(model.score(X)),
        ]

    whole = asked()
    monkeypatch.setattr("ordinalrbm.estimators.survey._ROWS_AT_ONCE", 17)
    for one, other in zip(whole, asked(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
