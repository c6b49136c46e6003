"""Processes under unkind conditions: few starts, since each costs seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ordinalrbm

SOURCE = Path(ordinalrbm.__file__).resolve().parents[1]
MODELS = Path(__file__).resolve().parents[1] / "storage" / "files"
PATIENCE = 600
# What a process may know of its surroundings if nothing is said about it.
_KEPT = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "NUMBA_CACHE_DIR", "COVERAGE_PROCESS_START")
# Several commands in one process; their exit codes are its last line.
_COMMANDS = """
import json, os, sys
from ordinalrbm.__main__ import run
codes = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["ordinalrbm", *(os.fsdecode(word.encode("latin-1")) for word in line)]
    try:
        run()
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code or 0)
print(json.dumps(codes))
"""


def bare(**more: str) -> dict[str, str]:
    """An environment without home, language, terminal and folder for temporary files."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **more}


def script(
    code: str,
    *arguments: Any,
    env: dict[str, str],
    cwd: Path,
    before: tuple[str, ...] = (),
    prepare: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """A Python program, and what it has said."""
    return subprocess.run(
        [*before, sys.executable, "-W", "error::UserWarning", "-c", code, *arguments],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        preexec_fn=prepare,
    )


def commands(*lines: list[Any], **how: Any) -> tuple[list[int], bytes, bytes]:
    """Exit codes of commands, and all that they have said."""
    # As the bytes that they are: what they mean depends on the locale.
    words = [[os.fsencode(word).decode("latin-1") for word in line] for line in lines]
    done = script(_COMMANDS, json.dumps(words), **how)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    return json.loads(done.stdout.splitlines()[-1]), done.stdout, done.stderr


def good(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program has said on standard output, when it has ended well."""
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()


def bound_by_permissions() -> tuple[str, ...]:
    """What to start a program with so that permissions of files hold for it, even for root."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may write anywhere, and there is no setpriv to give that up")
    return ("setpriv", "--bounding-set", "-dac_override")
