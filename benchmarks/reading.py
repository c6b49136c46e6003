"""Factors that can be read: rotated loadings of known scales, scores and errors of made-up people.

    python benchmarks/reading.py [scales] [people] [errors]

*scales*: five rotated factors of bfi (all rows) and big5 (a random sample of 6,000), three seeds.
An item is with its scale when most items of that scale have their largest loading on the same
factor. Beside them scikit-learn's FactorAnalysis(rotation="varimax") of the answers as numbers,
gaps filled with means: Tucker's congruence of each factor.

*people*: answers of 2,000 people whose factors are known, from an ordinal factor model (four
designs, four data sets each). How often the true factor lies in score ± 1.645 standard errors.

*errors*: 30 data sets of 1,000 people from one model with two factors. The standard deviation of
the loadings over the data sets, their mean standard error, and how often loading ± 1.645 standard
errors holds the true one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import FactorAnalysis
from sources import DATA

import ordinalrbm as orbm
from ordinalrbm.stats.rotation import rotate

SEEDS, N_SAMPLE, NINETY = range(3), 6_000, 1.6449


# ---- scales -----------------------------------------------------------------------------------


def scales() -> None:
    bfi = pd.read_parquet(DATA / "bfi.parquet")
    big5 = pd.read_parquet(DATA / "big5-openpsychometrics.parquet").sample(N_SAMPLE, random_state=0)
    for name, frame in (("bfi", bfi), ("big5", big5)):
        items = [c for c in frame.columns if c[0] in "ACENO" and c[1:].isdecimal()]
        table = frame[items].reset_index(drop=True)
        theirs = peer(table)
        gaps = float(table.isna().to_numpy().mean())
        print(f"{name}: {len(table):,} rows, {len(items)} items, {gaps:.1%} gaps")
        print(f"  FactorAnalysis, varimax      items with their scale {with_scale(theirs)}")
        for seed in SEEDS:
            model = orbm.CumulativeRBM(5, random_state=seed).fit(table)
            told(seed, model, theirs)


def told(seed: int, model: orbm.CumulativeRBM, theirs: pd.DataFrame) -> None:
    weights = pd.DataFrame(model.model_.weights, theirs.index)
    ours = model.loadings()
    oblique = model.loadings("oblimin")
    alike = " ".join(f"{value:.3f}" for value in congruence(ours, theirs))
    print(
        f"  seed {seed}: items with their scale    unrotated weights {with_scale(weights)}   "
        f"varimax {with_scale(ours)}   oblimin {with_scale(oblique)}   congruence {alike}",
        flush=True,
    )


def peer(table: pd.DataFrame) -> pd.DataFrame:
    filled = table.astype(float).fillna(table.astype(float).mean())
    standard = (filled - filled.mean()) / filled.std()
    found = FactorAnalysis(5, rotation="varimax").fit(standard.to_numpy())
    return pd.DataFrame(found.components_.T, table.columns)


def with_scale(loadings: pd.DataFrame) -> int:
    """Items on the factor of most of their scale, no factor being that of two scales."""
    strongest = loadings.abs().to_numpy().argmax(axis=1)
    names = sorted({item[0] for item in loadings.index})
    counts = np.zeros((len(names), loadings.shape[1]), dtype=int)
    for item, factor in zip(loadings.index, strongest, strict=True):
        counts[names.index(item[0]), factor] += 1
    return int(counts[linear_sum_assignment(-counts)].sum())


def congruence(ours: pd.DataFrame, theirs: pd.DataFrame) -> np.ndarray:
    a, b = ours.to_numpy(), theirs.to_numpy()
    alike = np.abs(a.T @ b) / np.sqrt(np.outer((a**2).sum(axis=0), (b**2).sum(axis=0)))
    return alike[linear_sum_assignment(-alike)]


# ---- made-up people ---------------------------------------------------------------------------


class Design(NamedTuple):
    n_factors: int
    items_per_factor: int
    n_levels: int
    missing: float


DESIGNS = (Design(1, 10, 5, 0.0), Design(2, 8, 5, 0.0), Design(3, 6, 4, 0.1), Design(5, 8, 5, 0.2))


class Truth(NamedTuple):
    loadings: np.ndarray
    thresholds: list[np.ndarray]


def truth_of(design: Design, rng: np.random.Generator) -> Truth:
    n_factors, per_factor, n_levels, _ = design
    loadings = np.zeros((n_factors * per_factor, n_factors))
    for k in range(n_factors):
        loadings[k * per_factor : (k + 1) * per_factor, k] = rng.uniform(0.4, 0.8, per_factor)
    loadings *= rng.choice([1, 1, 1, -1], (len(loadings), 1))
    middle = np.linspace(-1.2, 1.2, n_levels - 1)
    return Truth(loadings, [np.sort(middle + 0.3 * rng.normal(size=n_levels - 1)) for _ in loadings])


def people_of(
    truth: Truth, n_rows: int, missing: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray]:
    factors = rng.normal(size=(n_rows, truth.loadings.shape[1]))
    noise = np.sqrt(1.0 - (truth.loadings**2).sum(axis=1))
    utility = factors @ truth.loadings.T + noise * rng.normal(size=(n_rows, len(noise)))
    answers = [
        1.0 + np.searchsorted(bounds, column)
        for bounds, column in zip(truth.thresholds, utility.T, strict=True)
    ]
    table = np.where(rng.random(utility.shape) < missing, np.nan, np.stack(answers, axis=1))
    return pd.DataFrame(table).add_prefix("q"), factors


def matched(found: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the found factors each true one is, and with which sign."""
    product = truth.T @ found
    order = linear_sum_assignment(-np.abs(product))[1]
    return order, np.sign(product[np.arange(len(order)), order])


def people() -> None:
    print("scores of made-up people: share of true factors in score ± 1.645 standard errors")
    every: dict[str, list[float]] = {}
    for design in DESIGNS:
        shares: dict[str, list[float]] = {}
        for data_set in range(4):
            for how, share in coverage(design, data_set):
                shares.setdefault(how, []).append(share)
                every.setdefault(how, []).append(share)
        told = "   ".join(f"{how} {np.mean(share):.3f}" for how, share in shares.items())
        k, items, levels, missing = design
        described = f"{k} factors, {items} items each, {levels} levels, {missing:.0%} gaps"
        print(f"  {described}: {told}", flush=True)
    print("  all: " + "   ".join(f"{how} {np.mean(share):.3f}" for how, share in every.items()))


def coverage(design: Design, data_set: int) -> Iterator[tuple[str, float]]:
    rng = np.random.default_rng([design.n_factors, data_set])
    truth = truth_of(design, rng)
    table, factors = people_of(truth, 2_000, design.missing, rng)
    model = orbm.CumulativeRBM(design.n_factors, random_state=data_set).fit(table)
    for how in ("linear_response", "mcmc"):
        scores, errors = model.set_params(inference=how).scores(table, return_std=True)
        order, sign = matched(model.loadings().to_numpy(), truth.loadings)
        apart = sign * scores.to_numpy()[:, order] - factors
        yield how, float((np.abs(apart) < NINETY * errors.to_numpy()[:, order]).mean())


# ---- errors of loadings -----------------------------------------------------------------------


def errors() -> None:
    design = Design(2, 6, 5, 0.0)
    truth = truth_of(design, np.random.default_rng(7))
    target = rotate(truth.loadings).pattern
    found, said = [], []
    for data_set in range(30):
        rng = np.random.default_rng([7, data_set])
        table, _ = people_of(truth, 1_000, 0.0, rng)
        model = orbm.CumulativeRBM(2, random_state=data_set).fit(table)
        reading = model.factor_solution(table)
        order, sign = matched(reading.loadings.to_numpy(), target)
        found.append(sign * reading.loadings.to_numpy()[:, order])
        said.append(reading.standard_errors.to_numpy()[:, order])
    inside = np.abs(np.array(found) - target) < NINETY * np.array(said)
    bias = rms(np.mean(found, axis=0) - target)
    print("standard errors of loadings, 30 data sets of 1,000 people, 12 items, 2 factors")
    print(f"  standard deviation of loadings over data sets {np.std(found, axis=0).mean():.4f}")
    print(f"  mean standard error                           {np.mean(said):.4f}")
    print(f"  bias of loadings (root mean square)           {bias:.4f}")
    print(f"  true loading in ± 1.645 standard errors       {inside.mean():.3f}")


def rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def main() -> None:
    parts = {"scales": scales, "people": people, "errors": errors}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
