"""Columns beside the ordinal questions that a model is to learn from, as somebody names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import pandas as pd

from ordinalrbm.errors import DataError
from ordinalrbm.schema.schema import Role, Schema, did_you_mean

OF_PEOPLE: tuple[Role, ...] = ("nominal", "numeric", "background")  # what is no ordered question
_How = Literal["include", "background"]
# Words that stand for all columns with a role.
_WORDS: dict[_How, tuple[Role, ...]] = {"include": ("nominal", "numeric"), "background": ("background",)}


class Chosen(NamedTuple):
    """Columns of other kinds that a model learns from, in the order of its table.

    ``nominal`` and ``numeric`` ones are asked about. ``background`` shapes what is expected of
    people; its numbers are codes of groups where they are among the ``codes``.
    """

    nominal: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    @property
    def asked(self) -> list[str]:
        """Those that are questions."""
        return [*self.nominal, *self.numeric]

    @property
    def columns(self) -> list[str]:
        return [*self.asked, *self.background]

    @property
    def parameters(self) -> dict[str, list[str]]:
        """As an estimator takes it; nothing where nothing is chosen.

        Examples
        --------
        >>> Chosen(nominal=("party",), background=("land",), codes=("land",)).parameters
        {'nominal': ['party', 'land'], 'background': ['land']}
        """
        every = {
            "nominal": [*self.nominal, *self.codes],
            "numeric": list(self.numeric),
            "background": list(self.background),
        }
        return {kind: names for kind, names in every.items() if names}

    @classmethod
    def of_kinds(cls, names: Iterable[str], kinds: Iterable[str]) -> Chosen:
        """What a fitted model has learnt from, by the kinds of its columns."""
        pairs = list(zip(names, kinds, strict=True))
        return cls(*(tuple(name for name, own in pairs if own == kind) for kind in cls._fields[:3]))


NOTHING = Chosen()


def choose(schema: Schema, values: pd.DataFrame, include: Sequence[str], background: Sequence[str]) -> Chosen:
    """The columns that words, names and patterns stand for; several may be in a text, with commas.

    A word, such as nominal, stands for all columns with that role that are not named otherwise.

    Examples
    --------
    >>> from ordinalrbm.schema.schema import Column
    >>> schema = Schema((Column("party", "nominal"), Column("age", "background")))
    >>> values = pd.DataFrame({"party": ["a", "b"], "age": [20, 30]})
    >>> choose(schema, values, ["nominal"], ["a*"])
    Chosen(nominal=('party',), numeric=(), background=('age',), codes=())
    """
    entries: dict[_How, list[str]] = {
        "include": _entries(schema, include),
        "background": _entries(schema, background),
    }
    asked, told = (_named(schema, values, entries, how) for how in _WORDS)
    both = [name for name in asked if name in told]
    if both:
        raise DataError(f"include and --background both name {both[0]!r}; leave it in one of them.")
    is_number = {name: _is_number(values[name]) for name in [*asked, *told]}
    numeric = [n for n in asked if is_number[n] and schema.column(n).role != "nominal"]
    codes = [n for n in told if is_number[n] and schema.column(n).role == "nominal"]
    nominal = [n for n in asked if n not in numeric]
    return Chosen(tuple(nominal), tuple(numeric), tuple(told), tuple(codes))


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values.dtype)


def _entries(schema: Schema, texts: Sequence[str]) -> list[str]:
    """What stands between the commas; but a name may have a comma of its own."""
    names = {column.name for column in schema.columns}
    parts = [part for text in texts for part in ([text] if text in names else text.split(","))]
    return [part.strip() for part in parts if part.strip()]


def _named(
    schema: Schema, values: pd.DataFrame, entries: Mapping[_How, Sequence[str]], how: _How
) -> list[str]:
    """Columns in the order of the file; a word stands for those that nobody names otherwise."""
    other: _How = "background" if how == "include" else "include"
    taken = {
        name
        for entry in entries[other]
        if entry in values or entry not in _WORDS[other]
        for name in _matched(schema, values, entry, other)
    }
    found: set[str] = set()
    for entry in entries[how]:
        own = _matched(schema, values, entry, how)
        is_word = entry in _WORDS[how] and entry not in values
        found.update(name for name in own if not (is_word and name in taken))
    return [name for name in values.columns if name in found]


def _matched(schema: Schema, values: pd.DataFrame, entry: str, how: _How) -> list[str]:
    roles = {column.name: column.role for column in schema.columns}
    if entry in values:
        return [entry]
    if entry in roles:
        raise DataError(_refused(entry, roles[entry], how))
    if entry in _WORDS[how]:
        found = [name for name in values if roles[name] == entry]
        if not found:
            raise DataError(
                f"{how} {entry} finds no column with the role {entry}; name columns, or give them "
                "the role in a schema."
            )
        return found
    found = [name for name in values if fnmatchcase(name, entry)]
    if not found:
        raise DataError(
            f"{how} {entry!r} matches no nominal, numeric or background column"
            f"{did_you_mean(entry.strip('*'), values.columns)}; give a name, a pattern with *, or "
            f"{' or '.join(_WORDS[how])}."
        )
    return found


def _refused(name: str, role: Role, how: _How) -> str:
    """Why a column of the file cannot be chosen."""
    if role == "ordinal" and how == "include":
        return f"include names {name!r}, an ordinal question, which takes part anyway; leave it out."
    remedy = "give it the role background in a schema, or leave it out."
    if role == "ordinal":
        return f"background names {name!r}, an ordinal question; {remedy}"
    return f"{how} names {name!r}, which has the role {role}; {remedy}"
