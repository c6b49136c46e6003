"""The page of columns: its counts, what is doubtful, labels that would do harm, a narrow screen."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from browser import AVAILABLE, Browser
from small_pages import HOSTILE, Page

from ordinalrbm import pages
from ordinalrbm.files.formats import from_frame
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import Column, Schema
from ordinalrbm.schema.source import Source

FRAME = pd.DataFrame({"q": [1, 1, 2, 3, 9, None] * 5, "town": ["Ulm", "Rom", "Ulm", "Bonn", "", "Ulm"] * 5})
SCHEMA = Schema(
    (
        Column(
            "q",
            "ordinal",
            "How often?",
            (1, 2, 3, 4),
            ("never", "rarely", "often", "always"),
            (9,),
            ("Refused",),
            "known answers",
        ),
        Column("town", "nominal", reason="text", confidence=0.5),
    )
)
ROWS = """
return [...document.querySelectorAll('.column')].map((one) => [
  one.querySelector('h3').textContent.split(' ')[0],
  [...one.querySelectorAll('tbody tr')].map(
    (row) => [...row.cells].map((cell) => cell.textContent.trim())),
]);
"""


def hostile_source() -> tuple[Source, Schema]:
    names = [f"{k} {text}" for k, text in enumerate(HOSTILE)]
    source = from_frame(pd.DataFrame({name: HOSTILE * 3 for name in names}), HOSTILE[1])
    columns = [
        Column(
            name,
            "ordinal",
            HOSTILE[2],
            tuple(HOSTILE[:4]),
            tuple(HOSTILE[:4]),
            tuple(HOSTILE[4:]),
            tuple(HOSTILE[4:]),
            HOSTILE[0],
            confidence=0.5,
        )
        for name in names
    ]
    return source, Schema(tuple(columns))


def test_hostile_labels_stay_text() -> None:
    read = Page(pages.schema_page(*hostile_source()))
    assert not read.open
    assert "img" not in {tag for tag, _ in read.tags}
    assert sum(tag == "h1" for tag, _ in read.tags) == 1


def test_any_column_has_a_place() -> None:
    frame = pd.DataFrame({"list": [[1], [2]], "empty": [None, None], "many": ["a", "b"]})
    frame = pd.concat([frame] * 40, ignore_index=True)
    frame["many"] = [f"town {k}" for k in range(80)]
    source = from_frame(frame)
    page = pages.schema_page(source, propose(source))
    assert all(f">{name} " in page for name in frame)
    listed = pages.schema_page(source, Schema((Column("many", "nominal"),)))
    assert "… and 55 more." in listed


@pytest.mark.skipif(not AVAILABLE, reason="chromium and chromedriver are not there")
def test_page_in_a_browser(tmp_path: Path) -> None:
    path, hostile = tmp_path / "columns.html", tmp_path / "hostile.html"
    path.write_text(pages.schema_page(from_frame(FRAME, "Pupils"), SCHEMA), encoding="utf-8")
    hostile.write_text(pages.schema_page(*hostile_source()), encoding="utf-8")
    with Browser() as browser:
        browser.open(path)
        (first, towns), (second, answers) = browser.run(ROWS)
        assert (first, second) == ("town", "q")
        assert towns == [["", "Ulm", "15"], ["", "Rom", "5"], ["", "Bonn", "5"]]
        assert [row[-1] for row in answers] == ["10", "5", "5", "0", "5"]
        assert answers[-1][:2] == ["9", "Refused (no answer: refused)"]
        for page in (path, hostile):
            browser.resize(390, 800)
            browser.open(page)
            assert browser.run("return document.documentElement.scrollWidth") <= 390
        assert browser.run("return document.images.length") == 0
        assert browser.errors() == []
