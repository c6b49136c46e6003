"""Scores against values computed by hand and against slow loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.errors import DataError
from ordinalrbm.evaluate import point_scores, reliability, score

steady = settings(derandomize=True, deadline=None, max_examples=80)


def test_by_hand():
    # Asymmetric, so that a reversed scale or a swapped rule shows.
    probabilities = [[0.4, 0.15, 0.1, 0.35], [0.05, 0.05, 0.2, 0.7]]
    scores = score(probabilities, truth=[2, 3])
    # Means 2.4 and 3.55, modes 1 and 4, medians 2 and 4.
    assert scores["rmse"] == pytest.approx(math.sqrt((0.4**2 + 0.55**2) / 2))
    assert scores["mae"] == 1.0
    assert scores["mae_median"] == 0.5
    assert scores["accuracy"] == 0.0
    assert scores["nll"] == pytest.approx(-(math.log(0.15) + math.log(0.2)) / 2)
    # Cumulative 0.4 0.55 0.65 against 0 1 1; 0.05 0.1 0.3 against 0 0 1.
    first, second = 0.4**2 + 0.45**2 + 0.35**2, 0.05**2 + 0.1**2 + 0.7**2
    assert scores["rps"] == pytest.approx((first + second) / 2 / 3)
    # Bins: [0, .1) 0.05 0.05 | [.1, .2) 0.15* 0.1 | [.2, .3) 0.2* | [.3, .4) 0.35 | 0.4 | 0.7.
    assert scores["calibration"] == pytest.approx((0.1 + 0.75 + 0.8 + 0.35 + 0.4 + 0.7) / 8)


def test_rounding_moves_nothing_across_an_edge():
    # 0.1 + 0.2 + 0.2 is a half, whatever its last digit; so the median is the third level.
    assert score([[0.1, 0.2, 0.2, 0.5]], [3])["mae_median"] == 0.0
    third = np.float32(1) / np.float32(3)
    assert score([[third, third, third]], [2])["mae_median"] == 0.0
    table = reliability([[0.3, 0.7], [0.6, 0.4]], [1, 1])
    assert table["count"].to_numpy().nonzero()[0].tolist() == [3, 4, 6, 7]


def slow_score(probabilities, truth, values):
    """One answer at a time, straight from the definitions."""
    n, n_levels = probabilities.shape
    squared, of_mode, of_median, hits, nll, rps = [], [], [], [], [], []
    bins = [[] for _ in range(10)]
    for p, t in zip(probabilities, truth, strict=True):
        right = list(values).index(t)
        squared.append((sum(p[k] * values[k] for k in range(n_levels)) - t) ** 2)
        mode = max(range(n_levels), key=lambda k, p=p: p[k])
        of_mode.append(abs(values[mode] - t))
        median = next(k for k in range(n_levels) if sum(p[: k + 1]) >= 0.5 - 1e-9)
        of_median.append(abs(values[median] - t))
        hits.append(mode == right)
        nll.append(-math.log(max(p[right], 1e-12)))
        gaps = [(sum(p[: k + 1]) - (right <= k)) ** 2 for k in range(n_levels - 1)]
        rps.append(sum(gaps) / max(n_levels - 1, 1))
        for k in range(n_levels):
            bins[min(int(p[k] * 10 + 1e-9), 9)].append((p[k], k == right))
    error = sum(len(b) * abs(np.mean([hit for _, hit in b]) - np.mean([p for p, _ in b])) for b in bins if b)
    return {
        "rmse": math.sqrt(np.mean(squared)),
        "mae": np.mean(of_mode),
        "mae_median": np.mean(of_median),
        "accuracy": np.mean(hits),
        "nll": np.mean(nll),
        "rps": np.mean(rps),
        "calibration": error / (n * n_levels),
    }


@st.composite
def predictions(draw):
    n, n_levels = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probabilities = rng.dirichlet(np.full(n_levels, draw(st.sampled_from([0.1, 1.0, 20.0]))), n)
    values = np.cumsum(rng.integers(1, 4, n_levels)) / 2 - 3
    return probabilities, values[rng.integers(0, n_levels, n)], values


@steady
@given(predictions())
def test_against_loops(drawn):
    assert score(*drawn) == pytest.approx(slow_score(*drawn), abs=1e-12)


@steady
@given(predictions(), st.integers(1, 12))
def test_reliability_adds_up(drawn, n_bins):
    probabilities, truth, _ = drawn
    table = reliability(*drawn, n_bins=n_bins)
    assert len(table) == n_bins
    assert table["count"].sum() == probabilities.size
    full = table[table["count"] > 0]
    assert (full["observed"] * full["count"]).sum() == pytest.approx(len(truth))
    assert (full["predicted"] * full["count"]).sum() == pytest.approx(probabilities.sum())
    assert (full["predicted"] >= full["low"] - 1e-9).all()
    assert (full["predicted"] <= full["high"] + 1e-9).all()
    assert table.loc[table["count"] == 0, ["predicted", "observed", "standard_error"]].isna().all(axis=None)
    if n_bins == 10:
        gap = (full["count"] * (full["observed"] - full["predicted"]).abs()).sum()
        assert gap / probabilities.size == pytest.approx(score(*drawn)["calibration"])


def test_reliability_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1.0, 2.0, 0.5], 50_000)
    truth = 1 + (rng.random((50_000, 1)) > probabilities.cumsum(axis=1)[:, :2]).sum(axis=1)
    table = reliability(probabilities, truth)
    # Five standard errors in each of ten bins.
    assert ((table["observed"] - table["predicted"]).abs() < 5 * table["standard_error"]).all()
    row = table.iloc[3]
    expected = math.sqrt(row["observed"] * (1 - row["observed"]) / row["count"])
    assert row["standard_error"] == pytest.approx(expected)
    assert score(probabilities, truth)["calibration"] < 0.005


def test_points_of_distributions_agree():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(5), 200)
    truth = rng.integers(1, 6, 200)
    mean = probabilities @ np.arange(1, 6)
    assert point_scores(mean, truth)["rmse"] == pytest.approx(score(probabilities, truth)["rmse"])
    mode = probabilities.argmax(axis=1) + 1
    assert point_scores(mode, truth)["mae"] == score(probabilities, truth)["mae"]


GOOD = [[0.5, 0.5], [0.2, 0.8]]
REFUSED = {
    "one row": (([0.5, 0.5], [1]), r"shape \(n, L\), .* not \(2,\)"),
    "nothing": ((np.empty((0, 3)), []), r"not \(0, 3\)"),
    "text": (([["a", "b"]], [1]), "The probabilities must be numbers .*; convert"),
    "NaN": (([[0.5, 0.5], [np.nan, 1]], [1, 1]), r"Row 1 .* is \[nan, 1.0\]; every probability"),
    "negative": (([[1.5, -0.5]], [1]), r"Row 0 .* is \[1.5, -0.5\]; every probability"),
    "sum": (([[0.5, 0.5], [0.5, 0.4]], [1, 1]), r"Row 1 .* sums to 0\.9; it must sum to one"),
    "length": ((GOOD, [1]), "2 rows of probabilities for 1 answers; give one for each"),
    "off scale": ((GOOD, [1, 0]), r"Answer 1 .* is 0, .* the values \[1.0, 2.0\]; give the truth"),
    "between": ((GOOD, [1, 1.5]), r"Answer 1 .* is 1.5, .* \[1.0, 2.0\]"),
    "nearly": ((GOOD, [1, 2.0001]), r"Answer 1 .* is 2.0001, "),
    "a zero": ((GOOD, [0.4, 1e6], [0, 1e6]), r"Answer 0 .* is 0.4, .* \[0.0, 1000000.0\]"),
    "missing truth": ((GOOD, [1, np.nan]), "number 1 .* is nan; leave such rows out"),
    "no truth": ((GOOD, None), "The truth must be"),
    "values": ((GOOD, [1, 2], [1, 2, 3]), "3 values for 2 levels .*; give one per level"),
    "same values": ((GOOD, [1, 1], [1, 1]), r"The values \[1.0, 1.0\] repeat"),
    "table": ((GOOD, [[1, 2]]), "The truth must be a list of numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("function", [score, reliability])
def test_refusals(function, case):
    arguments, message = REFUSED[case]
    with pytest.raises(DataError, match=message) as refusal:
        function(*arguments)
    assert str(refusal.value).endswith(".")
