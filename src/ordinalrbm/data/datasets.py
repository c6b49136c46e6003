"""Data that comes with the library, and readers of well-known data that cannot."""

from __future__ import annotations

from importlib import resources
from typing import Literal, overload

import pandas as pd

from ordinalrbm.data.published import read_libimseti, read_movielens, read_netflix

__all__ = ["load_food_world_cup", "read_libimseti", "read_movielens", "read_netflix"]


@overload
def load_food_world_cup(background: Literal[False] = False) -> pd.DataFrame: ...


@overload
def load_food_world_cup(background: Literal[True]) -> tuple[pd.DataFrame, pd.DataFrame]: ...


def load_food_world_cup(
    background: bool = False,
) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
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
