"""Data that comes with the library, and readers of well-known data that cannot."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import BinaryIO, Literal, overload

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import place, stream

__all__ = ["load_food_world_cup", "read_libimseti", "read_movielens", "read_netflix"]


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

_BLOCK_BYTES = 1 << 23  # read at a time, and up to the end of the line


def read_movielens(path: StrPath) -> pd.DataFrame:
    r"""Read MovieLens ratings: ``ratings.dat``, ``ratings.csv`` or ``u.data``.

    Parameters
    ----------
    path : str or path
        The file, which may be compressed with gzip, or the folder that it lies in. Which of the
        three layouts it has is seen from its first line.

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
    first = _first_line(file)
    for layout in (_DAT, _CSV, _CSV_WITHOUT_TIME, _TAB):
        if layout.begins_with(first):
            return _read_lines(file, layout)
    raise DataError(
        f"File '{file}', line 1: {_shown(first)} begins none of MovieLens's layouts "
        f"({_DAT.example}, {_CSV.example} under a header, or {_TAB.example} with tabs); give the "
        "file of ratings as it was published."
    )


def read_libimseti(path: StrPath) -> pd.DataFrame:
    r"""Read the ratings of the dating site Libimseti: ``ratings.dat``, comma-separated.

    Parameters
    ----------
    path : str or path
        The file, which may be compressed with gzip, or the folder that it lies in.

    Returns
    -------
    DataFrame
        Columns user and item, the rated profile (int32), and rating (int8); there are no times.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = file.write_text("1,133,8\n1,720,6\n")
    >>> read_libimseti(file.parent)["rating"].tolist()
    [8, 6]
    """
    file = _find(path, "ratings.dat")[0]
    first = _first_line(file)
    if not _LIBIMSETI.begins_with(first):
        raise _bad_line(file, 1, first, _LIBIMSETI.example)
    return _read_lines(file, _LIBIMSETI)


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
    return _joined([piece for file in files for piece in _netflix_pieces(file)], Path(path))


# ---- finding files ----------------------------------------------------------------------------


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
            files = (*folder.glob(f"{pattern}.gz"), *folder.glob(pattern))
            found = {_number_in(file): file for file in files}
            if found:
                return [found[number] for number in sorted(found)]
    there = sorted(file.name for file in path.iterdir())
    raise DataError(
        f"Folder '{path}' holds no {wanted} (compressed or not), only {shorten(there)}; give the "
        "folder that holds it, or the path of the file."
    )


def _number_in(file: Path) -> tuple[int, str]:
    """By number, so that part 10 comes after part 2."""
    name = file.name.split(".")[0]
    return int(re.sub(r"\D", "", name) or 0), name


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        with stream(path) as file:
            yield file
    except OSError as error:
        raise DataError(f"File '{path}' cannot be read ({error}); give it as it was published.") from error


def _no_rating(path: Path) -> DataError:
    return DataError(f"File '{path}' holds no rating; give the file as it was published.")


def _bad_line(path: Path, number: int, line: bytes, example: str) -> DataError:
    return DataError(
        f"File '{path}', line {number}: {_shown(line)} is not of the form {example}; correct or "
        "remove the line, or give the file as it was published."
    )


def _shown(line: bytes) -> str:
    text = line.rstrip(b"\r\n").decode("utf-8", "replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _first_line(path: Path) -> bytes:
    with _open(path) as file:
        first = file.readline(1000)  # of a file that is no text there may be no end
    if not first:
        raise _no_rating(path)
    return first.rstrip(b"\r\n")


# ---- lines ------------------------------------------------------------------------------------

Piece = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Layout:
    """A layout with a rating on each line: the fields with their types, and what separates them."""

    example: str
    separator: str
    rating: pa.DataType
    has_time: bool = True
    header: bytes = b""

    def begins_with(self, line: bytes) -> bool:
        if self.header:
            return line == self.header
        try:
            self.parse(line)
        except ValueError:
            return False
        return True

    def parse(self, lines: bytes) -> Piece:
        """The fields of whole lines; a ValueError if one of these is not of the layout."""
        types = {"user": pa.int32(), "item": pa.int32(), "rating": self.rating}
        if self.has_time:
            types["timestamp"] = pa.int64()
        table = _split(lines, self.separator, types)
        found = {name: table[name].to_numpy() for name in types}
        if any(table[name].null_count or found[name].min() < 0 for name in types):
            raise ValueError("a number is missing or negative")
        return found


def _split(lines: bytes, separator: str, types: dict[str, pa.DataType]) -> pa.Table:
    if lines.translate(None, b"0123456789.-\r\n" + separator.encode()):
        raise ValueError("there are other characters than those of numbers")
    # Lines are split at single characters; between "::" there is an empty column.
    fields = separator.join(types).split(separator[0])
    names = [name or f"blank {k}" for k, name in enumerate(fields)]
    return arrow_csv.read_csv(
        pa.BufferReader(lines),
        arrow_csv.ReadOptions(column_names=names),
        arrow_csv.ParseOptions(delimiter=separator[0], quote_char=False),
        arrow_csv.ConvertOptions(
            column_types={name: types.get(name, pa.null()) for name in names}, null_values=[""]
        ),
    )


_FLOAT, _INTEGER = pa.float32(), pa.int8()
_DAT = _Layout("1::1193::5::978300760", "::", _FLOAT)
_CSV = _Layout("1,296,5.0,1147880044", ",", _FLOAT, header=b"userId,movieId,rating,timestamp")
_CSV_WITHOUT_TIME = _Layout("1,296,5.0", ",", _FLOAT, has_time=False, header=b"userId,movieId,rating")
_TAB = _Layout("196 242 3 881250949", "\t", _INTEGER)
_LIBIMSETI = _Layout("1,133,8", ",", _INTEGER, has_time=False)


def _read_lines(path: Path, layout: _Layout) -> pd.DataFrame:
    return _joined(list(_pieces(path, layout.parse, layout.example, bool(layout.header))), path)


def _pieces(
    path: Path, parse: Callable[[bytes], Piece], example: str, has_header: bool = False
) -> Iterator[Piece]:
    """What is parsed of the lines of a file, block by block."""
    with _open(path) as file:
        number = 1
        if has_header:
            file.readline()
            number = 2
        while block := file.read(_BLOCK_BYTES) + file.readline():
            try:
                piece = parse(block) if block.strip() else None
            except ValueError as error:
                k, line = _first_bad(block, parse)
                raise _bad_line(path, number + k, line, example) from error
            if piece is not None:
                yield piece
            number += block.count(b"\n")


def _first_bad(block: bytes, parse: Callable[[bytes], Piece]) -> tuple[int, bytes]:
    lines = [(k, line) for k, line in enumerate(block.splitlines(keepends=True)) if line.strip(b"\r\n")]
    first, stop = 0, len(lines)
    while stop - first > 1:
        middle = (first + stop) // 2
        try:
            parse(b"".join(line for _, line in lines[first:middle]))
        except ValueError:
            stop = middle
        else:
            first = middle
    return lines[first]


def _joined(pieces: list[Piece], path: Path) -> pd.DataFrame:
    if not sum(len(piece["user"]) for piece in pieces):
        raise _no_rating(path)
    # Column by column, each piece let go of when it is copied.
    columns = {
        name: _narrowed(name, np.concatenate([piece.pop(name) for piece in pieces]))
        for name in list(pieces[0])
    }
    return pd.DataFrame(columns, copy=False)


def _narrowed(name: str, values: np.ndarray) -> np.ndarray:
    if name == "rating" and values.dtype.kind == "f":
        whole = values.max() <= np.iinfo(np.int8).max and bool((values == np.round(values)).all())
        return values.astype(np.int8) if whole else values
    if name == "timestamp" and values.max() <= np.iinfo(np.int32).max:
        return values.astype(np.int32, copy=False)
    return values


# ---- Netflix ----------------------------------------------------------------------------------

_NETFLIX = "1488844,3,2005-09-06 (or 1: to begin a movie)"
_DAY = 24 * 60 * 60  # seconds


def _netflix_pieces(path: Path) -> Iterator[Piece]:
    first = _first_line(path)
    if not re.fullmatch(rb"\d{1,9}:", first):
        raise _bad_line(path, 1, first, "1: that begins a movie")
    movie = np.zeros(1, dtype=np.int32)
    for lines in _pieces(path, _parse_netflix, _NETFLIX):
        number, rating = lines["user"], lines["rating"]
        is_movie = rating < 0
        movies = np.append(movie, number[is_movie])
        movie = movies[-1:]
        yield {
            "user": number[~is_movie],
            "item": movies[np.cumsum(is_movie)][~is_movie],
            "rating": rating[~is_movie],
            "timestamp": lines["date"][~is_movie] * np.int32(_DAY),
        }


def _parse_netflix(lines: bytes) -> Piece:
    """Lines ``user,R,YYYY-MM-DD`` and ``movie:``, which become ratings of -1; dates in days from 1970."""
    lines = lines.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    n_movies = lines.count(b":\n")
    table = _split(
        lines.replace(b":\n", b",-1,\n"), ",", {"user": pa.int32(), "rating": pa.int8(), "date": pa.date32()}
    )
    rating, date = table["rating"], table["date"].cast(pa.int32())
    found = {"user": table["user"].to_numpy(), "rating": rating.to_numpy()}
    found["date"] = date.fill_null(-1).to_numpy()
    is_movie = found["rating"] == -1
    is_rating = (found["rating"] >= 0) & (found["rating"] <= 9) & (found["date"] >= 0)
    if table["user"].null_count or rating.null_count or found["user"].min() < 0:
        raise ValueError("a number is missing or negative")
    if is_movie.sum() != n_movies or not (is_movie ^ is_rating).all():
        raise ValueError("a rating or a date is missing or out of range")
    if found["date"].max() > np.iinfo(np.int32).max // _DAY:
        raise ValueError("a date is too late for 32 bits")
    return found
