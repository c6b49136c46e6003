"""One suite for all engines: plain NumPy in float64 judges cores, GPU, and several processes.

All have the same random words, and sum in float32, each in its own order. A sum of n numbers of
size one is then off by some √n times 6e-8, and a half-sweep divides such sums by others: 1e-5 is
ten times what is seen here (5e-6 with 200 factors). Chains part where a uniform number ties with
its probability within that, which happens once in some 10⁵ draws: in these, none does. After three
epochs distributions are compared, not factors, whose axes are those of eigenvectors.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from in_processes import found_by_ranks
from interpreter import use_interpreter
from long_form import LONG
from work import by_backend, by_engine

from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.side import Statistics
from ordinalrbm.matrix.model import Half

HAS_TORCH = find_spec("torch") is not None
HAS_TRITON = HAS_TORCH and find_spec("triton") is not None
CLOSE = 1e-5


def has_gpu():
    import torch

    return torch.cuda.is_available()


def backends():
    """Those that can run here; a GPU's kernels in an interpreter, if there is none."""
    names = ["cores"]
    if HAS_TRITON:
        if not has_gpu():
            use_interpreter()
        names += ["gpu"]
    if HAS_TORCH:
        names += ["cores in 2 ranks", "cores in 4 ranks"] if LONG else ["cores in 2 ranks"]
    if HAS_TRITON and has_gpu():
        names += ["gpu in 2 ranks"]
    return names


@pytest.fixture(scope="module")
def truth():
    return {**by_backend("plain"), **by_engine("plain")}


@pytest.fixture(scope="module", params=backends())
def learnt(request, tmp_path_factory):
    name, _, others = request.param.partition(" in ")
    if not others:
        return quietly(by_backend, name)
    size = int(others.split()[0])
    found = found_by_ranks(name, size, tmp_path_factory.mktemp("ranks"))
    for other in found[1:]:  # all have all of it, to the last bit
        np.testing.assert_equal(other, found[0])
    return found[0]


@pytest.fixture(scope="module", params=[name for name in backends() if " in " not in name])
def sampled(request):
    return quietly(by_engine, request.param)


def quietly(work, name):
    with np.errstate(all="ignore"):  # the interpreter multiplies ∞ by 0, and drops it
        return work(name)


def assert_close(one, other, where):
    size = np.abs(other).max(initial=1.0)
    np.testing.assert_allclose(one, other, rtol=0, atol=CLOSE * size, err_msg=where)


def test_half_sweeps_of_gaussian_factors(learnt, truth):
    for case, both in learnt["half-sweeps"].items():
        for ours, theirs in zip(both, truth["half-sweeps"][case], strict=True):
            for name, one, other in zip(FactorPosterior._fields, ours, theirs, strict=True):
                assert_close(one, other, f"{case}, {name}")


def test_three_epochs_of_gaussian_factors(learnt, truth):
    for case, (ours, our_likelihood) in learnt["three epochs"].items():
        cells, likelihood = truth["three epochs"][case]
        assert_close(ours, cells, case)
        np.testing.assert_allclose(our_likelihood, likelihood, atol=CLOSE, err_msg=case)


def test_chains_of_binary_factors_and_their_statistics(sampled, truth):
    for case, (ours, our_statistics) in sampled["phases"].items():
        factors, statistics = truth["phases"][case]
        np.testing.assert_array_equal(ours, factors, err_msg=case)
        for name, one, other in zip(Statistics._fields, our_statistics, statistics, strict=True):
            assert_close(one, other, f"{case}, {name}")


def test_posteriors_of_binary_factors(sampled, truth):
    for case, ours in sampled["posteriors"].items():
        assert_close(ours, truth["posteriors"][case], case)


def test_three_epochs_of_binary_factors(sampled, truth):
    for case, (our_chains, our_halves) in sampled["three binary epochs"].items():
        chains, halves = truth["three binary epochs"][case]
        for one, other in zip(our_chains, chains, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=case)
        for ours, theirs in zip(our_halves, halves, strict=True):
            for name, one, other in zip(Half._fields, ours, theirs, strict=True):
                assert_close(one, other, f"{case}, {name}")
