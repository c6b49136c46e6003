"""Files and fitted models that all tests of the command line share."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from program import succeed_here

from ordinalrbm.pages import points


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, and what `ordinalrbm fit` makes of them."""
    from small_files import write_all  # not where pyreadstat is missing

    folder = tmp_path_factory.mktemp("originals")
    write_all(folder)
    succeed_here("fit", "survey.sav", "--out", "survey.orbm", "--epochs", 3, cwd=folder)
    succeed_here("fit", "ratings.csv", "--out", "films.orbm", "--epochs", 4, cwd=folder)
    succeed_here("schema", "survey.sav", "--out", "schema.toml", cwd=folder)
    return folder


@pytest.fixture
def files(originals: Path, tmp_path: Path) -> Path:
    """Copies of all files in a folder of their own."""
    return Path(shutil.copytree(originals, tmp_path / "work"))


@pytest.fixture
def a_true_map() -> None:
    """Let a test have the map that users have."""


@pytest.fixture(autouse=True)
def _a_quick_map(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps of pages by two of the factors: t-SNE is tested elsewhere, and slow."""
    if "a_true_map" not in request.fixturenames:
        monkeypatch.setattr(points, "row_positions", lambda factors, **_: np.asarray(factors)[:, [0, -1]])
