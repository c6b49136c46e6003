"""Multiple response sets of SPSS: read, and learnt from as ticks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from ordinalrbm.files.formats import read
from ordinalrbm.files.survey import apply
from ordinalrbm.schema.infer import propose

NAN = np.nan
# Names that have no stem in common, and only two ticks; the first is longer than eight letters.
TICKS = {"listens_to_radio": [1, NAN, 1, NAN, 1, NAN] * 9, "tv": [NAN, 1, 1, NAN, 1, 1] * 9}
MENTIONS = {"lang1": [1, 2, 3, 1, 2, 3] * 9, "lang2": [2, 1, NAN, NAN, 3, 1] * 9}
LABELS = {name: {1: "never", 2: "sometimes", 3: "often"} for name in (*MENTIONS, "q1")}
RECORD = "$media=D1 1 12 Média daily listens_ tv\n$lang=C 9 Languages lang1 lang2\n".encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the record as SPSS has it, before that of the long names."""
    table = pd.DataFrame({**TICKS, **MENTIONS, "q1": [1.0, 2, 3, NAN, 1, 2] * 9})
    target = tmp_path / "sets.sav"
    pyreadstat.write_sav(table, target, variable_value_labels=LABELS)
    content = target.read_bytes()
    long_names = np.array([7, 13, 1], "<i4").tobytes()
    record = np.array([7, 7, 1, len(RECORD)], "<i4").tobytes() + RECORD
    target.write_bytes(content.replace(long_names, record + long_names))
    return target


def test_ticks_of_a_set_are_yes_or_no_of_those_who_were_asked(path: Path) -> None:
    source = read(path)
    survey = apply(source, propose(source))
    assert list(survey.answers) == ["listens_to_radio", "tv", "q1"]
    radio = survey.answers["listens_to_radio"].cat.codes[:6]
    assert radio.tolist() == [1, 0, 1, -1, 1, 0]
    assert [column.role for column in propose(source).columns] == [
        "ordinal",
        "ordinal",
        "nominal",
        "nominal",
        "ordinal",
    ]
    assert "$lang" in propose(source).column("lang2").reason
