"""The notebooks are small, listed, without outputs, and (in the long form) run from top to bottom."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from long_form import only_long

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_of(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_listed_and_without_outputs(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert notebook.stat().st_size < 100_000
    assert not any(cell.get("outputs") for cell in cells)
    assert f"`{notebook.name}`" in (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    for cell in code_of(notebook):
        compile(cell, str(notebook), "exec")


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 6


def has_gpu():
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@only_long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    if notebook.stem == "gpu" and not has_gpu():
        pytest.skip("there is no GPU here")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in code_of(notebook):
        exec(compile(cell, str(notebook), "exec"), names)
