from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from made_up_files import AGREEMENT, survey_frame, write_spss, write_stata

from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import Source, from_frame, read
from ordinalrbm.files.survey import REASONS, apply
from ordinalrbm.files.writing import NON_RESPONSE, imputations_written, write_answers, write_table
from ordinalrbm.schema.infer import propose

SAID = (
    "value_labels",
    "questions",
    "missing",
    "measure",
    "dates",
    "variable_formats",
    "display_widths",
    "file_label",
    "file_notes",
)


def assert_same(again: Source, source: Source) -> None:
    pd.testing.assert_frame_equal(again.frame, source.frame)
    for what in SAID:
        assert getattr(again, what) == getattr(source, what), what
    assert {k: v.tolist() for k, v in again.tags.items()} == {k: v.tolist() for k, v in source.tags.items()}


def without_gaps(answers: pd.DataFrame) -> pd.DataFrame:
    """Every gap filled with the lowest level."""
    return answers.apply(lambda column: column.fillna(column.cat.categories[0]))


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta"])
def test_nothing_filled_is_the_same_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey.{ending}"
    source = read((write_stata if ending == "dta" else write_spss)(path))
    schema = propose(source)
    target = tmp_path / f"again.{ending}"
    write_answers(target, apply(source, schema), source, schema)
    assert_same(read(target), source)


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_gaps_are_filled_with_codes(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey.{ending}"
    source = read((write_stata if ending == "dta" else write_spss)(path))
    schema = propose(source)
    filled = without_gaps(apply(source, schema).answers)
    write_answers(path, filled, source, schema, fill=REASONS)
    again = read(path)
    assert again.frame["q1"].tolist()[:2] == [1, 1]
    assert again.frame["q3"].tolist()[5] == 0
    others = [name for name in source.frame if name not in filled]
    pd.testing.assert_frame_equal(again.frame[others], source.frame[others])
    assert again.questions == source.questions
    assert again.value_labels["land"] == source.value_labels["land"]
    assert not apply(again, schema).answers.isna().any(axis=None)


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_codes_that_are_no_answer_stay(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey.{ending}"
    source = read((write_stata if ending == "dta" else write_spss)(path))
    schema = propose(source)
    survey = apply(source, schema)
    filled = without_gaps(survey.answers)
    counts = write_answers(path, filled, source, schema, fill=["empty"])
    again = read(path)
    gaps = int(survey.answers.isna().to_numpy().sum())
    no_answer = sum(left.count for left in survey.left_out if left.why == "is no answer")
    assert counts.filled == {"empty": gaps - no_answer}
    assert counts.kept.total() == no_answer
    if ending == "sav":
        assert again.frame["q1"].tolist()[:2] == [98, 99]
        assert again.frame["q2"].tolist()[2:5] == [-9, -5, 1]
        assert again.missing == source.missing
    else:
        assert again.tags["q1"][:3].tolist() == [".a", ".b", ""]
        assert again.frame["q1"][2] == 1
    counts = write_answers(path, filled, source, schema, fill=REASONS)
    assert (counts.filled["empty"], counts.filled.total()) == (gaps - no_answer, gaps)
    assert counts.kept == {}


@pytest.mark.parametrize("target", ["csv", "parquet", "sav", "dta"])
@pytest.mark.parametrize("origin", ["sav", "csv", "parquet"])
def test_non_response_is_filled_and_what_was_not_asked_is_not(
    tmp_path: Path, origin: str, target: str
) -> None:
    if origin == "sav":
        codes: list = [5, 1, 9, 8, 7, 6, np.nan, 2]
        labels = {**AGREEMENT, 6: "Not applicable", 7: "Missing", 8: "Refused", 9: "Don't know"}
        pyreadstat.write_sav(
            pd.DataFrame({"q": codes * 5}),
            tmp_path / "a.sav",
            variable_value_labels={"q": labels},
            missing_ranges={"q": [{"lo": 6, "hi": 9}]},
        )
    else:
        codes = ["Agree", "Disagree", "don't know", "refused", "no answer", "n/a", None, "Agree"]
        frame = pd.DataFrame({"q": codes * 5})
        write_table(tmp_path / f"a.{origin}", frame)
    source = read(tmp_path / f"a.{origin}")
    schema = propose(source)
    filled = without_gaps(apply(source, schema).answers)
    counts = write_answers(tmp_path / f"b.{target}", filled, source, schema)
    assert sum(counts.filled.values()) == 20 and counts.kept == {"not applicable": 5}
    assert set(counts.filled) == {"empty", "no answer", "don't know", "refused"}
    again = read(tmp_path / f"b.{target}")
    lowest, column = schema.column("q").levels[0], again.frame["q"].tolist()
    assert column[2:5] == [lowest] * 3 and column[6] == lowest
    assert column[:2] == codes[:2] and column[7] == codes[7]
    if origin == "sav" and target == "dta":
        assert again.tags["q"][5] == ".a" and again.value_labels["q"][".a"] == "Not applicable"
    else:
        assert column[5] == codes[5]


def test_other_spellings_stay_and_other_answers_are_written(tmp_path: Path) -> None:
    source = from_frame(pd.DataFrame({"q": ["agree", "Agree", "Disagree", "Agree", "n/a", None]}))
    answers = pd.DataFrame({"q": ["Agree", "Disagree", "Disagree", "Agree", "Agree", "Agree"]})
    counts = write_answers(tmp_path / "a.csv", answers, source, propose(source))
    written = read(tmp_path / "a.csv").frame["q"].tolist()
    assert written == ["agree", "Disagree", "Disagree", "Agree", "n/a", "Agree"]
    assert counts == ({"empty": 1}, {"not applicable": 1})


def test_from_spss_to_stata(tmp_path: Path) -> None:
    source = read(write_spss(tmp_path / "survey.sav"))
    schema = propose(source)
    write_answers(tmp_path / "survey.dta", apply(source, schema), source, schema)
    again = read(tmp_path / "survey.dta")
    assert again.tags["q1"][:3].tolist() == [".a", ".b", ""]
    assert again.value_labels["q1"] == {**AGREEMENT, ".a": "Weiß nicht", ".b": "Refused"}
    assert again.value_labels["q2"][".a"] == "not asked"
    assert again.tags["q2"][2:4].tolist() == [".a", ".b"]
    assert again.dates == {"when": "date"}
    # Both count days, from different ones.
    days = np.timedelta64(np.datetime64("1960-01-01") - np.datetime64("1582-10-14"), "D").astype(int)
    assert (again.frame["when"] + days).tolist() == (source.frame["when"] / 86400).tolist()
    assert again.questions == source.questions
    same = apply(again, propose(again)).answers
    pd.testing.assert_frame_equal(same, apply(source, schema).answers)


def test_from_stata_to_spss(tmp_path: Path) -> None:
    source = read(write_stata(tmp_path / "survey.dta"))
    schema = propose(source)
    write_answers(tmp_path / "survey.sav", apply(source, schema), source, schema)
    again = read(tmp_path / "survey.sav")
    assert again.value_labels["q1"] == AGREEMENT
    assert again.frame["q1"].isna().tolist()[:4] == [True, True, True, False]
    assert again.dates == {"when": "date"}


MOMENTS = ["1899-12-31 23:59:58", "1970-01-01 00:00:00", "2024-02-29 13:14:15", None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(("first", "second"), [("sav", "dta"), ("dta", "sav")])
def test_moments_stay_between_spss_and_stata(tmp_path: Path, first: str, second: str, unit: str) -> None:
    moments = pd.Series(pd.to_datetime(MOMENTS)).astype(f"datetime64[{unit}]")
    source = from_frame(pd.DataFrame({"q": [1, 2, 3, 1], "t": moments}))
    for ending in (first, second, first, "csv"):
        schema = propose(source)
        path = tmp_path / f"a.{ending}"
        write_answers(path, apply(source, schema), source, schema)
        source = read(path)
        assert ending == "csv" or source.dates == {"t": "datetime"}
    text = source.frame["t"]
    assert [None if pd.isna(moment) else str(moment) for moment in text] == MOMENTS


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "tsv.gz", "parquet"])
def test_from_spss_to_plain_codes(tmp_path: Path, ending: str) -> None:
    source = read(write_spss(tmp_path / "survey.sav"))
    schema = propose(source)
    write_answers(tmp_path / f"a.{ending}", apply(source, schema), source, schema)
    again = read(tmp_path / f"a.{ending}").frame
    assert list(again.columns) == list(source.frame.columns)
    assert again["q1"].tolist() == source.frame["q1"].tolist()
    assert again["story"].tolist() == source.frame["story"].tolist()
    date = np.datetime64("1582-10-14", "s") + int(source.frame["when"][0])
    assert str(again["when"][0]) == str(date)[:10]


def test_from_csv_to_spss(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("q,r\nnever,1\nn/a,2\nalways,\n")
    source = read(tmp_path / "a.csv")
    schema = propose(source)
    filled = without_gaps(apply(source, schema).answers)
    write_answers(tmp_path / "a.sav", filled, source, schema, fill=REASONS)
    again = read(tmp_path / "a.sav")
    assert again.frame["q"].tolist() == ["never", "never", "always"]
    assert again.frame["r"].tolist() == [1, 2, 1]
    assert (again.measure, again.missing) == ({"q": "ordinal", "r": "ordinal"}, {"q": ("n/a",)})


def test_types_of_columns_stay(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["a", None, "b"], ["b", "a"], ordered=True),
            "i": pd.array([1, None, 2], dtype="Int64"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "s": ["no", None, "yes"],
            "f": [1.0, None, 2.0],
        }
    )
    source = from_frame(frame)
    schema = propose(source)
    assert schema.names("ordinal") == list("cibsf")
    filled = without_gaps(apply(source, schema).answers)
    write_answers(tmp_path / "a.parquet", filled, source, schema)
    again = pd.read_parquet(tmp_path / "a.parquet")
    assert again.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    assert again.iloc[1].tolist() == ["b", 1, False, "no", 1.0]
    write_answers(tmp_path / "a.csv", filled, source, schema)
    assert (tmp_path / "a.csv").read_text().splitlines()[2] == "b,1,False,no,1"


def test_codes_are_written_as_the_file_has_them(tmp_path: Path) -> None:
    schema = propose(from_frame(pd.DataFrame({"q": [1, 2, 3]})))
    source = from_frame(pd.DataFrame({"q": ["1", None, "3"]}))
    write_answers(tmp_path / "a.parquet", pd.DataFrame({"q": ["1", "2", "3"]}), source, schema)
    assert pd.read_parquet(tmp_path / "a.parquet")["q"].tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(("ending", "most"), [("dta", 80), ("sav", 256)])
def test_long_labels_are_cut(tmp_path: Path, ending: str, most: int) -> None:
    source = from_frame(pd.DataFrame({"q": [1, 2, 3]}))
    source.questions["q"] = "why é " * 60
    schema = propose(source)
    write_answers(tmp_path / f"a.{ending}", apply(source, schema), source, schema)
    label = read(tmp_path / f"a.{ending}").questions["q"]
    assert label.startswith("why é why") and len(label) <= most


# ---- errors -----------------------------------------------------------------------------------

FRAME = pd.DataFrame({"Q": [1, 2, None]})


@pytest.mark.parametrize(
    ("name", "answers", "sentence"),
    [
        ("a.xyz", {"Q": ["1", "2", "1"]}, "ending that is not known"),
        ("no/a.csv", {"Q": ["1", "2", "1"]}, "Folder '.*no' does not exist; create it"),
        ("a.csv", {"Q": ["1", "2"]}, "2 rows of answers for the 3 rows"),
        ("a.csv", {"P": ["1", "2", "1"]}, "a column 'P', which is no question"),
        ("a.csv", {"Q": ["1", "2", "7"]}, r"'Q', row 2 \(counted from 0\): '7' is not the name"),
    ],
)
def test_bad_answers(tmp_path: Path, name: str, answers: dict, sentence: str) -> None:
    source = from_frame(FRAME)
    with pytest.raises(DataError, match=sentence):
        write_answers(tmp_path / name, pd.DataFrame(answers), source, propose(source))
    assert list(tmp_path.iterdir()) == []


def test_plain_tables_are_plain(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot hold a plain table"):
        write_table(tmp_path / "a.sav", FRAME)
    with pytest.raises(DataError, match="is a folder"):
        (tmp_path / "a.csv").mkdir()
        write_table(tmp_path / "a.csv", FRAME)


@pytest.mark.parametrize("ending", ["csv", "sav", "dta", "parquet"])
def test_full_disk_leaves_the_old_file(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / f"a.{ending}"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    source = from_frame(FRAME)
    schema = propose(source)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
        write_answers(target, apply(source, schema), source, schema)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(DataError, match=r"cannot be written \(Permission denied\)"):
        write_table(tmp_path / "a.csv", FRAME)


def test_equal_tables_are_equal_files(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(tmp_path / name, survey_frame())
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


# Several imputations in one file


@pytest.mark.parametrize("of", ["sav", "dta"])
@pytest.mark.parametrize("ending", ["sav", "zsav", "dta", "csv", "tsv.gz", "parquet"])
def test_imputations_below_each_other(tmp_path: Path, of: str, ending: str) -> None:
    source = read((write_stata if of == "dta" else write_spss)(tmp_path / f"survey.{of}"))
    schema = propose(source)
    filled = without_gaps(apply(source, schema).answers)
    target = tmp_path / f"all.{ending}"
    # In a Stata file, codes that are filled are plainly missing in the original.
    fill = ["empty"] if ending == "dta" else NON_RESPONSE
    with imputations_written(target, [filled, filled], source, schema, fill) as cells:
        assert not target.exists()
    again, n_rows = read(target), len(source.frame)
    counters = ["_mi_m", "_mi_id"] if ending == "dta" else ["Imputation_"]
    assert list(again.frame) == [*counters, *source.frame]
    assert again.frame[counters[0]].tolist() == np.repeat([0, 1, 2], n_rows).tolist()
    # Each part is what a file of its own holds.
    alone = tmp_path / f"alone.{ending}"
    for part, answers in enumerate([apply(source, schema).answers, filled, filled]):
        counted = write_answers(alone, answers, source, schema, fill)
        wanted = read(alone)
        rows = slice(part * n_rows, (part + 1) * n_rows)
        found = again.frame.iloc[rows].drop(columns=counters).reset_index(drop=True)
        pd.testing.assert_frame_equal(found, wanted.frame, check_dtype=False)
        for name, tags in wanted.tags.items():
            assert again.tags[name][rows].tolist() == tags.tolist()
    assert counted == cells
    assert {k: v for k, v in again.missing.items() if k in wanted.missing} == wanted.missing
    assert {**again.value_labels, **wanted.value_labels} == again.value_labels


def test_a_counter_that_is_there_already(tmp_path: Path) -> None:
    frame = survey_frame().assign(Imputation_=1.0)
    source = from_frame(frame)
    schema = propose(source)
    answers = apply(source, schema).answers
    target = tmp_path / "all.csv"
    with (
        pytest.raises(DataError, match=r"'Imputation_' already.*a file of its own"),
        imputations_written(target, [answers], source, schema),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_imputations_that_fail_leave_nothing(tmp_path: Path) -> None:
    source = from_frame(survey_frame())
    schema = propose(source)
    answers = apply(source, schema).answers
    with pytest.raises(RuntimeError), imputations_written(tmp_path / "all.sav", [answers], source, schema):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_formulas_are_escaped_and_numbers_and_dates_stay(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "=name": ["=1+1", "-1", None],
            "'=name": ["\tx", "-", "+1.5e3"],
            "n": [-1.0, 2.5, np.nan],
            "kind": pd.Categorical(["@a", "b", "@a"]),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
        }
    )
    write_table(tmp_path / "as-is.csv", frame)
    assert (tmp_path / "as-is.csv").read_text().splitlines()[1] == "=1+1,\tx,-1.0,@a,2020-01-01"
    write_table(tmp_path / "safe.csv", frame, escape_formulas=True)
    assert (tmp_path / "safe.csv").read_text().splitlines() == [
        "'=name,'=name,n,kind,day",
        "'=1+1,'\tx,-1.0,'@a,2020-01-01",
        "-1,'-,2.5,b,",
        ",+1.5e3,,'@a,2020-01-03",
    ]
