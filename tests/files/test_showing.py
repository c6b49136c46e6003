from __future__ import annotations

import io

import pandas as pd
import pytest
from rich.console import Console

from ordinalrbm.cli.schema import proposal_table
from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import from_frame
from ordinalrbm.files.ratings import is_ratings, ratings_of
from ordinalrbm.schema.schema import Column, Schema

LEVELS = tuple(range(1, 6))
NAMES = ("Strongly disagree", "Disagree", "Neither", "Agree", "Strongly agree")


def shown(*columns: Column) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(proposal_table(Schema(columns)))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_many_questions_share_a_line() -> None:
    questions = [
        Column(f"Q{k}", "ordinal", f"text {k}", LEVELS, NAMES, (99,), ("[b]Refused",), "labelled")
        for k in range(1, 151)
    ]
    lines = shown(Column("land", "background", reason="its name"), *questions, Column("w", "weight"))
    assert len(lines) < 12 and max(map(len, lines)) <= 100
    text = " ".join(" ".join(lines).replace("│", " ").split())
    for part in ("Q1 … Q150", "(150", "1 Strongly disagree", "99 [b]Refused", "labelled"):
        assert part in text


@pytest.mark.parametrize(
    "names", [("user", "item", "rating"), ("userId", "movieId", "rating"), ("USER_ID", "item id", "Score")]
)
def test_ratings_are_recognised(names: tuple[str, str, str]) -> None:
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["timestamp", *names])
    source = from_frame(frame)
    assert is_ratings(source)
    assert list(ratings_of(source).columns) == ["user", "item", "rating", "timestamp"]
    assert ratings_of(source).iloc[0].tolist() == [2, 3, 4, 1]


def test_a_survey_is_no_table_of_ratings() -> None:
    source = from_frame(pd.DataFrame({"user": [1], "rating": [3]}))
    assert not is_ratings(source)
    with pytest.raises(DataError, match=r"has no column 'item', only .* rename"):
        ratings_of(source)
