"""Answers and ratings that are hidden from learning, and how well they are predicted."""

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ordinalrbm.data.observations import Cells, Observations, count_levels
from ordinalrbm.data.ratings import Ratings, encode, refuse_without_scale, times_of_cells
from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import Encoded, read_table
from ordinalrbm.data.triples import Triples, as_triples
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.metrics import score

MOST_HIDDEN = 200_000
# Distributions of all cells of so many rows are held at a time.
_ROWS_AT_A_TIME = 2_000
_MEASURES = {"error": "mae_median", "nll": "nll", "hits": "accuracy"}


class Predictor(Protocol):
    """A model of tables."""

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Distribution of every answer: one (n, L_i) array per column."""

    def predict(self, X: Any, rule: Any = "median") -> Any:
        """One prediction per cell, in the kind of table that X is."""


class HiddenScores(NamedTuple):
    """How well hidden answers are predicted, by the model and by the question's usual answers.

    One line per question that had answers hidden (the index is its name): ``count``, and ``error``,
    ``nll`` and ``hits`` of the ``model`` and of the ``usual`` answer, for instance ``model_error``.
    ``error`` is the mean absolute error of the median, in levels. ``overall`` is the same over all.
    """

    by_question: pd.DataFrame
    overall: pd.Series


def hide_answers(answers: Any, share: float = 0.05, random_state: int = 0) -> tuple[Encoded, Cells]:
    """Hide some answers, so that a model learnt from the others can be tested on them.

    Parameters
    ----------
    answers : table
        Anything that :meth:`CumulativeRBM.fit` takes, ``Survey.encoded`` among it.
    share : float, default=0.05
        Share of the answers to hide, at most 200,000 of them.
    random_state : int, default=0

    Returns
    -------
    shown : Encoded
        The table without these answers, to fit a model on.
    hidden : Cells
        Where they were (row, column, counted from 0) and their levels (from 0).

    Examples
    --------
    >>> shown, hidden = hide_answers(pd.DataFrame({"tea": [1, 2] * 20}), share=0.1)
    >>> int(shown.to_frame()["tea"].isna().sum()), hidden.level.size
    (4, 4)
    """
    if not 0 <= share < 1:
        raise DataError(f"share must be at least 0 and below 1, got {share}.")
    encoded = read_table(answers)
    given = encoded.observations
    count = min(round(share * given.n_entries), MOST_HIDDEN)
    chosen = np.random.default_rng(random_state).permutation(given.n_entries)[:count]
    is_hidden = np.zeros(given.n_entries, dtype=bool)
    is_hidden[chosen] = True
    return encoded.with_observations(given.select(~is_hidden)), cells_of(given, is_hidden)


def hide_ratings(ratings: pd.DataFrame, share: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the ratings to learn from, and a few hidden ones of users and items that have others."""
    chosen = np.random.default_rng(seed).random(len(ratings)) < share
    left = ratings[~chosen]
    chosen &= (ratings["user"].isin(left["user"]) & ratings["item"].isin(left["item"])).to_numpy()
    return ratings[~chosen], ratings[chosen]


def cells_of(observations: Observations, entry_mask: np.ndarray) -> Cells:
    """The answers where the mask is true, as cells in the order of the rows."""
    row = observations.cells().row[entry_mask]
    return Cells(row, observations.column[entry_mask], observations.level[entry_mask])


def in_training(known: Ratings, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Whether each pair of user and item is among the ratings; positions of -1 are not."""
    found = (row >= 0) & (column >= 0)
    found[found] = known.observations.search(row[found], column[found]) >= 0
    return found


def rated(data: Any) -> Triples:
    """The columns of ratings, which must not be choices alone."""
    table = as_triples(data)
    if not table.has_ratings:
        raise DataError("The ratings have no column 'rating'; give users, items and ratings.")
    return table


class TestRatings(NamedTuple):
    """Test ratings of pairs that are not in training."""

    table: Triples
    cells: Cells
    n_learnt: int  # how many were left out


def read_test_ratings(known: Ratings, test: Any) -> TestRatings:
    """Read test ratings, without those of pairs of user and item that were learnt from."""
    table = rated(test)
    # Stored zeros are ratings here.
    table = Triples(table.user, table.item, table.rating, time=table.time)
    cells = encode(known, table)
    if not len(table):
        raise DataError("There is no rating to test on; give at least one.")
    learnt = in_training(known, cells.row, cells.column)
    if learnt.all():
        raise DataError(
            f"All {learnt.size:,} test ratings are of pairs of user and item that were learnt "
            "from, so that nothing is left to test; give ratings that were not learnt from."
        )
    refuse_without_scale(cells, int(known.observations.n_levels.max()), table)
    if not learnt.any():
        return TestRatings(table, cells, 0)
    return TestRatings(table.take(~learnt), cells.at(~learnt), int(learnt.sum()))


def predicted_ratings(model: Any, table: Triples) -> np.ndarray:
    """Distributions of test ratings, at their times if the model was learnt from ratings with times."""
    users, items = table.user.to_numpy(), table.item.to_numpy()
    if times_of_cells(model.ratings_, table) is None:
        return model.predict_proba(users, items)
    return model.predict_proba(users, items, times=table.time)


def without(answers: Encoded, hidden: Cells) -> Encoded:
    """The answers without the hidden ones."""
    given = answers.observations
    cell = given.cells().row * given.n_columns + given.column
    is_hidden = np.isin(cell, hidden.row * given.n_columns + hidden.column)
    return answers.with_observations(given.select(~is_hidden)) if is_hidden.any() else answers


def restored(answers: Encoded, hidden: Cells) -> Encoded:
    """The answers with the hidden ones."""
    return answers.with_observations(without(answers, hidden).observations.insert(hidden))


def score_hidden(model: Predictor, answers: Encoded, hidden: Cells) -> HiddenScores:
    """Predict hidden answers (at least one) from the others of the same people, and score that."""
    shown = without(answers, hidden)
    predicted = distributions(model, shown, hidden)
    marginal = marginals(shown.observations)
    lines: dict[object, dict[str, float]] = {}
    for i in np.unique(hidden.column):
        own = hidden.column == i
        name = i if answers.names is None else answers.names[i]
        ours, others = predicted[own, : len(marginal[i])], np.tile(marginal[i], (own.sum(), 1))
        lines[name] = {"count": own.sum()}
        for who, distribution in (("model", ours), ("usual", others)):
            scores = score(distribution, hidden.level[own] + 1)
            lines[name] |= {f"{who}_{short}": scores[long] for short, long in _MEASURES.items()}
    by_question = pd.DataFrame.from_dict(lines, orient="index")
    # Every measure is a mean over answers.
    weight = by_question["count"] / by_question["count"].sum()
    overall = by_question.mul(weight, axis=0).sum()
    overall["count"] = by_question["count"].sum()
    return HiddenScores(by_question, overall)


class NonOrdinalScores(NamedTuple):
    """How well hidden categories and numbers are predicted, a line for each question.

    Of categories (``nominal``), ``hits``: how often the most likely one is right, and the most
    frequent one. Of numbers (``numeric``), ``mae`` and ``rmse`` of the expected number, and of the mean
    of all others. Each of the ``model`` and of the ``usual`` answer, for instance ``model_hits``;
    ``count`` is how many were hidden.
    """

    nominal: pd.DataFrame
    numeric: pd.DataFrame


def hide_others(columns: pd.DataFrame, share: float, random_state: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return columns of categories and numbers with some values hidden, and where these were."""
    rng = np.random.default_rng(random_state)
    hidden = pd.DataFrame(False, columns.index, columns.columns)
    for name in columns:
        given = np.flatnonzero(columns[name].notna())
        chosen = rng.permutation(given)[: round(share * given.size)]
        hidden.loc[hidden.index[chosen], name] = True
    return columns.mask(hidden), hidden


def score_others(
    model: Predictor, answers: Encoded, whole: pd.DataFrame, hidden: pd.DataFrame, numeric: Collection[str]
) -> NonOrdinalScores:
    """Predict hidden categories and numbers from all other answers of the same people.

    They are missing in the extra columns of ``answers``; ``whole`` has them all, some ``numeric``.
    """
    rows = np.flatnonzero(hidden.any(axis=1))
    parts = [rows[start : start + _ROWS_AT_A_TIME] for start in range(0, len(rows), _ROWS_AT_A_TIME)]
    predicted = pd.concat([model.predict(answers.subset(part), rule="mean") for part in parts])
    lines: dict[bool, dict[str, dict[str, float]]] = {False: {}, True: {}}
    for name in hidden.columns[hidden.any()]:
        own = hidden[name].to_numpy()
        truth, rest = whole[name][own], whole[name][~own].dropna()
        is_number = name in numeric
        baseline = rest.astype(float).mean() if is_number else rest.mode().iloc[0]
        ours = predicted[name].to_numpy()[own[rows]]
        line: dict[str, float] = {"count": int(own.sum())}
        for who, found in (("model", ours), ("usual", baseline)):
            scores = _numbers_off(truth, found) if is_number else {"hits": np.mean(truth == found)}
            line |= {f"{who}_{score}": float(value) for score, value in scores.items()}
        lines[is_number][name] = line
    return NonOrdinalScores(*(pd.DataFrame.from_dict(own, orient="index") for own in lines.values()))


def _numbers_off(truth: pd.Series, found: ArrayLike) -> dict[str, float]:
    off = truth.to_numpy(dtype=np.float64) - np.asarray(found, dtype=np.float64)
    return {"mae": np.abs(off).mean(), "rmse": np.sqrt((off**2).mean())}


def level_values(known: Ratings) -> np.ndarray:
    """Values of the levels: their numbers, or 1, 2, ... of text and where items have different scales."""
    if isinstance(known.scales, Scale):
        return known.scales.values
    return np.arange(1.0, known.observations.n_levels.max() + 1.0)


def marginals(observations: Observations) -> list[np.ndarray]:
    """The distribution of each column's answers, half an answer added to each level."""
    counts = count_levels(observations) + 0.5
    return [row[:n] / row[:n].sum() for row, n in zip(counts, observations.n_levels, strict=True)]


def distributions(model: Predictor, shown: Encoded, hidden: Cells) -> np.ndarray:
    """(n, L): what the model expects where answers are hidden."""
    found = np.zeros((len(hidden.row), int(shown.observations.n_levels.max())))
    rows, of_row = np.unique(hidden.row, return_inverse=True)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        some = rows[start : start + _ROWS_AT_A_TIME]
        predicted = model.predict_proba(shown.subset(some))
        cells = np.flatnonzero((of_row >= start) & (of_row < start + len(some)))
        for i in np.unique(hidden.column[cells]):
            own = cells[hidden.column[cells] == i]
            found[own, : predicted[i].shape[1]] = predicted[i][of_row[own] - start]
    return found
