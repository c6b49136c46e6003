"""The page to explore, in a real browser: what it shows is what Python says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from browser import AVAILABLE, Browser
from served import client_of, file_of

import ordinalrbm as orbm
from ordinalrbm.serve import ServedModel
from ordinalrbm.serve.workers import listen

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="needs chromium and chromedriver")


@contextmanager
def address_of(*served: ServedModel) -> Iterator[str]:
    with listen("127.0.0.1", 0) as where:
        app = client_of(*served).app
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [where]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{where.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Enough of both that lists change with ratings, and a title that is no markup."""
    users, items = [k // 20 for k in range(400)], [k % 20 for k in range(400)]
    kept = [k for k in range(400) if (7 * users[k] + 3 * items[k]) % 5 < 3]
    likes = [1 + 4 * ((users[k] + items[k]) % 2) for k in kept]
    path = tmp_path_factory.mktemp("served") / "films.orbm"
    model = orbm.OrdinalMF(3, n_epochs=8, random_state=0, demand_factors=4)
    model.fit(([users[k] for k in kept], [items[k] for k in kept], likes)).save(path)
    return path


def lists(browser):
    browser.run("window.lines = [...document.querySelectorAll('#list > li .row > span:first-child')]")
    return browser.run("return window.lines.map((line) => line.textContent.trim())")


def search(browser, what, text):
    browser.run(f"document.querySelector('#{what}').value = '{text}'")
    browser.run(f"document.querySelector('#f-{what} button').click()")


def rate(browser, name, label):
    browser.run(
        "const lines = [...document.querySelectorAll('#items li')];"
        "const line = lines.find((e) => e.textContent.includes(arguments[0]));"
        "const choice = line.querySelector('select');"
        "choice.value = [...choice.options].find((o) => o.textContent === arguments[1]).value;"
        "choice.dispatchEvent(new Event('change'));",
        name,
        label,
    )


def test_a_new_person_rates_and_the_list_changes_as_python_says(films):
    titles = {str(k): f"Film {chr(65 + k)} <b>&amp;</b>" for k in range(20)}
    model = orbm.load(films)
    with address_of(ServedModel("films", films, titles)) as url, Browser(390, 844) as browser:
        browser.open(url)
        browser.wait_for("document.querySelectorAll('#list > li').length === 10")
        expected = model.recommend(-1, 10)["item"]
        assert [one.split(" <")[0] for one in lists(browser)] == [
            titles[str(k)].split(" <")[0] for k in expected
        ]
        search(browser, "item", "film c")
        browser.wait_for("document.querySelectorAll('#items li').length === 1")
        rate(browser, "Film C", "5")
        browser.wait_for("document.querySelector('#status').textContent.includes('by 1 rated')")
        found = model.recommend(ratings=([-1], [2], [5]), n=10)
        assert [one.split(" <")[0] for one in lists(browser)] == [
            titles[str(k)].split(" <")[0] for k in found["item"]
        ]
        # From here on by keyboard: Tab to "Why?" of the first, Enter.
        browser.run("document.querySelector('#list select').focus()")
        browser.press("Tab", 9)
        assert browser.run("return document.activeElement.textContent") == "Why?"
        browser.press("Enter", 13)
        browser.wait_for("document.querySelector('.reasons li') !== null")
        first = int(found["item"][0])
        reasons = model.fold_in(([-1], [2], [5])).explain(-1, first)
        text = browser.run("return document.querySelector('.reasons').textContent")
        assert f"A rating of {reasons.expected:.2f} is expected" in text
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        assert browser.run("return document.querySelectorAll('main b').length") == 0
        assert browser.barriers() == []
        browser.run("document.querySelector('#rated button').click()")
        browser.wait_for("document.querySelector('#status').textContent.endsWith('a new person.')")
        assert not browser.errors()


def test_a_user_is_found_and_shown(films):
    model = orbm.load(films)
    with address_of(ServedModel("films", films)) as url, Browser() as browser:
        browser.open(url)
        browser.wait_for("document.querySelectorAll('#list > li').length === 10")
        search(browser, "user", "13")
        browser.wait_for("document.querySelectorAll('#users button').length === 1")
        browser.run("document.querySelector('#users button').click()")
        browser.wait_for("document.querySelector('#status').textContent.includes('user 13')")
        wanted = model.recommend(13, 10)
        assert [int(one.split()[0]) for one in lists(browser)] == wanted["item"].tolist()
        assert browser.run("return document.activeElement.id") == "h-list"
        assert browser.barriers() == []
        assert not browser.errors()


def test_questions_are_asked_and_the_rest_is_expected(tmp_path):
    path = file_of("vector", tmp_path)
    model = orbm.load(path)
    with address_of(ServedModel("people", path)) as url, Browser(390, 844) as browser:
        browser.open(url)
        browser.wait_for("document.querySelector('#next legend') !== null")
        first = model.ask()["question"][0]
        assert browser.run("return document.querySelector('#next legend').textContent") == first
        j = list(model.feature_names_in_).index(first)
        browser.run(
            "document.querySelector('#answer-0').click(); document.querySelector('#next button').click()"
        )
        browser.wait_for("document.querySelector('#status').textContent.startsWith('1 of')")
        answers = {first: model.scales_[j].labels[0]}
        assert (
            browser.run("return document.querySelector('#next legend').textContent")
            == model.ask(answers)["question"][0]
        )
        shown = browser.run(
            "return [...document.querySelectorAll('#questions small')].map((e) => e.textContent)"
        )
        assert browser.barriers() == []
        assert shown[j] == "answered" and sum(one.startswith("expected") for one in shown) == 3
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        for n in range(2, 5):
            browser.run(
                "document.querySelector('#answer-0').click(); document.querySelector('#next button').click()"
            )
            browser.wait_for(f"document.querySelector('#status').textContent.startsWith('{n} of')")
        assert (
            browser.run("return document.querySelector('#next').textContent") == "All questions are answered."
        )
        assert not browser.errors()
