"""Proposals for columns in the wording of public questionnaires, against what they truly are.

The files of the corpus were written one after the other, each before the rules had seen it; what
they hold of each other's wording is chance. How many were right at first is in the changelog. No rule
was made for the last one, or changed after it was judged: it says how many columns of a new file are right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from corpus_columns import Truth, read_corpus, sources

from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import ROLES, Column

FILES = {  # and how many of their columns are read wrongly
    "first": 0,
    "second": 0,
    "third": 0,
    "fourth": 0,
    "fifth": 0,
    "sixth": 1,
    "seventh": 2,
    "eighth": 1,
    "ninth": 1,
    "tenth": 3,
    "eleventh": 4,
    "twelfth": 2,
    "thirteenth": 0,
    "fourteenth": 4,
    "fifteenth": 3,
    "sixteenth": 5,
    "seventeenth": 1,
    "eighteenth": 6,
    "nineteenth": 10,
}
NO_QUESTION = {"weight", "id"}


@cache
def corpus() -> tuple[Truth, ...]:
    return tuple(truth for name in FILES for truth in read_corpus(name))


@cache
def proposals(**change: str) -> tuple[tuple[Truth, Column], ...]:
    """What is proposed for all columns, with something of them changed."""
    truths = [replace(truth, **change) for truth in corpus()]
    schemas = {name: propose(source) for name, source in sources(truths).items()}
    return tuple((truth, schemas[truth.file].column(truth.name)) for truth in truths)


def mistakes(judged: Iterable[tuple[Truth, Column]]) -> list[str]:
    return [
        f"{truth.file} {truth.name}: {'; '.join(wrong)}"
        for truth, column in judged
        if (wrong := truth.mistakes(column))
    ]


def test_corpus_holds_what_it_should() -> None:
    kinds = {kind for truth in corpus() for kind in truth.kinds}
    assert kinds == {*ROLES}
    assert len(corpus()) >= 1500
    assert len({(truth.file, truth.name) for truth in corpus()}) == len(corpus())


@pytest.mark.parametrize("name", FILES)
def test_columns_are_taken_for_what_they_are(name: str) -> None:
    known = {truth.file for truth in read_corpus(name)}
    judged = [(truth, column) for truth, column in proposals() if truth.file in known]
    wrong = mistakes(judged)
    assert len(wrong) <= FILES[name], "\n".join(wrong)


def test_nearly_all_columns_are_right() -> None:
    wrong = mistakes(proposals())
    assert len(wrong) <= 0.023 * len(corpus()), "\n".join(wrong)


@pytest.mark.parametrize("measure", ["ordinal", "nominal"])
def test_measure_of_the_file_is_weak_evidence(measure: str) -> None:
    judged = proposals(measure=measure)
    wrong = mistakes(judged)
    assert len(wrong) <= 0.03 * len(judged), "\n".join(wrong)


def test_labels_tell_nearly_all_without_questions() -> None:
    # That a column tells of the interviewer or of the sample is said by its question alone.
    judged = [(truth, column) for truth, column in proposals(question="") if "fieldwork" not in truth.kinds]
    wrong = mistakes(judged)
    assert len(wrong) <= 0.052 * len(judged), "\n".join(wrong)


@pytest.mark.parametrize("change", [{}, {"measure": "ordinal"}, {"question": ""}])
def test_no_weight_and_no_id_is_ever_a_question(change: dict[str, str]) -> None:
    judged = proposals(**change)
    of_no_question = [(t, c) for t, c in judged if set(t.kinds) & NO_QUESTION]
    assert len(of_no_question) > 20
    assert [t.name for t, c in of_no_question if c.role == "ordinal"] == []


@pytest.mark.parametrize("measure", ["", "ordinal"])
def test_nothing_of_the_fieldwork_is_learnt(measure: str) -> None:
    judged = proposals(measure=measure) if measure else proposals()
    of_fieldwork = [(truth, column) for truth, column in judged if truth.kinds == ("fieldwork",)]
    assert len(of_fieldwork) > 60
    # "Interview by proxy" of the last file, for which no rule was made.
    assert [truth.name for truth, column in of_fieldwork if column.role == "ordinal"] == ["ADM_PRX"]


def test_doubt_is_where_mistakes_are() -> None:
    """Without questions there are mistakes; they are more frequent among doubtful columns."""
    judged = proposals(question="")
    doubtful = [bool(t.mistakes(c)) for t, c in judged if c.is_doubtful]
    sure = [bool(t.mistakes(c)) for t, c in judged if not c.is_doubtful]
    assert sum(doubtful) / len(doubtful) > 2 * sum(sure) / len(sure)
    assert len(doubtful) < 0.25 * len(judged)
