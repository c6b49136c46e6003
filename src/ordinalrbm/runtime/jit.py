"""Compiling with Numba: decorators, machine code kept on disk, a note while users wait."""

import hashlib
import marshal
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
from numba.core import caching
from numba.core.bytecode import FunctionIdentity
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

from ordinalrbm.runtime.compiling import note

# Multiply-adds may be fused everywhere. Only sums over factors may also be reordered, so that LLVM
# vectorises them: reordering elsewhere would undo the rounding tricks of the scalar functions.
# NaN and infinity always keep their meaning, because the outermost thresholds are infinite.
FUSED = {"contract", "nsz"}
REORDERED = {"reassoc", "contract", "nsz"}
# Division by zero gives infinity, as in NumPy: a check for it would be a branch in vector code. Where no
# arrays are made, none are counted (_nrt): counting the references to all arrays of a tuple in a loop over
# answers costs more than the answers.
_COMMON: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}


def _renumber_functions() -> None:
    """Let Numba count compiled functions from a random number on.

    These numbers are in the names of machine code, such as that of one of NumPy's sorts. Numba counts from 1
    in every process, so that code which two processes have kept on disk can have the same name and do
    different things; a third one that loads both would crash (numba/numba#10486).
    """
    FunctionIdentity._unique_ids = count(secrets.randbits(60))


_renumber_functions()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renumber_functions)


class _PartLibrary(JITCodeLibrary):
    """Code of a function that kernels call: LLVM optimises it within each of them, and nowhere else.

    Numba would also optimise it by itself, with all that it calls, and make machine code that nobody runs.
    """

    def _optimize_final_module(self) -> None: ...

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def set_env(self, name: str, environment: Any) -> None: ...

    @property
    def codegen(self) -> Any:  # asked for nothing but to set the environment of machine code
        return self


class _PartCompiler(Compiler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), "part of a kernel")


class _Part(CPUDispatcher):
    """A function that has machine code in kernels only: where Python calls it, Python runs it."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def _part(function: Callable, **options: Any) -> Any:
    settings = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, **_COMMON, **options}
    part = numba.njit(**settings)(function)
    if isinstance(part, CPUDispatcher):  # not where NUMBA_DISABLE_JIT is set
        part.__class__ = _Part
    return part


def kernel_function(function: Callable) -> Any:
    """Compile a function that kernels call, such as the work on one row; it makes no arrays."""
    return _part(function, fastmath=FUSED, _nrt=False)


def allocating_function(function: Callable) -> Any:
    """Compile a function that kernels call and that makes arrays; those that it gives an array to do, too."""
    return _part(function, fastmath=FUSED, _nrt=True)


def inlined(function: Callable) -> Any:
    """Compile a small function whose code is put where kernels call it; it makes no arrays."""
    return _part(function, fastmath=FUSED, forceinline=True, _nrt=False)


def inlined_sum(function: Callable) -> Any:
    """Compile a sum over factors whose code is put where kernels call it."""
    return _part(function, fastmath=REORDERED, forceinline=True, _nrt=False)


def compiled(function: Callable) -> Any:
    """Compile a kernel, which Python calls, and keep its machine code on disk; it makes no arrays."""
    return _kept(numba.njit(**_COMMON, fastmath=FUSED, _nrt=False)(function))  # type: ignore[call-overload]


def allocating_kernel(function: Callable) -> Any:
    """Compile a kernel that makes arrays."""
    return _kept(numba.njit(**_COMMON, fastmath=FUSED)(function))


def _kept(kernel: Any) -> Any:
    if not getattr(numba.config, "DISABLE_JIT", False):
        kernel._cache = _Cache(kernel.py_func)
        kernel._cache.kernel = kernel
    return kernel


class _BesideSource(caching.InTreeCacheLocator):
    """The folder beside the source, whether or not it can be written to."""

    def ensure_cache_path(self) -> None: ...


class _Folders(caching.CompileResultCacheImpl):
    # Without a home folder "~" stays as it is, and Numba would make a folder of that name.
    _locator_classes = [  # noqa: RUF012
        place
        for place in (*caching.CompileResultCacheImpl._locator_classes, _BesideSource)
        if os.path.isabs(os.path.expanduser("~")) or place is not caching.UserWideCacheLocator
    ]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:  # the line may be another one
        return f"{fullname}.py{sys.version_info[0]}{sys.version_info[1]}{abiflags}"


class _Cache(caching.FunctionCache):
    """Files of a kernel's machine code, each named by all that it is made of.

    Numba finds files by an index, which it writes first: after a full disk, or with two writers at
    once, code under it may be that of another version or of other types. With a full disk or a damaged file,
    code is compiled in memory.
    """

    _impl_class = _Folders
    kernel: Any

    @property
    def folder(self) -> str | None:
        """Where code is written to; None if no folder can be."""
        return None if isinstance(self._impl.locator, _BesideSource) else self.cache_path

    def _file_name(self, signature: Any, target: Any) -> str:
        fields = [kind.fields for kind in _kinds(signature) if hasattr(kind, "fields")]
        made_of = (
            numba.__version__,
            _fingerprint(self.kernel),
            self._index_key(signature, target.codegen()),
            fields,
        )
        return f"{self._impl.filename_base}.{hashlib.sha256(repr(made_of).encode()).hexdigest()[:20]}.nbc"

    def load_overload(self, signature: Any, target: Any) -> Any:
        target.refresh()
        locator = caching.UserProvidedCacheLocator if vars(numba.config)["CACHE_DIR"] else _BesideSource
        read_only = locator(self._py_func, self._py_func.__code__.co_filename).get_cache_path()
        for place in dict.fromkeys([self.cache_path, read_only]):
            with suppress(Exception):  # there is none, or it is damaged in whatever way
                file = caching.IndexDataCacheFile(place, self._impl.filename_base, None)
                return self._impl.rebuild(target, file._load_data(self._file_name(signature, target)))
        note.begin(self._py_func.__module__, self.folder)

    def save_overload(self, signature: Any, code: Any) -> None:
        note.end(self._py_func.__module__, self._py_func.__name__)
        with suppress(Exception):
            self._impl.locator.ensure_cache_path()
            name = self._file_name(signature, code.target_context)
            self._cache_file._save_data(name, self._impl.reduce(code))


def _kinds(kind: Any) -> Iterator[Any]:
    """The types of a signature, also within tuples."""
    yield kind
    for part in getattr(kind, "args", getattr(kind, "types", kind if isinstance(kind, tuple) else ())):
        yield from _kinds(part)


def cache_folder(kernel: Any) -> str | None:
    """The folder that a kernel's machine code is written to; None if there is none."""
    return kernel._cache.folder


@cache
def _fingerprint(kernel: Any) -> str:
    """A hash of a kernel's code and options, and of the functions and constants that become part of it."""
    digest, waiting, seen = hashlib.sha256(Path(__file__).read_bytes()), [kernel], set()
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, Dispatcher):
            options = value.targetoptions
            fast = sorted(options["fastmath"])
            digest.update(f"{fast} {options.get('forceinline')} {options.get('_nrt')}".encode())
        value = getattr(value, "py_func", getattr(value, "_defn", value))  # or an instruction of LLVM
        if isinstance(value, tuple):
            digest.update(str(len(value)).encode())
            waiting += value
        elif isinstance(value, ModuleType):
            digest.update(value.__name__.encode())  # wherever it is installed
        elif not isinstance(value, FunctionType):
            digest.update(re.sub(" at 0x.*", "", repr(getattr(value, "__members__", value))).encode())
        elif value not in seen:
            seen.add(value)
            code = value.__code__.replace(co_filename="", co_firstlineno=1, co_linetable=b"")
            digest.update(marshal.dumps(code, 2))
            waiting += _values(value)
        digest.update(b"\0")
    return digest.hexdigest()


def _values(function: FunctionType) -> Iterator[Any]:
    """What the names in a function stand for that are not its own."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    yield from (cells[name].cell_contents for name in code.co_freevars)
    for name in code.co_names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, ModuleType) and value.__name__.startswith("ordinalrbm."):
            yield from (vars(value).get(attribute) for attribute in code.co_names)
