"""The linear-response correction against the exact posterior variance of the utilities' means."""

import numpy as np
import pytest
from hand_made_models import PATTERNS, observed, vector_model

import ordinalrbm as orbm
from ordinalrbm.vector import likelihood
from ordinalrbm.vector.model import side
from ordinalrbm.vector.posterior import mean_field
from ordinalrbm.vector.predict import spread_of


def exact_variance(model, this):
    """Var(w_j·h | v) of every row and column, by enumeration."""
    states, posterior = likelihood.exact_posterior(model, this)
    means = states @ model.weights.astype(np.float64).T
    return posterior @ means**2 - (posterior @ means) ** 2


def relative_errors(unanswered, scale):
    """Of the correction and of independent factors, largest over rows with answers."""
    model = vector_model(seed=3, n_factors=2, scale=scale, units=40)
    model = model._replace(factor_bias=np.array([-0.1, 0.15], dtype=np.float32))
    answered = PATTERNS[(PATTERNS >= 0).any(axis=1)]
    this = side(model, observed(answered), unanswered)
    factors = mean_field(model, this).factors
    truth = exact_variance(model, this)
    share = factors / model.units
    independent = (model.units * share * (1 - share)) @ (model.weights**2).T
    corrected = spread_of(model, this, factors).utility ** 2 - 1
    return np.abs(corrected / truth - 1).max(), np.abs(independent / truth - 1).max()


@pytest.mark.parametrize("unanswered", ["absent", "latent"])
def test_spread_tends_to_that_of_the_exact_posterior(unanswered):
    # The correction is exact to leading order in the weights; independent factors are not.
    error, independent = relative_errors(unanswered, 0.0625)
    assert error < 0.01
    assert independent > 0.1
    # It is still much better where weights are not small.
    error, independent = relative_errors(unanswered, 0.25)
    assert error < 0.35 * independent


def test_an_unstable_fixed_point_gives_finite_spreads():
    model = vector_model(seed=0, n_factors=3, scale=4.0)
    this = side(model, observed(PATTERNS), "latent")
    factors = np.full((len(PATTERNS), 3), 0.5, dtype=np.float32)
    spread = spread_of(model, this, factors).utility
    assert np.isfinite(spread).all()
    assert (spread >= 1).all()


def test_estimator_keeps_medians_and_widens_distributions():
    table = orbm.datasets.load_food_world_cup().head(300)
    model = orbm.CumulativeRBM.binary(
        n_factors=4, units_per_factor=16, unanswered="latent", n_epochs=8, random_state=0
    ).fit(table)
    plain, medians = model.predict_proba(table), model.predict(table)
    corrected = model.set_params(inference="linear_response").predict_proba(table)
    assert model.predict(table).equals(medians)
    assert max(p.max() for p in plain) > max(p.max() for p in corrected)
    assert all(np.allclose(p.sum(axis=1), 1) for p in corrected)
