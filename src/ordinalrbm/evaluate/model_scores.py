"""A fitted model of ratings on ratings that it has not seen, beside what knows less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ordinalrbm.data.ratings import Ratings
from ordinalrbm.data.triples import COLUMNS, as_triples
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.baselines import DampedBiases, marginal, popular
from ordinalrbm.evaluate.hidden import level_values, unlearnt
from ordinalrbm.evaluate.metrics import point_scores, score
from ordinalrbm.evaluate.ranking import RankingScores, RankingTask


class RatingPredictor(Protocol):
    """A fitted model of ratings: what is asked of it."""

    ratings_: Ratings

    def predict_proba(self, users: Any, items: Any) -> np.ndarray:
        """Distribution of the rating of each pair."""

    def recommend(self, users: Any, n: int) -> pd.DataFrame:
        """The n best items that each user has not rated: columns user, item, rank."""


@dataclass(frozen=True)
class ModelScores:
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
        What `fit` was given to watch learning by: no user is recommended what he or she rated
        there, as after training on it.
    k, liked
        Length of the lists and lowest liked rating, see :func:`ranking`.

    Returns
    -------
    ModelScores

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
    new = unlearnt(known, test)
    task = RankingTask.of(known, new, k, liked)
    users, items, values = new.table.user.to_numpy(), new.table.item.to_numpy(), level_values(known)
    truth = values[new.cells.level]
    biases = DampedBiases().fit(known)
    distributions = {
        "model": model.predict_proba(users, items),
        "biases": biases.predict_proba(users, items),
        "marginal": np.tile(marginal(known), (truth.size, 1)),
    }
    scores = {name: score(shares, truth, values) for name, shares in distributions.items()}
    number = point_scores(biases.predict(users, items), truth, values)
    scores["biases"]["rmse"] = number["rmse"]
    return ModelScores(truth.size, new.n_learnt, scores, _rankings(model, task, validation))


def _rankings(model: RatingPredictor, task: RankingTask, validation: Any) -> dict[str, RankingScores]:
    if not task.n_users:
        return {}
    users, watched, more = task.users.labels, None, 0
    if validation is not None and len(validation):
        table = as_triples(validation, COLUMNS)
        watched = pd.MultiIndex.from_arrays([table.user.to_numpy(), table.item.to_numpy()])
        more = int(np.bincount(table.user.coded().codes).max())
    lists = {
        "model": model.recommend(users, n=task.k + more),
        "popularity": popular(task.known, users, n=task.k + more),
    }
    if watched is not None:
        lists = {name: _without(found, watched) for name, found in lists.items()}
    return {name: task.judge(found) for name, found in lists.items()}


def _without(recommended: pd.DataFrame, pairs: pd.MultiIndex) -> pd.DataFrame:
    listed = pd.MultiIndex.from_frame(recommended[["user", "item"]])
    return recommended[~listed.isin(pairs)]
