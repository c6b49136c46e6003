"""What `python -m build --sdist` packs."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "conftest.py",
    "mkdocs.yml",
    "pyproject.toml",
)
FOLDERS = ("benchmarks", "docs", "notebooks", "src", "tests")
# Written by whoever works in the folder, and by setuptools.
OURS = shutil.ignore_patterns("__pycache__", "*.pyc", "*.nb[ic]", "*.egg-info", ".pytest_cache")


def test_the_source_distribution_is_complete(tmp_path):
    pytest.importorskip("setuptools")
    copy = tmp_path / "copy"  # setuptools writes beside the sources
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=OURS)
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    settings = (copy / "pyproject.toml").read_text()
    # Licences by name are for setuptools 77, which a virtual environment need not have.
    settings = re.sub(r"^license(-files)? = .*\n", "", settings, flags=re.MULTILINE)
    (copy / "pyproject.toml").write_text(settings)
    wanted = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    (copy / "src" / "ordinalrbm" / "left.pyc").write_text("")
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=copy, check=True, capture_output=True)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
    found = {name.partition("/")[2] for name in names}
    assert wanted <= found
    assert {name for name in found - wanted if "egg-info" not in name} == {"PKG-INFO", "setup.cfg"}
