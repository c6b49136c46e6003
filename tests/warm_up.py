"""Compile the kernels once, in one process, before the tests are shared among several.

Else each process of pytest-xdist would compile them for itself, at the same time as the others.
"""

from ordinalrbm.cli.warm_up import compile_kernels

for name, first, again in compile_kernels():
    print(f"{name}: {first:.1f} s, then {again:.1f} s", flush=True)
