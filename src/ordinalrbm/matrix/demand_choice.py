"""What the model of demand is made of, chosen by choices that are held out.

Of some rows, choices are held out: with times the last one that is liked and what came after it,
since what comes next is to be predicted; without, some at random. Parts are learnt from the rest,
and count as much as makes what was held out likeliest (:mod:`ordinalrbm.matrix.blend`). Lists are
of what is liked, so that held-out choices that are liked decide, given how often each column is
liked by those who choose it. In the end all parts that count are learnt from all choices.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ordinalrbm.data.observations import Cells, Observations, rows_of_all
from ordinalrbm.matrix import implicit_als
from ordinalrbm.matrix.blend import Blend, HeldOutChoices, least_of, logarithms
from ordinalrbm.matrix.item_weights import (
    ItemWeights,
    Past,
    between,
    chosen_of,
    frequent,
    gram_of,
    neighbours,
)
from ordinalrbm.matrix.sequence import NormalEquations
from ordinalrbm.matrix.variational import on_cpu
from ordinalrbm.runtime.process_group import ALONE, Alone, Group
from ordinalrbm.runtime.threads import one_blas_thread

# With fewer choices held out, nothing is chosen by them; more are not needed.
_FEWEST, _ENOUGH = 50, 4_000
# The share of a row's choices that is held out at random; and at most so many scores (rows × columns) are
# computed where the last choices are held out.
_OF_ROW, _SCORES = 0.1, 2**22
# Answers of as many rows, at random, as are looked at: to choose by, and to learn weights from.
TO_CHOOSE, TO_LEARN = 1_000_000, 4_000_000
# Ridges of weights that are tried, in means of the diagonal.
_OF_NEIGHBOURS, _OF_SEQUENCE = (1.0, 8.0), (0.6, 2.4)
# A part that counts less is left out.
_LEAST_EXPONENT = 0.05
# The share of liked choices of a column is as if it had so many more, liked as often as the average.
_USUAL = 10.0
_NEVER = 65536  # later than any age


class Settings(NamedTuple):
    """How much parts count; those with zero are left out, and nothing is blended where there are none."""

    exponents: tuple[float, ...] = ()
    least: tuple[float, ...] = ()
    neighbours: float = 0.0  # a ridge
    sequence: float = 0.0

    def blend(self, past: Past, lowest: np.ndarray) -> Blend | None:
        """Parts that are learnt from the past; ``lowest`` is the level of each column that is liked."""
        if not self.exponents:
            return None
        columns, every = frequent(past.answers), np.zeros(past.answers.n_columns, dtype=np.int16)
        found: list[ItemWeights | None] = [None, None, None]
        with one_blas_thread():  # the same on any number of threads
            for k, least in enumerate((every, lowest.astype(np.int16))):
                if self.exponents[k + 1]:
                    counted = past.answers.select(past.answers.level >= least[past.answers.column])
                    gram = gram_of(chosen_of(counted, columns))
                    found[k] = neighbours(gram, columns, self.neighbours, least[columns])
            if self.exponents[3] and past.age is not None:
                found[2] = NormalEquations(past, columns).solved(self.sequence)
        near, liked, following = found
        return Blend(near, liked, following, np.array(self.exponents), np.array(self.least))


def chosen(past: Past, lowest: np.ndarray, n_factors: int, fraction: float, seed: int) -> Settings:
    """Settings for so many factors, by at least this fraction of the choices of some rows."""
    rng = np.random.default_rng(seed)
    answers = past.answers
    is_liked = (answers.level >= lowest[answers.column]).astype(np.int8)
    past = Past(replace(answers, level=is_liked).with_weight(answers.weight), past.age)
    past = _some_columns(past)
    train, held = _held_out(past, fraction, rng)
    if held.row.size < _FEWEST or not n_factors:
        return Settings()
    choices = HeldOutChoices.of(train.answers, held, _liking(train.answers))
    with one_blas_thread():
        factors, tried = _Part.of(_factor_scores(train.answers, choices.rows, n_factors, seed)), []
        kinds = [(own, gram_of(own)) for own in _chosen_by_kind(train.answers)]
        for ridge in _OF_NEIGHBOURS:
            near = [_near(train.answers, *kind, choices.rows, ridge) for kind in kinds]
            parts: list[_Part | None] = [factors, *near, *[None] * (2 - len(near))]
            gain, settings = _mixed(choices, [*parts, None])
            tried.append((gain, settings._replace(neighbours=ridge), parts))
        _, best, parts = max(tried, key=itemgetter(0))
        if train.age is None:
            return best
        equations, found = NormalEquations(train, frequent(train.answers)), []
        for ridge in _OF_SEQUENCE:
            following = _Part.of(equations.solved(ridge).scores(train, choices.rows))
            gain, settings = _mixed(choices, [*parts, following])
            found.append((gain, settings._replace(neighbours=best.neighbours, sequence=ridge)))
    return max(found)[1]


class _Part(NamedTuple):
    log: np.ndarray  # of the scores
    least: float

    @classmethod
    def of(cls, scores: np.ndarray) -> _Part:
        least = least_of(scores)
        return cls(logarithms(scores, least), least)


def _mixed(choices: HeldOutChoices, parts: list[_Part | None]) -> tuple[float, Settings]:
    """How well held-out choices rank, and how much parts count."""
    there = np.array([k for k, part in enumerate(parts) if part is not None])
    known = [part for part in parts if part is not None]
    exponents, least = np.zeros(len(parts)), np.ones(len(parts))
    least[there] = [part.least for part in known]
    own, _ = choices.exponents([part.log for part in known])
    counts = (own >= _LEAST_EXPONENT) | (there == 0)  # factors always do
    logs = [part.log for part, does_count in zip(known, counts, strict=True) if does_count]
    own, _ = choices.exponents(logs, start=own[counts])
    own = choices.among_best(logs, own)
    exponents[there[counts]] = own
    return choices.gain(logs, own), Settings(tuple(exponents.tolist()), tuple(least.tolist()))


def _factor_scores(answers: Observations, rows: np.ndarray, n_factors: int, seed: int) -> np.ndarray:
    first = implicit_als.start(answers, n_factors, seed)
    factors = implicit_als.learn(on_cpu(answers), first, implicit_als.ridge_of(answers))
    return factors.rows[rows] @ factors.columns.T


def _chosen_by_kind(answers: Observations) -> list[csr_array]:
    """Choices of columns that may have weights: all and, unless these are the same, those that are liked."""
    columns, liked = frequent(answers), answers.select(answers.level > 0)
    kinds = [answers] if liked.n_entries in (0, answers.n_entries) else [answers, liked]
    return [chosen_of(kind, columns) for kind in kinds]


def _near(answers: Observations, own: csr_array, gram: np.ndarray, rows: np.ndarray, ridge: float) -> _Part:
    found = np.zeros((rows.size, answers.n_columns), dtype=np.float32)
    found[:, frequent(answers)] = own[rows].toarray() @ between(gram, ridge)
    return _Part.of(found)


def some_rows(past: Past, most: int, seed: int, among: Alone | Group = ALONE) -> Past:
    """Of as many rows, at random, that they have about so many answers.

    Of several processes that have a run of rows each, the first gets those of all.
    """
    answers = past.answers
    (n,) = among.summed(np.array([answers.n_entries]))
    if n <= most and among.size == 1:
        return past
    is_one = np.random.default_rng(seed).random(answers.n_rows) < most / max(n, 1)
    age = None if past.age is None else among.gather(past.age[np.repeat(is_one, answers.row_counts)])
    return Past(rows_of_all(answers, np.flatnonzero(is_one), among, only_first=True), age)


def _some_columns(past: Past) -> Past:
    """Of the columns that may have weights: scores of a row are as many as there are columns."""
    columns, answers = frequent(past.answers), past.answers
    if columns.size == answers.n_columns:
        return past
    is_one = np.isin(answers.column, columns)
    some = answers.select(is_one).reorder(np.arange(answers.n_rows), columns)
    return Past(some, None if past.age is None else past.age[is_one])


def _liking(answers: Observations) -> np.ndarray:
    """(columns,) logarithms of the share of choices that are liked."""
    liked, counts = np.bincount(answers.column, answers.level, answers.n_columns), answers.column_counts
    usual = (liked.sum() + 1.0) / (answers.n_entries + 1.0)
    return np.log((liked + _USUAL * usual) / (counts + _USUAL)).astype(np.float32)


def _held_out(past: Past, fraction: float, rng: np.random.Generator) -> tuple[Past, Cells]:
    """The choices without some of some rows, and those of them that are liked."""
    answers, row = past.answers, past.answers.cells().row
    rows = rng.permutation(np.flatnonzero(answers.row_counts))
    if past.age is None:
        share = max(fraction, _OF_ROW)
        rows = rows[: np.searchsorted(np.cumsum(answers.row_counts[rows]), _ENOUGH / share) + 1]
        is_left = ~np.isin(row, rows) | (rng.random(row.size) >= share)
        is_held = ~is_left & (answers.level > 0)
        train = Past(answers.select(is_left), None)
    else:
        # Those of one time are as late as each other; who liked nothing after another choice has no next.
        rows, is_liked = rows[: max(_FEWEST, _SCORES // answers.n_columns)], answers.level > 0
        first, last = np.full(answers.n_rows, _NEVER), np.full(answers.n_rows, -1)
        np.minimum.at(first, row[is_liked], past.age[is_liked])
        is_before = past.age > first[row]
        rows = rows[np.bincount(row[is_before], minlength=answers.n_rows)[rows] > 0]
        last[rows] = first[rows]
        is_left, is_held = past.age > last[row], is_liked & (past.age == last[row])
        train = Past(answers.select(is_left), past.age[is_left])
    return train, Cells(row[is_held], answers.column[is_held], answers.level[is_held])
