"""Do people of one country lie together? The paper's map of a survey, and a number for it.

    python benchmarks/paper/attitudes.py [pisa big5] [--pew FILE.sav] [--splits 5] [--train 15000]

The paper draws the posteriors of 50 factors of a survey by t-SNE and colours people by country.
The number: how well a vote of nearest neighbours in that space names the country of people who
were not learnt from, as balanced accuracy (the mean over countries of the share that is named
rightly), beside the same vote in the space of other methods with as many dimensions.

Nothing is learnt from the country but the vote. Each method learns its space from the training
rows; how many neighbours vote, how distances are measured and, where a method has variants, which
one, is chosen by voting within the training rows (a fifth asks, the others vote). Each vote weighs
by the inverse of its country's size. All methods have the same choices. People who answered less
than half of the questions, and countries with few people, are left out for all.

Two columns: with simple distances (coordinates as they are, or each of variance one), and with
whitening and cosines added to the choice. A whitened space and many votes come close to a linear
classifier, to which all methods that keep what is linear in the answers look much the same.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from pew import read_pew
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import BernoulliRBM
from table import DATA, RESULTS

import ordinalrbm as orbm
from ordinalrbm.plots import row_map, row_positions

SURVEYS = {
    "pisa": ("pisa2009-north-america.parquet", ("country",)),
    "big5": ("big5-openpsychometrics.parquet", ("country", "age", "gender", "engnat")),
}
"""File of each survey, and its columns that are no questions."""

TRIED = {"pisa": 18_000}
"""How many people the settings here were tried on; they are never among the test rows."""

NO_COUNTRY = ("(nu", "")
FEWEST = 500
"""People that a country must have to be in the table; in smaller ones chance would decide."""

NEIGHBOURS = (5, 15, 45, 135)
VALIDATION = 0.2
MAPPED = 6_000
COLOURED = 8

Spaces = Iterator[tuple[str, np.ndarray, np.ndarray]]
"""Variants of one method: what it is called, and coordinates of training and test rows."""


@dataclass(frozen=True)
class Survey:
    name: str
    answers: pd.DataFrame
    country: np.ndarray
    tried: np.ndarray

    def only(self, rows: np.ndarray) -> Survey:
        """The same with some of its rows."""
        answers = self.answers[rows].reset_index(drop=True)
        return Survey(self.name, answers, self.country[rows], self.tried[rows])


# Data


def read(name: str) -> Survey:
    """A survey of the data folder."""
    file, other = SURVEYS[name]
    frame = pd.read_parquet(DATA / file)
    answers = frame.drop(columns=list(other)).astype(float)
    tried = np.zeros(len(frame), dtype=bool)
    tried[np.random.default_rng(0).permutation(len(frame))[: TRIED.get(name, 0)]] = True
    return cleaned(Survey(name, answers, frame["country"].to_numpy(dtype=object), tried))


def pew(path: Path, questions: list[str]) -> Survey:
    """A file of Pew's."""
    answers, country = read_pew(path, questions)
    nobody = np.zeros(len(answers), dtype=bool)
    return cleaned(Survey("pew", answers, country.to_numpy(dtype=object), nobody))


def cleaned(survey: Survey) -> Survey:
    """Only people who answered half of the questions and whose country is known."""
    known = ~(pd.isna(survey.country) | np.isin(survey.country.astype(str), NO_COUNTRY))
    return survey.only(known & (survey.answers.notna().mean(axis=1) >= 0.5).to_numpy())


def large_countries(survey: Survey) -> Survey:
    """Only people of countries that have enough of them."""
    count = pd.Series(survey.country).groupby(survey.country).transform("size")
    return survey.only((count >= FEWEST).to_numpy())


# Spaces


def mode_filled(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Answers as numbers, each gap filled with the commonest answer of the training rows."""
    mode = train.mode().iloc[0]
    return train.fillna(mode).to_numpy(), test.fillna(mode).to_numpy()


def raw(train: pd.DataFrame, test: pd.DataFrame, k: int, seed: int) -> Spaces:
    yield "", *mode_filled(train, test)


def pca(train: pd.DataFrame, test: pd.DataFrame, k: int, seed: int) -> Spaces:
    filled, asked = mode_filled(train, test)
    found = PCA(k, random_state=seed).fit(filled)
    yield "", found.transform(filled), found.transform(asked)


def factor_analysis(train: pd.DataFrame, test: pd.DataFrame, k: int, seed: int) -> Spaces:
    filled, asked = mode_filled(train, test)
    found = FactorAnalysis(k, random_state=seed).fit(filled)
    yield "", found.transform(filled), found.transform(asked)


def bernoulli_rbm(train: pd.DataFrame, test: pd.DataFrame, k: int, seed: int) -> Spaces:
    """Two ways to make answers fit for bits: scaled to [0, 1], and one bit per level."""
    filled, asked = mode_filled(train, test)
    low, high = filled.min(axis=0), filled.max(axis=0)
    levels = [np.unique(column) for column in filled.T]

    def bits(values: np.ndarray) -> np.ndarray:
        return np.hstack([column[:, None] == found for column, found in zip(values.T, levels, strict=True)])

    def scaled(values: np.ndarray) -> np.ndarray:
        return np.clip((values - low) / (high - low), 0.0, 1.0)

    for name, code in (("scaled", scaled), ("one-hot", bits)):
        seen, unseen = code(filled).astype(float), code(asked).astype(float)
        found = BernoulliRBM(k, learning_rate=0.01, n_iter=20, random_state=seed).fit(seen)
        yield from probabilities(name, found.transform(seen), found.transform(unseen))


OURS = {"n_epochs": 5, "validation_fraction": 0.0}


def cumulative_rbm(train: pd.DataFrame, test: pd.DataFrame, k: int, seed: int) -> Spaces:
    """K − 1 factors and, as the last of K coordinates, the response style."""
    model = orbm.CumulativeRBM(k - 1, random_state=seed, **OURS).fit(train)
    factors = [model.transform(part).astype(np.float64) for part in (train, test)]
    styles = [model.response_style(part)[:, None] for part in (train, test)]
    # On a scale like that of a factor.
    even = factors[0].std(axis=0).mean() / styles[0].std()
    seen, unseen = (np.hstack([f, s * even]) for f, s in zip(factors, styles, strict=True))
    yield "posteriors", seen, unseen
    factor_scale, style_scale = prior_scales(model, train)
    seen, unseen = (
        np.hstack([f @ factor_scale, s / style_scale]) for f, s in zip(factors, styles, strict=True)
    )
    yield "prior units", seen, unseen


def prior_scales(model: orbm.CumulativeRBM, train: pd.DataFrame) -> tuple[np.ndarray, float]:
    """What brings posteriors to units in which factors and style have variance one a priori.

    Factors are correlated and of unequal spread. In these units the posterior of a factor varies
    as much as answers tell of it, which is how factor analysis gives its scores. The spread of a
    factor over people, one draw from each posterior, stands for that of the prior.
    """
    drawing = copy.copy(model).set_params(inference="mcmc", n_draws=1)
    variance, axes = np.linalg.eigh(np.cov(drawing.transform(train).astype(np.float64).T))
    chance, size = model.model_.style_weights, np.log(model.model_.stretches)
    return axes / np.sqrt(variance), np.sqrt(chance @ size**2 - (chance @ size) ** 2)


def probabilities(name: str, train: np.ndarray, test: np.ndarray) -> Spaces:
    """Factor posteriors as they are, and as log odds, where 0.99 and 0.999 are not the same."""
    yield f"{name}, posteriors", train, test
    yield f"{name}, log odds", log_odds(train), log_odds(test)


def log_odds(p: np.ndarray) -> np.ndarray:
    inside = np.clip(p.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.log(inside / (1 - inside))


Method = Callable[[pd.DataFrame, pd.DataFrame, int, int], Spaces]
METHODS: dict[str, Method] = {
    "raw answers": raw,
    "PCA": pca,
    "factor analysis": factor_analysis,
    "BernoulliRBM": bernoulli_rbm,
    "CumulativeRBM": cumulative_rbm,
}


# Distances

SIMPLE = ("as it is", "standardised")
WHITENED = {"half whitened": 0.5, "whitened": 1.0}
METRICS = (*SIMPLE, *WHITENED, *(f"{name} cosine" for name in WHITENED))
GROUPS = {"simple distances": SIMPLE, "all distances": METRICS}


def measured(metric: str, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates whose Euclidean distance is the metric; scales come from the training rows."""
    middle = train.mean(axis=0)
    power = WHITENED.get(metric.removesuffix(" cosine"))
    if power is not None:
        # In double precision: the smallest variance may be a millionth of the largest.
        variance, axes = np.linalg.eigh(np.cov(train.T))
        turn = axes * np.maximum(variance, 1e-9 * variance[-1]) ** (-power / 2)
    else:
        spread = train.std(axis=0) if metric == "standardised" else np.ones(len(middle))
        turn = np.diag(1 / np.maximum(spread, 1e-9))
    parts = [(part - middle) @ turn for part in (train, test)]
    if metric.endswith("cosine"):
        parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    return parts[0].astype(np.float32), parts[1].astype(np.float32)


def votes(train: np.ndarray, country: np.ndarray, asked: np.ndarray, ks: tuple[int, ...]) -> list[np.ndarray]:
    """Countries that the k nearest training rows name, for each k; 0, 1, ... stand for them."""
    search = NearestNeighbors(n_neighbors=max(ks), algorithm="brute", n_jobs=-1).fit(train)
    near = country[search.kneighbors(asked, return_distance=False)]
    weight = 1 / np.bincount(country)
    ballots = np.eye(len(weight))[near] * weight
    return [ballots[:, :k].sum(axis=1).argmax(axis=1) for k in ks]


@dataclass(frozen=True)
class Choice:
    """What did best in the training rows, and what it reaches in the test rows."""

    validation: float
    variant: str
    metric: str
    k: int
    test: float = np.nan


def tried_out(variant: str, space: np.ndarray, country: np.ndarray, seed: int) -> list[Choice]:
    """Every metric and k, with how well it does in a vote within the training rows."""
    order = np.random.default_rng(seed).permutation(len(space))
    asking, voting = np.split(order, [round(VALIDATION * len(order))])
    found = []
    for metric in METRICS:
        seen, asked = measured(metric, space[voting], space[asking])
        named = votes(seen, country[voting], asked, NEIGHBOURS)
        right = [balanced_accuracy_score(country[asking], guess) for guess in named]
        found += [Choice(r, variant, metric, k) for r, k in zip(right, NEIGHBOURS, strict=True)]
    return found


# Table

Scores = dict[str, Choice]
"""What was chosen among the simple metrics, and among all."""


def best(spaces: Spaces, train: np.ndarray, test: np.ndarray, seed: int) -> Scores:
    """The variant, metric and k that validation prefers, and their test score."""
    kept = {variant: (seen, unseen) for variant, seen, unseen in spaces}
    choices = [
        choice for variant, (seen, _) in kept.items() for choice in tried_out(variant, seen, train, seed)
    ]
    found: Scores = {}
    for group, metrics in GROUPS.items():
        choice = max((c for c in choices if c.metric in metrics), key=lambda c: c.validation)
        seen, asked = measured(choice.metric, *kept[choice.variant])
        (named,) = votes(seen, train, asked, (choice.k,))
        found[group] = replace(choice, test=balanced_accuracy_score(test, named))
    return found


def sizes(n: int, train: int, test: int) -> tuple[int, int]:
    """As many rows as asked for, or else two thirds and one third of what is there."""
    return (train, test) if train + test <= n else (2 * n // 3, n - 2 * n // 3)


def split(survey: Survey, seed: int, train: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the two parts; rows that settings were tried on are not in the test."""
    order = np.random.default_rng(seed).permutation(len(survey.country))
    asked = order[~survey.tried[order]][:test]
    return order[~np.isin(order, asked)][:train], asked


def compare(survey: Survey, options: argparse.Namespace) -> None:
    """Print the table of all methods, and what was chosen in each split."""
    names, country = np.unique(survey.country, return_inverse=True)
    n_train, n_test = sizes(len(country), options.train, options.test)
    counts = ", ".join(f"{name} {(survey.country == name).sum()}" for name in names)
    print(f"\n{survey.name}: {len(country)} people, {survey.answers.shape[1]} questions ({counts})")
    print(f"K = {options.factors}, {options.splits} splits: {n_train} training, {n_test} test rows")
    found: dict[str, list[Scores]] = {name: [] for name in options.methods}
    started = time.perf_counter()
    for seed in range(options.splits):
        train, test = split(survey, seed, n_train, n_test)
        parts = survey.answers.iloc[train], survey.answers.iloc[test]
        for name in options.methods:
            spaces = METHODS[name](*parts, options.factors, seed)
            found[name].append(best(spaces, country[train], country[test], seed))
            if options.verbose:
                print(f"  split {seed} {name}: {found[name][-1]}", flush=True)
    print_table(found, len(names))
    print(f"{time.perf_counter() - started:.0f} seconds")


def print_table(found: dict[str, list[Scores]], n_countries: int) -> None:
    """Mean and standard deviation over the splits, in per cent."""
    print(f"balanced accuracy in per cent; chance is {100 / n_countries:.1f}")
    print(f"{'':16}" + "".join(f"{group:>22}" for group in GROUPS) + "   chosen most often (all)")
    for name, scores in found.items():
        cells = "".join(f"{spread([s[group].test for s in scores]):>22}" for group in GROUPS)
        chosen = Counter(
            ", ".join(filter(None, (c.variant, c.metric, f"k = {c.k}")))
            for c in (s["all distances"] for s in scores)
        )
        print(f"{name:16}{cells}   {chosen.most_common(1)[0][0]}", flush=True)
    if "CumulativeRBM" in found:
        print_differences(found)


def print_differences(found: dict[str, list[Scores]]) -> None:
    """By how much ours is ahead, split by split: the splits are the same for all methods."""
    print("CumulativeRBM less the other, mean ± standard deviation over splits (smallest):")
    for name in (other for other in found if other != "CumulativeRBM"):
        cells = []
        for group in GROUPS:
            pairs = zip(found["CumulativeRBM"], found[name], strict=True)
            ahead = [ours[group].test - theirs[group].test for ours, theirs in pairs]
            cells.append(f"{spread(ahead)} ({100 * min(ahead):+.1f})")
        print(f"{name:16}" + "".join(f"{cell:>22}" for cell in cells))


def spread(values: list[float]) -> str:
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{100 * np.mean(values):.1f} ± {100 * deviation:.1f}"


# Map


def draw(survey: Survey, options: argparse.Namespace) -> None:
    """The figure: people by the coordinates of the table, as many of each country as can be."""
    rows = balanced(survey.country, MAPPED)
    shown = pd.Series(survey.country[rows])
    learnt = survey.answers.sample(min(len(survey.answers), options.train), random_state=0)
    *_, (_, _, space) = cumulative_rbm(learnt, survey.answers.iloc[rows], options.factors, seed=0)
    largest = pd.Series(survey.country).value_counts().index[:COLOURED]
    others = ~shown.isin(largest)
    title = f"{survey.name}: {len(rows):,} people"
    note = f"t-SNE of {options.factors - 1} factor posteriors and the response style"
    figure = row_map(row_positions(space), {"by country": shown.where(~others)}, title=title, note=note)
    for text in figure.axes[0].get_legend().get_texts():
        if text.get_text() == "not known":
            text.set_text(f"{shown[others].nunique()} other countries")
    out = options.out / f"attitudes-{survey.name}.png"
    figure.savefig(out, dpi=120)
    print(f"{out.name}: {out.stat().st_size / 1000:.0f} KB")


def balanced(country: np.ndarray, most: int) -> np.ndarray:
    """Rows, in random order, with as equal numbers per country as their sizes allow."""
    order = np.random.default_rng(0).permutation(len(country))
    turn = pd.Series(country[order]).groupby(country[order]).cumcount().to_numpy()
    taken = order[np.argsort(turn, kind="stable")[:most]]
    return np.random.default_rng(0).permutation(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(SURVEYS), help=f"out of {list(SURVEYS)}")
    parser.add_argument("--pew", type=Path, help="a Global Attitudes file (.sav)")
    parser.add_argument("--questions", nargs="+", default=[], help="its columns, if not by rule")
    parser.add_argument("--factors", type=int, default=50)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--train", type=int, default=15_000, help="training rows")
    parser.add_argument("--test", type=int, default=10_000, help="test rows")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    parser.add_argument("--map-only", action="store_true", help="draw, do not compare")
    parser.add_argument("--table-only", action="store_true", help="compare, do not draw")
    parser.add_argument("--verbose", action="store_true", help="print every choice")
    options = parser.parse_args()
    if options.pew:
        surveys = [pew(options.pew, options.questions)]
    else:
        surveys = [read(name) for name in options.names]
    for survey in map(large_countries, surveys):
        if not options.map_only:
            compare(survey, options)
        if not options.table_only:
            draw(survey, options)


if __name__ == "__main__":
    main()
