"""Questions chosen by the answers so far, against fixed orders: interviews, and newcomers who rate.

    python benchmarks/asking.py [--people 100] [--factors 5] [--until single each mean]
    python benchmarks/asking.py --people 0 [--newcomers 300] [--seed 0] [--rated-sets]

Interviews: a model is fitted to half of the people of the SAPA inventory (135 questions), and people of
the other half are asked until the standard errors of the rotated factors are 0.3; their answers are
those of the file. Questions come by what is expected to be learnt (``ask``), in the order of the
questionnaire, at random, or the most informative first, as seen before the first answer. "At least" is
about what no selection can go below: before the first answer, and with the usual response style, precision
adds up, and the smallest sum of shares of questions that reaches the errors is a convex problem. (What a
question tells is taken after forty others; an interview can do a little better by its answers.)

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
from scipy.optimize import minimize
from sources import DATA, ratings

import ordinalrbm as orbm
from ordinalrbm.vector import asking

WANTED, ASKED = 0.3, 5
UNTIL = ("single", "each", "mean")
ORDERS = ("adaptive interview", "list of interview", "most popular", "at random")
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


def newcomers(n_users: int, rated_sets: bool, seed: int) -> None:
    table, rng = ratings("ml-1m")[["user", "item", "rating"]], np.random.default_rng(seed)
    new = table["user"].isin(rng.choice(table["user"].unique(), n_users, replace=False))
    train, own = table[~new], table[new].sample(frac=1.0, random_state=0)
    model = orbm.OrdinalMF(20, rated_sets=rated_sets, demand_factors=0, random_state=0).fit(train)
    popular = train["item"].value_counts(sort=True).index.tolist()
    own = own[own["item"].isin(popular)]
    is_test = own.groupby("user").cumcount() % 2 == 0
    test, pool = own[is_test], own[~is_test]
    best = model.interview(ASKED)["item"].tolist()
    for among in ("rated", "any"):
        found: dict[str, list[pd.DataFrame]] = {name: [] for name in ORDERS}
        for _, films in pool.groupby("user"):
            rated = dict(zip(films["item"], films["rating"], strict=True))
            known = list(rated) if among == "rated" else popular
            fixed = model.interview(ASKED, items=known)["item"] if among == "rated" else best
            asked = [
                list(adaptive(model, rated, None if among == "any" else known)),
                list(fixed),
                [item for item in popular if item in set(known)][:ASKED],
                rng.permutation(known)[:ASKED].tolist(),
            ]
            for name, items in zip(ORDERS, asked, strict=True):
                found[name].append(films[films["item"].isin(items)])
        print(f"\n{ASKED} films asked, {among}: {n_users} newcomers, {len(test):,} ratings to predict")
        by_popular = told_of("most popular", model, pd.concat(found.pop("most popular")), test)
        for name, parts in {"nothing": [], **found}.items():
            told_of(name, model, pd.concat(parts) if parts else None, test, by_popular)


def adaptive(model: Any, rated: dict[Any, Any], known: list[Any] | None) -> dict[Any, Any]:
    """What is asked one by one, given the ratings so far."""
    answers: dict[Any, Any] = {}
    for _ in range(ASKED):
        for item in model.interview(1, answers, items=known)["item"]:
            answers[item] = rated.get(item)
    return answers


def told_of(
    name: str, model: Any, given: pd.DataFrame | None, test: pd.DataFrame, others: pd.Series | None = None
) -> pd.Series:
    """Prints RMSE, NDCG of the ten predicted best, and by how much they err less; returns squared errors."""
    wider = model if given is None else model.fold_in(given)
    found = test.assign(predicted=wider.predict(test["user"], test["item"]))
    squared = np.square(found["predicted"] - found["rating"])
    error = np.sqrt(squared.mean())
    ndcg = found.groupby("user")[["predicted", "rating"]].apply(ndcg_at_10).mean()
    n = 0.0 if given is None else len(given) / test["user"].nunique()
    less = ""
    if others is not None:  # users are drawn, not ratings
        by_user = (squared - others).groupby(test["user"]).sum()
        chance = by_user.std() * np.sqrt(len(by_user)) / len(test) / (2.0 * error)
        less = f"  less popular {error - np.sqrt(others.mean()):+.4f} ± {chance:.4f}"
    print(f"{name:34} answered {n:4.2f}  RMSE {error:.4f}  NDCG@10 {ndcg:.4f}{less}", flush=True)
    return squared


def ndcg_at_10(own: pd.DataFrame) -> float:
    worth, weight = 2.0 ** own["rating"].to_numpy() - 1.0, 1.0 / np.log2(np.arange(2, 12))
    by_model = worth[np.argsort(-own["predicted"].to_numpy(), kind="stable")][:10]
    ideal = np.sort(worth)[::-1][:10]
    return float(by_model @ weight[: by_model.size] / (ideal @ weight[: ideal.size]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100)
    parser.add_argument("--factors", type=int, default=5)
    parser.add_argument("--until", nargs="+", choices=UNTIL, default=UNTIL)
    parser.add_argument("--newcomers", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the newcomers, who are drawn at random")
    parser.add_argument("--rated-sets", action="store_true", help="rated_sets=True, the default of fits")
    given = parser.parse_args()
    if given.people:
        interviews(given.people, given.factors, given.until)
    if given.newcomers:
        newcomers(given.newcomers, given.rated_sets, given.seed)


if __name__ == "__main__":
    main()
