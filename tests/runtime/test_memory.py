"""A fit that cannot fit into memory is refused before it starts; predictions need no table of all rows."""

from __future__ import annotations

import numpy as np
import pytest

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.engine import memory

ANSWERS = np.random.default_rng(0).integers(1, 4, (40, 5))
USERS, ITEMS = np.divmod(np.arange(200), 5)
RATINGS = (USERS, ITEMS, ANSWERS.ravel())
FITS = {
    "vector": lambda k: orbm.CumulativeRBM.binary(k, n_epochs=1).fit(ANSWERS),
    "matrix": lambda k: orbm.MatrixCumulativeRBM(k, 2, n_epochs=1).fit(RATINGS),
    "baseline": lambda k: orbm.GaussianMF(k, n_epochs=1).fit(RATINGS),
}


@pytest.mark.parametrize("kind", FITS)
def test_what_cannot_fit_is_refused_with_numbers(kind, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    FITS[kind](3)
    said = r"200 answers \(40 rows, 5 columns\) .* only 1 MB are free; take fewer factors or fewer rows"
    with pytest.raises(DataError, match=said):
        FITS[kind](10_000)
    monkeypatch.setattr(memory, "available", lambda: 1000)  # not even the answers
    with pytest.raises(DataError, match="only 0 MB are free"):
        FITS[kind](3)


def test_the_least_of_all_limits_counts(tmp_path):
    def system(name: str, **files: str) -> str:
        for file, text in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path / name)

    machine = {"proc/meminfo": "MemTotal: 900 kB\nMemAvailable:  500 kB\nSwapFree: 100 kB\n"}
    assert memory.available(system("machine", **machine)) == 600 * 1024
    assert memory.available(system("two", **machine, **{"sys/fs/cgroup/memory.max": "2400\n"})) == 2400
    unlimited = {"sys/fs/cgroup/memory.max": "max\n"}
    assert memory.available(system("unlimited", **machine, **unlimited)) == 600 * 1024
    first = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "8050\n"}
    assert memory.available(system("one", **machine, **first)) == 8050
    assert memory.available(str(tmp_path / "unknown")) is None


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
