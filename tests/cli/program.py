"""Running the program as its users do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import ordinalrbm
from ordinalrbm import cli

PROGRAM = [sys.executable, "-m", "ordinalrbm"]
LONG = os.environ.get("ORDINALRBM_LONG") == "1"
# Nothing of these tests should take longer, on however busy a machine.
PATIENCE = 600


# The code that is tested, wherever a process is started, and not another that is installed.
_SOURCE = str(Path(ordinalrbm.__file__).resolve().parents[1])


def environment(**more: str) -> dict[str, str]:
    """Of a terminal with 80 columns that nobody watches."""
    path = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": path, **more}


def run(
    *arguments: Any,
    cwd: Path,
    prepare: Callable[[], None] | None = None,
    stdout: Any = subprocess.PIPE,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE,
        preexec_fn=prepare,
    )


def run_here(*arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process, where all libraries are imported already: seconds less."""
    with contextlib.chdir(cwd), warnings.catch_warnings():
        warnings.simplefilter("default")
        if "ORDINALRBM_LOWEST" in os.environ:  # old libraries, which newer ones warn
            warnings.simplefilter("ignore", DeprecationWarning)
        done = CliRunner().invoke(
            cli.app, [*map(str, arguments)], prog_name="ordinalrbm", env={"COLUMNS": "80"}
        )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def succeed(*arguments: Any, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """A process that ends well."""
    return _good(run(*arguments, cwd=cwd, **more))


def succeed_here(*arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    return _good(run_here(*arguments, cwd=cwd))


def _good(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def found(*arguments: Any, cwd: Path) -> dict[str, Any]:
    """What a command prints with --json: one object, and nothing else anywhere."""
    done = succeed_here(*arguments, "--json", cwd=cwd)
    assert done.stderr == ""
    content = json.loads(done.stdout)
    assert isinstance(content, dict)
    return content


def started(*arguments: Any, cwd: Path) -> subprocess.Popen[str]:
    """A process of its own session that Ctrl-C can reach, whatever our parent ignores."""
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env=environment(PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def names_in(folder: Path) -> set[str]:
    """Everything in a folder, hidden files too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
