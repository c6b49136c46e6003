"""Pages in a real browser: what they show, and what happens on a click."""

from __future__ import annotations

import numpy as np
import pytest
from browser import AVAILABLE, Browser
from small_pages import (
    HOSTILE,
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

from ordinalrbm import pages
from ordinalrbm.pages import points

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="chromium and chromedriver are not there")

READY = "document.querySelector('[data-map]').dataset.told"
# How many pixels of the map are not white, and how many colours there are.
INK = """
const canvas = document.querySelector('.map canvas');
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let ink = 0; const colours = new Set();
for (let i = 0; i < data.length; i += 4) {
  const colour = data[i] * 65536 + data[i + 1] * 256 + data[i + 2];
  if (colour !== 16777215) { ink++; colours.add(colour); }
}
return [ink, colours.size];
"""
SOMEBODY = """
const canvas = document.querySelector('.map canvas');
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
for (let i = 0; i < data.length; i += 4) {
  if (data[i] + data[i + 1] + data[i + 2] < 600) {
    return [(i / 4) % canvas.width, Math.floor(i / 4 / canvas.width)];
  }
}
"""
PLACE = """
const place = document.querySelector('.map canvas').getBoundingClientRect();
return [place.left, place.top, place.width, place.height];
"""


def to_map(browser: Browser) -> list[float]:
    browser.run("document.querySelector('.map').scrollIntoView({behavior: 'instant'})")
    return browser.run(PLACE)


def settled(browser: Browser) -> None:
    """Wait for two frames: what was asked for is drawn then."""
    browser.run(
        "window.drawn = 0;requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = 1; }))"
    )
    browser.wait_for("window.drawn")


def colour_by(browser: Browser, name: str) -> None:
    browser.run(
        """
        const select = document.querySelector('.map-by');
        const wanted = [...select.options].find((o) => o.textContent.startsWith(arguments[0]));
        select.value = wanted.value;
        select.dispatchEvent(new Event('change'));
        """,
        name,
    )


def hover_somebody(browser: Browser) -> str:
    """Move the pointer to a coloured pixel of the map; what is told then."""
    left, top, *_ = to_map(browser)
    settled(browser)
    x, y = browser.run(SOMEBODY)
    browser.mouse("mouseMoved", left + x, top + y)
    browser.wait_for("!document.querySelector('.map-tip').hidden")
    return browser.run("return document.querySelector('.map-tip').textContent")


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    whole = survey(background=background())
    rest, held_out = with_hidden(whole)
    path = tmp_path_factory.mktemp("pages") / "usual.html"
    path.write_text(pages.survey_page(fitted(rest), whole, held_out=held_out), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, usual):
    browser.open(usual)
    browser.wait_for(READY)
    colour_by(browser, "country")
    browser.wait_for("document.querySelector('.map-legend').textContent.includes('east')")
    settled(browser)
    yield browser
    assert browser.errors() == []


def test_the_map_is_drawn_and_can_be_coloured(opened):
    ink, _ = opened.run(INK)
    assert ink > 200
    entries = "return [...document.querySelectorAll('.map-legend span')].map((e) => e.textContent)"
    assert opened.run(entries) == ["east", "north", "south"]
    before = opened.run("return document.querySelector('.map canvas').toDataURL()")
    colour_by(opened, "q1")
    opened.wait_for("document.querySelector('.map-legend').textContent.includes('never')")
    settled(opened)
    assert opened.run("return document.querySelector('.map canvas').toDataURL()") != before
    colour_by(opened, "Factor")
    opened.wait_for("document.querySelector('.map-legend').textContent.includes(' to ')")


GREY = """
const canvas = document.querySelector('.map canvas');
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let grey = 0;
for (let i = 0; i < data.length; i += 4) {
  grey += data[i] === 226 && data[i + 1] === 226 && data[i + 2] === 226;
}
return grey;
"""


def test_the_legend_highlights_by_click_and_by_key(opened):
    settled(opened)
    assert opened.run(GREY) == 0
    opened.run("document.querySelector('.map-legend button').click()")
    settled(opened)
    one_shown = opened.run(GREY)
    assert one_shown > 0
    opened.run("document.querySelectorAll('.map-legend button')[1].focus()")
    opened.press("Enter", 13)
    settled(opened)
    assert 0 < opened.run(GREY) < one_shown
    pressed = "return [...document.querySelectorAll('.map-legend button')].map((b) => b.ariaPressed)"
    assert opened.run(pressed) == ["true", "true", "false"]
    opened.run("for (const one of [0, 1]) document.querySelectorAll('.map-legend button')[one].click()")
    settled(opened)
    assert opened.run(GREY) == 0


def test_pointing_at_somebody_tells_who_it_is(opened):
    told = hover_somebody(opened)
    assert told.startswith("Row ")
    assert "country: " in told
    assert "age: " in told


def test_wheel_drag_buttons_and_keys_move_the_map(opened):
    left, top, width, height = to_map(opened)
    picture = "return document.querySelector('.map canvas').toDataURL()"

    def changed(act) -> bool:
        before = opened.run(picture)
        act()
        settled(opened)
        return opened.run(picture) != before

    middle = (left + width / 2, top + height / 2)
    start = opened.run(picture)
    assert changed(lambda: opened.mouse("mouseWheel", *middle, deltaX=0, deltaY=-200))

    def drag():
        opened.mouse("mousePressed", *middle, button="left", clickCount=1)
        opened.mouse("mouseMoved", middle[0] + 60, middle[1] + 40, button="left", buttons=1)
        opened.mouse("mouseReleased", middle[0] + 60, middle[1] + 40, button="left")

    assert changed(drag)
    assert changed(lambda: opened.run("document.querySelector('.map-in').click()"))
    opened.run("document.querySelector('.map canvas').focus()")
    assert changed(lambda: opened.press("ArrowLeft", 37))
    opened.mouse("mouseMoved", 1, 1)
    opened.run("document.querySelector('.map-reset').click()")
    settled(opened)
    assert opened.run(picture) == start


def test_tables_can_be_sorted_and_questions_found(opened):
    numbers = (
        "return [...document.querySelectorAll('#hidden tbody tr')]"
        ".map((r) => Number(r.cells[1].dataset.value))"
    )
    opened.run("document.querySelectorAll('#hidden th button')[1].click()")
    down = opened.run(numbers)
    assert down == sorted(down, reverse=True)
    opened.run("document.querySelectorAll('#hidden th button')[1].click()")
    assert opened.run(numbers) == sorted(down)
    opened.run(
        "document.querySelector('#groups .pair-table').open = true;"
        "document.querySelector('.pair-table').dispatchEvent(new Event('toggle'));"
        "const f = document.querySelector('#groups .finder'); f.value = 'Q3';"
        "f.dispatchEvent(new Event('input'))"
    )
    shown = "return [...document.querySelectorAll('#means-0-body tr')].filter((r) => !r.hidden).length"
    assert opened.run(shown) == 1


def test_folded_questions_are_found(browser, tmp_path):
    whole = survey(answers(60, 14))
    path = tmp_path / "long.html"
    path.write_text(pages.survey_page(fitted(whole), whole), encoding="utf-8")
    browser.open(path)
    browser.wait_for(READY)
    shown = (
        "return [...document.querySelectorAll('.frequency')].filter((f) => f.checkVisibility())"
        ".map((f) => f.dataset.name)"
    )
    before = browser.run(shown)
    assert len(before) == 8
    (hidden, *_) = sorted({f"q{k}" for k in range(10)} - set(before))
    find = (
        "const f = document.querySelector('[data-questions]');"
        "f.value = arguments[0]; f.dispatchEvent(new Event('input'))"
    )
    browser.run(find, hidden.upper())
    assert hidden in browser.run(shown) and len(browser.run(shown)) < 8
    browser.run(find, "")
    assert browser.run(shown) == before
    browser.run("document.querySelector('.frequency summary').click()")
    assert browser.run("return document.querySelectorAll('.frequency[open] .bars tbody tr').length") >= 5
    assert browser.errors() == []


def test_figures_can_be_saved(opened):
    opened.run(
        "window.saved = [];"
        "for (const one of document.querySelectorAll('#appendix > details')) one.open = true;"
        "HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };"
        "document.querySelector('#learning .save').click();"
        "document.querySelector('#factors .save').click();"
    )
    assert opened.run("return window.saved") == ["learning-curve.svg", "item-curves.svg"]


def test_other_groups_can_be_chosen(opened):
    visible = (
        "return [...document.querySelectorAll('[data-group]')].filter((g) => g.offsetParent)"
        ".map((g) => g.querySelector('h3').textContent)"
    )
    before = opened.run(visible)
    opened.run(
        "const s = document.querySelector('.chooser'); s.value = '1';s.dispatchEvent(new Event('change'))"
    )
    assert len(before) == len(opened.run(visible)) == 1
    assert opened.run(visible) != before


def test_many_groups_have_colours_of_their_own(browser, tmp_path):
    people = background().assign(country=[f"country {k % 12:02}" for k in range(60)])
    whole = survey(background=people)
    path = tmp_path / "countries.html"
    path.write_text(pages.survey_page(fitted(whole), whole), encoding="utf-8")
    browser.open(path)
    browser.wait_for(READY)
    colour_by(browser, "country")
    browser.wait_for("document.querySelector('.map-legend').textContent.includes('country')")
    colours = browser.run(
        "return [...document.querySelectorAll('.map-legend i')].map((i) => i.style.background)"
    )
    assert len(set(colours)) == 12
    assert browser.errors() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_unwieldy_labels_stay_inside(browser, tmp_path, width):
    whole = unwieldy_survey()
    path = tmp_path / "unwieldy.html"
    path.write_text(pages.survey_page(fitted(whole), whole), encoding="utf-8")
    browser.open(path)
    browser.wait_for(READY)
    browser.resize(width, 900)
    settled(browser)
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    # Text is cut where something is wider than its box and cannot be scrolled.
    cut = browser.run(
        """
        const out = [];
        for (const one of document.querySelectorAll('main *')) {
          const style = getComputedStyle(one);
          if (one.closest('svg, .stack, .map-frame, select') || !one.offsetParent) continue;
          if (one.closest('.scroll')) continue;
          const box = one.getBoundingClientRect();
          if (box.width && box.right > window.innerWidth + 1) out.push(one.className + one.tagName);
          const hides = style.overflowX === 'hidden' && one.scrollWidth > one.clientWidth + 1;
          if (hides) out.push('hides ' + one.className);
        }
        return out;
        """
    )
    found = browser.run("return document.documentElement.scrollWidth")
    browser.resize(1280, 900)
    assert cut == []
    assert found <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_keeps_anybody_from_reading(opened, width):
    opened.resize(width, 900)
    # axe-core takes what is folded for visible, and judges its colours by what lies there.
    opened.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    settled(opened)
    assert opened.barriers() == []
    opened.resize(1280, 900)


def test_hostile_labels_run_nowhere(browser, tmp_path):
    whole = hostile_survey()
    path = tmp_path / "hostile.html"
    path.write_text(pages.survey_page(fitted(whole), whole), encoding="utf-8")
    browser.open(path)
    browser.wait_for(READY)
    assert "onerror=alert(1)" in hover_somebody(browser)
    names = browser.run("return [...document.querySelectorAll('option')].map((o) => o.textContent)")
    assert any(HOSTILE[0] in name for name in names)
    legend = browser.run("return document.querySelector('.map-legend').textContent")
    assert HOSTILE[0] in legend
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.title").endswith(": what 60 respondents answered")
    assert browser.errors() == []


def test_pages_of_ratings_work_alike(browser, tmp_path):
    path = tmp_path / "ratings.html"
    path.write_text(pages.ratings_page(rater(), test=ratings().iloc[1::2]), encoding="utf-8")
    browser.open(path)
    browser.wait_for(READY)
    assert "mean rating: " in hover_somebody(browser)
    browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert browser.barriers() == []
    assert browser.errors() == []


def test_many_people_do_not_freeze_the_page(browser, tmp_path, monkeypatch):
    n, rng = 10_500, np.random.default_rng(0)
    monkeypatch.setattr(points, "row_positions", lambda factors, **_: rng.normal(size=(len(factors), 2)))
    few = survey(answers(300, 12))
    whole = survey(np.resize(few.answers.apply(lambda c: c.cat.codes).to_numpy(), (n, 12)), background(n))
    path = tmp_path / "many.html"
    path.write_text(pages.survey_page(fitted(few, n_epochs=1), whole), encoding="utf-8")
    browser.open(path)
    browser.wait_for(READY)
    settled(browser)
    ink, colours = browser.run(INK)
    assert ink > 10_000
    assert colours > 2
    assert "10,000 people, drawn at random, are shown, and 500 are left out." in browser.run(
        "return document.getElementById('map').textContent"
    )
    colour_by(browser, "Factor")
    browser.wait_for("document.querySelector('.map-legend').textContent.includes(' to ')")
    to_map(browser)
    browser.run("document.querySelector('.map-in').click()")
    settled(browser)
    assert hover_somebody(browser).startswith("Row ")
    assert browser.errors() == []
