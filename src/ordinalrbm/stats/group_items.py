"""Graded items of one factor in several groups: where an item works differently in a group.

An answer says between which thresholds a utility a f + e lies, e of variance one. In each group the
factor is N(μ, σ²); slopes and thresholds are common, and most likely (by EM on a grid of the factor, Bock
and Aitkin 1981). How far an item's utility is shifted in a group, and its slope changed, is a step of Fisher
scoring from there: an efficient score test, from which the group's μ and σ and the item's own slope and
thresholds are projected out. Items that surely deviate in a group are set aside when it is placed.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri, softmax

from ordinalrbm.stats.welch import ALPHA, holm

_GRID = np.linspace(-6.0, 6.0, 61)  # of the factor: fine enough for fifty strong items
_SMALLEST = 1e-12  # probability
_STEEPEST, _NARROWEST = 4.0, 0.1  # slope, and standard deviation of a group
_MOST_STEPS, _TOLERANCE = 200, 1e-3
_MOST_ROUNDS = 5
_FEWEST_ANSWERS = 10
_ENOUGH, _DRAWN = 400, 1_600  # people whose scores tell how scores vary; and where there are fewer


class Answers(NamedTuple):
    """Answers to the items of a factor; every level has been chosen by somebody."""

    level: np.ndarray  # (n, J), -1 where there is none
    n_levels: np.ndarray  # (J,)
    code: np.ndarray  # (n,) of the group
    weight: np.ndarray  # (n,)


class Items(NamedTuple):
    """What is common to the groups, and their means; among all, the factor has mean 0 and variance 1."""

    bounds: np.ndarray  # (J, L + 1) from −∞ to ∞
    slope: np.ndarray  # (J,)
    mean: np.ndarray  # (G,)
    sd: np.ndarray  # (G,)

    def people(self) -> np.ndarray:
        """(G, Q) how the people of each group are distributed over the grid."""
        return softmax(-0.5 * ((_GRID - self.mean[:, None]) / self.sd[:, None]) ** 2, axis=1)


class Compared(NamedTuple):
    """Deviations (G, J, 2) of items in groups, of the utility at the group's mean and of the slope.

    NaN where nothing is known; of two groups, the second deviates from the first.
    """

    value: np.ndarray
    error: np.ndarray
    items: Items
    mean_errors: np.ndarray  # (G,)
    alike: Items  # if no item were set aside


def compare(answers: Answers, slope: np.ndarray) -> Compared:
    """Compare groups item by item; ``slope`` is where to begin."""
    aside = np.zeros((int(answers.code.max()) + 1, slope.size), dtype=bool)
    items = alike = _fit(answers, _first(answers, slope), aside)
    value = np.zeros((*aside.shape, 2))
    for rounds_left in reversed(range(_MOST_ROUNDS)):
        value, error, mean_errors = _deviations(answers, items, aside, value)
        deviating = _deviating(value, error, items.slope)
        if not rounds_left or (deviating == aside).all():
            break
        aside = deviating
        items = _fit(answers, items, aside)
    return Compared(value, error, items, mean_errors, alike)


# ---- what is common ---------------------------------------------------------------------------


def _tables(bounds: np.ndarray, slope: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, L, Q) probabilities of levels, and (J, L, L, Q) of their logs derivatives.

    The derivatives are by the thresholds, and last by the slope.
    """
    distance = bounds[:, :, None] - (slope[:, None] * _GRID + shift[:, None])[:, None]
    density = np.exp(-0.5 * distance[:, 1:-1] ** 2) / np.sqrt(2.0 * np.pi)
    probability = np.maximum(np.diff(ndtr(distance), axis=1), _SMALLEST)
    n_items, n_levels, n_points = probability.shape
    by, k = np.zeros((n_items, n_levels, n_levels, n_points)), np.arange(n_levels - 1)
    by[:, k, k], by[:, k + 1, k] = density / probability[:, :-1], -density / probability[:, 1:]
    by[:, :, -1] = -by[:, :, :-1].sum(axis=2) * _GRID
    return probability, by


def _first(answers: Answers, slope: np.ndarray) -> Items:
    """Thresholds at the marginals, and groups that are alike."""
    bounds = np.full((slope.size, int(answers.n_levels.max()) + 1), np.inf)
    bounds[:, 0] = -np.inf
    for j, (own, n) in enumerate(zip(answers.level.T, answers.n_levels, strict=True)):
        counts = np.bincount(own[own >= 0], minlength=n)
        bounds[j, 1:n] = ndtri(counts.cumsum()[:-1] / counts.sum()) * np.sqrt(1.0 + slope[j] ** 2)
    groups = np.zeros(int(answers.code.max()) + 1)
    return Items(bounds, slope, groups, groups + 1.0)


def _chosen(level: np.ndarray, n_levels: int) -> sparse.csr_array:
    """(n, J L) ones where a level was chosen."""
    row, column = np.nonzero(level >= 0)
    places = (row, column * n_levels + level[row, column])
    return sparse.csr_array((np.ones(row.size), places), shape=(len(level), level.shape[1] * n_levels))


def _logs(chosen: sparse.csr_array, probability: np.ndarray, people: np.ndarray) -> np.ndarray:
    """(n, Q) log posterior of the factor, but for a constant."""
    return chosen @ np.log(probability).reshape(-1, people.size) + np.log(people + _SMALLEST**9)


def _fit(answers: Answers, items: Items, aside: np.ndarray) -> Items:
    level, n_levels = np.where(aside[answers.code], -1, answers.level), items.bounds.shape[1] - 1
    own = [answers.code == g for g in range(len(aside))]
    groups = [(_chosen(level[one], n_levels), answers.weight[one, None]) for one in own]
    share = np.array([weight.sum() for _, weight in groups]) / answers.weight.sum()
    for _ in range(_MOST_STEPS):
        before, items = items, _standardised(_step(groups, items), share)
        if max(np.abs(new - old).max() for new, old in zip(items[1:], before[1:], strict=True)) < _TOLERANCE:
            break
    return items


def _step(groups: list[tuple[sparse.csr_array, np.ndarray]], items: Items) -> Items:
    """A step of EM: expected counts of levels along the grid, then scoring."""
    probability, by = _tables(items.bounds, items.slope, 0.0 * items.slope)
    counts, mean, sd = np.zeros(probability.shape), items.mean.copy(), items.sd.copy()
    for g, ((chosen, weight), people) in enumerate(zip(groups, items.people(), strict=True)):
        posterior = softmax(_logs(chosen, probability, people), axis=1) * weight
        counts += (chosen.T @ posterior).reshape(counts.shape)
        share = posterior.sum(axis=0) / posterior.sum()
        mean[g] = share @ _GRID
        sd[g] = max(np.sqrt(share @ (_GRID - mean[g]) ** 2), _NARROWEST)
    weighted = by * counts[:, :, None]
    information = np.einsum("jlpq,jlrq->jpr", weighted, by, optimize=True)
    unknown = ~(np.diagonal(information, axis1=1, axis2=2) > 0)  # where a scale is shorter
    information += np.eye(by.shape[1]) * unknown[:, None]
    move = np.linalg.solve(information, weighted.sum(axis=(1, 3))[..., None])[..., 0]
    # Thresholds stay in order.
    gap = np.diff(np.where(np.isfinite(items.bounds[:, 1:-1]), items.bounds[:, 1:-1], _SMALLEST**-1), axis=1)
    closing = -np.diff(move[:, :-1], axis=1) / (0.5 * np.where(gap > 0, gap, np.inf))
    move /= np.maximum(1.0, closing.max(axis=1, initial=0.0))[:, None]
    bounds = items.bounds.copy()
    bounds[:, 1:-1] += move[:, :-1]
    return Items(bounds, np.clip(items.slope + move[:, -1], -_STEEPEST, _STEEPEST), mean, sd)


def _standardised(items: Items, share: np.ndarray) -> Items:
    mean = share @ items.mean
    sd = np.sqrt(share @ (items.sd**2 + (items.mean - mean) ** 2))
    bounds = items.bounds - (items.slope * mean)[:, None]
    return Items(bounds, items.slope * sd, (items.mean - mean) / sd, items.sd / sd)


# ---- deviations -------------------------------------------------------------------------------


def _scores(
    level: np.ndarray,
    aside: np.ndarray,
    tables: tuple[np.ndarray, np.ndarray],
    people: np.ndarray,
    place: np.ndarray,
) -> np.ndarray:
    """(n, J, L + 2) by the thresholds and the slope of each item, and by the group's mean and spread.

    An item that is aside counts for its own scores only.
    """
    probability, by = tables
    logs = _logs(_chosen(np.where(aside, -1, level), by.shape[1]), probability, people)
    posterior, of_group = softmax(logs, axis=1), np.column_stack([place, place**2 - 1.0])
    scores = np.zeros((*level.shape, by.shape[1] + 2))
    for j, own in enumerate(level.T):
        given = posterior
        if aside[j]:
            given = softmax(logs + np.vstack([np.log(probability[j]), 0.0 * people])[own], axis=1)
        for one in range(by.shape[1]):
            scores[own == one, j, :-2] = given[own == one] @ by[j, one].T
        scores[:, j, -2:] = given @ of_group
    return scores


def _drawn(level: np.ndarray, times: int, probability: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Answers drawn from the model, to the items that people have answered, so many times each."""
    rng, level = np.random.default_rng(0), np.tile(level, (times, 1))
    below = probability.cumsum(axis=1)[:, :-1, rng.choice(people.size, len(level), p=people)]
    return np.where(level < 0, -1, (rng.random(level.T.shape)[:, None] > below).sum(axis=1).T)


class _Known(NamedTuple):
    """Of the items in groups, by thresholds and slope, less what the group's mean and spread explain."""

    score: np.ndarray  # (G, J, L, 1)
    information: np.ndarray  # (G, J, L, L)
    variance: np.ndarray  # (G, J, L, L) of the score, for which weights count twice


def _deviations(
    answers: Answers, items: Items, aside: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deviations from the other groups, their errors, and those of the groups' means.

    ``start`` is where to begin with the items that are aside.
    """
    start = np.where(aside[..., None], start, 0.0)
    every, mean_errors = zip(
        *(_in_group(answers, items, g, aside[g], start[g]) for g in range(len(aside))), strict=True
    )
    known = _Known(*map(np.stack, zip(*every, strict=True)))
    value, error = np.full((2, *start.shape), np.nan)
    by = np.zeros((known.score.shape[2], 2))  # thresholds and slope by the deviations
    for g in range(len(aside) == 2, len(aside)):
        by[:-1], by[-1, 1] = (-1.0, items.mean[g]), 1.0
        there = (answers.level[answers.code == g] >= 0).sum(axis=0) >= _FEWEST_ANSWERS
        counts = ~aside[..., None, None] & (np.arange(len(aside)) != g)[:, None, None, None]
        own, rest = (
            _Known(*(part[g] for part in known)),
            _Known(*((part * counts).sum(axis=0) for part in known)),
        )
        share = own.information @ np.linalg.pinv(own.information + rest.information, hermitian=True)
        apart = np.eye(len(by)) - share
        score = by.T @ (apart @ own.score - share @ rest.score)
        sure = by.T @ apart @ own.information @ by
        unsure = _around(apart, own.variance) + _around(share, rest.variance)
        there &= np.linalg.det(sure) > _SMALLEST
        inverse = np.linalg.inv(sure[there])
        value[g, there] = start[g, there] + (inverse @ score[there])[..., 0]
        errors = _around(inverse @ by.T, unsure[there])
        error[g, there] = np.sqrt(np.diagonal(errors, axis1=1, axis2=2))
    return value, error, np.array(mean_errors)


def _around(by: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Covariances of linear functions of what has these covariances."""
    return by @ covariance @ by.swapaxes(-1, -2)


def _in_group(
    answers: Answers, items: Items, g: int, aside: np.ndarray, start: np.ndarray
) -> tuple[_Known, float]:
    """What is known of the items in a group, and the standard error of its mean."""
    level, weight = (part[answers.code == g] for part in (answers.level, answers.weight))
    people, place = items.people()[g], (_GRID - items.mean[g]) / items.sd[g]
    tables = _tables(items.bounds, items.slope + start[:, 1], start[:, 0] - start[:, 1] * items.mean[g])
    scores = _scores(level, aside, tables, people, place)
    score = np.einsum("n,njp->jp", weight, scores)[..., None]
    times = 1 if len(level) >= _ENOUGH else -(-_DRAWN // len(level))
    if times > 1:  # the scores of few people say little of how scores vary
        scores = _scores(_drawn(level, times, tables[0], people), aside, tables, people, place)
        weight = np.tile(weight, times)
    by_item = scores.transpose(1, 0, 2)
    products, squares = (
        by_item.swapaxes(1, 2) @ (by_item * (weight**power / times)[:, None]) for power in (1, 2)
    )
    of_group = np.linalg.inv(products[:, -2:, -2:])
    left = np.tile(np.eye(score.shape[1] - 2, score.shape[1]), (len(aside), 1, 1))
    left[:, :, -2:] = -products[:, :-2, -2:] @ of_group
    of_mean = np.median(_around(of_group, squares[:, -2:, -2:])[:, 0, 0])
    return _Known(left @ score, _around(left, products), _around(left, squares)), items.sd[g] * np.sqrt(
        of_mean
    )


def _deviating(value: np.ndarray, error: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(G, J) items that surely deviate: at most half of a group's, each in at most half of the groups.

    Where some deviate, they have moved the group's mean, and the others seem to deviate the other
    way: what the median item of a group deviates is taken for the group's own.
    """
    known, by_slope = np.isfinite(value), value / slope[:, None]
    some, of_group = known.any(axis=(1, 2)), np.zeros((len(value), 1, 2))
    of_group[some] = np.nanmedian(by_slope[some], axis=1, keepdims=True)
    z = np.abs(value - of_group * slope[:, None]) / error
    p = np.ones(z.shape)
    p[known] = holm(2.0 * ndtr(-z[known]))
    sure, aside = p.min(axis=2) < ALPHA, np.zeros(z.shape[:2], dtype=bool)
    largest = np.where(sure, np.where(known, z, 0.0).max(axis=2), 0.0)
    most_items, most_groups = (np.maximum(known[..., 0].sum(axis=k), 2) // 2 for k in (1, 0))
    for place in np.argsort(-largest, axis=None, kind="stable")[: sure.sum()]:
        g, j = divmod(int(place), slope.size)
        aside[g, j] = aside[g].sum() < most_items[g] and aside[:, j].sum() < most_groups[j]
    return aside


# ---- how much deviations count, and for how much ----------------------------------------------


def shrinkage(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(…, 2) what is left of estimates drawn to zero, by the variance of true deviations over all."""
    apart = np.nansum((value**2 - error**2) / error**4, axis=0) / np.maximum(
        np.nansum(error**-4.0, axis=0), _SMALLEST
    )
    variance = np.maximum(apart, 0.0)
    return variance / (variance + error**2)


def expected_differences(
    items: Items, deviation: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(G, J) by how much deviations move a group's mean answer, and how far, up or down, on average.

    ``points`` (J, L) are what levels count.
    """
    none, found = 0.0 * items.slope, []
    for people, mean, (shift, change) in zip(
        items.people(), items.mean, deviation.transpose(0, 2, 1), strict=True
    ):
        own = _tables(items.bounds, items.slope + change, shift - change * mean)[0]
        moved = np.einsum("jlq,jl->jq", own - _tables(items.bounds, items.slope, none)[0], points)
        found.append((moved @ people, np.abs(moved) @ people))
    return tuple(np.array(found).transpose(1, 0, 2))
