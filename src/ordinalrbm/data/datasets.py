"""Data that comes with the library, and readers of well-known data that cannot."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, overload

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import place, stream

__all__ = ["load_food_world_cup", "read_movielens", "read_netflix"]


@overload
def load_food_world_cup(background: Literal[False] = False) -> pd.DataFrame: ...


@overload
def load_food_world_cup(background: Literal[True]) -> tuple[pd.DataFrame, pd.DataFrame]: ...


def load_food_world_cup(background: bool = False) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
    """Who likes which national cuisine: 1,373 Americans on 40 cuisines, asked in 2014.

    5 is "I love this country's traditional cuisine", 4 "I like", 3 "I'm OK with", 2 "I dislike",
    1 "I hate"; NaN is "I'm unfamiliar with it" or no answer. 44 % of the cells are answered, and
    97 respondents, who are kept, answered none.

    Data by FiveThirtyEight (https://github.com/fivethirtyeight/data, folder food-world-cup), published under
    the Creative Commons Attribution 4.0 International licence (CC BY 4.0); the licence and the source's own
    description lie beside the file. Behind the story "What is Americans' Favorite Global Cuisine?".

    Parameters
    ----------
    background : bool, default=False
        Whether to return the respondents' background too.

    Returns
    -------
    answers : pandas.DataFrame
        Index RespondentID, one column of floats 1..5 per cuisine.
    background : pandas.DataFrame
        Only when asked for: knowledge of and interest in cuisines, gender, age, household income,
        education and region, as text; same index.

    Examples
    --------
    >>> answers = load_food_world_cup()
    >>> answers.shape
    (1373, 40)
    >>> int(answers["Italy"].mode()[0])
    5
    """
    path = resources.files("ordinalrbm.data") / "embedded" / "food_world_cup" / "responses.csv"
    with path.open("r", encoding="utf-8") as file:
        table = pd.read_csv(file, index_col="RespondentID")
    answers = table.select_dtypes("number").astype("float64")
    if not background:
        return answers
    # The source ends some answers with blanks ("Not much ").
    return answers, table.drop(columns=answers.columns).apply(lambda column: column.str.strip())


# ---- readers of rating data in the layouts that it is published in -------------------------------


StrPath = str | os.PathLike[str]


class _Layout(NamedTuple):
    """A layout with a rating on each line: an example, what separates the fields, and these."""

    example: str
    separator: str
    types: dict[str, pa.DataType]
    header: bytes = b""


_STARS = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float32()}
_TIME = {"timestamp": pa.int64()}
_MOVIELENS = (
    _Layout("1,296,5.0,1147880044", ",", _STARS | _TIME, b"userId,movieId,rating,timestamp"),
    _Layout("1,296,5.0", ",", _STARS, b"userId,movieId,rating"),
    _Layout("1::1193::5::978300760", "::", _STARS | _TIME),
    _Layout("196 242 3 881250949", "\t", _STARS | {"rating": pa.int8()} | _TIME),
)
# A line "1:", which begins a movie, is read as "1,-1,".
_NETFLIX = _Layout(
    "1488844,3,2005-09-06 (or 1: to begin a movie)",
    ",",
    {"user": pa.int32(), "rating": pa.int8(), "date": pa.date32()},
)
_DAY = 24 * 60 * 60  # seconds


def read_movielens(path: StrPath) -> pd.DataFrame:
    r"""Read MovieLens ratings: ``ratings.dat``, ``ratings.csv`` or ``u.data``.

    Parameters
    ----------
    path : str or path
        The file, which may be compressed with gzip, or the folder that it lies in; its first line tells
        which of the three layouts it has.

    Returns
    -------
    DataFrame
        Columns user and item (int32), rating (int8, or float32 with half stars) and timestamp.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = file.write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    >>> read_movielens(file)
       user  item  rating  timestamp
    0     1  1193       5  978300760
    1     1   661       3  978302109
    """
    file = _find(path, "ratings.dat", "ratings.csv", "u.data")[0]
    with _opened(file) as lines:
        first = lines.readline(1000).rstrip(b"\r\n")  # of a file that is no text there may be no end
    for layout in _MOVIELENS:
        n_separators = first.count(layout.separator.encode())
        if first == layout.header if layout.header else n_separators == len(layout.types) - 1:
            return _ratings(file, layout)
    examples = ", ".join(layout.example for layout in _MOVIELENS)
    raise DataError(
        f"File '{file}', line 1: {_shown(first)} begins none of MovieLens's layouts ({examples}, those with "
        "commas under a header, the last with tabs); give the file of ratings as it was published."
    )


def read_netflix(path: StrPath) -> pd.DataFrame:
    r"""Read ratings of the Netflix Prize: ``combined_data_*.txt``, or a folder of ``mv_*.txt``.

    Parameters
    ----------
    path : str or path
        One such file, or the folder that they lie in (also when they lie in its subfolder
        ``training_set``), compressed with gzip or not.

    Returns
    -------
    DataFrame
        Columns user and item (int32), rating (int8) and timestamp (int32), the seconds from 1970
        to the beginning of the day; 13 bytes per rating.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "combined_data_1.txt"
    >>> _ = file.write_text("1:\n1488844,3,2005-09-06\n2:\n822109,5,2005-05-13\n")
    >>> read_netflix(file)
          user  item  rating   timestamp
    0  1488844     1       3  1125964800
    1   822109     2       5  1115942400
    """
    files = _find(path, "combined_data_*.txt", "mv_*.txt")
    table = pd.concat(map(_netflix, files), ignore_index=True)
    if table.empty:
        raise _no_rating(Path(path))
    return table


# ---- files --------------------------------------------------------------------------------------


def _find(path: StrPath, *patterns: str) -> list[Path]:
    """The file itself, or those of a folder that have the first of these names that there is."""
    path, wanted = place(path), " or ".join(patterns)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(
            f"File '{path}' does not exist; give the path of {wanted}, or of the folder it lies in."
        )
    for folder in (path, path / "training_set"):
        for pattern in patterns:
            # Of two forms of the same file, the one that need not be unpacked.
            packed = {file.name.removesuffix(".gz"): file for file in folder.glob(f"{pattern}.gz")}
            files = packed | {file.name: file for file in folder.glob(pattern)}
            if files:  # part 10 comes after part 2
                return [files[name] for name in sorted(files, key=lambda name: (len(name), name))]
    names = sorted(file.name for file in path.iterdir())
    raise DataError(
        f"Folder '{path}' holds no {wanted} (compressed or not), only {shorten(names)}; give the "
        "folder that holds it, or the path of the file."
    )


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        with stream(file) as lines:
            yield lines
    except OSError as error:
        raise DataError(f"File '{file}' cannot be read ({error}); give it as it was published.") from error


def _no_rating(path: Path) -> DataError:
    return DataError(f"File '{path}' holds no rating; give the file as it was published.")


def _bad_line(file: Path, row: int, layout: _Layout) -> DataError:
    """The sentence about a row, which Arrow counts from 1 without empty lines."""
    with _opened(file) as lines:
        filled = ((k, line) for k, line in enumerate(lines, start=1) if line.strip(b"\r\n"))
        number, line = next(islice(filled, row - 1, None))
    return DataError(
        f"File '{file}', line {number}: {_shown(line)} is not of the form {layout.example}; correct or "
        "remove the line, or give the file as it was published."
    )


def _shown(line: bytes) -> str:
    text = line.rstrip(b"\r\n").decode("utf-8", "replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")


# ---- tables -------------------------------------------------------------------------------------


def _table(file: Path, lines: Any, layout: _Layout) -> pa.Table:
    # Lines are split at single characters; between "::" there is an empty column.
    fields = layout.separator.join(layout.types).split(layout.separator[0])
    types = {name or f"blank {k}": layout.types.get(name, pa.null()) for k, name in enumerate(fields)}
    try:
        table = arrow_csv.read_csv(
            lines,
            # By one thread, which counts rows for what is said of a bad one.
            arrow_csv.ReadOptions(column_names=list(types), skip_rows=bool(layout.header), use_threads=False),
            arrow_csv.ParseOptions(delimiter=layout.separator[0], quote_char=False),
            arrow_csv.ConvertOptions(column_types=types, null_values=[""]),
        )
    except pa.ArrowInvalid as error:
        row = re.search(r"Row #(\d+)", str(error))
        raise _no_rating(file) if row is None else _bad_line(file, int(row[1]), layout) from error
    if not len(table):
        raise _no_rating(file)
    return table


def _ratings(file: Path, layout: _Layout) -> pd.DataFrame:
    with _opened(file) as lines:
        table = _table(file, lines, layout)
    columns = {name: table[name].fill_null(-1).to_numpy() for name in layout.types}
    wrong = np.any([~(values >= 0) | np.isinf(values) for values in columns.values()], axis=0)
    if wrong.any():
        raise _bad_line(file, int(wrong.argmax()) + 1 + bool(layout.header), layout)
    return pd.DataFrame({name: _narrowed(values) for name, values in columns.items()}, copy=False)


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Stars that are all whole as small integers, and times in 32 bits where these hold them."""
    if values.dtype.kind == "f":
        whole = values.max() <= np.iinfo(np.int8).max and bool((values == np.round(values)).all())
        return values.astype(np.int8) if whole else values
    is_long = values.dtype == np.int64 and values.max() <= np.iinfo(np.int32).max
    return values.astype(np.int32) if is_long else values


def _netflix(file: Path) -> pd.DataFrame:
    with _opened(file) as lines:
        content = lines.read().replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    table = _table(file, io.BytesIO(content.replace(b":\n", b",-1,\n")), _NETFLIX)
    number, rating = (table[name].fill_null(-2).to_numpy() for name in ("user", "rating"))
    day = table["date"].cast(pa.int32()).fill_null(-1).to_numpy()
    is_movie = (rating == -1) & (day == -1)
    is_rating = (rating >= 0) & (rating <= 9) & (day >= 0) & (day <= np.iinfo(np.int32).max // _DAY)
    wrong = ~(is_movie | is_rating) | (number < 0)
    wrong[0] |= not is_movie[0]
    if wrong.any():
        raise _bad_line(file, int(wrong.argmax()) + 1, _NETFLIX)
    movie = number[is_movie][np.cumsum(is_movie) - 1]
    columns = {"user": number, "item": movie, "rating": rating, "timestamp": day * np.int32(_DAY)}
    return pd.DataFrame({name: values[is_rating] for name, values in columns.items()})
