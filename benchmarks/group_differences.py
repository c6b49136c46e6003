"""Differences between groups by plausible values: how much of a known one comes back.

    python benchmarks/group_differences.py [N_SETS] [without]

Each set has 1,000 people in two groups and 4, 8 or 20 questions with 5 levels, whose loadings on one
factor are between 0.4 and 0.8. Among all people the factor has variance one, and the groups differ
by 0.3, 0.6 or 0.9. `CumulativeRBM(1, background=["group"])` is learnt, and ten plausible values of
each person are drawn. What came back is their difference over that of the true factors of the same
people, standardised, over all sets together; the error is that of chance in the sets. Beside it the
share of the true factors in score ± 1.645 standard errors. *without*: models without background.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import ordinalrbm as orbm

N_ROWS, N_LEVELS, N_DRAWS, NINETY = 1_000, 5, 10, 1.6449
DIFFERENCES, N_ITEMS = (0.3, 0.6, 0.9), (4, 8, 20)


def people_of(difference: float, n_items: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Answers with the group of each person, and the true factors."""
    loadings = rng.uniform(0.4, 0.8, n_items)
    middle = np.linspace(-1.2, 1.2, N_LEVELS - 1)
    bounds = np.sort(middle + 0.3 * rng.normal(size=(n_items, N_LEVELS - 1)))
    group = rng.permutation(np.arange(N_ROWS) % 2)
    within = np.sqrt(1.0 - 0.25 * difference**2)
    factor = difference * (group - 0.5) + within * rng.normal(size=N_ROWS)
    utility = np.outer(factor, loadings) + np.sqrt(1.0 - loadings**2) * rng.normal(size=(N_ROWS, n_items))
    answers = [1 + np.searchsorted(*pair) for pair in zip(bounds, utility.T, strict=True)]
    table = pd.DataFrame(np.stack(answers, axis=1)).add_prefix("q")
    return table.assign(group=np.array(["first", "second"])[group]), factor


def difference_of(factor: np.ndarray, group: np.ndarray) -> float:
    return float(factor[group == "second"].mean() - factor[group == "first"].mean())


def one_set(difference: float, n_items: int, seed: int, background: list[str] | None) -> dict[str, float]:
    table, factor = people_of(
        difference, n_items, np.random.default_rng([seed, n_items, int(100 * difference)])
    )
    factor = (factor - factor.mean()) / factor.std()
    group = table["group"].to_numpy()
    answers = table if background else table.drop(columns="group")
    model = orbm.CumulativeRBM(1, background=background, random_state=seed).fit(answers)
    scores, errors = (one.to_numpy()[:, 0] for one in model.scores(answers, return_std=True))
    sign = np.sign(np.corrcoef(scores, factor)[0, 1])
    draws = model.scores(answers, n_draws=N_DRAWS, random_state=seed)
    return {
        "true": difference_of(factor, group),
        "found": float(np.mean([sign * difference_of(one.to_numpy()[:, 0], group) for one in draws])),
        "covered": float((np.abs(sign * scores - factor) < NINETY * errors).mean()),
    }


def main() -> None:
    background = None if "without" in sys.argv else ["group"]
    n_sets = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"{n_sets} sets each, {'with' if background else 'without'} background")
    print("true  questions  found / true     covered by 90% intervals")
    for difference in DIFFERENCES:
        for n_items in N_ITEMS:
            every = pd.DataFrame([one_set(difference, n_items, seed, background) for seed in range(n_sets)])
            mean = every.mean()
            back = mean["found"] / mean["true"]
            error = (every["found"] - back * every["true"]).std() / mean["true"] / np.sqrt(n_sets)
            found = f"{back:.3f} ± {error:.3f}  {mean['covered']:.3f}"
            print(f"{difference:4.1f} {n_items:10d}  {found}", flush=True)


if __name__ == "__main__":
    main()
