"""Locale, home, file names, read-only folders, closed streams: it works, or says why not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import MODELS, PATIENCE, SOURCE, bare, bound_by_permissions, commands, good, script

import ordinalrbm as orbm

NOT_UTF8 = b"caf\xe9.csv"
RATINGS = MODELS / "ordinal_mf-2.0.orbm"
# Any kernel would do; this one is compiled within seconds.
COMPILED = """
import numpy as np
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.runtime.jit import cache_folder
from ordinalrbm.matrix import top_n
scores = np.zeros((2, 3), np.float32)
rows, start, column = np.array([0, 1]), np.array([0, 1, 1]), np.array([2], np.int32)
over_rows(top_n._leave_out, 2, scores, rows, start, column)
assert scores[0, 2] == -np.inf and np.isfinite(scores[1]).all()
print(cache_folder(top_n._leave_out), sum(top_n._leave_out.stats.cache_hits.values()))
"""


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """A folder with a small survey whose names are not ASCII, twice."""
    rng = np.random.default_rng(0)
    answers = pd.DataFrame(rng.integers(1, 4, (60, 4)), columns=["größe", "q2", "¿qué?", "naïve"])
    answers = answers.astype("Int8").mask(rng.random(answers.shape) < 0.1)
    answers.to_csv(tmp_path / "übung.csv", index=False)
    try:
        shutil.copy(os.fsencode(tmp_path / "übung.csv"), os.fsencode(tmp_path) + b"/" + NOT_UTF8)
    except OSError:
        pytest.skip("file names must be UTF-8 here")
    return tmp_path


def test_no_locale_no_home_odd_names(survey):
    env = bare(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", COLUMNS="12", TERM="dumb")
    env |= {"TMPDIR": "/nowhere/at/all", "HOME": "/nowhere/at/all"}
    learnt = ["--epochs", "1", "--factors", "2", "--out"]
    codes, _, err = commands(
        ["fit", "übung.csv", *learnt, "ä.orbm"],
        ["fit", NOT_UTF8, *learnt, b"\xe9.orbm"],
        ["info", b"\xe9.orbm"],
        ["info", b"\xe9.orbm", "--json"],
        ["predict", "ä.orbm", NOT_UTF8, "--out", b"\xe9-2.csv"],
        ["report", NOT_UTF8, "--epochs", "1", "--out", b"\xe9.html"],
        ["info", b"not-there-\xe9.orbm"],
        env=env,
        cwd=survey,
    )
    assert codes == [0, 0, 0, 0, 0, 0, 2], err
    made = set(os.listdir(os.fsencode(survey)))
    assert {"ä.orbm".encode(), b"\xe9.orbm", b"\xe9-2.csv", b"\xe9.html"} <= made
    assert err.splitlines()[-1].startswith(b"Error: File 'not-there-")
    assert "größe" in (survey / os.fsdecode(b"\xe9-2.csv")).read_text("utf-8")
    assert not (survey / "~").exists()


def test_folders_that_are_read_only(tmp_path):
    """The package, the current folder, the home: no place for compiled code or results."""
    before = bound_by_permissions()
    package, place = tmp_path / "package", tmp_path / "place"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "ordinalrbm", package / "ordinalrbm", ignore=ignored)
    place.mkdir()
    (place / "old.csv").write_text("mine")
    env = bare(PYTHONPATH=str(package), HOME=str(place))
    env.pop("NUMBA_CACHE_DIR", None)
    folders = [package, *filter(Path.is_dir, package.rglob("*")), place]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = script(COMPILED, env=env, cwd=place, before=before)
        assert good(done).split() == ["None", "0"]
        assert done.stderr.count(b"each time: set NUMBA_CACHE_DIR") == 1
        # What was compiled before the folder became read-only is read from it.
        (package / "ordinalrbm" / "matrix").chmod(0o755)
        assert good(script(COMPILED, env=env, cwd=place)).split()[1] == "0"
        for folder in ("matrix/__pycache__", "matrix"):
            (package / "ordinalrbm" / folder).chmod(0o555)
        done = script(COMPILED, env=env, cwd=place, before=before)
        assert good(done).split() == ["None", "1"]
        assert done.stderr == b""
        asked = ["recommend", RATINGS, "--quiet", "--out"]
        codes, _, err = commands(
            [*asked, "new.csv"], [*asked, "old.csv"], ["doctor", "--help"], env=env, cwd=place, before=before
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert codes == [2, 2, 0]
    assert len(re.findall(rb"cannot be written \(Permission denied\); write elsewhere", err)) == 2
    assert os.listdir(place) == ["old.csv"]


def test_no_room_for_compiled_code(tmp_path):
    """A disk that is full, and a cache that is damaged: compiled in memory all the same."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, -1))\n" + COMPILED
    for content in (None, b"nonsense"):
        folder = tmp_path / str(content is None)
        folder.mkdir()
        env = bare(NUMBA_CACHE_DIR=str(folder))
        if content is not None:
            good(script(COMPILED, env=env, cwd=tmp_path))
            for file in folder.rglob("*.nbc"):
                file.write_bytes(content)
        assert str(folder) in good(script(code, env=env, cwd=tmp_path))


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "2>&-"])
def test_closed_streams(closed, tmp_path):
    """Without a home, too; what is said must not get into the file that is written."""
    line = [sys.executable, "-m", "ordinalrbm", "recommend", RATINGS, "-n", "2", "--out", "a.csv"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *map(str, line)],
        env=bare(),
        cwd=tmp_path,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0
    assert done.stdout == (b"" if ">&- " in closed else b"7 recommendations are in a.csv.\n")
    best = orbm.load(RATINGS).recommend("all", n=2)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "a.csv"), best, check_exact=False)
