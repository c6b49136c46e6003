"""The fingerprint of compiled code: which changes make a kernel be compiled anew."""

import shutil
from pathlib import Path

import pytest

import ordinalrbm
from ordinalrbm.runtime import jit


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the sources whose modules may be changed."""
    copy = tmp_path / "ordinalrbm"
    source = Path(ordinalrbm.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "_PACKAGE", copy)
    forget()
    yield copy
    forget()


def forget():
    jit._read.cache_clear()
    jit._fingerprint.cache_clear()


def changes(package, kernels, module):
    """Whether a comment in a module changes the fingerprint of another one's kernels."""
    before = jit._fingerprint(package / kernels)
    with (package / module).open("a") as file:
        file.write("# a comment\n")
    forget()
    return jit._fingerprint(package / kernels) != before


@pytest.mark.parametrize(
    "module",
    [
        "engine/gibbs.py",
        "engine/normal.py",
        "engine/philox.py",
        "engine/thresholds.py",
        "engine/thresholds.py",
        "engine/side.py",
        "runtime/jit.py",
    ],
)
def test_what_a_kernel_may_inline_changes_its_fingerprint(package, module):
    assert changes(package, "engine/gibbs.py", module)


def test_imports_are_followed(package):
    assert changes(package, "engine/mean_field.py", "engine/philox.py")


@pytest.mark.parametrize("module", ["data/scales.py", "cli/app.py", "engine/annealing.py"])
def test_other_modules_do_not(package, module):
    assert not changes(package, "engine/gibbs.py", module)
