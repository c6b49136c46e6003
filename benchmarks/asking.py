"""Questions chosen by the answers so far, against fixed orders: interviews, and newcomers who rate.

    python benchmarks/asking.py [--people 100] [--factors 5] [--newcomers 300]

Interviews: a model is fitted to half of the people of the SAPA inventory (135 questions), and people of
the other half are asked until the standard errors of the rotated factors are 0.3; their answers are
those of the file. Questions come by what is expected to be learnt (``ask``), in the order of the
questionnaire, at random, or the most informative first, as seen before the first answer.

Newcomers: users of MovieLens 1M are not learnt from and rate five films, those of ``interview`` or the
most popular ones. The ratings that are predicted are the same for all: a random half of each user's.
Asked are films that are among the other half ("rated"), or any films, of which those outside are not
known to the user and have been asked in vain ("any").
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sources import DATA, ratings

import ordinalrbm as orbm

WANTED, ASKED = 0.3, 5


def interview(
    model: Any, person: pd.Series, settings: dict[str, Any], stop: Callable[[np.ndarray], bool]
) -> dict[str, Any]:
    """The answers until the standard errors are small enough, asking for the best one each time."""
    answers: dict[str, Any] = {}
    while True:
        best = model.ask(answers, **settings)
        errors = np.array(list(best.attrs["standard_errors"].values()))
        if stop(errors) or best.empty:
            return answers
        answers[best["question"][0]] = person[best["question"][0]]


def shown(people: pd.DataFrame, orders: list[list[str]], n: np.ndarray) -> pd.DataFrame:
    """The first answers of each person, in an order for each."""
    table = people.astype(float)
    for place, (order, own) in enumerate(zip(orders, n, strict=True)):
        table.iloc[place, table.columns.get_indexer(order[own:])] = np.nan
    return table


def in_order(model: Any, people: pd.DataFrame, orders: list[list[str]], n_factors: int, stop: Any) -> Any:
    """Answers of each person until errors are small enough, in fixed orders; found by halving."""
    low, high = np.zeros(len(people), int), np.full(len(people), people.shape[1])
    while (low < high).any():
        middle = (low + high) // 2
        errors = model.scores(shown(people, orders, middle), n_factors=n_factors, return_std=True)[1]
        enough = np.array([stop(line) for line in errors.to_numpy()])
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return shown(people, orders, high)


def interviews(n_people: int, n_factors: int) -> None:
    table = pd.read_parquet(DATA / "spi.parquet")
    table = table[[name for name in table if name.startswith("q_")]]
    order = np.random.default_rng(0).permutation(len(table))
    half = len(table) // 2
    model = orbm.CumulativeRBM(random_state=0).fit(table.iloc[order[:half]])
    people = table.iloc[order[half : half + n_people]].reset_index(drop=True)
    settings = {"factors": "all", "n_factors": n_factors}
    informative = model.ask(k=table.shape[1], **settings)["question"].tolist()
    rng = np.random.default_rng(1)
    orders = {
        "in the order of the questionnaire": [list(table)] * n_people,
        "at random": [rng.permutation(list(table)).tolist() for _ in range(n_people)],
        "the most informative first": [informative] * n_people,
    }
    known = model.scores(people, n_factors=n_factors).to_numpy()
    for what, stop in (
        ("the standard error of each factor", lambda errors: errors.max() <= WANTED),
        ("the mean of the standard errors", lambda errors: errors.mean() <= WANTED),
    ):
        print(f"\nQuestions until {what} is {WANTED} ({n_people} people, {n_factors} factors)")
        until = {"until": WANTED} if "each" in what else {}
        begun = time.process_time()
        asked = [interview(model, person, settings | until, stop) for _, person in people.iterrows()]
        seconds, calls = time.process_time() - begun, sum(len(answers) + 1 for answers in asked)
        tables = {"by what is expected to be learnt": pd.DataFrame(asked).reindex(columns=list(table))}
        tables |= {name: in_order(model, people, own, n_factors, stop) for name, own in orders.items()}
        first = tables["in the order of the questionnaire"].notna().sum(axis=1).mean()
        for name, answers in tables.items():
            n = answers.notna().sum(axis=1)
            apart = model.scores(answers.astype(float), n_factors=n_factors).to_numpy() - known
            print(
                f"{name:36} mean {n.mean():6.1f}  median {n.median():5.0f}  all asked {(n == table.shape[1]).mean():4.0%}"
                f"  fewer than in order {1 - n.mean() / first:5.0%}"
                f"  from the scores by all answers {np.sqrt(np.square(apart).mean()):.3f}"
            )
        print(f"{1000 * seconds / calls:.0f} ms of processor time per question asked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--factors", type=int, default=5)
    parser.add_argument("--newcomers", type=int, default=300)
    given = parser.parse_args()
    if given.people:
        interviews(given.people, given.factors)


if __name__ == "__main__":
    main()
