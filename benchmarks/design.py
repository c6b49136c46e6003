"""Coverage of 95 % intervals that know the design of a sample, by simulation.

Populations of 4 strata and many clusters: answers of a cluster are alike (in the factor and in each
question), people have unequal weights, and clusters are drawn. Means of answers, differences between
two groups, shares, and means pooled over imputations are compared with the truth of the population; so
are loadings of a fitted model, whose weights and errors are those of the design. Beside each: the same
as if people had been drawn one by one.

    python benchmarks/design.py [--sets 200] [--loadings 200]
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
import pandas as pd
from scipy.stats import norm, t

import ordinalrbm as orbm

LOADINGS = np.array([0.8, 0.7, 0.6, 0.5, 0.75, 0.65])
CUTS = np.array([-1.2, -0.4, 0.3, 1.1])
IN_FACTOR, IN_QUESTION = 0.15, 0.25  # shares of variance between clusters
SHIFT = 0.4  # of the factor, between two groups
N_STRATA, PER_STRATUM, SIZE = 4, 20, 12
# Many passes, without answers held out: two seeds then give loadings that differ by 0.01 and not by 0.02.
FIT = {
    "weight_decay": 1.0,
    "response_styles": 1,
    "n_epochs": 40,
    "batch_size": 400,
    "validation_fraction": 0.0,
}


def drawn(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers of a clustered sample; its stratum, cluster, weight and group."""
    rng = np.random.default_rng(seed)
    n_clusters = N_STRATA * PER_STRATUM
    sizes = rng.integers(SIZE // 2, SIZE * 3 // 2 + 1, n_clusters)
    cluster = np.repeat(np.arange(n_clusters), sizes)
    n, weight = cluster.size, rng.gamma(4.0, 0.25, cluster.size) * (1 + (cluster % N_STRATA) / 2)
    # Most clusters are nearly all of one group.
    group = rng.random(n) < rng.beta(0.3, 0.3, n_clusters)[cluster]
    factor = np.sqrt(IN_FACTOR) * rng.normal(size=n_clusters)[cluster]
    factor = factor + np.sqrt(1 - IN_FACTOR) * rng.normal(size=n)
    own = np.sqrt(IN_QUESTION) * rng.normal(size=(n_clusters, LOADINGS.size))[cluster]
    own = own + np.sqrt(1 - IN_QUESTION) * rng.normal(size=own.shape)
    utility = LOADINGS * factor[:, None] + np.sqrt(1 - LOADINGS**2) * own
    level = np.digitize(utility, CUTS) + 1.0
    shifted = np.digitize(utility + SHIFT * LOADINGS * group[:, None], CUTS) + 1.0
    answers = pd.DataFrame(level, columns=[f"q{k}" for k in range(LOADINGS.size)])
    about = pd.DataFrame(
        {"stratum": cluster % N_STRATA, "cluster": cluster, "weight": weight, "group": group}
    )
    return answers, about.assign(**{f"shifted{k}": shifted[:, k] for k in range(LOADINGS.size)})


def mean_answer(shift: np.ndarray | float = 0.0) -> np.ndarray:
    """Mean of answers in the population, where utilities have variance one."""
    return 1.0 + norm.sf(CUTS[:, None] - np.broadcast_to(shift, LOADINGS.shape)).sum(axis=0)


class Coverage:
    """How often intervals hold the truth."""

    def __init__(self) -> None:
        self.hits: dict[str, list[bool]] = defaultdict(list)

    def note(self, what: str, found: pd.DataFrame, truth: np.ndarray | float) -> None:
        truth = np.broadcast_to(truth, len(found))
        self.hits[what] += ((found["low"] <= truth) & (truth <= found["high"])).tolist()

    def tell(self, n_sets: int) -> None:
        for what, hits in self.hits.items():
            print(f"{what:58s} {np.mean(hits):.3f}  ({n_sets} sets, {len(hits):,} intervals)", flush=True)


def means(n_sets: int) -> None:
    covered = Coverage()
    for seed in range(n_sets):
        answers, about = drawn(seed)
        linear = orbm.SurveyDesign(about["weight"], about["stratum"], about["cluster"])
        simple = orbm.SurveyDesign(about["weight"])
        jackknife = orbm.SurveyDesign(about["weight"], **jackknifed(about))
        shifted = about.filter(like="shifted")
        difference = mean_answer(SHIFT * LOADINGS) - mean_answer()
        share = pd.cut(answers["q0"], [0, 3.5, 5], labels=["low", "high"])
        truth = norm.sf(CUTS[2])
        for name, design in (("", linear), (", JKn replicates", jackknife), (", clusters ignored", simple)):
            covered.note(f"means{name}", design.mean(answers), mean_answer())
            covered.note(f"shares{name}", design.mean(share), np.array([1 - truth, truth]))
            covered.note(f"group differences{name}", design.difference(shifted, about["group"]), difference)
        tables = imputed(answers, about, seed)
        pooled = linear.mean(tables)
        covered.note("means over 10 imputations by Rubin's rules", pooled, mean_answer())
    covered.tell(n_sets)


def jackknifed(about: pd.DataFrame) -> dict[str, object]:
    """Replicate weights of a stratified jackknife."""
    columns, scales = [], []
    for _, own in about.groupby("stratum"):
        clusters = own["cluster"].unique()
        for gone in clusters:
            weight = about["weight"].copy()
            weight[own.index] *= len(clusters) / (len(clusters) - 1)
            weight[about["cluster"] == gone] = 0.0
            columns.append(weight.to_numpy())
            scales.append((len(clusters) - 1) / len(clusters))
    return {"replicates": np.column_stack(columns), "kind": "JKn", "scale": scales}


def imputed(answers: pd.DataFrame, about: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    """A fifth of the answers lost at random and drawn from others of the cluster (approximate bootstrap)."""
    rng, tables = np.random.default_rng(10_000 + seed), []
    lost, cluster = rng.random(answers.shape) < 0.2, about["cluster"].to_numpy()
    for _ in range(10):
        table = answers.to_numpy().copy()
        for column, gone in zip(table.T, lost.T, strict=True):
            known = np.flatnonzero(~gone)  # in the order of clusters
            first, last = (np.searchsorted(cluster[known], cluster, side) for side in ("left", "right"))
            boot = known[(first + rng.random(cluster.size) * (last - first)).astype(int)[known]]
            place = (first + rng.random(cluster.size) * (last - first)).astype(int)[gone]
            column[gone] = column[boot[place]]
        tables.append(pd.DataFrame(table, columns=answers.columns))
    return tables


def loadings(n_sets: int) -> None:
    covered, errors, told = Coverage(), [], defaultdict(list)
    for seed in range(n_sets):
        answers, about = drawn(seed)
        model = orbm.CumulativeRBM(1, random_state=seed, **FIT)
        model.fit(answers, sample_weight=about["weight"])
        linear = orbm.SurveyDesign(about["weight"], about["stratum"], about["cluster"])
        for name, design, df in (("", linear, linear.sample.freedom), (", clusters ignored", None, np.inf)):
            more = {"sample_weight": about["weight"]} if design is None else {"design": design}
            found = model.factor_solution(answers, **more)
            loading, error = found.loadings["Factor 1"], found.standard_errors["Factor 1"]
            loading = loading * np.sign(loading.sum())
            half = t.ppf(0.975, df) * error
            covered.note(
                f"loadings{name}", pd.DataFrame({"low": loading - half, "high": loading + half}), LOADINGS
            )
            told[name].append(error)
        errors.append(loading - LOADINGS)
        if (seed + 1) % 20 == 0:
            covered.tell(seed + 1)
    print(
        "bias of the loadings",
        np.mean(errors, axis=0).round(3),
        "their spread",
        np.std(errors, axis=0).round(3),
    )
    for name, own in told.items():
        print(f"mean standard error{name}", np.mean(own, axis=0).round(3))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--loadings", type=int, default=200)
    given = parser.parse_args()
    means(given.sets)
    if given.loadings:
        loadings(given.loadings)


if __name__ == "__main__":
    main()
