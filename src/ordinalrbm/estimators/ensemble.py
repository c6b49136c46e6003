"""Several fitted models of ratings together: the mean of their distributions."""

from dataclasses import replace
from typing import Any, NoReturn, Self, get_args

import numpy as np

from ordinalrbm.data.ratings import encode, is_single, refuse_without_scale
from ordinalrbm.data.triples import as_triples
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.validation import check_choice
from ordinalrbm.stats.point_estimates import SMALLEST_PROBABILITY, Rule, point

_PRIOR_RATINGS = 50.0  # so many that speak for each model draw shares towards equal ones
_ROUNDS = 50  # each brings shares closer to the best; they need no more than two digits


class RatingEnsemble:
    """Several fitted models of ratings together: predictions are the mean of their distributions.

    A taste may be a matter of degree or of kind. Models that are about as good and err in different
    places are better together. The models stay as they are: update, explain, save and recommend with
    them. (Lists are ranked by who chooses what, of which there is no distribution to average.)

    Parameters
    ----------
    models : list of fitted models of ratings, of the same items on the same scales
    shares : list of numbers, optional
        The share of each in the predictions, ``shares_`` from then on; equal ones by default, until
        :meth:`fit` chooses them.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> ratings = np.stack([users, items, 1 + (users + items) % 3])
    >>> learnt, held_out = tuple(ratings[:, ::2]), tuple(ratings[:, 1::2])
    >>> kinds = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2).fit(learnt)
    >>> degrees = orbm.OrdinalMF(2, n_epochs=2).fit(learnt)
    >>> both = orbm.RatingEnsemble([kinds, degrees]).fit(held_out)
    >>> both.predict_proba(4, [2, 4]).shape, round(float(both.shares_.sum()), 6)
    ((2, 3), 1.0)
    """

    def __init__(self, models: list[RatingModel], shares: Any = None) -> None:
        self.models = _checked(models)
        n = len(self.models)
        numbers = np.full(n, 1.0 / n) if shares is None else np.atleast_1d(shares)
        self.shares_ = numbers.astype(np.float64) if numbers.dtype.kind in "iuf" else np.zeros(0)
        if self.shares_.shape != (n,) or (self.shares_ < 0).any() or not np.isclose(self.shares_.sum(), 1.0):
            raise DataError(f"The 'shares' must be {n} numbers that add up to 1. Got {shares!r:.80} instead.")

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{type(m).__name__} {share:.2f}" for m, share in zip(self.models, self.shares_, strict=True)
        )
        return f"RatingEnsemble({shares})"

    def fit(self, ratings: Any) -> Self:
        """Choose the shares under which held-out ratings are most likely.

        Parameters
        ----------
        ratings : as in :meth:`RatingModel.fit`
            Ratings that no model has learnt from, such as the ``validation`` that all were given.
        """
        for model in self.models:  # else most would go to the model that knows them by heart
            known, cells = model.ratings_, encode(model.ratings_, ratings)
            cells = cells.at((cells.row >= 0) & (cells.column >= 0))
            n_learnt = int((known.observations.search(cells.row, cells.column) >= 0).sum())
            if n_learnt:
                name = type(model).__name__
                raise DataError(f"{name} has learnt from {n_learnt:,} of these ratings; give held-out ones.")
        likelihood, n = self._likelihoods(ratings), len(self.models)
        for _ in range(_ROUNDS):  # each rating is divided between the models that expected it
            credit = self.shares_[:, None] * likelihood
            credit /= credit.sum(axis=0)
            self.shares_ = (credit.sum(axis=1) + _PRIOR_RATINGS) / (credit.sum() + n * _PRIOR_RATINGS)
        return self

    def predict_proba(self, users: Any, items: Any, times: Any = None) -> np.ndarray:
        """The mean of the models' distributions; see :meth:`RatingModel.predict_proba`."""
        return np.tensordot(self.shares_, [m.predict_proba(users, items, times) for m in self.models], 1)

    def predict(self, users: Any, items: Any, rule: Rule = "mean", *, times: Any = None) -> Any:
        """One predicted rating per pair; see :meth:`RatingModel.predict`."""
        check_choice("rule", rule, get_args(Rule))
        distribution, known = self.predict_proba(users, items, times), self.models[0].ratings_
        column = known.cells(users, items).column
        if rule == "mean":
            predicted = known.expected(distribution, column)
        else:
            predicted = known.decode(point(distribution, rule), column)
        return predicted[0] if is_single(users) and is_single(items) else predicted

    def score(self, ratings: Any) -> float:
        """Mean log probability of ratings that were not learnt from; the greater, the better."""
        return float(np.log(self.shares_ @ self._likelihoods(ratings)).mean())

    def save(self, path: Any) -> NoReturn:
        """Refused: each model is saved by itself."""
        raise DataError(
            "An ensemble has no file; save() each of its models, and put them together again after load() "
            f"with RatingEnsemble(models, shares={self.shares_.round(6).tolist()})."
        )

    def _likelihoods(self, ratings: Any) -> np.ndarray:
        """(models, ratings): probability of each rating, at its time."""
        table = replace(as_triples(ratings), shape=None)  # one after the other, of a sparse matrix, too
        cells = encode(self.models[0].ratings_, table)
        if not cells.level.size:
            raise DataError("There is no rating to judge the models by; give at least one.")
        users, items = (
            ids.labels[position] for position, ids in (table.number("user"), table.number("item"))
        )
        each = np.array([model.predict_proba(users, items, table.time) for model in self.models])
        refuse_without_scale(cells, each.shape[2], table)
        return np.maximum(each[:, np.arange(cells.level.size), cells.level], SMALLEST_PROBABILITY)


def _checked(models: Any) -> list[RatingModel]:
    """The models, if all are fitted and predict ratings of the same items."""
    given = models if isinstance(models, list | tuple) else [None]
    if not given or not all(isinstance(one, RatingModel) and hasattr(one, "ratings_") for one in given):
        raise DataError(
            "The 'models' must be a list of fitted models of ratings, such as "
            f"[MatrixCumulativeRBM().fit(ratings), OrdinalMF().fit(ratings)]. Got {models!r:.80} instead."
        )
    for model in models:
        same_items = np.array_equal(models[0].items_.labels, model.items_.labels)
        if not same_items or models[0].scales_ != model.scales_:
            raise DataError(
                f"{type(models[0]).__name__} and {type(model).__name__} know different items or scales; fit "
                "all models of an ensemble to the same ratings."
            )
    return list(models)
