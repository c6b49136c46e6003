"""Places on a map for tens of thousands of people: t-SNE of some, the others beside these.

t-SNE of 60,000 people takes a quarter of an hour. So some people drawn at random, the landmarks,
are placed by t-SNE; everybody else comes to stand between the landmarks with the most similar
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ordinalrbm.plots.maps import row_positions
from ordinalrbm.report.points import Variable, point_map

MOST_POINTS = 100_000
N_LANDMARKS = 8_000
# Up to here t-SNE takes about as long as with landmarks.
MOST_WITHOUT_LANDMARKS = 10_000
FEWEST_PEOPLE = 4
_NEIGHBOURS = 8
_NEVER_ZERO = 1e-6
# Of the distance between the nearest landmarks: people between the same ones must not coincide.
_JITTER = 0.35


class Places(NamedTuple):
    """Where rows stand on a plane, (n, 2), and how many of them t-SNE itself has placed."""

    positions: np.ndarray
    n_landmarks: int


# Names of some rows, variables to colour them by, and which of these are told of each.
Described = tuple[Sequence[str], Sequence[Variable], Sequence[int]]


def map_section(
    rows: np.ndarray, factors: np.ndarray, describe: Callable[[np.ndarray], Described], noun: str,
    random_state: int = 0,
) -> dict[str, Any] | None:  # fmt: skip
    """A map of rows as the page's script reads it, and what became of them; None of too few."""
    if len(rows) < FEWEST_PEOPLE:
        return None
    shown = some_of(rows, MOST_POINTS, random_state)
    places = place(factors[shown], random_state=random_state)
    return {
        "data": point_map(places.positions, *describe(shown), noun),
        "n_points": len(shown),
        "n_landmarks": places.n_landmarks,
        "n_not_drawn": len(rows) - len(shown),
    }


def some_of(rows: np.ndarray, most: int, seed: int | np.random.Generator) -> np.ndarray:
    """At most so many rows, drawn at random, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def place(factors: np.ndarray, *, random_state: int = 0, n_landmarks: int = N_LANDMARKS) -> Places:
    """Place rows, at least 4, on a plane so that neighbours have similar factors.

    Of more than 10,000 (or than ``n_landmarks``, if that is larger), t-SNE itself places only
    ``n_landmarks``.

    Examples
    --------
    >>> factors = np.random.default_rng(0).random((40, 3))
    >>> place(factors).positions.shape
    (40, 2)
    """
    points = np.asarray(factors, dtype=np.float32)
    n_rows = len(points)
    if n_rows <= max(MOST_WITHOUT_LANDMARKS, n_landmarks):
        return Places(row_positions(points, random_state=random_state), n_rows)
    return among_landmarks(points, n_landmarks, random_state)


def among_landmarks(points: np.ndarray, n_landmarks: int, random_state: int) -> Places:
    """Place landmarks by t-SNE and everybody else between the nearest of them."""
    from sklearn.neighbors import NearestNeighbors  # slow to import, and only needed here

    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(len(points), n_landmarks, replace=False))
    others = np.setdiff1d(np.arange(len(points)), chosen)
    positions = np.empty((len(points), 2), dtype=np.float32)
    positions[chosen] = row_positions(points[chosen], random_state=random_state)
    index = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, n_landmarks), algorithm="brute")
    distance, near = index.fit(points[chosen]).kneighbors(points[others])
    noise = rng.normal(size=(len(others), 2)).astype(np.float32)
    positions[others] = _between(distance, positions[chosen][near], noise)
    return Places(positions, n_landmarks)


def _between(distance: np.ndarray, spots: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Weighted means of the nearest landmarks' places, a little apart from each other.

    Only those neighbours count that the map, too, shows close to the nearest one: between two far
    ends of the map there is nobody like either.
    """
    off = np.linalg.norm(spots - spots[:, :1], axis=2)  # the nearest comes first
    reach = np.median(off, axis=1, keepdims=True)
    weight = np.where(off <= reach, 1.0 / np.maximum(distance, _NEVER_ZERO) ** 2, 0.0)
    mean = (weight[..., None] * spots).sum(axis=1) / weight.sum(axis=1, keepdims=True)
    # By the spacing of landmarks in that part of the map; where they are far apart, no further
    # than elsewhere, so that nobody is thrown off the map.
    apart = np.minimum(np.where(off > 0, off, np.inf).min(axis=1, keepdims=True), reach)
    return mean + _JITTER * np.minimum(apart, 2.0 * np.median(apart)) * np.clip(noise, -2.0, 2.0)
