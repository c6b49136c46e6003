"""Tables of what is known of users or items, as files."""

from __future__ import annotations

import pandas as pd

from ordinalrbm.data.columns import shown
from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import read
from ordinalrbm.files.ratings import AS_IT_IS, Layout, column_of, refuse_nested
from ordinalrbm.schema.source import Source, StrPath


def read_side_table(path: StrPath, what: str, rated: pd.Series, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    r"""A table of users or items, as ``fit`` takes it, from any file that is read.

    Parameters
    ----------
    path : str or path
        A line for each; ids are in the column that ratings have them in, or in one with a usual
        name (`ordinalrbm.data.column_roles`). Codes that have labels in SPSS or Stata become these.
    what : "user" or "item"
    rated : Series
        The ids of the ratings, whose type the ids of the table get.
    layout : Layout, optional
        What is said of the columns of the ratings.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("customer_id,age\n1,20\n2,30\n")
    >>> read_side_table(file, "user", pd.Series(["1", "007"]))
      user  age
    0    1   20
    1    2   30
    """
    source = read(path)
    column = _id_column(source, what, layout)
    ids = source.frame[column]
    _check_ids(source, column, ids, what)
    if what in source.frame and column != what:
        raise DataError(
            f"{source.where} has the columns {column!r} and {what!r}, which both look like ids; "
            "rename or remove one."
        )
    frame = _with_labels(source).rename(columns={column: what})
    return frame.assign(**{what: as_text_like(_is_text(rated), ids)})


def _id_column(source: Source, what: str, layout: Layout) -> str:
    """The column that ratings have the ids in, if there is one, else one whose name says so."""
    said = layout.columns.get(what)
    if said is not None and said in source.frame:
        return said
    return column_of(source, what, Layout(options=layout.options))


def _check_ids(source: Source, column: str, ids: pd.Series, what: str) -> None:
    refuse_nested(source, column, what)
    where = f"{source.where}, column {column!r}, row"
    missing, repeated = ids.isna().to_numpy(), ids.duplicated().to_numpy()
    if missing.any():
        raise DataError(
            f"{where} {int(missing.argmax())} (counted from 0): the {what} is missing; fill it in "
            "or remove the row."
        )
    if repeated.any():
        row = int(repeated.argmax())
        first = int((ids == ids.iloc[row]).to_numpy().argmax())
        raise DataError(
            f"{where} {row} (counted from 0): the {what} {shown(ids.iloc[row])} is there before, "
            f"in row {first}; remove one of them."
        )


def _with_labels(source: Source) -> pd.DataFrame:
    """Codes that all have labels as these: they are names of groups, and no amounts."""
    frame = source.frame
    for name, labels in source.value_labels.items():
        if frame[name].dropna().isin(list(labels)).all():
            frame = frame.assign(**{name: frame[name].map(labels)})
    return frame


def as_text_like(wants_text: bool, ids: pd.Series) -> pd.Series:
    """Whole numbers as text, where others of the same ids are text; else as they are.

    Examples
    --------
    >>> as_text_like(True, pd.Series([7, 12])).tolist()
    ['7', '12']
    """
    return ids.astype(str) if wants_text and pd.api.types.is_integer_dtype(ids) else ids


def _is_text(ids: pd.Series) -> bool:
    return bool(pd.api.types.is_string_dtype(ids) or ids.dtype == object)
