"""Tables of answers, legal ones and others, in every container that users have."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from hypothesis import strategies as st

WORDS = ["never", "sometimes", "often", "Sí", "日本", "\u202eabc", "", " ", "a\nb", "NA", "0", "é" * 50]
TEXT = st.one_of(st.sampled_from(WORDS), st.text(max_size=6))
MISSING = st.sampled_from([None, np.nan, pd.NA, pd.NaT])


@dataclass
class Case:
    """A table and the settings to learn it with; `given` has the answers, cell by cell."""

    table: Any
    scales: Any = None

    def __repr__(self) -> str:
        kinds = getattr(self.table, "dtypes", None)
        try:
            return f"Case(table={self.table!r}, dtypes={kinds!r}, scales={self.scales!r})"
        except ArithmeticError:  # pandas cannot show every Decimal
            return f"Case(table={self.table.to_dict()!r}, scales={self.scales!r})"


# ---- columns ------------------------------------------------------------------------------------


def with_gaps(values: st.SearchStrategy, gap: st.SearchStrategy, n: int) -> st.SearchStrategy:
    """n values, some missing, but not all."""
    cells = st.one_of(values, values, values, gap)
    return st.tuples(st.lists(cells, min_size=n, max_size=n), values, st.integers(0, n - 1)).map(
        lambda drawn: [drawn[1] if k == drawn[2] else v for k, v in enumerate(drawn[0])]
    )


def listed(values: st.SearchStrategy, n: int) -> st.SearchStrategy:
    return st.lists(values, min_size=n, max_size=n)


SMALL = st.integers(0, 4)
HALVES = st.integers(1, 10).map(lambda k: k / 2)
NARROW = ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
NULLABLE = ["Int8", "UInt16", "Int64", "Float32", "Float64"]
ARROW = ["int32[pyarrow]", "double[pyarrow]"]


def legal_columns(n: int) -> st.SearchStrategy:
    """Columns whose order is known."""
    nan = st.just(np.nan)
    return st.one_of(
        st.tuples(listed(SMALL, n), st.sampled_from(NARROW)).map(
            lambda d: pd.Series(np.array(d[0], dtype=d[1]))
        ),
        with_gaps(SMALL, nan, n).map(lambda v: pd.Series(v, dtype="float64")),
        with_gaps(HALVES, nan, n).map(lambda v: pd.Series(v, dtype="float64")),
        st.tuples(with_gaps(SMALL, st.none(), n), st.sampled_from(NULLABLE + ARROW)).map(
            lambda d: pd.Series(d[0], dtype=d[1])
        ),
        listed(st.booleans(), n).map(lambda v: pd.Series(v, dtype=bool)),
        with_gaps(st.booleans(), st.none(), n).map(lambda v: pd.Series(v, dtype="boolean")),
        with_gaps(st.booleans(), st.none(), n).map(lambda v: pd.Series(v, dtype=object)),
        with_gaps(SMALL, MISSING, n).map(lambda v: pd.Series(v, dtype=object)),
        st.integers(-3, 3).map(lambda v: pd.Series([v] * n)),
        with_gaps(st.integers(-(2**62), 2**62), nan, n).map(lambda v: pd.Series(v, dtype="float64")),
        listed(st.integers(-(2**63), 2**63 - 1), n).map(lambda v: pd.Series(v, dtype="int64")),
        listed(st.floats(-1e6, 1e6, allow_nan=False), n).map(pd.Series),
        ordered_categories(n),
    )


@st.composite
def ordered_categories(draw: Any, n: int) -> pd.Series:
    labels = draw(
        st.one_of(
            st.lists(TEXT, min_size=1, max_size=4, unique=True),
            st.lists(st.integers(-3, 9), min_size=1, max_size=4, unique=True),
            st.just(list(pd.interval_range(0, 3))),
        )
    )
    codes = draw(st.lists(st.integers(-1, len(labels) - 1), min_size=n, max_size=n))
    return pd.Series(pd.Categorical.from_codes(codes, labels, ordered=True))


def wild_columns(n: int) -> st.SearchStrategy:
    """Columns that are mostly refused."""
    dates = st.dates(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1))
    anything = st.one_of(
        SMALL,
        TEXT,
        MISSING,
        st.booleans(),
        st.floats(),
        st.integers(),
        st.binary(max_size=3),
        dates,
        st.decimals(),
        st.fractions(max_denominator=10),
        st.complex_numbers(),
        st.lists(st.integers(), max_size=2),
        st.sampled_from([(), {}, {1: 2}, object, Decimal(2), Fraction(1, 2), np.float32(0.1)]),
    )
    return st.one_of(
        listed(anything, n).map(lambda v: pd.Series(v, dtype=object)),
        listed(st.floats(), n).map(lambda v: pd.Series(v, dtype="float64")),
        listed(st.floats(width=32), n).map(lambda v: pd.Series(v, dtype="float32")),
        listed(st.integers(0, 2**64 - 1), n).map(lambda v: pd.Series(v, dtype="uint64")),
        listed(st.integers(), n).map(lambda v: pd.Series(v, dtype=object)),
        listed(st.decimals(-10, 10, places=1), n).map(lambda v: pd.Series(v, dtype=object)),
        with_gaps(TEXT, MISSING, n).map(lambda v: pd.Series(v, dtype=object)),
        listed(TEXT, n).map(lambda v: pd.Series(v, dtype="string")),
        listed(TEXT, n).map(lambda v: pd.Series(pd.Categorical(v))),
        listed(dates, n).map(lambda v: pd.Series(pd.to_datetime(v))),
        listed(dates, n).map(lambda v: pd.Series(pd.to_datetime(v)) - pd.Timestamp("2000-01-01")),
        st.just(pd.Series(np.zeros(n, dtype=complex))),
        st.just(pd.Series([np.nan] * n)),
        st.just(pd.Series([None] * n, dtype=object)),
        st.just(pd.Series([pd.NA] * n, dtype="Int64")),
        st.just(pd.Series(pd.Categorical([None] * n, [], ordered=True))),
        st.just(pd.Series(pd.arrays.SparseArray([0.0, np.inf] * n)[:n])),
        st.just(pd.Series(pd.period_range("2020", periods=n))),
    )


# ---- tables -------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.text(max_size=4), st.sampled_from(["Q1", "age", "Wie geht's?", "", "日本", "a\nb", "{x}", "x" * 300])
)
ODD_NAMES = st.one_of(NAMES, st.integers(), st.none(), st.floats(), st.tuples(st.integers()))


@st.composite
def frames(draw: Any, wild: bool) -> pd.DataFrame:
    n, width = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    columns = [draw(legal_columns(n)) for _ in range(width)]
    if wild and draw(st.integers(0, 3)):
        columns[draw(st.integers(0, width - 1))] = draw(wild_columns(n))
    frame = pd.DataFrame(dict(enumerate(columns)))
    if draw(st.integers(0, 3)):  # else positions are the names
        odd = wild and draw(st.booleans())
        names = st.lists(ODD_NAMES if odd else NAMES, min_size=width, max_size=width, unique=not odd)
        frame.columns = pd.Index(draw(names), dtype=object, tupleize_cols=False)
    if draw(st.booleans()):
        frame.index = draw(
            st.sampled_from([pd.RangeIndex(5, 5 + n), pd.Index(["r"] * n), pd.date_range("2020", periods=n)])
        )
    return frame


SPARSE = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def _sparse(values: np.ndarray, kind: str, as_array: bool) -> Any:
    """Of these values those that are not NaN, zeros too, where the format has room for zeros."""
    row, column = np.nonzero(~np.isnan(values))
    made = sp.coo_array if as_array else sp.coo_matrix
    return made((values[row, column], (row, column)), shape=values.shape).asformat(kind)


@st.composite
def number_tables(draw: Any, wild: bool) -> Any:
    """Numbers without names: arrays, lists, sparse matrices."""
    shape = (draw(st.integers(1, 7)), draw(st.integers(1, 4)))
    cell = st.one_of(SMALL, SMALL, st.just(np.nan)) if not wild else st.one_of(SMALL, st.floats())
    flat = draw(st.lists(cell, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    values = np.array(flat, dtype=float).reshape(shape)
    if not wild:
        values[0] = np.where(np.isnan(values).all(axis=0), 2.0, values[0])
    kind = draw(st.sampled_from(["array", "list", "object", "float32", "fortran", "sparse"]))
    if kind == "list":
        return [[None if np.isnan(v) else v for v in row] for row in values.tolist()]
    if kind == "sparse":
        return _sparse(values, draw(st.sampled_from(SPARSE)), draw(st.booleans()))
    if kind == "fortran":
        return np.asfortranarray(values)
    with np.errstate(all="ignore"):
        return values.astype({"array": float, "object": object, "float32": "float32"}[kind])


@st.composite
def tables(draw: Any) -> Any:
    wild = draw(st.booleans())
    return draw(draw(st.sampled_from([frames, number_tables]))(wild))


LABELS = st.one_of(
    st.sampled_from([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0.5 * k for k in range(1, 11)], [], "abc", 5]),
    st.lists(st.one_of(st.floats(), st.integers(), TEXT, MISSING, st.booleans()), max_size=4),
)


@st.composite
def survey_cases(draw: Any) -> Case:
    table = draw(tables())
    how = draw(st.integers(0, 5))
    if how < 3:
        return Case(table)
    if how == 3:
        return Case(table, draw(LABELS))
    if how == 4 and isinstance(table, pd.DataFrame) and table.shape[1]:
        return Case(table, _scales_of_text(table))
    names = list(table.columns) if isinstance(table, pd.DataFrame) else [0, 1, "a", "Q1"]
    try:
        known = st.sampled_from([*names, "no such column", None, 99])
        return Case(table, draw(st.dictionaries(known, LABELS, max_size=2)))
    except TypeError:  # a name that cannot be a key
        return Case(table)


def _scales_of_text(table: pd.DataFrame) -> dict[Any, Any]:
    """What a careful user gives: the labels of each text column, in some order."""
    scales = {}
    for k, name in enumerate(table.columns):
        values = [v for v in table.iloc[:, k].tolist() if isinstance(v, str)]
        if values:
            scales[name] = list(dict.fromkeys(values))
    return scales


# ---- what stands in a table ---------------------------------------------------------------------


def given_answers(table: Any) -> list[tuple[int, int, Any]]:
    """Row, column and value of every answer that a table holds, read without our own code."""
    if sp.issparse(table):
        coo = table.tocoo()
        triples = zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True)
        return [(i, j, v) for i, j, v in triples if not pd.isna(v)]
    if isinstance(table, pl.DataFrame):
        rows: Any = table.rows()
    elif isinstance(table, pd.DataFrame):
        rows = zip(*(table.iloc[:, j].tolist() for j in range(table.shape[1])), strict=True)
    elif isinstance(table, np.ma.MaskedArray):
        rows = table.tolist()  # None where masked
    else:
        rows = np.array(table, dtype=object).tolist()
    return [(i, j, value) for i, row in enumerate(rows) for j, value in enumerate(row) if not pd.isna(value)]
