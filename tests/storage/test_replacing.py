"""Files that take the place of others: who may read them, and readers in the middle of the old."""

import os
import shutil
import stat

import numpy as np
import pandas as pd
import pytest
from stored_models import file_of, same

import ordinalrbm as orbm
from ordinalrbm.files.writing import write_table
from ordinalrbm.storage import container
from ordinalrbm.storage.atomic import atomic_write

# ---- rights ------------------------------------------------------------------------------------


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
@pytest.mark.parametrize("name", ["model.orbm", "best.csv", "best.csv.gz", "best.parquet"])
def test_a_file_that_is_written_again_keeps_its_mode(name, mode, tmp_path):
    path = tmp_path / name
    path.write_text("old")
    path.chmod(mode)
    if name.endswith(".orbm"):
        orbm.load(file_of("vector")).save(path)
    else:
        write_table(path, pd.DataFrame({"a": [1, 2]}))
    assert path.read_bytes() != b"old"
    assert mode_of(path) == mode


def test_nobody_else_reads_it_while_it_is_written(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_write(path) as file:
        assert mode_of(file) == 0o600
        file.unlink()  # as a library may do
        file.write_text("new")
    assert (mode_of(path), path.read_text()) == (0o600, "new")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_is_as_the_umask_says(umask, tmp_path):
    before = os.umask(umask)
    try:
        write_table(tmp_path / "new.csv", pd.DataFrame({"a": [1]}))
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new.csv") == 0o666 & ~umask


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_stay(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    write_table(path, pd.DataFrame({"a": [1]}))
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_another_group_gets_no_rights(tmp_path, monkeypatch):
    path = tmp_path / "shared.csv"
    path.write_text("old")
    path.chmod(0o664)
    stat_of = os.stat

    def of_another_group(file, **options):
        found = list(stat_of(file, **options))
        found[5] += file == path
        return os.stat_result(found)

    def refuse(*args):
        raise PermissionError

    monkeypatch.setattr(os, "stat", of_another_group)
    monkeypatch.setattr(os, "chown", refuse)
    write_table(path, pd.DataFrame({"a": [1]}))
    monkeypatch.undo()
    assert mode_of(path) == 0o604


# ---- readers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["_read_front", "_contents", "_bytes_of"])
def test_a_file_replaced_while_it_is_read_is_whole(step, tmp_path, monkeypatch):
    """Whichever part of it is read next when another model is saved to its place."""
    path, other = tmp_path / "model.orbm", tmp_path / "other.orbm"
    shutil.copy(file_of("ordinal_mf"), path)
    changed = orbm.OrdinalMF(3, n_epochs=1, random_state=5)
    changed.fit(pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1, 2, 1]}))
    ordinary, replaced = getattr(container, step), []

    def replace_first(*args):
        if not replaced:
            replaced.append(True)
            changed.save(other)
            os.replace(other, path)
        return ordinary(*args)

    monkeypatch.setattr(container, step, replace_first)
    assert same(orbm.load(path), orbm.load(file_of("ordinal_mf")))
    assert replaced
    np.testing.assert_array_equal(orbm.load(path).users_.labels, [1, 2])
