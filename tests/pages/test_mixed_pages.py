"""Pages of surveys with categories, numbers and background: what they show is right and safe."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from small_pages import HOSTILE, Page, answers, means_of, survey

import ordinalrbm as orbm
from ordinalrbm import pages
from ordinalrbm.errors import DataError
from ordinalrbm.pages.frequencies import summary_of
from ordinalrbm.pages.page import Label
from ordinalrbm.schema.schema import Column, Schema

N = 90


def of_all_kinds():
    rng = np.random.default_rng(0)
    level = answers(N)
    people = pd.DataFrame(
        {
            "party": pd.Categorical.from_codes(rng.integers(0, 3, N), HOSTILE[:3]),
            "income": np.round(rng.gamma(4.0, 500.0, N)),
            "land": ["north", "south", "east"] * (N // 3),
        }
    )
    people.loc[rng.random(N) < 0.1, "income"] = np.nan
    people.loc[rng.random(N) < 0.1, "party"] = None
    columns = [Column(f"q{k}", "ordinal") for k in range(5)]
    columns += [
        Column("party", "nominal", question=HOSTILE[1]),
        Column("income", "numeric", question=HOSTILE[0]),
        Column("land", "background", question="Part of the country"),
    ]
    whole = survey(level, people, schema=Schema(tuple(columns)), weight=pd.Series(rng.gamma(2, 1, N)))
    return whole.choosing(include=["party", "income"], background=["land"])


@pytest.fixture(scope="module")
def whole():
    return of_all_kinds()


@pytest.fixture(scope="module")
def model(whole):
    settings = {"n_epochs": 2, "unanswered": "latent", "random_state": 0}
    return orbm.CumulativeRBM.binary(3, **settings, **whole.chosen.parameters).fit(whole.table)


@pytest.fixture(scope="module")
def page(model, whole):
    return pages.survey_page(model, whole, group="land")


def test_nothing_of_a_label_is_code(page):
    found = Page(page)  # tags are closed as they were opened
    assert not any("onerror" in attributes for _, attributes in found.tags)
    for label in HOSTILE[:3]:
        assert label not in page and str(escape(label)) in page


def test_every_kind_is_shown(page, whole):
    text = Page(page).text
    assert "90 respondents answered 7 questions" in text and "are linear in Part of the country" in text
    shares = whole.background["party"].value_counts()
    for category, count in shares.items():
        assert f"{category} {count} " in text
    income, weight = whole.background["income"], whole.weight
    known = income.notna()
    mean = np.average(income[known], weights=weight[known])
    assert f"{known.sum()} {mean:.5g}" in text
    # Numbers have means in groups, categories have none.
    codes = {row["code"] or row["text"] for row in means_of(Page(page), 0)["rows"]}
    assert codes == {"income", *(f"q{k}" for k in range(5))}


def test_a_model_chooses_the_columns_itself(page, model, whole):
    plain = survey(answers(N), whole.background, schema=whole.schema, weight=whole.weight)
    assert pages.survey_page(model, plain, group="land") == page
    with pytest.raises(DataError, match="lacks the column 'party'"):
        lacking = survey(answers(N), whole.background.drop(columns="party"), schema=whole.schema)
        pages.survey_page(model, lacking)


def test_gaps_of_a_plain_survey_of_the_same_people_are_another_model(whole):
    other = orbm.CumulativeRBM.binary(2, n_epochs=1, random_state=0).fit(whole.encoded)
    assert "Columns of other kinds" not in pages.survey_page(other, whole)


def test_numbers_in_short():
    values, weight = pd.Series([4.0, None, 1.0, 2.0, 3.0]), np.array([1.0, 9.0, 1.0, 1.0, 5.0])
    plain, weighted = summary_of(values, Label("x")), summary_of(values, Label("x"), weight)
    known = values.dropna()
    assert (plain.n_answered, plain.mean) == (4, 2.5)
    assert plain.deviation == pytest.approx(known.std())
    assert plain.quantiles == (1.0, 1.0, 2.0, 3.0, 4.0)
    assert weighted.mean == pytest.approx(22 / 8) and weighted.quantiles == (1.0, 2.0, 3.0, 3.0, 4.0)
