"""Ordinal matrix factorisation: what its arrays say, and the optimum that points end at."""

import numpy as np
import pytest
from scipy.special import ndtr
from small_matrices import MODELS, bounds_of, simulated

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells, Observations
from ordinalrbm.matrix.predict import expected_utility, log_probability, utilities
from ordinalrbm.matrix.variational import Precisions, epoch, on_cpu, start

# Gaps that differ and no symmetry: a sign or an order that is wrong shows.
BOUNDS = {2: [0.4], 3: [-1.1, 0.2], 5: [-2.0, -1.5, -0.3, 0.9]}


def all_cells(n_rows, n_columns):
    row, column = np.divmod(np.arange(n_rows * n_columns), n_columns)
    return Cells(row, column, np.zeros(row.size, dtype=np.int8))


@pytest.fixture(scope="module", params=["variational", "point"])
def fitted(request):
    """More factors than the ratings can tell."""
    return MODELS["ordinal"](12, posterior=request.param, factor_precision=2.0).fit(simulated())


# ---- what the public arrays say -----------------------------------------------------------------


def test_predictions_follow_from_the_expected_utility(fitted):
    """With a deviation of one, and what is not known of the utility."""
    model, users, items = fitted.model_, np.arange(0, 120, 7), np.arange(0, 50, 3)
    cells = Cells(*map(np.ravel, np.meshgrid(users, items)), np.zeros(users.size * items.size))
    mean = fitted.user_biases_[cells.row] + fitted.item_biases_[cells.column]
    mean = mean + (fitted.user_factors_[cells.row] * fitted.item_factors_[cells.column]).sum(axis=1)
    deviation = utilities(model, cells).deviation
    found = fitted.predict_proba(fitted.users_.take(cells.row), fitted.items_.take(cells.column))
    for p, d, i, at, width in zip(found, cells.row, cells.column, mean, deviation, strict=True):
        bounds = bounds_of(model.column_cutpoints[i], model.row_cutpoints[d], 5)
        np.testing.assert_allclose(p, np.diff(ndtr((bounds - at) / width)), atol=2e-6)


def test_what_is_not_known_widens_the_variational_posterior_alone(fitted):
    deviation = utilities(fitted.model_, all_cells(120, 50)).deviation
    if fitted.posterior == "point":
        np.testing.assert_array_equal(deviation, 1.0)
    else:
        assert deviation.min() > 1.01


def test_factors_that_the_ratings_cannot_tell_are_zero(fitted):
    """Some 2,000 ratings of 170 users and items tell five; a point has all it was asked for."""
    used = fitted.user_factors_.any(axis=0)
    if fitted.posterior == "point":
        assert used.all()
    else:
        assert used.tolist() == [True] * 5 + [False] * 7
        np.testing.assert_array_equal(fitted.item_factors_[:, 5:], 0.0)


def test_strengths_of_priors_are_learnt_with_variances_and_stay_without(fitted):
    for prior in (fitted.model_.row_prior, fitted.model_.column_prior):
        if fitted.posterior == "point":
            np.testing.assert_allclose(prior.precision, [5.0] + [2.0] * 12)
            np.testing.assert_allclose(prior.cutpoints_precision, 20.0)
        else:
            assert prior.precision[0] != 5.0
            assert np.ptp(prior.precision[1:]) > 0.5
            assert (prior.cutpoints_precision[1:] != 20.0).all()


def test_arrays_lie_row_by_row(fitted):
    """Kernels go along a row's factors, and are compiled anew for every other order."""
    for side in (fitted.model_.rows, fitted.model_.columns):
        assert all(part.flags.c_contiguous for part in side)


def test_strengths_that_are_not_given():
    given = {"n_epochs": 1, "demand_factors": 0, "random_state": 0}
    for posterior, strength in (("point", 20.0), ("variational", 1.0)):
        one, other = (
            orbm.OrdinalMF(3, posterior=posterior, factor_precision=own, **given).fit(simulated())
            for own in (None, strength)
        )
        np.testing.assert_array_equal(one.user_factors_, other.user_factors_)


@pytest.mark.parametrize(("posterior", "most"), [("variational", 30), ("point", 60)])
def test_learning_stops_by_itself(posterior, most):
    for n_epochs in (None, 200):
        model = orbm.OrdinalMF(4, posterior=posterior, n_epochs=n_epochs, demand_factors=0, random_state=0)
        model.fit(simulated())
        assert model.n_iter_ <= (most if n_epochs is None else 99)
        assert model.best_epoch_ == model.history_["validation"].argmax() + 1
        assert model.n_iter_ <= model.best_epoch_ + 2


# ---- points end where the log posterior is flat -------------------------------------------------


def small_table(n_rows=25, n_columns=12, density=0.8, seed=0):
    """Levels of a factor model with a probit, on several scales; −1 where there is none."""
    rng = np.random.default_rng(seed)
    n_levels = np.resize([5, 3, 2], n_columns)
    utility = rng.normal(0, 0.5, (n_rows, 1)) + rng.normal(0, 0.7, (1, n_columns))
    utility = utility + rng.normal(size=(n_rows, 2)) @ rng.normal(0, 0.8, (2, n_columns))
    utility += rng.normal(size=utility.shape)
    levels = [np.searchsorted(BOUNDS[int(n)], utility[:, i]) for i, n in enumerate(n_levels)]
    dense = np.where(rng.random(utility.shape) < density, np.stack(levels, axis=1), -1)
    return dense, n_levels


def log_posterior(parts, priors, dense, n_levels):
    """Of points, cell by cell; parts are means and cutpoints of rows, and of columns."""
    (p, kappa), (q, tau) = parts
    total = 0.0
    for d, i in zip(*np.nonzero(dense >= 0), strict=True):
        mean = p[d, 0] + q[i, 0] + p[d, 1:] @ q[i, 1:]
        low, high = bounds_of(tau[i], kappa[d], n_levels[i])[dense[d, i] :][:2] - mean
        total += np.log(ndtr(-low) - ndtr(-high) if low > 0 else ndtr(high) - ndtr(low))
    for (mean, cutpoints), prior in zip(parts, priors, strict=True):
        away = (cutpoints - prior.cutpoints)[:, 1:]
        total -= 0.5 * (prior.precision * mean**2).sum()
        total -= 0.5 * (prior.cutpoints_precision[1:] * away**2).sum()
    return total


@pytest.fixture(scope="module")
def settled():
    """Points after so many epochs that nothing moves any more, in float64, and their table."""
    dense, n_levels = small_table()
    observations = Observations.from_dense(dense, n_levels)
    state, data = start(observations, 2, 0, Precisions(5.0, 2.0, 20.0)), on_cpu(observations)
    for number in range(1, 301):
        state = epoch(data, state, number, is_point=True)
    parts = [[side.mean.astype(np.float64), side.cutpoints.copy()] for side in (state.rows, state.columns)]
    return parts, state[2:4], dense, n_levels


@pytest.mark.parametrize(("side", "kind"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_points_end_where_the_log_posterior_is_flat(settled, side, kind):
    """Biases and factors, and log gaps, of rows and of columns: slopes by finite differences."""
    parts, priors, dense, n_levels = settled
    array = parts[side][kind]
    step = 1e-5
    slopes, elsewhere = [], []
    # The first threshold is no gap: it stays, or moves with the biases of all.
    places = [place for place in np.ndindex(array.shape) if kind == 0 or place[1] > 0]
    for place in places[:: 5 if side == 0 else 2]:
        kept, values = array[place], []
        for move in (step, -step, 0.1 + step, 0.1 - step):
            array[place] = kept + move
            values.append(log_posterior(parts, priors, dense, n_levels))
        array[place] = kept
        slopes.append((values[0] - values[1]) / (2 * step))
        elsewhere.append((values[2] - values[3]) / (2 * step))
    np.testing.assert_allclose(slopes, 0.0, atol=3e-3)
    assert np.abs(elsewhere).mean() > 0.1  # not flat all over


# ---- truth that is known ------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", ["variational", "point"])
def test_thresholds_are_found(posterior):
    """Without effects, common cutpoints end at the thresholds that made the answers."""
    rng = np.random.default_rng(0)
    levels = np.searchsorted(BOUNDS[5], rng.normal(size=(300, 40)))
    user, item = np.indices(levels.shape).reshape(2, -1)
    model = orbm.OrdinalMF(2, posterior=posterior, n_epochs=25, demand_factors=0, random_state=0)
    model.fit((user, item, levels.ravel()))
    cutpoints = model.model_.column_cutpoints.mean(axis=0)
    found = bounds_of(cutpoints, np.zeros(4), 5)[1:-1]
    np.testing.assert_allclose(found, BOUNDS[5], atol=0.1)


@pytest.mark.parametrize("posterior", ["variational", "point"])
def test_a_factorisation_is_found_again(posterior):
    """Utilities that made the ratings, from levels alone."""
    rng = np.random.default_rng(1)
    truth = rng.normal(0, 0.5, (200, 1)) + rng.normal(0, 0.7, (1, 80))
    truth = truth + rng.normal(size=(200, 2)) @ rng.normal(0, 0.9, (2, 80))
    levels = np.searchsorted(BOUNDS[5], truth + rng.normal(size=truth.shape))
    user, item = np.nonzero(rng.random(levels.shape) < 0.7)
    model = orbm.OrdinalMF(2, posterior=posterior, factor_precision=1.0, demand_factors=0, random_state=0)
    model.fit((user, item, levels[user, item]))
    found = expected_utility(model.model_, all_cells(200, 80))
    assert np.corrcoef(found, truth.ravel())[0, 1] > 0.95
    hidden = np.argwhere(levels >= 0)[::7]
    cells = Cells(*hidden.T, levels[tuple(hidden.T)])
    shares = np.bincount(levels.ravel()) / levels.size
    gain = log_probability([model.model_], cells).mean() - np.log(shares[cells.level]).mean()
    assert gain > 0.3


@pytest.mark.parametrize(("posterior", "close"), [("variational", 0.05), ("point", 1e-3)])
def test_a_new_user_is_placed_like_an_old_one(posterior, close):
    """Exactly where points are flat; a variational epoch rotates rows after it has updated them."""
    model = MODELS["ordinal"](2, posterior=posterior, n_epochs=40, validation_fraction=0)
    model.fit(simulated())
    every = model.items_.labels
    for user in ("u4", "u9"):
        items, levels = model.ratings_.observations.row(model.users_.lookup([user])[0])
        wider = model.fold_in((["new"] * items.size, model.items_.take(items), 1 + levels))
        away = np.abs(wider.predict_proba("new", every) - model.predict_proba(user, every))
        assert away.max() < close
        assert away.mean() < 0.3 * close
