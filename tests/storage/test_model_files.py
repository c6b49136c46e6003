"""Model files: what is written is read, versions, and files of earlier releases."""

import json
import os

import numpy as np
import pytest
from stored_models import FEW, FILES, MAKERS, answers, file_of, parts, ratings, rewritten, said

import ordinalrbm as orbm
from ordinalrbm.storage import container, model_file

every_kind = pytest.mark.parametrize("kind", MAKERS)


# ---- files of released versions -----------------------------------------------------------------


def stored(kind):
    path = FILES / f"{kind}-{container.VERSION}.orbm"
    if not path.exists():
        pytest.skip(f"no file of this kind is stored yet: {path.name}")
    return path


@every_kind
def test_stored_files_load_for_ever(kind):
    model = orbm.load(stored(kind))
    assert all(np.isfinite(np.asarray(part, dtype=float)).all() for part in said(model))
    assert model.n_iter_ >= 2


@every_kind
def test_loading_and_saving_again_gives_the_same_bytes(kind, tmp_path):
    path = tmp_path / "ours.orbm"
    orbm.load(file_of(kind)).save(path)  # by this release
    orbm.load(path).save(tmp_path / "again.orbm")
    assert (tmp_path / "again.orbm").read_bytes() == path.read_bytes()
    arrays, of_old = (model_file.read(file)[0] for file in (path, file_of(kind)))
    # Gaussian factors had a spread, which calibration found.
    assert set(arrays) == {name for name in of_old if not name.endswith(".spread")}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, of_old[name], err_msg=name)


@every_kind
def test_how_a_model_was_run_is_not_in_its_file(kind, tmp_path):
    model, written = orbm.load(file_of(kind)), []
    for number, settings in enumerate([(None, False), (1, False), (2, True)]):
        model.set_params(n_jobs=settings[0], verbose=settings[1])
        model.save(tmp_path / f"{number}.orbm")
        written.append((tmp_path / f"{number}.orbm").read_bytes())
    assert written[0] == written[1] == written[2]
    again = orbm.load(tmp_path / "2.orbm")
    assert (again.n_jobs, again.verbose) == (None, False)


@pytest.mark.parametrize("kind", ["vector", "gaussian_mf"])
def test_equal_models_make_equal_files(kind, tmp_path):
    for name in ("one", "two"):
        MAKERS[kind]().save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_no_file_holds_a_time():
    for kind in MAKERS:
        arrays, header = model_file.read(file_of(kind))
        assert not [name for name in [*arrays, *header] if "seconds" in name or "date" in name]


# ---- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "10.0", 2, "2", "", None, [2, 0]])
def test_another_version_is_refused(version, tmp_path):
    path = tmp_path / "m.orbm"
    rewritten(file_of("vector"), path, lambda arrays, header: header.update(version=version, release="7.8"))
    with pytest.raises(orbm.DataError, match=r"reads version 2\.0; use .* it, ordinalrbm 7\.8, or fit again"):
        orbm.load(path)


def test_a_setting_that_is_missing_has_its_default(tmp_path):
    def older(arrays, header):
        del header["parameters"]["n_draws"]

    rewritten(file_of("vector"), tmp_path / "m.orbm", older)
    assert orbm.load(tmp_path / "m.orbm").n_draws == 100


# ---- the container ------------------------------------------------------------------------------


def test_arrays_of_all_types_survive(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        f"{kind}{shape}": rng.integers(0, 2, shape).astype(kind)
        for kind in container.TYPES.values()
        for shape in [(), (0,), (3,), (2, 0, 5), (2, 3, 4)]
    }
    arrays["turned"] = np.arange(12.0).reshape(3, 4).T
    arrays["big"] = np.arange(5, dtype=">i4")
    model_file.write(tmp_path / "a", arrays, {"text": 'ä "quoted" \\ \ud800', "none": None})
    again, header = model_file.read(tmp_path / "a")
    assert header["text"] == 'ä "quoted" \\ \ud800'
    assert set(again) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].shape == array.shape
        assert again[name].flags.writeable


def test_what_is_no_number_is_not_written(tmp_path):
    with pytest.raises(TypeError, match="files hold numbers only"):
        model_file.write(tmp_path / "a", {"x": np.array(["a"], dtype=object)}, {})
    assert list(tmp_path.iterdir()) == []


def test_how_a_file_begins():
    content = file_of("vector").read_bytes()
    front, _ = parts(content)
    assert next(iter(front)) == "__metadata__"
    assert list(front["__metadata__"]) == ["ordinalrbm"]
    header = json.loads(front["__metadata__"]["ordinalrbm"])
    assert list(header)[:4] == ["checksum", "format", "version", "release"]


def test_what_is_a_model(tmp_path):
    assert model_file.is_model(file_of("ordinal_mf"))
    (tmp_path / "text").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "text", tmp_path / "gone", tmp_path / "pipe", "\0"):
        assert not model_file.is_model(path)


def test_reading_takes_memory_once(tmp_path):
    """A model of 64 MB is read into 64 MB and a little."""
    import tracemalloc

    model_file.write(tmp_path / "large", {"x": np.zeros(2**23), "y": np.zeros(2**10)}, {})
    tracemalloc.start()
    try:
        arrays, _ = model_file.read(tmp_path / "large")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert arrays["x"].nbytes == 2**26
    assert most < 2**26 + 2**20


def test_a_glance_takes_hardly_any_memory(tmp_path):
    """However large a file is, its header and its history are small; nothing else is read."""
    import tracemalloc

    arrays = {"x": np.zeros(2**23), "history.validation": np.arange(3.0)}
    model_file.write(tmp_path / "large", arrays, {"model": "vector"})
    with (tmp_path / "large").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")  # damage that only reading it all would find
    tracemalloc.start()
    try:
        seen = model_file.glance(tmp_path / "large")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**20
    assert seen.shapes == {"x": (2**23,), "history.validation": (3,)}
    assert list(seen.arrays) == ["history.validation"]
    assert not seen.is_checkpoint
    with pytest.raises(orbm.DataError, match="damaged"):
        model_file.read(tmp_path / "large")


# ---- the order of the data ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: orbm.OrdinalMF(2, **FEW),
        lambda: orbm.GaussianMF(2, **FEW),
        lambda: orbm.MultinomialRBM(2, **FEW),
        lambda: orbm.MatrixCumulativeRBM(2, 2, batch_size=4, **FEW),
    ],
    ids=["ordinal_mf", "gaussian_mf", "multinomial_rbm", "matrix_crbm"],
)
def test_ratings_may_come_in_any_order(make, tmp_path):
    """As docs/index.md promises; it says of surveys that they may not."""
    table = ratings()
    make().fit(table).save(tmp_path / "one.orbm")
    make().fit(table.sample(frac=1.0, random_state=3)).save(tmp_path / "two.orbm")
    assert (tmp_path / "one.orbm").read_bytes() == (tmp_path / "two.orbm").read_bytes()


def test_the_order_of_a_survey_s_rows_is_data(tmp_path):
    table = answers()
    for name, rows in (("one", table), ("two", table.iloc[::-1]), ("three", table.copy())):
        orbm.CumulativeRBM(2, **FEW).fit(rows).save(tmp_path / name)
    one, two, three = ((tmp_path / name).read_bytes() for name in ("one", "two", "three"))
    assert one == three
    assert one != two
