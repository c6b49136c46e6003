"""Answers with weights on the GPU, beside the cores."""

import cases
import numpy as np
import pytest
from long_form import LONG

torch = pytest.importorskip("torch")

from ordinalrbm.data.observations import Cells, Observations  # noqa: E402
from ordinalrbm.engine.base import FactorPosterior  # noqa: E402
from ordinalrbm.engine.gpu.half_sweep import GPU_ENGINE  # noqa: E402
from ordinalrbm.engine.half_sweep import CPU_ENGINE  # noqa: E402
from ordinalrbm.matrix import variational  # noqa: E402
from ordinalrbm.matrix.cpu import CPU  # noqa: E402
from ordinalrbm.matrix.feature_priors import NO_TABLES  # noqa: E402
from ordinalrbm.matrix.gibbs_sampler import start, sweep  # noqa: E402
from ordinalrbm.matrix.gpu.backend import Cuda  # noqa: E402


def weighted(ratings):
    return ratings.with_weight(np.random.default_rng(8).uniform(0.2, 3.0, ratings.n_entries))


@pytest.mark.parametrize("ratings", [cases.ragged, cases.one_long_row])
def test_a_half_sweep(ratings):
    """Rows, and what is left for bins of their answers."""
    answers, gpu = weighted(ratings()), Cuda("cuda")
    state = cases.state(answers, 3)
    rows, there, given = CPU.clone(state.rows), gpu.to_device(state), gpu.answers(answers)
    for _ in range(2):
        variance = CPU_ENGINE.half_sweep(answers, rows, state.columns, state.row_prior)
        found = GPU_ENGINE.half_sweep(given, there.rows, there.columns, there.row_prior)
    for name, one, other in zip(FactorPosterior._fields, there.rows, rows, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, atol=3e-5, err_msg=name)
    np.testing.assert_allclose(found.cpu().numpy(), variance, atol=1e-6)
    time = np.arange(answers.n_entries)
    pulls = CPU_ENGINE.bin_pulls(answers, rows, state.columns, CPU.bins(answers, time))
    own = GPU_ENGINE.bin_pulls(given, there.rows, there.columns, gpu.bins(answers, time))
    np.testing.assert_allclose(own, pulls, atol=1e-4)


def test_sums_of_lines_for_the_demand():
    answers, gpu = weighted(cases.ragged()), Cuda("cuda")
    both = gpu.data(answers, 3)
    rng = np.random.default_rng(1)
    for there, here in ((both.rows, answers), (both.columns, answers.transpose())):
        table, own = (rng.normal(size=(n, 3)).astype(np.float32) for n in (here.n_columns, here.n_rows))
        on_device = (torch.from_numpy(part).to(gpu.device) for part in (table, own))
        tables = list(on_device)
        for weighs in (True, False):
            found = GPU_ENGINE.rated_sums(there.answers, tables[0], weighted=weighs).cpu().numpy()
            expected = CPU_ENGINE.rated_sums(here, table, weighted=weighs)
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
        found = GPU_ENGINE.rated_products(there.answers, *tables).cpu().numpy()
        np.testing.assert_allclose(found, CPU_ENGINE.rated_products(here, table, own), rtol=1e-4, atol=1e-4)


def test_held_out_ratings_keep_their_weights():
    answers, gpu = weighted(cases.ragged()), Cuda("cuda")
    new = Cells(np.array([1, 2]), np.array([0, 3]), np.array([1, 0]))
    weight = np.array([2.5, 0.5])
    here = CPU.data_with(CPU.data(answers, 2), answers, new, 2, weight)[0]
    there = gpu.data_with(gpu.data(answers, 2), answers, new, 2, weight)[0]
    for name in ("rows", "columns"):
        one, other = getattr(here, name).answers, getattr(there, name).answers
        np.testing.assert_array_equal(other.weight.cpu().numpy(), one.weight)
        np.testing.assert_array_equal(other.column.cpu().numpy(), one.column)


# With drift, a sweep does all that it does without, for which an interpreter takes a while.
@pytest.mark.parametrize("drifts", [False, True] if LONG or torch.cuda.is_available() else [True])
def test_a_sweep_is_that_of_the_cores(drifts):
    rng = np.random.default_rng(3)
    level = rng.integers(0, 4, (12, 9))
    ratings = weighted(Observations.from_dense(np.where(rng.random(level.shape) < 0.6, level, -1), 4))
    first, found = variational.start(ratings, 3, 0, variational.Precisions()), []
    backend, time = Cuda("cuda"), rng.permutation(ratings.n_entries) if drifts else None
    for engine in (CPU, backend):
        data, begun = engine.sampled(ratings, NO_TABLES, rated_sets=False, time=time), first
        with backend.working():
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
    np.testing.assert_allclose(one.drift.level, other.drift.level, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(one.row_hyper.mean, other.row_hyper.mean, rtol=1e-3, atol=1e-3)
