"""Write files: the original with gaps filled, and plain tables of results.

A file is written next to its target and then moved there, so that it is never half written. What
each format can hold:

- SPSS (.sav, .zsav): value labels, variable labels, user-missing codes and ranges, measures,
  formats, notes.
- Stata (.dta): value labels of whole numbers, variable labels of up to 80 letters, formats. It
  has no user-missing numbers, only the extended missing values .a to .z: user-missing codes of an
  SPSS file become these, in ascending order and with their labels. In other formats, .a to .z are
  empty.
- CSV, TSV (also with .gz), Excel (.xlsx) and Parquet: codes, and dates as dates.

Names of columns that SPSS or Stata do not take, with blanks for instance, become valid ones there,
and the old name is the label where there is no other. The sets of multiple responses that an SPSS file
defines are not written. Text in CSV and TSV that a spreadsheet would
take for a formula can be escaped; in a workbook it is text anyway.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
from pyreadstat import PyreadstatError, ReadstatError

from ordinalrbm.data.tables import IMPUTATION, Encoded
from ordinalrbm.errors import DataError, user_stacklevel
from ordinalrbm.files import survey, tables_out
from ordinalrbm.runtime.places import packing, place
from ordinalrbm.schema.schema import BLANK, Code, Column, Schema
from ordinalrbm.schema.source import (
    Format,
    Source,
    StrPath,
    as_number,
    count_codes,
    factorise_codes,
    format_of,
    is_among,
    plain_code,
)
from ordinalrbm.storage.atomic import atomic_write

_STATA_IMPUTATION, _STATA_ROW = "_mi_m", "_mi_id"
_SPSS_EPOCH = np.datetime64("1582-10-14", "s")
_STATA_EPOCH = np.datetime64("1960-01-01", "s")
_STATA_LABEL = 80  # letters of a variable label
_SPSS_LABEL = 256
_SPSS_NAME, _STATA_NAME = 64, 32  # letters of a variable name
_SPSS_WORDS = "all and by eq ge gt le lt ne not or to with"  # no names of variables
_STATA_WORDS = "_all _b _coef _cons _n _pi _pred _rc _skip byte double float if in int long strl using with"
_MOST_SHOWN = 200  # letters of a warning about names
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MOST_DISCRETE = 3  # user-missing codes that an SPSS column can have
_MOST_MISSING_LETTERS = 8  # of a text that is user-missing in SPSS

# Filled by default. Cells that were not to be answered are no gaps.
NON_RESPONSE: tuple[survey.Reason, ...] = ("empty", "no answer", "don't know", "refused")


class FilledCells(NamedTuple):
    """Numbers of cells without an answer that were filled and that were kept, by reason."""

    filled: Counter[survey.Reason]
    kept: Counter[survey.Reason]

    def add(self, other: FilledCells) -> None:
        self.filled.update(other.filled)
        self.kept.update(other.kept)


def write_answers(
    path: StrPath,
    answers: survey.Survey | Encoded | pd.DataFrame,
    source: Source,
    schema: Schema,
    fill: Collection[survey.Reason] = NON_RESPONSE,
) -> FilledCells:
    r"""Write the original file with answers in place of its gaps, as codes.

    Cells without an answer, if `fill` includes their reason, and cells that hold another level get the code
    of the level in `answers`; all others stay as they were. Numbers only replace cells without an answer.

    Parameters
    ----------
    path : str or path
        Target; the ending gives the format, which may differ from that of the source.
    answers : Survey, Encoded or DataFrame
        Names of levels or categories, or numbers, of the same rows as the source, for the columns
        that are to be filled.
    source : Source
        The file as it was read.
    schema : Schema
        The schema of its columns.
    fill : collection of str
        Which cells without an answer are filled: "empty" ones, and those with codes that mean "no
        answer", "don't know", "refused", "not applicable" or "not asked". The last two are left by
        default. User-missing codes and Stata's .a to .z count by their labels, and as "no answer"
        where they have none.

    Raises
    ------
    DataError
        When the rows are not those of the source, a name is not that of a level, or the file
        cannot be written.

    Examples
    --------
    >>> from ordinalrbm.files.formats import from_frame
    >>> from ordinalrbm.schema.infer import propose
    >>> source = from_frame(pd.DataFrame({"sex": ["f", "m", "f"], "Q1": [1, None, 2]}))
    >>> filled = pd.DataFrame({"Q1": ["1", "2", "2"]})
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "filled.csv"
    ...     counts = write_answers(file, filled, source, propose(source))
    ...     print(file.read_text().splitlines())
    ['sex,Q1', 'f,1', 'm,2', 'f,2']
    >>> counts
    FilledCells(filled=Counter({'empty': 1}), kept=Counter())
    """
    with answers_written(path, answers, source, schema, fill) as cells:
        return cells


@contextmanager
def answers_written(
    path: StrPath,
    answers: survey.Survey | Encoded | pd.DataFrame,
    source: Source,
    schema: Schema,
    fill: Collection[survey.Reason] = NON_RESPONSE,
    escape_formulas: bool = False,
) -> Iterator[FilledCells]:
    """As `write_answers`, but the file replaces its target only when the block ends without an error.

    Then of several files that belong together, all are written or none.
    """
    target = place(path)
    frame, filled, cells = _filled(_as_frame(answers), source, schema, fill)
    with _written(target, _writer(target, frame, source, schema, filled, escape_formulas)):
        yield cells


@contextmanager
def imputations_written(
    path: StrPath,
    imputations: Sequence[survey.Survey | Encoded | pd.DataFrame],
    source: Source,
    schema: Schema,
    fill: Collection[survey.Reason] = NON_RESPONSE,
    escape_formulas: bool = False,
) -> Iterator[FilledCells]:
    """Write the original and several imputations of it below each other, in one file.

    A first column, ``Imputation_``, counts them; the original is 0, with its gaps and its codes, as
    in SPSS. In a Stata file that column is ``_mi_m``, and ``_mi_id`` is the number of the row; cells
    that are filled are plainly missing in the original there, because Stata never imputes .a to .z.
    The file replaces its target when the block ends without an error.
    """
    target = place(path)
    kind = format_of(target)
    parts = [_filled(_as_frame(each), source, schema, fill) for each in imputations]
    whole, filled = _stacked(source, [frame for frame, _, _ in parts], parts[0][1], kind)
    with _written(target, _writer(target, whole.frame, whole, schema, filled, escape_formulas)):
        yield parts[0][2]


def _as_frame(answers: survey.Survey | Encoded | pd.DataFrame) -> pd.DataFrame:
    if isinstance(answers, survey.Survey):
        answers = answers.encoded
    return answers.to_frame() if isinstance(answers, Encoded) else answers


def _writer(
    target: Path,
    frame: pd.DataFrame,
    source: Source,
    schema: Schema,
    filled: dict[str, np.ndarray],
    escape_formulas: bool,
) -> Callable[[Path], None]:
    """A function that writes a table in the format of the target, with the metadata of the source."""
    kind = format_of(target)
    if kind not in ("sav", "zsav", "dta"):
        return _table_writer(target, _with_dates(frame, source), escape_formulas)
    names = _valid_names(list(frame.columns), kind)
    if names:
        shown = ", ".join(f"{old!r} is {new}" for old, new in names.items())
        warnings.warn(
            f"File '{target}' cannot hold all names of columns as they are: {shown[:_MOST_SHOWN]}; "
            "the labels of columns without one keep them.",
            stacklevel=user_stacklevel(),
        )
    if kind == "dta":
        return _stata_writer(frame, source, schema, filled, names)
    return _spss_writer(target, frame, source, schema, names)


def _valid_names(columns: Sequence[str], kind: Format) -> dict[str, str]:
    """New names for columns whose own are no names of variables in SPSS or Stata; none twice."""
    is_stata = kind == "dta"
    most, illegal, first, reserved = _SPSS_NAME, r"[^\w.$#@]+|\.+\Z", r"(?=[\W\d_])", _SPSS_WORDS
    if is_stata:
        most, illegal, first, reserved = _STATA_NAME, r"\W+", r"(?=\d)", _STATA_WORDS
    valid = {}
    for name in columns:
        plain = re.sub(rf"\A{first}", "v", re.sub(illegal, "_", name))
        # Letters of a name have up to four bytes, and both formats count these.
        plain = plain[:most].encode()[:_SPSS_NAME].decode(errors="ignore")
        is_word = plain.casefold() in reserved.split() or (is_stata and re.fullmatch(r"str\d+", plain))
        valid[name] = f"{plain}_" if is_word else plain
    taken, new = set(), {}
    for name in sorted(columns, key=lambda name: valid[name] != name):  # those that stay as they are first
        k, one = 1, valid[name]
        while one.casefold() in taken and not (is_stata and one == name):  # SPSS does not tell q1 from Q1
            k += 1
            one = f"{valid[name][: most - 9]}_{k}"
        taken.add(one.casefold())
        if one != name:
            new[name] = one
    return new


def write_table(
    path: StrPath, frame: pd.DataFrame, escape_formulas: bool = False, labels: dict[str, str] | None = None
) -> None:
    r"""Write a table as .csv, .tsv (both also with .gz or .zst), .xlsx or .parquet, without its index.

    Whole numbers are written without a decimal point, gaps among them or not. With
    ``escape_formulas``, text in .csv and .tsv that a spreadsheet would take for a formula gets an
    apostrophe in front. With ``labels`` of the columns, it may be an SPSS or Stata file, which has them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "table.tsv"
    ...     write_table(file, pd.DataFrame({"item": ["a", "b"], "rating": [4.0, None]}))
    ...     print(file.read_text().splitlines())
    ['item\trating', 'a\t4', 'b\t']
    """
    target = place(path)
    if labels is None:
        check_table_format(target)
    source = Source(None, "frame", target.stem, frame, questions=labels or {})
    with _written(target, _writer(target, frame, source, Schema(()), {}, escape_formulas)):
        pass


def _table_writer(target: Path, frame: pd.DataFrame, escape_formulas: bool) -> Callable[[Path], None]:
    kind = check_table_format(target)
    if kind == "parquet":
        return lambda file: frame.to_parquet(file, index=False)
    plain = pd.DataFrame({name: survey.as_whole(frame[name]) for name in frame.columns}, index=frame.index)
    if kind == "xlsx":
        sheet = tables_out.of_frame(target.stem, plain, floats="")
        return lambda file: tables_out.write_workbook(file, [sheet])
    if escape_formulas:
        plain = _without_formulas(plain)

    def write(file: Path) -> None:
        with file.open("wb") as opened:
            codec = {".gz": "gzip", ".zst": "zstd"}.get(packing(target))
            with pa.CompressedOutputStream(opened, codec) if codec else opened as to:
                plain.to_csv(to, sep="\t" if kind == "tsv" else ",", index=False, lineterminator="\n")

    return write


# What spreadsheets take for the beginning of a formula (OWASP, "CSV injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """With an apostrophe before texts and names of columns that a spreadsheet would compute."""
    columns = [
        frame[name].astype(object).map(_no_formula) if _may_be_text(frame[name]) else frame[name]
        for name in frame.columns
    ]
    return pd.concat(columns, axis=1).set_axis(list(map(_no_formula, frame.columns)), axis=1)


def _may_be_text(values: pd.Series) -> bool:
    is_category = isinstance(values.dtype, pd.CategoricalDtype)
    return is_category or values.dtype == object or pd.api.types.is_string_dtype(values.dtype)


def _no_formula(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and cell.startswith(_FORMULA) and as_number(cell) is None
    return f"'{cell}" if is_formula else cell


def check_table_format(path: Path) -> Format:
    kind = format_of(path)
    if kind not in ("csv", "tsv", "xlsx", "parquet"):
        raise DataError(
            f"File '{path}' cannot hold a plain table; write to .csv, .tsv (with or without .gz), .xlsx or "
            ".parquet."
        )
    return kind


# ---- filling ----------------------------------------------------------------------------------


def _filled(
    answers: pd.DataFrame, source: Source, schema: Schema, fill: Collection[survey.Reason]
) -> tuple[pd.DataFrame, dict[str, np.ndarray], FilledCells]:
    """The source's table with answers as codes, the filled cells of each column, and counts."""
    if len(answers) != len(source.frame):
        raise DataError(
            f"There are {len(answers)} rows of answers for the {len(source.frame)} rows of "
            f"{source.name!r}; give one for each."
        )
    frame, filled, cells = source.frame.copy(), {}, FilledCells(Counter(), Counter())
    known = set(schema.names("ordinal", *survey.OF_PEOPLE))
    for name in answers.columns:
        if name not in known or name not in frame:
            raise DataError(
                f"The answers have a column {name!r}, which is no question of {source.name!r}; leave it out."
            )
        values, filled[name], counted = _new_values(answers[name], source, schema.column(name), fill)
        cells.add(counted)
        if filled[name].any():  # else even the column's type stays
            frame[name] = _put(frame[name], filled[name], values)
    return frame, filled, cells


def _new_values(
    answers: pd.Series, source: Source, column: Column, fill: Collection[survey.Reason]
) -> tuple[np.ndarray, np.ndarray, FilledCells]:
    """For each row the code or number, and whether it is written; and counts."""
    if pd.api.types.is_numeric_dtype(answers.dtype) and column.role in ("numeric", "background"):
        return _new_numbers(answers, source, column, fill)
    if column.role != "ordinal":
        column = _with_categories(answers, source, column)
        answers = answers.astype(object).map(_as_name, na_action="ignore")
    level = _levels(answers, column)
    to_fill, counted = _to_fill(level, survey.Held.of(source, column), fill)
    codes = np.array([*_like(source.frame[column.name], column.levels), None], dtype=object)
    return codes[level], to_fill, counted


def _new_numbers(
    answers: pd.Series, source: Source, column: Column, fill: Collection[survey.Reason]
) -> tuple[np.ndarray, np.ndarray, FilledCells]:
    held = survey.Held.of(source, _with_categories(answers.iloc[:0], source, column))
    numbers = answers.to_numpy(dtype=np.float64, na_value=np.nan)
    # A number in the file always stays.
    level = np.where(np.isnan(numbers), -1, np.maximum(held.level, 0))
    to_fill, counted = _to_fill(level, held, fill)
    is_text = _is_text(source.frame[column.name])
    codes = [plain_code(number) for number in numbers]
    return np.array([str(c) if is_text else c for c in codes], dtype=object), to_fill, counted


def _with_categories(answers: pd.Series, source: Source, column: Column) -> Column:
    """A column with the codes in the file as levels, and those that only the answers have."""
    _, codes = factorise_codes(source.frame[column.name])
    missing = survey.missing_codes(source, column, [*codes, *column.levels])
    pairs = zip(column.levels, column.names, strict=True)
    named = {level: name for level, name in pairs if level not in missing}
    known = replace(column, levels=tuple(named), names=tuple(named.values()))
    full = survey.with_all_codes(known, [code for code in codes if code not in missing])
    names = [_as_name(answer) for answer in answers.dropna().unique().tolist()]
    return survey.with_all_codes(full, [name for name in names if name not in full.names])


def _as_name(answer: Any) -> str:
    return str(plain_code(answer))


def _stacked(
    source: Source, frames: list[pd.DataFrame], filled: dict[str, np.ndarray], kind: Format
) -> tuple[Source, dict[str, np.ndarray]]:
    original, n_rows, n_parts = source.frame.copy(), len(source.frame), len(frames) + 1
    if kind == "dta":
        for name, where in filled.items():
            original[name] = original[name].mask(where)
    counters = {IMPUTATION: np.repeat(np.arange(n_parts), n_rows)}
    if kind == "dta":
        row = np.tile(np.arange(1, n_rows + 1), n_parts)
        counters = {_STATA_IMPUTATION: counters[IMPUTATION], _STATA_ROW: row}
    for name in counters:
        if name in original:
            raise DataError(
                f"{source.where} has a column {name!r} already, the name of one that counts "
                "imputations; rename it there, or write each imputation to a file of its own."
            )
    frame = pd.concat([original, *frames], ignore_index=True)
    frame = pd.concat([pd.DataFrame(counters), frame], axis=1)
    number = next(iter(counters))
    whole = replace(
        source,
        frame=frame,
        tags={name: np.tile(tags, n_parts) for name, tags in source.tags.items()},
        value_labels={number: {0: "Original data"}, **source.value_labels},
        questions={number: "Imputation number", **source.questions},
        measure={number: "nominal", **source.measure},
    )
    return whole, {name: np.tile(where, n_parts) for name, where in filled.items()}


def _levels(answers: pd.Series, column: Column) -> np.ndarray:
    dtype = answers.dtype
    if isinstance(dtype, pd.CategoricalDtype) and tuple(dtype.categories) == column.names:
        return answers.cat.codes.to_numpy()
    level = pd.Index(column.names, dtype=object).get_indexer(pd.Index(answers, dtype=object))
    unknown = answers.notna().to_numpy() & (level < 0)
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(
            f"Column {column.name!r}, row {row} (counted from 0): {answers.iloc[row]!r} is not "
            f"the name of a level; give one of {list(column.names)}."
        )
    return level


def cells_to_fill(
    source: Source, schema: Schema, names: Sequence[str], fill: Collection[survey.Reason] = NON_RESPONSE
) -> tuple[np.ndarray, FilledCells]:
    where, cells = [], FilledCells(Counter(), Counter())
    for column in map(schema.column, names):
        if column.role != "ordinal":
            column = _with_categories(source.frame[column.name].iloc[:0], source, column)
        held = survey.Held.of(source, column)
        of_column, counted = _to_fill(np.maximum(held.level, 0), held, fill)
        where.append(of_column)
        cells.add(counted)
    return np.column_stack(where), cells


def _to_fill(
    level: np.ndarray, held: survey.Held, fill: Collection[survey.Reason]
) -> tuple[np.ndarray, FilledCells]:
    given = level >= 0
    is_filled = np.isin(held.reason, [survey.REASONS.index(reason) for reason in fill])
    filled, kept = given & is_filled, given & (held.reason >= 0) & ~is_filled
    counts = FilledCells(_count(held.reason[filled]), _count(held.reason[kept]))
    to_fill = given & (held.level != level) & ((held.level >= 0) | is_filled)
    return to_fill, counts


def _count(reasons: np.ndarray) -> Counter[survey.Reason]:
    counts = np.bincount(reasons, minlength=len(survey.REASONS)).tolist()
    return +Counter(dict(zip(survey.REASONS, counts, strict=True)))


def _is_text(values: pd.Series) -> bool:
    """Whether a column is of text, which may be objects in pandas before 3."""
    if values.dtype == object:
        return pd.api.types.infer_dtype(values, skipna=True) == "string"
    return isinstance(values.dtype, pd.StringDtype)


def _like(values: pd.Series, levels: tuple[Code, ...]) -> list[Code | None]:
    """Codes as the column has them: where these are text, 1 is "1", and the other way round."""
    if _is_text(values):
        return [str(code) for code in levels]
    if pd.api.types.is_numeric_dtype(values.dtype):
        return [plain_code(as_number(code)) for code in levels]
    return list(levels)


def _put(values: pd.Series, where: np.ndarray, codes: np.ndarray) -> pd.Series:
    """The column with codes in these cells, in the old type where that can hold them."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        original = {plain_code(category): category for category in values.dtype.categories}
        filled = values.astype(object)
        filled[where] = [original.get(code, code) for code in codes[where]]
        new = [code for code in dict.fromkeys(codes[where]) if code not in original]
        if not new:
            return filled.astype(values.dtype)
        return filled.astype(pd.CategoricalDtype([*values.dtype.categories, *new]))
    if pd.api.types.is_integer_dtype(values.dtype) and all(type(c) is int for c in codes[where]):
        filled = values.copy()  # never by way of floats, in which long numbers change
        filled[where] = codes[where].astype("int64")
        return filled
    is_text = any(isinstance(code, str) for code in codes[where])
    if pd.api.types.is_numeric_dtype(values.dtype) and not is_text:  # booleans too
        filled = values.astype("float64")
        filled[where] = codes[where].astype(np.float64)
        fits = values.dtype.kind == "f" or bool((filled.dropna() % 1 == 0).all())
        return filled.astype(values.dtype) if fits else filled
    filled = values.astype(object)
    filled[where] = codes[where]
    return filled.astype(values.dtype) if is_text else filled


# ---- dates ------------------------------------------------------------------------------------


def _with_dates(frame: pd.DataFrame, source: Source) -> pd.DataFrame:
    """Dates of SPSS and Stata, which are numbers in a source, as dates."""
    frame = frame.copy(deep=False)
    for name, kind in source.dates.items():
        numbers = frame[name]
        if kind == "period" or not pd.api.types.is_numeric_dtype(numbers.dtype):
            continue  # Stata's weeks, months and quarters stay numbers
        if source.format in ("dta", "xpt") and kind != "time":  # both count from 1960
            parts = 1000 if source.format == "dta" else 1
            seconds = numbers * 86400 if kind == "date" else numbers / parts
            moments = _moments(seconds, _STATA_EPOCH)
        else:
            moments = _moments(numbers, np.datetime64(0, "s") if kind == "time" else _SPSS_EPOCH)
        shown = {"date": lambda m: m.dt.date, "time": lambda m: m.dt.strftime("%H:%M:%S")}
        frame[name] = shown.get(kind, lambda m: m)(moments)
    return frame


def _moments(seconds: pd.Series, epoch: np.datetime64) -> pd.Series:
    """Moments in microseconds: pyreadstat writes those in seconds as 1970."""
    known = seconds.notna().to_numpy()
    numbers = seconds.to_numpy("float64", na_value=np.nan)[known]
    whole = np.floor(numbers)
    parts = np.round((numbers - whole) * 1e6).astype("int64").astype("m8[us]")
    moments = np.full(len(seconds), np.datetime64("NaT", "us"))
    moments[known] = epoch + whole.astype("int64").astype("m8[s]") + parts
    return pd.Series(moments, index=seconds.index)


# ---- SPSS and Stata ---------------------------------------------------------------------------


def _spss_writer(
    target: Path, frame: pd.DataFrame, source: Source, schema: Schema, names: dict[str, str]
) -> Callable[[Path], None]:
    is_spss = source.format in ("sav", "zsav", "por")
    is_packed = target.name.lower().endswith(".zsav")
    questions = [name for name in schema.names("ordinal") if name in source.frame]
    plain = _plain(frame if is_spss else _with_dates(frame, source))
    labels: dict[str, Any] = {
        name: {code: text for code, text in by_code.items() if not _is_tag(code, source)}
        for name, by_code in _value_labels(plain, source, schema).items()
    }

    def write(file: Path) -> None:
        measure = source.measure if is_spss else dict.fromkeys(questions, "ordinal")
        pyreadstat.write_sav(
            plain.rename(columns=names),
            file,
            file_label=source.file_label,
            column_labels=_renamed(_questions(source, schema, names, _SPSS_LABEL), names),
            compress=is_packed,
            row_compress=not is_packed,
            note=list(source.file_notes) or None,
            variable_value_labels=_renamed(labels, names),
            missing_ranges=_renamed(_missing_ranges(plain, source, schema), names),
            variable_display_width=_renamed(source.display_widths, names) if is_spss else None,
            variable_measure=_renamed(measure, names),
            variable_format=_renamed(source.variable_formats, names) if is_spss else None,
        )

    return write


def _stata_writer(
    frame: pd.DataFrame, source: Source, schema: Schema, filled: dict[str, np.ndarray], names: dict[str, str]
) -> Callable[[Path], None]:
    is_stata = source.format == "dta"
    plain = _plain(frame if is_stata else _with_dates(frame, source))
    labels = _value_labels(plain, source, schema)
    letters: dict[str, list[str]] = {}
    for name in plain.columns:
        tags = _stata_tags(plain[name], source, labels.setdefault(name, {}), filled)
        # Stata labels whole numbers and letters, of numeric columns only.
        is_text = _is_text(plain[name])
        labels[name] = {
            code: text
            for code, text in labels[name].items()
            if not is_text and (isinstance(code, int) or len(str(code)) == 1)
        }
        used = set(tags.tolist()) - {""}
        if used:
            plain[name] = plain[name].astype(object).where(plain[name].notna(), None)
            plain.loc[tags != "", name] = tags[tags != ""]
        # pyreadstat wants letters declared that only have a label.
        declared = used | {code for code in labels[name] if isinstance(code, str)}
        if declared:
            letters[name] = sorted(declared)
    labelled: dict[str, Any] = {name: by_code for name, by_code in labels.items() if by_code}

    def write(file: Path) -> None:
        pyreadstat.write_dta(
            plain.rename(columns=names),
            file,
            file_label=source.file_label[:_STATA_LABEL],
            column_labels=_renamed(_questions(source, schema, names, _STATA_LABEL), names),
            variable_value_labels=_renamed(labelled, names),
            missing_user_values=_renamed(letters, names) or None,
            variable_format=_renamed(source.variable_formats, names) if is_stata else None,
        )

    return write


def _renamed(by_name: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in by_name.items()}


def _stata_tags(
    values: pd.Series, source: Source, labels: dict[Code, str], filled: dict[str, np.ndarray]
) -> np.ndarray:
    """The letter of each cell with an extended missing value; moves labels to letters."""
    name, tags = values.name, np.full(len(values), "", dtype=object)
    for tag in [code for code in labels if _is_tag(code, source)]:
        labels[str(tag)[1:]] = labels.pop(tag)
    if name in source.tags:
        open_cells = ~filled.get(name, np.zeros(len(values), dtype=bool))
        tags = np.where(open_cells, [tag[1:] for tag in source.tags[name]], "")
    elif name in source.missing and pd.api.types.is_numeric_dtype(values.dtype):
        known = {**count_codes(values), **dict.fromkeys(labels, 0)}
        declared = source.missing[name]
        codes = sorted(c for c in known if not isinstance(c, str) and is_among(c, declared))
        for code, letter in zip(codes, _LETTERS, strict=False):
            tags[(values == code).to_numpy()] = letter
            if code in labels:
                labels[letter] = labels.pop(code)
    return tags


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns as pyreadstat writes them: floats, text and dates."""
    columns = {}
    for name in frame.columns:
        values = frame[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            is_number = pd.api.types.is_numeric_dtype(values.dtype.categories.dtype)
            values = values.astype("float64" if is_number else object)
        is_number = pd.api.types.is_numeric_dtype(values.dtype)  # booleans too
        if is_number and (values.dtype.kind == "b" or not isinstance(values.dtype, np.dtype)):
            values = values.astype("float64")
        if values.dtype.kind == "M" and isinstance(values.dtype, np.dtype):
            values = values.astype("datetime64[us]")  # pyreadstat misreads seconds
        columns[name] = values
    return pd.DataFrame(columns, index=frame.index)


def _questions(source: Source, schema: Schema, names: dict[str, str], most: int) -> dict[str, str | None]:
    """Variable labels, cut to the length that the format allows; names that cannot stay are labels, too."""
    questions = {column.name: column.question for column in schema.columns if column.question}
    return {
        name: text if len(text) <= most else text[: most - 1] + "…"
        for name, text in {**dict(zip(names, names, strict=True)), **questions, **source.questions}.items()
    }


def _value_labels(frame: pd.DataFrame, source: Source, schema: Schema) -> dict[str, dict[Code, str]]:
    """The labels of the source, or names of levels where it has none."""
    labels = {name: dict(by_code) for name, by_code in source.value_labels.items()}
    for column in schema.columns:
        if column.name in labels or column.name not in frame:
            continue
        codes, names = column.levels + column.missing, column.names + column.missing_names
        pairs = zip(codes, names, strict=True)
        labels[column.name] = {code: name for code, name in pairs if code != BLANK and name != str(code)}
    return {name: by_code for name, by_code in labels.items() if by_code}


def _is_tag(code: Code, source: Source) -> bool:
    return source.format == "dta" and isinstance(code, str) and code.startswith(".")


def _missing_ranges(frame: pd.DataFrame, source: Source, schema: Schema) -> dict[str, list[Any]]:
    """User-missing codes for SPSS: those of the source, or else of the schema."""
    ranges: dict[str, list[Any]] = {
        name: [dict(zip(("lo", "hi"), e, strict=True)) if isinstance(e, tuple) else e for e in said]
        for name, said in source.missing.items()
    }
    if source.format in ("sav", "zsav"):
        return ranges
    for column in schema.columns:
        codes = [code for code in column.missing if not _is_tag(code, source)]
        short = all(len(code) <= _MOST_MISSING_LETTERS for code in codes if isinstance(code, str))
        if column.name in frame and 0 < len(codes) <= _MOST_DISCRETE and short:
            ranges[column.name] = codes
    return ranges


# ---- never half a file ------------------------------------------------------------------------


@contextmanager
def _written(target: Path, write: Callable[[Path], None]) -> Iterator[None]:
    """Write a file, which replaces the target when the block ends without an error."""
    with atomic_write(target) as file:
        try:
            write(file)
        except DataError:
            raise
        except (PyreadstatError, ReadstatError, pa.ArrowException, ValueError, TypeError) as error:
            with file.open("ab") as opened:  # libraries in C do not say that the disk is full
                opened.write(bytes(1 << 16))
            problem = " ".join(str(error).split()).rstrip(".")
            raise DataError(
                f"File '{target}' cannot be written ({problem}); choose another format or rename."
            ) from error
        yield
