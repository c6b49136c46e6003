"""Published layouts, written small: what comes out, and what is said of bad files."""

import gzip
import random

import numpy as np
import pandas as pd
import pytest

from ordinalrbm.data.datasets import read_movielens, read_netflix
from ordinalrbm.errors import DataError

DAT = "1::1193::5::978300760\n1::661::3::978302109\n6040::3::4::956715569\n"
HEADER = "userId,movieId,rating,timestamp\n"
CSV = HEADER + "1,1193,5.0,978300760\n1,661,3.0,978302109\n6040,3,4.0,956715569\n"
TAB = "1\t1193\t5\t978300760\n1\t661\t3\t978302109\n6040\t3\t4\t956715569\n"
RATINGS = pd.DataFrame(
    {
        "user": np.array([1, 1, 6040], np.int32),
        "item": np.array([1193, 661, 3], np.int32),
        "rating": np.array([5, 3, 4], np.int8),
        "timestamp": np.array([978300760, 978302109, 956715569], np.int32),
    }
)

DATES = ["2005-09-06", "2004-02-29", "1999-12-31", "2000-01-01"]
NETFLIX = f"1:\n1488844,3,{DATES[0]}\n7,5,{DATES[1]}\n2:\n3:\n123456789,1,{DATES[2]}\n7,4,{DATES[3]}\n"
NETFLIX_RATINGS = pd.DataFrame(
    {
        "user": np.array([1488844, 7, 123456789, 7], np.int32),
        "item": np.array([1, 1, 3, 3], np.int32),
        "rating": np.array([3, 5, 1, 4], np.int8),
        "timestamp": np.array([pd.Timestamp(d).timestamp() for d in DATES]).astype(np.int32),
    }
)


def write(path, text, compressed=False):
    content = text.encode()
    path.write_bytes(gzip.compress(content) if compressed else content)
    return path


# ---- MovieLens --------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name, text", [("ratings.dat", DAT), ("ratings.csv", CSV), ("u.data", TAB)])
def test_movielens(tmp_path, name, text, compressed, newline):
    file = tmp_path / (f"{name}.gz" if compressed else name)
    write(file, text.replace("\n", newline), compressed)
    (tmp_path / "README").write_text("not this one")
    for path in (file, tmp_path, str(tmp_path)):
        pd.testing.assert_frame_equal(read_movielens(path), RATINGS)


def test_the_layout_is_seen_from_the_content(tmp_path):
    for text in (DAT, CSV, TAB, DAT.rstrip("\n")):
        pd.testing.assert_frame_equal(read_movielens(write(tmp_path / "anything", text)), RATINGS)


def test_half_stars_and_long_times(tmp_path):
    dat = read_movielens(write(tmp_path / "ratings.dat", "1::2::3.5::1\n1::3::4::4000000000\n"))
    assert dat.dtypes.astype(str).tolist() == ["int32", "int32", "float32", "int64"]
    assert dat["rating"].tolist() == [3.5, 4.0]
    assert dat["timestamp"].tolist() == [1, 4_000_000_000]
    no_time = read_movielens(write(tmp_path / "r.csv", "userId,movieId,rating\n1,2,0.5\n"))
    assert no_time.columns.tolist() == ["user", "item", "rating"]


BAD_LINES = {
    "text": (DAT, "1::x::3::978302109", "1::1193::5::978300760"),
    "one field less": (DAT, "1::661::3", "1::1193"),
    "one field more": (DAT, "1::661::3::978302109::7", "1::1193"),
    "nothing": (DAT, "1::::3::978302109", "1::1193"),
    "one colon": (DAT, "1:7:661::3::978302109", "1::1193"),
    "half text": (DAT, "1::661::3::978302109x", "1::1193"),
    "negative": (DAT, "-1::661::3::978302109", "1::1193"),
    "infinite": (DAT, "1::661::inf::978302109", "1::1193"),
    "large": (DAT, "3000000000::661::3::978302109", "1::1193"),
    "no time": (CSV, "1,661,3.0", "1,296,5.0,1147880044"),
    "five": (CSV, "1,661,3.0,978302109,1", "1,296,5.0"),
    "missing": (CSV, "1,661,,978302109", "1,296,5.0"),
    "quoted": (CSV, '"1",661,3.0,978302109', "1,296,5.0"),
    "half": (TAB, "1\t661\t3.5\t978302109", "196 242 3 881250949"),
    "large rating": (TAB, "1\t661\t300\t978302109", "196 242 3"),
    "other": (TAB, "1,661,3,978302109", "196 242 3"),
}


@pytest.mark.parametrize("case", BAD_LINES)
@pytest.mark.parametrize("compressed", [False, True])
def test_bad_lines_are_named(tmp_path, case, compressed):
    text, line, form = BAD_LINES[case]
    lines = text.splitlines()
    lines.insert(len(lines) - 1, line)
    file = write(tmp_path / "ratings.file", "\n".join(lines) + "\n", compressed)
    with pytest.raises(DataError) as refusal:
        read_movielens(file)
    message = str(refusal.value)
    assert message.startswith(f"File '{file}', line {len(lines) - 1}: {line!r} is not of the form")
    assert form in message
    assert message.endswith("; correct or remove the line, or give the file as it was published.")


def test_first_lines(tmp_path):
    with pytest.raises(DataError, match="line 1: 'user;item' begins none of MovieLens's layouts"):
        read_movielens(write(tmp_path / "a", "user;item\n1;2\n"))
    with pytest.raises(DataError, match=r"'.*c' holds no rating; give"):
        read_movielens(write(tmp_path / "c", HEADER))


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"'.*nowhere' does not exist; give .* ratings\.dat or"):
        read_movielens(tmp_path / "nowhere")
    (tmp_path / "movies.dat").write_text("1::Toy Story\n")
    message = r"holds no ratings\.dat or ratings\.csv or u\.data .* only \['movies\.dat'\]; give"
    with pytest.raises(DataError, match=message):
        read_movielens(tmp_path)
    with pytest.raises(DataError, match=r"holds no combined_data_\*\.txt or mv_\*\.txt"):
        read_netflix(tmp_path)
    with pytest.raises(DataError, match=r"does not exist; give .* combined_data"):
        read_netflix(tmp_path / "nowhere")


@pytest.mark.parametrize("reader, text", [(read_movielens, DAT), (read_netflix, NETFLIX)])
def test_broken_archives(tmp_path, reader, text):
    whole = gzip.compress(text.encode() * 50)
    file = tmp_path / "ratings.dat.gz"
    file.write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"'.*' cannot be read \(.*\); give it as it was published"):
        reader(file)


# ---- Netflix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_netflix_file(tmp_path, compressed, newline):
    file = tmp_path / ("combined_data_1.txt.gz" if compressed else "combined_data_1.txt")
    write(file, NETFLIX.replace("\n", newline), compressed)
    for path in (file, tmp_path):
        pd.testing.assert_frame_equal(read_netflix(path), NETFLIX_RATINGS)
    write(file, NETFLIX.rstrip("\n").replace("\n", newline), compressed)
    pd.testing.assert_frame_equal(read_netflix(file), NETFLIX_RATINGS)


def test_netflix_folder_in_the_order_of_numbers(tmp_path):
    for number in (10, 2, 1):
        text = f"{number}:\n{number}00,{number % 5 + 1},2001-01-01\n"
        write(tmp_path / f"combined_data_{number}.txt", text)
    assert read_netflix(tmp_path)["item"].tolist() == [1, 2, 10]


@pytest.mark.parametrize("below", ["", "training_set"])
def test_netflix_one_file_per_movie(tmp_path, below):
    folder = tmp_path / below
    folder.mkdir(exist_ok=True)
    write(folder / "mv_0000001.txt", f"1:\n1488844,3,{DATES[0]}\n7,5,{DATES[1]}\n")
    write(folder / "mv_0000002.txt", "2:\n")
    write(folder / "mv_0000003.txt.gz", f"3:\n123456789,1,{DATES[2]}\n7,4,{DATES[3]}", True)
    pd.testing.assert_frame_equal(read_netflix(tmp_path), NETFLIX_RATINGS)


def test_a_file_that_is_also_there_unpacked_is_read_once(tmp_path):
    write(tmp_path / "combined_data_1.txt", NETFLIX)
    write(tmp_path / "combined_data_1.txt.gz", NETFLIX, True)
    pd.testing.assert_frame_equal(read_netflix(tmp_path), NETFLIX_RATINGS)


def test_netflix_against_a_reading_line_by_line(tmp_path):
    rng = random.Random(0)
    lines, expected = [], []
    for movie in range(1, 40):
        lines.append(f"{movie}:")
        for _ in range(rng.randrange(60)):
            user, rating = rng.randrange(1, 10 ** rng.randrange(1, 10)), rng.randrange(1, 6)
            day = pd.Timestamp("1998-10-01") + pd.Timedelta(days=rng.randrange(2650))
            lines.append(f"{user},{rating},{day:%Y-%m-%d}")
            expected.append([user, movie, rating, int(day.timestamp())])
    file = write(tmp_path / "x", "\n".join(lines))
    assert read_netflix(file).values.tolist() == expected


@pytest.mark.parametrize(
    "line",
    [
        "1488844,3",
        "1488844,3,2005-09",
        "1488844,3,2005/09/06",
        "1488844,3,2005-09-06,1",
        "1488844,35,2005-09-06",
        "1488844,x,2005-09-06",
        "-1,3,2005-09-06",
        ",3,2005-09-06",
        "3",
        ":",
        "x:",
        "3000000000,3,2005-09-06",
        "7,3,2005-13-06",
        "7,3,2005-06-31",
        "7,3,1969-12-31",
    ],
)
@pytest.mark.parametrize("where", [1, 6])
def test_bad_netflix_lines_are_named(tmp_path, line, where):
    lines = NETFLIX.splitlines()
    lines.insert(where, line)
    file = write(tmp_path / "combined_data_1.txt", "\n".join(lines) + "\n")
    with pytest.raises(DataError) as refusal:
        read_netflix(tmp_path)
    message = str(refusal.value)
    assert message.startswith(f"File '{file}', line {where + 1}: {line!r} is not of the form 1488844")
    assert message.endswith("; correct or remove the line, or give the file as it was published.")


def test_netflix_files_that_begin_otherwise(tmp_path):
    with pytest.raises(DataError, match=r"line 1: '7,3,2005-02-20' is not .* 1: to begin a movie"):
        read_netflix(write(tmp_path / "x", "7,3,2005-02-20\n" + NETFLIX))
    with pytest.raises(DataError, match="holds no rating"):
        read_netflix(write(tmp_path / "x", ""))
    with pytest.raises(DataError, match="holds no rating"):
        read_netflix(write(tmp_path / "x", "1:\n"))
    (tmp_path / "junk").write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(DataError, match="line 1: "):
        read_netflix(tmp_path / "junk")


@pytest.mark.parametrize(
    "first", ["1,1193,5.0,978300760", "movieId,userId,rating,timestamp", "user,item,stars"]
)
def test_a_csv_file_must_begin_with_its_header(first, tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(CSV.replace(HEADER, f"{first}\n"))
    with pytest.raises(DataError, match=r"line 1: .* begins none of MovieLens's layouts"):
        read_movielens(path)
