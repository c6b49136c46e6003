"""The sampler on a GPU: weights of features drawn together, and whole sweeps beside the cores'."""

import warnings

import numpy as np
import pytest
from long_form import LONG
from sampled_world import made_up, matrix_of, numbers_of, prior_state, z_scores
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

torch = pytest.importorskip("torch")

import ordinalrbm as orbm  # noqa: E402
from ordinalrbm.data.observations import Observations  # noqa: E402
from ordinalrbm.engine import drift  # noqa: E402
from ordinalrbm.engine import rated_sets as cores  # noqa: E402
from ordinalrbm.engine.gpu import rated_sets as gpu  # noqa: E402
from ordinalrbm.engine.gpu.pieces import answers_on  # noqa: E402
from ordinalrbm.engine.rated_sets import WeightDraws  # noqa: E402
from ordinalrbm.matrix import gibbs_learner, gibbs_sampler, variational  # noqa: E402
from ordinalrbm.matrix.backends import CPU  # noqa: E402
from ordinalrbm.matrix.feature_priors import Tables  # noqa: E402
from ordinalrbm.matrix.gibbs_sampler import placed, start, sweep  # noqa: E402
from ordinalrbm.matrix.gpu.backend import Cuda  # noqa: E402


def some_ratings(n_rows=12, n_columns=9, seed=0):
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 4, (n_rows, n_columns))
    return Observations.from_dense(np.where(rng.random(level.shape) < 0.6, level, -1), 4)


def test_products_with_rated_sets_are_those_of_the_cores(device):
    ratings, rng = some_ratings(), np.random.default_rng(1)
    there = [answers_on(view, device) for view in (ratings, ratings.transpose())]
    sets, expected = gpu.RatedSets.of(ratings.row_counts, *there), cores.RatedSets.of(ratings)
    weights = rng.normal(size=(9, 3)).astype(np.float32)
    found = sets.times(torch.from_numpy(weights).to(device)).cpu().numpy()
    np.testing.assert_allclose(found, expected.times(weights), rtol=1e-3, atol=1e-3)
    rows = rng.normal(size=(12, 3)).astype(np.float32)
    dense = (ratings.to_dense() >= 0) * expected.lengths[:, None]
    found = sets.transposed_times(torch.from_numpy(rows).to(device)).cpu().numpy()
    np.testing.assert_allclose(found, dense.T @ rows, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("n_rows", "n_features"), [(20, 4), (4, 7)])
def test_weights_are_a_ridge_regression(device, n_rows, n_features):
    """They are solved for with more rows than features, and a number of each row with fewer.

    Columns have random numbers of their own: copies of a column are draws of the same weights.
    """
    rng, ridge, n_calls, n_copies = np.random.default_rng(2), 1.5, 50, 30
    n_draws = n_calls * n_copies
    table = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    given = rng.normal(size=(n_rows, 2)).astype(np.float32)
    features = gpu.FeatureTable(csr_array(table), device)
    left = torch.from_numpy(np.tile(given, n_copies)).to(device)
    weights, drawn = left.new_zeros((n_features, 2 * n_copies)), []
    for number in range(n_calls):
        weights, left = features.draw_weights(weights, left, ridge, WeightDraws(0, number, 0))
        drawn += [*weights.cpu().numpy().reshape(n_features, n_copies, 2).swapaxes(0, 1)]
    np.testing.assert_allclose(left.cpu()[:, -2:], given - table @ drawn[-1], atol=2e-3)
    covariance = np.linalg.inv(table.T @ table + ridge * np.eye(n_features))
    error = np.sqrt(np.diag(covariance) / n_draws)[:, None]
    away = (np.mean(drawn, axis=0) - covariance @ table.T @ given) / error
    assert abs(away).max() < 4.0
    beside = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    correlations = np.cov(np.array(drawn)[:, :, 0].T) / beside
    np.testing.assert_allclose(correlations, covariance / beside, atol=0.15)


@pytest.mark.parametrize("n_rows", [12, 6])
def test_weights_of_rated_sets_are_a_ridge_regression(device, n_rows):
    """Its sums are read with three digits, which does not show."""
    rng, ridge, ratings = np.random.default_rng(4), 0.5, some_ratings(n_rows)
    there = [answers_on(view, device) for view in (ratings, ratings.transpose())]
    features = gpu.RatedSets.of(ratings.row_counts, *there)
    dense = (ratings.to_dense() >= 0) * cores.RatedSets.of(ratings).lengths[:, None]
    given = 100.0 * rng.normal(size=(n_rows, 2)).astype(np.float32)
    weights = torch.zeros((9, 2), device=device)
    drawn, left = features.draw_weights(
        weights, torch.from_numpy(given).to(device), ridge, WeightDraws(0, 1, 0)
    )
    drawn = drawn.cpu().numpy()
    np.testing.assert_allclose(left.cpu(), given - dense @ drawn, atol=0.2)
    # Noise is small beside what is given.
    covariance = np.linalg.inv(dense.T @ dense + ridge * np.eye(9))
    deviation = np.sqrt(np.diag(covariance))[:, None]
    away = (drawn - covariance @ dense.T @ given) / deviation
    assert np.square(away).mean() < 3.0
    assert np.abs(away).max() < 5.0


# The second does all that the first does, for which an interpreter takes a while.
SWEEPS = [(False, False), (True, True)] if LONG or torch.cuda.is_available() else [(True, True)]


@pytest.mark.parametrize(("has_table", "drifts"), SWEEPS)
def test_a_sweep_is_that_of_the_cores(has_table, drifts, monkeypatch):
    """But for weights of features, whose draws are others.

    Weights stay as they are: what is drawn after them would have other random numbers.
    """
    monkeypatch.setattr(gibbs_sampler, "_drawn_weights", lambda view, hyper, left, which, rng: hyper)
    ratings, rng = some_ratings(), np.random.default_rng(3)
    table = csr_array(rng.normal(size=(12, 2)).astype(np.float32)) if has_table else None
    tables, found = Tables(table, None), []
    first = variational.with_weights(variational.start(ratings, 3, 0, variational.Precisions()), tables)
    for part in (*first.row_weights.parts, *first.column_weights.parts):
        part[:] = rng.normal(size=part.shape)
    backend, time = Cuda("cuda"), rng.permutation(ratings.n_entries) if drifts else None
    for engine in (CPU, backend):
        data = engine.sampled(ratings, tables, rated_sets=True, time=time)
        with backend.working():
            begun = first
            if drifts:
                begun = variational.starting_to_drift(first, data.bins.bins)
                begun.drift.level[:] = np.random.default_rng(4).normal(size=begun.drift.level.size)
            state = sweep(data, start(data, begun), 1, 5, settling=True)
            found.append(data.engine.on_host(state))
    one, other = found
    for name in ("rows", "columns"):
        for mine, theirs in zip(getattr(one, name), getattr(other, name), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(one.cutpoints, other.cutpoints, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(one.gaps, other.gaps, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(one.drift.level, other.drift.level, rtol=2e-3, atol=2e-3)
    assert one.drift.persistence == other.drift.persistence
    np.testing.assert_allclose(one.row_hyper.mean, other.row_hyper.mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(one.row_hyper.precision, other.row_hyper.precision, rtol=1e-3, atol=1e-3)
    assert len(one.row_hyper.weights) == 1 + has_table
    for mine, theirs in zip(one.row_hyper.weights, other.row_hyper.weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.fixture
def not_interpreted(device):
    if device.type == "cpu" and not LONG:
        pytest.skip("takes minutes without a GPU; ORDINALRBM_LONG=1 runs it")


@pytest.mark.usefixtures("not_interpreted")
def test_the_posterior_is_stationary(monkeypatch):
    """Parameters that made the data are a draw of their posterior, and sweeps leave them one.

    As on the cores.
    """
    monkeypatch.setattr(drift, "SIZE", 2)
    rng, found, backend = np.random.default_rng(9), [], Cuda("cuda")
    for world in range(350):
        state = prior_state(rng)
        data = matrix_of(made_up(rng, state), backend)
        with backend.working():
            state = placed(data, state)
            for number in range(2, 4):
                state = sweep(data, state, number, world, settling=False)
            found.append(numbers_of(data.engine.on_host(state)))
    z = z_scores(found)
    assert abs(z).max() < 4.0, z.round(1)
    assert np.square(z).mean() < 2.0, z.round(1)


@pytest.mark.usefixtures("not_interpreted")
def test_a_chain_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    """What is the host's is on the host again: draws are those of a chain that was not stopped."""
    users, items = np.divmod(np.arange(6), 2)
    monkeypatch.setattr(gibbs_learner, "_WARM_EPOCHS", 1)

    def fitted(**checkpoint):
        own = {"n_draws": 1, "n_epochs": 2, "demand_factors": 0}
        model = orbm.OrdinalMF(1, posterior="sampled", device="cuda", random_state=0, **own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit((users, items, 1 + users % 3), **checkpoint)

    def stop(*_):
        raise RuntimeError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(gibbs_learner._Learner, "_keep", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            fitted(checkpoint=tmp_path, every=1)
    again, whole = fitted(checkpoint=tmp_path, every=1), fitted()
    np.testing.assert_array_equal(again.draws_.rows.factors, whole.draws_.rows.factors)
