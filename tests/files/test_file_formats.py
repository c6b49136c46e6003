from __future__ import annotations

import gzip
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from made_up_files import LABELS, QUESTIONS, SCRIPT, survey_frame, write_spss, write_stata

from ordinalrbm.errors import DataError, DataTypeError
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.ratings import ratings_of
from ordinalrbm.files.survey import apply
from ordinalrbm.files.writing import write_answers
from ordinalrbm.schema.infer import propose

TABLE = pd.DataFrame({"user": [1, 2], "answer": [4, 5]})


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("ending", [".sav", ".zsav"])
def test_spss(tmp_path: Path, ending: str) -> None:
    source = read(write_spss(tmp_path / f"survey{ending}"))
    assert source.name == "survey"
    pd.testing.assert_frame_equal(source.frame, survey_frame(), check_dtype=False)
    assert source.value_labels == LABELS
    assert source.questions == QUESTIONS
    assert source.missing == {"q1": (98, 99), "q2": ((-9.0, -1.0),)}
    assert source.measure == {"q1": "ordinal", "sex": "nominal", "q2": "scale"}
    assert source.dates == {"when": "date"}
    assert (source.file_label, source.file_notes) == ("made up", ("a note",))


def test_stata(tmp_path: Path) -> None:
    source = read(write_stata(tmp_path / "survey.dta"))
    assert source.value_labels["land"][3] == SCRIPT
    assert source.value_labels["q1"][".a"] == "Weiß nicht"
    assert source.tags["q1"][:4].tolist() == [".a", ".b", "", ""]
    assert source.frame["q1"].isna().tolist()[:4] == [True, True, True, False]
    assert source.frame["q1"][3:].tolist() == survey_frame()["q1"][3:].tolist()
    assert source.dates == {"when": "date"}


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_cut_off_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey{ending}"
    (write_spss if ending == ".sav" else write_stata)(path)
    written(path, path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"survey\.(sav|dta)' cannot be read \(.*complete"):
        read(path)


# ---- CSV --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "user,answer\n1,4\n2,5\n"),
        ("a.csv", '"user";"answer"\r\n1;4\r\n2;5'),
        ("a.csv", b"\xef\xbb\xbfuser,answer\n1,4\n2,5\n"),
        ("a.csv", "user,answer\n1,4\n2,5\n".encode("utf-16")),
        ("a.CSV", "user|answer\n1|4\n2|5\n"),
        ("a.tsv", "user\tanswer\n 1\t4 \n2\t5\n"),
        ("a.csv.gz", gzip.compress(b"user,answer\n1,4\n2,5\n", mtime=0)),
        ("a.tsv.gz", gzip.compress(b"user\tanswer\n1\t4\n2\t5\n", mtime=0)),
    ],
)
def test_delimited(tmp_path: Path, name: str, content: bytes | str) -> None:
    source = read(written(tmp_path / name, content))
    pd.testing.assert_frame_equal(source.frame, TABLE)
    assert (source.name, source.remarks) == ("a", ())


def test_numbers_and_text_in_csv(tmp_path: Path) -> None:
    lines = ["zip;half;na;text;big", '01234;1,5;NA;"a;\nb";3308895255', "99999;2;3;;1"]
    frame = read(written(tmp_path / "a.csv", "\n".join(lines))).frame
    assert frame["zip"].tolist() == ["01234", "99999"]
    assert frame["half"].tolist() == [1.5, 2.0]
    assert frame["na"].isna().tolist() == [True, False]
    assert frame["text"][0] == "a;\nb" and pd.isna(frame["text"][1])
    assert frame["big"].tolist() == [3308895255, 1]


def test_hexadecimal_names_are_no_numbers(tmp_path: Path) -> None:
    """As numbers, 0x1F and 31 would be one."""
    frame = read(written(tmp_path / "a.csv", "id,q\n0x1F,1\n31,2\n")).frame
    assert frame["id"].tolist() == ["0x1F", "31"]


@pytest.mark.parametrize(
    ("cell", "is_number"),
    [("0", True), ("-0", True), ("-5", True), ("0.5", True), ("-0.5", True)]
    + [(cell, False) for cell in ("00", "+05", "-07", "0X1", "-0x1", "007")],
)
def test_digits_behind_a_zero_are_a_name(tmp_path: Path, cell: str, is_number: bool) -> None:
    frame = read(written(tmp_path / "a.csv", f"id,q\n31,1\n{cell},2\n")).frame
    assert frame["id"].tolist() == ([31, float(cell)] if is_number else ["31", cell])


@pytest.mark.parametrize("blank", [*" \t\v\f\x1c\x1d\x1e\x1f\x85\xa0\u2003\u3000", "\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_blanks_around_cells(tmp_path: Path, blank: str, delimiter: str) -> None:
    cells = [["a", "b", "c"], [f'"{blank}x"', f'"7{blank}"', f'"{blank}"'], ["y", "8", '"1"']]
    text = "\n".join(map(delimiter.join, cells))
    frame = read(written(tmp_path / "a.csv", text)).frame
    assert frame["a"].tolist() == ["x", "y"] and frame["b"].tolist() == [7, 8]
    assert frame["c"].isna().tolist() == [True, False]
    if blank != delimiter and len(blank) == 1 and blank != "\n":
        frame = read(written(tmp_path / "a.csv", text.replace('"', ""))).frame
        assert frame["a"].tolist() == ["x", "y"] and frame["b"].tolist() == [7, 8]
        assert frame["c"].isna().tolist() == [True, False]


def test_long_ids_stay_apart_beside_a_gap(tmp_path: Path) -> None:
    text = "id,q\n9007199254740993,1\n9007199254740992,2\n,1\n"
    frame = read(written(tmp_path / "a.csv", text)).frame
    assert frame["id"].tolist()[:2] == [9007199254740993, 9007199254740992]
    assert frame["id"].isna().tolist() == [False, False, True]
    longer = read(written(tmp_path / "b.csv", "id\n92233720368547758070\n92233720368547758071\n"))
    assert longer.frame["id"].nunique() == 2


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_of_one_column_are_rows(tmp_path: Path, end: str) -> None:
    frame = read(written(tmp_path / "a.csv", end.join(["", "q", "1", "", "2", "", ""]))).frame
    assert frame["q"].isna().tolist() == [False, True, False, True]
    two = read(written(tmp_path / "b.csv", end.join(["", "q,r", "1,2", "", "2,1", "", ""]))).frame
    assert len(two) == 2


def test_windows_text_is_read_and_said(tmp_path: Path) -> None:
    source = read(written(tmp_path / "a.csv", "größe,x\nklein,1\n".encode("cp1252")))
    assert list(source.frame.columns) == ["größe", "x"]
    assert "Windows-1252" in source.remarks[0]


def test_columns_without_a_name_get_one(tmp_path: Path) -> None:
    assert list(read(written(tmp_path / "a.csv", ",x\n1,2\n")).frame.columns) == ["column 1", "x"]


# ---- Parquet and frames -----------------------------------------------------------------------


def test_parquet_file_and_folders(tmp_path: Path) -> None:
    TABLE.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read(tmp_path / "a.parquet").frame, TABLE)
    pq.write_to_dataset(pa.Table.from_pandas(TABLE), tmp_path / "hive", partition_cols=["user"])
    assert sorted(read(tmp_path / "hive").frame["user"].astype(int)) == [1, 2]
    (tmp_path / "plain").mkdir()
    for k in (1, 2):
        TABLE.to_parquet(tmp_path / "plain" / f"{k}.parquet")
    assert len(read(tmp_path / "plain").frame) == 4


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8()])
def test_whole_numbers_with_gaps_stay_whole(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"q": pa.array([1, None, 2], kind), "r": pa.array([1, 2, 3], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    source = read(tmp_path / "a.parquet")
    schema = propose(source)
    write_answers(tmp_path / "b.parquet", apply(source, schema), source, schema)
    assert pq.read_table(tmp_path / "b.parquet").cast(table.schema).equals(table)
    assert pq.read_schema(tmp_path / "b.parquet").types == table.schema.types
    filled = pd.DataFrame({"q": ["1", "2", "2"]})
    write_answers(tmp_path / "c.parquet", filled, source, schema)
    assert pq.read_table(tmp_path / "c.parquet")["q"].equals(pa.chunked_array([[1, 2, 2]], kind))


def test_polars_whole_numbers_with_gaps_stay_whole() -> None:
    frame = from_frame(pl.DataFrame({"id": [9007199254740993, None]})).frame
    assert frame["id"][0] == 9007199254740993 and frame["id"].dtype == "Int64"


def test_long_numbers_round_trip_through_csv(tmp_path: Path) -> None:
    text = "id,q\n9007199254740993,1\n9007199254740992,2\n,\n"
    source = read(written(tmp_path / "a.csv", text))
    schema = propose(source)
    write_answers(tmp_path / "b.csv", apply(source, schema), source, schema)
    assert (tmp_path / "b.csv").read_text() == text
    survey = apply(source, schema)
    assert survey.ids is not None and survey.ids.nunique() == 2


def test_ratings_with_gaps_are_read(tmp_path: Path) -> None:
    text = "user,item,rating\n1,1,3\n1,2,\n2,1,4\n,2,4\n"
    frame = ratings_of(read(written(tmp_path / "a.csv", text)))
    assert frame["rating"].isna().tolist() == [False, True, False, False]


def test_frames_keep_their_order() -> None:
    kind = pl.Enum(["low", "mid", "high"])
    frame = pl.DataFrame({"q": pl.Series(["high", None, "low"], dtype=kind)})
    values = from_frame(frame).frame["q"]
    assert values.cat.ordered and list(values.cat.categories) == ["low", "mid", "high"]
    assert values.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("table", [[[1]], pl.Series([1])])
def test_what_is_no_frame(table: object) -> None:
    with pytest.raises(DataTypeError, match="Table 'table' must be a DataFrame"):
        from_frame(table)


# ---- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.ods", "x", r"ending that is not known; known are \.sav, .* and \.parquet\."),
        ("a.csv", "", "is empty"),
        ("a.csv", "\n\n", "is empty"),
        ("a.csv", "sep=;\n\n", "is empty"),
        ("a.csv", b"\xff\xfe", "is empty"),
        ("a.csv", "x" * 200_000 + ",b\n1,2\n", "cannot be read .its first line: field larger"),
        ("a.csv", "a,b\n", "has no rows, only the columns"),
        ("a.csv", "a,b,a\n1,2,3\n", "more than one column named 'a'"),
        ("a.csv", "a,b\n1,2\n1,2,3\n", "line 3: '1,2,3' has 3 fields where the header has 2"),
        ("a.csv", b"a,b\0\x01\x02", "is no text"),
        ("a.csv", b"a,b\n\x81\xff,1\n", "neither UTF-8 nor Windows-1252"),
        ("a.csv", b"\xff\xfea\0,\0b", "cannot be read"),
        ("a.csv.gz", b"a,b\n1,2\n", r"cannot be read \(it is not packed with gzip\)"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30], "cannot be read"),
        ("a.parquet", "no parquet at all", "cannot be read"),
        ("a.sav", "no SPSS at all", "cannot be read"),
        ("a.dta", "no Stata at all", "cannot be read"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes | str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        read(written(tmp_path / name, content))
    assert str(caught.value).startswith(f"File '{tmp_path / name}'")
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"File '.*a\.csv' does not exist; check the path"):
        read(tmp_path / "a.csv")
    with pytest.raises(DataError, match=r"Folder '.*' holds no Parquet file"):
        read(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["a.csv", "a.sav", "a.parquet"])
def test_permission_denied(tmp_path: Path, name: str) -> None:
    written(tmp_path / name, "a,b\n1,2\n").chmod(0)
    with pytest.raises(DataError, match="permission denied"):
        read(tmp_path / name)


def test_permission_denied_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    file = written(tmp_path / "a.csv", "a,b\n1,2\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="may not be read"):
        read(file)


def test_twice_named_columns_elsewhere(tmp_path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    for bad in (tmp_path / "a.parquet", pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(DataError, match="more than one column named 'a'"):
            read(bad) if isinstance(bad, Path) else from_frame(bad)
    with pytest.raises(DataError, match="has no columns"):
        from_frame(pd.DataFrame(index=range(3)))
    with pytest.raises(DataError, match="has no rows"):
        from_frame(pd.DataFrame({"a": np.array([])}))


def test_folder_with_other_things_in_it(tmp_path: Path) -> None:
    for part, names in (("year=2020", ["a"]), ("year=2021", ["a", "b"])):
        (tmp_path / part).mkdir()
        frame = pd.DataFrame({name: [1, 2] for name in names})
        frame.to_parquet(tmp_path / part / "x.parquet")
    (tmp_path / "README.txt").write_text("about")
    (tmp_path / "_metadata.parquet").write_text("not data")
    frame = read(tmp_path).frame
    assert frame["year"].tolist() == [2020, 2020, 2021, 2021]
    assert frame["b"].isna().tolist() == [True, True, False, False]


def test_intervals_are_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": pd.cut([1, 5, 9], [0, 4, 10])})
    assert list(from_frame(frame).frame["age"].cat.categories) == ["(0, 4]", "(4, 10]"]


def test_wrong_encoding_of_spss_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_spss(tmp_path / "survey.sav")
    read_sav = pyreadstat.read_sav

    def strict(*args: object, encoding: str | None = None, **options: object) -> object:
        if encoding is None:
            raise pyreadstat.ReadstatError("Unable to convert string to the requested encoding")
        return read_sav(*args, **options)

    monkeypatch.setattr(pyreadstat, "read_sav", strict)
    assert "read as Windows-1252" in read(path).remarks[0]


def test_decimals_beside_text_and_without_a_number() -> None:
    frame = pd.DataFrame({"x": [Decimal("1.5"), "a"], "y": [Decimal(2), Decimal("sNaN")]})
    plain = from_frame(frame).frame
    assert plain["x"].tolist() == [1.5, "a"]
    assert plain["y"].isna().tolist() == [False, True]


def test_a_packed_file_of_many_lines_is_read(tmp_path: Path) -> None:
    content = b"user,answer\n" + b"1,4\n" * 5_000_000  # more than a line may have
    frame = read(written(tmp_path / "long.csv.gz", gzip.compress(content, 1))).frame
    assert len(frame) == 5_000_000
    assert frame["answer"].unique().tolist() == [4]
