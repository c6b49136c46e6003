"""The multinomial RBM as an estimator."""

from typing import Any

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.validation import keep_parameters, settings_of
from ordinalrbm.matrix import multinomial_learner
from ordinalrbm.matrix.feature_priors import Tables
from ordinalrbm.matrix.multinomial import MultinomialModel
from ordinalrbm.matrix.multinomial_learner import MultinomialSettings
from ordinalrbm.matrix.prepare import Fitted, TrainingData
from ordinalrbm.training.checkpoint import Checkpoints


class MultinomialRBM(RatingModel):
    """Multinomial restricted Boltzmann machine (Salakhutdinov, Mnih and Hinton 2007).

    Every rating is a softmax unit that knows nothing of the order of its labels, and every user has
    binary factors; learnt by contrastive divergence. New users can be folded in, new items not.

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
    learning_rate : float, default=0.002
        Size of the steps (Adam).
    batch_size : int, default=200
        Users per update.
    epochs_per_step : int, default=10
        Contrastive divergence starts with one Gibbs step and takes one more after every so many
        epochs; 0 keeps it at one.
    weight_decay, bias_decay : float, default=8 and 2.5
        Precisions of the Gaussian priors: of how the weights of an item's labels differ from each
        other, and of how its biases differ from those of all items.
    averaged_epochs : int, default=10
        The model is an average over about so many of the last epochs, which takes out the noise of
        sampling.

    Attributes
    ----------
    user_factors_ : (users, K) array
        Probability of each user's factors.
    item_weights_, item_biases_ : (items, L, K) and (items, L) arrays
        Weights and biases of each label's softmax unit.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> users = ["ann", "ann", "bob", "bob", "cy", "cy", "cy", "di"]
    >>> items = ["tea", "milk", "tea", "cake", "milk", "cake", "tea", "cake"]
    >>> ratings = (users, items, [5, 1, 4, 2, 3, 5, 1, 4])
    >>> model = orbm.MultinomialRBM(2, n_epochs=3, random_state=0).fit(ratings)
    >>> model.predict_proba("ann", ["cake", "coffee"]).shape
    (2, 5)
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
        learning_rate: float = 0.002,
        batch_size: int = 200,
        epochs_per_step: int = 10,
        weight_decay: float = 8.0,
        bias_decay: float = 2.5,
        averaged_epochs: int = 10,
        demand_factors: int = 64,
        validation_fraction: float = 0.05,
    ) -> None:
        keep_parameters(self, locals())

    def _learn(self, data: TrainingData, seed: int, checkpoints: Checkpoints) -> Fitted:
        data = data.by_ids()
        assert isinstance(data.observations, Observations), "of one process"
        settings = settings_of(MultinomialSettings, self, seed=seed)
        return multinomial_learner.fit(data.observations, data.validation, settings, checkpoints)

    def _in_order(
        self, posterior: MultinomialModel, data: TrainingData, known: Ratings, fitted: Fitted
    ) -> MultinomialModel:
        return posterior  # it is learnt in the order of the ids

    def _set_ratings(self, known: Ratings) -> None:
        super()._set_ratings(known)
        self.user_factors_ = self.model_.factors
        self.item_weights_, self.item_biases_ = self.model_.weights, self.model_.bias

    def _fold_in(self, ratings: Observations, tables: Tables) -> None:
        if ratings.n_columns > self.model_.n_columns:
            raise DataError(
                "MultinomialRBM cannot fold in new items, only new users; leave their ratings out, "
                "or fit again with them."
            )
        super()._fold_in(ratings, tables)
