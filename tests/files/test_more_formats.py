"""Excel, SPSS portable and SAS transport files; names that SPSS and Stata do not take."""

from __future__ import annotations

import datetime
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyreadstat
import pytest

from ordinalrbm.errors import DataError
from ordinalrbm.files import delimited
from ordinalrbm.files.formats import read
from ordinalrbm.files.writing import write_table

HEAD = ["id", "Q1 (like?)", "when", "note"]
ROWS = [
    ["007", 1, datetime.datetime(2024, 5, 1), "fine"],
    ["008", 2.0, datetime.datetime(2024, 5, 2), None],
    ["009", "NA", None, True],
]


@pytest.fixture
def book(tmp_path):
    made = openpyxl.Workbook()
    made.active.append(HEAD)
    for row in ROWS:
        made.active.append(row)
    made.create_sheet("Other one").append(["a", "b"])
    made["Other one"].append([1, 2])
    made.create_sheet("Empty")
    made.save(tmp_path / "survey.xlsx")
    return tmp_path / "survey.xlsx"


def test_a_sheet_is_read_as_its_csv_file_would_be(book):
    source = read(book)
    assert source.format == "xlsx" and source.name == "survey"
    pd.DataFrame(ROWS, columns=HEAD).to_csv(book.with_suffix(".csv"), index=False)
    plain = book.with_suffix(".csv").read_text().replace("True", "TRUE").replace(" 00:00:00", "")
    book.with_suffix(".csv").write_text(plain.replace("2.0", "2"))
    expected = read(book.with_suffix(".csv"))
    pd.testing.assert_frame_equal(source.frame, expected.frame)
    assert source.remarks == expected.remarks != ()


def test_another_sheet(book):
    assert read(f"{book}:Other one").frame.to_dict("list") == {"a": [1], "b": [2]}
    with pytest.raises(DataError, match=r"no sheet 'Othr one' \(did you mean 'Other one'\?\); give one of"):
        read(f"{book}:Othr one")
    with pytest.raises(DataError, match="has an empty sheet"):
        read(f"{book}:Empty")


def test_cells_outside_of_the_header(book):
    made = openpyxl.load_workbook(book)
    made.active["F3"] = "stray"
    made.save(book)
    with pytest.raises(DataError, match=r"cell F3 is outside of the columns"):
        read(book)


def test_damaged_workbooks(book, tmp_path, monkeypatch):
    (tmp_path / "cut.xlsx").write_bytes(book.read_bytes()[:2000])
    (tmp_path / "junk.xlsx").write_bytes(b"\0junk" * 100)
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as packed:
        packed.writestr("a.txt", "no workbook")
    for name in ("cut", "junk", "other"):
        with pytest.raises(DataError, match=rf"'.*{name}\.xlsx' cannot be read"):
            read(tmp_path / f"{name}.xlsx")
    monkeypatch.setattr(delimited, "_LARGE_PART", 10)
    monkeypatch.setattr(delimited, "_DENSEST", 1)
    with pytest.raises(DataError, match="unpacks to"):
        read(book)


def test_formulas_have_their_stored_values_or_are_refused(tmp_path):
    made = openpyxl.Workbook()
    for row in (["a", "b"], [1, "=A2+1"], [2, "=A3+1"]):
        made.active.append(row)
    path = tmp_path / "formulas.xlsx"
    made.save(path)
    with pytest.raises(DataError, match=r"formulas whose values are not stored; open it"):
        read(path)
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content.replace(b"<v></v>", b"<v>5</v>").replace(b"<v />", b"<v>5</v>"))
    assert read(path).frame.to_dict("list") == {"a": [1, 2], "b": [5, 5]}


def test_errors_in_cells_are_empty_and_counted(tmp_path):
    made = openpyxl.Workbook()
    for row in (["a", "b"], [1, "#N/A"], [2, 3]):
        made.active.append(row)
    made.save(tmp_path / "e.xlsx")
    source = read(tmp_path / "e.xlsx")
    assert source.frame["b"].isna().tolist() == [True, False]
    assert source.remarks == ("Cells with an error such as #N/A were read as empty: 1.",)


def test_portable_and_transport_files(tmp_path):
    frame = pd.DataFrame({"Q1": [1.0, 2.0, np.nan], "AGE": [30.0, 40.0, 50.0], "DAY": [21000.0, 0.0, np.nan]})
    pyreadstat.write_por(frame[["Q1", "AGE"]], tmp_path / "a.por", column_labels={"Q1": "Like it?"})
    pyreadstat.write_xport(
        frame, tmp_path / "a.xpt", column_labels={"Q1": "Like it?"}, variable_format={"DAY": "DATE9"}
    )
    portable, transport = read(tmp_path / "a.por"), read(tmp_path / "a.xpt")
    for source in (portable, transport):
        pd.testing.assert_frame_equal(source.frame[["Q1", "AGE"]], frame[["Q1", "AGE"]])
        assert source.questions["Q1"] == "Like it?"
    assert transport.dates == {"DAY": "date"}
    for ending in ("por", "xpt"):
        whole = (tmp_path / f"a.{ending}").read_bytes()
        (tmp_path / f"cut.{ending}").write_bytes(b"\0" + whole[: len(whole) // 3])
        with pytest.raises(DataError, match=rf"cut\.{ending}' cannot be read"):
            read(tmp_path / f"cut.{ending}")


@pytest.mark.parametrize("first", ["1,5,3,1", "196,242,3,881250949"])
def test_a_missing_header(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"{first}\n2,4,4,1\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"seems to have no header: its first line holds numbers \(\d+, "):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("2014,2015,2016\n2,4,4\n1,2,3\n")
    assert list(read(tmp_path / "a.csv").frame) == ["2014", "2015", "2016"]


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta"])
def test_names_that_cannot_be_are_changed_and_kept_as_labels(tmp_path, ending):
    names = ["Q 1", "q_1", "Größe (cm)", "2nd", "x" * 70, "fine"]
    frame = pd.DataFrame({name: [float(k), 1.0] for k, name in enumerate(names)})
    with pytest.warns(
        UserWarning, match=r"'Q 1' is Q_1_2, .*; the labels of columns without one keep them\.$"
    ):
        write_table(tmp_path / f"a.{ending}", frame, labels={"2nd": "Second", "fine": "Fine"})
    read_file = pyreadstat.read_dta if ending == "dta" else pyreadstat.read_sav
    table, said = read_file(tmp_path / f"a.{ending}")
    np.testing.assert_array_equal(table.to_numpy(), frame.to_numpy())
    assert list(table)[:4] == ["Q_1_2", "q_1", "Größe_cm_", "v2nd"]
    labels = said.column_names_to_labels
    assert labels["Q_1_2"] == "Q 1" and labels["v2nd"] == "Second" and labels["Größe_cm_"] == "Größe (cm)"
    assert labels["fine"] == "Fine"


@pytest.mark.parametrize(
    ("name", "columns", "valid"),
    [
        ("a.sav", ["Q1", "q1", "to", "ALL", "a.", "9a"], ["Q1", "q1_2", "to_", "ALL_", "a_", "v9a"]),
        ("a.dta", ["Q1", "q1", "int", "str5", "_n", "9a"], ["Q1", "q1", "int_", "str5_", "_n_", "v9a"]),
    ],
)
def test_names_that_are_equal_or_reserved_become_others(name, columns, valid, tmp_path):
    read_back = pyreadstat.read_sav if name.endswith("sav") else pyreadstat.read_dta
    with pytest.warns(UserWarning, match="cannot hold all names of columns"):
        write_table(tmp_path / name, pd.DataFrame([range(6)], columns=columns), labels={})
    assert read_back(tmp_path / name)[0].columns.tolist() == valid
