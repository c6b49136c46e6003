"""``ordinalrbm doctor``: whether this machine is fit for work."""

import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from ordinalrbm.cli import options
from ordinalrbm.cli.app import FAILED, app
from ordinalrbm.cli.output import listing
from ordinalrbm.runtime import __version__

_NEEDED = ("numpy", "scipy", "numba", "scikit-learn", "pandas", "pyarrow", "pyreadstat")
_OPTIONAL = ("polars", "arviz", "torch")
_SURVEYS = """\
from ordinalrbm.cli.warm_up import compile_kernels
for line in compile_kernels(ratings=False):
    print(*line, sep="\t")
"""
_EXAMPLES = """\b
Examples:
  ordinalrbm doctor
  ordinalrbm doctor --compile --device cuda"""


@app.command(epilog=_EXAMPLES)
def doctor(
    *,
    compile_all: Annotated[
        bool, typer.Option("--compile", help="Compile all kernels now, so that nobody waits for them later.")
    ] = False,
    device: options.DeviceOption = "cpu",
    telling: options.Telling,
) -> None:
    """Check this installation.

    Versions, threads, memory and GPU, and whether the compiled kernels are right: what
    they sample is compared with a small model that can be enumerated. With --compile, every model
    is used once, which compiles its kernels and keeps them on disk (with --device cuda those of
    the GPU); the seconds of the first and of the second time are told.
    """
    from ordinalrbm.cli import warm_up
    from ordinalrbm.estimators.validation import check_device

    check_device(device)
    output = telling.output()
    found: dict[str, object] = {
        "ordinalrbm": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "machine": f"{platform.system()} {platform.machine()}",
        **{name: _version(name) for name in (*_NEEDED, *_OPTIONAL)},
        **_threads(),
        "gpu": _gpu(),
        "kernel cache": _cache(),
        "memory free": _memory(),
    }
    begun = time.perf_counter()
    difference, bound = warm_up.difference(), warm_up.BOUND
    good = difference <= bound  # not so if it is not a number
    verdict = "right" if good else "WRONG"
    found["factors by Gibbs sampling"] = f"{difference:.2g} (at most {bound:.2g}): {verdict}"
    found["checked in"] = f"{time.perf_counter() - begun:.1f} s"
    for name, first, again in _compiled(device) if compile_all and good else ():
        found[name] = f"{first:.1f} s, then {again:.2f} s"
        output.say(f"Compiled for {name}: {found[name]}")
    text = "All is well." if good else "The kernels are wrong on this machine; please report this."
    output.result({**found, "well": good}, listing(found), text=text)
    if not good:
        raise typer.Exit(FAILED)


def _compiled(device: str) -> Iterator[tuple[str, float, float]]:
    """Every model and the seconds of its first and second use; those of surveys in a second process."""
    from ordinalrbm.cli.beside import Beside
    from ordinalrbm.cli.warm_up import compile_kernels

    with Beside(_SURVEYS) as beside:
        is_alone = device != "cpu" or not beside.start()
        yield from compile_kernels(device, surveys=is_alone)
        printed = "" if is_alone else beside.output()
    if printed is None:  # it has come to grief
        yield from compile_kernels(device, ratings=False)
    for name, first, again in (line.split("\t") for line in (printed or "").splitlines()):
        yield name, float(first), float(again)


def _version(package: str) -> str:
    import importlib.metadata  # takes its time, and every command would wait for it

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _threads() -> dict[str, object]:
    from ordinalrbm.runtime.threads import CORES

    return {"threads": CORES, "processors": os.cpu_count()}


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        card = "a driver is there" if shutil.which("nvidia-smi") else "no driver"
        return f"not looked for: torch is not installed ({card})"
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else "none found"


def _cache() -> str:
    from ordinalrbm.engine import mean_field
    from ordinalrbm.runtime.jit import cache_folder

    folder = cache_folder(mean_field._fixed_point)
    if folder is None:
        return "compiled anew each time: no folder can be written to; set NUMBA_CACHE_DIR to one"
    is_open = os.stat(folder).st_mode & stat.S_IWOTH
    danger = "; others may write there, and what they write is run: set NUMBA_CACHE_DIR" if is_open else ""
    return f"kept in {folder}{danger}"


def _memory() -> str:
    from ordinalrbm.engine.memory import available, format_bytes

    free = available()
    return "unknown" if free is None else format_bytes(free)
