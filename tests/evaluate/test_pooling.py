"""Rubin's rules against the formulas of the R package mice, written down once more."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f

import ordinalrbm as orbm
from ordinalrbm import DataError

# Regression slopes of five imputed tables, skewed on purpose.
ESTIMATES = [1.10, 0.85, 1.42, 0.97, 1.21]
ERRORS = [0.21, 0.19, 0.30, 0.22, 0.25]


def mice_pool_scalar(q, u, dfcom=math.inf):
    """``mice::pool.scalar`` and ``mice:::barnard.rubin``, statement by statement."""
    m = len(q)
    qbar, ubar = sum(q) / m, sum(u) / m
    b = sum((x - qbar) ** 2 for x in q) / (m - 1)
    total = ubar + (m + 1) * b / m
    lamb = max((1 + 1 / m) * b / total, 1e-4)
    dfold = (m - 1) / lamb**2
    df = dfold
    if not math.isinf(dfcom):
        dfobs = (dfcom + 1) / (dfcom + 3) * dfcom * (1 - (1 + 1 / m) * b / total)
        df = dfold * dfobs / (dfold + dfobs)
    r = (1 + 1 / m) * b / ubar
    return {"estimate": qbar, "se": math.sqrt(total), "df": df, "fmi": (r + 2 / (df + 3)) / (r + 1)}


@pytest.mark.parametrize("complete", [None, 12.0, 995.0, math.inf])
def test_one_quantity_as_mice_has_it(complete):
    found = orbm.pool(ESTIMATES, ERRORS, df_complete=complete)
    wanted = mice_pool_scalar(ESTIMATES, [e * e for e in ERRORS], math.inf if complete is None else complete)
    assert len(found) == 1
    for name, value in wanted.items():
        assert found[name].item() == pytest.approx(value, rel=1e-12), name


def test_each_quantity_may_have_its_own_degrees_of_freedom():
    rng = np.random.default_rng(8)
    estimates, errors = rng.normal(size=(5, 3)), rng.uniform(0.5, 1.0, (5, 3))
    complete = [3.0, 40.0, np.inf]
    together = orbm.pool(estimates, errors, df_complete=complete)
    for j, own in enumerate(complete):
        alone = orbm.pool(estimates[:, j], errors[:, j], df_complete=own)
        np.testing.assert_allclose(together.iloc[j], alone.iloc[0])
    with pytest.raises(DataError, match="one for each quantity"):
        orbm.pool(estimates, errors, df_complete=[3.0, 40.0])


def test_coverage_on_data_with_a_known_mean():
    """Means of normal numbers with a third missing, imputed as they should be."""
    rng, covered, n, n_missing, m = np.random.default_rng(1), [], 60, 20, 10
    for _ in range(600):
        seen = rng.normal(size=n - n_missing)
        estimates, errors = [], []
        for _ in range(m):
            variance = seen.var(ddof=1) * (seen.size - 1) / rng.chisquare(seen.size - 1)
            centre = rng.normal(seen.mean(), np.sqrt(variance / seen.size))
            whole = np.append(seen, rng.normal(centre, np.sqrt(variance), n_missing))
            estimates.append(whole.mean())
            errors.append(whole.std(ddof=1) / np.sqrt(n))
        line = orbm.pool(estimates, errors, level=0.9, df_complete=n - 1).iloc[0]
        covered.append(line["low"] <= 0.0 <= line["high"])
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0], [0.1]), ["1 imputed tables", "impute at least twice"]),
        (([], []), ["0 imputed tables"]),
        (([1.0, 2.0], [0.1]), ["2 imputations", "1 imputations", "one standard error"]),
        (([[1.0, 2.0]] * 2, [0.1, 0.1]), ["2 numbers", "1 numbers"]),
        (([{"a": 1.0}] * 2, [{"b": 1.0}] * 2), ["same names"]),
        (([1.0, np.nan], [0.1, 0.1]), ["estimate of 0", "imputation 2", "nan"]),
        (([1.0, 2.0], [0.1, -0.1]), ["standard error of 0", "imputation 2", "-0.1"]),
        ((["much", "more"], [0.1, 0.1]), ["no table of numbers", "much"]),
        (([[1.0, 2.0], [1.0]], [[0.1], [0.1]]), ["equally many numbers"]),
    ],
)
def test_what_cannot_be_pooled(arguments, words):
    with pytest.raises(DataError) as refusal:
        orbm.pool(*arguments)
    assert all(word in str(refusal.value) for word in words), refusal.value


@pytest.mark.parametrize("level", [0, 1, 95])
def test_levels_that_are_none(level):
    with pytest.raises(DataError, match="between 0 and 1"):
        orbm.pool([1.0, 2.0], [0.1, 0.1], level=level)


def test_degrees_of_freedom_that_are_none():
    with pytest.raises(DataError, match="df_complete"):
        orbm.pool([1.0, 2.0], [0.1, 0.1], df_complete=0)


# ---- an analysis of each table ------------------------------------------------------------------

TABLES = [pd.DataFrame({"x": [1.0, 2.0, 4.0, 7.0], "y": [0.5, 2.5, y, 6.0]}) for y in (3.0, 4.0, 5.5)]


class Regression:
    """As statsmodels has it, in all that counts here."""

    def __init__(self, table):
        design = np.column_stack([np.ones(4), table["x"]])
        found, rest, *_ = np.linalg.lstsq(design, table["y"], rcond=None)
        self.df_resid, names = 2, ["const", "x"]
        self.params = pd.Series(found, names)
        covariance = rest[0] / self.df_resid * np.linalg.inv(design.T @ design)
        self._covariance = pd.DataFrame(covariance, names, names)

    def cov_params(self):
        return self._covariance


class WithErrors(Regression):
    @property
    def bse(self):
        return pd.Series(np.sqrt(np.diag(self._covariance)), self.params.index)


def test_regressions_of_each_table_are_pooled():
    fits = [WithErrors(table) for table in TABLES]
    expected = orbm.pool([fit.params for fit in fits], [fit.bse for fit in fits], df_complete=2)
    for function in (
        WithErrors,
        Regression,
        lambda table: (Regression(table).params.to_dict(), Regression(table).cov_params().to_numpy()),
    ):
        df = None if isinstance(function, type) else 2
        found = orbm.with_imputations(TABLES, function, df_complete=df)
        pd.testing.assert_frame_equal(found, expected)


def test_numbers_of_each_table_are_pooled():
    found = orbm.with_imputations(iter(TABLES), lambda table: (table["y"].mean(), table["y"].sem()))
    expected = orbm.pool([t["y"].mean() for t in TABLES], [t["y"].sem() for t in TABLES])
    pd.testing.assert_frame_equal(found, expected)


def test_other_results_and_a_single_table_are_refused():
    with pytest.raises(DataError, match=r"pair of estimates and standard errors.*Got float"):
        orbm.with_imputations(TABLES, lambda table: float(table["y"].mean()))
    with pytest.raises(DataError, match="list of imputed tables"):
        orbm.with_imputations(TABLES[0], WithErrors)


# ---- several coefficients at once ----------------------------------------------------------------

JOINT = [[0.31, 0.22, -0.1], [0.44, 0.12, 0.05], [0.2, 0.25, -0.02], [0.35, 0.3, 0.01]]
BASE = np.array([[0.02, 0.004, 0.001], [0.004, 0.015, -0.002], [0.001, -0.002, 0.03]])
COVARIANCES = [BASE * (1 + i / 10) for i in range(1, 5)]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        # mitml 0.4-4, which mice's D1() and D2() call: F, k, v, r.
        (orbm.pool_test(JOINT, COVARIANCES), (1.350193, 3, 49.076323, 0.388395)),
        (orbm.pool_test(JOINT, COVARIANCES, df_complete=57), (1.350193, 3, 22.882336, 0.388395)),
        (orbm.pool_test(JOINT[:2], COVARIANCES[:2]), (1.4487651, 3, 16.2818659, 0.5395978)),
        (orbm.pool_test([9.1, 7.4, 8.8, 12.2], df=3), (2.5723266, 3, 98.9273463, 0.1303785)),
    ],
)
def test_joint_tests_as_mitml_has_them(found, wanted):
    assert found[["F", "df1", "df2", "riv"]].tolist() == pytest.approx(wanted, rel=1e-6)
    assert found["p"] == pytest.approx(f.sf(found["F"], found["df1"], found["df2"]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"results": [[1.0]]}, "two imputed tables or more"),
        ({"results": [1.0, 2.0]}, "covariances.*or df"),
        ({"results": [1.0, np.nan], "df": 1}, "finite results"),
        ({"results": [1.0, -2.0], "df": 1}, "one chi-squared statistic"),
        ({"results": JOINT, "covariances": COVARIANCES[:3]}, "4 covariance matrices of 3 estimates"),
        ({"results": JOINT, "covariances": [-BASE] * 4}, "positive eigenvalues"),
    ],
)
def test_joint_tests_that_cannot_be(arguments, words):
    with pytest.raises(DataError, match=words):
        orbm.pool_test(**arguments)


def test_standard_errors_are_found_by_their_names():
    estimates = [{"a": 1.0, "b": 2.0}, {"a": 1.2, "b": 2.2}]
    errors = [{"b": 0.1, "a": 0.2}] * 2
    turned = [{name: each[name] for name in ("a", "b")} for each in errors]
    pd.testing.assert_frame_equal(orbm.pool(estimates, errors), orbm.pool(estimates, turned))
