"""Files at addresses and in archives at these, without a network: in memory, and of a server here."""

import http.server
import threading
import zipfile
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm import DataError
from ordinalrbm.files.formats import read
from ordinalrbm.files.ratings import ParquetRatings, read_rating_file
from ordinalrbm.files.writing import write_table
from ordinalrbm.runtime import places
from ordinalrbm.runtime.places import place, result_path
from ordinalrbm.serve import ServedModel

TABLE = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "rating": [3, 4, 5]})


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def zipped(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)


# ---- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "beside"),
    [
        ("s3://shop/in/a.csv", "a.csv", "s3://shop/in/a-x.html"),
        ("https://host:80/a.csv?versionId=3", "a.csv", "https://host:80/a-x.html"),
        ("zip://in/a.csv::s3://shop/all.zip", "a.csv", "s3://shop/a-x.html"),
        ("abfs://box@account.net/a.csv.gz", "a.csv.gz", "abfs://box@account.net/a-x.html"),
    ],
)
def test_names_of_addresses(text, name, beside, monkeypatch):
    monkeypatch.setattr(places.Address, "is_dir", lambda self: False)
    assert str(place(text)) == str(place(Path(text))) == text
    assert place(text).name == name
    assert str(result_path(place(text), "-x.html")) == beside


def test_paths_of_this_machine_stay_paths(folder):
    for path in ("a.csv", "a:b.csv", "C:/a.csv", folder / "s.xlsx"):
        assert type(place(path)) is type(Path()) and place(path) == Path(path)
    assert place(f"file://{folder}/a.csv") == folder / "a.csv"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.zst", "a.csv.gz", "a.xlsx", "a.parquet"])
def test_tables_there_and_back(memory, name):
    write_table(f"memory://box/{name}", TABLE)
    pd.testing.assert_frame_equal(read(f"memory://box/{name}").frame, TABLE)


def test_models_there_and_back(memory):
    model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(TABLE)
    model.save("memory://box/a.orbm")
    served = ServedModel("a", "memory://box/a.orbm")
    assert served.refresh() is None
    model.forget(users=[2]).save("memory://box/a.orbm")
    assert served.refresh() == "loaded" and len(served.service.model.users_) == 1
    memory.rm("/box/a.orbm")
    assert served.refresh() == "refused" and "does not exist" in served.error
    with pytest.raises(DataError, match=r"Checkpoints are kept on this machine"):
        orbm.OrdinalMF(2).fit(TABLE, checkpoint="memory://box/steps")


def test_folders_and_parts(memory, folder):
    for year in (2023, 2024):
        TABLE.assign(rating=year - 2020, text="x").to_parquet(folder / "a.parquet")
        memory.put(str(folder / "a.parquet"), f"/box/year={year}/a.parquet")
    assert read("memory://box").frame["year"].tolist() == [2023] * 3 + [2024] * 3
    assert ParquetRatings("memory://box").part(1, 2)["rating"].tolist() == [4] * 3
    chosen = read_rating_file("memory://box", where=[("year", "==", "2023"), ("item", "<", 8)])
    assert chosen.to_dict("list") == {"user": [1, 2], "item": [7, 7], "rating": [3, 3]}


# ---- rows and columns -------------------------------------------------------------------------


def test_only_what_is_wanted_is_read(folder):
    for year in ("2023", "2024"):
        (folder / "r" / f"year={year}").mkdir(parents=True)
        frame = pd.DataFrame({"userId": [1, 2], "movieId": [1, 1], "rating": [1, 2], "tags": ["", ""]})
        frame["time"] = pd.to_datetime([f"{year}-01-01", f"{year}-07-01"])
        frame.to_parquet(folder / "r" / f"year={year}" / "a.parquet")
    other = folder / "r" / "year=2023" / "a.parquet"
    content = bytearray(other.read_bytes())
    content[4:200] = bytes(196)  # its outline is whole
    other.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_rating_file("r")
    ratings = read_rating_file("r", where=[("year", ">", 2023), ("time", ">=", "2024-06-01")])
    assert ratings["user"].tolist() == [2] and ratings["rating"].tolist() == [2]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (("yaer", ">", 1), "no column 'yaer' .did you mean 'year'"),
        (("year", ">", "x"), "Column 'year' holds values of type int64, and where has 'x'"),
        (("year", "~", 1), "cannot be read"),
        (("year", ">", 3000), "has no rows"),
    ],
)
def test_wrong_conditions(folder, where, words):
    TABLE.assign(year=2024).to_parquet("a.parquet")
    with pytest.raises(DataError, match=words):
        read_rating_file("a.parquet", where=[where])
    TABLE.to_csv("a.csv")
    with pytest.raises(DataError, match=r"only those of Parquet files can"):
        read_rating_file("a.csv", where=[where])


# ---- archives ---------------------------------------------------------------------------------


def test_several_files_in_an_archive(folder):
    pytest.importorskip("fsspec")
    zipped("all.zip", a_csv=TABLE.to_csv(index=False), b_csv="x")
    pd.testing.assert_frame_equal(read("zip://a.csv::all.zip").frame, TABLE)
    with pytest.raises(DataError, match=r"'zip://c.csv::all.zip' does not exist"):
        read("zip://c.csv::all.zip")
    with pytest.raises(DataError, match=r"'zip://a.csv::all.zip' can only be read"):
        write_table("zip://a.csv::all.zip", TABLE)


@pytest.mark.parametrize("name", ["a.csv.zst", "a.tsv.gz"])
def test_what_is_not_packed_as_it_says(folder, name):
    Path(name).write_text("user,item,rating\n1,1,1\n")
    with pytest.raises(DataError, match=rf"'{name}' cannot be read \(.*is not .*\)"):
        read(name)


# ---- what is wrong ----------------------------------------------------------------------------


class _Server(http.server.SimpleHTTPRequestHandler):
    def send_head(self):
        if "secret" in self.path or "broken" in self.path:
            self.send_error(403 if "secret" in self.path else 500)
            return None
        return super().send_head()

    def log_message(self, *said):
        pass


@pytest.fixture
def site(folder):
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Server, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_files_of_a_web_server(site, folder):
    TABLE.to_csv("a.csv", index=False)
    Path("long.csv").write_text("user,item\n" + "1,2\n3,4\n" * 1_000_000)
    assert len(read(f"{site}/long.csv").frame) == 2_000_000, "this server sends whole files only"
    for name in ("a.csv", "a.csv?version=2"):
        pd.testing.assert_frame_equal(read(f"{site}/{name}").frame, TABLE)
    for name, words in {
        "none.csv": "does not exist",
        "secret.csv": "may not be read .403.*; check the credentials",
        "broken.csv": "cannot be read .500.*; check the address and the network",
    }.items():
        with pytest.raises(DataError, match=rf"'{site}/{name}' {words}"):
            read(f"{site}/{name}")
    with pytest.raises(DataError, match=r"'http.*/c.csv' can only be read; write elsewhere"):
        write_table(f"{site}/c.csv", TABLE)


def test_addresses_that_nobody_knows(monkeypatch):
    pytest.importorskip("fsspec")
    with pytest.raises(
        DataError, match=r"'s4://a/b.csv' is at an address of an unknown kind; begin it with s3://"
    ):
        read("s4://a/b.csv")
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(DataError, match=r"'s3://a/b.csv' needs .*; pip install 'ordinalrbm\[cloud\]', or"):
        read("s3://a/b.csv")
