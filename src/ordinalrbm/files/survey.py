"""A survey that is ready to be learnt from: its answers, and the background of its respondents."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd

from ordinalrbm.data.frames import TableLike
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import Questionnaire
from ordinalrbm.data.scales import Scale, shorten
from ordinalrbm.data.tables import Encoded
from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.runtime.display import Readable
from ordinalrbm.runtime.places import place
from ordinalrbm.schema.batteries import skipped_rows
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import BLANK, Code, Column, Role, Schema, did_you_mean, to_json
from ordinalrbm.schema.source import (
    Source,
    StrPath,
    as_number,
    count_codes,
    factorise_codes,
    is_among,
    position_finder,
    unreadable,
)
from ordinalrbm.schema.toml import override
from ordinalrbm.schema.vocabulary import SORTS, Sort, asks, sort_of
from ordinalrbm.stats.design import SurveyDesign

EMPTY: Literal["empty"] = "empty"  # a cell that holds nothing
Reason = Sort | Literal["empty"]
REASONS: tuple[Reason, ...] = (*SORTS, EMPTY)
_EXACT = 2**53  # from here on, floats skip whole numbers
# Roles other than ordered questions.
OF_PEOPLE: tuple[Role, ...] = ("nominal", "numeric", "background", "fieldwork")
_How = Literal["include", "background"]
# Words for all columns with a role.
_WORDS: dict[_How, tuple[Role, ...]] = {"include": ("nominal", "numeric"), "background": ("background",)}


class Chosen(NamedTuple):
    """Columns of other kinds that a model learns from, in the order of its table.

    ``nominal`` and ``numeric`` ones are questions, ``background`` is not; its numbers are codes of
    groups if they are among the ``codes``.
    """

    nominal: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    @property
    def asked(self) -> list[str]:
        return [*self.nominal, *self.numeric]

    @property
    def columns(self) -> list[str]:
        return [*self.asked, *self.background]

    @property
    def parameters(self) -> dict[str, list[str]]:
        every = {
            "nominal": [*self.nominal, *self.codes],
            "numeric": list(self.numeric),
            "background": list(self.background),
        }
        return {kind: names for kind, names in every.items() if names}

    @classmethod
    def of_kinds(cls, kinds: Mapping[str, str]) -> Self:
        return cls(*(tuple(name for name in kinds if kinds[name] == kind) for kind in cls._fields[:3]))


@dataclass(frozen=True)
class LeftOut:
    """A part of a file that is not used, and why.

    Attributes
    ----------
    what : str
        The column, the codes of a column, or the rows, in words.
    why : str
        The reason, in words.
    count : int
        Number of cells or rows; 0 where counting makes no sense.
    """

    what: str
    why: str
    count: int = 0


@dataclass(frozen=True, repr=False)
class Survey(Readable):
    """Answers and background of respondents, row by row.

    :meth:`CumulativeRBM.fit` takes it like a table.

    Attributes
    ----------
    name : str
        Name of the survey, usually that of its file.
    encoded : Encoded
        The answers as levels, as models take them; the labels of a scale are names of levels.
    background : DataFrame
        All nominal, numeric and background columns of the same rows: country, sex, age, ...;
        labels where the file has labels, else numbers or text. Whole numbers are integers, and
        blank text is missing.
    weight : Series or None
        Weights of the respondents, which learning does not use. Missing weights and those of 0 or
        less are counted in `left_out`.
    ids : Series or None
        Names of the respondents.
    schema : Schema
        Role, levels and question text of each column of the file.
    left_out : tuple of LeftOut
        All parts of the file that are not used.
    notes : tuple of str
        Assumptions made when the file was read, and the number of rows without any answer.
    no_answers : array of int8, shape (n_rows, n_questions), or None
        Why an answer is missing, as a position in `REASONS`; -1 where there is one. See `reasons`.
    chosen : Chosen
        Columns of the background that a model learns from as well; see `choosing`.
    design : SurveyDesign or None
        How the respondents were sampled, if that was said.
    """

    name: str
    encoded: Encoded
    background: pd.DataFrame
    weight: pd.Series | None
    ids: pd.Series | None
    schema: Schema
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()
    no_answers: np.ndarray | None = None
    chosen: Chosen = field(default_factory=Chosen)
    design: SurveyDesign | None = None

    def _parts(self) -> Iterator[str | pd.DataFrame]:
        n_rows, n_questions = self.encoded.shape
        yield f"Survey {self.name!r}: {n_rows:,} rows, {n_questions:,} ordinal questions."
        answered = self.encoded.observations.column_counts / max(n_rows, 1)
        scales = [f"{scale.names[0]} ... {scale.names[-1]}" for scale in self.encoded.scales]
        levels = [scale.n_levels for scale in self.encoded.scales]
        columns = {"levels": levels, "from ... to": scales, "answered": [f"{one:.0%}" for one in answered]}
        yield pd.DataFrame(columns, index=self.encoded.names)
        if self.background.shape[1]:
            yield f"Other columns: {', '.join(self.background.columns)}."
        if self.left_out:
            yield f"{len(self.left_out):,} parts of the file are not used; left_out lists them."

    @property
    def about(self) -> dict[str, Any]:
        """Notes about the survey, which the file of a model that was fitted on it keeps."""
        return {
            "data": self.name,
            "rows": self.encoded.shape[0],
            "schema": to_json(self.schema),
            "left_out": [[left.what, left.why, left.count] for left in self.left_out],
            "notes": list(self.notes),
        }

    def choosing(self, include: Sequence[str] = (), background: Sequence[str] = ()) -> Self:
        """The same survey with more columns to learn from than the ordinal questions.

        Parameters
        ----------
        include : sequence of str
            Questions without an order: names, patterns with ``*``, or the words ``nominal`` and
            ``numeric`` for all columns with that role.
        background : sequence of str
            Columns that move the means of answers; ``background`` means all with that role.

        Examples
        --------
        >>> table = pd.DataFrame({"tea": [1, 2] * 9, "land": ["at", "ch"] * 9})
        >>> read_survey(table).choosing(include=["land"]).table.header
        ['tea', 'land']
        """
        return replace(self, chosen=choose(self.schema, self.background, include, background))

    def aligned_to(self, names: Iterable[str], known: Questionnaire) -> Self:
        kinds = dict(zip(names, known.kinds, strict=True))
        for name, kind in kinds.items():
            if kind != "ordinal" and name not in self.background:
                guess = did_you_mean(name, self.background.columns)
                raise DataError(
                    f"{self.name!r} lacks the column {name!r}{guess}, which the model has learnt "
                    "from; add it, empty if nothing is known."
                )
        return replace(self, chosen=Chosen.of_kinds(kinds))

    @property
    def table(self) -> Encoded:
        return self._with_extra(self.chosen.columns)

    @property
    def n_questions(self) -> int:
        return self.encoded.shape[1] + len(self.chosen.asked)

    @property
    def asked(self) -> Encoded:
        return self._with_extra(self.chosen.asked)

    def _with_extra(self, names: list[str]) -> Encoded:
        return replace(self.encoded, extra=self.background[names]) if names else self.encoded

    @cached_property
    def reasons(self) -> pd.DataFrame:
        """Why answers are missing, question by question; itself missing where there is an answer.

        One of "not asked", "not applicable", "don't know", "refused", "no answer" and "empty".
        """
        if self.no_answers is None:
            codes = np.where(~self.answers.isna().to_numpy(), -1, REASONS.index(EMPTY))
        else:
            codes = self.no_answers
        columns = {
            name: pd.Categorical.from_codes(codes[:, j], REASONS)
            for j, name in enumerate(self.answers.columns)
        }
        return pd.DataFrame(columns, index=self.background.index)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """One ordered ``Categorical`` of level names per ordinal question; missing = unanswered."""
        return self.encoded.to_frame(self.background.index)


def read_survey(
    data: StrPath | TableLike,
    schema_path: StrPath | None = None,
    schema: Schema | None = None,
    design: Mapping[str, Any] | None = None,
) -> Survey:
    r"""Read a survey: its file, the schema of its columns, and the answers they hold.

    Parameters
    ----------
    data : str, path or data frame (pandas, polars, Arrow, DuckDB, ...)
        A file as `formats.read` takes it, or a table in memory.
    schema_path : str or path, optional
        A TOML file that corrects the schema in some columns or in all.
    schema : Schema, optional
        The schema, for example of a fitted model; by default, the one that `infer.propose` finds.
    design : dict, optional
        Arguments of :class:`SurveyDesign`, with names of columns for ``weights``, ``strata`` and
        ``clusters``, and for ``replicates`` a list of names or patterns with ``*``.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "pupils.csv"
    >>> _ = file.write_text("sex,maths,music\nf,never,3\nm,often,1\nf,n/a,2\n")
    >>> survey = read_survey(file)
    >>> survey.answers
       maths music
    0  never     3
    1  often     1
    2    NaN     2
    >>> [(left.what, left.why, left.count) for left in survey.left_out]
    [("Column 'maths', n/a", 'is no answer', 1)]
    """
    source = read(data) if isinstance(data, str | os.PathLike) else from_frame(data)
    schema = propose(source) if schema is None else schema
    if schema_path is not None:
        schema = override(schema, read_text(place(schema_path)), f"File '{schema_path}'")
    return apply(source, schema, design)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"File '{path}' does not exist; check the path.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"File '{path}' is not UTF-8 text; save it as UTF-8.") from error
    except OSError as error:
        raise unreadable(path, error.strerror or error) from error


def apply(source: Source, schema: Schema, design: Mapping[str, Any] | None = None) -> Survey:
    """The answers and the background in a file, by a schema of its columns.

    If the schema comes from another file, its codes count, and labels of this file do not. Codes
    that the schema does not know and this file declares as missing are missing, too.
    """
    sampled, schema = _sampled(source, schema, design) if design else (None, schema)
    _check_schema(source, schema)
    out: list[LeftOut] = []
    here = [column for column in schema.columns if _is_used(source, column, out)]
    questions = [column for column in here if column.role == "ordinal"]
    levels = [_levels(source, column, out) for column in questions]
    encoded = _encoded(questions, [of_column for of_column, _ in levels])
    no_answers = np.column_stack([why for _, why in levels])
    background = {c.name: _background(source, c, out) for c in here if c.role in OF_PEOPLE}
    weight = next((_weights(source, c, out) for c in here if c.role == "weight"), None)
    ids = next((as_whole(source.frame[c.name]) for c in here if c.role == "id"), None)
    known = {column.name for column in schema.columns}
    unknown = [name for name in source.frame.columns if name not in known]
    out += [LeftOut(f"Column {name!r}", "is not in the schema") for name in unknown]
    notes = (*source.remarks, *_silent_rows(encoded))
    others = pd.DataFrame(background, index=source.frame.index)
    encoded = replace(encoded, groups=others)
    survey = Survey(source.name, encoded, others, weight, ids, schema, tuple(out), notes, no_answers)
    return replace(survey, design=sampled)


def _sampled(source: Source, schema: Schema, given: Mapping[str, Any]) -> tuple[SurveyDesign, Schema]:
    """The design that columns of a file make, and the schema in which these are no questions."""
    frame, parts, roles = source.frame, dict(given), dict.fromkeys(schema.names("weight"), "weights")
    if roles:
        parts.setdefault("weights", next(iter(roles)))
    for what in ("weights", "strata", "clusters", "replicates"):
        named = parts.get(what) or ()
        patterns = [named] if isinstance(named, str) else named
        main = getattr(parts.get("weights"), "name", None)  # a pattern of replicates does not mean these
        own = [
            name
            for name in frame
            if name in patterns or (name != main and any(fnmatchcase(name, one) for one in patterns))
        ]
        idle = next((one for one in patterns if not any(fnmatchcase(name, one) for name in frame)), None)
        if idle is not None and idle not in frame:
            guess = did_you_mean(idle.strip("*"), frame.columns)
            raise DataError(f"{what} {idle!r} matches no column of {source.name!r}{guess}; name another.")
        if own:
            parts[what] = frame[own] if what == "replicates" else frame[own[0]]
        roles |= dict.fromkeys(own, what)

    def outside(column: Column) -> Column:
        what = roles.get(column.name)
        if what is None or (what == "strata" and column.role != "ordinal"):
            return column
        role: Role = "background" if what == "strata" else "ignored"
        if what == "weights" and column.name == parts["weights"].name:
            role = "weight"
        return replace(column, role=role, reason=f"{what} of the sample's design", confidence=1.0)

    return SurveyDesign(**parts), replace(schema, columns=tuple(map(outside, schema.columns)))


def _silent_rows(encoded: Encoded) -> list[str]:
    silent = int((encoded.observations.row_counts == 0).sum())
    if not silent:
        return []
    rows, they, them = ("row has", "it is", "it") if silent == 1 else ("rows have", "they are", "them")
    said = f"{silent:,} {rows} no answer to any question"
    return [f"{said}: {they} kept, but nothing is learnt from {them}."]


# ---- checks -----------------------------------------------------------------------------------


def _check_schema(source: Source, schema: Schema) -> None:
    questions = schema.names("ordinal")
    if not questions:
        raise DataError(
            f"{source.where} has no column that was taken for an ordinal question; give roles and "
            "levels in a schema."
        )
    for name in questions:
        if name not in source.frame:
            raise DataError(
                f"{source.where} lacks the column {name!r}"
                f"{did_you_mean(name, source.frame.columns)}; add it, empty if nobody was asked."
            )
    for role in ("weight", "id"):
        names = schema.names(role)
        if len(names) > 1:
            raise DataError(
                f"The schema of {source.name!r} gives the role {role} to {names[0]!r} and "
                f"{names[1]!r}; keep one and make the others background or ignored."
            )


def _is_used(source: Source, column: Column, out: list[LeftOut]) -> bool:
    """Whether a column of the schema is there and used; if not, ``out`` gets the reason."""
    is_there, is_ignored = column.name in source.frame, column.role == "ignored"
    if is_there and is_ignored:
        out.append(LeftOut(f"Column {column.name!r}", column.reason or "the schema says so"))
    if not is_there and not is_ignored:
        out.append(LeftOut(f"Column {column.name!r}", f"is {column.role}, but the data lacks it"))
    return is_there and not is_ignored


def _note_missing(source: Source, column: Column, missing: set[Code], out: list[LeftOut]) -> None:
    """Note the codes of a column that are no answer, also Stata's .a to .z."""
    names = dict(zip(column.missing, column.missing_names, strict=True))
    every = count_codes(source.frame[column.name]) if missing else {}
    counts = {code: count for code, count in every.items() if code in missing}
    tags = source.tags.get(column.name)
    if tags is not None:
        counts |= count_codes(pd.Series(sorted(tags[tags != ""])))
    labels = source.value_labels.get(column.name, {})
    for code, count in counts.items():
        name = names.get(code) or labels.get(code, "")
        called = f"{code} ({name})" if name and name != str(code) else str(code)
        out.append(LeftOut(f"Column {column.name!r}, {called}", "is no answer", count))


# ---- columns ----------------------------------------------------------------------------------


def _encoded(questions: list[Column], levels: list[np.ndarray]) -> Encoded:
    scales = [Scale(column.names) for column in questions]
    n_levels = [scale.n_levels for scale in scales]
    observations = Observations.from_columns(lambda j: levels[j], len(levels), n_levels)
    return Encoded(observations, scales, [column.name for column in questions])


def _levels(source: Source, column: Column, out: list[LeftOut]) -> tuple[np.ndarray, np.ndarray]:
    """Levels of a question, -1 where it is unanswered, and the reasons of missing answers."""
    held, find = Held.of(source, column), position_finder(column.levels)
    others = [code for code in held.codes if find(code) < 0]
    missing = missing_codes(source, column, others)
    unknown = next((code for code in others if code not in missing), None)
    if unknown is not None:
        row = int((held.position == held.codes.index(unknown)).argmax())
        raise DataError(
            f"{source.where}, column {column.name!r}, row {row} (counted from 0): the value "
            f"{unknown!r} is not among the levels {shorten(column.levels)}; correct it, leave it "
            "empty, or list it under missing or levels in the schema."
        )
    _note_missing(source, column, missing, out)
    skipped = int(((held.position < 0) & (held.level < 0)).sum()) if BLANK in column.levels else 0
    if skipped:
        what = f"Column {column.name!r}, blank in all columns of its battery"
        out.append(LeftOut(what, "may have been skipped", skipped))
    return held.level, held.reason


class Held(NamedTuple):
    """The cells of a column."""

    level: np.ndarray  # position among the levels, or -1
    reason: np.ndarray  # why there is none, as a position in REASONS; -1 where there is one
    position: np.ndarray  # position among the codes, or -1 where it is empty
    codes: list[Code]

    @classmethod
    def of(cls, source: Source, column: Column) -> Self:
        position, codes = factorise_codes(source.frame[column.name])
        find = position_finder(column.levels)
        # One more entry than codes, so that position -1 finds the level of an empty cell.
        level = np.array([*map(find, codes), find(BLANK)], dtype=np.int16)[position]
        if BLANK in column.levels:
            level[skipped_rows(source, column)] = -1
        return cls(level, _reasons(source, column, position, codes, level), position, codes)


def _reasons(
    source: Source, column: Column, position: np.ndarray, codes: list[Code], levels: np.ndarray
) -> np.ndarray:
    find, labels = position_finder(column.missing), source.value_labels.get(column.name, {})

    def reason(code: Code) -> int:
        stated = find(code)
        by_schema = column.missing_sorts[stated] if stated >= 0 else None
        return REASONS.index(by_schema or sort_of(labels.get(code, str(code))))

    # Where people tick or leave blank, an empty cell is no gap that could be filled.
    empty: Reason = "not asked" if BLANK in column.levels else EMPTY
    reasons = np.array([*map(reason, codes), REASONS.index(empty)], dtype=np.int8)[position]
    tags = source.tags.get(column.name)
    if tags is not None:
        for tag in set(tags.tolist()) - {""}:
            reasons[tags == tag] = reason(tag)
    reasons[levels >= 0] = -1
    return reasons


def missing_codes(source: Source, column: Column, codes: Iterable[Code]) -> set[Code]:
    declared = source.missing.get(column.name, ())
    find_stated = position_finder(column.missing)
    return {code for code in codes if find_stated(code) >= 0 or is_among(code, declared)}


def _background(source: Source, column: Column, out: list[LeftOut]) -> pd.Series | pd.Categorical:
    """Names where the column has names, else the values; missing where the code is no answer."""
    values = source.frame[column.name]
    position, codes = factorise_codes(values)
    missing = missing_codes(source, column, codes)
    _note_missing(source, column, missing, out)
    is_missing = np.array([code in missing for code in codes] + [False])[position]
    if column.role == "numeric":
        if not pd.api.types.is_numeric_dtype(values.dtype):
            return _numbers(source, column, position, codes, missing)
        return _without(values, is_missing)
    if list(column.names) == [str(code) for code in column.levels]:
        if isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype) or values.dtype == object:
            # SPSS has "" where a text is missing; that is no group.
            is_missing |= np.array([isinstance(v, str) and not v.strip() for v in values])
        return _without(values, is_missing)
    full = with_all_codes(column, [code for code in codes if code not in missing])
    find = position_finder(full.levels)
    category_of = [-1 if code in missing else find(code) for code in codes]
    return pd.Categorical.from_codes(np.array([*category_of, -1])[position], list(full.names))


def _without(values: pd.Series, is_missing: np.ndarray) -> pd.Series:
    if is_missing.any() and values.dtype.kind in "iu":
        values = values.astype("Int64")  # never by way of floats, in which long ids merge
    return as_whole(values.mask(is_missing))


def with_all_codes(column: Column, codes: Iterable[Code]) -> Column:
    """The column with these codes among its levels; one without a name is called by its code."""
    find, levels, names = position_finder(column.levels), list(column.levels), list(column.names)
    for code in codes:
        if find(code) < 0:
            levels.append(code)
            names.append(str(code) if str(code) not in names else f"code {code}")
    return replace(column, levels=tuple(levels), names=tuple(names))


def _numbers(
    source: Source, column: Column, position: np.ndarray, codes: list[Code], missing: set[Code]
) -> pd.Series:
    """A numeric column that is no column of numbers in the file; missing where the code is no answer."""
    for k, code in enumerate(codes):
        if code not in missing and as_number(code) is None:
            raise DataError(
                f"{source.where}, column {column.name!r}, row {int((position == k).argmax())} "
                f"(counted from 0): {code!r} is no number; correct it, list it under missing, or "
                "make the column nominal in the schema."
            )
    numbers = [np.nan if code in missing else as_number(code) for code in codes]
    return as_whole(pd.Series(np.array([*numbers, np.nan], float)[position], source.frame.index))


def as_whole(values: pd.Series) -> pd.Series:
    """Floats that are all whole as integers, nullable ones where there are gaps.

    SPSS and Stata have floats only; as the name of a respondent, 1001.0 looks wrong.
    """
    if values.dtype.kind != "f":
        return values
    known = values.dropna()
    if known.empty or not ((known % 1 == 0) & (known.abs() < _EXACT)).all():
        return values
    return values.astype("int64" if len(known) == len(values) else "Int64")


def _weights(source: Source, column: Column, out: list[LeftOut]) -> pd.Series:
    values = source.frame[column.name]
    if values.isna().all():  # of whatever type
        values = pd.Series(np.nan, values.index, name=values.name)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        raise DataError(
            f"{source.where}, column {column.name!r}: weights must be numbers, but there is "
            f"{values.dropna().iloc[0]!r}; correct them or give the column another role."
        )
    weights = values.astype("float64")
    missing, zero = ~np.isfinite(weights), weights <= 0
    for what, which in (("missing weights", missing), ("weights of 0 or less", zero & ~missing)):
        if which.any():
            why = "these people do not count where people count by weight"
            out.append(LeftOut(f"Column {column.name!r}, {what}", why, int(which.sum())))
    return weights


# ---- choosing columns -------------------------------------------------------------------------


def select(schema: Schema, questions: Sequence[str] = (), exclude: Sequence[str] = ()) -> Schema:
    """A schema with only some questions, and without some columns: names or patterns with ``*``.

    Education, income and the like, by which people can be compared, become background where they are
    not among the questions that are named.
    """
    ordinal, every = schema.names("ordinal"), [column.name for column in schema.columns]
    wanted = set(ordinal)
    if questions:
        entries = _entries(schema, questions)
        wanted = {name for entry in entries for name in _matched(schema, ordinal, entry, "questions")}
    left = {name for entry in _entries(schema, exclude) for name in _matched(schema, every, entry, "exclude")}
    if not wanted - left:
        raise DataError("exclude leaves no question; name fewer columns.")

    def selected(column: Column) -> Column:
        if column.name in left:
            return replace(column, role="ignored", reason="excluded", confidence=1.0)
        if column.role != "ordinal" or column.name in wanted:
            return column
        text = column.question or column.name
        is_group = asks(text, "banded") or asks(f"level of {text}", "banded")
        role: Role = "background" if is_group else "ignored"
        return replace(column, role=role, reason="not among the questions", confidence=1.0)

    return replace(schema, columns=tuple(map(selected, schema.columns)))


def choose(schema: Schema, values: pd.DataFrame, include: Sequence[str], background: Sequence[str]) -> Chosen:
    """The columns that words, names and patterns mean; a text may have several, with commas.

    A word, such as nominal, means all columns with that role that are not named otherwise.
    """
    entries: dict[_How, list[str]] = {
        "include": _entries(schema, include),
        "background": _entries(schema, background),
    }
    asked, background_names = (_named(schema, values, entries, how) for how in _WORDS)
    both = [name for name in asked if name in background_names]
    if both:
        raise DataError(f"include and --background both name {both[0]!r}; leave it in one of them.")
    is_number = {
        name: pd.api.types.is_numeric_dtype(values[name].dtype) for name in [*asked, *background_names]
    }
    numeric = [n for n in asked if is_number[n] and schema.column(n).role != "nominal"]
    codes = [n for n in background_names if is_number[n] and schema.column(n).role == "nominal"]
    nominal = [n for n in asked if n not in numeric]
    return Chosen(tuple(nominal), tuple(numeric), tuple(background_names), tuple(codes))


def _entries(schema: Schema, texts: Sequence[str]) -> list[str]:
    """The texts between commas; but a name may have a comma of its own."""
    names = {column.name for column in schema.columns}
    parts = [part for text in texts for part in ([text] if text in names else text.split(","))]
    return [part.strip() for part in parts if part.strip()]


def _named(
    schema: Schema, values: pd.DataFrame, entries: Mapping[_How, Sequence[str]], how: _How
) -> list[str]:
    """Columns in the order of the file; a word means all that are not named otherwise."""
    other: _How = "background" if how == "include" else "include"
    columns = list(values.columns)

    def is_word(entry: str, of: _How) -> bool:
        return entry in _WORDS[of] and entry not in columns

    by_word = [entry for entry in entries[how] if is_word(entry, how)]
    named = [entry for entry in entries[how] if not is_word(entry, how)]
    chosen = {name for entry in named for name in _matched(schema, columns, entry, how)}
    if by_word:
        others = [entry for entry in entries[other] if not is_word(entry, other)]
        taken = {name for entry in others for name in _matched(schema, columns, entry, other)}
        with_role = [name for name in columns if schema.column(name).role in by_word]
        if not with_role:
            raise DataError(
                f"{how} {by_word[0]} finds no column with the role {by_word[0]}; name columns, or give "
                "them the role in a schema."
            )
        chosen |= set(with_role) - taken
    return [name for name in columns if name in chosen]


def _matched(schema: Schema, among: Sequence[str], entry: str, how: str) -> list[str]:
    names = [entry] if entry in among else [name for name in among if fnmatchcase(name, entry)]
    if names:
        return names
    role = next((column.role for column in schema.columns if column.name == entry), None)
    if role is not None:
        raise DataError(
            f"{how} names {entry!r}, which has the role {role}; give it another role in a schema, or leave "
            "it out."
        )
    what = {"questions": "question", "exclude": "column"}.get(how, "nominal, numeric or background column")
    raise DataError(
        f"{how} {entry!r} matches no {what}{did_you_mean(entry.strip('*'), among, 0.5)}; "
        f"give names or patterns with *, with commas between, such as {', '.join(among[:3])}."
    )
