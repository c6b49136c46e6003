"""Hundreds of spoilt files: each is refused with one sentence or loads, and nothing crashes.

ORDINALRBM_LONG=1 runs thirty times as many.
"""

import gzip
import os
import re
import zipfile
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
from long_form import LONG, only_long
from mutations import DAMAGE, attempt, attempt_hostile, flipped
from safetensors.numpy import save_file
from stored_models import MAKERS, file_of, parts, rewritten, same, sealed

import ordinalrbm as orbm

N_EACH = 1000 if LONG else 30  # of damaged and of hostile files of each kind
MOST_MEMORY = 200.0  # MB

every_kind = pytest.mark.parametrize("kind", MAKERS)


@pytest.fixture(scope="module")
def elsewhere(another_process):
    """It has loaded a file of every kind before."""
    for kind in MAKERS:
        refusal, *_ = another_process.submit(attempt, file_of(kind)).result()
        assert refusal is None
    return another_process


def assert_is_a_sentence(refusal, path):
    assert str(path) in refusal or path.name in refusal
    assert refusal.endswith(".")
    assert "\n" not in refusal
    assert len(refusal) < 700
    assert re.search(r"; (give|take|save|use|fit) ", refusal)


def refused(path):
    with pytest.raises(orbm.DataError) as caught:
        orbm.load(path)
    assert_is_a_sentence(str(caught.value), path)
    return str(caught.value)


# ---- damage: checksums no longer agree ----------------------------------------------------------


@every_kind
def test_damage_is_always_noticed(kind, tmp_path):
    content = file_of(kind).read_bytes()
    path = tmp_path / "spoilt.orbm"
    for seed in range(N_EACH):
        rng = np.random.default_rng([seed, 3])
        spoilt = DAMAGE[seed % len(DAMAGE)](content, rng)
        if spoilt != content:
            path.write_bytes(spoilt)
            refused(path)


@only_long
def test_every_single_bit_counts(tmp_path):
    content = file_of("vector").read_bytes()
    path = tmp_path / "spoilt.orbm"
    for bit in range(8 * len(content)):
        spoilt = bytearray(content)
        spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        refused(path)


@every_kind
def test_a_file_may_end_nowhere_else(kind, tmp_path):
    """Cut at the beginning and the end of every part, and one byte beside."""
    content = file_of(kind).read_bytes()
    front, data = parts(content)
    end = len(content) - len(data)
    places = {0, 8, end, len(content)}
    for name, place in front.items():
        if name != "__metadata__":
            places |= {end + offset for offset in place["data_offsets"]}
    path = tmp_path / "spoilt.orbm"
    for place in {place + beside for place in places for beside in (-1, 0, 1)}:
        if 0 <= place < len(content):
            path.write_bytes(content[:place])
            refused(path)


# ---- hostile: checksums agree, contents do not --------------------------------------------------


@every_kind
def test_hostile_files_are_refused_or_load(kind, elsewhere, tmp_path):
    futures = [elsewhere.submit(attempt_hostile, file_of(kind), seed, tmp_path) for seed in range(N_EACH)]
    n_refused, most = 0, 0.0
    for seed, future in enumerate(futures):
        try:
            refusal, memory = future.result(timeout=120)
        except BrokenProcessPool:
            pytest.fail(f"hostile file {seed} of kind {kind} ended the process")
        except Exception as error:
            raise AssertionError(f"hostile file {seed} of kind {kind}") from error
            assert memory < MOST_MEMORY, seed
        most = max(most, memory)
        if refusal is not None:
            n_refused += 1
            assert_is_a_sentence(refusal, tmp_path / f"{seed}-{file_of(kind).name}")
    print(f"{kind}: {N_EACH} hostile, {n_refused} refused, {most:.0f} MB at most")
    assert n_refused > N_EACH / 2


def wide(array):
    return array.astype(np.int32)


def put(array, place, value):
    array = array.copy()
    array[place] = value
    return array


# Kernels would read or write outside of their arrays, were one of these not refused.
DANGEROUS = {
    "a column beyond the last": ("ordinal_mf", "seen.column", lambda a: put(a, -1, 6), "seen.column"),
    "a column below zero": ("matrix_crbm", "seen.column", lambda a: put(wide(a), 0, -1), "seen.column"),
    "a column far out": ("ordinal_mf", "seen.column", lambda a: put(wide(a), 3, 2**31 - 1), "seen.column"),
    "a level beyond its scale": ("ordinal_mf", "seen.level", lambda a: put(a, 0, 5), "not on its scale"),
    "a level below zero": ("ordinal_mf", "seen.level", lambda a: put(a, 0, -1), "not on its scale"),
    "a row that ends before it begins": (
        "matrix_crbm",
        "seen.row_start",
        lambda a: put(a, 2, a[-1]),
        "follow each other",
    ),
    "rows beyond the end": (
        "matrix_crbm",
        "seen.row_start",
        lambda a: put(a, -1, 10**9),
        "follow each other",
    ),
    "too few rows": ("matrix_crbm", "seen.row_start", lambda a: a[1:], "seen.row_start"),
    "columns out of order": (
        "ordinal_mf",
        "seen.column",
        lambda a: put(a, slice(0, 2), a[1::-1]),
        "out of order",
    ),
    "an item on a scale that is not there": (
        "ordinal_mf",
        "scale_of_item",
        lambda a: put(a, 0, 99),
        "scale_of_item",
    ),
    "more levels than thresholds": ("ordinal_mf", "n_levels", lambda a: a + 90, "levels than their scales"),
    "fewer thresholds than levels": (
        "ordinal_mf",
        "0.columns.cutpoints",
        lambda a: a[:, :2].copy(),
        "columns.cutpoints",
    ),
    "more factors than weights": (
        "matrix_crbm",
        "0.by_rows.factor_bias",
        lambda a: np.zeros(99, a.dtype),
        "factor_bias",
    ),
    "variances of some": ("ordinal_mf", "0.columns.variance", lambda a: a[:1], "columns.variance"),
    "too few users": ("ordinal_mf", "0.rows.mean", lambda a: a[:-1], "0.rows.mean"),
    "gaps of fewer levels": ("ordinal_mf", "0.rows.cutpoints", lambda a: a[:, :1].copy(), "rows.cutpoints"),
    "weights of fewer levels": ("multinomial_rbm", "0.units", lambda a: a[:, :1].copy(), "0.units"),
    "levels beyond the values": ("gaussian_mf", "0.values", lambda a: a[:2].copy(), "values"),
    "values that do not ascend": ("gaussian_mf", "0.values", lambda a: a[::-1].copy(), "does not ascend"),
    "questions with more levels": ("vector", "n_levels", lambda a: a + 50, "levels than their scales"),
    "not a number": ("vector", "weights", lambda a: put(a, (0, 0), np.nan), "'weights' has numb"),
    "infinite thresholds": (
        "vector",
        "cutpoints",
        lambda a: put(a, (0, 0), np.inf),
        "'cutpoints' has numbers",
    ),
    "a prior of any width": (
        "ordinal_mf",
        "0.row_prior.cutpoints_precision",
        lambda a: 0 * a + 1e-20,
        "cutpoints_precision",
    ),
    "priors of which some are infinite": (
        "matrix_crbm",
        "0.by_rows.cold_start.weights_precision",
        lambda a: np.full_like(a, np.inf),
        "infinite where other",
    ),
    "draws around a million": ("sampled", "draws.rows.mean", lambda a: np.full_like(a, 1e6), "rows.mean"),
    "users twice": ("matrix_crbm", "users.number", lambda a: put(a, 0, a[1]), "twice"),
    "ids that overlap": ("ordinal_mf", "users.end", lambda a: put(a, 0, 10**12), "users.end"),
    "ids that are no text": ("ordinal_mf", "users.text", lambda a: put(a, 0, 255), "utf-8"),
}


@pytest.mark.parametrize("case", DANGEROUS)
def test_dangerous_contents_are_refused(case, elsewhere, tmp_path):
    kind, name, change, expected = DANGEROUS[case]
    path = tmp_path / "hostile.orbm"
    rewritten(file_of(kind), path, lambda arrays, header: arrays.update({name: change(arrays[name])}))
    refusal, *_ = elsewhere.submit(attempt, path).result(timeout=60)
    assert refusal is not None
    assert_is_a_sentence(refusal, path)
    assert expected in refusal


# ---- lengths and shapes that would take memory --------------------------------------------------


def with_shape(front, shape):
    front["weights"]["shape"] = shape


ABSURD = {
    "a huge shape": lambda front: with_shape(front, [2**62, 2**62]),
    "a shape that overflows to its size": lambda front: with_shape(front, [2**61 + 1, 8]),
    "a shape below zero": lambda front: with_shape(front, [-1, -8]),
    "zero beside a huge number": lambda front: front["weights"].update(shape=[0, 2**62], data_offsets=[0, 0]),
    "a thousand dimensions": lambda front: with_shape(front, [1] * 1000),
    "places before the file": lambda front: front["weights"].update(data_offsets=[-32, 0]),
    "places after the file": lambda front: front["weights"].update(shape=[2**40], data_offsets=[0, 2**42]),
    "all arrays in one place": lambda front: [
        place.update(data_offsets=front["weights"]["data_offsets"])
        for name, place in front.items()
        if name != "__metadata__"
    ],
    "a number of a thousand digits": lambda front: with_shape(front, [10**1000]),
    "a great many arrays": lambda front: front.update(
        {f"x{k}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for k in range(100_000)}
    ),
}


@pytest.mark.parametrize("case", ABSURD)
def test_absurd_shapes_take_no_memory(case, elsewhere, tmp_path):
    front, data = parts(file_of("vector").read_bytes())
    ABSURD[case](front)
    path = tmp_path / "absurd.orbm"
    path.write_bytes(sealed(front, data))
    refusal, memory = elsewhere.submit(attempt, path).result(timeout=60)
    assert_is_a_sentence(refusal, path)
    assert memory < MOST_MEMORY


@pytest.mark.parametrize("length", [0, 1, 2**24 + 1, 2**32, 2**63, 2**64 - 1])
def test_absurd_lengths_of_the_header(length, tmp_path):
    content = file_of("vector").read_bytes()
    path = tmp_path / "absurd.orbm"
    path.write_bytes(length.to_bytes(8, "little") + content[8:])
    refused(path)


def test_a_large_file_with_a_large_header(tmp_path):
    """The length agrees with the file, which has a hole of a gigabyte."""
    path = tmp_path / "absurd.orbm"
    path.write_bytes((2**30).to_bytes(8, "little") + file_of("vector").read_bytes()[8:])
    os.truncate(path, 2**30 + 8)
    assert "longer than" in refused(path)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000, "1" * 10**6, "NaN", "[]", "{}"])
def test_strange_json(text, inner, elsewhere, tmp_path):
    front, data = parts(file_of("vector").read_bytes())
    path = tmp_path / "strange.orbm"
    if inner:
        front["__metadata__"]["ordinalrbm"] = text
        path.write_bytes(sealed(front, data))
    else:
        start = '{"__metadata__":{"ordinalrbm":"' + "x" * 10 + '","a":' + text
        path.write_bytes(len(start).to_bytes(8, "little") + start.encode() + data)
    refusal, memory = elsewhere.submit(attempt, path).result(timeout=60)
    assert_is_a_sentence(refusal, path)
    assert memory < MOST_MEMORY


def test_a_scale_with_a_label_twice_among_thousands(tmp_path):
    path = tmp_path / "scale.orbm"
    labels = [*range(32_766), 32_765]
    rewritten(file_of("vector"), path, lambda arrays, header: header["scales"].append(labels))
    assert "twice" in refused(path)


@pytest.mark.parametrize("n", [100, 2**60])
def test_more_models_than_arrays(n, tmp_path):
    path = tmp_path / "models.orbm"
    rewritten(file_of("ordinal_mf"), path, lambda arrays, header: header.update(n_models=n))
    assert "n_models" in refused(path) or "lacks" in refused(path)


def test_millions_of_labels(elsewhere, tmp_path):
    """The most that a header can hold."""
    path = tmp_path / "scales.orbm"
    labels = list(range(10_000))
    rewritten(file_of("vector"), path, lambda arrays, header: header.update(scales=[labels] * 240))
    assert path.stat().st_size > 14e6
    refusal, memory = elsewhere.submit(attempt, path).result(timeout=60)
    assert "shape" in refusal
    assert memory < MOST_MEMORY


# ---- files of other kinds -----------------------------------------------------------------------


def test_other_files(tmp_path):
    content = file_of("ordinal_mf").read_bytes()
    others = {
        "empty": b"",
        "gzip": gzip.compress(content),
        "text": b"user,item,rating\n" * 100,
        "zeros": bytes(5000),
        "pickle": b"\x80\x04K\x01.",
        "only the magic": content[:60],
    }
    for name, other in others.items():
        (tmp_path / name).write_bytes(other)
        assert "not a model file" in refused(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.write(file_of("ordinal_mf"), "model.orbm")
    assert "not a model file" in refused(tmp_path / "zip")
    save_file({"weights": np.zeros(3)}, tmp_path / "tensors", metadata={"format": "pt"})
    assert "not a model file" in refused(tmp_path / "tensors")
    assert "is a folder" in refused(tmp_path)
    assert "does not exist" in refused(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe")


def test_the_tests_themselves_can_tell(tmp_path):
    """A file that is sealed or rewritten unchanged loads; a flipped bit is a change."""
    content = file_of("vector").read_bytes()
    assert sealed(*parts(content)) == content
    path = tmp_path / "same.orbm"
    rewritten(file_of("vector"), path, lambda arrays, header: None)
    assert path.read_bytes() == content
    assert same(orbm.load(path), orbm.load(file_of("vector")))
    assert flipped(content, np.random.default_rng(0)) != content
