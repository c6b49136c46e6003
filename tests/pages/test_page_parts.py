"""The small parts that pages are made of."""

from __future__ import annotations

from matplotlib.figure import Figure

from ordinalrbm.pages.page import Label, Table, as_json, as_svg, labels_of, shown, texts_of
from ordinalrbm.schema.schema import Column, Schema


def test_labels_of():
    assert labels_of(["q1", "q2"], {"q1": "Q1. Do you like tea?"}) == {
        "q1": Label(text="Do you like tea?", code="q1"),
        "q2": Label(text="q2", code=""),
    }


def test_texts_of():
    assert texts_of(Schema((Column("q1", "ordinal", question="Do you like tea?"),))) == {
        "q1": "Do you like tea?"
    }


def test_label_plain():
    assert (Label("Do you like tea?", "q1").plain, Label("q2").plain) == ("Do you like tea? (q1)", "q2")


def test_shown():
    assert (shown(0.0004, "p"), shown(0.03, "p"), shown(None, "d")) == ("< 0.001", "0.030", "–")


def test_as_json():
    assert str(as_json({"label": "</script>"})) == r"""{"label":"\u003c/script\u003e"}"""


def test_as_svg():
    figure = Figure()
    _ = figure.text(0.5, 0.5, "<b>")
    assert "&lt;b&gt;" in as_svg(figure, "one")


def test_table_cell():
    assert Table(("gain",), [], ("+.1%",)).cell(0, -0.125) == "−12.5%"
