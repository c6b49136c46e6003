"""Frames of every library come in at one door and go out as they came."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import ordinalrbm as orbm
from ordinalrbm.data.features import read_features
from ordinalrbm.data.frames import as_frame
from ordinalrbm.data.ratings import read_ratings
from ordinalrbm.data.tables import as_table, decode, read_table

RNG = np.random.default_rng(0)
USER, ITEM = np.divmod(np.arange(120), 6)
RATINGS = pd.DataFrame({"user": [f"u{u}" for u in USER], "item": ITEM})
RATINGS["rating"] = RNG.integers(1, 6, len(RATINGS))
RATINGS["timestamp"] = RNG.permutation(len(RATINGS))

ANSWERS = pd.DataFrame({name: RNG.integers(1, 5, 60).astype(float) for name in "abc"})
ANSWERS.iloc[::7, 0] = np.nan
ANSWERS["word"] = pd.Categorical(
    [["never", "often"][k] for k in RNG.integers(0, 2, 60)], ["never", "sometimes", "often"], ordered=True
)
ANSWERS.loc[::9, "word"] = np.nan


def to_arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def to_polars(frame):
    """With an Enum, because polars has no order of other categoricals."""
    levels = {"word": pl.Enum(["never", "sometimes", "often"])} if "word" in frame else {}
    return pl.from_pandas(frame).cast(levels)


def to_duckdb(frame):
    connection = pytest.importorskip("duckdb").connect()
    if "word" not in frame:
        return connection.from_arrow(to_arrow(frame))
    connection.execute("CREATE TYPE levels AS ENUM ('never', 'sometimes', 'often')")
    relation = connection.from_arrow(to_arrow(frame.astype({"word": object})))
    return relation.project("a, b, c, CAST(word AS levels) AS word")


LIBRARIES = {
    "pandas": (lambda frame: frame, pd.DataFrame),
    "polars": (to_polars, pl.DataFrame),
    "lazy": (lambda frame: to_polars(frame).lazy(), pl.DataFrame),
    "arrow": (to_arrow, pa.Table),
    "duckdb": (to_duckdb, pa.Table),
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


def plain(frame):
    """What is in a frame, as lists."""
    found = as_frame(frame).to_pandas()
    return found.astype(object).where(found.notna(), None).to_numpy().tolist()


def test_ratings_in_and_lists_out(library):
    convert, kind = library
    settings = dict(n_factors=2, n_epochs=2, random_state=0)
    usual = orbm.OrdinalMF(**settings).fit(RATINGS)
    model = orbm.OrdinalMF(**settings).fit(convert(RATINGS))
    more = pd.DataFrame({"user": ["new", "new"], "item": [1, 2], "rating": [5, 1]})
    expected = usual.recommend(ratings=more, n=3)
    found = model.recommend(ratings=convert(more), n=3)
    assert isinstance(found, kind)
    assert plain(found) == plain(expected)
    np.testing.assert_array_equal(
        model.fold_in(convert(more)).predict("new", [0, 3]), usual.fold_in(more).predict("new", [0, 3])
    )


def test_times_and_features_are_read_alike(library):
    convert, _ = library
    one, other = read_ratings(RATINGS), read_ratings(convert(RATINGS))
    assert other.to_frame().equals(one.to_frame())
    np.testing.assert_array_equal(other.age, one.age)
    told = pd.DataFrame({"user": [3, 1, 2, 4] * 2, "job": ["cook", "cook", None, "smith"] * 2})
    told["user"] = np.arange(8)
    told["age"] = [20, 40, 60, 10, 30, 20, 40, 50]
    usual, found = read_features(told, "user"), read_features(convert(told), "user")
    assert found.coding == usual.coding
    assert (found.table != usual.table).nnz == 0


def test_surveys_in_and_completed_tables_out(library):
    convert, kind = library
    settings = dict(n_factors=2, n_epochs=2, random_state=0)
    usual = orbm.CumulativeRBM.binary(**settings).fit(ANSWERS)
    model = orbm.CumulativeRBM.binary(**settings).fit(convert(ANSWERS))
    assert model.scales_ == usual.scales_
    given = convert(ANSWERS)
    filled = model.impute(given)
    assert isinstance(filled, kind)
    assert plain(filled) == plain(usual.impute(ANSWERS))
    np.testing.assert_array_equal(model.transform(given), usual.transform(ANSWERS))
    stacked = model.impute(given, n_draws=2, parameters="fixed", stacked=True, random_state=0)
    assert isinstance(stacked, kind)
    assert as_frame(stacked).names == ["Imputation_", *ANSWERS.columns]
    assert as_frame(stacked).n_rows == 3 * len(ANSWERS)


def test_types_of_arrow_come_back():
    frame = pa.table(
        {
            "whole": pa.array([1, 2, None], pa.int8()),
            "flag": pa.array([True, None, False]),
            "enum": pa.DictionaryArray.from_arrays(
                pa.array([0, None, 2], pa.int8()), ["x", "y", "z"], ordered=True
            ),
        }
    )
    encoded = read_table(frame)
    assert [scale.labels for scale in encoded.scales] == [(1, 2), (False, True), ("x", "y", "z")]
    assert encoded.observations.to_dense().tolist() == [[0, 1, 0], [1, -1, -1], [-1, 0, 2]]
    back = decode(encoded.observations.to_dense(), encoded.scales, frame)
    assert back.to_pydict() == frame.to_pydict()
    assert back.schema.types[:2] == frame.schema.types[:2]


def test_an_arrow_dictionary_without_an_order_has_none():
    table = as_table(pa.table({"q": pa.array(["b", None, "a"]).dictionary_encode()}))
    values = table.column(0)
    assert list(values.categories) == ["a", "b"] and not values.ordered
    assert values.codes.tolist() == [1, -1, 0]


def test_lazy_frames_are_collected_once_per_call():
    times = []

    def count(frame):
        times.append(1)
        return frame

    lazy = pl.from_pandas(ANSWERS).lazy().map_batches(count)
    model = orbm.CumulativeRBM.binary(n_factors=2, n_epochs=1, random_state=0).fit(ANSWERS)
    model.impute(lazy)
    assert len(times) == 1


# ---- datasets -----------------------------------------------------------------------------------


def test_ratings_and_answers_in_a_dataset():
    settings = dict(n_factors=2, n_epochs=2, random_state=0)
    validation = RATINGS.iloc[::9]
    fitted = []
    for convert in (lambda frame: ds.dataset(to_arrow(frame)), lambda frame: frame):
        model = orbm.OrdinalMF(**settings)
        model.fit(convert(RATINGS), validation=convert(validation))
        answers = orbm.CumulativeRBM(**settings).fit(convert(ANSWERS.drop(columns="word")))
        fitted.append((model.history_["validation"].tolist(), answers.transform(ANSWERS[["a", "b", "c"]])))
    assert fitted[0][0] == fitted[1][0]
    assert np.array_equal(fitted[0][1], fitted[1][1])


def test_of_a_dataset_only_what_is_needed_is_read(tmp_path):
    wide = RATINGS.assign(year=2020 + np.arange(len(RATINGS)) % 2, note="n" * 99)
    pq.write_to_dataset(to_arrow(wide), tmp_path, partition_cols=["year"])
    data = ds.dataset(tmp_path, partitioning="hive").filter(pc.field("year") == 2021)
    names = []
    frame = as_frame(data, lambda found: names.extend(found) or ["user", "item"])
    assert frame.names == ["user", "item"] and frame.n_rows == len(RATINGS) // 2
    assert names == [*wide.columns.drop("year"), "year"]
    assert read_ratings(data).n_ratings == len(RATINGS) // 2
    lazy = pl.from_pandas(wide).lazy().with_columns(broken=pl.col("note").cast(pl.Int64))
    assert read_ratings(lazy).n_ratings == len(RATINGS)
