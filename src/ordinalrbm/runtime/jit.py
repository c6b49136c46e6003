"""Compiling with Numba: decorators, a cache of machine code on disk, a note while users wait."""

import hashlib
import os
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core import caching, event
from numba.core.bytecode import FunctionIdentity

# Multiply-adds may be fused everywhere. Only sums over factors may also be reordered, so that LLVM
# vectorises them: reordering elsewhere would undo the rounding tricks of the scalar functions.
# NaN and infinity always keep their meaning, because the outermost thresholds are infinite.
FUSED = {"contract", "nsz"}
REORDERED = {"reassoc", "contract", "nsz"}
# Division by zero gives infinity, as in NumPy: a check for it would be a branch in vector code.
_COMMON: dict[str, Any] = {"error_model": "numpy"}

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^from ordinalrbm\.?(\S*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _read(path: Path) -> tuple[bytes, list[Path]]:
    """The source of a module, and the modules of the package that it imports when loaded."""
    source = path.read_bytes()
    found = []
    for module, names in _IMPORT.findall(source.decode()):
        folder = _PACKAGE.joinpath(*module.split("."))
        found += [folder / f"{name}.py" for name in re.findall(r"\w+", names)]  # "import module"
        found.append(folder.with_suffix(".py"))
    return source, [place for place in found if place.is_file()]


@cache
def _fingerprint(path: Path) -> str:
    """A hash of a module and of all that it imports: kernels inline functions of these."""
    sources: dict[Path, bytes] = {}
    waiting = [path]
    while waiting:
        place = waiting.pop()
        if place not in sources:
            sources[place], imported = _read(place)
            waiting += imported
    digest = hashlib.sha256()
    for place in sorted(sources):
        digest.update(sources[place])
    return digest.hexdigest()


def compiled(*, parallel: bool = False) -> Callable[[Callable], Callable]:
    """A decorator that compiles a kernel and keeps its machine code on disk if it can."""

    def decorate(function: Callable) -> Callable:
        if getattr(numba.config, "DISABLE_JIT", False):
            return function
        return Parallel(function) if parallel else _dispatcher(function)

    return decorate


def _number_functions_anew() -> None:
    """Let Numba count compiled functions from a random number on.

    These numbers are in the names of machine code, such as that of one of NumPy's sorts. Numba counts from 1
    in every process, so that code which two processes have kept on disk can have the same name and do
    different things; a third one that loads both would crash (numba/numba#10486).
    """
    FunctionIdentity._unique_ids = count(secrets.randbits(60))


# Not the functions that become part of them.
_kernels: set[Any] = set()


def _dispatcher(function: Callable, **options: Any) -> Any:
    dispatcher = numba.njit(fastmath=FUSED, nogil=True, **_COMMON, **options)(function)
    _kernels.add(dispatcher)
    with suppress(RuntimeError):  # no folder can be written to: compiled again each time
        dispatcher._cache = _Cache(function)
    return dispatcher


class _Folders(caching.CompileResultCacheImpl):
    """Folders for machine code: those that Numba tries, but the home folder only if there is one.

    Without one, "~" stays as it is, and Numba would make a folder of that name.
    """

    _locator_classes = [  # noqa: RUF012
        place
        for place in caching.CompileResultCacheImpl._locator_classes
        if os.path.isabs(os.path.expanduser("~")) or place is not caching.UserWideCacheLocator
    ]


class _Cache(caching.FunctionCache):
    """Numba's cache, with a stamp that covers imported modules, and never a reason to fail.

    Numba looks only at the file in which a function stands, so that a change in an inlined function of
    another module would go unnoticed and old code would run. The stamp is therefore replaced by a fingerprint
    of all that could be inlined. With a full disk or a damaged file, the code is compiled in memory.
    """

    _impl_class = _Folders

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = _fingerprint(Path(function.__code__.co_filename))

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # whatever a damaged file leads to
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        with suppress(Exception):
            super().save_overload(*arguments)


def cache_folder(kernel: Any) -> str | None:
    """The folder with the machine code of a kernel; None if it is not kept."""
    own = kernel.threaded if isinstance(kernel, Parallel) else kernel
    return own._cache.cache_path if isinstance(getattr(own, "_cache", None), _Cache) else None


class Parallel:
    """A kernel whose loop is shared among threads, in whatever way is safe.

    GNU OpenMP does not work after a fork, and Numba aborts a child that tries: there the loop is
    run by one thread, in a serial copy of the kernel. Numba's own threads (the layer "workqueue")
    abort a process in which two threads call a kernel at once: there callers wait for each other.
    """

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.threaded = _dispatcher(function, parallel=True)

    def __call__(self, *arguments: Any) -> Any:
        if _state.forked_off or getattr(_own, "is_alone", False):
            if getattr(_own, "compiles_both", False):
                self.threaded.compile(tuple(map(numba.typeof, arguments)))
            return self.serial(*arguments)
        if threading_layer() == "workqueue":
            with _state.lock:
                return self.threaded(*arguments)
        return self.threaded(*arguments)

    @cached_property
    def serial(self) -> Any:
        """The kernel without threads, under a name of its own in the cache."""
        own: Any = self.function
        copy = FunctionType(own.__code__, own.__globals__, own.__name__, own.__defaults__)
        copy.__qualname__, copy.__module__ = f"{own.__qualname__}_serial", own.__module__
        return _dispatcher(copy)


# Of each thread: whether it shall do all by itself, because handing work out costs more.
_own = threading.local()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Kernels that this thread calls inside are run by it alone."""
    before = getattr(_own, "is_alone", False)
    _own.is_alone = True
    try:
        yield
    finally:
        _own.is_alone = before


@contextmanager
def compiling_both() -> Iterator[None]:
    """Kernels that this thread runs alone inside are also compiled for several threads."""
    _own.compiles_both = True
    try:
        yield
    finally:
        _own.compiles_both = False


class _State:
    """Whether this process may use threads, and a lock for threads that must not run at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forked_off = False  # from a process that had started GNU OpenMP

    def after_fork(self) -> None:
        _number_functions_anew()
        self.lock = threading.Lock()  # a thread of the other process may have held the old one
        with suppress(ValueError):  # threads had not been started
            self.forked_off |= numba.threading_layer() == "omp" and sys.platform == "linux"


_number_functions_anew()
_state = _State()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state.after_fork)


def threading_layer() -> str:
    """What Numba's threads are made of, "tbb", "omp" or "workqueue"; starts them."""
    try:
        return numba.threading_layer()
    except ValueError:
        numba.get_num_threads()
        return numba.threading_layer()


def inlined(function: Callable) -> Callable:
    """Compile a scalar function that becomes part of every kernel calling it."""
    return numba.njit(fastmath=FUSED, forceinline=True, **_COMMON)(function)


def kernel_function(function: Callable) -> Callable:
    """Compile a function that kernels call: for long code over arrays, compiled once for all."""
    return numba.njit(fastmath=FUSED, nogil=True, **_COMMON)(function)


def inlined_sum(function: Callable) -> Callable:
    """Compile a sum over factors that becomes part of every kernel calling it."""
    return numba.njit(fastmath=REORDERED, forceinline=True, **_COMMON)(function)


# What kernels are for, by the beginning of their modules' names, and about how long they take.
_PARTS = {
    "ordinalrbm.engine.gibbs": ("surveys", "a minute"),
    "ordinalrbm.engine.mean_field": ("surveys", "a minute"),
    "ordinalrbm.engine.annealing": ("surveys", "a minute"),
    "ordinalrbm.engine": ("ratings", "a minute"),
    "ordinalrbm.matrix": ("ratings", "a minute"),
    "ordinalrbm.": ("tables", "a quarter of a minute"),
}


class _Announcement(event.Listener):
    """Prints that kernels are being compiled, once per process for each of their parts."""

    def __init__(self) -> None:
        self.is_silent = False
        self.said: set[str] = set()

    def on_start(self, happening: event.Event) -> None:
        dispatcher = (happening.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", None) or ""
        part, long = next(
            (found for name, found in _PARTS.items() if module.startswith(name)), ("all", "a minute")
        )
        if self.is_silent or part in self.said or dispatcher not in _kernels:
            return
        self.said.add(part)
        kept = "once on this machine; `ordinalrbm doctor --compile` does all at once"
        if cache_folder(dispatcher) is None:
            kept = "each time: set NUMBA_CACHE_DIR to a folder that can be written to, to keep them"
        print_to_stderr(f"ordinalrbm: compiling the kernels of {part}, about {long} ({kept}) ...")

    def on_end(self, happening: event.Event) -> None:
        pass


_announcement = _Announcement()
event.register("numba:compile", _announcement)


def print_to_stderr(text: str) -> None:
    """Print on standard error, if there is one, so that results stay alone on standard output."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def compile_silently() -> None:
    """Print no note when compiling, for programs that should be quiet."""
    _announcement.is_silent = True
