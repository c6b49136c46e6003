"""A note while kernels are compiled: how many, and how long that takes here."""

import multiprocessing
import time

from ordinalrbm.runtime.display import print_to_stderr

# What kernels are for, by the beginning of their modules' names.
_PARTS = {
    "ordinalrbm.engine.gibbs": "surveys",
    "ordinalrbm.engine.mean_field": "surveys",
    "ordinalrbm.engine.annealing": "surveys",
    "ordinalrbm.vector": "surveys",
    "ordinalrbm.engine": "ratings",
    "ordinalrbm.matrix": "ratings",
}
# How many kernels a first fit and its predictions need; the seconds of all of these, of the long ones and of
# another one as benchmarks/start_up.py --compile once printed them. What counts is how they compare.
_NEEDED = {"surveys": (8, 19.5), "ratings": (7, 17.0)}
_SECONDS = {
    "_row_pass": 6.2,
    "_fixed_point": 7.0,
    "_column_pass": 2.3,
    "_half_sweep": 9.1,
    "_best_liked": 6.1,
}
_SECONDS_OF_OTHERS = 0.5


class _Note:
    """Printed at the first kernel of a part; after a long one, with the time that others will take here."""

    def __init__(self) -> None:
        self.is_silent = multiprocessing.parent_process() is not None  # the parent says it
        self.begun = 0.0
        self.done: dict[str, list[tuple[float, float]]] = {}  # seconds here, and those expected

    def begin(self, module: str, folder: str | None) -> None:
        part = _part(module)
        if part and part not in self.done:
            self.done[part] = []
            where = "once on this machine; `ordinalrbm doctor --compile` does all at once"
            if folder is None:
                where = "each time: set NUMBA_CACHE_DIR to a folder that can be written to, to keep them"
            self._print(f"compiling about {_NEEDED[part][0]} kernels for {part} ({where}) ...")
        self.begun = time.perf_counter()

    def end(self, module: str, name: str) -> None:
        part = _part(module)
        if not part:
            return
        done, (n_kernels, in_all) = self.done[part], _NEEDED[part]
        done.append((time.perf_counter() - self.begun, _SECONDS.get(name, _SECONDS_OF_OTHERS)))
        here, expected = map(sum, zip(*done, strict=True))
        if name in _SECONDS and expected < in_all and len(done) < n_kernels:
            left = here / expected * (in_all - expected)
            self._print(f"{len(done)} of about {n_kernels} kernels, about {left:.0f} s left ...")

    def _print(self, text: str) -> None:
        if not self.is_silent:
            print_to_stderr(f"ordinalrbm: {text}")


def _part(module: str) -> str:
    return next((part for name, part in _PARTS.items() if module.startswith(name)), "")


note = _Note()


def compile_silently() -> None:
    note.is_silent = True
