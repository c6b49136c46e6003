"""Parquet files of ratings in parts: together these are the whole, and each reads only its own."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordinalrbm import DataError
from ordinalrbm.files.formats import read
from ordinalrbm.files.ratings import Layout, ParquetRatings, ratings_of


def write(path, users, ratings, row_group_size=None, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame({"userId": users, "Movie": np.arange(len(users)), "stars": ratings, **more})
    frame.to_parquet(path, row_group_size=row_group_size)


@pytest.fixture
def folder(tmp_path):
    """Files of unequal length and types, in folders that are columns, and one that is empty."""
    top = tmp_path / "films"
    write(top / "year=2020" / "a.parquet", list(range(20)), [1, 2] * 10, 6, comment="long " * 9)
    write(top / "year=2020" / "b.parquet", np.array([7], dtype=np.int32), [2.5])
    write(top / "year=2021" / "c.parquet", list(range(5, 9)), [3, 4, 5, 3], 2)
    write(top / "year=2021" / "d.parquet", np.array([], dtype=np.int64), [])
    return top


@pytest.mark.parametrize("size", [1, 2, 3, 4, 20])
def test_parts_together_are_the_whole(folder, size):
    ratings = ParquetRatings(folder)
    parts = [ratings.part(rank, size) for rank in range(size)]
    whole = ratings_of(read(folder))
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole)
    assert ratings.n_ratings == len(whole) == 25


@pytest.mark.parametrize("size", [2, 3])
def test_a_part_is_about_as_large_as_the_others(folder, size):
    """No row group here has more than 6 rows."""
    sizes = [len(ParquetRatings(folder).part(rank, size)) for rank in range(size)]
    assert max(sizes) - min(sizes) <= 6


@pytest.mark.parametrize("number", range(4))
def test_nobody_reads_the_row_groups_of_others(folder, number):
    """With a row group of zeros, only the process that it belongs to notices."""
    file, n_groups = folder / "year=2020" / "a.parquet", 7
    owners = [r for r in range(n_groups) if number in row_groups_of(folder, r, n_groups)]
    with pq.ParquetFile(file) as opened:
        chunk = opened.metadata.row_group(number).column(0)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(file.read_bytes())
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    file.write_bytes(content)
    ratings = ParquetRatings(folder)
    for rank in range(n_groups):
        if rank in owners:
            with pytest.raises(DataError, match="cannot be read"):
                ratings.part(rank, n_groups)
        else:
            ratings.part(rank, n_groups)
    assert len(owners) == 1


def row_groups_of(folder, rank, size):
    """Which row groups of the first file, of six rows each, a process reads."""
    films = ParquetRatings(folder).part(rank, size)
    return {movie // 6 for movie, user in zip(films["item"], films["user"], strict=True) if movie == user}


def test_a_folder_may_name_the_users(tmp_path):
    for user in ("ann", "bob"):
        file = tmp_path / f"user={user}" / "1.parquet"
        file.parent.mkdir()
        pd.DataFrame({"item": [1, 2], "rating": [3, 4]}).to_parquet(file)
    assert ParquetRatings(tmp_path).part(1, 2)["user"].tolist() == ["bob", "bob"]


def test_long_ids_stay_exact_beside_missing_ones(tmp_path):
    long = 2**53 + 1
    table = pa.table({"user": [long, None], "item": [1, 2], "rating": [3, 4]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert ParquetRatings(tmp_path / "a.parquet").part(0, 1)["user"][0] == long


def test_ids_that_are_text_in_one_file_and_numbers_in_another(tmp_path):
    write(tmp_path / "a.parquet", [1, 2], [3, 4])
    write(tmp_path / "b.parquet", ["x", "y"], [3, 4])
    with pytest.raises(DataError, match="cannot be read"):
        ParquetRatings(tmp_path)


def test_a_missing_column_is_named(tmp_path):
    pd.DataFrame({"user": [1], "item": [2]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="no column 'rating'"):
        ParquetRatings(tmp_path)


def test_only_parquet_files_have_parts(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("user,item,rating\n1,2,3\n")
    with pytest.raises(DataError, match="is no Parquet file"):
        ParquetRatings(file)


def test_parts_have_times_under_the_name_of_ours(tmp_path):
    write(tmp_path / "a.parquet", [1, 2], [3, 4], ratedAt=[5, 6])
    write(tmp_path / "b.parquet", [3], [4])
    ratings = ParquetRatings(tmp_path)
    assert ratings.part(0, 3).columns.tolist() == ["user", "item", "rating", "timestamp"]
    assert ratings.part(1, 2)["timestamp"].isna().all()


def test_times_are_clear_or_none(tmp_path):
    write(tmp_path / "a.parquet", [1, 2], [3, 4], ratedAt=[5, 6], date=[5, 6])
    assert ParquetRatings(tmp_path, Layout(needs_times=False)).part(0, 1).columns.size == 3
    with pytest.raises(DataError, match="could both be the timestamp of a rating"):
        ParquetRatings(tmp_path)


def test_a_column_that_is_said_to_be_the_rating_is_no_time(tmp_path):
    pd.DataFrame({"user": [1, 2], "item": [3, 4], "time": [1, 5]}).to_parquet(tmp_path / "a.parquet")
    layout = Layout(columns={"rating": "time"}, needs_times=False)
    part = ParquetRatings(tmp_path / "a.parquet", layout).part(0, 1)
    assert part.to_dict("list") == {"user": [1, 2], "item": [3, 4], "rating": [1, 5]}


def test_a_partition_may_stand_in_the_files_too(tmp_path):
    """As polars writes it, in another type than folders have; and row numbers of pandas are no column."""
    for year, rows in ((2020, [0, 2]), (2021, [1])):
        frame = pd.DataFrame({"user": rows, "stars": 1, "year": np.int64(year)}, index=np.array(rows) + 5)
        (tmp_path / f"year={year}").mkdir()
        frame.to_parquet(tmp_path / f"year={year}" / "part.parquet")
    found = read(tmp_path).frame
    assert found.columns.tolist() == ["user", "stars", "year"]
    assert found.sort_values("user")["year"].tolist() == [2020, 2021, 2020]


def test_a_file_without_rows_has_a_part(tmp_path):
    write(tmp_path / "none.parquet", np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    assert ParquetRatings(tmp_path / "none.parquet").part(0, 2).empty
