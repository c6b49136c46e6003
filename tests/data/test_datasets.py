"""The embedded data against a plain reading of its file."""

import csv
from importlib import resources

import numpy as np

from ordinalrbm.data.datasets import load_food_world_cup
from ordinalrbm.data.scales import resolve_scales
from ordinalrbm.data.tables import as_table, encode

FOLDER = resources.files("ordinalrbm.data") / "embedded" / "food_world_cup"


def test_answers_are_those_of_the_file():
    answers = load_food_world_cup()
    with (FOLDER / "responses.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    cuisines = list(rows[0])[8:]
    assert list(answers.columns) == cuisines
    assert answers.index.name == "RespondentID"
    assert answers.index.tolist() == [int(row["RespondentID"]) for row in rows]
    expected = [[float(row[c]) if row[c] else np.nan for c in cuisines] for row in rows]
    np.testing.assert_array_equal(answers.to_numpy(), np.array(expected))


def test_shape_types_and_gaps():
    answers = load_food_world_cup()
    assert answers.shape == (1373, 40)
    assert set(answers.dtypes) == {np.dtype("float64")}
    assert set(np.unique(answers.to_numpy()[answers.notna().to_numpy()])) == {1, 2, 3, 4, 5}
    assert int(answers.notna().any(axis=1).sum()) == 1276


def test_background():
    answers, background = load_food_world_cup(background=True)
    assert background.shape == (1373, 7)
    assert background.index.equals(answers.index)
    assert next(iter(background.columns)) == "knowledge"
    assert set(background["interest"].dropna()) == {"Some", "A lot", "Not much", "Not at all"}
    assert load_food_world_cup().equals(answers)


def test_it_encodes():
    table = as_table(load_food_world_cup())
    scales = resolve_scales(map(table.read, range(table.n_columns)), table.names, None)
    assert {scale.labels for scale in scales} == {(1, 2, 3, 4, 5)}
    observations = encode(table, scales)
    assert observations.n_entries == 23_943
    assert round(observations.density, 2) == 0.44


def test_licence_lies_beside_the_data():
    assert "Creative Commons" in (FOLDER / "LICENSE-CC-BY-4.0.txt").read_text(encoding="utf-8")
    assert (FOLDER / "SOURCE_README.md").is_file()
