"""What every engine does in the suite, and the backends that do it."""

from __future__ import annotations

import os

import cases
import numpy as np
import plain_gibbs
from plain_half_sweep import PlainEngine
from random_sides import in_double

from ordinalrbm.data.observations import Cells
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine.base import FactorPosterior
from ordinalrbm.engine.mean_field import fixed_point
from ordinalrbm.engine.side import Batch, Statistics
from ordinalrbm.matrix import binary_learner, variational
from ordinalrbm.matrix import model as matrix
from ordinalrbm.matrix.backends import backend_for
from ordinalrbm.matrix.binary_learner import BinarySettings
from ordinalrbm.matrix.cpu import Cpu
from ordinalrbm.matrix.gaussian_model import GaussianModel
from ordinalrbm.matrix.predict import probabilities
from ordinalrbm.matrix.variational import Data, Precisions, View

SEED = 0xFEDC_BA98_7654_3210  # more than 63 bits
ITERATIONS = 60
PHASES = ("clamped_phase", "free_phase")
# Not by tests/long_form.py, which is not on the path of several ranks.
LONG = os.environ.get("ORDINALRBM_LONG") == "1"
# Ratings, numbers of Gaussian factors, and whether they are points; then numbers of binary factors
# of rows and of columns. Triton's interpreter takes the first of each, or two in the long form.
FITTED = (
    (cases.ragged, 4, False),
    (cases.ragged, 3, True),
    (cases.ragged, 1, False),
    (cases.many, 10, False),
)
BINARY = ((3, 1), (1, 0), (4, 6))


def is_interpreted(name):
    """Whether kernels of a GPU run on the host."""
    return name.startswith("gpu") and os.environ.get("TRITON_INTERPRET") == "1"


def cases_of(name):
    """What is computed of half-sweeps and phases: {case: (ratings, number of factors)}."""
    chosen = cases.FOR_INTERPRETER if is_interpreted(name) else cases.CASES
    return {case: cases.CASES[case] for case in chosen}


def some_of(fits, name):
    return fits[: 1 + LONG] if is_interpreted(name) else fits


class Plain(Cpu):
    """The plain engine, with rows and columns in float64."""

    def data(self, observations, n_factors):
        return Data(
            View(observations, PlainEngine()),
            View(observations.transpose(), PlainEngine()),
            np.unique(observations.n_levels),
        )

    def to_device(self, tree):
        def precise(part):
            return part.astype(np.float64) if part.dtype.kind == "f" else part

        rows, columns = (FactorPosterior(*map(precise, side)) for side in tree[:2])
        return tree._replace(rows=rows, columns=columns)


def backend_of(name):
    """A backend by its name; ranks are those of the group that this process is in."""
    if name == "plain":
        return Plain()
    return backend_for("cuda" if name.startswith("gpu") else "cpu")


def half_sweeps(name):
    """Rows given columns, columns given rows: {case: both}."""
    found, backend = {}, backend_of(name)
    for case, (ratings, n_factors) in cases_of(name).items():
        observations = ratings()
        data = backend.data(observations, n_factors)
        state = backend.to_device(backend.clone(cases.state(observations, n_factors)))
        rows, columns, row_prior, column_prior = state[:4]
        with cases.few_moving(ratings):
            data.rows.engine.half_sweep(data.rows.answers, rows, columns, row_prior)
            if ratings is not cases.one_long_row:  # whose columns have an answer or two
                data.columns.engine.half_sweep(data.columns.answers, columns, rows, column_prior)
        found[case] = backend.to_host(state)[:2]
    return found


def three_epochs(name):
    """Distributions of all cells after three epochs, and the likelihood of some: {case: both}."""
    found, backend = {}, backend_of(name)
    watched = Cells(np.array([0, 5, 1, -1, 2]), np.array([0, 2, 3, 4, -1]), np.arange(5) % 3)
    for ratings, n_factors, is_point in some_of(FITTED, name):
        observations = ratings()
        n_rows, n_columns = observations.n_rows, observations.n_columns
        row, column = np.divmod(np.arange(n_rows * n_columns), n_columns)
        data = backend.data(observations, n_factors)
        state = backend.to_device(variational.start(observations, n_factors, 0, Precisions()))
        for number in (1, 2, 3):
            state = variational.epoch(data, state, number, is_point)
        learnt = GaussianModel.of_state(state)
        each = (Cells(*(part[k : k + 1] for part in watched)) for k in range(watched.row.size))
        likelihood = np.array([backend.mean_log_probability(learnt, cell) for cell in each])
        model = GaussianModel.of_state(single(backend.to_host(state)))
        cells = probabilities([model], Cells(row, column, row))
        found[f"{ratings.__name__}, {n_factors} factors"] = cells, likelihood
    return found


def single(state):
    """Means and variances in float32, as models have them."""

    def narrow(posterior):
        mean, variance = (part.astype(np.float32) for part in posterior[:2])
        return posterior._replace(mean=mean, variance=variance)

    return state._replace(rows=narrow(state.rows), columns=narrow(state.columns))


# ---- binary factors ---------------------------------------------------------------------------


class OnArrays:
    """Phases and fixed points of an engine that works on NumPy's arrays."""

    def __init__(self, engine, mean_field):
        self.engine, self.mean_field = engine, mean_field

    def run(self, side, factors, batch):
        """Factors after each phase, and its statistics."""
        for phase in PHASES:
            moved = factors.copy()
            yield moved, getattr(self.engine, phase)(side, moved, batch)

    def posteriors(self, side, like):
        """Expected factors given the answers."""
        found = np.full(like.shape, 0.5, side.weights.dtype)
        self.mean_field(side, found, 1e-6, ITERATIONS)
        return found


class InDouble(OnArrays):
    """The same in float64."""

    def run(self, side, factors, batch):
        return super().run(in_double(side), factors, batch)

    def posteriors(self, side, like):
        return super().posteriors(in_double(side), like)


class OnDevice:
    """Phases on a GPU."""

    def __init__(self):
        from ordinalrbm.engine.gpu import gibbs as sweep
        from ordinalrbm.engine.gpu.device import torch_device

        self.sweep, self.device = sweep, torch_device("cuda")

    def run(self, side, factors, batch):
        chains = [self.sweep.factors_on(factors, self.device).clone() for _ in range(2)]
        expected = chains[0].float()
        side = self.sweep.side_on(side, self.device)
        both = self.sweep.both_phases(side, *chains, batch, expected, 0.0, is_contrastive=False)
        for there, statistics in zip(chains, both, strict=True):
            moved = there.cpu().numpy()[:, : factors.shape[1]]
            yield moved, Statistics(*(part.cpu().numpy() for part in statistics))

    def posteriors(self, side, like):
        import torch

        found = torch.full(like.shape, 0.5, device=self.device)
        self.sweep.mean_field(self.sweep.side_on(side, self.device), found, 1e-6, ITERATIONS)
        return found.cpu().numpy()


def phases(name):
    """Chains and statistics of both phases: {case: (factors, statistics)}.

    An interpreter draws one factor after the other, and so hundreds only in the long form.
    """
    found, engine, most = {}, ENGINES[name](), 100 if is_interpreted(name) and not LONG else np.inf
    for case, (ratings, n_factors) in cases_of(name).items():
        if n_factors > most:
            continue
        side, factors = cases.side(ratings(), n_factors)
        batch = Batch(0, side.n_rows, SEED, sweep=3, gibbs_steps=2)
        for phase, moved in zip(PHASES, engine.run(side, factors, batch), strict=True):
            found[f"{phase}, {case}"] = moved
    return found


def posteriors(name):
    """Expected factors: {case: (rows, K)}.

    An interpreter takes minutes for so many rounds with many factors. Their kernels are those of the
    phases, and so there only few factors, of short rows, are done in the short form.
    """
    engine, most = ENGINES[name](), 5 if is_interpreted(name) and not LONG else np.inf
    return {
        case: engine.posteriors(*cases.side(ratings(), n_factors))
        for case, (ratings, n_factors) in cases_of(name).items()
        if n_factors < most
    }


class PlainChains(Cpu):
    """The learner's backend for binary factors, with the plain engine in float64."""

    def phases(self, process, side, state, batch, how):
        half, chains = state.half(process), state.chains[process.number]
        table = thresholds.table(half.cutpoints, process.n_levels)
        side = in_double(side._replace(thresholds=table))
        clamped = plain_gibbs.clamped_phase(side, chains.clamped, batch, half.factors, how.memory)
        rows = slice(batch.start, batch.stop)
        chains.free[rows] = chains.clamped[rows]
        return single_statistics(clamped), single_statistics(plain_gibbs.free_phase(side, chains.free, batch))


def single_statistics(statistics):
    """In the types that the step takes."""
    narrow = Statistics(*(part.astype(np.float32) for part in statistics))
    return narrow._replace(thresholds=statistics.thresholds)


def three_binary_epochs(name):
    """All that has moved in three epochs of chains and steps: {case: (chains, halves)}."""
    found = {}
    observations = cases.ragged()
    for n_rows, n_columns in some_of(BINARY, name):
        settings = BinarySettings(
            n_rows,
            n_columns,
            n_epochs=15,
            batch_size=9,
            learning_rate=0.15,
            gibbs_steps=1,
            free_phase="contrastive",
            memory=0.5,
            weight_decay=None,
            patience=5,
            calibrate=True,
            seed=0,
            device="cuda" if name == "gpu" else "cpu",
            verbose=False,
        )
        model = matrix.start(observations, n_rows, n_columns, seed=0)
        learner = binary_learner._Learner(model, observations, None, settings)
        if name == "plain":
            learner.backend = PlainChains()
        for _ in range(3):
            learner.epoch()
        state = learner.backend.to_host(learner.binary)
        found[f"K = {n_rows}, S = {n_columns}"] = (
            [chains.clamped for chains in state.chains],
            list(state.model[:2]),
        )
    return found


# ---- everything -------------------------------------------------------------------------------

WITH_BACKEND = {"half-sweeps": half_sweeps, "three epochs": three_epochs}
WITH_ENGINE = {"phases": phases, "posteriors": posteriors, "three binary epochs": three_binary_epochs}
ENGINES = {
    "plain": lambda: InDouble(plain_gibbs, plain_gibbs.mean_field),
    "cores": lambda: OnArrays(gibbs, fixed_point),
    "gpu": OnDevice,
}


def by_backend(name):
    """What learners of Gaussian factors do, by one process or together with other ranks."""
    return {work: do(name) for work, do in WITH_BACKEND.items()}


def by_engine(name):
    """What one process does."""
    return {work: do(name) for work, do in WITH_ENGINE.items()}
