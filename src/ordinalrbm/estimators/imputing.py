"""What `CumulativeRBM.impute` is told, and the forms in which it gives its tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data import never_asked as asking
from ordinalrbm.data import tables
from ordinalrbm.data.frames import Frame, as_frame, below_each_other, frame_of
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import Questionnaire
from ordinalrbm.data.tables import IMPUTATION, Encoded
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.estimators.validation import check_choice, check_weights, check_whole
from ordinalrbm.vector.multiple import FEWEST_ROWS


def check_options(rule: Any, n_draws: Any, parameters: Any, stacked: bool) -> None:
    """Refuse options of `impute` that are none, or do not go together."""
    check_choice("rule", rule, ("median", "mode"))
    check_choice("parameters", parameters, ("drawn", "fixed"))
    if n_draws is not None:
        check_whole("n_draws", n_draws, 1)
    elif stacked:
        raise DataError("Only draws can be stacked; give n_draws, for example 20, or leave it out.")


def known_groups(X: Any, known: Questionnaire) -> pd.DataFrame | None:
    """Groups that a table tells of: what a survey file knows of people, or its other columns."""
    if isinstance(X, Encoded) and X.people is not None:
        return X.people
    table = tables.as_table(X)
    others = [j for j, kind in enumerate(known.kinds) if kind != "ordinal"]
    columns = {table.name(j): pd.Series(table.column(j)).reset_index(drop=True) for j in others}
    return pd.DataFrame(columns) if columns else None


def never_asked_cells(X: Any, groups: Any, questions: list[int]) -> np.ndarray:
    """(rows, questions) whether a gap is to stay because nobody in the group was asked; warns.

    ``questions`` are the columns that are no background.
    """
    table = tables.as_table(X)
    found = asking.never_asked(X, groups)
    found = found[found["question"].isin([table.name(j) for j in questions])]
    if found.empty:
        return np.zeros((1, 1), dtype=bool)
    warnings.warn(
        f"{asking.in_words(found)} These cells stay empty; fill_never_asked=True fills them.",
        stacklevel=user_stacklevel(),
    )
    return asking.never_asked_cells(X, groups, found)[:, questions]


def weights_to_draw_by(
    observations: Observations, sample_weight: Any, names: Sequence[Any]
) -> np.ndarray | None:
    """Row weights for drawing parameters; refuses tables from which they cannot be drawn."""
    weight = check_weights(sample_weight, observations.n_rows)
    counts = observations.row_counts > 0
    n_rows = int((counts if weight is None else counts & (weight > 0)).sum())
    remedy = "give the table that the model was fitted on, or parameters='fixed'."
    if n_rows < FEWEST_ROWS:
        raise DataError(
            f"X has {n_rows} rows with answers, too few to draw parameters from (at least "
            f"{FEWEST_ROWS}); {remedy}"
        )
    unanswered = np.flatnonzero(observations.column_counts == 0)
    if unanswered.size:
        raise DataError(
            f"Column {names[unanswered[0]]!r} has no answers in X to draw its parameters from; "
            f"{remedy}"
        )
    return weight


def stack(tables: Sequence[Any]) -> Any:
    """One table of several below each other, counted from 0 in a first column."""
    number = np.repeat(np.arange(len(tables)), [table.shape[0] for table in tables])
    frames = [_as_frame(table) for table in tables]
    if IMPUTATION in frames[0].names:
        raise DataError(
            f"X has a column {IMPUTATION!r} already, the name of the one that counts imputations; "
            "rename it."
        )
    return below_each_other([frame.native for frame in frames], IMPUTATION, number)


def _as_frame(table: Any) -> Frame:
    if isinstance(table, Encoded):
        table = table.to_frame()
    return as_frame(table) or frame_of(pd.DataFrame(table), "X")
