"""The paper's model of rating matrices as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordinalrbm.data.observations import Observations
from ordinalrbm.engine.memory import Fit
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.validation import keep_parameters, settings_of
from ordinalrbm.matrix import binary_learner
from ordinalrbm.matrix.binary_learner import BinarySettings
from ordinalrbm.matrix.cold_start import ColdStartPrior, blank_binary, cold_start_priors
from ordinalrbm.matrix.fitted import Fitted
from ordinalrbm.matrix.fold_in import fold_in_binary
from ordinalrbm.matrix.model import MatrixModel
from ordinalrbm.matrix.prepare import TrainingData
from ordinalrbm.storage.reader import Stored
from ordinalrbm.training.checkpoint import Checkpoints

_HALVES = ("by_rows", "by_columns")


class MatrixCumulativeRBM(RatingModel):
    """Cumulative Restricted Boltzmann Machine for rating matrices: users, items, ordered ratings.

    Every rating comes from a hidden real utility that falls between two thresholds. The utility
    has a part of the item's and a part of the user's, a part for each binary factor of the user
    that the item weighs, and one for each binary factor of the item that the user weighs (Tran,
    Phung and Venkatesh 2012). Thresholds belong to user and item together, so that a strict and a
    mild user may mean the same by different ratings. Both chains are learnt by Gibbs sampling.

    :class:`OrdinalMF` has continuous factors instead: taste is mostly a matter of degree, and it is
    quicker and more accurate. :class:`RatingEnsemble` takes both.

    Parameters
    ----------
    n_user_factors : int, default=50
        Number of binary factors of a user, K.
    n_item_factors : int, default=50
        Number of binary factors of an item, S. With 0 the matrix is treated as so many vectors:
        items have weights for the users' factors, and users have nothing else of their own.
    n_epochs : int or None, default=None
        Passes over the ratings at most; each passes over the users and over the items. None means
        15 to 60, the more the fewer users there are.
    batch_size : int, default=300
        Users (or items) per update.
    learning_rate : float, default=0.15
        Size of the first steps (AdaGrad); falls to zero along a cosine in the last epochs.
    gibbs_steps : int, default=1
        Steps of each chain per update.
    free_phase : {"contrastive", "persistent"}, default="contrastive"
        Whether the free chains start from the clamped ones at each update, or go on by themselves.
    memory : float, default=0.5
        How much of the old is kept, epoch by epoch, in the running mean that tracks the posterior
        of the factors: η of the paper.
    weight_decay : float or None, default=None
        Precision of the Gaussian prior on the weights; None estimates it together with them
        (empirical Bayes), so that there is nothing to tune.
    patience : int, default=5
        After so many epochs without a better one, the learning rate begins to fall to zero.
    n_averaged : int, default=1
        Over how many of the last epochs predictions are averaged; 1 keeps the best epoch alone.
    calibrate : bool, default=True
        Whether to set, in the end, a few numbers by the likelihood of the held-out ratings: how
        far to believe the factors, how wide distributions are, and how much milder or stricter
        ratings are with the number of ratings of a user and an item.
    scale, item_scales, validation_fraction, random_state, n_jobs, device, verbose
        See :class:`RatingModel`, also for attributes that all models have.

    Attributes
    ----------
    user_factors_ : (users, K) array
        Probability of each user's factors.
    item_factors_ : (items, S) array
        Probability of each item's factors.
    cold_start_ : list
        For each model, what items and users are like on the whole: where :meth:`fold_in` starts.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> ratings = pd.DataFrame({
    ...     "user": ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"],
    ...     "item": ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"],
    ...     "rating": [5, 1, 4, 2, 3, 5, 1, 4],
    ... })
    >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
    >>> sorted(model.recommend("di", n=2)["item"])
    ['milk', 'tea']
    """

    _kind, _model_type = "matrix_crbm", MatrixModel
    n_user_factors: int
    n_item_factors: int
    n_averaged: int

    def __init__(
        self,
        n_user_factors: int = 50,
        n_item_factors: int = 50,
        *,
        scale: Any = None,
        item_scales: Any = None,
        n_epochs: int | None = None,
        batch_size: int = 300,
        learning_rate: float = 0.15,
        gibbs_steps: int = 1,
        free_phase: str = "contrastive",
        memory: float = 0.5,
        weight_decay: float | None = None,
        patience: int = 5,
        n_averaged: int = 1,
        calibrate: bool = True,
        validation_fraction: float = 0.05,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    @classmethod
    def paper(
        cls, n_user_factors: int = 50, n_item_factors: int = 50, **others: Any
    ) -> MatrixCumulativeRBM:
        """Settings near the paper's own procedure: two chains, predictions as they are.

        One contrastive step, posteriors tracked with η = 0.9, a fixed weight decay, no calibration.
        Other parameters may be given by name.

        Examples
        --------
        >>> import ordinalrbm as orbm
        >>> orbm.MatrixCumulativeRBM.paper(20, 20, n_epochs=30).memory
        0.9
        """
        own: dict[str, Any] = {
            "n_epochs": 40,
            "batch_size": 100,
            "learning_rate": 0.05,
            "memory": 0.9,
            "weight_decay": 50.0,
            "calibrate": False,
        }
        return cls(n_user_factors, n_item_factors, **(own | others))

    def _fit_sizes(self) -> list[Fit]:
        return [Fit(self._kind, self.n_user_factors, self.n_item_factors, self.n_averaged)]

    def _learn(self, data: TrainingData, seed: int, checkpoints: Checkpoints) -> Fitted:
        if not data.observations.n_entries:
            return Fitted([blank_binary(self.n_user_factors, self.n_item_factors)], 0, [], False)
        n_factors = {"n_row_factors": self.n_user_factors, "n_column_factors": self.n_item_factors}
        settings = settings_of(BinarySettings, self, **n_factors, seed=seed)
        assert isinstance(data.observations, Observations), "every process has all ratings"
        return binary_learner.fit(data.observations, data.validation, settings, checkpoints)

    def _keep_models(self, models: list[Any], fitted: Fitted) -> None:
        self.models_ = models
        self.cold_start_ = [cold_start_priors(model, fitted.precisions) for model in models]

    def _set_ratings(self, known: Any) -> None:
        super()._set_ratings(known)
        self.user_factors_ = self.model_.by_rows.factors
        self.item_factors_ = self.model_.by_columns.factors

    def _fold_in(self, ratings: Observations) -> list[MatrixModel]:
        backend = self._backend()
        return [
            fold_in_binary(model, ratings, priors, backend)
            for model, priors in zip(self.models_, self.cold_start_, strict=True)
        ]

    def _model_arrays(self) -> dict[str, np.ndarray]:
        arrays = super()._model_arrays()
        for number, priors in enumerate(self.cold_start_):
            for name, prior in zip(_HALVES, priors, strict=True):
                for field, array in prior._asdict().items():
                    arrays[f"{number}.{name}.cold_start.{field}"] = array
        return arrays

    def _read_models(self, stored: Stored, n_users: int, n_levels: np.ndarray) -> None:
        super()._read_models(stored, n_users, n_levels)
        self.cold_start_ = [
            [
                ColdStartPrior.from_stored(own.under(f"{name}.cold_start."), getattr(model, name))
                for name in _HALVES
            ]
            for model, own in zip(self.models_, self._parts(stored), strict=True)
        ]
