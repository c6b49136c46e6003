"""Compile the kernels once, in two processes, before the tests are shared among several.

Else each process of pytest-xdist would compile all of them for itself.
"""

import multiprocessing

from ordinalrbm.cli.warm_up import compile_kernels


def use(kind: str) -> None:
    """Use all models of surveys or of ratings."""
    for name, first, again in compile_kernels(surveys=kind == "surveys", ratings=kind == "ratings"):
        print(f"{name}: {first:.1f} s, then {again:.1f} s", flush=True)


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(use, ["surveys", "ratings"])
