"""What `ordinalrbm.engine.memory` says of a fit, beside what it takes: every case a new process.

    python benchmarks/memory.py [--small]

Measured is how far the resident memory goes up in `fit` (VmHWM, set back before it), with compiled
code loaded and the data there already. Two epochs; later ones do the same again.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ordinalrbm as orbm
from ordinalrbm.engine import memory

CHILD = "--child"
KINDS = {
    "ordinal_mf": orbm.OrdinalMF,
    "gaussian_mf": orbm.GaussianMF,
    "multinomial_rbm": orbm.MultinomialRBM,
}


class Case(NamedTuple):
    kind: str
    rows: int
    columns: int
    answers: int
    factors: int


SMALL = [
    *(
        Case(kind, *size)
        for kind in ("ordinal_mf", "matrix_crbm", "gaussian_mf", "multinomial_rbm")
        for size in (
            (20_000, 5_000, 500_000, 10), (20_000, 5_000, 2_000_000, 10),
            (20_000, 5_000, 500_000, 50), (5_000, 200_000, 500_000, 20),
        )
    ),
    Case("vector", 20_000, 50, 1_000_000, 20), Case("vector", 60_000, 50, 2_000_000, 100),
    Case("vector", 1_000, 1_500, 1_500_000, 20), Case("defaults", 20_000, 50, 900_000, 50),
]  # fmt: skip
LARGE = [
    Case("vector", 100_000, 80, 7_000_000, 50),
    Case("defaults", 100_000, 80, 7_000_000, 50),
    Case("ordinal_mf", 50_000, 10_000, 5_000_000, 40),
    Case("ordinal_mf", 50_000, 10_000, 5_000_000, 200),
    Case("ordinal_mf", 20_000, 1_000_000, 3_000_000, 40),
    Case("matrix_crbm", 50_000, 10_000, 5_000_000, 50),
    Case("gaussian_mf", 50_000, 10_000, 5_000_000, 50),
]


def made_up(case: Case):
    """A table of answers, or ratings as three arrays, and how many there are."""
    rng = np.random.default_rng(0)
    if case.kind in ("vector", "defaults"):
        X = rng.integers(1, 6, (case.rows, case.columns), dtype=np.int8).astype(np.float32)
        X[rng.random(X.shape, dtype=np.float32) > case.answers / X.size] = np.nan
        return X, int(np.isfinite(X).sum())
    user = rng.integers(0, case.rows, case.answers)
    item = rng.integers(0, case.columns, case.answers)
    user, item = np.divmod(np.unique(user * case.columns + item), case.columns)
    return (user, item, rng.integers(1, 6, user.size, dtype=np.int8)), user.size


def estimator(case: Case):
    few = {"n_epochs": 2, "random_state": 0}
    if case.kind == "vector":
        return orbm.CumulativeRBM.binary(case.factors, **few)
    if case.kind == "defaults":
        return orbm.CumulativeRBM(case.factors, **few)
    if case.kind == "matrix_crbm":
        return orbm.MatrixCumulativeRBM(case.factors, case.factors, **few)
    return KINDS[case.kind](case.factors, **few)


def estimated(case: Case, n_answers: int) -> int:
    size = memory.Size(case.rows, case.columns, n_answers, 5, case.factors)
    if case.kind in ("vector", "defaults"):
        model = estimator(case)
        latent = model.unanswered == "latent"
        size = size._replace(answers=size.rows * size.columns) if latent else size
        return memory.needed("survey", size, units=model.units_per_factor)
    if case.kind == "matrix_crbm":
        size = size._replace(column_factors=case.factors)
    return memory.needed(case.kind, size)


def resident(what: str) -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{what}:")[1].split()[0])


def measure(case: Case) -> None:
    small, _ = made_up(Case(case.kind, 100, 20, 800, 2))
    estimator(case._replace(factors=2)).fit(small)
    given, n_answers = made_up(case)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    estimator(case).fit(given)
    taken = resident("VmHWM") - before
    said = estimated(case, n_answers)
    print(
        f"{case.kind:15} {case.rows:>9,} {case.columns:>9,} {n_answers:>10,} {case.factors:>7}"
        f" {taken / 2**20:>9.1f} {said / 2**20:>9.1f} {said / taken - 1:>+7.0%}",
        flush=True,
    )


def main() -> None:
    if sys.argv[1:2] == [CHILD]:
        measure(Case(sys.argv[2], *map(int, sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="only cases of a few seconds")
    cases = SMALL if parser.parse_args().small else [*SMALL, *LARGE]
    print(f"{'':51} {'MiB':>9} {'MiB':>9}")
    print(
        f"{'kind':15} {'rows':>9} {'columns':>9} {'answers':>10} {'factors':>7}"
        f" {'measured':>9} {'estimate':>9} {'':>7}",
        flush=True,
    )
    for case in cases:
        subprocess.run([sys.executable, __file__, CHILD, *map(str, case)], check=True)


if __name__ == "__main__":
    main()
