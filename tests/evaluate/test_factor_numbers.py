"""Numbers of factors are compared fairly, and the rule takes what it says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from ordinalrbm.data.observations import Cells
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate import compare_factor_numbers
from ordinalrbm.evaluate.model_scores import _compared, clustered_error

SEEN = []


class Pretender(BaseEstimator):
    """Gives the true level of a question (all answers are 2) a probability that depends on K."""

    def __init__(self, n_factors=1, chances=()):
        self.n_factors = n_factors
        self.chances = chances

    def fit(self, X, sample_weight=None):
        SEEN.append((self.n_factors, X.observations.to_dense().tobytes(), sample_weight))
        return self

    def predict_proba(self, X):
        n_rows, n_columns = X.shape
        # People differ in how well they are predicted, and the model's share differs on top.
        person = np.linspace(0.5, 0.7, n_rows)
        noise = 0.02 * np.cos(np.arange(n_rows) * self.n_factors)
        chance = person + self.chances[self.n_factors - 1] + noise
        other = (1 - chance) / 2
        return [np.stack([other, chance, other], axis=1)] * n_columns


def table(n_rows=200):
    answers = np.full((n_rows, 6), 2)
    answers[0], answers[1] = 1, 3  # so that scales have three levels
    return pd.DataFrame(answers).add_prefix("q")


@pytest.mark.parametrize(("chances", "best", "chosen"), [((0.0, 0.1, 0.2), 3, 3), ((0.0, 0.2, 0.1), 2, 2)])
def test_the_smallest_within_one_standard_error_is_taken(chances, best, chosen):
    SEEN.clear()
    found = compare_factor_numbers(Pretender(chances=chances), table(), [3, 1, 2])
    assert (found.best, found.chosen) == (best, chosen)
    assert found.table.index.tolist() == [1, 2, 3] and found.n_hidden == 120
    assert found.table.loc[best, ["difference", "difference_error"]].tolist() == [0.0, 0.0]
    # The same answers were hidden from all.
    assert len({seen for _, seen, _ in SEEN}) == 1


def test_a_difference_that_chance_makes_as_well_does_not_count():
    rows = np.arange(100)
    hidden = Cells(rows, np.zeros(100, int), np.ones(100, int))
    apart = np.where(rows % 2, 0.1, -0.1)  # a standard error of 0.01
    few = np.full(100, -1.0)
    for gain, chosen in ((0.009, 2), (0.011, 3)):
        found = _compared({1: few - 0.5, 2: few, 3: few + apart + gain}, hidden)
        assert (found.best, found.chosen) == (3, chosen)
        assert found.table.loc[2, "difference"] == pytest.approx(-gain)
        assert found.table.loc[2, "difference_error"] == pytest.approx(0.01)


def test_errors_are_those_of_people_drawn_again():
    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(300), rng.integers(1, 6, 300))
    values = rng.normal(size=300)[row] + 0.5 * rng.normal(size=row.size)
    total, count = np.bincount(row, values), np.bincount(row)
    again = rng.integers(0, 300, (4_000, 300))
    means = total[again].sum(axis=1) / count[again].sum(axis=1)
    assert clustered_error(values, row) == pytest.approx(means.std(), rel=0.05)
    # Answers of one person go together: taken for independent, the error were half of it.
    assert clustered_error(values, np.arange(row.size)) < 0.7 * means.std()


def test_weights_and_progress_are_passed_on():
    SEEN.clear()
    told = []
    compare_factor_numbers(
        Pretender(chances=(0.0, 0.1)), table(), [1, 2], sample_weight="weights", tell=told.append
    )
    assert told == [1, 2] and [weight for _, _, weight in SEEN] == ["weights"] * 2


def test_nothing_to_compare_is_refused():
    with pytest.raises(DataError, match="no number of factors"):
        compare_factor_numbers(Pretender(), table(), [])
    with pytest.raises(DataError, match="too few answers"):
        compare_factor_numbers(Pretender(), table(5).head(2).iloc[:, :2], [1])
