"""What labels, names and codes say, word by word."""

from __future__ import annotations

import pandas as pd

from ordinalrbm.schema.batteries import stem, tick_columns
from ordinalrbm.schema.infer import unique_names
from ordinalrbm.schema.known_scales import (
    are_alike,
    are_opposites,
    best_fit,
    is_mirrored,
    n_own_words,
    places_of_ranges,
    polarity,
    share_graded,
)
from ordinalrbm.schema.labels import Clue, Verdict, weigh
from ordinalrbm.schema.schema import Column, Schema, from_json, to_json
from ordinalrbm.schema.source import (
    Source,
    alike,
    as_number,
    count_codes,
    is_among,
    plain_code,
    position_finder,
    shortened,
)
from ordinalrbm.schema.vocabulary import (
    NOMINAL_WORDS,
    NoAnswer,
    Phrases,
    asks,
    label_words,
    looks_like_date,
    looks_like_id,
    looks_like_weight,
    n_categories_named,
    name_words,
    named_after,
    no_answer,
    numbers_something,
    plain_words,
    says_depends,
    says_middle,
    says_neither,
    says_other,
    says_sampling_weight,
    sort_of,
    stems,
    without_code,
)


def test_stem():
    assert (stem("Q91C"), stem("v12_3"), stem("media_radio"), stem("Heard of it? [Radio]")) == (
        "Q91",
        "v12",
        "media",
        "Heard of it?",
    )
    assert (stem("Q12"), stem("age")) == (None, None)


def test_tick_columns():
    frame = pd.DataFrame({"tv_1": [1, None], "tv_2": [None, 1], "tv_3": [2, 1]})
    assert tick_columns(Source(None, "frame", "media", frame), "tv_1", [1, 99]) == ["tv_1", "tv_2"]


def test_plain_code():
    assert (plain_code(2.0), plain_code(0.5), plain_code(" never "), plain_code(float("nan"))) == (
        2,
        0.5,
        "never",
        None,
    )


def test_count_codes():
    assert count_codes(pd.Series([2.0, None, 1.0, 2.0])) == {2: 2, 1: 1}


def test_as_number():
    assert (as_number("07"), as_number(3), as_number("seven")) == (7.0, 3.0, None)


def test_alike():
    assert (alike("01") == alike(1) == alike("1.0"), alike("Very  good") == alike("very good")) == (
        True,
        True,
    )


def test_position_finder():
    find = position_finder(["never", "1"])
    assert (find("Never"), find(1), find("often")) == (0, 1, -1)


def test_is_among():
    assert (is_among(-5, [99, (-9.0, -1.0)]), is_among("x", [(-9.0, -1.0)])) == (True, False)


def test_weigh():
    table = [[Clue(3, "{case} is known", str.istitle)], [Clue(-1, "is short", lambda t: True)]]
    assert weigh(table, "Agree") == Verdict(is_so=True, confidence=0.88, because="Agree is known")


def test_unique_names():
    assert (unique_names([1, 2, 3], {1: "agree", 3: "agree"})) == ("1 agree", "2", "3 agree")


def test_places_of_ranges():
    assert places_of_ranges(["None", "1-2", "three or more", "I forgot"]) == {
        "None": 0,
        "1-2": 1,
        "three or more": 2,
    }
    hours = ["more than 2 hours", "under 1 hour", "1 to 2 hours"]
    assert list(places_of_ranges(hours).values()) == [2, 0, 1]
    assert places_of_ranges(["30-60 minutes", "1-2 hours", "3 hours or more"]) == {}
    assert places_of_ranges(["Party 1", "Party 2", "Party 3"]) == {}
    assert places_of_ranges(["10 000 €", "1.000-9,999 €", "0,5 à 1 €"]) == {
        "0,5 à 1 €": 0,
        "1.000-9,999 €": 1,
        "10 000 €": 2,
    }


def test_best_fit():
    assert (best_fit(("Never", "Often", "No contact")).outside) == ("No contact",)
    assert best_fit(("Ninguna esperanza", "Mucha esperanza", "Poca esperanza")).places == {
        "Ninguna esperanza": 0,
        "Mucha esperanza": 4,
        "Poca esperanza": 1,
    }


def test_share_graded():
    assert (share_graded(["Very often", "Quite rarely"]), share_graded(["Tap", "Well water", "River"])) == (
        1.0,
        0.3333333333333333,
    )


def test_polarity():
    assert (polarity(["Yes", "No"]), polarity(["Strongly disagree", "Disagree", "Agree"])) == (-1, 1)
    assert (polarity(["Ich habe gewählt", "Ich habe nicht gewählt"]), polarity(["Tea", "Coffee"])) == (-1, 0)


def test_are_opposites():
    assert (are_opposites("Incorrect", "Correct"), are_opposites("I voted", "I did not vote")) == (True, True)
    assert (are_opposites("Yes, I own one", "No (don't own)"), are_opposites("Tea", "Coffee")) == (
        True,
        False,
    )


def test_are_alike():
    assert are_alike(["Income covers the needs well", "Income does not cover the needs well"])
    assert not are_alike(["Strong defence forces", "More beautiful cities and countryside"])


def test_n_own_words():
    assert (n_own_words(["Very good", "Good"]), n_own_words(["Strong defence forces", "High growth"])) == (
        0.0,
        1.5,
    )


def test_is_mirrored():
    assert (is_mirrored(["Very bad", "Bad", "Good", "Very good"]), is_mirrored(["Never", "Often"])) == (
        True,
        False,
    )
    assert is_mirrored(["Strong A", "Near A", "Neither", "Near B", "Strong B"])


def test_no_answer():
    assert (no_answer("Don’t know"), no_answer("97 Correctly skipped").sort) == (
        NoAnswer(sort="don't know", is_sure=True),
        "not asked",
    )
    assert not no_answer("Haven't heard enough").is_sure
    assert no_answer("Don't know it at all") is None


def test_sort_of():
    assert (sort_of("Refusé"), sort_of("No aplica"), sort_of("99")) == (
        "refused",
        "not applicable",
        "no answer",
    )


def test_says_middle():
    assert (says_middle("Agree with neither"), says_middle("Cela dépend"), says_middle("Agree")) == (
        True,
        True,
        False,
    )
    assert says_middle("Null/Neutral")


def test_says_neither():
    assert (says_neither("Neither good nor bad"), says_neither("neither agr")) == (True, True)
    assert (says_neither("Neither parent"), says_neither("Agree")) == (False, False)


def test_says_depends():
    assert (says_depends("Depends"), says_depends("Both")) == (True, False)


def test_to_json():
    schema = Schema((Column("Q1", "ordinal", levels=(1, 2), names=("no", "yes")),))
    assert from_json(to_json(schema)) == schema


def test_shortened():
    assert (shortened(ValueError("no\nnumber.")), shortened(KeyError("index"))) == (
        "no number",
        "KeyError: 'index'",
    )


def test_plain_words():
    assert plain_words("Weiß  nicht / N'est pas sûr!") == "weiss nicht nest pas sur"


def test_without_code():
    assert (without_code("[-1] keine Angabe"), without_code("1. Never"), without_code("1.5 hours")) == (
        "keine Angabe",
        "Never",
        "1.5 hours",
    )


def test_label_words():
    assert (label_words("1 - Never!"), label_words("[-2] refused"), label_words("97")) == (
        "never",
        "refused",
        "97",
    )


def test_name_words():
    assert (sorted(name_words("homeCountry_2")), sorted(name_words("SEX"))) == (["country", "home"], ["sex"])


def test_stems():
    assert (stems("beaucoup meilleures"), stems("meilleur"), stems("muy buena"), stems("less")) == (
        "beaucoup meilleur",
        "meilleur",
        "muy buen",
        "less",
    )


def test_phrases():
    few = Phrases("not at all|all")
    assert (few.in_("not at all free"), few.in_("small"), few.removed_from("not at all free")) == (
        ["not at all"],
        [],
        "free",
    )


def test_named_after():
    assert named_after("Which country do you live in?", NOMINAL_WORDS) == "country"
    assert named_after("job_satisfaction", NOMINAL_WORDS) is None


def test_asks():
    assert asks("How often do you read?", "ordered") and not asks("Which language is it?", "ordered")
    assert asks("Diplôme le plus élevé", "banded") and not asks("How old are you?", "banded")
    assert asks("Which language is it?", "unordered") and not asks("How often do you read?", "unordered")
    assert asks("Number of people in the household", "counted") and not asks("How tall?", "counted")


def test_n_categories_named():
    assert (n_categories_named(["Male", "Female"]), n_categories_named(["None", "Some", "All"])) == (2, 0)


def test_says_other():
    assert (says_other("Other (specify)"), says_other("Autre diplôme"), says_other("On other days")) == (
        True,
        True,
        False,
    )


def test_looks_like_weight():
    assert (looks_like_weight("W_FSTUWT", ""), looks_like_weight("growth", "")) == (True, False)
    assert (looks_like_weight("pond", "Facteur de pondération"), looks_like_weight("weight", "in kg")) == (
        True,
        False,
    )


def test_says_sampling_weight():
    assert (says_sampling_weight("Weight, to correct for oversample"), says_sampling_weight("Weight")) == (
        True,
        False,
    )


def test_looks_like_id():
    assert (looks_like_id("RespondentID"), looks_like_id("case_id"), looks_like_id("idea")) == (
        True,
        True,
        False,
    )
    assert looks_like_id("v1", "Numéro du questionnaire")


def test_numbers_something():
    assert (numbers_something("RESPNO", ""), numbers_something("PID", "Party identification")) == (
        True,
        False,
    )


def test_looks_like_date():
    assert (looks_like_date("v3", "Date of interview"), looks_like_date("update", "")) == (True, False)
