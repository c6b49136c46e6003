"""Rubin's rules: one estimate with one standard error from those of several imputed tables.

The variance of a pooled estimate has two parts: what it would be if nothing were missing (the mean
of the squared standard errors), and how much the estimates differ between imputations. The degrees
of freedom are those of Barnard and Rubin (1999), the fraction of missing information that of Rubin
(1987), both as in the R package mice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ordinalrbm.errors import DataError

# A smaller share of missing information is none: its degrees of freedom would overflow.
_SMALLEST_SHARE = 1e-4


def pool(
    estimates: Any, standard_errors: Any, *, level: float = 0.95, df_complete: ArrayLike | None = None
) -> pd.DataFrame:
    """Combine the results of several imputed tables by Rubin's rules.

    Parameters
    ----------
    estimates : sequence with one entry per imputation
        Each entry is a number, or as many numbers as there are quantities: an array, a dict or a
        Series (for instance the ``params`` of a regression, whose names are kept). A DataFrame
        with a row per imputation will do as well.
    standard_errors : the same of their standard errors
    level : float, default=0.95
        Coverage of the intervals.
    df_complete : float, or one for each quantity, optional
        Degrees of freedom that the analysis would have if nothing were missing, for instance rows
        minus coefficients. Without it they are taken as many, which makes no difference from a few
        hundred rows on.

    Returns
    -------
    DataFrame, one row per quantity
        ``estimate``, ``se``, ``low`` and ``high`` (ends of the interval), ``df`` (degrees of
        freedom) and ``fmi``, the fraction of missing information: how much of what the complete
        table would tell about the quantity is lost.

    Notes
    -----
    The rules want estimates that are about normal. Pool the Fisher transform ``np.arctanh(r)`` of a
    correlation, with standard error ``1 / np.sqrt(n - 3)``, and turn the ends of the interval back
    with ``np.tanh``; pool logarithms of odds ratios and of variances.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> orbm.pool([2.9, 3.1, 3.0], [0.1, 0.1, 0.1]).round(2)
       estimate    se   low  high    df   fmi
    0       3.0  0.15  2.63  3.37  6.12  0.67
    """
    found = _matrix("estimates", estimates)
    errors = _in_order(_matrix("standard_errors", standard_errors), found)
    _check(found, errors)
    if not 0.0 < level < 1.0:
        raise DataError(f"The level must lie between 0 and 1, for example 0.95. Got {level!r}.")
    pooled = rubin(found.to_numpy(), errors.to_numpy(), _complete(df_complete, found))
    half = stats.t.ppf(0.5 + 0.5 * level, pooled.freedom) * pooled.error
    # Rubin's (r + 2 / (df + 3)) / (r + 1), where r = share / (1 - share).
    missing = pooled.share + (1.0 - pooled.share) * 2.0 / (pooled.freedom + 3.0)
    return pd.DataFrame(
        {
            "estimate": pooled.estimate,
            "se": pooled.error,
            "low": pooled.estimate - half,
            "high": pooled.estimate + half,
            "df": pooled.freedom,
            "fmi": np.where(pooled.share > 0, missing, 0.0),
        },
        index=found.columns,
    )


def with_imputations(
    tables: Iterable[Any], function: Callable[[Any], Any], *, level: float = 0.95, df_complete: Any = None
) -> pd.DataFrame:
    """Analyse each imputed table and combine the results by Rubin's rules.

    As ``with()`` and ``pool()`` of the R package mice.

    Parameters
    ----------
    tables : iterable of tables
        What ``impute(..., n_draws=20)`` returns.
    function : callable
        Called with each table. It returns a pair of estimates and their standard errors (or their
        covariance matrix): numbers, arrays, dicts or Series; or a fitted regression that has
        ``params``, and ``bse`` or ``cov_params()``, such as those of statsmodels.
    level, df_complete
        See :func:`pool`. By default, ``df_complete`` is ``df_resid`` of a regression that has it.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> tables = [pd.DataFrame({"tea": [1, 2, 3, x]}) for x in (2, 3, 3)]
    >>> def mean_of_tea(table):
    ...     return {"tea": table["tea"].mean()}, {"tea": table["tea"].sem()}
    >>> orbm.with_imputations(tables, mean_of_tea).round(2)
         estimate    se   low  high     df   fmi
    tea      2.17  0.49  1.21  3.13  144.5  0.13
    """
    if isinstance(tables, pd.DataFrame):
        raise DataError("tables must be a list of imputed tables, not a single one.")
    results = [function(table) for table in tables]
    found = [_estimates_and_errors(result) for result in results]
    if df_complete is None and results:
        df_complete = getattr(results[0], "df_resid", None)
    estimates, errors = [one for one, _ in found], [error for _, error in found]
    return pool(estimates, errors, level=level, df_complete=df_complete)


def pool_test(
    results: Any, covariances: Any = None, *, df: int | None = None, df_complete: float | None = None
) -> pd.Series:
    """Test of several coefficients at once, pooled over imputed tables: D1 or D2.

    D1 is a Wald test that all estimates are zero (Li, Raghunathan and Rubin 1991; with
    ``df_complete``, Reiter 2007). D2 pools any chi-squared statistics, such as likelihood ratios,
    and has less power (Li, Meng, Raghunathan and Rubin 1991).

    Parameters
    ----------
    results : sequence with one entry per imputation
        Estimates, as in :func:`pool`; or, with ``df``, a chi-squared statistic of each table.
    covariances : sequence of (k, k) arrays
        Covariance matrices of the estimates; left out for D2.
    df : int, optional
        Degrees of freedom of the chi-squared statistics, which makes it D2.
    df_complete : float, optional
        Residual degrees of freedom of one table, for D1.

    Returns
    -------
    Series
        ``F``, ``df1``, ``df2``, ``p``, and ``riv``: by how much missing answers raise variances.

    Examples
    --------
    >>> import ordinalrbm as orbm
    >>> estimates, covariance = [[0.3, 0.2], [0.4, 0.1], [0.2, 0.2]], [[0.01, 0], [0, 0.01]]
    >>> bool(orbm.pool_test(estimates, [covariance] * 3)["p"] < 0.1)
    True
    >>> bool(orbm.pool_test([9.1, 7.4, 8.8], df=2)["p"] < 0.05)
    True
    """
    estimates = _matrix("results", results).to_numpy()
    m, k = estimates.shape
    if m < 2 or not np.isfinite(estimates).all() or (covariances is None) == (df is None):
        raise DataError(
            "A pooled test needs finite results of two imputed tables or more, and either their "
            "covariances (D1) or df, the degrees of freedom of chi-squared statistics (D2)."
        )
    if df is not None:
        if k != 1 or df < 1 or (estimates < 0).any():
            raise DataError(
                "With df of one or more, results are one chi-squared statistic per imputed table."
            )
        k, riv = df, (1.0 + 1.0 / m) * np.sqrt(estimates).var(ddof=1)
        found = (estimates.mean() / k - (m + 1.0) / (m - 1.0) * riv) / (1.0 + riv)
        freedom = k ** (-3.0 / m) * (m - 1.0) * (1.0 + 1.0 / max(riv, _SMALLEST_SHARE)) ** 2
    else:
        within = np.asarray(covariances, dtype=np.float64)
        if within.shape != (m, k, k) or not (np.linalg.eigvalsh(within) > 0).all():
            raise DataError(f"Give {m} covariance matrices of {k} estimates each, with positive eigenvalues.")
        mean, inverse = estimates.mean(axis=0), np.linalg.inv(within.mean(axis=0))
        away = estimates - mean
        riv = (1.0 + 1.0 / m) * float(((away @ inverse) * away).sum()) / (m - 1.0) / k
        found = mean @ inverse @ mean / k / (1.0 + riv)
        freedom = _freedom_of_wald(max(riv, _SMALLEST_SHARE), m, k, df_complete)
    p = stats.f.sf(max(found, 0.0), k, freedom)
    return pd.Series(
        {"F": found, "df1": k, "df2": freedom, "p": p, "riv": riv}, name="D1" if df is None else "D2"
    )


def _freedom_of_wald(riv: float, m: int, k: int, complete: float | None) -> float:
    t = k * (m - 1.0)
    if complete is None or t <= 4.0:
        if t <= 4.0:
            return 0.5 * t * (1.0 + 1.0 / k) * (1.0 + 1.0 / riv) ** 2
        return 4.0 + (t - 4.0) * (1.0 + (1.0 - 2.0 / t) / riv) ** 2
    a, seen = riv * t / (t - 2.0), (complete + 1.0) / (complete + 3.0) * complete
    one, two = seen - 2.0 * (1.0 + a), seen - 4.0 * (1.0 + a)
    more = (a / (1.0 + a)) ** 2 * one / two + 8.0 * a**2 * one / ((1.0 + a) * two**2)
    more += 4.0 * a**2 / ((1.0 + a) * two) + 4.0 * a**2 / (one * two) + 16.0 * a**2 * one / two**3
    return 4.0 + 1.0 / (1.0 / two + (more + 8.0 * a**2 / two**2) / (t - 4.0))


def _estimates_and_errors(result: Any) -> tuple[Any, Any]:
    if hasattr(result, "params"):
        result = (result.params, result.bse if hasattr(result, "bse") else result.cov_params())
    if not isinstance(result, tuple) or len(result) != 2:
        raise DataError(
            "The function must return a pair of estimates and standard errors, or a regression with "
            f"params and bse. Got {type(result).__name__}."
        )
    estimates, errors = result
    if np.ndim(errors) == 2:  # covariances
        errors = np.sqrt(np.diag(np.asarray(errors, dtype=np.float64)))
        if isinstance(estimates, Mapping | pd.Series):
            errors = pd.Series(errors, index=list(estimates.keys()))
    return estimates, errors


class Pooled(NamedTuple):
    """Estimates pooled by Rubin's rules, their errors and degrees of freedom.

    ``share`` is that of the variance which lies between imputations.
    """

    estimate: np.ndarray
    error: np.ndarray
    freedom: np.ndarray
    share: np.ndarray


def rubin(estimates: np.ndarray, errors: np.ndarray, complete: np.ndarray) -> Pooled:
    """Pool arrays of any shape over their first axis; what is NaN stays so.

    ``complete`` are the degrees of freedom of each estimate if nothing were missing.
    """
    m = len(estimates)
    estimate, within = estimates.mean(axis=0), (errors**2).mean(axis=0)
    if m == 1:
        return Pooled(estimate, np.sqrt(within), complete, np.zeros_like(within))
    between = estimates.var(axis=0, ddof=1) * (1.0 + 1.0 / m)
    total = within + between
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    return Pooled(estimate, np.sqrt(total), _degrees_of_freedom(share, m, complete), share)


def _complete(given: ArrayLike | None, found: pd.DataFrame) -> np.ndarray:
    """Degrees of freedom of each quantity if nothing were missing."""
    if given is None:
        return np.full(found.shape[1], np.inf)
    complete = np.asarray(given, dtype=np.float64)
    if complete.shape not in ((), (found.shape[1],)) or not (complete > 0).all():
        raise DataError(
            "df_complete must be a number above 0, or one for each quantity, or None for many. Got "
            f"{given!r}."
        )
    return np.broadcast_to(complete, found.shape[1:])


def _degrees_of_freedom(share: np.ndarray, m: int, complete: np.ndarray) -> np.ndarray:
    """Barnard and Rubin's: never more than the complete table would have."""
    many = (m - 1) / np.maximum(share, _SMALLEST_SHARE) ** 2
    finite = np.where(np.isinf(complete), 1.0, complete)
    observed = (finite + 1.0) / (finite + 3.0) * finite * (1.0 - share)
    return np.where(np.isinf(complete), many, many * observed / (many + observed))


def _matrix(what: str, values: Any) -> pd.DataFrame:
    try:
        if isinstance(values, pd.DataFrame):
            frame = values.reset_index(drop=True)
        elif (
            isinstance(values, Sequence)
            and values
            and all(isinstance(x, Mapping | pd.Series) for x in values)
        ):
            frame = pd.DataFrame([pd.Series(entry) for entry in values]).reset_index(drop=True)
        else:
            array = np.asarray(values, dtype=np.float64)
            frame = pd.DataFrame(array[:, None] if array.ndim == 1 else array)
        return frame.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The {what} are no table of numbers ({error}); give one entry per imputation, each a "
            "number or equally many numbers."
        ) from error


def _in_order(errors: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """Errors under the same names in the order of the estimates."""
    is_same = set(errors.columns) == set(like.columns) and like.columns.is_unique
    return errors[like.columns] if is_same else errors


def _check(estimates: pd.DataFrame, errors: pd.DataFrame) -> None:
    if estimates.shape != errors.shape or not estimates.columns.equals(errors.columns):
        raise DataError(
            f"There are {_counted(estimates)} of estimates, but {_counted(errors)} of standard "
            "errors; give one standard error for each estimate, under the same names."
        )
    if len(estimates) < 2:
        raise DataError(
            f"There are results of {len(estimates)} imputed tables, from which nothing can be said "
            "about the missing answers; impute at least twice, better 20 times."
        )
    for what, frame, good in (
        ("estimate", estimates, np.isfinite(estimates.to_numpy())),
        ("standard error", errors, np.isfinite(errors.to_numpy()) & (errors.to_numpy() >= 0)),
    ):
        if not good.all():
            row, column = (int(k) for k in np.argwhere(~good)[0])
            wanted = "a finite number" + ("" if what == "estimate" else " that is not negative")
            raise DataError(
                f"The {what} of {frame.columns[column]!r} in imputation {row + 1} is "
                f"{frame.iat[row, column]}; it must be {wanted}: leave the quantity out or repeat "
                "the analysis."
            )


def _counted(frame: pd.DataFrame) -> str:
    return f"{len(frame)} imputations with {frame.shape[1]} numbers each"
