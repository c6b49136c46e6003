from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordinalrbm.errors import DataError
from ordinalrbm.schema.schema import ROLES, Column, Schema, from_json, to_json
from ordinalrbm.schema.toml import override, to_toml

CODES = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer()),
    st.text(max_size=8),
)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    codes = draw(st.lists(CODES, unique=True, min_size=2, max_size=8))
    names = draw(st.lists(st.text(max_size=8), unique=True, min_size=8, max_size=8))
    cut = draw(st.integers(2, len(codes)))
    return Column(
        name,
        draw(st.sampled_from(ROLES)),
        draw(st.text(max_size=30)),
        tuple(codes[:cut]),
        tuple(names[:cut]),
        tuple(codes[cut:]),
        tuple(names[cut : len(codes)]),
        draw(st.text(max_size=20)),
    )


SCHEMAS = st.lists(st.text(max_size=10), unique=True, min_size=1, max_size=4).flatmap(
    lambda names: st.tuples(*map(columns, names)).map(Schema)
)
NAMES = ("Strongly disagree", "Disagree", "Neither", "Agree", "Strongly agree")
LONG = tuple(letter * 30 for letter in "abcdefgh")
ODD = Schema(
    (
        Column("a.b c", "ordinal", 'Why "so"?\\\n', (1, 2.5), ("né\t", "'x'"), reason="two\nlines"),
        Column("", "background", "\x00\x1f\x7f\u2028", ("<script>",), ("</script>",)),
        Column("x" * 50, "ordinal", levels=tuple("abcdefgh"), names=LONG),
    )
)


def without_reasons(schema: Schema) -> list[Column]:
    return [replace(column, reason="", confidence=1.0) for column in schema.columns]


def read_again(schema: Schema) -> Schema:
    """What a file says of columns of which nothing else is known."""
    unknown = Schema(tuple(Column(column.name, "ignored") for column in schema.columns))
    return override(unknown, to_toml(schema))


@settings(max_examples=60, deadline=None)
@given(SCHEMAS)
def test_toml_round_trip(schema: Schema) -> None:
    assert without_reasons(read_again(schema)) == without_reasons(schema)
    assert override(schema, to_toml(schema)) == schema


@settings(max_examples=20, deadline=None)
@given(SCHEMAS)
def test_json_round_trip(schema: Schema) -> None:
    assert from_json(json.loads(json.dumps(to_json(schema)))) == schema


def test_odd_text_survives() -> None:
    assert without_reasons(read_again(ODD)) == without_reasons(ODD)
    assert from_json(to_json(ODD)) == ODD


PROPOSAL = Schema(
    (
        Column("Q1", "ordinal", "Like it?", (1, 2, 3), ("no", "so so", "yes"), (9,), ("DK",), "?"),
        Column("Q2", "ordinal", levels=("low", "high"), names=("low", "high")),
        Column("land", "background", levels=(1, 2), names=("AT", "DE")),
        Column("free", "background"),
    )
)


def test_what_is_not_mentioned_stays() -> None:
    changed = override(PROPOSAL, '[columns.land]\nrole = "ignored"', "File 's.toml'")
    assert changed.columns[:2] == PROPOSAL.columns[:2]
    assert (changed.column("land").role, changed.column("land").names) == ("ignored", ("AT", "DE"))
    assert changed.column("land").reason == "File 's.toml' says so"


def test_levels_and_missing_exclude_each_other() -> None:
    column = override(PROPOSAL, "columns.Q1 = {levels = [3, 2, 9]}").column("Q1")
    assert (column.levels, column.names, column.missing) == ((3, 2, 9), ("yes", "so so", "DK"), ())
    column = override(PROPOSAL, "columns.Q1.missing = [9, 1]").column("Q1")
    assert (column.levels, column.missing) == ((2, 3), (9, 1))
    assert column.missing_names == ("DK", "no")
    column = override(PROPOSAL, 'columns.land.role = "ordinal"').column("land")
    assert (column.role, column.levels) == ("ordinal", (1, 2))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[columns", "is not TOML"),
        ("columns = 3", "must have tables under columns"),
        ("columns.Q1 = 3", "says 3 of column 'Q1'"),
        ("[columns.q1]", r"column 'q1', which the data does not have \(did you mean 'Q1'\?\)"),
        ("[columns.Q1]\nrule = 'id'", r"'rule' is none of role, .* \(did you mean 'role'\?\)"),
        ("[columns.Q1.x]", "'x' is none of .* put names with dots in quotes"),
        ("[Q1]\nrole = 'id'", "has 'Q1' beside scales and columns; write"),
        ("scales = 3", "must have tables under scales"),
        ("columns.Q1.scale = 'ofen'\n[scales.often]\nlevels = [0, 1]", "no scale 'ofen' .*mean 'often'"),
        ("[scales.often]\nlevel = [0, 1]", "scale 'often': 'level' is none of levels, .*mean 'levels'"),
        ("columns.Q1.missing_sorts = ['refusal']", "missing_sorts 'refusal' is not known .*'refused'"),
        ("columns.Q1.missing_sorts = ['refused', 'refused']", "there are 2 missing_sorts for 1 codes"),
        ("[columns.Q1]\nrole = 'ordnal'", r"'ordnal' is not known \(did you mean 'ordinal'\?\)"),
        ("[columns.Q1]\nquestion = 1", "1 cannot stand in question; write text in quotes"),
        ("[columns.Q1]\nlevels = 1", "levels is 1; write a list"),
        ("[columns.Q1]\nlevels = [1, true]", "True cannot stand in levels; write numbers or text"),
        ("[columns.Q1]\nlevels = [1, nan]", "nan cannot stand in levels"),
        ("[columns.Q1]\nnames = [1, 2, 3]", "1 cannot stand in names; write text in quotes"),
        ("[columns.Q1]\nlevels = [1, 1]", "1 stands twice in levels"),
        ("[columns.Q1]\nlevels = [1, 2]\nmissing = [2]", "2 stands under levels and under missing"),
        ("[columns.Q1]\nnames = ['a']", "there are 1 names for 3 codes under levels"),
        ("[columns.Q1]\nlevels = [1]", "needs at least two levels"),
        ("[columns.Q2]\nlevels = ['lo', 'high']", r"'lo' is not in the data.*\(did you mean 'low'"),
        ("[columns.free]\nrole = 'ordinal'", "needs at least two levels; add levels"),
    ],
)
def test_bad_schemas(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        override(PROPOSAL, text, "File 's.toml'")
    assert str(caught.value).startswith("File 's.toml'") and str(caught.value).endswith(".")


def test_named_scales() -> None:
    text = """
[scales.often]
levels = ["no", 2, 3]
names = ["nie", "selten", "oft"]
missing = [9]
missing_sorts = ["refused"]
[columns]
Q1 = {scale = "often"}
"""
    column = override(PROPOSAL, text).column("Q1")
    assert column.levels == (1, 2, 3) and column.names == ("nie", "selten", "oft")
    assert column.sorts == {9: "refused"}


def test_a_changed_scale_changes_all_columns_that_share_it() -> None:
    labels = ("Never", "Rarely", "Often", "Correctly skipped")
    battery = [Column(f"Q4{letter}", "ordinal", "", (0, 1, 2, 7), labels) for letter in "AB"]
    text = to_toml(Schema(tuple(battery)))
    assert text.count("levels = [0, 1, 2, 7]") == 1
    text = text.replace("levels = [0, 1, 2, 7]", 'levels = [2, 1, 0]\nmissing = ["Correctly skipped"]')
    text = text.replace('["Never", "Rarely", "Often", "Correctly skipped"]', '["oft", "selten", "nie"]', 1)
    for column in override(Schema(tuple(battery)), text).columns:
        assert (column.levels, column.names) == ((2, 1, 0), ("oft", "selten", "nie"))
        assert column.sorts == {7: "not asked"} and column.confidence == 1


def test_what_columns_share_is_written_once() -> None:
    codes, names = tuple(range(300)), tuple(f"A district with number {k}" for k in range(300))
    many = [
        Column(f"v{k}", "ordinal", f"Question {k}", (1, 2, 3, 4, 5), NAMES, (8, 9), ("DK", "Ref"))
        for k in range(200)
    ]
    schema = Schema((*many, Column("district", "nominal", "District", codes, names)))
    text = to_toml(schema)
    assert without_reasons(read_again(schema)) == without_reasons(schema)
    assert len(text.splitlines()) < 200 + 2 * 300 + 30
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("content", [{}, {"columns": [{"nam": 1}]}, {"columns": 3}])
def test_damaged_json(content: dict) -> None:
    with pytest.raises(DataError, match="lacks a part of its schema"):
        from_json(content)
