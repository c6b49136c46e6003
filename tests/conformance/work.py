"""What every engine does in the suite, and the machines that do it."""

from __future__ import annotations

import cases
import numpy as np
import plain_regress
from random_sides import in_double

import ordinalrbm as orbm
from ordinalrbm.data.observations import Cells
from ordinalrbm.engine import gibbs, reference, thresholds
from ordinalrbm.engine.gaussian_state import FactorPosterior
from ordinalrbm.engine.side import Batch, Statistics
from ordinalrbm.matrix import binary_backends, binary_learner, gaussian
from ordinalrbm.matrix import model as matrix
from ordinalrbm.matrix.gaussian import Data, GaussianState, View
from ordinalrbm.matrix.gaussian_backends import Cpu, backend_for
from ordinalrbm.matrix.predict import probabilities

SEED = 0xFEDC_BA98_7654_3210  # more than 63 bits
ITERATIONS = 60
# Numbers of factors of rows and of columns, and what is learnt with them.
FITTED = {(3, 1): cases.ragged, (1, 0): cases.ragged, (4, 6): cases.many}


class Plain(Cpu):
    """The plain engine, with parties in float64."""

    def data(self, observations):
        return Data(
            View(observations, plain_regress), View(observations.transpose(), plain_regress),
            np.unique(observations.n_levels),
        )  # fmt: skip

    def to_device(self, parties):
        def precise(part):
            return part.astype(np.float64) if part.dtype.kind == "f" else part

        rows, columns = (FactorPosterior(*map(precise, posterior)) for posterior in parties[:2])
        return GaussianState(rows, columns, *parties[2:])


def backend(name):
    """A machine by its name; ranks are those of the group that this process is in."""
    if name == "plain":
        return Plain()
    return backend_for("cuda" if name.startswith("gpu") else "cpu")


def half_sweeps(backend):
    """Rows given columns, columns given rows: {case: parties and variances of their steps}."""
    found = {}
    for case, (ratings, n_factors) in cases.CASES.items():
        observations = ratings()
        data = backend.data(observations)
        parties = backend.to_device(cases.parties(observations, n_factors).copy())
        rows, columns, row_prior, column_prior = parties
        data.rows.engine.half_sweep(data.rows.answers, rows, columns, row_prior)
        if ratings is not cases.one_long_row:  # whose columns have an answer or two
            data.columns.engine.half_sweep(data.columns.answers, columns, rows, column_prior)
        found[case] = backend.to_host(parties)[:2]
    return found


def three_epochs(backend):
    """Distributions of all cells after three epochs, and the likelihood of some: {case: both}."""
    found = {}
    watched = Cells(np.array([0, 5, 1, -1, 2]), np.array([0, 2, 3, 4, -1]), np.arange(5) % 3)
    for n_factors, ratings in FITTED.items():
        observations = ratings()
        n_rows, n_columns = observations.n_rows, observations.n_columns
        row, column = np.divmod(np.arange(n_rows * n_columns), n_columns)
        data = backend.data(observations)
        start = with_all_factors(observations, *n_factors)
        parties = backend.to_device(start)
        for number in (1, 2, 3):
            parties = gaussian.epoch(data, parties, number)
        likelihood = backend.likelihood(parties, n_factors, watched)
        model = gaussian.to_matrix(single(backend.to_host(parties)), *n_factors)
        cells = probabilities([model], Cells(row, column, row))
        found[f"K = {n_factors[0]}, S = {n_factors[1]}"] = cells, likelihood
    return found


def with_all_factors(observations, n_row_factors, n_column_factors):
    """Where learning starts, with more factors than so few ratings would be given."""
    start = gaussian.start(
        observations, n_row_factors + n_column_factors, n_column_factors > 0, seed=0
    )
    told = start.rows.mean.shape[1] - 1
    more = n_row_factors + n_column_factors - told
    drawn = np.random.default_rng(3).normal(0, 0.2, (observations.n_columns, more))

    def wider(posterior, columns):
        columns = np.hstack([posterior.mean, columns]).astype(np.float32)
        return posterior._replace(mean=columns, variance=np.zeros_like(columns))

    def priors(prior):
        return prior._replace(precision=np.pad(prior.precision, (0, more), mode="edge"))

    rows, columns, row_prior, column_prior = start
    return GaussianState(
        wider(rows, np.zeros((observations.n_rows, more))), wider(columns, drawn),
        priors(row_prior), priors(column_prior),
    )  # fmt: skip


def single(parties):
    """Means and variances in float32, as models have them."""

    def narrow(posterior):
        mean, variance = (part.astype(np.float32) for part in posterior[:2])
        return posterior._replace(mean=mean, variance=variance)

    return parties._replace(rows=narrow(parties.rows), columns=narrow(parties.columns))


# ---- binary factors ---------------------------------------------------------------------------


class OnArrays:
    """Phases of an engine that works on NumPy's arrays."""

    def __init__(self, engine):
        self.engine = engine

    def run(self, phase, side, factors, batch):
        """Factors after a phase, and its statistics."""
        factors = factors.copy()
        return factors, getattr(self.engine, phase)(side, factors, batch)

    def posteriors(self, side, like):
        """Expected factors given the answers."""
        found = np.full(like.shape, 0.5, side.weights.dtype)
        self.engine.mean_field(side, found, 1e-6, ITERATIONS)
        return found


class InDouble(OnArrays):
    """The same in float64."""

    def run(self, phase, side, factors, batch):
        return super().run(phase, in_double(side), factors, batch)

    def posteriors(self, side, like):
        return super().posteriors(in_double(side), like)


class OnDevice:
    """Phases on a GPU."""

    def __init__(self):
        from ordinalrbm.engine.gpu import gibbs as sweep
        from ordinalrbm.engine.gpu.device import torch_device

        self.sweep, self.device = sweep, torch_device("cuda")

    def run(self, phase, side, factors, batch):
        there = self.sweep.factors_on(factors, self.device)
        side = self.sweep.side_on(side, self.device)
        found = getattr(self.sweep, phase)(side, there, batch)
        there = there.cpu().numpy()[:, : factors.shape[1]]
        return there, Statistics(*(part.cpu().numpy() for part in found))

    def posteriors(self, side, like):
        import torch

        found = torch.full(like.shape, 0.5, device=self.device)
        self.sweep.mean_field(self.sweep.side_on(side, self.device), found, 1e-6, ITERATIONS)
        return found.cpu().numpy()


def phases(engine):
    """Chains and statistics of both phases: {case: (factors, statistics)}."""
    found = {}
    for case, (ratings, n_factors) in cases.CASES.items():
        side, factors = cases.side(ratings(), n_factors)
        batch = Batch(0, side.n_rows, SEED, sweep=3, gibbs_steps=2)
        for phase in ("clamped_phase", "free_phase"):
            found[f"{phase}, {case}"] = engine.run(phase, side, factors, batch)
    return found


def posteriors(engine):
    """Expected factors: {case: (rows, K)}."""
    return {
        case: engine.posteriors(*cases.side(ratings(), n_factors))
        for case, (ratings, n_factors) in cases.CASES.items()
    }


class PlainChains(binary_backends.Cpu):
    """The learner's machine for binary factors, with the plain engine in float64."""

    def phases(self, process, side, learnt, batch, how, all_reduce=None):
        half, chains = learnt.half(process), learnt.chains[process.number]
        table = thresholds.table(half.cutpoints, process.n_levels)
        side = in_double(side._replace(thresholds=table))
        clamped = reference.clamped_phase(side, chains.clamped, batch, half.factors, how.memory)
        rows = slice(batch.start, batch.stop)
        chains.free[rows] = chains.clamped[rows]
        return single_statistics(clamped), single_statistics(
            reference.free_phase(side, chains.free, batch)
        )


def single_statistics(statistics):
    """In the types that the step takes."""
    narrow = Statistics(*(part.astype(np.float32) for part in statistics))
    return narrow._replace(thresholds=statistics.thresholds)


def three_binary_epochs(name):
    """All that has moved in three epochs of chains and steps: {case: (chains, halves)}."""
    found = {}
    observations = cases.ragged()
    for n_rows, n_columns in FITTED:
        estimator = orbm.MatrixCumulativeRBM(
            n_rows, n_columns, factors="binary", batch_size=9,
            device="cuda" if name == "gpu" else "cpu",
        )  # fmt: skip
        model = matrix.start(observations, n_rows, n_columns, seed=0)
        learner = binary_learner._Learner(model, observations, None, estimator._settings(0))
        if name == "plain":
            learner.backend = PlainChains()
        for _ in range(3):
            learner.epoch()
        learnt = learner.backend.to_host(learner.learnt)
        found[f"K = {n_rows}, S = {n_columns}"] = (
            [chains.clamped for chains in learnt.chains], list(learnt.model[:2])
        )  # fmt: skip
    return found


# ---- everything -------------------------------------------------------------------------------

WITH_MACHINE = {"half-sweeps": half_sweeps, "three epochs": three_epochs}
WITH_ENGINE = {"phases": phases, "posteriors": posteriors}
ENGINES = {
    "plain": lambda: InDouble(reference), "cores": lambda: OnArrays(gibbs), "gpu": OnDevice
}  # fmt: skip


def by_machine(name):
    """What learners do, by the machine of this name, or by it and those of other ranks."""
    found = {work: do(backend(name)) for work, do in WITH_MACHINE.items()}
    return found | {"three binary epochs": three_binary_epochs(name)}


def by_engine(name):
    """What an engine does in one process."""
    return {work: do(ENGINES[name]()) for work, do in WITH_ENGINE.items()}
