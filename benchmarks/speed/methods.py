"""Ours and the peers: what a user who has ratings would reach for today.

Every method learns from the training ratings of its task. Validation ratings, where the task has
any, are for early stopping and calibration (ours) or were for the choice of settings (peers). Users
and items come as positions 0, 1, 2, …
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

import ordinalrbm as orbm

sys.path.append(str(Path(__file__).resolve().parents[1]))
from copula import copula_probabilities, gcimpute, impute


class Ratings(NamedTuple):
    """Who rated what how; ratings are positions on the scale."""

    user: np.ndarray
    item: np.ndarray
    level: np.ndarray


class Task(NamedTuple):
    """The same for every method."""

    train: Ratings
    validation: Ratings | None
    n_users: int
    n_items: int
    values: np.ndarray
    """What the positions on the scale stand for."""


class Options(NamedTuple):
    """What the command line says about the methods."""

    factors: int
    """Of a user and of an item, in our models."""
    iterations: int
    threads: int
    seed: int


Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From users and items to numbers (n,) or distributions (n, L)."""


class Method(NamedTuple):
    """How to fit it, and what there is to choose by validation (the error of the mean).

    Grids of settings are tried one after the other, each with the best of those before it and the
    middle of those after it. A grid grows by its last ratio while its end is the best.
    """

    fit: Callable[..., Predict]
    grids: Mapping[str, tuple[float, ...]] = MappingProxyType({})


# ---- ours -------------------------------------------------------------------------------------


def matrix_crbm(task: Task, options: Options, **settings: Any) -> Predict:
    """Fit with the defaults: there is nothing to tune."""
    k = options.factors
    return fitted(task, orbm.MatrixCumulativeRBM(k, k, **settings, **ours(options)))


def paper_crbm(task: Task, options: Options) -> Predict:
    """Fit by the paper's procedure."""
    k = options.factors
    return fitted(task, orbm.MatrixCumulativeRBM.paper(k, k, **ours(options)))


def ordinal_mf(task: Task, options: Options, **settings: Any) -> Predict:
    """Fit with the defaults, and as many numbers per user as the matrix CRBM has."""
    return fitted(task, orbm.OrdinalMF(2 * options.factors, **settings, **ours(options)))


def sampled_mf(task: Task, options: Options, **settings: Any) -> Predict:
    """Fit the whole posterior, with the default number of factors."""
    settings |= ours(options)
    return fitted(task, orbm.OrdinalMF(options.factors, posterior="sampled", **settings))


def ensemble(task: Task, options: Options) -> Predict:
    """Fit both kinds of factors."""
    k, own = options.factors, ours(options)
    return fitted(task, orbm.MatrixCumulativeRBM(k, k, **own), orbm.OrdinalMF(2 * k, **own))


def both_posteriors(task: Task, options: Options) -> Predict:
    """Fit both posteriors of OrdinalMF."""
    k, own = options.factors, ours(options)
    return fitted(task, orbm.OrdinalMF(k, posterior="sampled", **own), orbm.OrdinalMF(2 * k, **own))


def baseline(name: str, **settings: Any) -> Method:
    """One of the paper's baselines, as it comes with the library."""

    def fit(task: Task, options: Options) -> Predict:
        model = getattr(orbm, name)(options.factors, **settings)
        return fitted(task, model.set_params(**ours(options)))

    return Method(fit)


def ours(options: Options) -> dict[str, Any]:
    """Settings of all our models."""
    return {"random_state": options.seed, "n_jobs": options.threads}


def fitted(task: Task, *models: Any) -> Predict:
    """Fit our models, whose shares suit the validation ratings; a distribution where there is one."""
    values = task.values

    def labelled(part: Ratings) -> tuple[np.ndarray, ...]:
        return part.user, part.item, values[part.level]

    validation = None if task.validation is None else labelled(task.validation)
    for model in models:
        if "scale" in model.get_params():
            model.set_params(scale=values.tolist())
        model.fit(labelled(task.train), validation=validation)
    if len(models) == 1:
        return getattr(models[0], "predict_proba", models[0].predict)
    both = orbm.RatingEnsemble(list(models))
    return both.predict_proba if validation is None else both.fit(validation).predict_proba


# ---- peers ------------------------------------------------------------------------------------


def myfm(task: Task, options: Options, rank: float) -> Predict:
    """myFM's ordered probit: a Bayesian factorisation machine on the ids, by Gibbs sampling.

    A tenth of the iterations is burn-in; users and items have priors of their own.
    """
    model = myfm_model(int(rank), options.seed)
    kept = options.iterations - options.iterations // 10
    fit_myfm(model, task, options.iterations, n_kept_samples=kept)
    return lambda user, item: model.predict_proba(one_hot(task, user, item))


def myfm_model(rank: int, seed: int) -> Any:
    """An ordered probit that has not seen data."""
    from myfm import MyFMOrderedProbit

    return MyFMOrderedProbit(rank=rank, random_seed=seed)


def fit_myfm(model: Any, task: Task, iterations: int, **settings: Any) -> None:
    """Draw so many samples."""
    model.fit(
        one_hot(task, task.train.user, task.train.item),
        task.train.level,
        n_iter=iterations,
        group_shapes=[task.n_users, task.n_items],
        **settings,
    )


def one_hot(task: Task, user: np.ndarray, item: np.ndarray) -> csr_matrix:
    """Two ones per rating: its user and its item."""
    n = user.size
    columns = np.column_stack([user, task.n_users + item]).ravel()
    shape = n, task.n_users + task.n_items
    return csr_matrix((np.ones(2 * n), columns, np.arange(0, 2 * n + 1, 2)), shape=shape)


def surprise_svd(task: Task, options: Options, penalty: float, rank: float) -> Predict:
    """Surprise's SVD: biased factorisation by gradient descent, 20 epochs of its default rate."""
    from surprise import SVD

    return fit_surprise(SVD(int(rank), reg_all=penalty, random_state=options.seed), task)


def surprise_svdpp(task: Task, options: Options) -> Predict:
    """Surprise's SVD++ at its defaults: it is too slow to try several penalties."""
    from surprise import SVDpp

    model = SVDpp(random_state=options.seed, cache_ratings=True)
    return fit_surprise(model, task)


def fit_surprise(model: Any, task: Task) -> Predict:
    """Fit one of Surprise's models and predict as it does, pair by pair."""
    from surprise import Dataset, Reader

    values = task.values
    triples = zip(*(part.tolist() for part in task.train), strict=True)
    raw = [(user, item, float(values[level]), None) for user, item, level in triples]
    reader = Reader(rating_scale=(values.min(), values.max()))
    model.fit(Dataset(reader).construct_trainset(raw))

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        pairs = zip(user.tolist(), item.tolist(), strict=True)
        return np.array([model.predict(d, i).est for d, i in pairs])

    return predict


def cmfrec(task: Task, options: Options, penalty: float, rank: float) -> Predict:
    """cmfrec's CMF: biased factorisation by alternating least squares, 10 rounds."""
    from cmfrec import CMF

    model = CMF(
        int(rank), lambda_=penalty, nthreads=options.threads, random_state=options.seed, verbose=False
    )
    user, item, level = task.train
    model.fit(pd.DataFrame({"UserId": user, "ItemId": item, "Rating": task.values[level]}))
    return lambda user, item: model.predict(user, item)


def libmf(task: Task, options: Options, penalty: float, rank: float) -> Predict:
    """LIBMF: factorisation without biases by parallel gradient descent, 30 rounds.

    Its own predictions are wrong, so its factors are multiplied here. Ratings are centred, as
    its penalty pulls predictions towards zero.
    """
    from libmf import mf

    user, item, level = task.train
    ratings = task.values[level]
    middle = ratings.mean()
    model = mf.MF(
        k=int(rank),
        nr_iters=30,
        nr_threads=options.threads,
        lambda_p1=0.0,
        lambda_q1=0.0,
        lambda_p2=penalty,
        lambda_q2=penalty,
    )
    model.fit(np.column_stack([user, item, ratings - middle]))
    of_users, of_items = model.p_factors(), model.q_factors()
    return lambda user, item: middle + (of_users[user] * of_items[item]).sum(axis=1)


COPULA_RANK = 2
"""Of 1, 2 and 6 the best by the validation error of MovieLens 100K; a choice each time is slow."""


def low_rank_copula(task: Task, options: Options) -> Predict:
    """gcimpute's low-rank Gaussian copula on the table of users × items, in one process.

    It has no use for items of which only one value is known; they stay out of the table. Nor does
    it expect a value that an item has not had: a hundredth of everything's distribution is added.
    """
    user, item, level = task.train
    cells = np.full((task.n_users, task.n_items), np.nan)
    cells[user, item] = level
    table = pd.DataFrame(cells)
    table = table.loc[:, table.nunique() > 1]
    model = gcimpute().LowRankGaussianCopula(rank=COPULA_RANK)
    impute(model, table)
    place = np.full(task.n_items, -1)
    place[table.columns] = np.arange(table.shape[1])
    marginal = np.bincount(level, minlength=task.values.size) / level.size

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        found = np.zeros((user.size, task.values.size))
        column = place[item]
        known = column >= 0
        found[known] = copula_cells(model, table, user[known], column[known], task.values.size)
        found[~known] = marginal
        return 0.99 * found + 0.01 * marginal

    return predict


def copula_cells(
    model: Any, table: pd.DataFrame, rows: np.ndarray, columns: np.ndarray, n_levels: int
) -> np.ndarray:
    """(cells, L): the copula's distributions on the whole scale."""
    column_levels = [np.sort(table[name].dropna().unique()) for name in table]
    packed = copula_probabilities(model, table, rows, columns, column_levels)
    found = np.zeros((rows.size, n_levels))
    for column in np.unique(columns):
        cells, known = columns == column, column_levels[column].astype(int)
        found[np.ix_(cells, known)] = packed[cells, : known.size]
    return found


RANKS = (10, 20, 40)
METHODS = {
    "ordinal_mf": Method(ordinal_mf),
    "ordinal_mf, sampled": Method(sampled_mf),
    "ordinal_mf, sampled, 140 sweeps": Method(partial(sampled_mf, n_epochs=140)),
    "ordinal_mf, without rated sets": Method(partial(ordinal_mf, rated_sets=False)),
    "matrix_crbm": Method(matrix_crbm),
    "matrix_crbm, uncalibrated": Method(partial(matrix_crbm, calibrate=False)),
    "matrix_crbm.paper()": Method(paper_crbm),
    "ensemble": Method(ensemble),
    "ensemble, sampled": Method(both_posteriors),
    "gaussian_mf": baseline("GaussianMF"),
    "multinomial_rbm": baseline("MultinomialRBM"),
    "myfm": Method(myfm, {"rank": RANKS}),
    "myfm, rank 20": Method(partial(myfm, rank=20)),
    "surprise_svd": Method(surprise_svd, {"penalty": (0.02, 0.05, 0.1), "rank": RANKS}),
    "surprise_svdpp": Method(surprise_svdpp),
    "cmfrec": Method(cmfrec, {"penalty": (3.0, 10.0, 30.0), "rank": RANKS}),
    "libmf": Method(libmf, {"penalty": (0.06, 0.12, 0.25), "rank": RANKS}),
    "gcimpute": Method(low_rank_copula),
}
