"""Data and models in an object store: S3, by a server on this machine."""

import pandas as pd
import pytest
from program import found, run_here, succeed_here

import ordinalrbm as orbm
from ordinalrbm.files.formats import read

s3fs = pytest.importorskip("s3fs")
servers = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def address():
    server = servers.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(address, monkeypatch):
    """A store with one empty bucket, named shop; found by variables, as in a cloud."""
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("shop")
    yield store
    store.invalidate_cache()
    store.rm("shop", recursive=True)


def test_from_ratings_to_lists_and_back(store, files):
    store.put(str(files / "ratings.csv"), "shop/in/ratings.csv")
    succeed_here("fit", "s3://shop/in/ratings.csv", "--epochs", 4, cwd=files)
    store.invalidate_cache()
    assert sorted(store.ls("shop/in")) == ["shop/in/ratings.csv", "shop/in/ratings.orbm"]
    model = "s3://shop/in/ratings.orbm"
    here = orbm.load(files / "films.orbm")
    there = orbm.load(model)
    ids = here.users_.labels[:3]
    pd.testing.assert_frame_equal(here.recommend(ids, n=3), there.recommend(ids, n=3))
    assert found("info", model, cwd=files)["users"] == 45
    succeed_here("recommend", model, "--users", "all", "-n", 2, "-o", "s3://shop/best.parquet", cwd=files)
    pd.testing.assert_frame_equal(read("s3://shop/best.parquet").frame, here.recommend("all", n=2))
    succeed_here("evaluate", "s3://shop/in/ratings.csv", "--epochs", 1, cwd=files)
    succeed_here("predict", model, "s3://shop/in/ratings.csv", "-o", "s3://shop/out.csv.gz", cwd=files)
    assert len(read("s3://shop/out.csv.gz").frame) == here.ratings_.n_ratings
    there.save("s3://shop/copy.orbm")
    assert store.cat("shop/copy.orbm") == store.cat("shop/in/ratings.orbm")
    there.forget(users=ids[:1]).save(model)
    assert len(orbm.load(model).users_) == 44, "a copy of the old file was loaded"


@pytest.mark.parametrize(
    ("data", "out", "words"),
    [
        ("s3://shop/none.csv", "a.orbm", "File 's3://shop/none.csv' does not exist; check the path."),
        ("s3://nowhere/none.csv", "a.orbm", "File 's3://nowhere/none.csv' does not exist; check the path."),
        ("ratings.csv", "s3://nowhere/a.orbm", "'nowhere' does not exist, where"),
        ("ratings.csv", "s3://shop", "'s3://shop' is a folder; give the name of a file in it."),
        ("gs://shop/a.csv", "a.orbm", "needs another package (Please install gcsfs"),
    ],
)
def test_what_is_wrong_is_one_sentence(store, files, data, out, words):
    refused = run_here("fit", data, "-o", out, cwd=files)
    assert refused.returncode == 2
    assert words in refused.stderr and refused.stderr.count("\n") == 1
    assert not (files / "a.orbm").exists() and not store.find("shop")


def test_without_credentials(address, files, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(files / "none"))
    s3fs.S3FileSystem.clear_instance_cache()
    refused = run_here("info", "s3://shop/a.orbm", cwd=files)
    assert refused.returncode == 2
    assert "may not be read (Unable to locate credentials); check the credentials." in refused.stderr


def test_what_cannot_be_sent_stays_here(store, files, monkeypatch):
    async def broken(*arguments, **more):
        raise OSError("the line is dead")

    model = orbm.load(files / "films.orbm")
    monkeypatch.setattr(s3fs.S3FileSystem, "_put_file", broken)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(orbm.DataError, match=r"cannot be written \(the line is dead\).*is in '.*'") as error:
        model.save("s3://shop/films.orbm")
    kept = str(error.value).split("'")[-2]
    assert len(orbm.load(kept).users_) == 45
    assert not store.find("shop")
