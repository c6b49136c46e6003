"""Small surveys, ratings and models for pages, and a reader of pages."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import Encoded
from ordinalrbm.files.survey import LeftOut, Survey
from ordinalrbm.schema.schema import Column, Schema

LEVELS = ["never", "rarely", "sometimes", "often"]
HOSTILE = [
    "<script>alert(1)</script>",
    "</title><h1>x</h1>",
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}}",
    "&lt;b&gt; $x^2$ $\\frac",
    "\"' onmouseover=alert(1) \u2028\u2029 <!--",
]
# Labels that could break the layout: right to left (with an override), one endless word, much text.
UNWIELDY = [
    "\u202eכמה אתם סומכים על הממשלה? <b>",
    "W" * 400,
    "How much do you trust " + "the government of this country and " * 20 + "its parliament?",
]


def answers(n: int = 60, n_questions: int = 5, *, seed: int = 0, gaps: float = 0.1):
    """Two tastes, seen through four levels."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n, 2))
    pull = rng.normal(size=(2, n_questions))
    utility = taste @ pull + 0.5 * rng.normal(size=(n, n_questions))
    level = np.clip(np.digitize(utility, [-1, 0, 1]), 0, 3)
    level[rng.random(level.shape) < gaps] = -1
    return level


def survey(level=None, background=None, *, names=None, levels=LEVELS, title="Reading", **more):
    level = answers() if level is None else level
    names = names or [f"q{i}" for i in range(level.shape[1])]
    observations = Observations.from_dense(level, len(levels))
    encoded = Encoded(observations, [Scale(tuple(levels))] * len(names), list(names))
    if background is None:
        background = pd.DataFrame(index=range(len(level)))
    schema = more.pop("schema", Schema(tuple(Column(name, "ordinal") for name in names)))
    given = {"weight": None, "ids": None, "left_out": ()} | more
    return Survey(title, encoded, background, schema=schema, **given)


def background(n: int = 60) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "country": ["north", "south", "east"] * (n // 3),
            "age": np.arange(n) % 50 + 18,
            "school": pd.Categorical(["low", "high"] * (n // 2), ["low", "high"], ordered=True),
        }
    )


def fitted(of: Survey, **settings) -> orbm.CumulativeRBM:
    settings = {"n_factors": 3, "n_epochs": 2, "random_state": 0} | settings
    return orbm.CumulativeRBM.binary(**settings).fit(of.encoded)


def with_hidden(whole: Survey, share: float = 0.1):
    """The survey without some answers, and these."""
    shown, held_out = orbm.evaluate.hide_answers(whole.encoded, share)
    return replace(whole, encoded=shown), held_out


def hostile_survey() -> Survey:
    """Labels that would do harm if they were taken for anything but text, everywhere."""
    n = 60
    names = [f"{i} {HOSTILE[i % len(HOSTILE)]}" for i in range(5)]
    people = pd.DataFrame(
        {name: [HOSTILE[k % 3] for k in range(n)] for name in HOSTILE[:3]} | {HOSTILE[4]: np.arange(n)}
    )
    columns = [Column(name, "ordinal", question=HOSTILE[2]) for name in names]
    columns.append(
        Column(
            HOSTILE[0], "ignored", HOSTILE[1], missing=(9,), missing_names=(HOSTILE[2],), reason=HOSTILE[3]
        )
    )
    return survey(
        answers(n),
        people,
        names=names,
        levels=HOSTILE[:4],
        title=HOSTILE[1] + HOSTILE[2],
        ids=pd.Series([f"{HOSTILE[2]} {k}" for k in range(n)]),
        schema=Schema(tuple(columns)),
        left_out=(LeftOut(HOSTILE[0], HOSTILE[2], 3),),
    )


def unwieldy_survey() -> Survey:
    """Labels that do not fit anywhere."""
    names = [f"q{k}" for k in range(5)]
    columns = [Column(n, "ordinal", question=UNWIELDY[k % 3]) for k, n in enumerate(names)]
    people = pd.DataFrame({"group": [UNWIELDY[k % 3] for k in range(60)]})
    labels = [*UNWIELDY, "yes"]
    return survey(background=people, levels=labels, schema=Schema(tuple(columns)))


def ratings(n_users: int = 30, n_items: int = 12) -> pd.DataFrame:
    level = answers(n_users, n_items, seed=3, gaps=0.3)
    user, item = np.nonzero(level >= 0)
    return pd.DataFrame({"user": user, "item": item, "rating": level[user, item] + 1})


@cache
def rater() -> orbm.MatrixCumulativeRBM:
    return orbm.MatrixCumulativeRBM(2, 2, n_epochs=3, random_state=0).fit(ratings().iloc[::2])


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, and the text outside of scripts."""

    VOID = ("meta", "link", "img", "br", "input", "hr", "col")

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif not (self.open and self.open[-1] == "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if attributes.get("id")]

    def sections(self) -> list[str]:
        return [attributes["id"] for tag, attributes in self.tags if tag == "section"]


def means_of(page: Page, place: int) -> dict:
    """Mean answers in the groups of a page's variable, as its script reads them."""
    (packed,) = [text for attributes, text in page.scripts if attributes.get("id") == f"means-{place}"]
    return json.loads(zlib.decompress(base64.b64decode(json.loads(packed))))
