"""What labels, names and codes say, word by word."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from ordinalrbm.schema import batteries, infer, known_scales, source, vocabulary
from ordinalrbm.schema.labels import Clue, Verdict, weigh
from ordinalrbm.schema.vocabulary import NOMINAL_WORDS, NoAnswer, Phrases

# What each function says of one text.
TEXTS: list[tuple[Any, dict[Any, Any]]] = [
    (batteries.stem, {"Q91C": "Q91", "v12_3": "v12", "media_radio": "media", "Q12": None, "age": None}),
    (batteries.stem, {"Heard of it? [Radio]": "Heard of it?"}),
    (source.plain_code, {2.0: 2, 0.5: 0.5, " never ": "never", float("nan"): None}),
    (source.as_number, {"07": 7.0, 3: 3.0, "seven": None}),
    (source.position_finder(["never", "1"]), {"Never": 0, 1: 1, "often": -1}),
    (
        vocabulary.no_answer,
        {"Don’t know": NoAnswer("don't know", is_sure=True), "Don't know it at all": None},
    ),
    (vocabulary.sort_of, {"Refusé": "refused", "No aplica": "not applicable", "99": "no answer"}),
    (vocabulary.says_middle, {"Agree with neither": True, "Cela dépend": True, "Null/Neutral": True}),
    (vocabulary.says_middle, {"Agree": False}),
    (vocabulary.says_neither, {"Neither good nor bad": True, "neither agr": True}),
    (vocabulary.says_neither, {"Neither parent": False, "Agree": False}),
    (vocabulary.says_depends, {"Depends": True, "Both": False}),
    (vocabulary.plain_words, {"Weiß  nicht / N'est pas sûr!": "weiss nicht nest pas sur"}),
    (vocabulary.without_code, {"[-1] keine Angabe": "keine Angabe", "1. Never": "Never"}),
    (vocabulary.without_code, {"1.5 hours": "1.5 hours"}),
    (vocabulary.label_words, {"1 - Never!": "never", "[-2] refused": "refused", "97": "97"}),
    (vocabulary.name_words, {"homeCountry_2": {"home", "country"}, "SEX": {"sex"}}),
    (vocabulary.stems, {"beaucoup meilleures": "beaucoup meilleur", "meilleur": "meilleur"}),
    (vocabulary.stems, {"muy buena": "muy buen", "less": "less"}),
    (vocabulary.says_other, {"Other (specify)": True, "Autre diplôme": True, "On other days": False}),
    (vocabulary.says_sampling_weight, {"Weight, to correct for oversample": True, "Weight": False}),
]


@pytest.mark.parametrize(
    ("says", "text", "expected"), [(says, *case) for says, cases in TEXTS for case in cases.items()]
)
def test_of_one_text(says: Any, text: Any, expected: Any) -> None:
    found = says(text)
    assert (set(found) if isinstance(expected, set) else found) == expected


@pytest.mark.parametrize(
    ("says", "given", "expected"),
    [
        (source.is_among, (-5, [99, (-9.0, -1.0)]), True),
        (source.is_among, ("x", [(-9.0, -1.0)]), False),
        (known_scales.share_graded, (["Very often", "Quite rarely"],), 1.0),
        (known_scales.share_graded, (["Tap", "Well water", "River"],), 1 / 3),
        (known_scales.polarity, (["Yes", "No"],), -1),
        (known_scales.polarity, (["Strongly disagree", "Disagree", "Agree"],), 1),
        (known_scales.polarity, (["Ich habe gewählt", "Ich habe nicht gewählt"],), -1),
        (known_scales.polarity, (["Tea", "Coffee"],), 0),
        (known_scales.are_opposites, ("Incorrect", "Correct"), True),
        (known_scales.are_opposites, ("I voted", "I did not vote"), True),
        (known_scales.are_opposites, ("Yes, I own one", "No (don't own)"), True),
        (known_scales.are_opposites, ("Tea", "Coffee"), False),
        (
            known_scales.are_alike,
            (["Income covers the needs well", "Income does not cover them well"],),
            True,
        ),
        (known_scales.are_alike, (["Strong defence forces", "More beautiful cities"],), False),
        (known_scales.n_own_words, (["Very good", "Good"],), 0.0),
        (known_scales.n_own_words, (["Strong defence forces", "High growth"],), 1.5),
        (known_scales.is_mirrored, (["Very bad", "Bad", "Good", "Very good"],), True),
        (known_scales.is_mirrored, (["Strong A", "Near A", "Neither", "Near B", "Strong B"],), True),
        (known_scales.is_mirrored, (["Never", "Often"],), False),
        (vocabulary.named_after, ("Which country do you live in?", NOMINAL_WORDS), "country"),
        (vocabulary.named_after, ("job_satisfaction", NOMINAL_WORDS), None),
        (vocabulary.n_categories_named, (["Male", "Female"],), 2),
        (vocabulary.n_categories_named, (["None", "Some", "All"],), 0),
        (vocabulary.looks_like_weight, ("W_FSTUWT", ""), True),
        (vocabulary.looks_like_weight, ("pond", "Facteur de pondération"), True),
        (vocabulary.looks_like_weight, ("growth", ""), False),
        (vocabulary.looks_like_weight, ("weight", "in kg"), False),
        (vocabulary.looks_like_id, ("RespondentID",), True),
        (vocabulary.looks_like_id, ("case_id",), True),
        (vocabulary.looks_like_id, ("v1", "Numéro du questionnaire"), True),
        (vocabulary.looks_like_id, ("idea",), False),
        (vocabulary.numbers_something, ("RESPNO", ""), True),
        (vocabulary.numbers_something, ("PID", "Party identification"), False),
        (vocabulary.looks_like_date, ("v3", "Date of interview"), True),
        (vocabulary.looks_like_date, ("update", ""), False),
        (vocabulary.asks, ("How often do you read?", "ordered"), True),
        (vocabulary.asks, ("Which language is it?", "ordered"), False),
        (vocabulary.asks, ("Diplôme le plus élevé", "banded"), True),
        (vocabulary.asks, ("How old are you?", "banded"), False),
        (vocabulary.asks, ("Which language is it?", "unordered"), True),
        (vocabulary.asks, ("How often do you read?", "unordered"), False),
        (vocabulary.asks, ("Number of people in the household", "counted"), True),
        (vocabulary.asks, ("How tall?", "counted"), False),
        (infer.unique_names, ([1, 2, 3], {1: "agree", 3: "agree"}), ("1 agree", "2", "3 agree")),
        (source.shortened, (ValueError("no\nnumber."),), "no number"),
        (source.shortened, (KeyError("index"),), "KeyError: 'index'"),
    ],
)
def test_of_labels_names_and_questions(says: Any, given: tuple, expected: Any) -> None:
    assert says(*given) == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_sure_and_unsure_answers_that_are_none() -> None:
    assert vocabulary.no_answer("97 Correctly skipped").sort == "not asked"
    assert not vocabulary.no_answer("Haven't heard enough").is_sure


def test_tick_columns() -> None:
    frame = pd.DataFrame({"tv_1": [1, None], "tv_2": [None, 1], "tv_3": [2, 1]})
    media = source.Source(None, "frame", "media", frame)
    assert batteries.tick_columns(media, "tv_1", [1, 99]) == ["tv_1", "tv_2"]


def test_codes_are_counted_and_alike() -> None:
    assert source.count_codes(pd.Series([2.0, None, 1.0, 2.0])) == {2: 2, 1: 1}
    assert source.alike("01") == source.alike(1) == source.alike("1.0")
    assert source.alike("Very  good") == source.alike("very good")


def test_weigh() -> None:
    table = [[Clue(3, "{case} is known", str.istitle)], [Clue(-1, "is short", lambda t: True)]]
    assert weigh(table, "Agree") == Verdict(is_so=True, confidence=0.88, because="Agree is known")


@pytest.mark.parametrize(
    ("texts", "places"),
    [
        (["None", "1-2", "three or more", "I forgot"], {"None": 0, "1-2": 1, "three or more": 2}),
        (["30-60 minutes", "1-2 hours", "3 hours or more"], {}),
        (["Party 1", "Party 2", "Party 3"], {}),
        (["10 000 €", "1.000-9,999 €", "0,5 à 1 €"], {"0,5 à 1 €": 0, "1.000-9,999 €": 1, "10 000 €": 2}),
    ],
)
def test_places_of_ranges(texts: list[str], places: dict[str, int]) -> None:
    assert known_scales.places_of_ranges(texts) == places


def test_best_fit() -> None:
    assert known_scales.best_fit(("Never", "Often", "No contact")).outside == ("No contact",)
    hope = ("Ninguna esperanza", "Mucha esperanza", "Poca esperanza")
    assert known_scales.best_fit(hope).places == dict(zip(hope, (0, 4, 1), strict=True))


def test_phrases() -> None:
    few = Phrases("not at all|all")
    assert (few.in_("not at all free"), few.in_("small")) == (["not at all"], [])
    assert few.removed_from("not at all free") == "free"
