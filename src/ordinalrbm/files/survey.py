"""A survey that is ready to be learnt from: its answers, and what else is known of the people."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ordinalrbm.files.schema import Schema


@dataclass(frozen=True)
class LeftOut:
    """Something of a file that is not used, and why.

    Attributes
    ----------
    what : str
        The column, the codes of a column, or the rows, in words.
    why : str
        The reason, in words.
    count : int
        How many cells or rows it concerns; 0 where counting makes no sense.
    """

    what: str
    why: str
    count: int = 0


@dataclass(frozen=True)
class Survey:
    """Answers and background of respondents, row by row.

    Attributes
    ----------
    name : str
        What to call the survey, usually the name of its file.
    answers : DataFrame
        One ordered ``Categorical`` of level names per ordinal question; missing = unanswered.
    background : DataFrame
        Of the same rows: country, sex, age, ...; labels where the file has labels, else numbers or
        text.
    weight : Series or None
        Weights of the respondents. They are carried along, learning does not use them.
    ids : Series or None
        What the respondents are called.
    schema : Schema
        What each column of the file was taken for, its question text among it.
    left_out : tuple of LeftOut
        Everything that was in the file and is not used.
    """

    name: str
    answers: pd.DataFrame
    background: pd.DataFrame
    weight: pd.Series | None
    ids: pd.Series | None
    schema: Schema
    left_out: tuple[LeftOut, ...]
