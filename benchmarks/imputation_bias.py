"""Biases and coverage of multiple imputation, beside those of R's mice.

    python benchmarks/imputation_bias.py bfi pisa graded [--replications 50] [--draws 10] [--method pmm]
    python benchmarks/imputation_bias.py background [--offset -1.7] [--replications 40]

*bfi, pisa, graded*: a population of complete answers to eight questions (two surveys, and made-up
people by a graded response model). A replication draws 400 people, hides a third of the answers to six
questions at random given the other two (a quarter of all), imputes, and pools by `ordinalrbm.pool`:
means, correlations of all pairs (Fisher's z), slopes of a regression, and means in the lower and upper
half by the second question. Bias is the pooled estimate less that of the 400 people before anything was
hidden, coverage that of the population's value by 95 % intervals. mice imputes the same tables.

*background*: a background variable x, six ordered questions, one number and one category that depend on
two factors and on x. Answers to q2, q4 and the number are missing at random given x and the first
question, the more the larger the offset. Means and slopes on x of the imputed tables stand beside those
of the complete data and of the rows that are left when others are dropped.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sources import DATA

import ordinalrbm as orbm

N_ROWS, HIDDEN = 400, ("q2", "q4", "number")
Estimates = dict[str, tuple[np.ndarray, np.ndarray]]


# ---- against mice -----------------------------------------------------------------------------------


def bfi() -> np.ndarray:
    frame = pd.read_parquet(DATA / "bfi.parquet")
    return frame[["A2", "C1", "A3", "A5", "C3", "E4", "N1", "O3"]].dropna().to_numpy(float)


def pisa() -> np.ndarray:
    frame = pd.read_parquet(DATA / "pisa2009-north-america.parquet").drop(columns="country")
    return frame.iloc[:, :8].dropna().to_numpy(float)


def graded(n_people: int = 50_000) -> np.ndarray:
    """Logistic graded responses to two traits with a correlation of 0.4, on five levels."""
    rng = np.random.default_rng(2033)
    traits = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.4], [0.4, 1.0]], n_people)
    discrimination = rng.uniform(1.0, 2.5, 8)
    difficulty = np.sort(rng.normal(0.0, 1.2, (8, 4)), axis=1)
    utility = traits[:, np.arange(8) % 2, None] - difficulty
    above = 1.0 / (1.0 + np.exp(-discrimination[:, None] * utility))
    return 1.0 + (rng.random((n_people, 8, 1)) < above).sum(axis=2)


POPULATIONS = {"bfi": bfi, "pisa": pisa, "graded": graded}


def some_people(population: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Complete answers of some people, and the same with gaps."""
    rng = np.random.default_rng(seed)
    whole = population[rng.integers(len(population), size=N_ROWS)]
    known = (whole[:, :2] - population[:, :2].mean(axis=0)) / population[:, :2].std(axis=0)
    chance = 1.0 / (1.0 + np.exp(0.85 - known.sum(axis=1)))
    gaps = np.zeros(whole.shape, dtype=bool)
    gaps[:, 2:] = rng.random((N_ROWS, 6)) < chance[:, None]
    return whole, np.where(gaps, np.nan, whole)


def analysed(X: np.ndarray, middle: float) -> Estimates:
    """Estimates and standard errors of all quantities; groups are those above the middle or not."""
    centred = (X - X.mean(axis=0)) / X.std(axis=0)
    i, j = np.triu_indices(X.shape[1], 1)
    product, squares = centred[:, i] * centred[:, j], 0.5 * (centred[:, i] ** 2 + centred[:, j] ** 2)
    r = product.mean(axis=0)
    error = (product - r * squares).std(axis=0) / np.sqrt(len(X)) / (1.0 - r**2)
    design = np.column_stack([np.ones(len(X)), X[:, [0, 3, 4, 5]]])
    bread = np.linalg.inv(design.T @ design)
    slopes = bread @ (design.T @ X[:, 2])
    scores = design * (X[:, 2] - design @ slopes)[:, None]
    robust = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))
    groups = [X[part][:, 2:] for part in (X[:, 1] > middle, X[:, 1] <= middle)]
    of_groups = [_means(group) for group in groups]
    return {
        "means": _means(X[:, 2:]),
        "correlations": (np.arctanh(r), error),
        "slopes": (slopes[1:], robust[1:]),
        "group means": (
            np.concatenate([mean for mean, _ in of_groups]),
            np.concatenate([error for _, error in of_groups]),
        ),
    }


def _means(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X.mean(axis=0), X.std(axis=0, ddof=1) / np.sqrt(len(X))


def by_mice(tables: list[np.ndarray], method: str, n_draws: int, folder: Path) -> np.ndarray:
    """(replications, draws, rows, questions) tables that mice has imputed; kept in the folder."""
    given, found = folder / "given.csv", folder / f"{method}-{n_draws}.csv"
    names = ["replication", *(f"q{k + 1}" for k in range(8))]
    stacked = [np.column_stack([np.full(N_ROWS, r), table]) for r, table in enumerate(tables)]
    pd.DataFrame(np.vstack(stacked), columns=names).to_csv(given, index=False)
    if not found.exists():
        script = Path(__file__).with_name("imputation_mice.R")
        subprocess.run(["Rscript", script, given, found, str(n_draws), method], check=True)
    imputed = pd.read_csv(found, header=None).to_numpy(float).reshape(-1, n_draws, N_ROWS, 8)
    return imputed[: len(tables)]  # may have been kept from a longer run


def by_ours(table: np.ndarray, n_draws: int, seed: int) -> list[np.ndarray]:
    # Draws have parameters of their own: of the model they have no more than what the columns are.
    model = orbm.CumulativeRBM(n_epochs=1, random_state=seed).fit(table)
    return model.impute(table, n_draws=n_draws, random_state=seed)


def judged(whole: Estimates, truth: Estimates, found: list[Estimates]) -> dict[str, np.ndarray]:
    """(quantities, 2) of each kind: bias, and whether the interval holds the population's value."""
    result = {}
    for kind, (value, _) in truth.items():
        estimates, errors = ([each[kind][k] for each in found] for k in (0, 1))
        pooled = orbm.pool(estimates, errors, df_complete=N_ROWS - 1)
        covered = (pooled["low"] <= value) & (value <= pooled["high"])
        result[kind] = np.column_stack([pooled["estimate"] - whole[kind][0], covered])
    return result


def against_mice(name: str, options: argparse.Namespace) -> None:
    population = POPULATIONS[name]()
    middle = float(np.median(population[:, 1]))
    truth, folder = analysed(population, middle), Path(options.folder or tempfile.mkdtemp()) / name
    folder.mkdir(parents=True, exist_ok=True)
    people = [some_people(population, seed) for seed in range(options.replications)]
    if options.complete:
        found = [judged(truth, truth, [analysed(whole, middle)] * 2) for whole, _ in people]
        shares = (f"{kind} {np.mean([each[kind][:, 1] for each in found]):.3f}" for kind in truth)
        print(f"{name}: {', '.join(shares)}")
        return
    theirs = by_mice([seen for _, seen in people], options.method, options.draws, folder)
    replications: dict[str, list[dict[str, np.ndarray]]] = {"ours": [], "mice": []}
    began = time.process_time()
    ours = [by_ours(seen, options.draws, seed) for seed, (_, seen) in enumerate(people)]
    seconds = (time.process_time() - began) / len(people)
    for (whole, _), *both in zip(people, ours, theirs, strict=True):
        for way, tables in zip(replications, both, strict=True):
            estimates = [analysed(table, middle) for table in tables]
            replications[way].append(judged(analysed(whole, middle), truth, estimates))
    share = np.mean([np.isnan(seen).mean() for _, seen in people])
    print(f"{name}: {share:.0%} missing, {options.draws} imputations, {seconds:.1f} s of ours with its fit")
    for kind in truth:
        parts = []
        for way in replications:
            each = np.array([found[kind] for found in replications[way]])
            bias = each[:, :, 0].mean(axis=1)
            error = bias.std(ddof=1) / np.sqrt(len(bias))
            size = np.abs(each[:, :, 0].mean(axis=0)).mean()
            parts.append(f"{bias.mean():+.4f} ± {error:.4f} {size:.4f}  {each[:, :, 1].mean():.3f}")
        print(f"  {kind:13}", "    ".join(parts), flush=True)


# ---- with a background, a number and a category -----------------------------------------------------


def people(rng: np.random.Generator) -> pd.DataFrame:
    """A complete table."""
    x = rng.normal(size=N_ROWS)
    factors = rng.normal(size=(N_ROWS, 2)) + 0.5 * x[:, None]
    loadings = rng.uniform(0.6, 1.2, size=(8, 2)) * np.tile(np.eye(2), (4, 1))
    utility = factors @ loadings.T + 0.3 * x[:, None] + rng.normal(size=(N_ROWS, 8))
    table = pd.DataFrame(
        {f"q{k + 1}": 1.0 + np.digitize(utility[:, k], [-1.5, -0.5, 0.5, 1.5]) for k in range(6)}
    )
    table["number"] = 50.0 + 10.0 * utility[:, 6]
    table["kind"] = np.array(["red", "green", "blue"])[np.digitize(utility[:, 7], [-0.8, 0.8])]
    table["x"] = x
    return table


def hidden(table: pd.DataFrame, offset: float, rng: np.random.Generator) -> pd.DataFrame:
    push = offset + 1.2 * table["x"] + 0.4 * (table["q1"] - 3.0)
    chance = 1.0 / (1.0 + np.exp(-push))
    gaps = {name: table[name].mask(rng.random(N_ROWS) < chance) for name in HIDDEN}
    return table.assign(**gaps)


def estimates(table: pd.DataFrame) -> dict[str, float]:
    found = {f"mean of {name}": table[name].mean() for name in ("q2", "number")}
    for name in ("q2", "number"):
        both = table[[name, "x"]].dropna()
        found[f"slope of {name} on x"] = np.polyfit(both["x"], both[name], 1)[0]
    pair = table[["q4", "number"]].dropna()
    found["correlation of q4 and number"] = pair.corr().iloc[0, 1]
    return found


def replication(seed: int, offset: float, n_draws: int) -> pd.DataFrame:
    """Estimates of the complete table, of complete rows and of imputed tables."""
    rng = np.random.default_rng(seed)
    whole = people(rng)
    seen = hidden(whole, offset, rng)
    columns = {"nominal": ["kind"], "numeric": ["number"], "background": ["x"]}
    model = orbm.CumulativeRBM(**columns, n_epochs=1, random_state=seed)  # as in by_ours
    tables = model.fit(seen).impute(seen, n_draws=n_draws, random_state=seed)
    imputed = pd.DataFrame([estimates(table) for table in tables]).mean()
    lines = {"complete": estimates(whole), "dropped": estimates(seen.dropna()), "imputed": imputed}
    found = pd.DataFrame(lines)
    found.attrs["missing"] = float(seen[list(HIDDEN)].isna().to_numpy().mean())
    return found


def with_background(options: argparse.Namespace) -> None:
    found = [replication(seed, options.offset, options.draws) for seed in range(options.replications)]
    missing = np.mean([each.attrs["missing"] for each in found])
    print(f"of q2, q4 and the number {missing:.0%} are missing")
    print(f"{'':30} {'complete':>9} {'rows dropped':>13} {'imputed':>9}    less complete")
    for name in found[0].index:
        table = pd.DataFrame([each.loc[name] for each in found])
        less = table["imputed"] - table["complete"]
        error = less.std() / np.sqrt(len(less))
        means = table.mean()
        print(
            f"{name:30} {means['complete']:9.3f} {means['dropped']:13.3f} "
            f"{means['imputed']:9.3f} {less.mean():+13.3f} ± {error:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", choices=[*POPULATIONS, "background"])
    parser.add_argument("--replications", type=int, default=50)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--method", choices=("pmm", "polr"), default="pmm", help="of mice")
    parser.add_argument("--complete", action="store_true", help="coverage of complete tables alone")
    parser.add_argument("--folder", help="where tables that mice has imputed are kept")
    parser.add_argument("--offset", type=float, default=-1.7)
    options = parser.parse_args()
    print(f"{options.replications} replications, {N_ROWS} rows, {options.draws} imputations each")
    if options.complete:
        print("coverage of the tables before anything was hidden")
    elif options.sets != ["background"]:
        columns = f"bias ± error, mean |bias|, coverage: ours, mice ({options.method})"
        print(f"{'':15} {columns}")
    for name in options.sets:
        if name == "background":
            with_background(options)
        else:
            against_mice(name, options)


if __name__ == "__main__":
    main()
