"""How much of the bias by a background variable multiple imputation takes away.

    python benchmarks/imputation_bias.py [--offset -1.7] [--replications 40] [--draws 10]

Made-up people: a background variable x, six ordered questions, one number and one category that
depend on two factors and on x. Answers to q2, q4 and the number are missing at random given x and
the first question, the more the larger the offset. Means and slopes on x of the imputed tables
stand beside those of the complete data and of the rows that are left when others are dropped; the
mean over replications, with its standard error.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import ordinalrbm as orbm

RECOMMENDED = {
    "units_per_factor": 250,
    "response_styles": 9,
    "unanswered": "latent",
    "n_epochs": 10,
    "learning_rate": 0.0005,
    "weight_decay": 30.0,
}
N_ROWS, HIDDEN = 400, ("q2", "q4", "number")


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
    model = orbm.CumulativeRBM(
        8, nominal=["kind"], numeric=["number"], background=["x"], random_state=seed, **RECOMMENDED
    ).fit(seen)
    tables = model.impute(seen, n_draws=n_draws, random_state=seed)
    imputed = pd.DataFrame([estimates(table) for table in tables]).mean()
    lines = {"complete": estimates(whole), "dropped": estimates(seen.dropna()), "imputed": imputed}
    found = pd.DataFrame(lines)
    found.attrs["missing"] = float(seen[list(HIDDEN)].isna().to_numpy().mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--offset", type=float, default=-1.7)
    options = parser.parse_args()
    found = [replication(seed, options.offset, options.draws) for seed in range(options.replications)]
    missing = np.mean([each.attrs["missing"] for each in found])
    print(f"{options.replications} replications, {N_ROWS} rows, {options.draws} imputations each")
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


if __name__ == "__main__":
    main()
