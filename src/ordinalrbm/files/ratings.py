"""Files that hold ratings, and tables of users and items: their columns under the names used here.

Several processes may bring ratings together, each some of them, perhaps of the same Parquet files.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from ordinalrbm.data.columns import read_column, shown
from ordinalrbm.data.ratings import repeated_cell
from ordinalrbm.data.recency import as_times, read_times
from ordinalrbm.data.scales import OFF_SCALE, Scale, shorten
from ordinalrbm.data.triples import COLUMNS, Part, candidates
from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import Condition, format_on_disk, frame_of_arrow, parquet, read, reading
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.places import place
from ordinalrbm.schema.schema import Schema
from ordinalrbm.schema.source import Source, StrPath, name_of

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
        Several ratings of one item by one user: refused; or the latest one, which is the last row where
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


def refuse_likely_ratings(source: Source, schema: Schema, layout: Layout) -> None:
    """Refuse a survey of one question at most, beside columns that repeat as ids in ratings do."""
    frame, questions = source.frame, schema.names("ordinal")

    def repeats(values: pd.Series) -> bool:
        is_plain = pd.api.types.is_string_dtype(values) or pd.api.types.is_numeric_dtype(values)
        return is_plain and values.notna().all() and 1 < values.nunique() < len(values)

    ids = [name for name in frame if name not in questions and repeats(frame[name])]
    if len(questions) > 1 or len(ids) < 2:
        return
    options = " ".join(layout.saying(name, "COLUMN") for name in COLUMNS)
    raise DataError(
        f"{source.where} looks like ratings under other names, with {len(questions)} ordered questions "
        f"beside columns such as {ids[0]!r} and {ids[1]!r}; add {options}{layout.or_survey()}."
    )


def ratings_of(source: Source, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    """The columns user, item and rating, and timestamp and weight where there are such, as they are."""
    return _named(source, columns_of(source, layout))


def pairs_of(source: Source, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    columns = _different(source, ("user", "item"), layout)
    pairs = _named(source, columns)
    for name in pairs:
        _refuse_gaps(source, columns[name], pairs[name], name)
    return pairs


def times_of_pairs(source: Source) -> pd.Series | None:
    """When each rating would be given, if a column says so by its name."""
    names = candidates(list(source.frame.columns), "timestamp")
    return source.frame[names[0]] if len(names) == 1 else None


def columns_of(source: Source, layout: Layout = AS_IT_IS) -> dict[str, str]:
    """The file's own name of the column of each role; of weights and times where there are such."""
    columns = _different(source, COLUMNS, layout)
    times = [name for name in candidates(source.frame.columns, TIME) if name not in columns.values()]
    if layout.weight is not None:
        columns[WEIGHT] = column_of(source, WEIGHT, replace(layout, columns={WEIGHT: layout.weight}))
    if TIME in layout.columns or (times and layout.needs_times):
        columns[TIME] = column_of(source, TIME, layout)
    elif len(times) == 1:
        columns[TIME] = times[0]
    return columns


def _different(source: Source, names: tuple[str, ...], layout: Layout) -> dict[str, str]:
    columns = {name: column_of(source, name, layout) for name in names}
    for (name, column), (other, same) in combinations(columns.items(), 2):
        if column == same:
            raise DataError(
                f"{source.where}: column {column!r} cannot be the {name} and the {other}; name another one."
            )
    return columns


def _named(source: Source, columns: dict[str, str]) -> pd.DataFrame:
    for name, column in columns.items():
        refuse_nested(source, column, name)
    return source.frame[list(columns.values())].set_axis(list(columns), axis=1)


def refuse_nested(source: Source, column: str, name: str) -> None:
    """Refuse a column of lists or structs, as Parquet files can have them, for one of ids."""
    values = source.frame[column]
    row = values.first_valid_index() if values.dtype == object else None
    if row is None or pd.api.types.is_hashable(values[row]):
        return
    raise DataError(
        f"{_location(source, column, row)}: the {name} is {shown(values[row])}, "
        "a list or struct; give a column with one number or text in each row."
    )


def column_of(source: Source, name: str, layout: Layout = AS_IT_IS) -> str:
    there = list(source.frame.columns)
    said = layout.columns.get(name)
    if said is not None:
        if said not in there:
            raise DataError(f"{source.where} has no column {said!r}, only {there[:12]}; correct it.")
        return said
    found, argument = candidates(there, name), "time" if name == TIME else name
    if not found:
        raise DataError(
            f"{source.where} has no column {name!r}, only {there[:12]}; rename a column, or say "
            f"which it is with {layout.saying(argument, 'COLUMN')}."
        )
    if len(found) > 1:
        raise DataError(
            f"{source.where}: the columns {found[0]!r} and {found[1]!r} could both be the {name} "
            f"of a rating; say which it is, such as {layout.saying(argument, found[0])}"
            f"{layout.or_survey()}."
        )
    return found[0]


# ---- checks, with the location in the file -----------------------------------------------------


def checked_ratings(source: Source, layout: Layout = AS_IT_IS) -> pd.DataFrame:
    """The ratings of a file as `ratings_of` has them, complete, on their scale, each pair once."""
    columns = columns_of(source, layout)
    ratings = _named(source, columns)
    for name in COLUMNS:
        _refuse_gaps(source, columns[name], ratings[name], name)
    ratings = ratings.assign(rating=_on_scale(source, columns["rating"], ratings["rating"], layout))
    if TIME in ratings:
        where = f"{source.where}, column {columns[TIME]!r}, row"
        # Otherwise models leave out what they cannot read, and tell how many ratings have no time.
        with nullcontext() if layout.needs_times or TIME in layout.columns else suppress(DataError):
            ratings = ratings.assign(timestamp=as_times(ratings[TIME], where, "leave the column out"))
    return _without_repeats(source, ratings, layout)


def _refuse_gaps(source: Source, column: str, values: pd.Series, name: str) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        where = _location(source, column, int(missing.argmax()))
        raise DataError(f"{where}: the {name} is missing; fill it in or remove the row.")


def _location(source: Source, column: str, row: int) -> str:
    return f"{source.where}, column {column!r}, row {row} (counted from 0)"


def _on_scale(source: Source, column: str, values: pd.Series, layout: Layout) -> pd.Series:
    """The ratings, numbers even where the file had to keep them as text; all on the given scale."""
    scale = layout.scale
    if layout.has_own_scales or (isinstance(values.dtype, pd.CategoricalDtype) and scale is None):
        return values
    how = layout.saying("scale", "LOWEST,...,HIGHEST")
    is_text = values.dtype == object or isinstance(values.dtype, pd.StringDtype)
    if is_text and (scale is None or scale.is_numeric):
        numbers = pd.to_numeric(values, errors="coerce")
        is_number = numbers.notna().to_numpy()
        if scale is None and not is_number.all():
            row = int(is_number.argmin())
            raise DataError(
                f"{_location(source, column, row)}: the rating {shown(values.iloc[row])} is no "
                f"number; correct it, or give all labels in their order with {how}."
            )
        values = numbers if is_number.all() else numbers.astype(object).where(is_number, values)
    if scale is None:
        return values
    codes, distinct = pd.factorize(values)
    levels = scale.match(np.asarray(distinct, dtype=object))
    if (levels == OFF_SCALE).any():
        row = int((levels[codes] == OFF_SCALE).argmax())
        # A model knows its scale, which cannot be changed.
        is_known = bool(layout.options) and "scale" not in layout.options
        remedy = "" if is_known else f", or give the whole scale with {how}"
        raise DataError(
            f"{_location(source, column, row)}: the rating {shown(values.iloc[row])} is not "
            f"on the scale {shorten(scale.labels)}; correct it{remedy}."
        )
    return values


def _without_repeats(source: Source, ratings: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    user, item = (read_column(ratings[name], name).coded().codes for name in ("user", "item"))
    repeat = repeated_cell(user, item)
    if repeat is None:
        return ratings
    if layout.duplicates == "error":
        first, second = repeat
        user, item = (shown(ratings[name].iloc[second]) for name in ("user", "item"))
        raise DataError(
            f"{source.where}, row {second} (counted from 0): user {user} has rated item "
            f"{item} before, in row {first}; remove one of them, or choose "
            f"{layout.saying('duplicates', 'last')}."
        )
    times = None
    with suppress(DataError):  # those that need times have been told
        times = read_times(ratings[TIME]) if TIME in ratings else None
    return latest_of_each(ratings, times).reset_index(drop=True)


def latest_of_each(ratings: pd.DataFrame, times: np.ndarray | None) -> pd.DataFrame:
    """Of each pair of user and item the latest row, or without times the last; rows keep their order."""
    order = np.arange(len(ratings)) if times is None else np.argsort(times, kind="stable")
    repeated = ratings.iloc[order].duplicated(["user", "item"], keep="last").to_numpy()
    return ratings.iloc[np.sort(order[~repeated])]


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
    frame = _with_categories(source).rename(columns={column: what})
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
            f"{_location(source, column, row)}: the {what} "
            f"{shown(ids.iloc[row])} is there before, in row {first}; remove one of them."
        )


def _with_categories(source: Source) -> pd.DataFrame:
    """Codes that all have labels as these, and texts such as "Action|Drama" as lists."""
    frame = source.frame
    for name, labels in source.value_labels.items():
        if frame[name].dropna().isin(list(labels)).all():
            frame = frame.assign(**{name: frame[name].map(labels)})
    for name, values in frame.items():
        is_text = pd.api.types.infer_dtype(values, skipna=True) == "string"
        if is_text and values.str.contains("|", regex=False, na=False).any():
            frame = frame.assign(**{str(name): values.str.split("|")})
    return frame


def as_text_like(wants_text: bool, ids: pd.Series) -> pd.Series:
    """Whole numbers as text, where others of the same ids are text; else as they are."""
    return ids.astype(str) if wants_text and pd.api.types.is_integer_dtype(ids) else ids


# ---- parts, of several processes ----------------------------------------------------------------


class ParquetRatings:
    """A Parquet file or a folder of them, partitioned or not, of which only the outlines are read.

    What is in it, and in which order, is what `ordinalrbm.files.formats.read` finds. Its ``source``
    has the names of the columns, and no row.
    """

    def __init__(self, path: StrPath, layout: Layout = AS_IT_IS) -> None:
        self.path = place(path)
        if format_on_disk(self.path) != "parquet":
            raise DataError(
                f"File '{path}' is no Parquet file, which alone can be read in parts; convert it "
                "or give the ratings as a table."
            )
        with reading(self.path):
            files = parquet(self.path)
            self._schema = files.schema
            self._row_groups = [
                group for file in files.get_fragments() for group in file.split_by_row_group()
            ]
        self._sizes = [group.row_groups[0].num_rows for group in self._row_groups]
        self.n_ratings = sum(self._sizes)
        names = pd.DataFrame(columns=self._schema.names)
        self.source = Source(self.path, "parquet", name_of(self.path), names)
        self._columns = columns_of(self.source, layout)

    def part(self, rank: int, size: int) -> pd.DataFrame:
        """The columns user, item, rating and perhaps timestamp of what a process reads; maybe no row.

        It reads whole row groups, those whose middle is in its part of all rows.
        """
        columns, start = list(self._columns.values()), 0
        outline = self._schema.empty_table().select(columns)
        tables = [outline]
        with reading(self.path):
            for group, n_rows in zip(self._row_groups, self._sizes, strict=True):
                if (2 * start + n_rows) * size // max(2 * self.n_ratings, 1) == rank:
                    tables.append(group.to_table(self._schema, columns))
                start += n_rows
            frame = frame_of_arrow(pa.concat_tables(tables), self.path)
        return frame.set_axis(list(self._columns), axis=1)


class RatingsPart(Part):
    """Some of the ratings; the other processes of a torch process group bring the others.

    :meth:`OrdinalMF.fit` takes it in place of ratings and of validation ratings. The model is that
    of one process with all ratings, to float rounding. Outside a process group, these are all
    ratings that there are.

    Every rating is in the part of one process; in which one does not matter, and a process may have
    none. Rows are counted through the parts in the order of the processes.

    Parameters
    ----------
    ratings : DataFrame (pandas or polars) with the columns user, item, rating and perhaps timestamp, or
        tuple of three arrays (user, item, rating)

    See Also
    --------
    from_parquet : A part of a file or of a folder that all processes see.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> part = orbm.RatingsPart((users, items, 1 + (users + items) % 3))
    >>> orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(part).n_iter_
    2
    """

    def __init__(self, ratings: Any) -> None:
        self._ratings = ratings

    @classmethod
    def from_parquet(cls, path: str | os.PathLike) -> Self:
        """The part of this process of a Parquet file, or of a folder of such files.

        All processes give the same path. Each reads only its share of the row groups of the files,
        in their order, and of these only the columns of users, items, ratings and times; not now, but
        when it learns, so that the table is freed as soon as the ratings are encoded.

        Parameters
        ----------
        path : str or path
            Columns may have the names that ``ordinalrbm fit`` understands, such as userId. Rows
            that are written as one row group are read by one process: write at least as many as
            there are processes.

        Examples
        --------
        >>> import os, tempfile, numpy as np, pandas as pd, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = pd.DataFrame({"user": users, "item": items, "rating": 1 + users % 3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ratings.to_parquet(os.path.join(folder, "1.parquet"), row_group_size=10)
        ...     part = orbm.RatingsPart.from_parquet(folder)
        ...     model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(part)
        >>> model.ratings_.n_ratings
        60
        """
        return cls(ParquetRatings(path))

    def table(self) -> Any:
        if not isinstance(self._ratings, ParquetRatings):
            return self._ratings
        here = process_group.current() or process_group.ALONE
        return self._ratings.part(here.rank, here.size)
