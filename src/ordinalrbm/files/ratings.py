"""Files that hold ratings, and tables of users and items: their columns under the names used here."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from ordinalrbm.data.columns import read_column, shown
from ordinalrbm.data.ratings import repeated_cell
from ordinalrbm.data.recency import as_times, read_times
from ordinalrbm.data.scales import OFF_SCALE, Scale, shorten
from ordinalrbm.data.triples import COLUMNS, candidates
from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import Condition, read
from ordinalrbm.schema.source import Source, StrPath

TIME, WEIGHT = "timestamp", "weight"
Duplicates = Literal["error", "last"]


@dataclass(frozen=True)
class Layout:
    """How a file of ratings is to be read; the rest is found out."""

    columns: Mapping[str, str] = field(default_factory=dict)  # names by role: user, item, rating, timestamp
    scale: Scale | None = None
    duplicates: Duplicates = "error"  # which of several ratings of one item by one user counts
    needs_times: bool = True  # if not, they are left as they are where they make no sense
    # What the command line calls the arguments of `read_rating_file`.
    options: Mapping[str, str] = field(default_factory=dict)
    weight: str | None = None  # name of the column of weights, if there is one
    where: tuple[Condition, ...] = ()  # rows of Parquet files that are read
    has_own_scales: bool = False  # whether items have scales of their own: ratings are not checked here then

    @property
    def names_columns(self) -> bool:
        """Whether a column is named that only ratings have."""
        return any(name in self.columns for name in COLUMNS)

    def saying(self, argument: str, value: str) -> str:
        """An argument with its value, as an option of the command line or as in Python."""
        if argument in self.options:
            return f"{self.options[argument]} {shlex.quote(value)}"
        return f"{argument}={value!r}"

    def or_survey(self) -> str:
        """The option for a file without ratings, where there is one."""
        return f", or {self.options['survey']} if it is a survey" if "survey" in self.options else ""


AS_IT_IS = Layout()


def read_rating_file(
    path: StrPath,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    scale: Any = None,
    duplicates: Duplicates = "error",
    where: Sequence[Condition] = (),
) -> pd.DataFrame:
    r"""Read a file of ratings into a table that the models of ratings take.

    Parameters
    ----------
    path : str or path
        What `ordinalrbm.files.formats.read` reads.
    user, item, rating, time : str, optional
        Names of the columns. By default those whose names say so, such as customer_id, movieId,
        stars and date; `ordinalrbm.data.triples` has all names that are known.
    scale : labels from lowest to highest, optional
        Needed where ratings are text; ratings that are not on it are refused.
    duplicates : {"error", "last"}
        Several ratings of one item by one user: refused; or the latest one, or the last row where
        there are no times.

    where : sequence of (column, operator, value)
        Rows of Parquet files that are read, such as ``[("year", ">=", 2020)]``; others are not looked
        into where partitions or statistics tell that they have none of these.

    Returns
    -------
    DataFrame
        With the columns user, item, rating, and timestamp where there is one; dates in text, such
        as 2024-05-01T12:00:00+02:00, have become dates.

    Raises
    ------
    DataError
        Naming the file, the column and the row, and what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "orders.csv"
    >>> _ = file.write_text("customer_id,sku,stars\n007,a,4\n007,b,5\n008,a,1\n008,a,2\n")
    >>> read_rating_file(file, duplicates="last")
      user item  rating
    0  007    a       4
    1  007    b       5
    2  008    a       2
    """
    given = {"user": user, "item": item, "rating": rating, TIME: time}
    columns = {name: column for name, column in given.items() if column is not None}
    known = scale if scale is None or isinstance(scale, Scale) else Scale(tuple(scale))
    layout = Layout(columns, known, duplicates, where=tuple(where))
    return checked_ratings(read_source(path, layout), layout)


def read_source(path: StrPath, layout: Layout = AS_IT_IS) -> Source:
    """A file that may be of ratings; of these, only the columns that are used are read if it can."""

    def choose(names: list[str]) -> list[str]:
        roles = {name: layout.columns.get(name) for name in (*COLUMNS, TIME)}
        found = {name: candidates(names, name) if said is None else [said] for name, said in roles.items()}
        used = {layout.weight, *chain.from_iterable(found.values())}
        return [name for name in names if name in used or not all(found[role] for role in COLUMNS)]

    return read(path, choose, layout.where)


# ---- columns ----------------------------------------------------------------------------------


def is_ratings(source: Source) -> bool:
    return all(candidates(source.frame.columns, name) for name in COLUMNS)


def ratings_of(source: Source, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    """The columns user, item and rating, and timestamp and weight where there are such, as they are."""
    ratings = _named(source, COLUMNS, layout)
    if layout.weight is not None:
        column = column_of(source, WEIGHT, replace(layout, columns={WEIGHT: layout.weight}))
        ratings = ratings.assign(weight=source.frame[column])
    for column in time_column(source, layout):
        ratings = ratings.assign(timestamp=source.frame[column])
    return ratings


def time_column(source: Source, layout: Layout = AS_IT_IS) -> list[str]:
    """The name of the column of times, if there is one."""
    others = {name for role, name in layout.columns.items() if role != TIME}
    found = [name for name in candidates(source.frame.columns, TIME) if name not in others]
    if TIME in layout.columns or (found and layout.needs_times):
        return [column_of(source, TIME, layout)]
    return found if len(found) == 1 else []


def pairs_of(source: Source, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    pairs = _named(source, ("user", "item"), layout)
    for name in pairs:
        _refuse_gaps(source, column_of(source, name, layout), pairs[name], name)
    return pairs


def times_of_pairs(source: Source) -> pd.Series | None:
    """When each rating would be given, if a column says so by its name."""
    names = candidates(list(source.frame.columns), "timestamp")
    return source.frame[names[0]] if len(names) == 1 else None


def _named(source: Source, names: tuple[str, ...], layout: Layout) -> pd.DataFrame:
    columns = columns_of(source, names, layout)
    for name, column in zip(names, columns, strict=True):
        refuse_nested(source, column, name)
    return source.frame[columns].set_axis(list(names), axis=1)


def refuse_nested(source: Source, column: str, name: str) -> None:
    """Refuse a column of lists or structs, as Parquet files can have them, for one of ids."""
    values = source.frame[column]
    row = values.first_valid_index() if values.dtype == object else None
    if row is None or pd.api.types.is_hashable(values[row]):
        return
    raise DataError(
        f"{source.where}, column {column!r}, row {row} (counted from 0): the {name} is {shown(values[row])}, "
        "a list or struct; give a column with one number or text in each row."
    )


def columns_of(source: Source, names: tuple[str, ...] = COLUMNS, layout: Layout = AS_IT_IS) -> list[str]:
    """The file's own names of columns that must be there."""
    columns = [column_of(source, name, layout) for name in names]
    for (name, column), (other, same) in combinations(zip(names, columns, strict=True), 2):
        if column == same:
            raise DataError(
                f"{source.where}: column {column!r} cannot be the {name} and the {other}; name another one."
            )
    return columns


def column_of(source: Source, name: str, layout: Layout = AS_IT_IS) -> str:
    there = list(source.frame.columns)
    said = layout.columns.get(name)
    if said is not None:
        if said not in there:
            raise DataError(f"{source.where} has no column {said!r}, only {there[:12]}; correct it.")
        return said
    found = candidates(there, name)
    if not found:
        raise DataError(
            f"{source.where} has no column {name!r}, only {there[:12]}; rename a column, or say "
            f"which it is with {layout.saying(_argument(name), 'COLUMN')}."
        )
    if len(found) > 1:
        raise DataError(
            f"{source.where}: the columns {found[0]!r} and {found[1]!r} could both be the {name} "
            f"of a rating; say which it is, such as {layout.saying(_argument(name), found[0])}"
            f"{layout.or_survey()}."
        )
    return found[0]


def _argument(name: str) -> str:
    return "time" if name == TIME else name


# ---- checks, with the location in the file -----------------------------------------------------


def checked_ratings(source: Source, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    """The ratings of a file as `ratings_of` has them, complete, on their scale, each pair once."""
    ratings = ratings_of(source, layout)
    for name in COLUMNS:
        _refuse_gaps(source, column_of(source, name, layout), ratings[name], name)
    ratings = ratings.assign(rating=_on_scale(source, ratings["rating"], layout))
    if TIME in ratings:
        ratings = _with_times(source, ratings, layout)
    return _without_repeats(source, ratings, layout)


def _location(source: Source, name: str, row: int, layout: Layout) -> str:
    column = column_of(source, name, layout)
    return f"{source.where}, column {column!r}, row {row} (counted from 0)"


def _refuse_gaps(source: Source, column: str, values: pd.Series, name: str) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        where = f"{source.where}, column {column!r}, row {int(missing.argmax())} (counted from 0)"
        raise DataError(f"{where}: the {name} is missing; fill it in or remove the row.")


def _on_scale(source: Source, values: pd.Series, layout: Layout) -> pd.Series:
    """The ratings, numbers even where the file had to keep them as text; all on the given scale."""
    scale = layout.scale
    if layout.has_own_scales or (isinstance(values.dtype, pd.CategoricalDtype) and scale is None):
        return values
    is_text = values.dtype == object or isinstance(values.dtype, pd.StringDtype)
    if is_text and (scale is None or scale.is_numeric):
        values = _as_numbers(source, values, layout)
    if scale is None:
        return values
    codes, distinct = pd.factorize(values)
    levels = scale.match(np.asarray(distinct, dtype=object))
    if (levels == OFF_SCALE).any():
        row = int((levels[codes] == OFF_SCALE).argmax())
        raise DataError(
            f"{_location(source, 'rating', row, layout)}: the rating {shown(values.iloc[row])} is not "
            f"on the scale {shorten(scale.labels)}; correct it{_or_whole_scale(layout)}."
        )
    return values


def _or_whole_scale(layout: Layout) -> str:
    """Nothing where a model knows the scale, which cannot be changed."""
    is_known = bool(layout.options) and "scale" not in layout.options
    how = layout.saying("scale", "LOWEST,...,HIGHEST")
    return "" if is_known else f", or give the whole scale with {how}"


def _as_numbers(source: Source, values: pd.Series, layout: Layout) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce")
    unread = numbers.isna().to_numpy()
    if not unread.any():
        return numbers
    row = int(unread.argmax())
    where, value = _location(source, "rating", row, layout), shown(values.iloc[row])
    if layout.scale is not None:
        labels = shorten(layout.scale.labels)
        raise DataError(
            f"{where}: the rating {value} is not on the scale {labels}; correct it{_or_whole_scale(layout)}."
        )
    how = layout.saying("scale", "LOWEST,...,HIGHEST")
    if not unread.all():
        raise DataError(
            f"{where}: the rating {value} is no number; correct it, or give all labels in their "
            f"order with {how}."
        )
    labels = shorten(sorted(map(str, values.unique())))
    raise DataError(
        f"{where}: the ratings are text, {labels}, whose order cannot be guessed; give it with {how}."
    )


def _with_times(source: Source, ratings: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    where = f"{source.where}, column {column_of(source, TIME, layout)!r}, row"
    try:
        return ratings.assign(timestamp=as_times(ratings[TIME], where, "leave the column out"))
    except DataError:
        if layout.needs_times or TIME in layout.columns:
            raise
        return ratings  # models leave out what they cannot read, and tell how many have none


def _without_repeats(source: Source, ratings: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    repeat = repeated_cell(*_cells(ratings))
    if repeat is None:
        return ratings
    if layout.duplicates == "error":
        first, second = repeat
        user, item = (shown(ratings[name].iloc[second]) for name in ("user", "item"))
        raise DataError(
            f"{source.where}, row {second} (counted from 0): user {user} has rated item "
            f"{item} before, in row {first}; remove one of them, average them, or choose "
            f"{layout.saying('duplicates', 'last')}."
        )
    times = None
    with suppress(DataError):  # those that need times have been told
        times = read_times(ratings[TIME]) if TIME in ratings else None
    return one_of_each(ratings, times).reset_index(drop=True)


def one_of_each(ratings: pd.DataFrame, times: np.ndarray | None) -> pd.DataFrame:
    """Of each pair of user and item the latest row, or without times the last; rows keep their order."""
    user, item = _cells(ratings)
    cell = user.astype(np.int64) * (int(item.max(initial=0)) + 1) + item
    order = np.arange(len(ratings)) if times is None else np.argsort(times, kind="stable")
    repeated = pd.Series(cell[order]).duplicated(keep="last").to_numpy()
    return ratings.iloc[np.sort(order[~repeated])]


def _cells(ratings: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the users and of the items, in any order."""
    user, item = (read_column(ratings[name], name).coded().codes for name in ("user", "item"))
    return user, item


# ---- tables of users and items ------------------------------------------------------------------


def read_side_table(path: StrPath, what: str, rated: pd.Series, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    r"""A table of users or items, as ``fit`` takes it, from any file that is read.

    Ids are in the column that ratings have them in, or in one with a usual name, and get the type of
    those that are rated. Codes that have labels in SPSS or Stata become these. Text with bars, such as
    "Action|Comedy", becomes lists.
    """
    source = read(path)
    column = layout.columns.get(what, "")
    if column not in source.frame:  # then ratings have the ids in another one, and the name must say so
        column = column_of(source, what, Layout(options=layout.options))
    ids = source.frame[column]
    _check_ids(source, column, ids, what)
    if what in source.frame and column != what:
        raise DataError(
            f"{source.where} has the columns {column!r} and {what!r}, which both look like ids; "
            "rename or remove one."
        )
    frame = _with_labels(source).rename(columns={column: what})
    for name in frame.columns[frame.columns != what]:  # text files cannot hold lists
        is_text = pd.api.types.infer_dtype(frame[name], skipna=True) == "string"
        if is_text and frame[name].str.contains("|", regex=False, na=False).any():
            frame[name] = frame[name].str.split("|")
    are_text = pd.api.types.is_string_dtype(rated) or rated.dtype == object
    return frame.assign(**{what: as_text_like(are_text, ids)})


def _check_ids(source: Source, column: str, ids: pd.Series, what: str) -> None:
    refuse_nested(source, column, what)
    _refuse_gaps(source, column, ids, what)
    repeated = ids.duplicated().to_numpy()
    if repeated.any():
        row = int(repeated.argmax())
        first = int((ids == ids.iloc[row]).to_numpy().argmax())
        raise DataError(
            f"{source.where}, column {column!r}, row {row} (counted from 0): the {what} "
            f"{shown(ids.iloc[row])} is there before, in row {first}; remove one of them."
        )


def _with_labels(source: Source) -> pd.DataFrame:
    """Codes that all have labels as these: they are names of groups, and no amounts."""
    frame = source.frame
    for name, labels in source.value_labels.items():
        if frame[name].dropna().isin(list(labels)).all():
            frame = frame.assign(**{name: frame[name].map(labels)})
    return frame


def as_text_like(wants_text: bool, ids: pd.Series) -> pd.Series:
    """Whole numbers as text, where others of the same ids are text; else as they are."""
    return ids.astype(str) if wants_text and pd.api.types.is_integer_dtype(ids) else ids
