"""Whole evaluations: a model of ratings against baselines, and numbers of factors for a survey."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ordinalrbm.data.observations import Cells
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.data.triples import as_triples
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.baselines import DampedBiases, marginal, popular
from ordinalrbm.evaluate.hidden import (
    distributions,
    hide_answers,
    level_values,
    predicted_ratings,
    read_test_ratings,
)
from ordinalrbm.evaluate.metrics import point_scores, score
from ordinalrbm.evaluate.ranking import RankingScores, RankingTask
from ordinalrbm.runtime.display import Readable
from ordinalrbm.stats.point_estimates import log_of_level


class RatingPredictor(Protocol):
    """A fitted model of ratings."""

    ratings_: Ratings

    def predict_proba(self, users: ArrayLike, items: ArrayLike) -> np.ndarray:
        """Distribution of the rating of each pair."""

    def recommend(self, users: ArrayLike, n: int) -> pd.DataFrame:
        """The n best items that each user has not rated: columns user, item, rank."""


@dataclass(frozen=True, repr=False)
class ModelScores(Readable):
    """What a model is worth on ratings that it has not learnt from.

    Attributes
    ----------
    n_tested : int
        How many test ratings count.
    n_learnt : int
        How many were left out, because the model has learnt from that user's rating of that item.
    ratings : dict of str to dict
        The measures of :func:`score` for the ``model``, for ``biases`` (:class:`DampedBiases`;
        their ``rmse`` is that of the number, the rest that of its distribution) and for
        ``marginal``, the distribution of all training ratings.
    ranking : dict of str to RankingScores
        Of the ``model`` and of ``popularity``; empty when no test rating is liked.
    """

    n_tested: int
    n_learnt: int
    ratings: dict[str, dict[str, float]]
    ranking: dict[str, RankingScores]

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        learnt = f"; {self.n_learnt:,} more were left out, because they were learnt from"
        yield f"Scores of {self.n_tested:,} test ratings{learnt if self.n_learnt else ''}."
        yield pd.DataFrame.from_dict(self.ratings, orient="index")
        for name, scores in self.ranking.items():
            yield (
                f"Lists of {scores.k} by {name}: NDCG {scores.ndcg:.3f}, recall {scores.recall:.3f}, "
                f"{scores.coverage:.0%} of the items recommended."
            )


def score_model(
    model: RatingPredictor, test: Any, validation: Any = None, k: int = 10, liked: Any = None
) -> ModelScores:
    """Score a fitted model of ratings, and baselines that know its training ratings.

    Test ratings of pairs of user and item that the model has learnt from (``model.ratings_``) are
    left out and counted: known by heart is not predicted.

    Parameters
    ----------
    model : fitted model of ratings
    test : ratings
        What models of ratings take.
    validation : ratings, optional
        What `fit` was given to watch learning by: items that a user rated there are not
        recommended, as after training on it.
    k, liked
        Length of the lists and lowest liked rating, see :func:`ranking`.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> ratings = pd.DataFrame({"user": users, "item": items, "rating": 1 + (users + items) % 3})
    >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings[6:])
    >>> scores = score_model(model, ratings[:9], k=3)
    >>> scores.n_tested, scores.n_learnt, list(scores.ratings), list(scores.ranking)
    (6, 3, ['model', 'biases', 'marginal'], ['model', 'popularity'])
    """
    known = getattr(model, "ratings_", None)
    if not isinstance(known, Ratings) or not known.n_ratings:
        raise DataError(
            f"{type(model).__name__} has no training ratings to compare with; give a fitted model of ratings."
        )
    new = read_test_ratings(known, test)
    task = RankingTask.of(known, new, k, liked)
    users, items, values = new.table.user.to_numpy(), new.table.item.to_numpy(), level_values(known)
    truth = values[new.cells.level]
    biases = DampedBiases().fit(known)
    predicted = {
        "model": predicted_ratings(model, new.table),
        "biases": biases.predict_proba(users, items),
        "marginal": np.tile(marginal(known), (truth.size, 1)),
    }
    scores = {name: score(shares, truth, values) for name, shares in predicted.items()}
    scores["biases"]["rmse"] = point_scores(biases.predict(users, items), truth, values)["rmse"]
    return ModelScores(truth.size, new.n_learnt, scores, _rankings(model, task, validation))


def _rankings(model: RatingPredictor, task: RankingTask, validation: Any) -> dict[str, RankingScores]:
    if not task.n_users:
        return {}
    users, watched, more = task.users.labels, None, 0
    table = None if validation is None else as_triples(validation)
    if table is not None and len(table):
        watched = pd.MultiIndex.from_arrays([table.user.to_numpy(), table.item.to_numpy()])
        more = int(np.bincount(table.user.coded().codes).max())
    lists = {
        "model": model.recommend(users, n=task.k + more),
        "popularity": popular(task.known, users, n=task.k + more),
    }
    if watched is not None:
        for name, found in lists.items():
            lists[name] = found[~pd.MultiIndex.from_frame(found[["user", "item"]]).isin(watched)]
    return {name: task.judge(found) for name, found in lists.items()}


class FactorNumbers(NamedTuple):
    """Numbers of factors, compared.

    Attributes
    ----------
    table : DataFrame, by number of factors
        ``log_likelihood``: mean log probability of a hidden answer; ``standard_error`` of it;
        ``difference``: to the best number; ``difference_error``: standard error of that, from the
        same answers predicted by both. People are drawn at random, their answers are not.
    best : int
        The number with the largest likelihood.
    chosen : int
        The smallest number whose difference to the best is within one standard error.
    n_hidden : int
        How many answers were hidden.
    """

    table: pd.DataFrame
    best: int
    chosen: int
    n_hidden: int


def compare_factor_numbers(
    estimator: BaseEstimator,
    X: Any,
    numbers: Iterable[int],
    *,
    share: float = 0.1,
    random_state: int = 0,
    sample_weight: ArrayLike | None = None,
    tell: Callable[[int], None] | None = None,
) -> FactorNumbers:
    """Fit an estimator with several numbers of factors, and score the same hidden answers.

    Parameters
    ----------
    estimator : CumulativeRBM
        Whose settings to take; it is cloned, not fitted.
    X : table
    numbers : iterable of int
        Numbers of factors.
    share : float, default=0.1
        Share of the answers to hide.
    random_state : int, default=0
        Which answers are hidden.
    sample_weight : array-like, optional
        As ``fit`` takes it.
    tell : callable, optional
        Called with each number before it is fitted.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> rng = np.random.default_rng(0)
    >>> trait = rng.normal(size=(200, 1))
    >>> X = np.digitize(2 * trait + rng.normal(size=(200, 6)), [-1, 1])
    >>> model = orbm.CumulativeRBM(n_epochs=3, response_styles=1, random_state=0)
    >>> compare_factor_numbers(model, X, [1, 2]).chosen
    1
    """
    wanted = sorted(set(numbers))
    if not wanted:
        raise DataError("There is no number of factors to compare; give at least one.")
    shown, hidden = hide_answers(X, share, random_state)
    if not hidden.level.size:
        raise DataError("There are too few answers to hide any; give more rows.")
    found = {}
    for number in wanted:
        if tell is not None:
            tell(number)
        model = type(estimator)(**estimator.get_params()).set_params(n_factors=number)
        model.fit(shown, sample_weight=sample_weight)
        found[number] = log_of_level(distributions(model, shown, hidden), hidden.level)
    return _compared(found, hidden)


def _compared(found: dict[int, np.ndarray], hidden: Cells) -> FactorNumbers:
    means = {number: float(values.mean()) for number, values in found.items()}
    best = max(means, key=means.__getitem__)
    lines = {
        number: {
            "log_likelihood": means[number],
            "standard_error": clustered_error(values, hidden.row),
            "difference": means[number] - means[best],
            "difference_error": clustered_error(values - found[best], hidden.row),
        }
        for number, values in found.items()
    }
    table = pd.DataFrame.from_dict(lines, orient="index")
    table.index.name = "factors"
    near = table.index[-table["difference"] <= table["difference_error"]]
    return FactorNumbers(table, best, int(min(near)), hidden.row.size)


def clustered_error(values: np.ndarray, row: np.ndarray) -> float:
    """Standard error of a mean over answers, with those of one person as a cluster."""
    _, person = np.unique(row, return_inverse=True)
    apart = np.bincount(person, values - values.mean())
    return float(np.sqrt((apart**2).sum()) / values.size)
