"""Surveys with scales, categories and numbers: hidden cells and hidden group means, beside peers.

    python benchmarks/mixed.py cells    # a fifth of all cells hidden, error by kind of column
    python benchmarks/mixed.py groups   # half of some questions hidden, means by group

Samples of the surveys in the data folder, one process. Needs gcimpute (``pip install gcimpute``).
Results are in benchmarks/results/mixed.txt.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from copula import gcimpute
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sources import DATA
from threadpoolctl import threadpool_limits

import ordinalrbm as orbm

HIDDEN = 0.2
SEEDS = (0, 1)


class Survey(NamedTuple):
    """A table, its categories and numbers, and which columns tell groups."""

    table: pd.DataFrame
    nominal: list[str]
    numeric: list[str]
    group: str | None = None

    @property
    def ordinal(self) -> list[str]:
        others = {*self.nominal, *self.numeric, self.group}
        return [name for name in self.table.columns if name not in others]


# ---- data ---------------------------------------------------------------------------------------


def spi(n_rows: int, every: int) -> Survey:
    """Personality, with age (a number), sex and wellness (categories), five ordered ones."""
    whole = pd.read_parquet(DATA / "spi.parquet").sample(n_rows, random_state=0)
    about = ["age", "sex", "wellness", "health", "education", "p1edu", "exer", "smoke"]
    items = [name for name in whole.columns if name.startswith("q_")][::every]
    return Survey(whole[about + items].reset_index(drop=True), ["sex", "wellness"], ["age"])


def big5(n_rows: int, every: int) -> Survey:
    """Personality, with age (a number), gender and country (categories; rare ones together)."""
    whole = pd.read_parquet(DATA / "big5-openpsychometrics.parquet")
    whole = whole[whole["age"].between(13, 90) & whole["gender"].between(1, 3)]
    whole = whole.sample(n_rows, random_state=0).reset_index(drop=True)
    often = whole["country"].value_counts().index[:8]
    country = whole["country"].where(whole["country"].isin(often), "other")
    items = [name for name in whole.columns if name not in ("country", "age", "gender")][::every]
    answers = whole[items].where(whole[items] > 0)
    about = whole[["age", "gender"]].assign(country=country)
    return Survey(about.join(answers), ["gender", "country"], ["age"])


def pisa(n_rows: int, every: int) -> Survey:
    """Reading habits of students, with their country (a category)."""
    whole = pd.read_parquet(DATA / "pisa2009-north-america.parquet")
    whole = whole.sample(n_rows, random_state=0).reset_index(drop=True)
    items = whole.columns[1::every].tolist()
    return Survey(whole[["country", *items]], ["country"], [])


def as_numbers(survey: Survey, table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """For peers: categories as a column of zeros and ones each."""
    parts, dummies = [], {}
    for name in table.columns:
        if name not in survey.nominal:
            parts.append(table[name].astype(float))
            continue
        labels = sorted(survey.table[name].dropna().unique())
        dummies[name] = [f"{name}={label}" for label in labels]
        for label in labels:
            chosen = (table[name] == label).astype(float).where(table[name].notna())
            parts.append(chosen.rename(f"{name}={label}"))
    return pd.concat(parts, axis=1), dummies


def from_numbers(survey: Survey, filled: pd.DataFrame, dummies: dict[str, list[str]]) -> Any:
    """What peers say: the most likely category, and the nearest level of a scale."""
    columns = {}
    for name in survey.table.columns:
        if name in dummies:
            labels = np.array(sorted(survey.table[name].dropna().unique()), dtype=object)
            columns[name] = labels[filled[dummies[name]].to_numpy().argmax(axis=1)]
        elif name in survey.numeric:
            columns[name] = filled[name].to_numpy()
        else:
            known = survey.table[name]
            columns[name] = filled[name].round().clip(known.min(), known.max()).to_numpy()
    return pd.DataFrame(columns)


# ---- methods ------------------------------------------------------------------------------------


def ours(survey: Survey, shown: pd.DataFrame) -> pd.DataFrame:
    model = orbm.CumulativeRBM(shown.shape[1], nominal=survey.nominal, numeric=survey.numeric, random_state=0)
    return model.fit(shown).impute(shown, rule="median")


def by_table(fill: Callable[[pd.DataFrame], np.ndarray]) -> Callable:
    """A method of the peers, which know numbers only."""

    def method(survey: Survey, shown: pd.DataFrame) -> pd.DataFrame:
        numbers, dummies = as_numbers(survey, shown)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            filled = fill(numbers)
        return from_numbers(survey, pd.DataFrame(filled, columns=numbers.columns), dummies)

    return method


def iterative(numbers: pd.DataFrame) -> np.ndarray:
    return IterativeImputer(random_state=0, max_iter=10).fit_transform(numbers)


def forests(numbers: pd.DataFrame) -> np.ndarray:
    trees = ExtraTreesRegressor(50, min_samples_leaf=5, max_features=0.33, random_state=0)
    return IterativeImputer(trees, random_state=0, max_iter=4).fit_transform(numbers)


def copula(survey: Survey, shown: pd.DataFrame) -> pd.DataFrame:
    """It has no categories: yes or no to each but the most frequent, else its matrix breaks."""
    numbers, dummies = as_numbers(survey, shown)
    usual = {name: numbers[own].sum().idxmax() for name, own in dummies.items()}
    fewer = numbers.drop(columns=list(usual.values()))
    kinds = {"ordinal": [j for j, name in enumerate(fewer) if name not in survey.numeric]}
    if survey.numeric:
        kinds["continuous"] = [fewer.columns.get_loc(name) for name in survey.numeric]
    model = gcimpute().GaussianCopula(verbose=0, random_state=0)
    with warnings.catch_warnings(), threadpool_limits(1):
        filled = model.fit_transform(fewer.to_numpy(), **kinds)
    table = pd.DataFrame(filled, columns=fewer.columns)
    for name, own in dummies.items():
        table[usual[name]] = 1.0 - table[[one for one in own if one != usual[name]]].sum(axis=1)
    return from_numbers(survey, table, dummies)


METHODS = {
    "CumulativeRBM()": ours,
    "IterativeImputer": by_table(iterative),
    "gcimpute": copula,
    "forests": by_table(forests),
}


# ---- hidden cells -------------------------------------------------------------------------------


def errors(survey: Survey, hidden: np.ndarray, filled: pd.DataFrame) -> dict[str, float]:
    """Absolute error of scales, root mean square of numbers in deviations, share of wrong ones."""
    found: dict[str, list[float]] = {"ordinal": [], "numeric": [], "nominal": []}
    for j, name in enumerate(survey.table.columns):
        true, said = survey.table[name][hidden[:, j]], filled[name][hidden[:, j]]
        if name in survey.nominal:
            found["nominal"].append(float((true.to_numpy() != said.to_numpy()).mean()))
            continue
        off = said.astype(float) - true.astype(float)
        if name in survey.numeric:
            deviation = survey.table[name].std()
            found["numeric"].append(float(np.sqrt((off**2).mean()) / deviation))
        else:
            found["ordinal"].append(float(off.abs().mean()))
    return {kind: float(np.mean(each)) for kind, each in found.items() if each}


def cells(n_rows: int, every: int) -> None:
    ratios = []
    for make in (spi, big5, pisa):
        survey = make(n_rows, every)
        print(
            f"{make.__name__}: {survey.table.shape[0]} rows, {len(survey.ordinal)} scales, "
            f"{len(survey.numeric)} numbers, {len(survey.nominal)} categories"
        )
        table: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            hidden = (rng.random(survey.table.shape) < HIDDEN) & survey.table.notna().to_numpy()
            shown = survey.table.mask(hidden)
            for name, method in METHODS.items():
                start = time.process_time()
                found = errors(survey, hidden, method(survey, shown))
                table[name].append(found | {"seconds": time.process_time() - start})
        means = pd.DataFrame({name: pd.DataFrame(rows).mean() for name, rows in table.items()}).T
        print(means.round(4).to_string(), flush=True)
        kinds = [kind for kind in ("ordinal", "numeric", "nominal") if kind in means]
        best = means[kinds].iloc[1:].min()
        ratio = means[kinds].iloc[0] / best
        ratios += ratio.tolist()
        print("ours over the best peer:", ratio.round(3).to_dict(), "\n", flush=True)
    print(f"ours over the best peer: {np.mean(ratios):.3f} on average, {max(ratios):.3f} at worst")


# ---- group means --------------------------------------------------------------------------------


def countries(n_rows: int, every: int) -> Survey:
    """The 24 countries with most people, at most so many of each, and questions alone."""
    whole = pd.read_parquet(DATA / "big5-openpsychometrics.parquet")
    often = whole["country"].value_counts().index[:24]
    parts = [whole[whole["country"] == name].head(n_rows) for name in often]
    table = pd.concat(parts).sample(frac=1, random_state=0).reset_index(drop=True)
    items = [name for name in table.columns if name not in ("country", "age", "gender")][::every]
    answers = table[items].where(table[items] > 0)
    return Survey(answers.assign(country=table["country"]), [], [], "country")


def schooling(n_rows: int, every: int) -> Survey:
    """Personality by education, eight groups."""
    whole = pd.read_parquet(DATA / "spi.parquet").dropna(subset=["education"])
    items = [name for name in whole.columns if name.startswith("q_")][::every]
    table = whole[items].reset_index(drop=True)
    return Survey(table.assign(education=whole["education"].to_numpy()), [], [], "education")


def slopes(survey: Survey, hidden: np.ndarray, filled: pd.DataFrame) -> tuple[float, float]:
    """Slope of filled on true means of the hidden cells by group: as it is, and without noise.

    True means are of some dozens of cells, and their noise flattens the slope of anything. The
    second number has the variance of that noise taken out of that of the means.
    """
    plain, freed = [], []
    for name in survey.ordinal:
        rows = hidden[:, survey.table.columns.get_loc(name)]
        if not rows.any():
            continue
        both = pd.DataFrame({"true": survey.table[name], "filled": filled[name].astype(float)})
        by_group = both[rows].groupby(survey.table[survey.group][rows])
        mean, noise = by_group.mean(), by_group["true"].var() / by_group["true"].size()
        covariance = np.cov(mean["true"], mean["filled"])
        plain.append((covariance[0, 1], covariance[0, 0]))
        freed.append((covariance[0, 1], covariance[0, 0] - noise.mean()))
    return tuple(float(np.sum(part, axis=0)[0] / np.sum(part, axis=0)[1]) for part in (plain, freed))


def groups(n_rows: int, every: int) -> None:
    for make in (countries, schooling):
        survey = make(n_rows, every)
        rng = np.random.default_rng(0)
        hidden = np.zeros(survey.table.shape, dtype=bool)
        hidden[:, : len(survey.ordinal) : 4] = True
        hidden &= (rng.random(hidden.shape) < 0.5) & survey.table.notna().to_numpy()
        shown = survey.table.mask(hidden)
        n_groups = survey.table[survey.group].nunique()
        print(
            f"{make.__name__}: {len(shown)} rows in {n_groups} groups, {len(survey.ordinal)} "
            "questions, of every fourth half of the answers hidden"
        )
        for name, filled in _filled(survey, shown):
            plain, freed = slopes(survey, hidden, filled)
            print(f"{name:<38} slope {plain:.2f}, without the noise {freed:.2f}", flush=True)


def _filled(survey: Survey, shown: pd.DataFrame) -> Any:
    """Expected answers, and means of draws, of each method."""
    given = {"nominal": [survey.group], "background": [survey.group]}
    questions = shown[survey.ordinal]
    alone = orbm.CumulativeRBM(10, random_state=0).fit(questions)
    expected = pd.DataFrame(alone.predict(questions, rule="mean"), columns=survey.ordinal)
    yield "without background", expected
    told = orbm.CumulativeRBM(10, random_state=0, **given).fit(shown)
    yield "background, expected answers", told.predict(shown, rule="mean")
    drawn = told.impute(shown, n_draws=5, random_state=0)
    yield "background, mean of five draws", sum(part[survey.ordinal] for part in drawn) / 5
    dummies = pd.get_dummies(shown[survey.group].astype(str)).astype(float)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = IterativeImputer(random_state=0, max_iter=5).fit_transform(questions.join(dummies))
    yield (
        "IterativeImputer with dummies",
        pd.DataFrame(filled[:, : questions.shape[1]], columns=survey.ordinal),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["cells", "groups"])
    parser.add_argument("--rows", type=int, default=1500, help="of a survey, or of a country")
    parser.add_argument("--every", type=int, default=3, help="which questions: every so many")
    given = parser.parse_args()
    print("python", "benchmarks/mixed.py", *sys.argv[1:], flush=True)
    {"cells": cells, "groups": groups}[given.what](given.rows, given.every)


if __name__ == "__main__":
    main()
