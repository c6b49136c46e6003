"""Several models of ratings together: the mean of their distributions."""

import copy
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import Catalogue, Ratings
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators.persistence import rating_parameters
from ordinalrbm.estimators.ratings import Few, RatingModel
from ordinalrbm.estimators.validation import check_parameters, keep_parameters
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.implicit_als import Demand
from ordinalrbm.matrix.predict import log_probability
from ordinalrbm.matrix.prepare import Fitted, TrainingData
from ordinalrbm.matrix.protocol import ExplainedCell
from ordinalrbm.runtime.threads import seed_from
from ordinalrbm.storage.model_file import estimator_class
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.schedule import NothingLearntError

# Shares are drawn towards equal ones as if by so many ratings that speak for each model.
_PRIOR_RATINGS = 50.0
# Each round brings them closer to the best; they need no more than two digits.
_ROUNDS = 50


class RatingEnsemble(RatingModel):
    """Several models of ratings together: predictions are the mean of their distributions.

    A taste may be a matter of degree or of kind. Models that are about as good and err in different
    places are better together. Shares are those under which the held-out ratings are most likely.

    Parameters
    ----------
    models : list of models of ratings
        Each is learnt from the same ratings, with the same ratings held out; those given here stay
        as they are. Whose ``random_state`` is None gets the seed of the ensemble.
    device : {"cpu", "cuda", "cuda:0", ...}, default="cpu"
        Where to predict, and where models learn that have this parameter.
    verbose : bool, default=False
        Whether to show a progress bar for each model.
    scale, item_scales, demand_factors, validation_fraction, random_state, n_jobs
        See :class:`RatingModel`, also for attributes that all models have. Those of the models
        are not looked at.

    Attributes
    ----------
    estimators_ : list
        The models that were learnt.
    shares_ : array
        The share of each in the predictions.
    history_ : DataFrame
        That of all models, one below the other; ``model`` counts them from 0.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> ratings = (users, items, 1 + (users + items) % 3)
    >>> kinds = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2)
    >>> degrees = orbm.OrdinalMF(2, n_epochs=2)
    >>> both = orbm.RatingEnsemble([kinds, degrees], random_state=0).fit(ratings)
    >>> both.predict_proba(4, [1, 2, 99]).shape, round(float(both.shares_.sum()), 6)
    ((3, 3), 1.0)
    """

    _kind = "ensemble"
    models: Any

    def __init__(
        self,
        models: Any = (),
        *,
        scale: Any = None,
        item_scales: Any = None,
        demand_factors: int = 64,
        validation_fraction: float = 0.05,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    # ---- learning -------------------------------------------------------------------------------

    def _read_scales(self, catalogue: Catalogue) -> None:
        given = list(self.models) if isinstance(self.models, list | tuple) else [self.models]
        if not given or not all(_may_be_member(type(one)) for one in given):
            raise DataError(
                "The 'models' parameter must be a list of models of ratings, for example "
                "[MatrixCumulativeRBM(), OrdinalMF()], none of which is an ensemble itself. "
                f"Got {self.models!r:.80} instead."
            )
        passed = ("verbose", "n_jobs", "device", "scale", "item_scales")
        self._members = [self._with_own(clone(model), passed) for model in given]
        for member in self._members:
            check_parameters(member)
            member._read_scales(catalogue)
            if getattr(member, "refit", "") == "all":  # what is held out tells the shares
                member.refit = "held-out"

    def _with_own(self, estimator: RatingModel, names: Iterable[str]) -> RatingModel:
        """The estimator with those of the ensemble's parameters that it has, too; in place."""
        shared = set(names) & set(estimator.get_params(deep=False))
        return estimator.set_params(**{name: getattr(self, name) for name in shared})

    def _check_weighs(self) -> None:
        for member in self.__dict__.get("_members") or self.estimators_:
            member._check_weighs()

    def _takes_features(self) -> bool:
        """Whether any model does; the others only learn of ids."""
        members = self.__dict__.get("_members") or self.estimators_
        return any(member._takes_features() for member in members)

    def _learn(self, data: TrainingData, seed: int, checkpoints: Checkpoints) -> Fitted:
        """Members and what they have learnt, in pairs; Ctrl-C ends learning and gives what there is."""
        found: list[tuple[RatingModel, Fitted]] = []
        interrupted = False
        # What is held out tells the shares in the end: no model learns from it.
        data = data._replace(is_given=True)
        for number, member in enumerate(self._members):
            own_seed = seed if member.random_state is None else seed_from(member.random_state)
            member._features = self._features
            try:
                fitted = member._learn(data, own_seed, _Part(checkpoints, number))  # type: ignore[arg-type]
            except KeyboardInterrupt:
                if not found:
                    raise
                interrupted = True
                break
            except NothingLearntError as error:
                if number == len(self._members) - 1 and not found:
                    raise
                warnings.warn(
                    f"{type(member).__name__} is left out of the ensemble: {error}",
                    ConvergenceWarning,
                    stacklevel=user_stacklevel(),
                )
                continue
            found.append((member, fitted))
            interrupted = fitted.interrupted
            if interrupted:
                break
        return Fitted(found, found[0][1].best_epoch, [], interrupted)

    def _keep(self, known: Ratings, data: TrainingData, fitted: Fitted) -> None:
        histories = []
        for number, (member, own) in enumerate(fitted.models):
            member._keep(known, data, own._replace(interrupted=False))
            histories.append(member.history_.assign(model=number))
        self.estimators_ = [member for member, _ in fitted.models]
        self.shares_ = _shares(self.estimators_, data)
        del self._members
        self.history_ = pd.concat(histories, ignore_index=True)[["epoch", "validation", "model", "seconds"]]
        self.best_epoch_, self.n_iter_, self.about_ = fitted.best_epoch, len(self.history_), {}
        self._collect()
        self._set_ratings(known)

    def _collect(self) -> None:
        """Posteriors and models of all members, with their shares."""
        self._posteriors = [part for each in self.estimators_ for part in each._posteriors]
        self.models_ = [
            model._replace(share=float(share) * model.share)
            for each, share in zip(self.estimators_, self.shares_, strict=True)
            for model in each.models_
        ]
        one = self.models_[0]
        for each in self.estimators_:  # there is one demand, that of the ensemble
            each.demand_ = Demand.none(one.n_rows, one.n_columns)

    def _models_with_users(self, ratings: Observations, lines: csr_array | None) -> list[Any]:
        found = super()._models_with_users(ratings, lines)
        return [model._replace(share=own.share) for model, own in zip(found, self.models_, strict=True)]

    def _effects(self, cell: ExplainedCell) -> tuple[float, np.ndarray]:
        expected, effects = zip(*(each._effects(cell) for each in self.estimators_), strict=True)
        return float(self.shares_ @ expected), self.shares_ @ np.array(effects)

    def _fold_in(self, ratings: Observations, tables: Tables) -> None:
        # Device and threads may have changed since.
        self.estimators_ = [
            self._with_own(copy.copy(each), ("n_jobs", "device")) for each in self.estimators_
        ]
        for each in self.estimators_:
            each._features = self._features
            each._fold_in(ratings, tables)
        self._collect()

    def _keep_few(self, few: Few) -> None:
        self.estimators_ = [copy.copy(each) for each in self.estimators_]
        for each in self.estimators_:
            each._features, each.item_scales = self._features, self.item_scales
            each._keep_few(few)
        self._collect()

    # ---- files ----------------------------------------------------------------------------------

    def _model_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"shares": self.shares_}
        for number, estimator in enumerate(self.estimators_):
            arrays |= {f"{number}.{name}": array for name, array in estimator._model_arrays().items()}
        return arrays

    def _header(self) -> dict[str, Any]:
        return {
            "members": [
                {
                    "kind": estimator._kind,
                    "parameters": rating_parameters(estimator, self.ratings_),
                    "n_models": len(estimator.models_),
                    "best_epoch": int(estimator.best_epoch_),
                }
                for estimator in self.estimators_
            ]
        }

    def _read_models(self, stored: Stored, n_users: int, n_levels: np.ndarray) -> None:
        members = stored.entry("members", list)
        self.shares_ = stored.checked_array("shares", np.float64, (len(members),), 0.0, 1.0)
        self.estimators_ = []
        for number, described in enumerate(members):
            own = stored.member(described, f"{number}.")
            kind = estimator_class(own.entry("kind", str))
            if not _may_be_member(kind):
                raise DataError(f"its header has {kind.__name__} as a part of an ensemble")
            estimator = own.estimator(kind, check_parameters)
            estimator.about_, estimator.best_epoch_ = {}, own.whole("best_epoch", 0)
            of_member = self.history_[self.history_["model"] == number]
            estimator.history_ = of_member.drop(columns="model").reset_index(drop=True)
            estimator.n_iter_ = len(estimator.history_)
            estimator._features = self._features
            estimator._read_models(own, n_users, n_levels)
            self.estimators_.append(estimator)
        self.models = [clone(estimator) for estimator in self.estimators_]
        self._collect()

    def _set_ratings(self, known: Ratings) -> None:
        super()._set_ratings(known)
        for estimator in self.estimators_:
            estimator._set_ratings(known)


def _may_be_member(kind: type) -> bool:
    return issubclass(kind, RatingModel) and not issubclass(kind, RatingEnsemble)


class _Part(NamedTuple):
    """Checkpoints of one of the models: the last one of the first says that it is done."""

    whole: Checkpoints
    number: int

    def of(self, name: str) -> Any:
        return self.whole.of(f"{self.number}-{name}")


def _shares(estimators: list[RatingModel], data: TrainingData) -> np.ndarray:
    """Most likely shares: each rating is divided between the models that expected it."""
    n = len(estimators)
    shares = np.full(n, 1.0 / n)
    if n == 1 or data.validation is None:
        return shares
    held_out = data.by_ids().validation
    assert held_out is not None, "it is there"
    logs = np.array([log_probability(each.models_, held_out) for each in estimators])
    likelihood, weight = np.exp(logs - logs.max(axis=0)), data.validation_weight
    for _ in range(_ROUNDS):
        credit = shares[:, None] * likelihood
        credit /= credit.sum(axis=0)
        credit *= 1.0 if weight is None else weight
        shares = (credit.sum(axis=1) + _PRIOR_RATINGS) / (credit.sum() + n * _PRIOR_RATINGS)
    return shares
