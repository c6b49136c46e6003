from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_files import AGREEMENT, SCRIPT, write_spss, write_stata

from ordinalrbm.files.formats import Source, from_frame, read
from ordinalrbm.files.survey import apply
from ordinalrbm.schema.infer import propose, unique_names
from ordinalrbm.schema.schema import Column, Schema

SHARED = Path(__file__).parents[3] / "shared" / "data"


def proposed(values: Any, name: str = "Q", labels: dict[Any, str] | None = None, **said: Any) -> Column:
    """What is proposed for one column of a file that says so much of it."""
    frame = pd.DataFrame({name: values})
    about = {key: {name: value} for key, value in said.items()}
    source = Source(None, "sav", "made up", frame, {name: labels} if labels else {}, **about)
    return propose(source).column(name)


# ---- whole files ------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_file_with_labels(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey.{ending}"
    (write_spss if ending == "sav" else write_stata)(path)
    schema = propose(read(path))
    assert schema.names("id") == ["caseid"]
    assert schema.names("weight") == ["wt"]
    assert schema.names("ordinal") == ["q1", "q2", "q3"]
    assert set(schema.names("nominal")) >= {"land", "sex", "story"}
    assert schema.column("when").reason == "holds dates"
    q1 = schema.column("q1")
    assert q1.levels == (1, 2, 3, 4, 5) and q1.names == tuple(AGREEMENT.values())
    assert q1.missing == ((98, 99) if ending == "sav" else (".a", ".b"))
    assert q1.missing_names == ("Weiß nicht", "Refused")
    q2 = schema.column("q2")
    assert q2.levels[-7:] == (1, 2, 3, 4, 5, 6, 7)
    assert q2.names[-7:] == ("gar nicht", "2", "3", "4", "5", "6", "sehr")
    assert set(q2.missing) == {-9, -5}
    if ending == "dta":  # where nothing but the number says that -5 is no answer
        assert "-5 without a label taken for no answer" in q2.reason and q2.confidence < 0.8
    assert SCRIPT in schema.column("land").names


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
@pytest.mark.parametrize(
    ("file", "n_questions", "others"),
    [
        (
            "food-world-cup/responses.csv",
            44,
            {"Gender": "nominal", "Age": "background", "Location (Census Region)": "nominal"},
        ),
        ("anes96.csv", 7, dict.fromkeys(("popul", "age", "income", "logpopul"), "numeric")),
        ("bfi.parquet", 26, {"gender": "nominal", "age": "numeric"}),
        ("big5-openpsychometrics.parquet", 51, {"country": "nominal", "age": "numeric", "gender": "nominal"}),
        ("spi.parquet", 143, {"age": "numeric", "sex": "nominal"}),
        ("pisa2009-north-america.parquet", 80, {"country": "nominal"}),
    ],
)
def test_real_files(file: str, n_questions: int, others: dict[str, str]) -> None:
    schema = propose(read(SHARED / file))
    assert len(schema.names("ordinal")) == n_questions
    roles = {column.name: column.role for column in schema.columns}
    kept = ("nominal", "numeric", "background")
    assert {name: role for name, role in roles.items() if role in kept} == others
    assert [column.name for column in schema.columns if column.missing] == []


# ---- missing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label",
    [
        "Don't know",
        "refused",
        "n/a",
        "DK",
        "Prefer not to say",
        "not asked",
        "weiß nicht",
        "Keine Angabe",
        "verweigert",
        "ne sait pas",
        "no contesta",
        "inap",
        "I don't know",
        "Refused to answer",
        "sans reponse",
        "No sabe",
        "99 - Refused",
        "Does not know (spontaneous)",
        "Don't know/not sure",
        "Don't know, no answer",
    ],
)
def test_labels_that_mean_no_answer(label: str) -> None:
    column = proposed([1, 2, 3, 99] * 5, labels={**AGREEMENT, 99: label})
    assert column.missing == (99,) and column.missing_names == (label,)
    assert column.levels == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "label",
    [
        "Declined",
        "Would prefer not to",
        "Don't know it at all",
        "Refused the offer",
        "Do not know any of them",
        "No",
        "None",
        "Did not apply to me at all",
        "I know nothing",
        "Not at all",
        "Nation",
        "Neither agree nor disagree / don't know / not sure",
    ],
)
def test_labels_that_are_answers(label: str) -> None:
    column = proposed([1, 2, 3, 4] * 5, labels={1: label, 2: "b", 3: "c", 4: "d"})
    assert column.missing == ()


@pytest.mark.parametrize(
    ("values", "levels", "odd"),
    [
        ([1, 2, 3, 4, 5, 9], (1, 2, 3, 4, 5, 9), "look at 9"),
        ([1, 2, 4, 5, 8, 9], (1, 2, 3, 4, 5, 8, 9), "look at 8 and 9"),
    ],
)
def test_digits_of_few_people_are_kept_and_named(values: list, levels: tuple, odd: str) -> None:
    column = proposed(values * 5)
    assert (column.role, column.levels, column.missing) == ("ordinal", levels, ())
    assert odd in column.reason and column.confidence < 0.6
    many = proposed(values * 50)
    assert many.levels == (1, 2, 3, 4, 5) and many.missing == levels[5:]


@pytest.mark.parametrize(
    ("values", "levels", "missing"),
    [
        ([1, 2, 3, 4, 98, 99], (1, 2, 3, 4), (98, 99)),
        ([-9, -1, 1, 2, 3], (1, 2, 3), (-9, -1)),
        (["1", "2", "3", "99"], ("1", "2", "3"), ("99",)),
    ],
)
def test_codes_that_stand_apart_are_no_answers(values: list, levels: tuple, missing: tuple) -> None:
    column = proposed(values * 5)
    assert (column.role, column.levels, column.missing) == ("ordinal", levels, missing)
    assert "without a label taken for no answer" in column.reason and column.confidence < 0.8


def test_unlabelled_code_beyond_labels() -> None:
    column = proposed([1, 2, 3, 4, 5, 9] * 3, labels=AGREEMENT)
    assert column.levels == (1, 2, 3, 4, 5) and column.missing == (9,)
    assert "9 without a label taken for no answer" in column.reason


def test_code_that_is_no_answer_elsewhere_is_none_here() -> None:
    names = ("a", "b", "c")
    frame = pd.DataFrame(dict.fromkeys((*names, "bare"), [1, 2, 3, 6] * 5))
    labels = {name: {1: "Never", 2: "Rarely", 3: "Often", 6: "Don't know"} for name in names}
    column = propose(Source(None, "sav", "x", frame, labels)).column("bare")
    assert column.levels == (1, 2, 3) and column.missing == (6,)


def test_unlabelled_code_next_to_a_full_scale() -> None:
    for labels in (AGREEMENT, {k: f"item {k}" for k in range(1, 6)}):
        column = proposed([1, 2, 3, 4, 5, 6] * 3, labels=labels)
        assert column.levels == (1, 2, 3, 4, 5, 6)
        assert "look at 6" in column.reason
    some = proposed([1, 2, 3, 4, 5, 6] * 3, labels={1: "low", 5: "high"})
    assert "look at" not in some.reason


def test_ranges_and_codes_that_the_file_declares() -> None:
    column = proposed([1, 2, 3, -7, 99] * 3, missing=((-9.0, -1.0), 99))
    assert column.missing == (99, -7) and column.levels == (1, 2, 3)


def test_short_codes_of_countries_are_no_missing_answers() -> None:
    assert proposed(["DE", "DK", "NA", "US", "FR"] * 3, "where").missing == ()
    assert proposed(["1", "2", "3", "DK"] * 3).missing == ("DK",)


def test_none_among_numbers_is_no_gap(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("children,q,r\nNone,1,NA\n1,2,1\n2,NA,NA\n3,3,2\n")
    source = read(tmp_path / "a.csv")
    assert source.frame["children"].tolist() == ["None", "1", "2", "3"]
    assert source.remarks == ("Cells such as NA among numbers were read as empty, in 'q' (1), 'r' (2).",)
    column = propose(source).column("children")
    assert column.role == "background" and "beside the text 'None'" in column.reason


def test_hundreds_of_labelled_codes_are_categories() -> None:
    """As languages and ethnic groups in the merged file of many countries."""
    labels = {code: f"{chr(65 + code % 26)}{code:x}ka" for code in range(100, 550)}
    column = proposed(list(labels) * 3, labels={**labels, 9999: "Don't know"})
    assert column.role == "nominal" and column.missing == (9999,)


# ---- levels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "levels",
    [
        ["Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"],
        ["Disagree strongly", "Disagree a little", "Neutral", "Agree a little", "Agree strongly"],
        ["Never", "Rarely", "Sometimes", "Often", "Always"],
        ["Poor", "Fair", "Good", "Very good", "Excellent"],
        ["Very unlikely", "Unlikely", "Neutral", "Likely", "Very likely"],
        ["Very dissatisfied", "Dissatisfied", "Satisfied", "Very satisfied"],
        ["Not at all important", "Slightly important", "Important", "Very important"],
        ["No", "Yes"],
        ["Low", "Medium", "High"],
        ["Never or almost never", "A few times a year", "About once a month", "Daily"],
        ["Stimme überhaupt nicht zu", "Stimme eher nicht zu", "Stimme eher zu", "Stimme voll zu"],
        ["nie", "selten", "manchmal", "oft", "immer"],
        ["Pas du tout d'accord", "Plutôt pas d’accord", "Plutôt d'accord", "Tout à fait d'accord"],
        ["jamais", "rarement", "parfois", "souvent", "toujours"],
        ["Muy en desacuerdo", "En desacuerdo", "De acuerdo", "Muy de acuerdo"],
        ["nunca", "a veces", "siempre"],
        ["18-29", "30-44", "45-60", "> 60"],
        ["under 5 hours", "5 to 10 hours", "more than 10 hours"],
        ["0-10k", "10-50k", "50-100k", "100k+"],
        ["0.125-0.25", "0.25-0.5", "0.5-1.000", "2-3"],
        ["0,5 bis 1 Stunde", "1 bis 2 Stunden", "mehr als 2 Stunden"],
        ["$0 - $24,999", "$25,000 - $49,999", "$100,000 - $149,999", "$150,000+"],
        ["1.000-1.999 €", "2.000-9.999 €", "10.000 € und mehr"],
        ["up to 5", "5 to 10", "more than 10"],
        ["10% - 20%", "20% - 50%", "more than 50%"],
    ],
)
def test_known_words_are_put_in_order(levels: list[str]) -> None:
    column = proposed(sorted(levels) * 3)
    assert column.role == "ordinal" and column.levels == tuple(levels)


@pytest.mark.parametrize(
    "texts",
    [
        ["1-2 kg", "3-4 hours", "5-6 hours"],
        ["10-30", "30-60 minutes", "1-2 hours"],
        ["30m", "1 hour", "2 hours"],
        ["5-10 dollars", "5-10 euros", "20 dollars"],
    ],
)
def test_units_that_cannot_be_compared_give_no_order(texts: list[str]) -> None:
    column = proposed(texts * 3)
    assert column.role == "nominal" and column.is_doubtful


@pytest.mark.parametrize("texts", [["-10 to -5", "-5 to 0", "0 to 5"], ["-10--5", "-5 - 0", "0-5", "5 -10"]])
def test_ranges_below_zero_have_no_order(texts: list[str]) -> None:
    assert proposed(texts * 3).role == "nominal"


def test_labels_keep_the_order_of_numbers() -> None:
    column = proposed([1, 2, 3] * 3, labels={1: "agree", 2: "neutral", 3: "disagree"})
    assert column.names == ("agree", "neutral", "disagree")


def test_reason_tells_the_levels_as_they_are() -> None:
    backwards = dict(enumerate(reversed(AGREEMENT.values()), start=1))
    column = proposed([1, 2, 3, 4, 5] * 3, labels=backwards)
    assert column.reason == "known answers, Strongly agree to Strongly disagree"
    column = proposed([1, 2] * 3, labels={1: "Yes", 2: "No"})
    assert (column.names, column.reason) == (("Yes", "No"), "known answers, Yes to No")
    assert proposed(["yes", "no"] * 3).reason == "known answers, no to yes"


def test_labelled_levels_that_never_occur_stay() -> None:
    assert proposed([2, 3] * 3, labels=AGREEMENT).levels == (1, 2, 3, 4, 5)


def test_labels_that_are_alike_get_their_code() -> None:
    column = proposed([1, 2, 3] * 3, labels={1: "a", 2: "a", 3: "b"}, measure="ordinal")
    assert column.names == ("1 a", "2 a", "b")


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1, "1", 2, 3, "2"], (1, 2, 3)),
        (["01", "1", "1", "2", "3"], ("1", "2", "3")),
        (["Agree", "agree", "Agree", "DISAGREE "], ("DISAGREE", "Agree")),
        (["very  good", "Very good", "bad", "very good"], ("bad", "very  good")),
    ],
)
def test_spellings_of_one_answer_are_one_level(values: list, levels: tuple) -> None:
    source = from_frame(pd.DataFrame({"q": values * 10}))
    column = propose(source).column("q")
    assert (column.role, column.levels) == ("ordinal", levels)
    answers = apply(source, Schema((column,))).answers["q"]
    assert not answers.isna().any() and answers.nunique() == len(levels)


def test_labelled_codes_differ_however_spelt() -> None:
    labels = {"a": "Never", "A": "Sometimes", "b": "Often"}
    assert proposed(["a", "A", "b", "B"] * 5, labels=labels).levels == ("a", "A", "b")


def test_names_become_unique_in_the_end() -> None:
    assert unique_names(["1", 1], {}) == ("1 1", "1 1 (2)")
    assert unique_names([1, 2, 3], {1: "a", 2: "a", 3: "1 a"}) == ("1 a", "2 a", "1 a (3)")
    assert len(unique_names(range(16_000), dict.fromkeys(range(16_000), "x"))) == 16_000


def test_ids_that_differ_in_case_or_late_digits_stay_ids() -> None:
    assert proposed([f"{k}{letter}" for k in range(40) for letter in "xX"], "who").role == "id"
    assert proposed([str(9007199254740992 + k) for k in range(60)], "nr").role == "id"


def test_ordered_categorical_keeps_its_order() -> None:
    values = pd.Categorical(["b", "a"] * 3, categories=["c", "b", "a"], ordered=True)
    column = propose(from_frame(pd.DataFrame({"Q": values}))).column("Q")
    assert (column.role, column.levels) == ("ordinal", ("c", "b", "a"))


def test_booleans_are_false_and_true() -> None:
    column = propose(from_frame(pd.DataFrame({"Q": [True, False]}))).column("Q")
    assert (column.role, column.levels, column.names) == ("ordinal", (0, 1), ("false", "true"))


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1, 2, 3, 5], (1, 2, 3, 4, 5)),
        ([0, 1], (0, 1)),
        (list(range(11)), tuple(range(11))),
        ([2, 3, 4], (1, 2, 3, 4)),
        ([-2, -1, 0, 1, 2], (-2, -1, 0, 1, 2)),
    ],
)
def test_small_whole_numbers(values: list[int], levels: tuple[int, ...]) -> None:
    column = proposed(values * 5)
    assert (column.role, column.levels) == ("ordinal", levels)


# ---- other roles ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "name", "said", "reason"),
    [
        ([1, 2] * 5, "gender", {}, "it is named after gender"),
        ([1, 2, 3] * 5, "v1", {"questions": "Country of birth"}, "it is named after country"),
        (["male", "female"] * 5, "v1", {}, "its answers are categories"),
        ([1, 2] * 5, "v1", {"labels": {1: "male", 2: "female"}}, "its answers are categories"),
        ([1, 2] * 5, "v1", {"labels": {1: "tea", 2: "coffee"}}, "two categories"),
        ([1, 2, 3] * 5, "v1", {"labels": {1: "bus", 2: "car", 3: "Other, namely"}}, "categories"),
        (list(range(18, 90)) * 2, "v1", {}, "a measurement: 72 different numbers from 18 to 89"),
        ([0.5, 1.5, 2.25] * 5, "v1", {}, "a measurement"),
        (["a1", "a2", "h3"] * 5, "v1", {}, "text without a known order"),
        (["1/2", "2", "3 or more"] * 5, "v1", {}, "in an order that is not known"),
        (["red", "pink", "blue"] * 5, "v1", {}, "text without a known order"),
        ([1, 2, 3] * 40, "v1", {"labels": {k: f"item {k}" for k in range(1, 30)}}, "more categories"),
    ],
)
def test_categories_and_measurements(values: list, name: str, said: dict[str, Any], reason: str) -> None:
    column = proposed(values, name, **said)
    role = "numeric" if "measurement" in reason else "nominal"
    assert column.role == role and reason in column.reason


def test_question_about_a_country_is_a_question() -> None:
    question = "How proud are you of the country you live in?"
    assert proposed([1, 2, 3, 4] * 3, questions=question).role == "ordinal"
    assert proposed([1, 2, 3, 4] * 3, "job_satisfaction").role == "ordinal"
    asked = "Which country do you live in?"
    assert proposed([1, 2, 3, 4] * 3, questions=asked).role == "nominal"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([np.nan] * 4, "is empty"),
        (["", " "] * 2, "is empty"),
        ([3, 3, 3, np.nan], "has only the one answer 3"),
        (["n/a"] * 4, "holds only codes that are no answer"),
        (["2020-01-02", "2021-03-04"], "holds dates"),
        (pd.to_datetime(["2020-01-02", "2021-03-04"]), "holds dates"),
        ([datetime.date(2020, 1, 2)] * 3, "holds neither numbers nor text"),
        ([[1, 2], [3]], "holds neither numbers nor text"),
        ([f"I think {k}" for k in range(80)], "free text: 80 different ones"),
    ],
)
def test_ignored(values: Any, reason: str) -> None:
    column = proposed(values)
    assert (column.role, column.reason) == ("ignored", reason)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (list(range(100, 120)), "resp_id"),
        (list(range(1, 61)), "nr"),
        ([f"x{k}" for k in range(60)], "who"),
        ([*range(100, 299), 100], "caseid"),
    ],
)
def test_ids(values: list, name: str) -> None:
    assert proposed(values, name).role == "id"


@pytest.mark.parametrize(
    ("name", "question"),
    [("RESPNO", ""), ("v1", "Household number"), ("case_no", ""), ("HHID", ""), ("v2", "Folio")],
)
def test_numbers_of_people_that_repeat_are_no_question(name: str, question: str) -> None:
    column = proposed([1, 2, 3, 4, 5, 6, 7, 8] * 30, name, questions=question)
    assert column.role == "nominal" and "numbers something" in column.reason


def test_few_rows_that_differ_are_no_ids() -> None:
    assert proposed([3, 1, 2, 5, 4]).role == "ordinal"


def test_one_weight_and_one_id() -> None:
    numbers = np.linspace(0.5, 2, 30)
    frame = pd.DataFrame({"wgt": numbers, "wgt2": numbers, "body_weight": numbers + 70.5})
    schema = propose(from_frame(frame))
    assert [column.role for column in schema.columns] == ["weight", "ignored", "numeric"]
    assert schema.column("wgt2").reason == "another weight; 'wgt' is used"


@pytest.mark.parametrize(
    ("values", "role", "reason"),
    [
        ([1, 2, 3, 4, 5, 6], "weight", "they are whole"),
        ([0.5, 1.5, 1.0, 2.0], "weight", "its numbers are positive"),
        ([-1, 1, 2, 3], "numeric", "not all are positive"),
        ([np.inf, 1, 2, 3], "background", "not all are positive"),
        (["1", "2", "3"], "numeric", "its numbers are text"),
    ],
)
def test_weights_are_never_learnt_from(values: list, role: str, reason: str) -> None:
    column = proposed(values * 5, "weight")
    assert column.role == role and reason in column.reason


def test_questions_about_weight_in_words_stay_questions() -> None:
    assert proposed(["low", "medium", "high"] * 5, "weight").role == "ordinal"
    labels = {1: "too low", 2: "right", 3: "too high"}
    assert proposed([1, 2, 3] * 5, "weight", labels=labels).role == "ordinal"


# ---- files of other programmes ----------------------------------------------------------------

COUNTED = [1, 2, 3, 4] * 30


@pytest.mark.parametrize(
    "texts",
    [
        ["Ποτέ", "Σπάνια", "Συχνά", "Πάντα"],
        ["ไม่เคย", "บางครั้ง", "บ่อย", "เสมอ"],
        ["A nunca", "Bigo", "Cema", "Dolo"],
    ],
)
def test_labels_of_which_no_word_is_known_are_doubtful(texts: list[str]) -> None:
    column = proposed(COUNTED, labels=dict(enumerate(texts, start=1)))
    assert column.role == "nominal" and column.is_doubtful


def test_initials_are_no_missing_answers() -> None:
    initials = ["ka", "mh", "js", "tb", "lr", "na"] * 20
    assert proposed(initials, "by").missing == ()
    assert proposed(["ja", "nein", "na"] * 20, "by").missing == ("na",)


@pytest.mark.parametrize(
    "name", ["PSU", "EA_road", "VSTRAT", "Q110. Interviewer's number", "Código del encuestador"]
)
def test_columns_of_the_fieldwork_are_set_apart(name: str) -> None:
    assert proposed(COUNTED, name).role == "fieldwork"


@pytest.mark.parametrize(
    "name", ["Estrato socioeconómico", "Which interviewer was it?", "urban or rural PSU", "Region"]
)
def test_columns_about_people_are_not_fieldwork(name: str) -> None:
    assert proposed(COUNTED, name).role != "fieldwork"


def test_fieldwork_is_read_but_not_learnt() -> None:
    frame = pd.DataFrame({"psu": np.arange(120) // 4, "a": COUNTED, "b": COUNTED})
    source = from_frame(frame)
    survey = apply(source, propose(source))
    assert survey.encoded.names == ["a", "b"]
    assert survey.background["psu"].tolist() == frame["psu"].tolist()


def test_a_measure_that_all_columns_declare_counts_for_nothing() -> None:
    names = ["q1", "q2", "q3", "q4", "many"]
    frame = pd.DataFrame({name: rng_of(k).integers(1, 4, 200) for k, name in enumerate(names)})
    frame["many"] = rng_of(9).integers(1, 16, 200)
    for others, role in (("ordinal", "numeric"), ("scale", "ordinal")):
        measure = dict.fromkeys(names, others) | {"many": "ordinal"}
        assert propose(Source(None, "sav", "x", frame, {}, measure=measure)).column("many").role == role


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
