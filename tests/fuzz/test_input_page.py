"""Every line of docs/input.md is true."""

import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import ordinalrbm as orbm
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.ratings import ratings_of, read_rating_file
from ordinalrbm.files.survey import read_survey

PAGE = Path(__file__).parents[2] / "docs" / "input.md"
LINE = re.compile(r"^\| (.+?) \| (legal|repaired|refused) \| (.*?) ?\|$", re.MULTILINE)
FOLDER = Path(tempfile.mkdtemp())


def survey(**own: Any) -> orbm.CumulativeRBM:
    return orbm.CumulativeRBM.binary(1, n_epochs=1, n_jobs=1, random_state=0, **own)


def fit(table: Any, **own: Any) -> orbm.CumulativeRBM:
    return survey(**own).fit(table)


def column(values: Any, **own: Any) -> orbm.CumulativeRBM:
    return fit(pd.DataFrame({"q": values}), **own)


def rate(users: Any, items: Any, ratings: Any, validation: Any = None, **own: Any) -> Any:
    model = orbm.MatrixCumulativeRBM(1, 1, n_epochs=1, n_jobs=1, random_state=0, **own)
    return model.fit((users, items, ratings), validation)


def frame_of_ratings(**columns: Any) -> Any:
    given = {"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1, 2, 3], **columns}
    model = orbm.OrdinalMF(1, n_epochs=1, n_jobs=1, random_state=0)
    return model.fit(pd.DataFrame({k: v for k, v in given.items() if v is not None}))


def small() -> Any:
    return rate([1, 1, 2], [1, 2, 1], [1, 2, 3])


def rated(lines: str) -> Any:
    path = FOLDER / "ratings.csv"
    path.write_text("user,item,rating,date\n" + lines)
    return read_rating_file(path)


def text(content: str | bytes, name: str = "a.csv") -> Any:
    path = FOLDER / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_survey(path)


def sheet(rows: list[list[Any]]) -> Any:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(FOLDER / "a.xlsx")
    return read_survey(FOLDER / "a.xlsx")


def schema(toml: str, **columns: Any) -> Any:
    path = FOLDER / "a.toml"
    path.write_text(toml)
    table = {"q": [1, 2, 3, 2], "t": ["never", "often", "never", None], **columns}
    return read_survey(pd.DataFrame(table), path)


A = np.array([[1.0, 2], [2, 1], [3, 2]])
F = pd.DataFrame({"a": [1, 2, 3], "b": [1, 1, 2]})
# In the last column nobody says 4 until the end.
BATTERY = pd.DataFrame({q: np.resize([1, 2, 3, 4], 204) for q in "abcd"})
BATTERY.loc[:199, "d"] = np.resize([1, 2, 3], 200)
STORED_ZERO = sp.coo_array(([0.0, 1, 2], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
OWN = {1: [1, 2, 3], 2: [1, 2]}


def every(*calls: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        return [call() for call in calls][-1]

    return run


ANSWERS: dict[str, Callable[[], Any]] = {
    "frame (pandas, polars, Arrow, DuckDB), 2-D array, list of lists, sparse matrix": every(
        lambda: fit(F), lambda: fit(A), lambda: fit(A.tolist()), lambda: fit(sp.csr_array(A))
    ),
    "numbers of any type, fractions and negative ones too": lambda: column([-1, 0.5, 2e9]),
    "booleans": lambda: column([True, False, True]),
    "ordered categories, intervals of `pandas.cut` too": lambda: column(pd.cut([1, 5, 9], 2)),
    "NaN, None, pd.NA, NaT, masked cells of an array: unanswered": every(
        lambda: column(pd.Series([1, np.nan, None, pd.NA, pd.NaT], dtype=object)),
        lambda: fit(np.ma.masked_equal(A, 3)),
    ),
    "text, with its order in `scales`": lambda: column(["lo", "hi"], scales={"q": ["lo", "hi"]}),
    "a column in which all answers are equal": lambda: column([3, 3, 3]),
    "a row without any answer": lambda: fit([[1, 2], [None, None], [2, 1]]),
    "a level between others without any answer": lambda: column([1, 2, 5]),
    "stored zeros of a sparse matrix": lambda: fit(STORED_ZERO),
    "a data frame that lacks some columns of the model: these are unanswered": lambda: fit(F).transform(
        F[["a"]]
    ),
    "an array for a model of a frame": lambda: fit(F).transform(F.to_numpy()),
    "more than 100 levels": lambda: column(np.arange(101)),
    "text without an order": lambda: column(["lo", "hi"]),
    "categories without an order": lambda: column(pd.Categorical(["lo", "hi"])),
    "a level without any answer in one question of a battery (three or more columns with the same "
    "whole numbers)": lambda: fit(BATTERY.iloc[:8]),
    "the same after `fit`, where the question has its own shorter scale: it counts as the nearest "
    "level, except in `impute`": lambda: fit(BATTERY.iloc[:200]).transform(BATTERY),
    "a value that is not on the scale": lambda: fit(F).transform(F.replace(3, 7)),
    "infinity": lambda: column([1.0, np.inf]),
    "a column without any answer, and no scale for it": lambda: column([np.nan, np.nan]),
    "dates, bytes, lists, complex numbers": lambda: column(pd.Series([[1], [2]])),
    "more than 32,767 levels": lambda: column(np.arange(32_768)),
    "two columns with one name": lambda: fit(pd.DataFrame(A, columns=["a", "a"])),
    "column names of which some are text and some are not": lambda: fit(pd.DataFrame(A, columns=["a", 1])),
    "other columns than those learnt": lambda: fit(F).transform(F.rename(columns={"a": "c"})),
    "another number of columns, in an array": lambda: fit(A).transform(A[:, :1]),
    "no rows": lambda: fit(A[:0]),
    "no columns": lambda: fit(A[:, :0]),
    "one dimension, or three": lambda: fit(A[0]),
    "the name of a file": lambda: fit("survey.sav"),
    "rows of unequal length": lambda: fit([[1, 2], [1]]),
    "a cell stored twice in a sparse matrix": lambda: fit(
        sp.coo_array(([1, 2], ([0, 0], [0, 0])), shape=(1, 1))
    ),
    "a scale with a label twice, or labels of two types": lambda: fit(A, scales=[1, 1, 2]),
    "a scale for a column that is not there": lambda: fit(F, scales={"z": [1, 2]}),
    "weights that are negative, missing or infinite": lambda: survey().fit(A, sample_weight=[1, -1, 1]),
    "no answer to score": lambda: fit(A).score(A * np.nan),
}
RATINGS: dict[str, Callable[[], Any]] = {
    "frame with user, item, rating; three arrays; sparse matrix": every(
        frame_of_ratings, small, lambda: orbm.OrdinalMF(1, n_epochs=1).fit(sp.csr_array(A))
    ),
    "ids that are integers (of any size up to 64 bits), or text": lambda: rate(
        [2**63 - 1, -5], ["a", "é"], [1, 2]
    ),
    "whole numbers that became floats as ids": lambda: rate([1.0, 2.0], [1, 2], [1, 2]),
    "ratings that are numbers, booleans or ordered categories": every(
        lambda: rate([1, 2], [1, 2], [0.5, -1]),
        lambda: rate([1, 2], [1, 2], [True, False]),
        lambda: rate([1, 2], [1, 2], pd.Categorical(["b", "a"], ["b", "a"], ordered=True)),
    ),
    "text ratings with `scale`": lambda: rate([1, 2], [1, 2], ["a", "b"], scale=["b", "a"]),
    "other common column names: customer_id, movieId, stars": lambda: frame_of_ratings(
        user=None, customer_id=[1, 1, 2], rating=None, stars=[1, 2, 3]
    ),
    "columns besides these three": lambda: frame_of_ratings(when=["now", "then", None]),
    "unknown users and items in questions and validation": lambda: rate(
        [1, 1, 2], [1, 2, 1], [1, 2, 3], ([9], [9], [1])
    ).predict(77, 77),
    "stored zeros where 0 is not on the scale": lambda: orbm.OrdinalMF(1, n_epochs=1, scale=[1, 2]).fit(
        STORED_ZERO
    ),
    "ratings on a scale of one level": lambda: rate([1, 2], [1, 1], [5, 5]),
    "validation ratings on a scale that was not learnt": lambda: rate(
        [1, 1, 2], [1, 2, 1], [1, 2, 3], ([1, 1], [7, 1], [1, 1]), item_scales=OWN
    ),
    "more than 100 distinct ratings": lambda: rate(np.arange(101), [1] * 101, np.arange(101)),
    "a missing user or item": lambda: rate([1, None], [1, 2], [1, 2]),
    "a missing rating": lambda: rate([1, 2], [1, 2], [1, np.nan]),
    "an infinite rating": lambda: rate([1, 2], [1, 2], [1, np.inf]),
    "a rating that is not on the scale": lambda: rate([1, 2], [1, 2], [1, 7], scale=[1, 2]),
    "text ratings without an order": lambda: rate([1, 2], [1, 2], ["a", "b"]),
    "one pair twice": lambda: rate([1, 1], [2, 2], [1, 2]),
    "ids of two types": lambda: rate([1, "a"], [1, 2], [1, 2]),
    "booleans, dates, bytes, tuples as ids": lambda: rate([b"a", b"b"], [1, 2], [1, 2]),
    "fractions as ids": lambda: rate([0.5, 1], [1, 2], [1, 2]),
    "integers beyond 64 bits as ids": lambda: rate([2**63, 1], [1, 2], [1, 2]),
    "text ids where integers are known": lambda: small().predict("1", 1),
    "a missing column": lambda: frame_of_ratings(item=None),
    "two columns that could be the same": lambda: frame_of_ratings(
        item=None, movieId=[1, 2, 1], sku=[1, 2, 1]
    ),
    "no rating at all": lambda: rate([], [], []),
    "as many users as items, but not as many ratings": lambda: rate([1, 2], [1, 2], [1]),
    "a list, a dense array": lambda: orbm.GaussianMF(1).fit(A),
    "`item_scales` that is no dictionary": lambda: rate([1], [1], [1], item_scales=[1, 2]),
    "a scale for an item without ratings": lambda: rate([1], [1], [1], item_scales={9: [1, 2]}),
    "folding in a pair whose user and item are known": lambda: small().fold_in(([1], [1], [1])),
    "folding in an item on a longer scale than all that are known": lambda: rate(
        [1, 1, 2], [1, 2, 1], [1, 2, 3], scale=[1, 2, 3, 4, 5], item_scales=OWN
    ).fold_in(([1], [7], [5])),
}
FILES: dict[str, Callable[[], Any]] = {
    "UTF-8 or UTF-16, with its mark or without": every(
        lambda: text("é,b\n1,2\n2,1\n"),
        lambda: text("é,b\n1,2\n2,1\n".encode("utf-8-sig")),
        lambda: text("é,b\n1,2\n2,1\n".encode("utf-16")),
    ),
    "commas, semicolons, tabs or bars; quotes; `sep=` in the first line": every(
        *(lambda d=d: text(f'"a"{d}b\n1{d}2\n2{d}"1"\n') for d in ",;|\t"),
        lambda: text("sep=|\na|b\n1|2\n2|1\n"),
    ),
    "decimal commas between semicolons": lambda: text("a;b\n1,5;1\n2,5;2\n"),
    "text that only looks like a number: 007, 0x1F, ids of 30 digits": lambda: text(
        f"a,b,c,q\n007,0x1F,{'1' * 30},1\n8,31,{'2' * 30},2\n"
    ),
    "empty cells": lambda: text("a,b\n1,1\n,2\n2,1\n"),
    "a column without a name": lambda: text("a,\n1,2\n2,1\n"),
    "text in Windows-1252": lambda: text("é,b\n1,2\n2,1\n".encode("cp1252")),
    "NA, NULL, a dot or a dash among numbers": lambda: text("a,b\n1,NA\n2,1\n1,2\n"),
    "codes that the file or their label declares as no answer": lambda: text("a\nnever\noften\nn/a\n"),
    "rows without any answer, and empty lines in a file of one column": lambda: text("q\n1\n2\n\n1\n"),
    "columns that are no question": lambda: schema('[columns.t]\nrole = "ignored"'),
    "ratings without one of the three, in a row": lambda: rated("u,1,3,1\nv,1,,1\n"),
    "ratings that are text, without a scale": lambda: rated("u,1,good,1\nv,1,bad,1\n"),
    "a user who has rated an item twice": lambda: rated("u,1,3,1\nu,1,4,1\n"),
    "a time that is neither a number nor an ISO date": lambda: rated("u,1,3,May 3rd\n"),
    "a line with too many or too few fields": lambda: text("a,b\n1,2\n1,2,3\n"),
    "a file that is empty": lambda: text("\ufeff\n\n"),
    "only a header": lambda: text("a,b\n"),
    "no header": lambda: text("1,5,3,1\n2,4,4,1\n"),
    "a workbook with formulas that were never computed": lambda: sheet([["a", "b"], [1, "=A2"]]),
    "bytes that are no text": lambda: text(b"a,b\n1,\0\n"),
    "a file that is damaged or cut off": lambda: text(b"PAR1 and no more", "a.parquet"),
    "an ending that is not known": lambda: text("a", "a.docx"),
    "no such file": lambda: read(FOLDER / "gone.csv"),
    "two columns of one name": lambda: text("a,a\n1,2\n"),
    "no column with an order": lambda: text("a,b\nx y,p q\nv w,r s\n"),
}
SCHEMAS: dict[str, Callable[[], Any]] = {
    "some columns, some fields: the rest is as proposed": lambda: schema("[columns.q]"),
    "levels without any answer, as numbers": lambda: schema("[columns.q]\nlevels = [0, 1, 2, 3, 4]"),
    "no TOML": lambda: schema("[columns.q"),
    "a scale that several columns name": lambda: schema(
        '[scales.s]\nlevels = [1, 2, 3]\n[columns]\nq = {scale = "s"}\nt = {scale = "s"}', t=[1, 2, 2, 1]
    ),
    "a table beside scales and columns": lambda: schema('["z*"]\nrole = "id"'),
    "a scale that is not there": lambda: schema('[columns.q]\nscale = "often"'),
    "a column that the data does not have": lambda: schema("[columns.z]"),
    "a field that is not known": lambda: schema("[columns.q]\nlevel = [1, 2]"),
    "a role that is not known": lambda: schema('[columns.q]\nrole = "nominl"'),
    "a value of the wrong type": lambda: schema("[columns.q]\nlevels = 3"),
    "a code twice, or under levels and under missing": lambda: schema("[columns.q]\nlevels = [1, 1, 2, 3]"),
    "text among the codes that is not in the data": lambda: schema(
        '[columns.t]\nlevels = ["never", "always"]'
    ),
    "another number of names than codes": lambda: schema('[columns.q]\nnames = ["one"]'),
    "an ordinal column with one level": lambda: schema("[columns.q]\nlevels = [1]"),
    "a value of the data that is neither level nor missing": lambda: schema("[columns.q]\nlevels = [1, 2]"),
    "two columns with the role weight, or id": lambda: schema(
        '[columns.q]\nrole = "weight"\n[columns.v]\nrole = "weight"', v=[1, 2, 3, 1]
    ),
    "weights that are no numbers": lambda: schema(
        '[columns.t]\nrole = "weight"\n[columns.q]\nlevels = [1, 2, 3]'
    ),
}
SETTINGS: dict[str, Callable[[], Any]] = {
    "a number out of its range, or of another type": lambda: survey().set_params(n_factors=0).fit(A),
    "a word that is none of the choices": lambda: fit(A, inference="magic"),
    "a question before `fit`": lambda: survey().transform(A),
}
CASES = {**ANSWERS, **RATINGS, **FILES, **SCHEMAS, **SETTINGS}


def rows() -> list[tuple[str, str, str]]:
    return LINE.findall(PAGE.read_text(encoding="utf-8"))


def test_every_line_has_a_case() -> None:
    assert [given for given, _, _ in rows()] == list(CASES)


@pytest.mark.parametrize(("given", "verdict", "sentence"), rows())
def test_the_line_is_true(given: str, verdict: str, sentence: str) -> None:
    said, result = [], None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = CASES[given]()
        except (orbm.DataError, NotFittedError) as error:
            assert verdict == "refused", error
            said = [str(error)]
        else:
            assert verdict != "refused"
    if verdict != "refused":
        said = [str(warning.message) for warning in caught]
        said += getattr(result, "notes", ())
        said += [f"{left.what} {left.why}" for left in getattr(result, "left_out", ())]
    if verdict == "legal":
        assert not caught and not getattr(result, "notes", ())
    else:
        parts = [re.escape(part) for part in re.split(r" ?… ?", sentence) if part]
        assert any(re.search(".*".join(parts), text, re.DOTALL) for text in said), said


def test_what_is_repaired_is_counted() -> None:
    """Ratings of a file with gaps: the sentence names the columns and how many cells it was."""
    path = FOLDER / "b.csv"
    path.write_text("user,item,rating\n1,1,NA\n1,2,3\n")
    source = read(path)
    assert source.remarks == ("Cells such as NA among numbers were read as empty, in 'rating' (1).",)
    with pytest.raises(orbm.DataError, match="the rating is missing"):
        frame_of_ratings(**ratings_of(source).to_dict("list"))
    assert from_frame(F).remarks == ()
