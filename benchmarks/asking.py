"""Questions of a survey chosen by the answers so far, against fixed orders.

    python benchmarks/asking.py [--people 100] [--factors 5] [--until single each mean]

A model is fitted to half of the people of the SAPA inventory (135 questions), and people of
the other half are asked until the standard errors of the rotated factors are 0.3; their answers are
those of the file. Questions come by what is expected to be learnt (``ask``), in the order of the
questionnaire, at random, or the most informative first, as seen before the first answer. "At least" is
about what no selection can go below: before the first answer, and with the usual response style, precision
adds up, and the smallest sum of shares of questions that reaches the errors is a convex problem. (What a
question tells is taken after forty others; an interview can do a little better by its answers.)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from sources import DATA

import ordinalrbm as orbm
from ordinalrbm.vector import asking

WANTED = 0.3
UNTIL = ("single", "each", "mean")
BEST, IN_ORDER = "by what is expected to be learnt", "in the order of the questionnaire"


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


def in_order(model: Any, people: pd.DataFrame, orders: list[list[str]], settings: dict, stop: Any) -> Any:
    """Answers of each person until errors are small enough, in fixed orders; found by halving."""
    low, high = np.zeros(len(people), int), np.full(len(people), people.shape[1])
    while (low < high).any():
        middle = (low + high) // 2
        answers, n_factors = shown(people, orders, middle), settings["n_factors"]
        errors = model.scores(answers, n_factors=n_factors, return_std=True)[1][settings["factors"]]
        enough = np.array([stop(line) for line in errors.to_numpy()])
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return shown(people, orders, high)


def told_by_bound(model: Any, n_factors: int) -> None:
    """Questions in order, and the least sum of shares of questions that reaches the standard error."""
    answers = model._read(model._so_far({}))
    styles = asking.styles_of(model.model_, model._side(answers))
    style = max(styles, key=lambda one: one.share)._replace(share=1.0)
    targets = model._to_be_known("all", "varimax", n_factors, answers)[0]
    weights = model.model_.weights.astype(float)  # all questions are scales, with a line each
    strongest = np.abs(weights).argmax(axis=1)
    halfway = style
    for question in model.ask(k=40, factors="all", n_factors=n_factors)["question"]:
        halfway = asking.once_answered(model.model_, [halfway], list(model._keys()).index(question))[0]
    probability, slopes = asking._levels(model.model_, halfway)
    rise = slopes[strongest, range(len(weights))] / weights[range(len(weights)), strongest, None]
    told = (rise**2 / np.maximum(probability, 1e-12)).sum(axis=1)
    precision = told / (1.0 - told * ((weights @ halfway.covariance) * weights).sum(axis=1))

    def errors(share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of the factors, and their slopes along the shares."""
        whole = np.linalg.inv(style.covariance) + (weights.T * (precision * share)) @ weights
        covariance = np.linalg.inv(whole)
        found = np.sqrt(((targets @ covariance) * targets).sum(axis=1))
        return found, -precision * (targets @ covariance @ weights.T) ** 2 / (2.0 * found[:, None])

    n = len(weights)
    print(f"\nStandard error of {WANTED}, before the first answer, with the usual response style")
    for what, sums in (
        ("each of the factors", np.eye(n_factors)),
        ("the factors on average", np.full((1, n_factors), 1.0 / n_factors)),
    ):
        in_order = next(k for k in range(n + 1) if (sums @ errors(np.arange(n) < k)[0] <= WANTED).all())
        limit = {
            "type": "ineq",
            "fun": lambda x, sums=sums: WANTED - sums @ errors(x)[0],
            "jac": lambda x, sums=sums: -sums @ errors(x)[1],
        }
        least = minimize(
            np.sum,
            np.full(n, 0.6),
            jac=np.ones_like,
            bounds=[(0, 1)] * n,
            constraints=[limit],
            method="SLSQP",
            options={"maxiter": 500},
        )
        if not least.success:
            raise RuntimeError(least.message)
        fewer = 1 - least.fun / in_order
        print(f"{what:34} in order {in_order}  at least {least.fun:.1f}  fewer at most {fewer:.0%}")


def interviews(n_people: int, n_factors: int, until: list[str]) -> None:
    table = pd.read_parquet(DATA / "spi.parquet")
    table = table[[name for name in table if name.startswith("q_")]]
    order = np.random.default_rng(0).permutation(len(table))
    half = len(table) // 2
    model = orbm.CumulativeRBM(random_state=0).fit(table.iloc[order[:half]])
    people = table.iloc[order[half : half + n_people]].reset_index(drop=True)
    rng = np.random.default_rng(1)
    orders = {
        IN_ORDER: [list(table)] * n_people,
        "at random": [rng.permutation(list(table)).tolist() for _ in range(n_people)],
    }
    known = model.scores(people, n_factors=n_factors)
    every = list(known)

    def enough(errors: np.ndarray) -> bool:
        return errors.max() <= WANTED

    told_by_bound(model, n_factors)
    if "single" in until:
        single = pd.concat([compared(model, people, orders, known, [one], enough) for one in every])
        told("one factor at a time, mean over all of them", single)
    if "each" in until:
        told("each of the factors", compared(model, people, orders, known, every, enough))
    if "mean" in until:
        at_mean = compared(model, people, orders, known, every, lambda errors: errors.mean() <= WANTED)
        told("the factors on average", at_mean)


def compared(
    model: Any,
    people: pd.DataFrame,
    orders: dict[str, Any],
    known: pd.DataFrame,
    wanted: list[str],
    stop: Any,
) -> pd.DataFrame:
    """Numbers of questions, and how far scores are from those by all answers; by person and order."""
    settings = {"n_factors": known.shape[1], "factors": wanted}
    is_each = not stop(np.array([0.0, 1.2 * WANTED]))
    until = {"until": WANTED} if is_each else {}
    begun = time.process_time()
    asked = [interview(model, person, settings | until, stop) for _, person in people.iterrows()]
    seconds = (time.process_time() - begun) / sum(len(answers) + 1 for answers in asked)
    informative = model.ask(k=people.shape[1], **settings)["question"].tolist()
    orders = orders | {"the most informative first": [informative] * len(people)}
    tables = {BEST: pd.DataFrame(asked).reindex(columns=list(people))}
    tables |= {name: in_order(model, people, own, settings, stop) for name, own in orders.items()}
    parts = []
    for name, answers in tables.items():
        scores = model.scores(answers.astype(float), n_factors=known.shape[1])
        away = np.square(scores - known)[wanted].mean(axis=1)
        n = answers.notna().sum(axis=1)
        parts.append(
            pd.DataFrame(
                {"order": name, "questions": n, "away": away, "all": people.shape[1], "seconds": seconds}
            )
        )
    return pd.concat(parts)


def told(what: str, found: pd.DataFrame) -> None:
    print(f"\nStandard error of {WANTED}: {what}")
    means = found.groupby("order", sort=False)["questions"].mean()
    for name, own in found.groupby("order", sort=False):
        n = own["questions"]
        print(
            f"{name:34} mean {n.mean():6.1f}  median {n.median():5.0f}  deviation {n.std():5.1f}"
            f"  fewer than in order {1 - means[name] / means[IN_ORDER]:5.0%}"
            f"  from the scores by all answers {np.sqrt(own['away'].mean()):.3f}"
            f"  asked all {(n == own['all']).mean():.0%}"
        )
    print(f"{1000 * found['seconds'].mean():.0f} ms of processor time per question", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--factors", type=int, default=5)
    parser.add_argument("--until", nargs="+", choices=UNTIL, default=UNTIL)
    given = parser.parse_args()
    interviews(given.people, given.factors, given.until)


if __name__ == "__main__":
    main()
