"""Files and fitted models that all tests of the command line share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from program import succeed_here


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
