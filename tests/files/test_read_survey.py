from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from made_up_files import AGREEMENT, SCRIPT, survey_frame, write_spss, write_stata

from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.survey import Survey, apply, read_survey
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import Column, Schema

SCHEMA = Schema(
    (
        Column(
            "Q1",
            "ordinal",
            levels=(1, 2, 3),
            names=("no", "so so", "yes"),
            missing=(9,),
            missing_names=("DK",),
        ),
        Column("land", "background", levels=(1, 2), names=("AT", "DE")),
        Column("w", "weight"),
        Column("junk", "ignored", reason="of no use"),
    )
)
FRAME = pd.DataFrame(
    {"Q1": [1, 3, 9, None], "land": [1, 2, 3, None], "w": [0.5, 1, 1, 1], "junk": list("abcd")}
)


def applied(schema: Schema = SCHEMA, frame: pd.DataFrame = FRAME, **change: object) -> Survey:
    return apply(from_frame(frame.assign(**change), "new"), schema)


def left_out(survey: Survey) -> dict[str, tuple[str, int]]:
    return {left.what: (left.why, left.count) for left in survey.left_out}


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_survey_of_a_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey.{ending}"
    (write_spss if ending == "sav" else write_stata)(path)
    survey = read_survey(path)
    expected = survey_frame()["q1"].map({float(k): v for k, v in AGREEMENT.items()})
    expected[2] = expected[2] if ending == "sav" else np.nan
    assert survey.answers["q1"].astype(object).equals(expected.astype(object))
    assert list(survey.answers["q1"].cat.categories) == list(AGREEMENT.values())
    assert survey.answers["q1"].cat.ordered
    assert SCRIPT in survey.background["land"].cat.categories
    assert survey.weight is not None and survey.weight.equals(survey_frame()["wt"])
    assert survey.ids is not None and survey.ids.tolist()[0] == 1001
    names = ("98 (Weiß nicht)", "99 (Refused)") if ending == "sav" else (".a (Weiß nicht)",)
    for name in names:
        assert left_out(survey)[f"Column 'q1', {name}"] == ("is no answer", 1)
    assert left_out(survey)["Column 'when'"] == ("holds dates", 0)


def test_everything_that_is_left_out_is_said() -> None:
    survey = applied(extra=[1, 2, 3, 4])
    assert left_out(survey) == {
        "Column 'Q1', 9 (DK)": ("is no answer", 1),
        "Column 'junk'": ("of no use", 0),
        "Column 'extra'": ("is not in the schema", 0),
    }
    assert survey.notes == (
        "2 rows have no answer to any question: they are kept, but nothing is learnt from them.",
    )
    assert survey.answers["Q1"].tolist() == ["no", "yes", np.nan, np.nan]
    assert survey.background["land"].tolist() == ["AT", "DE", "3", np.nan]
    assert len(survey.answers) == len(survey.background) == 4


def test_codes_as_text_are_the_same_codes() -> None:
    assert applied(Q1=["1", "3", "9", None]).answers["Q1"].tolist()[:2] == ["no", "yes"]


def test_codes_of_the_schema_rule_over_labels(tmp_path: Path) -> None:
    frame = survey_frame()
    schema = propose(read(write_spss(tmp_path / "old.sav", frame)))
    frame.loc[7, "q2"] = -3  # declared as missing, but not seen before
    source = read(write_spss(tmp_path / "new.sav", frame))
    source.value_labels["q1"] = {1: "something else"}
    survey = apply(source, schema)
    assert list(survey.answers["q1"].cat.categories) == list(AGREEMENT.values())
    assert left_out(survey)["Column 'q2', -3"] == ("is no answer", 1)


def test_schema_file_corrects_the_proposal(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.toml").write_text("[columns.Q1]\nmissing = [9]\n")
    survey = read_survey(tmp_path / "a.csv", tmp_path / "a.toml")
    assert survey.schema.column("Q1").levels == (1, 2, 3)
    again = read_survey(FRAME, tmp_path / "a.toml", schema=SCHEMA)
    assert again.schema.column("Q1").names == ("no", "so so", "yes")


@pytest.mark.parametrize(
    ("schema", "frame", "sentence"),
    [
        (
            SCHEMA,
            FRAME.assign(Q1=[1, 2, 3, 7]),
            r"^Table 'new', column 'Q1', row 3 \(counted from 0\): the value 7 is not among the levels"
            r" \[1, 2, 3\]; correct it, .* in the schema\.$",
        ),
        (
            SCHEMA,
            FRAME.rename(columns={"Q1": "q1"}),
            r"lacks the column 'Q1' \(did you mean 'q1'\?\); add it",
        ),
        (SCHEMA, FRAME.assign(w=list("abcd")), "column 'w': weights must be numbers, .* 'a'"),
        (Schema(SCHEMA.columns[1:]), FRAME, "has no column that was taken for an ordinal question"),
        (Schema((*SCHEMA.columns, Column("w2", "weight"))), FRAME, "gives the role weight to 'w' and 'w2'"),
    ],
)
def test_bad_surveys(schema: Schema, frame: pd.DataFrame, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        applied(schema, frame)


def test_other_columns_may_lack() -> None:
    survey = applied(frame=FRAME[["Q1"]])
    assert survey.weight is None and survey.background.shape == (4, 0)
    assert left_out(survey)["Column 'w'"] == ("is weight, but the data lacks it", 0)


def test_bad_schema_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.toml' does not exist"):
        read_survey(FRAME, tmp_path / "a.toml")
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_survey(FRAME, tmp_path / "a.toml")
    with pytest.raises(DataError, match="cannot be read"):
        read_survey(FRAME, tmp_path)


def test_blank_text_is_no_group(tmp_path: Path) -> None:
    frame = pd.DataFrame({"q": [1.0, 2, 3, 1], "town": ["Ulm", "", "Rom", "  "]})
    pyreadstat.write_sav(frame, tmp_path / "a.sav")
    town = read_survey(tmp_path / "a.sav").background["town"]
    assert town.isna().tolist() == [False, True, False, True] and town.nunique() == 2


def test_whole_numbers_of_spss_are_integers(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "caseid": [1001.0, 1002, 1003, np.nan],
            "country": [1.0, 2, 1, 2],
            "region": [1.0, 2, np.nan, 9],
            "age": [20.5, 30, 40, 50],
            "q": [1.0, 2, 3, 1],
        }
    )
    pyreadstat.write_sav(frame, tmp_path / "a.sav", missing_ranges={"region": [9]})
    survey = read_survey(tmp_path / "a.sav")
    assert survey.ids is not None and survey.ids.astype(str).tolist()[:2] == ["1001", "1002"]
    assert survey.ids.isna().tolist() == [False, False, False, True]
    assert survey.background["country"].astype(str).tolist() == ["1", "2", "1", "2"]
    assert survey.background["region"].dropna().astype(str).tolist() == ["1", "2"]
    assert survey.background["age"].tolist() == [20.5, 30, 40, 50]


def test_long_numbers_of_the_background_stay_exact() -> None:
    numbers = [9007199254740993, 9007199254740992, 9, 9]
    column = Column("land", "background", missing=(9,), missing_names=("DK",))
    schema = Schema((SCHEMA.columns[0], column))
    land = applied(schema, land=numbers).background["land"]
    assert land.tolist()[:2] == numbers[:2] and land.isna().sum() == 2


def test_weights_that_count_nothing_are_told() -> None:
    survey = applied(w=[0.5, None, 0.0, -1.0])
    why = "these people do not count where people count by weight"
    assert left_out(survey)["Column 'w', missing weights"] == (why, 1)
    assert left_out(survey)["Column 'w', weights of 0 or less"] == (why, 2)
    assert not any("weight" in what for what in left_out(applied()))


def test_sorts_of_non_answers_are_kept_apart(tmp_path: Path) -> None:
    frame = pd.DataFrame({"q": [1.0, 2, 97, 8, 9, -1, np.nan, 3], "sex": list("fmfmfmfm")})
    labels = {
        1: "Never",
        2: "Often",
        3: "Always",
        97: "Correctly skipped",
        8: "Refused",
        9: "Don't know",
        -1: "Not applicable",
    }
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_value_labels={"q": labels})
    survey = read_survey(tmp_path / "a.sav")
    expected = [None, None, "not asked", "refused", "don't know", "not applicable", "empty", None]
    assert survey.reasons["q"].astype(object).where(survey.reasons["q"].notna(), None).tolist() == (expected)
    assert survey.answers["q"].isna().tolist() == [why is not None for why in expected]
    (tmp_path / "a.toml").write_text(
        '[columns.q]\nmissing_sorts = ["no answer", "refused", "refused", "not asked"]'
    )
    corrected = read_survey(tmp_path / "a.sav", tmp_path / "a.toml")
    by_code = dict(zip(frame["q"], corrected.reasons["q"], strict=True))
    wanted = dict(
        zip(
            corrected.schema.column("q").missing,
            ("no answer", "refused", "refused", "not asked"),
            strict=True,
        )
    )
    assert {code: by_code[code] for code in wanted} == wanted


def test_sorts_of_stata_tags(tmp_path: Path) -> None:
    survey = read_survey(write_stata(tmp_path / "a.dta"))
    assert survey.reasons["q1"].tolist()[:3] == ["don't know", "refused", "empty"]
    assert survey.reasons["q1"].isna().tolist() == survey.answers["q1"].notna().tolist()


def test_numeric_columns_are_numbers() -> None:
    column = Column("land", "numeric", missing=("x",), missing_names=("DK",))
    schema = Schema((SCHEMA.columns[0], column))
    land = applied(schema, land=["1", "2.5", "x", None]).background["land"]
    assert land.tolist()[:2] == [1.0, 2.5] and land.isna().tolist() == [False, False, True, True]
    with pytest.raises(DataError, match=r"column 'land', row 1 .*: 'two' is no number; correct it"):
        applied(schema, land=["1", "two", "x", None])
