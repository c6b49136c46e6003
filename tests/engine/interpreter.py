"""Triton's interpreter without what it does for nothing, which is two thirds of its time.

With every call of a function it looks through the whole language for what it has to replace. And of
every sum of integers it finds out whether it overflows, to tell it only when it debugs.
"""

import inspect
import os
from functools import cache


def use_interpreter():
    """Run kernels of a GPU on the host; to be called before they are imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.language.core import is_builtin
    from triton.runtime import interpreter

    @cache
    def names_of_builtins(package):
        return [name for name, member in inspect.getmembers(package) if is_builtin(member)]

    def patch_builtin(package, builder, scope):
        for name in names_of_builtins(package):
            member = getattr(package, name)
            if is_builtin(member):
                interpreter._patch_attr(package, name, member, builder, scope)

    interpreter._patch_builtin = patch_builtin
    interpreter.interpreter_builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
