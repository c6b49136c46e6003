"""The page of a long survey in a real browser: short before one opens anything, and alive."""

from __future__ import annotations

import base64
import re

import numpy as np
import pandas as pd
import pytest
from browser import AVAILABLE, Browser
from small_pages import answers, survey

import ordinalrbm as orbm
from ordinalrbm import pages
from ordinalrbm.schema.schema import Column, Schema

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="chromium and chromedriver are not there")

N, N_QUESTIONS = 60, 200
READY = (
    "document.querySelector('[data-map]').dataset.told"
    " && document.querySelector('[data-means]').dataset.ready"
)


def of_200_questions():
    """Questions with long texts; women agree more to the first of them."""
    level = answers(N, N_QUESTIONS, gaps=0.1)
    people = pd.DataFrame(
        {
            "club": ["chess", "tennis", "none"] * (N // 3),
            "gender": ["f", "m"] * (N // 2),
            "age": np.arange(N) % 60 + 18,
        }
    )
    level[::2, 0] = np.maximum(level[::2, 0], 2)
    level[1::2, 0] = np.minimum(level[1::2, 0], 1)  # gaps, below 0, stay gaps
    names = [f"q{k}" for k in range(N_QUESTIONS)]
    said = "How often, all in all, do you find yourself reading about subject number"
    columns = [Column(name, "ordinal", f"{said} {k} in the news?") for k, name in enumerate(names)]
    return survey(level, people, schema=Schema(tuple(columns)), title="reading_habits")


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture(scope="module")
def whole():
    return of_200_questions()


@pytest.fixture(scope="module")
def model(whole):
    settings = {"n_epochs": 1, "validation_fraction": 0, "random_state": 0}
    return orbm.CumulativeRBM(3, **settings).fit(whole.encoded)


@pytest.fixture(scope="module")
def path(whole, model, tmp_path_factory):
    file = tmp_path_factory.mktemp("pages") / "long.html"
    file.write_text(pages.survey_page(model, whole), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser, path):
    browser.resize(1280, 900)
    browser.open(path)
    browser.wait_for(READY)
    yield browser
    assert browser.errors() == []


def test_findings_come_first(opened):
    assert opened.run("return document.title") == "Reading habits: what 60 respondents answered"
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    assert opened.run(bottom, ".findings") < 900
    assert opened.run(bottom, "svg.heat") < 900
    found = opened.run("return [...document.querySelectorAll('.findings li')].map((e) => e.textContent)")
    assert 3 <= len(found) <= 5 and found[0].startswith("60 respondents answered 200 questions; 9")
    assert opened.run("return document.querySelectorAll('svg.heat text').length") == 40


def test_it_is_short_and_small(opened, path):
    assert opened.run("return document.documentElement.scrollHeight") <= 8 * 900
    assert path.stat().st_size <= 2_000_000


def test_it_prints_on_few_pages(opened):
    sheet = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
    pdf = base64.b64decode(opened.devtools("Page.printToPDF", **sheet)["data"])
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 15


@pytest.mark.parametrize("is_open", [False, True])
def test_nothing_sticks_out_on_a_phone(opened, is_open):
    opened.resize(390, 900)
    if is_open:
        opened.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert opened.run("return document.documentElement.scrollWidth") <= 390


def test_everything_has_a_name_and_can_be_reached(opened):
    unnamed = """
        return [...document.querySelectorAll('main svg[role=img], canvas, [role=img]')]
          .filter((one) => !one.getAttribute('aria-label')).length
        + [...document.querySelectorAll('main select, main input')].filter((one) => !one.labels.length).length
    """
    assert opened.run(unnamed) == 0
    opened.press("Tab", 9)
    assert opened.run("return document.activeElement.className") == "skip"
    opened.press("Enter", 13)
    opened.press("Tab", 9)
    assert opened.run("return document.activeElement.closest('#found') !== null")
    opened.run("document.querySelector('svg.heat').focus()")
    opened.press("ArrowRight", 39)
    assert re.search(
        r" and .*: r = −?\d\.\d\d$", opened.run("return document.querySelector('.heat-pair').textContent")
    )
    opened.run("document.querySelector('.map canvas').focus()")
    opened.press("Enter", 13)
    opened.wait_for("!document.querySelector('.map-tip').hidden")
    assert opened.run("return document.querySelector('.map-tip').textContent").startswith("Row ")


def test_demographics_come_first_and_two_groups_order_the_questions(opened):
    options = "return [...document.querySelector('.chooser').options].map((o) => o.textContent.split(' ')[0])"
    assert opened.run(options) == ["gender", "age", "club"]
    sizes = (
        "return [...document.querySelectorAll('[data-means=means-0] .interval')]"
        ".map((e) => Number(e.dataset.size))"
    )
    first = opened.run(sizes)
    assert len(first) == 8 and first[0] > 0.5
    assert [abs(x) for x in first] == sorted((abs(x) for x in first), reverse=True)
    name = "return document.querySelector('[data-means=means-0] .interval .code').textContent"
    assert opened.run(name) == "q0"
    choose = (
        "const s = document.querySelector(arguments[0]);"
        "s.value = arguments[1]; s.dispatchEvent(new Event('change'))"
    )
    opened.run(choose, ".chooser", "2")
    names = (
        "return [...document.querySelectorAll('[data-means=means-2] .interval .code')]"
        ".map((e) => e.textContent)"
    )
    before = opened.run(names)
    opened.run(choose, "[data-means=means-2] .pair-b", "2")
    assert opened.run(names) != before
    opened.run("document.querySelector('[data-means=means-2] .pair-all').click()")
    assert len(opened.run(names)) == 200
