"""Questions that a group of respondents was never asked, so that all their answers are missing.

Such cells are no gaps: answers of other groups say nothing about a question that one country did not
have. A few respondents may all have skipped a question by chance, so a question counts as never
asked only where that is too unlikely.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ordinalrbm.data.frames import TableLike, as_frame, plain_series
from ordinalrbm.data.tables import Table, as_table
from ordinalrbm.errors import DataError, user_stacklevel

# How often chance alone may pass for "never asked", over all questions and groups.
_BY_CHANCE = 0.01
# Fewer respondents say nothing about their group: one who breaks off leaves many questions out.
_MOST_TOLD = 3
_FEWEST = 5


def never_asked(X: TableLike, groups: TableLike) -> pd.DataFrame:
    """Find questions that everybody in a group has left unanswered, beyond chance.

    Parameters
    ----------
    X : table of answers
        As :meth:`ordinalrbm.CumulativeRBM.fit` takes it.
    groups : Series, array or data frame with the rows of X
        The group of each person, for instance the country; several columns are examined one after
        the other. People whose group is missing belong to none.

    Returns
    -------
    DataFrame, one row per question and group
        ``column`` of the groups, ``group``, ``question`` (name, or position in an array) and
        ``people``, the number of people in the group who answered anything at all.

    Notes
    -----
    If a share p of all others answered the question, n people who were asked all leave it out with
    probability (1 - p)^n. It is taken for never asked where that is below 0.01, divided by the
    number of questions and groups, in groups of at least five people.

    Examples
    --------
    >>> import pandas as pd, ordinalrbm as orbm
    >>> X = pd.DataFrame({"tea": [1, 2, 2] * 20, "beer": [1, 2, None] * 20})
    >>> orbm.never_asked(X, pd.Series(["cz", "uk", "ir"] * 20, name="country"))
        column group question  people
    0  country    ir     beer      20
    """
    table = as_table(X)
    answered = np.stack([~table.read(j).missing for j in range(table.n_columns)], axis=1)
    names = [table.name(j) for j in range(table.n_columns)]
    columns = group_columns(groups, table.n_rows)
    chance = _BY_CHANCE / max(1, len(columns))
    lines = [
        (column, group, names[j], int(size))
        for column, values in columns.items()
        for group, size, questions in _in_one_column(answered, values, chance)
        for j in questions
    ]
    return pd.DataFrame(lines, columns=["column", "group", "question", "people"])


def never_asked_cells(X: TableLike, groups: TableLike, found: pd.DataFrame) -> np.ndarray:
    """(rows, columns) whether the respondent was never asked, by the result of `never_asked`."""
    table = as_table(X)
    position = {table.name(j): j for j in range(table.n_columns)}
    columns = group_columns(groups, table.n_rows)
    cells = np.zeros((table.n_rows, table.n_columns), dtype=bool)
    for line in found.itertuples(index=False):
        there = (columns[line.column] == line.group).fillna(False).to_numpy(dtype=bool)
        cells[there, position[line.question]] = True
    return cells


def groups_in(table: Table, columns: Sequence[int]) -> pd.DataFrame | None:
    """The groups of a table's rows: those of its survey file, or else these columns."""
    if table.kind == "encoded" and table.source.groups is not None:
        return table.source.groups
    found = {table.name(j): pd.Series(table.column(j)).reset_index(drop=True) for j in columns}
    return pd.DataFrame(found) if found else None


def cells_to_leave(table: Table, groups: TableLike, questions: list[int]) -> np.ndarray:
    """(rows, questions) whether a cell stays empty because its group was never asked; warns of them."""
    found = never_asked(table, groups)
    found = found[found["question"].isin([table.name(j) for j in questions])]
    if found.empty:
        return np.zeros((1, 1), dtype=bool)
    warnings.warn(
        f"{in_words(found)} These cells stay empty; fill_never_asked=True fills them.",
        stacklevel=user_stacklevel(),
    )
    return never_asked_cells(table, groups, found)[:, questions]


def in_words(found: pd.DataFrame) -> str:
    lines = [
        f"{line.question!r} where {line.column} is {line.group} ({line.people:,} people)"
        for line in found.head(_MOST_TOLD).itertuples(index=False)
    ]
    more = f" and {len(found) - _MOST_TOLD:,} more" if len(found) > _MOST_TOLD else ""
    return f"Never asked: {', '.join(lines)}{more}."


def group_columns(groups: TableLike, n_rows: int) -> dict[Any, pd.Series]:
    frame = as_frame(groups)
    if frame is not None:
        columns = {name: pd.Series(frame.column(j)) for j, name in enumerate(frame.names)}
    else:
        single = groups if isinstance(groups, pd.Series) else pd.Series(plain_series(groups))
        columns = {"group" if single.name is None else single.name: single}
    for name, values in columns.items():
        if len(values) != n_rows:
            raise DataError(
                f"The groups {name!r} have {len(values)} rows, but X has {n_rows}; give the group "
                "of each row."
            )
    return {name: values.reset_index(drop=True) for name, values in columns.items()}


def _in_one_column(
    answered: np.ndarray, values: pd.Series, chance: float
) -> list[tuple[Any, int, np.ndarray]]:
    code, group = pd.factorize(values, sort=False)
    some = answered.any(axis=1) & (code >= 0)  # without any answer, a respondent was asked nothing
    if not some.any():
        return []
    size = np.bincount(code[some], minlength=len(group))
    members = sp.csr_array(
        (np.ones(some.sum()), (code[some], np.flatnonzero(some))), shape=(len(group), len(code))
    )
    counts = members @ answered.astype(np.float64)
    others = (size.sum() - size)[:, None]
    # Half a person more who has answered and half a one who has not: no share is quite one.
    share = (counts.sum(axis=0) - counts + 0.5) / (others + 1.0)
    log_chance = size[:, None] * np.log1p(-share)
    never = (counts == 0) & (log_chance < np.log(chance / counts.size))
    never &= (size >= _FEWEST)[:, None] & (others > 0)
    return [(group[g], size[g], np.flatnonzero(never[g])) for g in np.flatnonzero(never.any(axis=1))]
