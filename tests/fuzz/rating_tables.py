"""Tables of ratings, legal ones and others, in every container that users have."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from answer_tables import LABELS
from hypothesis import strategies as st

NAMES = ["anne", "Bert", "", " ", "日本", "u\x00v", "\u202e", "all", "1", "é" * 40, "a\nb"]
TEXT_IDS = st.one_of(st.sampled_from(NAMES), st.text(max_size=4))
ODD_IDS = st.one_of(
    st.integers(-5, 5),
    TEXT_IDS,
    st.sampled_from(
        [
            None,
            np.nan,
            pd.NA,
            pd.NaT,
            2**63,
            -(2**70),
            0.5,
            1e300,
            np.inf,
            True,
            b"id",
            (1, 2),
            datetime.date(2020, 1, 1),
            Decimal(3),
            1 + 2j,
            frozenset([1]),
            [1],
            {},
            np.int8(3),
            np.str_("x"),
            np.float32(2),
        ]
    ),
)
LEGAL_IDS = [st.integers(0, 3), st.integers(-(2**63), 2**63 - 1), TEXT_IDS, st.integers(0, 5).map(float)]
STARS = [
    st.integers(1, 5),
    st.integers(1, 10).map(lambda k: k / 2),
    st.integers(-2, 2).map(float),
    st.booleans(),
    st.floats(-1e6, 1e6, allow_nan=False),
]
ODD_STARS = st.one_of(
    st.floats(),
    st.text(max_size=2),
    st.integers(),
    st.sampled_from(
        [
            None,
            pd.NA,
            np.inf,
            -np.inf,
            b"5",
            (5,),
            [5],
            1 + 2j,
            Decimal("2.5"),
            Decimal("Infinity"),
            datetime.date(2020, 1, 1),
            2**70,
            {},
        ]
    ),
)


@dataclass
class Case:
    """Ratings, the scales that are given, and how many ratings they are, if they are any."""

    ratings: Any
    n: int
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = self.ratings.tocoo() if sp.issparse(self.ratings) else self.ratings
        kinds = getattr(self.ratings, "dtypes", None)
        return f"Case({type(self.ratings)}, {shown!r}, dtypes={kinds!r}, {self.n}, {self.options})"


@st.composite
def triples(draw: Any, wild: bool) -> tuple[list[Any], list[Any], list[Any]]:
    """Users, items and ratings; no pair twice, unless they are wild."""
    user_ids, item_ids = draw(st.sampled_from(LEGAL_IDS)), draw(st.sampled_from(LEGAL_IDS))
    stars = draw(st.sampled_from(STARS))
    n = draw(st.integers(1, 9))
    pairs = draw(st.lists(st.tuples(user_ids, item_ids), min_size=1, max_size=n, unique=True))
    users, items = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    ratings = draw(st.lists(stars, min_size=len(pairs), max_size=len(pairs)))
    for _ in range(draw(st.integers(1, 2)) if wild else 0):
        column, odd = draw(st.sampled_from([(users, ODD_IDS), (items, ODD_IDS), (ratings, ODD_STARS)]))
        column[draw(st.integers(0, len(column) - 1))] = draw(odd)
        if draw(st.integers(0, 4)) == 0:  # somebody rates twice
            for column in (users, items, ratings):
                column.append(column[0])
    return users, items, ratings


def _series(values: list[Any], draw: Any) -> Any:
    """The values in one of the types that can hold them."""
    kinds = ["object", None, "category", "Int64", "string", "float32", "int64[pyarrow]", "ordered"]
    kind = draw(st.sampled_from(kinds))
    try:
        if kind == "ordered":
            return pd.Series(pd.Categorical(values, list(dict.fromkeys(values)), ordered=True))
        with np.errstate(all="ignore"):
            series = pd.Series(values, dtype=kind)
    except (TypeError, ValueError, OverflowError, ArithmeticError, NotImplementedError):
        return pd.Series(values, dtype=object)
    same = [a is b or _equal(a, b) for a, b in zip(values, series.tolist(), strict=True)]
    return series if all(same) else pd.Series(values, dtype=object)


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except (TypeError, ValueError):
        return False


@st.composite
def frames(draw: Any, wild: bool) -> Any:
    users, items, ratings = draw(triples(wild))
    frame = pd.DataFrame(
        {"user": _series(users, draw), "item": _series(items, draw), "rating": _series(ratings, draw)}
    )
    change = draw(st.integers(0, 11)) if wild else 0
    if draw(st.booleans()):
        frame["timestamp"] = draw(st.sampled_from([0, "x", None]))
    if change == 1:
        return frame.drop(columns=draw(st.sampled_from(["user", "item", "rating"])))
    if change == 2:
        return pd.concat([frame, frame[["rating"]]], axis=1)
    if change == 3:
        return frame.iloc[:0]
    if change == 4:
        return frame.iloc[[*range(len(frame))] * 2]
    if draw(st.booleans()):
        frame.index = pd.Index(["r"] * len(frame))
    return frame


@st.composite
def sparse_matrices(draw: Any, wild: bool) -> tuple[Any, int]:
    """A sparse matrix, and the number of entries that it was made from."""
    shape = (draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    cells = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    pairs = draw(st.lists(cells, min_size=1, max_size=8, unique=not wild))
    values = st.one_of(st.integers(0, 5), st.floats()) if wild else st.integers(0, 5)
    data = draw(st.lists(values, min_size=len(pairs), max_size=len(pairs)))
    row, column = zip(*pairs, strict=True)
    kind = draw(st.sampled_from([float, "float32"] if wild else [float, int, "int8"]))
    with np.errstate(all="ignore"):
        coo = sp.coo_array((np.array(data, dtype=float).astype(kind), (row, column)), shape=shape)
    form = draw(st.sampled_from(["coo", "csr", "csc", "bsr", "dia", "lil", "dok"]))
    return coo.asformat(form), coo.asformat(form).nnz


@st.composite
def rating_data(draw: Any) -> tuple[Any, int]:
    """Ratings in some container, and how many they are."""
    wild = draw(st.booleans())
    kind = draw(st.integers(0, 7))
    if kind < 5:
        frame = draw(frames(wild))
        return frame, len(frame)
    if kind < 7:
        users, items, ratings = draw(triples(wild))
        return (users, items, ratings), len(users)
    return draw(sparse_matrices(wild))


@st.composite
def rating_cases(draw: Any) -> Case:
    data, n = draw(rating_data())
    options: dict[str, Any] = {}
    if draw(st.integers(0, 4)) == 0:
        options["scale"] = draw(
            st.one_of(st.just([1, 2, 3, 4, 5]), st.just([0, 1, 2, 3, 4, 5, 6, 7]), LABELS)
        )
    if draw(st.integers(0, 5)) == 0:
        keys = st.one_of(st.integers(0, 3), st.sampled_from([*NAMES, None, 0.5, (1,)]))
        own = st.one_of(st.just([1, 2, 3, 4, 5]), LABELS)
        options["item_scales"] = draw(
            st.one_of(st.dictionaries(keys, own, max_size=2), st.sampled_from([[], 5, "abc"]))
        )
    return Case(data, n, options)
