"""Checkpoints of several processes, each of which writes its rows: here they are threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ordinalrbm as orbm
from ordinalrbm.runtime.process_group import ALONE, Group
from ordinalrbm.storage import model_file
from ordinalrbm.training import checkpoint
from ordinalrbm.training.checkpoint import Checkpoints, Identity, newest

N_ROWS = 7


class Thread(Group):
    """A rank that is a thread; what is told stands in a list that all see."""

    def __init__(self, rank, said, barrier):
        self.rank, self.size, self.said, self.barrier = rank, len(said), said, barrier

    def all_gather_object(self, what):
        self.said[self.rank] = what
        self.barrier.wait()
        found = list(self.said)
        self.barrier.wait()
        return found

    def broadcast_number(self, number):
        return self.all_gather_object(number)[0]


def by_all(size, work):
    """What each of so many ranks makes of the work; one is this process alone."""
    if size == 1:
        return [work(ALONE)]
    said, barrier = [None] * size, threading.Barrier(size, timeout=60)

    def one(rank):
        try:
            return work(Thread(rank, said, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        waiting = [pool.submit(one, rank) for rank in range(size)]
    errors = [done.exception() for done in waiting if done.exception()]
    for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
        raise error
    return [done.result() for done in waiting]


class Learner:
    """Every epoch adds a row's number to the row, and one to what all have."""

    def __init__(self, among):
        mine = among.share(N_ROWS)
        self.number = np.arange(mine.start, mine.stop)[:, None] + [1.0, 100.0]
        self.rows, self.all, self.history = 0.0 * self.number, np.zeros(3), []

    def goes_on(self):
        return len(self.history) < 9

    def epoch(self):
        self.rows, self.all = self.rows + self.number, self.all + 1
        self.history.append(len(self.history))

    def state(self):
        return {"rows": self.rows, "all": self.all, "n": np.array([len(self.history)])}

    def restore(self, state):
        if state["rows"].shape != self.rows.shape:
            raise ValueError("other rows")
        self.rows, self.all = state["rows"], state["all"]
        self.history = list(range(state["n"][0]))


def learnt(folder, size, n_epochs):
    """Rows of all ranks, what all have, and how many epochs had been learnt before these."""

    def work(among):
        with Checkpoints(folder, 1, among=among) as checkpoints:
            checkpoints.belong_to(Identity("Learner", {"seed": 0}))
            writer, learner = checkpoints.of("toy", N_ROWS, "rows".__eq__), Learner(among)
            writer.restore(learner)
            before = len(learner.history)
            for _ in range(n_epochs):
                learner.epoch()
                writer.after(learner, learner.state())
        return learner.rows, learner.all, before

    found = by_all(size, work)
    assert len({before for *_, before in found}) == 1
    return np.concatenate([rows for rows, *_ in found]), found[0][1], found[0][2]


def assert_is_after(found, n_epochs):
    rows, of_all, _ = found
    np.testing.assert_array_equal(rows, n_epochs * (np.arange(N_ROWS)[:, None] + [1.0, 100.0]))
    np.testing.assert_array_equal(of_all, [n_epochs] * 3)


def names(folder):
    return sorted(path.name for path in folder.glob("*.checkpoint"))


@pytest.mark.parametrize(
    ("before", "after"), [(2, 1), (1, 2), (2, 2), (2, 3), (3, 2), (4, 2), (1, 9), (9, 1), (9, 3)]
)
def test_any_number_of_processes_goes_on(before, after, tmp_path):
    """Nine have more processes than rows."""
    learnt(tmp_path, before, 3)
    found = learnt(tmp_path, after, 2)
    assert found[-1] == 3
    assert_is_after(found, 5)
    learnt(tmp_path, after, 1)
    assert {name.split("-")[1][:6] for name in names(tmp_path)} == {"000005", "000006"}


def test_a_process_writes_its_rows_and_the_first_all_else(tmp_path):
    learnt(tmp_path, 3, 1)
    assert names(tmp_path) == [f"toy-000001-{k}of3.checkpoint" for k in (1, 2, 3)]
    arrays = [model_file.read(tmp_path / name)[0] for name in names(tmp_path)]
    assert [sorted(each) for each in arrays] == [["all", "n", "rows"], ["rows"], ["rows"]]
    assert [each["rows"][:, 0].tolist() for each in arrays] == [[1, 2], [3, 4], [5, 6, 7]]


def test_a_process_reads_the_files_with_its_rows(tmp_path, monkeypatch):
    learnt(tmp_path, 4, 1)
    read, seen = model_file.read, []

    def noted(path, wanted):
        arrays, header = read(path, wanted)
        if "rows" in arrays:
            seen.append((path.name[11], len(arrays["rows"]), threading.get_ident()))
        return arrays, header

    monkeypatch.setattr(model_file, "read", noted)
    learnt(tmp_path, 2, 0)
    by_thread = {}
    for number, _, thread in seen:
        by_thread.setdefault(thread, []).append(number)
    # Rows 0 to 2, and 3 to 6; the four have 0, 1 to 2, 3 to 4, and 5 to 6.
    assert sorted(by_thread.values()) == [["1", "2"], ["3", "4"]]


def test_the_newest_complete_one_is_told_of(tmp_path):
    learnt(tmp_path, 2, 3)
    (tmp_path / "toy-000003-1of2.checkpoint").unlink()
    ((path, about),) = newest(tmp_path)
    assert path.name == "toy-000002-1of2.checkpoint"
    assert about.epoch == 2


# ---- what has gone wrong -------------------------------------------------------------------------


def missing(path, older):
    path.unlink()


def damaged(path, older):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def of_another_moment(path, older):
    """By its own checksums it is whole, but it was written by another run."""
    arrays, header = model_file.read(path)
    header["checkpoint"]["share"]["stamp"] += 1
    model_file.write(path, arrays, {name: header[name] for name in ("model", "checkpoint")})


def of_another_epoch(path, older):
    path.write_bytes(older.read_bytes())


def of_other_rows(path, older):
    arrays, header = model_file.read(path)
    header["checkpoint"]["rows"]["start"] -= 1
    model_file.write(path, arrays, {name: header[name] for name in ("model", "checkpoint")})


HARM = {
    missing: "part 2 of 2 is missing",
    damaged: "part 2 of 2: its array 'rows' is not what was written",
    of_another_moment: "part 2 of 2 is of another moment",
    of_another_epoch: "part 2 of 2 is of another moment",
    of_other_rows: "do not follow one another",
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("harm", HARM)
def test_a_part_is_spoilt_and_the_checkpoint_before_counts(harm, size, tmp_path):
    learnt(tmp_path, 2, 4)
    harm(tmp_path / "toy-000004-2of2.checkpoint", tmp_path / "toy-000003-2of2.checkpoint")
    with pytest.warns(UserWarning) as told:
        found = learnt(tmp_path, size, 1)
    (words,) = [str(each.message) for each in told]
    assert "toy-000004-1of2.checkpoint' is damaged" in words and HARM[harm] in words
    assert "goes on from 'toy-000003-1of2.checkpoint'" in words
    assert found[-1] == 3
    assert_is_after(found, 4)


def test_what_one_process_cannot_write_costs_no_older_checkpoint(tmp_path, monkeypatch):
    """Of the third the first half is there; the fourth is whole again, and clears it away."""
    write = checkpoint._write

    def full(path, state, about):
        if path.name == "toy-000003-2of2.checkpoint":
            raise OSError(28, "No space left on device")
        write(path, state, about)

    monkeypatch.setattr(checkpoint, "_write", full)
    with pytest.warns(UserWarning, match="goes on without a checkpoint"):
        learnt(tmp_path, 2, 3)
    whole = [f"toy-00000{epoch}-{k}of2.checkpoint" for epoch in (1, 2) for k in (1, 2)]
    assert names(tmp_path) == [*whole, "toy-000003-1of2.checkpoint"]
    with pytest.warns(UserWarning, match="part 2 of 2 is missing"):
        monkeypatch.undo()
        learnt(tmp_path, 2, 2)
    assert names(tmp_path) == [
        f"toy-00000{epoch}-{k}of2.checkpoint" for epoch in (3, 4) for k in (1, 2)
    ]


def test_a_folder_that_is_not_shared_is_refused(tmp_path):
    def work(among):
        folder = tmp_path / str(among.rank)
        folder.mkdir()
        Checkpoints(folder, 1, among=among)

    with pytest.raises(orbm.DataError, match="share"):
        by_all(2, work)


def test_one_refusal_is_that_of_all(tmp_path):
    """Another fit holds the folder, which only the first process finds."""
    with Checkpoints(tmp_path):

        def work(among):
            with pytest.raises(orbm.DataError, match="Another fit"):
                Checkpoints(tmp_path, 1, among=among)

        by_all(2, work)
