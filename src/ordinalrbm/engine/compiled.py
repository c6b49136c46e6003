"""How this package compiles: one decorator, one honest cache, one word to the waiting user."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

# Multiply-adds may be fused everywhere. Only sums over factors may also be reordered, so that LLVM
# vectorises them: reordering elsewhere would undo the rounding tricks of the scalar functions.
# NaN and infinity always keep their meaning, because the outermost thresholds are infinite.
FUSED = {"contract", "nsz"}
REORDERED = {"reassoc", "contract", "nsz"}
# Division by zero gives infinity, as in NumPy: a check for it would be a branch in every lane.
_COMMON: dict[str, Any] = {"error_model": "numpy"}


_ENGINE = Path(__file__).parent
# No kernel inlines anything of these: a change there need not compile all anew.
_WITHOUT_KERNELS = ("cli", "files", "plots", "report")


def _fingerprint(folder: Path) -> str:
    """Hash of every file below a folder: a kernel inlines functions of its neighbours."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] not in _WITHOUT_KERNELS:
            digest.update(path.read_bytes())
    return digest.hexdigest()


# The engine inlines nothing but itself; kernels of other folders may inline almost anything.
_OF_ENGINE, _OF_PACKAGE = _fingerprint(_ENGINE), _fingerprint(_ENGINE.parent)


def compiled(**options: Any) -> Callable[[Callable], Any]:
    """Compile a function with Numba and keep the machine code on disk.

    Numba's own cache looks only at the file in which a function stands, so that a change in an
    inlined neighbour would go unnoticed and old code would run. The stamp is therefore replaced by
    a fingerprint of all that could be inlined.
    """

    def decorate(function: Callable) -> Any:
        dispatcher = numba.njit(cache=True, fastmath=FUSED, nogil=True, **_COMMON, **options)(
            function
        )
        cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
        if cache_file is not None:  # absent when compilation is switched off
            inside = _ENGINE in Path(function.__code__.co_filename).parents
            cache_file._source_stamp = _OF_ENGINE if inside else _OF_PACKAGE
        return dispatcher

    return decorate


def inlined(function: Callable) -> Any:
    """Compile a scalar function that becomes part of every kernel calling it."""
    return numba.njit(fastmath=FUSED, forceinline=True, **_COMMON)(function)


def called(function: Callable) -> Any:
    """Compile a function that kernels call: for long code over arrays, compiled once for all."""
    return numba.njit(fastmath=FUSED, nogil=True, **_COMMON)(function)


def inlined_sum(function: Callable) -> Any:
    """Compile a sum over factors that becomes part of every kernel calling it."""
    return numba.njit(fastmath=REORDERED, forceinline=True, **_COMMON)(function)


class _Announcement(event.Listener):
    """Says once per process that compiling takes a while."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, happening: event.Event) -> None:
        dispatcher = (happening.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
        if not self.said and module.startswith("ordinalrbm."):
            self.said = True
            print(
                "ordinalrbm: compiling the sampler for this machine "
                "(once; kept on disk for the next time) ...",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, happening: event.Event) -> None:
        """Nothing to say when it is over."""


_announcement = _Announcement()
event.register("numba:compile", _announcement)


def compile_silently() -> None:
    """Say nothing when compiling, for programs that were asked to be quiet."""
    _announcement.said = True
