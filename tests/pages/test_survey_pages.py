from __future__ import annotations

import base64
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from small_pages import (
    HOSTILE,
    UNWIELDY,
    Page,
    answers,
    background,
    fitted,
    hostile_survey,
    rater,
    ratings,
    survey,
    unwieldy_survey,
    with_hidden,
)

import ordinalrbm as orbm
from ordinalrbm import pages
from ordinalrbm.errors import DataError
from ordinalrbm.files.survey import LeftOut
from ordinalrbm.schema.schema import Column, Schema

SECTIONS = ["found", "answers", "map", "factors", "groups", "hidden", "appendix"]


@pytest.fixture(scope="module")
def usual():
    whole = survey(
        background=background(),
        left_out=(LeftOut("column x", "all the same", 0), LeftOut("9 of q0", "don't know", 7)),
        schema=Schema(
            (
                Column(
                    "q0", "ordinal", "How often do you read?", missing=(9,), missing_names=("don't know",)
                ),
                Column("z", "ignored", reason="free text"),
            )
        ),
    )
    rest, held_out = with_hidden(whole)
    return fitted(rest), whole, rest, held_out


@pytest.fixture(scope="module")
def page(usual):
    model, whole, _, held_out = usual
    return pages.survey_page(model, whole, held_out=held_out)


def map_data(html: str) -> dict:
    return script_data(html, "people") or script_data(html, "items")


def script_data(html: str, name: str) -> dict:
    found = [text for attributes, text in Page(html).scripts if attributes.get("id") == name]
    return json.loads(found[0]) if found else {}


def test_every_section_is_there_and_ids_are_unique(page):
    read = Page(page)
    assert read.sections() == SECTIONS
    assert len(read.ids()) == len(set(read.ids()))
    links = [a["href"] for tag, a in read.tags if tag == "a"]
    assert links == ["#main", *(f"#{name}" for name in SECTIONS)]
    assert not read.open


def test_nothing_is_fetched_from_anywhere(page):
    read = Page(page)
    for tag, attributes in read.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base")
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in page


def test_a_policy_allows_only_the_scripts_of_the_page(page):
    (policy,) = [a["content"] for t, a in Page(page).tags if t == "meta" and "http-equiv" in a]
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == 3
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_what_was_left_out_is_told_with_reasons(page):
    text = Page(page).text
    for told in ("column x all the same", "9 of q0 don't know 7", "z", "free text", "9 (don't know)"):
        assert told in text
    assert "How often do you read? q0" in text


def test_pages_are_the_same_each_time(usual, page):
    model, whole, _, held_out = usual
    assert pages.survey_page(model, whole, held_out=held_out) == page


def test_held_out_answers_may_be_in_the_survey_or_not(usual, page):
    model, _, rest, held_out = usual
    assert pages.survey_page(model, rest, held_out=held_out) == page


def test_the_page_says_whether_answers_were_learnt_from(usual, page):
    model, whole, _, _ = usual
    assert "has never seen these answers" in page
    assert "had learnt from these answers" in pages.survey_page(model, whole)


def test_the_map_offers_background_answers_and_factors(page):
    data = map_data(page)
    by_section = {}
    for variable in data["variables"]:
        by_section.setdefault(variable["section"], []).append(variable["name"])
    assert by_section["Background"] == ["country", "age", "school"]
    assert by_section["Answers"] == ["How often do you read? (q0)", "q1", "q2", "q3", "q4"]
    assert all(name.startswith("Factor ") for name in by_section["Factors"])
    assert data["count"] == 60


def test_hostile_labels_stay_text_everywhere():
    whole = hostile_survey()
    html = pages.survey_page(fitted(whole), whole)
    read = Page(html)
    assert read.sections() == SECTIONS
    assert not read.open
    tags = {tag for tag, _ in read.tags}
    assert "img" not in tags
    assert sum(tag == "h1" for tag, _ in read.tags) == 1
    assert all("type" in attributes for attributes, _ in read.scripts[:-3])
    assert not any(name.startswith("on") for _, a in read.tags for name in a)
    for label in HOSTILE[:5]:
        assert " ".join(label.split()) in read.text
    data = map_data(html)
    assert any(HOSTILE[0] in variable["name"] for variable in data["variables"])
    assert not re.search(r"[<>&\u2028\u2029]", read.scripts[0][1])


def test_unwieldy_labels_stay_text_and_by_themselves():
    whole = unwieldy_survey()
    html = pages.survey_page(fitted(whole), whole)
    read = Page(html)
    assert not read.open
    assert "b" not in {tag for tag, _ in read.tags}
    assert UNWIELDY[1] in read.text
    # What runs from right to left must not turn round what stands beside it.
    for label in UNWIELDY[:1]:
        text = str(escape(label))
        for place in (m.start() for m in re.finditer(re.escape(text), html)):
            before = html[:place]
            opened = before.rpartition("<")[2]
            assert opened.startswith(
                ("bdi>", "option", "title", "i style", "svg", "details", "tr ", "figure", "button", "polygon")
            ), opened[:60]


def test_codes_alone_make_a_page_that_reads_well(usual):
    whole = survey(background=background())
    read = Page(pages.survey_page(fitted(whole), whole))
    assert re.search(r"q\d: (never|often)( · q\d: (never|often))?", read.text)
    assert "None" not in read.text
    assert "nan" not in read.text.lower().split()


def test_texts_stand_where_codes_stood(usual):
    model, whole, _, held_out = usual
    html = pages.survey_page(model, whole, held_out=held_out)
    for name in ("answers", "factors", "hidden"):
        section = html.split(f'<section id="{name}">')[1].split("</section>")[0]
        assert '<bdi>How often do you read?</bdi> <small class="code">q0</small>' in section


def test_characters_that_no_font_has_are_no_trouble():
    whole = survey(names=["喜欢茶吗", "ö\x07", "שלום", "😀", "e"], title="调查 \ud83d")
    html = pages.survey_page(fitted(whole), whole)
    assert "喜欢茶吗" in html
    assert html.encode("utf-8")


def test_one_question_is_a_survey_too():
    whole = survey(answers(40, 1), background(60).head(40))
    html = pages.survey_page(fitted(whole, n_factors=1), whole)
    assert "nobody has answered two questions" in html


def test_two_people_make_no_map():
    whole = survey(np.array([[0, 1, 2], [3, 2, 0]]))
    model = fitted(survey(answers(40, 3)))
    assert "A map needs at least 4 people" in pages.survey_page(model, whole)


def test_rows_without_answers_are_not_on_the_map():
    level = answers()
    level[:7] = -1
    whole = survey(level, background(), weight=pd.Series(np.ones(60)))
    html = pages.survey_page(fitted(whole), whole)
    assert map_data(html)["count"] == 53
    assert "7 people without any answer" in Page(html).text


def test_nobody_who_answered_is_an_error():
    whole = survey(np.full((5, 3), -1))
    with pytest.raises(DataError, match="Nobody has answered"):
        pages.survey_page(fitted(survey(answers(40, 3))), whole)


def test_another_model_is_refused(usual):
    model, _, _, _ = usual
    with pytest.raises(DataError, match="not those that the model was fitted on"):
        pages.survey_page(model, survey(answers(n_questions=4)))
    with pytest.raises(DataError, match="The levels of 'q0'"):
        pages.survey_page(model, survey(levels=["a", "b", "c", "d"]))
    with pytest.raises(DataError, match="no background variable 'planet'"):
        pages.survey_page(model, survey(), group="planet")


def test_progress_is_told(usual):
    model, whole, _, held_out = usual
    told: list[str] = []
    pages.survey_page(model, whole, held_out=held_out, progress=told.append)
    assert any("placing 60 respondents" in line for line in told)


# Ratings


def test_ratings_have_a_page():
    html = pages.ratings_page(rater(), test=ratings().iloc[1::2], left_out=[LeftOut("rows", "doubled", 2)])
    read = Page(html)
    assert read.sections() == ["data", "learning", "scores", "example", "map", "factors", "made"]
    assert len(read.ids()) == len(set(read.ids()))
    assert "doubled" in read.text
    assert map_data(html)["count"] == 12


def test_a_page_of_ratings_names_the_model_that_has_learnt():
    model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(ratings())
    text = Page(pages.ratings_page(model)).text
    assert "Boltzmann" not in text
    assert "what the model ( OrdinalMF ) has learnt from them" in text
    assert "per answer" not in pages.ratings_page(model) and "per rating" in pages.ratings_page(model)


def test_without_test_ratings_the_page_says_so():
    read = Page(pages.ratings_page(rater()))
    assert "There are no test ratings" in read.text
    assert "Root" not in read.text


def test_strangers_among_test_ratings_are_counted():
    test = pd.DataFrame({"user": [0, 999], "item": [888, 1], "rating": [1, 4]})
    assert "that the model does not know: 2." in Page(pages.ratings_page(rater(), test=test)).text


def test_example_users_must_be_known():
    with pytest.raises(DataError, match="no user 999"):
        pages.ratings_page(rater(), example_user=999)


def test_hostile_items_stay_text():
    table = ratings()
    table["item"] = [f"{HOSTILE[i % 6]} {i}" for i in table["item"]]
    table["user"] = [f"{HOSTILE[2]} {u}" for u in table["user"]]
    model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(table.iloc[::2])
    html = pages.ratings_page(model, test=table.iloc[1::2], title=HOSTILE[1])
    read = Page(html)
    assert not read.open
    assert "img" not in {tag for tag, _ in read.tags}
    assert [tag for tag, _ in read.tags].count("script") == 3


def test_items_have_titles():
    titles = pd.Series({f"{k}": f"Film {chr(65 + k)} <i>" for k in range(11)})
    html = pages.ratings_page(rater(), test=ratings().iloc[1::2], item_names=titles)
    read = Page(html)
    assert "Film B <i>" in read.text
    why = html.split("Why ")[1].split("</table>")[0]
    assert why.startswith(("Film", "11")) and ">item</th>" in why
    # The one without a title keeps its id, on the map as well.
    names = zlib.decompress(base64.b64decode(map_data(html)["names"])).decode().split("\n")
    assert sorted(names) == sorted([*titles, "11"])


def test_recommendations_and_baselines_are_judged_as_evaluate_does():
    test = ratings().iloc[1::2]
    text = Page(pages.ratings_page(rater(), test=test)).text
    found = orbm.evaluate.score_model(rater(), test)
    for name, one in found.ranking.items():
        assert f"{name} {one.ndcg:.3f} {one.recall:.3f} {one.coverage:.0%}" in text
    assert f"{found.ratings['model']['nll']:.3f} {found.ratings['biases']['nll']:.3f}" in text
    counts = np.sort(np.bincount(ratings().iloc[::2]["item"]))[::-1]
    assert f"have {counts[0] / counts.sum():.0%} of the ratings" in text  # a tenth of 12 items is one
