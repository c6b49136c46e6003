"""What the columns of a survey file mean: roles, levels in order, codes that are no answer.

``toml`` writes a schema as TOML, to be corrected by hand, and reads it again.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ordinalrbm.errors import DataError
from ordinalrbm.schema.vocabulary import Sort, sort_of

Code = int | float | str
Role = Literal["ordinal", "nominal", "numeric", "background", "fieldwork", "weight", "id", "ignored"]
ROLES: tuple[Role, ...] = get_args(Role)
BLANK: Code = ""  # among levels: an empty cell is an answer, as where only ticks are written
DOUBTFUL = 0.75  # proposals of which we are less sure are shown first


@dataclass(frozen=True)
class Column:
    """What one column of a file was taken for.

    Attributes
    ----------
    name : str
    role : {"ordinal", "nominal", "numeric", "background", "fieldwork", "weight", "id", "ignored"}
        Ordinal columns are questions with levels, nominal ones have categories without an order,
        numeric ones hold numbers. Background tells of people and may be any of these; fieldwork
        tells of interviewers and of the sample: strata, sampling units, what interviewers saw.
    question : str
        The variable label, or nothing.
    levels : tuple of codes
        Ordinal columns: codes as they stand in the file, from lowest to highest; "" stands for an
        empty cell, where people tick or leave blank. Other columns: codes that have names, in no
        order.
    names : tuple of str
        What the levels are called, as many as there are levels and all different.
    missing : tuple of codes
        Codes that stand in the file but are no answer ("don't know", "refused", user-missing);
        Stata's extended missing values are ".a" to ".z".
    missing_names : tuple of str
        What these are called.
    reason : str
        Why it was taken for that, in words.
    missing_sorts : tuple of str
        What sort of non-answer each missing code is: "not asked", "not applicable", "don't know",
        "refused" or "no answer"; by default, as their names tell.
    confidence : float
        How sure that is, from 0 to 1; below 0.75 it should be looked at.
    """

    name: str
    role: Role
    question: str = ""
    levels: tuple[Code, ...] = ()
    names: tuple[str, ...] = ()
    missing: tuple[Code, ...] = ()
    missing_names: tuple[str, ...] = ()
    reason: str = ""
    missing_sorts: tuple[Sort, ...] = ()
    confidence: float = 1.0

    def __post_init__(self) -> None:
        if len(self.missing_sorts) != len(self.missing):  # their names tell
            are_named = len(self.missing_names) == len(self.missing)
            names = self.missing_names if are_named else map(str, self.missing)
            object.__setattr__(self, "missing_sorts", tuple(map(sort_of, names)))

    @property
    def sorts(self) -> dict[Code, Sort]:
        return dict(zip(self.missing, self.missing_sorts, strict=True))

    @property
    def is_doubtful(self) -> bool:
        return self.confidence < DOUBTFUL


@dataclass(frozen=True)
class Schema:
    """All columns of a file, in its order."""

    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def names(self, *roles: Role) -> list[str]:
        return [column.name for column in self.columns if column.role in roles]


def to_json(schema: Schema) -> dict[str, Any]:
    return {"columns": [json.loads(json.dumps(asdict(column))) for column in schema.columns]}


def from_json(content: Mapping[str, Any], where: str = "The model file") -> Schema:
    try:
        columns: list[dict[str, Any]] = [
            {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
            for entry in content["columns"]
        ]
        return Schema(tuple(Column(**fields) for fields in columns))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where} lacks a part of its schema ({error}); save the model again.") from error


def did_you_mean(word: str, known: Iterable[str], alike: float = 0.6) -> str:
    """A known word that looks like this one, to put into an error message; or nothing."""
    by_case = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_case, n=1, cutoff=alike)
    return f" (did you mean {by_case[close[0]]!r}?)" if close else ""
