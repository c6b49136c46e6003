"""The multinomial RBM as an estimator."""

from typing import Any

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.validation import keep_parameters
from ordinalrbm.matrix.multinomial import Learner, MultinomialModel
from ordinalrbm.matrix.prepare import Fitted, TrainingData
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.loop import learn


class MultinomialRBM(RatingModel):
    """Multinomial restricted Boltzmann machine (Salakhutdinov, Mnih and Hinton 2007), a baseline.

    Every rating is a softmax unit that knows nothing of the order of its labels, and every user has
    binary factors; learnt by contrastive divergence with Adam. New users can be folded in, new items not.

    Parameters
    ----------
    n_factors : int, default=50
        Number of binary factors of a user.
    scale, item_scales, random_state, n_jobs, verbose, demand_factors, validation_fraction
        See :class:`RatingModel`, also for attributes that all models have.

    Other Parameters
    ----------------
    n_epochs : int, default=150
        Passes over the ratings at most.
    patience : int, default=6
        Learning ends after so many epochs in a row of little gain for the held-out ratings.
    batch_size : int, default=200
        Users per update.
    weight_decay : float, default=8
        Precision of the Gaussian prior of how the weights of an item's labels differ from each other.

    Attributes
    ----------
    user_factors_ : (users, K) array
        Probability of each user's factors.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> model = orbm.MultinomialRBM(2, n_epochs=3).fit((users, items, 1 + (users + items) % 3))
    >>> model.predict_proba(4, [1, 2, 99]).shape
    (3, 3)
    """

    _kind, _model_type = "multinomial_rbm", MultinomialModel
    n_factors: int

    def __init__(
        self,
        n_factors: int = 50,
        *,
        scale: Any = None,
        item_scales: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        n_epochs: int = 150,
        patience: int = 6,
        batch_size: int = 200,
        weight_decay: float = 8.0,
        demand_factors: int = 64,
        validation_fraction: float = 0.05,
    ) -> None:
        keep_parameters(self, locals())

    def _learn(self, data: TrainingData, seed: int, checkpoints: Checkpoints) -> Fitted:
        assert isinstance(data.observations, Observations), "of one process"
        learner, writer = (
            Learner(data.observations, data.validation, self, seed),
            checkpoints.of("multinomial"),
        )
        interrupted = learn(learner, writer, self.n_epochs, verbose=self.verbose, watched="validation")
        model = learner.model(learner.moving[-1], data.observations)
        return Fitted([model], learner.stopping.best_epoch, learner.history, interrupted)

    def _set_ratings(self, known: Ratings) -> None:
        super()._set_ratings(known)
        self.user_factors_ = self.model_.factors
