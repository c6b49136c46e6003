"""Checkpoints of several processes, of which the first writes: here they are threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ordinalrbm as orbm
from ordinalrbm.runtime.process_group import ALONE, Group
from ordinalrbm.storage import model_file
from ordinalrbm.training import checkpoint
from ordinalrbm.training.checkpoint import Checkpoints
from ordinalrbm.training.identity import Identity

N_ROWS = 7


class Thread(Group):
    """A rank that is a thread; what each says stands in a list that all see."""

    def __init__(self, rank, said, barrier):
        self.rank, self.size, self.said, self.barrier = rank, len(said), said, barrier

    def all_gather_object(self, what):
        self.said[self.rank] = what
        self.barrier.wait()
        found = list(self.said)
        self.barrier.wait()
        return found

    def broadcast_object(self, work):
        return self.all_gather_object(work() if self.rank == 0 else None)[0]


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
    """Every epoch adds a row's number to the row; each rank has some of the rows."""

    def __init__(self, among):
        self.among, self.mine = among, among.share(N_ROWS)
        self.number = np.arange(self.mine.start, self.mine.stop)[:, None] + [1.0, 100.0]
        self.rows, self.history, self.n_states = 0.0 * self.number, [], 0

    def goes_on(self):
        return len(self.history) < 9

    def epoch(self):
        self.rows = self.rows + self.number
        self.history.append(len(self.history))

    def state(self):
        self.n_states += 1
        parts = self.among.all_gather_object(self.rows)
        if self.among.rank:
            return {}
        return {"rows": np.concatenate(parts), "n": np.array([len(self.history)])}

    def restore(self, state):
        if state["rows"].shape != (N_ROWS, 2):
            raise ValueError("other rows")
        self.rows, self.history = state["rows"][self.mine], list(range(state["n"][0]))


def learnt(folder, size, n_epochs, every=1):
    """Rows of all ranks, epochs before these, and how often the state was asked for."""

    def work(among):
        with Checkpoints(folder, every, among=among) as checkpoints:
            checkpoints.require_identity(Identity("Learner", {"seed": 0}))
            writer, learner = checkpoints.of("toy"), Learner(among)
            writer.restore(learner)
            before = len(learner.history)
            for _ in range(n_epochs):
                learner.epoch()
                writer.after(learner)
        return learner.rows, before, learner.n_states

    rows, before, n_states = zip(*by_all(size, work), strict=True)
    assert len(set(before)) == len(set(n_states)) == 1
    return np.concatenate(rows), before[0], n_states[0]


def assert_is_after(rows, n_epochs):
    np.testing.assert_array_equal(rows, n_epochs * (np.arange(N_ROWS)[:, None] + [1.0, 100.0]))


def names(folder):
    return sorted(path.name for path in folder.glob("*.checkpoint"))


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 2), (3, 2), (1, 9), (9, 3)])
def test_any_number_of_processes_goes_on(before, after, tmp_path):
    """Nine have more processes than rows."""
    learnt(tmp_path, before, 3)
    rows, n_before, _ = learnt(tmp_path, after, 2)
    assert n_before == 3
    assert_is_after(rows, 5)
    assert names(tmp_path) == ["toy-000004.checkpoint", "toy-000005.checkpoint"]
    assert_is_after(model_file.read(tmp_path / "toy-000005.checkpoint")[0]["rows"], 5)


def test_the_state_is_brought_together_only_when_it_is_written(tmp_path):
    *_, n_states = learnt(tmp_path, 3, 6, every=3)
    assert n_states == 2
    assert names(tmp_path) == ["toy-000003.checkpoint", "toy-000006.checkpoint"]


def test_the_clock_of_the_first_counts(tmp_path, monkeypatch):
    """By the clocks of the others it would never be time."""
    monkeypatch.setattr(
        checkpoint.CheckpointWriter, "_is_due", lambda self, epoch: self._checkpoints.among.rank == 0
    )
    *_, n_states = learnt(tmp_path, 3, 2, every="1 h")
    assert n_states == 2
    assert names(tmp_path) == ["toy-000001.checkpoint", "toy-000002.checkpoint"]


@pytest.mark.parametrize("size", [1, 3])
def test_a_damaged_one_is_passed_over_by_all(size, tmp_path):
    learnt(tmp_path, 2, 4)
    path = tmp_path / "toy-000004.checkpoint"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.warns(UserWarning) as caught:
        rows, n_before, _ = learnt(tmp_path, size, 1)
    (words,) = [str(each.message) for each in caught]
    assert "toy-000004.checkpoint' is damaged" in words and "is not what was written" in words
    assert "goes on from 'toy-000003.checkpoint'" in words
    assert n_before == 3
    assert_is_after(rows, 4)


def test_what_the_first_cannot_write_costs_no_older_checkpoint(tmp_path, monkeypatch):
    write = checkpoint.model_file.write

    def full(path, state, header):
        if path.name == "toy-000003.checkpoint":
            raise OSError(28, "No space left on device")
        write(path, state, header)

    monkeypatch.setattr(checkpoint.model_file, "write", full)
    with pytest.warns(UserWarning, match="goes on without a checkpoint"):
        rows, *_ = learnt(tmp_path, 2, 3)
    assert_is_after(rows, 3)
    assert names(tmp_path) == ["toy-000001.checkpoint", "toy-000002.checkpoint"]


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
