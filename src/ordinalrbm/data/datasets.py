"""Data that comes with the library, and readers of well-known data that cannot."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, cast, overload

import numpy as np
import pandas as pd

from ordinalrbm.data.scales import shorten
from ordinalrbm.errors import DataError

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

    Data by FiveThirtyEight (https://github.com/fivethirtyeight/data, folder food-world-cup),
    published under the Creative Commons Attribution 4.0 International licence (CC BY 4.0); the
    licence and the source's own description lie beside the file. Behind the story "What is
    Americans' Favorite Global Cuisine?".

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

_CHUNK_LINES = 1 << 20
_BLOCK_BYTES = 1 << 23


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

    Raises
    ------
    DataError
        When there is no such file, or a line is not of the layout.

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
    file = _find(path, ["ratings.dat", "ratings.csv", "u.data"])
    first = _first_line(file)
    for layout in (_DAT, _CSV, _CSV_WITHOUT_TIME, _TAB):
        if layout.matches(first, is_first=True):
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

    Raises
    ------
    DataError
        When there is no such file, or a line is not of the layout.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "ratings.dat"
    >>> _ = file.write_text("1,133,8\n1,720,6\n")
    >>> read_libimseti(file.parent)["rating"].tolist()
    [8, 6]
    """
    return _read_lines(_find(path, ["ratings.dat"]), _LIBIMSETI)


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

    Raises
    ------
    DataError
        When there is no such file, or a line is not of the layout.

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
    pieces = [piece for file in _netflix_files(Path(path)) for piece in _netflix_pieces(file)]
    return _joined(pieces, Path(path))


# ---- finding files ----------------------------------------------------------------------------


def _find(path: StrPath, names: Sequence[str]) -> Path:
    """The file itself, or the first of these names in the folder, compressed or not."""
    path = Path(path)
    if not _is_folder(path, " or ".join(names)):
        return path
    for name in (*names, *(f"{name}.gz" for name in names)):
        if (path / name).is_file():
            return path / name
    raise _not_in_folder(path, ", ".join(names))


def _netflix_files(path: Path) -> list[Path]:
    wanted = "combined_data_*.txt or mv_*.txt"
    if not _is_folder(path, wanted):
        return [path]
    for folder in (path, path / "training_set"):
        for name in wanted.split(" or "):
            # Of two forms of the same file, the one that need not be unpacked.
            files = (*folder.glob(f"{name}.gz"), *folder.glob(name))
            found = {_number_in(file): file for file in files}
            if found:
                return [found[number] for number in sorted(found)]
    raise _not_in_folder(path, wanted)


def _number_in(file: Path) -> tuple[int, str]:
    """By number, so that part 10 comes after part 2."""
    name = file.name.split(".")[0]
    return int(re.sub(r"\D", "", name) or 0), name


def _is_folder(path: Path, wanted: str) -> bool:
    if not path.is_file() and not path.is_dir():
        raise DataError(
            f"File '{path}' does not exist; give the path of {wanted}, or of the folder it lies in."
        )
    return path.is_dir()


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked; what cannot be read is a DataError."""
    try:
        with path.open("rb") as file:
            is_compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.GzipFile(fileobj=file) if is_compressed else file as unpacked:
                yield cast(BinaryIO, unpacked)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _not_in_folder(path: Path, wanted: str) -> DataError:
    there = sorted(file.name for file in path.iterdir())
    return DataError(
        f"Folder '{path}' holds no {wanted} (compressed or not), only {shorten(there)}; give the "
        "folder that holds it, or the path of the file."
    )


def _no_rating(path: Path) -> DataError:
    return DataError(f"File '{path}' holds no rating; give the file as it was published.")


def _unreadable(path: Path, problem: object) -> DataError:
    return DataError(f"File '{path}' cannot be read ({problem}); give it as it was published.")


def _bad_line(path: Path, number: int, line: bytes, example: str) -> DataError:
    return DataError(
        f"File '{path}', line {number}: {_shown(line)} is not of the form {example}; correct or "
        "remove the line, or give the file as it was published."
    )


def _shown(line: bytes) -> str:
    text = line.rstrip(b"\r\n").decode("utf-8", "replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")


# ---- one rating per line ----------------------------------------------------------------------


_NUMBER = rb"\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class _Layout:
    """A layout with a rating on each line: user, item, rating and, if of four fields, time."""

    example: str
    separator: str
    n_fields: int
    rating: type
    header: bytes = b""

    @property
    def types(self) -> dict[str, type]:
        """What the fields are read into."""
        every = {"user": np.int32, "item": np.int32, "rating": self.rating, "timestamp": np.int64}
        return dict(islice(every.items(), self.n_fields))

    def matches(self, line: bytes, is_first: bool) -> bool:
        if is_first and self.header:
            return line == self.header
        fields = [_NUMBER if kind is np.float32 else rb"\d+" for kind in self.types.values()]
        return re.fullmatch(self.separator.encode().join(fields), line) is not None

    def fits(self, line: bytes) -> bool:
        """Whether the numbers of a line fit into the types they are read into."""
        numbers = zip(re.findall(_NUMBER, line), self.types.values(), strict=False)
        return all(kind is np.float32 or float(n) <= np.iinfo(kind).max for n, kind in numbers)


_DAT = _Layout("1::1193::5::978300760", "::", 4, np.float32)
_CSV = _Layout("1,296,5.0,1147880044", ",", 4, np.float32, b"userId,movieId,rating,timestamp")
_CSV_WITHOUT_TIME = _Layout("1,296,5.0", ",", 3, np.float32, b"userId,movieId,rating")
_TAB = _Layout("196 242 3 881250949", "\t", 4, np.int8)
_LIBIMSETI = _Layout("1,133,8", ",", 3, np.int8)


def _first_line(path: Path) -> bytes:
    with _open(path) as file:
        first = file.readline(1000)  # of a file that is no text there may be no end
    if not first:
        raise _no_rating(path)
    return first.rstrip(b"\r\n")


def _read_lines(path: Path, layout: _Layout) -> pd.DataFrame:
    def is_good(line: bytes, number: int) -> bool:
        return layout.matches(line, is_first=number == 1) and layout.fits(line)

    first = _first_line(path)
    if not layout.matches(first, is_first=True):
        raise _bad_line(path, 1, first, layout.example)
    try:
        pieces = list(_pieces(path, layout))
    except DataError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise _find_bad_line(path, is_good, layout.example, error) from error
    return _joined(pieces, path)


def _pieces(path: Path, layout: _Layout) -> Iterator[dict[str, np.ndarray]]:
    types = layout.types
    # pandas splits quickly only at single characters; between "::" there is an empty column.
    fields = layout.separator.join(types).split(layout.separator[0])
    names = [name or f"blank {k}" for k, name in enumerate(fields)]
    with (
        _open(path) as file,
        pd.read_csv(
            file,
            sep=layout.separator[0],
            header=None,
            names=names,
            index_col=False,
            skiprows=1 if layout.header else 0,
            # Not into narrower types, in which some versions of pandas let large numbers wrap.
            dtype={name: kind if kind is np.float32 else np.int64 for name, kind in types.items()},
            quoting=csv.QUOTE_NONE,
            chunksize=_CHUNK_LINES,
        ) as chunks,
    ):
        for chunk in chunks:
            if chunk.drop(columns=list(types)).notna().any(axis=None):
                raise ValueError("something stands between the two characters of a separator")
            for name, kind in types.items():
                most = np.inf if kind is np.float32 else np.iinfo(kind).max + 1
                # An empty field is NaN where NaN can be, and not even that is 0 or more.
                if not ((chunk[name] >= 0) & (chunk[name] < most)).all():
                    raise ValueError("a number is missing, negative or too large")
            yield {name: chunk[name].to_numpy(kind) for name, kind in types.items()}


def _find_bad_line(
    path: Path, is_good: Callable[[bytes, int], bool], example: str, error: Exception
) -> DataError:
    """The line that is wrong: pandas says what is wrong, but seldom where."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            content = line.rstrip(b"\r\n")
            if content and not is_good(content, number):
                return _bad_line(path, number, content, example)
    return _unreadable(path, error)


def _joined(pieces: list[dict[str, np.ndarray]], path: Path) -> pd.DataFrame:
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
_MOVIE = re.compile(rb"\d{1,9}:")
_RATING = re.compile(rb"\d{1,9},\d,(\d{4}-\d\d-\d\d)")
_DATE = r"\d{4}-\d\d-\d\d"


def _netflix_pieces(path: Path) -> Iterator[dict[str, np.ndarray]]:
    first = _first_line(path)
    if not _MOVIE.fullmatch(first):
        raise _bad_line(path, 1, first, "1: that begins a movie")
    movie = 0
    for block in _blocks_of_lines(path):
        try:
            piece, movie = _parse_block(block, movie)
        except (ValueError, OverflowError) as error:
            raise _find_bad_line(path, _is_netflix_line, _NETFLIX, error) from error
        yield piece


def _parse_block(block: bytes, movie: int) -> tuple[dict[str, np.ndarray], int]:
    """Ratings of lines ``user,R,YYYY-MM-DD`` and ``movie:``, and the movie of the last of them.

    A movie becomes a rating of -1, so that all lines have the same fields.
    """
    if block.translate(None, b"0123456789,-:\n"):  # signs, blanks and quotes that pandas allows
        raise ValueError("there are other characters than digits")
    lines = pd.read_csv(
        BytesIO(block.replace(b":\n", b",-1,\n")),
        header=None,
        names=["user", "rating", "date"],
        dtype={"user": np.int32, "rating": np.int8, "date": "category"},
        quoting=csv.QUOTE_NONE,
    )
    number, rating, date = lines["user"].to_numpy(), lines["rating"].to_numpy(), lines["date"].array
    is_movie = rating == -1
    is_rating = (rating >= 0) & (rating <= 9) & (date.codes >= 0)
    in_range = (number >= 0) & (number < 10**9)
    if is_movie.sum() != block.count(b":\n") or not ((is_movie ^ is_rating) & in_range).all():
        raise ValueError("a number or a date is missing, negative or too large")
    movies = np.append(np.int32(movie), number[is_movie])
    piece = {
        "user": number[is_rating],
        "item": movies[np.cumsum(is_movie)][is_rating],
        "rating": rating[is_rating],
        "timestamp": _seconds(date.categories)[date.codes[is_rating]],
    }
    return piece, int(movies[-1])


def _seconds(dates: pd.Index) -> np.ndarray:
    """Seconds from 1970 to the beginning of each day."""
    if not dates.astype(str).str.fullmatch(_DATE).all():
        raise ValueError("a date is not of the form YYYY-MM-DD")
    seconds = pd.to_datetime(dates, format="%Y-%m-%d").to_numpy("datetime64[s]").astype(np.int64)
    if len(seconds) and not (seconds.min() >= 0 and seconds.max() <= np.iinfo(np.int32).max):
        raise ValueError("a date is before 1970 or too late for 32 bits")
    return seconds.astype(np.int32)


def _is_netflix_line(line: bytes, number: int) -> bool:
    rating = _RATING.fullmatch(line)
    if rating is None:
        return _MOVIE.fullmatch(line) is not None
    try:
        _seconds(pd.Index([rating[1].decode()]))
    except ValueError:
        return False
    return True


def _blocks_of_lines(path: Path) -> Iterator[bytes]:
    """The file in pieces of whole lines."""
    with _open(path) as file:
        while block := file.read(_BLOCK_BYTES) + file.readline():
            if block.strip():
                yield block.rstrip(b"\r\n").replace(b"\r\n", b"\n") + b"\n"
