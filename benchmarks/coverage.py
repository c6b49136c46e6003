"""Do 90 % intervals from several imputations hold the truth nine times in ten?

    python benchmarks/coverage.py bfi spi pisa --missing 0.1 0.3 --mechanism mcar mar

A large survey is the population: its rows without gaps in the chosen questions. A replicate draws
1,000 of them with replacement, hides answers, fits `CumulativeRBM`, imputes ten times,
and pools by `ordinalrbm.pool`. Counted is how often an interval holds the value of the whole
population, over all means, all pairwise correlations (by Fisher's transform) and the slopes of one
regression (the first question on the next eight). Standard errors of correlations and slopes are
sandwich ones, since answers are not normal; those of the complete sample, before anything is
hidden, give the coverage that stands beside.

Answers are hidden completely at random (mcar), or at random given the background (mar): a person's
share of hidden answers is 0.25, 1 or 1.75 times the average by age and sex (bfi, spi), or 0.25 to
1.75 times it by country (pisa), and the background is there as further columns of the table: age in
six bands, sex, country as yes or no.
"""

from __future__ import annotations

if __name__ != "__main__":
    # Numba asks whether there is a package `coverage`, and from this folder would find this file.
    raise ImportError("benchmarks/coverage.py is a program, not a module")

import argparse
import time
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sources import DATA

import ordinalrbm as orbm

N_ROWS, N_QUESTIONS, N_PREDICTORS, LEVEL = 1_000, 15, 8, 0.9
QUANTITIES = ("means", "correlations", "regression")
Estimates = dict[str, tuple[np.ndarray, np.ndarray]]


class Population(NamedTuple):
    """Complete answers, what else is known of the people, and how much each of them hides."""

    answers: np.ndarray
    background: np.ndarray
    hides: np.ndarray  # relative to the average


def bfi() -> Population:
    frame = pd.read_parquet(DATA / "bfi.parquet").dropna()
    known = {"gender", "education", "age"}
    questions = [name for name in frame.columns if name not in known][:N_QUESTIONS]
    return _by_age_and_sex(frame, questions, "age", "gender")


def spi() -> Population:
    frame = pd.read_parquet(DATA / "spi.parquet")
    known = {"age", "sex", "health", "p1edu", "p2edu", "education", "wellness", "exer", "smoke"}
    questions = [name for name in frame.columns if name not in known | {"ER"}][:N_QUESTIONS]
    return _by_age_and_sex(frame.dropna(subset=[*questions, "age", "sex"]), questions, "age", "sex")


def pisa() -> Population:
    frame = pd.read_parquet(DATA / "pisa2009-north-america.parquet")
    questions = [name for name in frame.columns if name != "country"][:N_QUESTIONS]
    frame = frame.dropna(subset=questions)
    country, names = pd.factorize(frame["country"], sort=True)
    hides = np.linspace(0.25, 1.75, len(names))[country]
    dummies = country[:, None] == np.arange(1, len(names))
    return Population(frame[questions].to_numpy(float), dummies.astype(float), hides / hides.mean())


def _by_age_and_sex(frame: pd.DataFrame, questions: list[str], age: str, sex: str) -> Population:
    older = (frame[age] > frame[age].median()).to_numpy(float)
    man = (frame[sex] == frame[sex].min()).to_numpy(float)
    hides = 0.25 + 0.75 * (older + man)
    band = pd.qcut(frame[age], 6, labels=False, duplicates="drop").to_numpy(float)
    background = np.column_stack([band, frame[sex].to_numpy(float)])
    return Population(frame[questions].to_numpy(float), background, hides / hides.mean())


SURVEYS = {"bfi": bfi, "spi": spi, "pisa": pisa}


# ---- what an analyst would do with a complete table --------------------------------------------


def analysed(X: np.ndarray) -> Estimates:
    """Estimates and standard errors of all quantities."""
    n = len(X)
    means = X.mean(axis=0), X.std(axis=0, ddof=1) / np.sqrt(n)
    return dict(zip(QUANTITIES, (means, _correlations(X), _regression(X)), strict=True))


def _correlations(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's transform of each pair, with the error of its influence function."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    i, j = np.triu_indices(X.shape[1], 1)
    r = (Z[:, i] * Z[:, j]).mean(axis=0)
    influence = Z[:, i] * Z[:, j] - 0.5 * r * (Z[:, i] ** 2 + Z[:, j] ** 2)
    return np.arctanh(r), influence.std(axis=0) / np.sqrt(len(X)) / (1.0 - r**2)


def _regression(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of the first question on the next ones, with White's errors."""
    A = np.column_stack([np.ones(len(X)), X[:, 1 : 1 + N_PREDICTORS]])
    bread = np.linalg.inv(A.T @ A)
    slopes = bread @ (A.T @ X[:, 0])
    A_by_error = A * (X[:, 0] - A @ slopes)[:, None]
    errors = np.sqrt(np.diag(bread @ (A_by_error.T @ A_by_error) @ bread))
    return slopes[1:], errors[1:]


# ---- replicates ---------------------------------------------------------------------------------


class Analyses(NamedTuple):
    """Of one sample: the complete table, and for each way its imputed tables."""

    complete: Estimates
    imputed: dict[str, list[Estimates]]


def analyses(
    people: Population, share: float, mechanism: str, parameters: list[str], n_draws: int, seed: int
) -> Analyses:
    """Draw people, hide answers, impute, analyse."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(people.answers), size=N_ROWS)
    complete = people.answers[rows]
    chance = share * (people.hides[rows] if mechanism == "mar" else np.ones(N_ROWS))
    X = np.where(rng.random(complete.shape) < chance[:, None], np.nan, complete)
    levels = [np.unique(column) for column in people.answers.T]
    if mechanism == "mar":
        X = np.column_stack([X, people.background[rows]])
        levels += [np.unique(column) for column in people.background.T]
    model = orbm.CumulativeRBM(
        min(X.shape[1], 50),
        scales={j: list(found) for j, found in enumerate(levels)},
        validation_fraction=0.0,
        random_state=seed,
    ).fit(X)
    imputed = {
        way: [
            analysed(table[:, : complete.shape[1]])
            for table in model.impute(X, n_draws=n_draws, parameters=way, random_state=seed)
        ]
        for way in parameters
    }
    return Analyses(analysed(complete), imputed)


def replicate(truth: Estimates, found: Analyses) -> dict[str, dict[str, np.ndarray]]:
    """For each way and quantity, (quantities, 3): covered, error, standard error."""
    judged = {"complete": _judged(truth, _of_one(found.complete))}
    for way, results in found.imputed.items():
        judged[way] = _judged(truth, {name: _pooled(results, name) for name in QUANTITIES})
    return judged


def spread(found: Analyses, way: str, name: str) -> tuple[float, float]:
    """How far pooled estimates are from those of the complete table: as told, and in truth.

    Squared and in squared standard errors. This compares with the same sample, so that few masks
    tell more than coverage does: told, (1 + 1/M) times the variance between imputations, should
    be the squared difference.
    """
    results = found.imputed[way]
    estimates = np.array([result[name][0] for result in results])
    within = np.mean([result[name][1] ** 2 for result in results], axis=0)
    told = (1.0 + 1.0 / len(results)) * estimates.var(axis=0, ddof=1)
    true = (estimates.mean(axis=0) - found.complete[name][0]) ** 2
    return float((told / within).mean()), float((true / within).mean())


def _of_one(results: Estimates) -> dict[str, np.ndarray]:
    """(quantities, 3): estimate, standard error and half the interval."""
    factor = stats.t.ppf(0.5 + 0.5 * LEVEL, N_ROWS - 1)
    return {name: np.column_stack([q, s, factor * s]) for name, (q, s) in results.items()}


def _pooled(results: list[Estimates], name: str) -> np.ndarray:
    table = orbm.pool(
        np.array([result[name][0] for result in results]),
        np.array([result[name][1] for result in results]),
        level=LEVEL,
        df_complete=N_ROWS - 1,
    )
    return np.column_stack([table["estimate"], table["se"], table["high"] - table["estimate"]])


def _judged(truth: Estimates, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    judged = {}
    for name, (estimate, se, half) in ((name, part.T) for name, part in found.items()):
        error = estimate - truth[name][0]
        judged[name] = np.column_stack([np.abs(error) <= half, error, se])
    return judged


def line(replicates: list[dict[str, Any]], way: str, name: str) -> str:
    """Coverage with its standard error over masks, bias, and the error told over the true one."""
    found = np.array([each[way][name] for each in replicates])
    covered, error, se = found[..., 0], found[..., 1], found[..., 2]
    spread = covered.mean(axis=1).std(ddof=1) / np.sqrt(len(replicates))
    ratio = np.sqrt((se**2).mean() / (error**2).mean())
    return f"{covered.mean():6.3f} ± {spread:.3f}  {ratio:5.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("surveys", nargs="+", choices=SURVEYS)
    parser.add_argument("--missing", nargs="+", type=float, default=[0.1, 0.3])
    parser.add_argument("--mechanism", nargs="+", choices=("mcar", "mar"), default=["mcar", "mar"])
    parser.add_argument("--parameters", nargs="+", choices=("drawn", "fixed"), default=["drawn"])
    parser.add_argument("--masks", type=int, default=40)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--spread", action="store_true", help="the missing part of errors alone")
    given = parser.parse_args()
    what = "told, true spread" if given.spread else "coverage, se / true error"
    ways = given.parameters if given.spread else ["complete", *given.parameters]
    print("data  missing  how   quantity      " + "   ".join(f"{way}: {what}" for way in ways))
    for survey, share, mechanism in product(given.surveys, given.missing, given.mechanism):
        began, people = time.perf_counter(), SURVEYS[survey]()
        every = [
            analyses(people, share, mechanism, given.parameters, given.draws, seed)
            for seed in range(given.masks)
        ]
        judged = [replicate(analysed(people.answers), found) for found in every]
        for name in QUANTITIES:
            parts = [
                spread_line(every, way, name) if given.spread else line(judged, way, name) for way in ways
            ]
            print(f"{survey:5s} {share:5.2f}    {mechanism:5s} {name:13s}", "   ".join(parts))
        print(f"# {(time.perf_counter() - began) / given.masks:.1f} s per mask", flush=True)


def spread_line(every: list[Analyses], way: str, name: str) -> str:
    told, true = np.mean([spread(found, way, name) for found in every], axis=0)
    return f"{told:6.3f} {true:6.3f}"


if __name__ == "__main__":
    main()
