"""What the columns of a survey file mean: roles, levels in order, codes that are no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = int | float | str
Role = Literal["ordinal", "background", "weight", "id", "ignored"]


@dataclass(frozen=True)
class Column:
    """What one column of a file was taken for.

    Attributes
    ----------
    name : str
    role : {"ordinal", "background", "weight", "id", "ignored"}
    question : str
        The variable label, or nothing.
    levels : tuple of codes
        Ordinal columns: codes as they stand in the file, from lowest to highest.
    names : tuple of str
        What the levels are called, as many as there are levels and all different.
    missing : tuple of codes
        Codes that stand in the file but are no answer ("don't know", "refused", user-missing).
    missing_names : tuple of str
        What these are called.
    reason : str
        Why it was taken for that, in words.
    """

    name: str
    role: Role
    question: str = ""
    levels: tuple[Code, ...] = ()
    names: tuple[str, ...] = ()
    missing: tuple[Code, ...] = ()
    missing_names: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Schema:
    """All columns of a file, in its order."""

    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)

    def names(self, role: Role) -> list[str]:
        """Names of the columns with a role, in the order of the file."""
        return [column.name for column in self.columns if column.role == role]
