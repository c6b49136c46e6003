"""Checkpoints: a fit that was stopped goes on with the same bits; what is damaged or of others."""

import errno
import hashlib
import os
import resource
import shutil
import stat
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from long_form import LONG

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.training import checkpoint as checkpoints
from ordinalrbm.training.checkpoint import Checkpoints, CheckpointWriter, interval
from ordinalrbm.training.identity import Identity

FOLDERS = [str(Path(__file__).parents[1] / name) for name in ("estimators", "matrix")]
sys.path[:0] = FOLDERS

import small_matrices  # noqa: E402
import small_surveys  # noqa: E402
from small_matrices import StoppedError, stop_after  # noqa: E402

SURVEY = small_surveys.numbers(small_surveys.levels())
RATINGS = small_matrices.simulated(60, 30)
WEIGHT = np.linspace(0, 2, len(SURVEY))

VECTORS = {
    "contrastive": {},
    "persistent": {"free_phase": "persistent"},
    "units": {"units_per_factor": 5, "free_phase": "persistent"},
    # More than 255 have a wider type, for which the kernels are compiled once more.
    "many units": {"units_per_factor": 300 if LONG else 200},
    "styles": {"response_styles": 5},
    "latent": {"unanswered": "latent"},
    "nothing held out": {"validation_fraction": 0.0},
}
MATRICES = {
    "gaussian": ("ordinal", {}),
    "values": ("gaussian", {}),
    "binary": ("matrix", {}),
    "binary persistent": ("matrix", {"free_phase": "persistent", "weight_decay": 50}),
    "binary, nothing held out": ("matrix", {"validation_fraction": 0.0}),
    "one process": ("vectors", {}),
    "multinomial": ("multinomial", {}),
}


def survey_model(**changes):
    return small_surveys.small(**changes)


def ratings_model(kind="matrix", **changes):
    changes = {"n_epochs": 4, **changes}
    if kind == "vectors":
        return small_matrices.small(4, 0, **changes)
    return small_matrices.MODELS[kind](**changes)


def file_hash(model, folder):
    """Of the model's file; seconds are never the same."""
    if "seconds" in model.history_:
        model.history_["seconds"] = 0.0
    model.save(Path(folder) / "model.orbm")
    return hashlib.sha256((Path(folder) / "model.orbm").read_bytes()).hexdigest()


def learnt_in_pieces(make, fit, folder, monkeypatch):
    """Stop after every epoch and go on, until it is done."""
    for n_stops in range(100):
        try:
            with monkeypatch.context() as patch:
                stop_after(1, patch)
                return fit(make(), checkpoint=folder, every=1), n_stops
        except StoppedError:
            pass
    raise AssertionError("it never ends")


# The same bits


@pytest.mark.parametrize("changes", VECTORS.values(), ids=VECTORS)
def test_a_survey_learnt_in_pieces_is_the_same(changes, tmp_path, monkeypatch):
    def fit(model, **how):
        return model.fit(SURVEY, sample_weight=WEIGHT, **how)

    whole = fit(survey_model(**changes))
    pieces, n_stops = learnt_in_pieces(lambda: survey_model(**changes), fit, tmp_path / "kept", monkeypatch)
    assert n_stops == whole.n_iter_ == 4
    small_surveys.assert_same_model(pieces, whole)
    assert file_hash(pieces, tmp_path) == file_hash(whole, tmp_path)


@pytest.mark.parametrize(("kind", "changes"), MATRICES.values(), ids=MATRICES)
def test_ratings_learnt_in_pieces_are_the_same(kind, changes, tmp_path, monkeypatch):
    def fit(model, **how):
        return model.fit(RATINGS, **how)

    whole = fit(ratings_model(kind, **changes))
    pieces, n_stops = learnt_in_pieces(
        lambda: ratings_model(kind, **changes), fit, tmp_path / "kept", monkeypatch
    )
    assert n_stops == whole.n_iter_
    small_matrices.assert_same_models(pieces, whole)
    pd.testing.assert_frame_equal(
        pieces.history_.drop(columns="seconds"), whole.history_.drop(columns="seconds")
    )
    assert file_hash(pieces, tmp_path) == file_hash(whole, tmp_path)


# Ctrl-C, the end, and how often


def test_ctrl_c_writes_the_last_epoch_that_has_ended(tmp_path, monkeypatch, capsys):
    whole = survey_model().fit(SURVEY)
    learner = sys.modules["ordinalrbm.vector.learner"]._VectorLearner
    epoch, done = learner._pass, []

    def stopped(*args):
        epoch(*args)
        done.append(1)
        if len(done) == 3:  # in the middle of the third: all is moved, nothing is in order
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(learner, "_pass", stopped)
        model = survey_model().fit(SURVEY, checkpoint=tmp_path, every="1 h")
    assert "stopped after epoch 2" in capsys.readouterr().err
    assert model.n_iter_ == 2
    assert names(tmp_path) == ["vector-000002.checkpoint"]
    small_surveys.assert_same_model(survey_model().fit(SURVEY, checkpoint=tmp_path), whole)


def names(folder):
    """All files but the lock, which is empty and stays."""
    return sorted(path.name for path in Path(folder).iterdir() if path.name != ".lock")


def contents(folder):
    return {name: (Path(folder) / name).read_bytes() for name in names(folder)}


def test_a_fit_that_has_ended_gives_its_model_at_once(tmp_path, monkeypatch):
    first = ratings_model().fit(RATINGS, checkpoint=tmp_path)
    assert names(tmp_path) == ["binary-000004.checkpoint"]
    stop_after(1, monkeypatch)  # so that there must not be an epoch
    again = ratings_model().fit(RATINGS, checkpoint=tmp_path)
    small_matrices.assert_same_models(again, first)


def test_the_last_two_are_kept(tmp_path):
    survey_model(n_epochs=6).fit(SURVEY, checkpoint=tmp_path, every=2)
    assert names(tmp_path) == ["vector-000004.checkpoint", "vector-000006.checkpoint"]


def test_every_epoch_when_no_time_passes(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(checkpoints.model_file, "write", lambda path, *_: written.append(path.name))
    survey_model().fit(SURVEY, checkpoint=tmp_path, every="0 s")
    assert len(written) == 4
    written.clear()
    survey_model().fit(SURVEY, checkpoint=tmp_path, every="1 h")
    assert written == ["vector-000004.checkpoint"]


@pytest.mark.parametrize(
    ("every", "seconds", "epochs"),
    [
        ("30 s", 30, np.inf),
        ("5 min", 300, np.inf),
        ("1.5 hours", 5400, np.inf),
        ("20 seconds", 20, np.inf),
        ("1 h 30 min", 5400, np.inf),
        ("1 day", 86400, np.inf),
        (3, np.inf, 3),
        ("3", np.inf, 3),
        ("2 epochs", np.inf, 2),
    ],
)
def test_how_often(every, seconds, epochs):
    assert interval(every) == (seconds, epochs)


@pytest.mark.parametrize(
    "every", ["often", "5 years", "-5 min", "nat", "1.5", 0, -1, 1.5, True, None, "", "min"]
)
def test_how_often_makes_sense(every):
    with pytest.raises(DataError, match="'every' parameter must be"):
        interval(every)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey_model().fit(SURVEY)
    assert names(tmp_path) == []


# Those of others


def refused(model, data, folder, **how):
    with pytest.raises(DataError) as error:
        model.fit(data, checkpoint=folder, **how)
    message = str(error.value)
    assert message.count(". ") == 0
    assert message.endswith(".")
    return message


def test_other_settings_are_refused(tmp_path):
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    message = refused(survey_model(learning_rate=0.02, n_epochs=5), SURVEY, tmp_path)
    assert "learning_rate 0.01 (now 0.02), n_epochs 4 (now 5);" in message
    assert "differs in random_state;" in refused(survey_model(random_state=1), SURVEY, tmp_path)
    message = refused(ratings_model(), RATINGS, tmp_path)
    assert "estimator CumulativeRBM (now MatrixCumulativeRBM)" in message


def test_settings_that_change_nothing_may_change(tmp_path):
    first = survey_model().fit(SURVEY, checkpoint=tmp_path)
    others = {"n_jobs": 1, "inference": "mcmc", "n_draws": 7}
    small_surveys.assert_same_model(survey_model(**others).fit(SURVEY, checkpoint=tmp_path), first)


def test_other_data_are_refused(tmp_path):
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    message = refused(survey_model(), SURVEY[:-1], tmp_path)
    assert "rows 150 (now 149), answers" in message
    changed = SURVEY.copy()
    row = int(np.flatnonzero(changed[:, 3] == 2)[0])
    changed[row, 3] = 3
    assert "differs in answers;" in refused(survey_model(), changed, tmp_path)
    assert "differs in scales;" in refused(survey_model(), SURVEY * 10, tmp_path)
    message = refused(survey_model(), SURVEY, tmp_path, sample_weight=WEIGHT + 0.1)
    assert "differs in sample_weight;" in message


def test_other_validation_ratings_are_refused(tmp_path):
    first, second = small_matrices.halves(RATINGS)
    ratings_model().fit(first, second, checkpoint=tmp_path)
    message = refused(ratings_model(), first, tmp_path, validation=second[1:])
    assert "differs in validation ratings;" in message


def test_another_release_is_refused(tmp_path):
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    identity = Identity("CumulativeRBM", {"seed": 0}, release="9.9")
    folder = Checkpoints(tmp_path)
    with pytest.raises(DataError, match=r"release 0\.1\.0 \(now 9\.9\)"):
        folder.require_identity(identity)


def test_without_a_seed_that_of_the_checkpoint_is_taken(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(StoppedError):
            survey_model(random_state=None).fit(SURVEY, checkpoint=tmp_path, every=1)
    model = survey_model(random_state=None).fit(SURVEY, checkpoint=tmp_path)
    again = survey_model(random_state=None).fit(SURVEY, checkpoint=tmp_path)
    small_surveys.assert_same_model(model, again)
    assert model.n_iter_ == 4


def test_checkpoints_are_not_written_over(tmp_path):
    survey_model().fit(SURVEY, checkpoint=tmp_path, resume=False)
    before = contents(tmp_path)
    message = refused(survey_model(), SURVEY, tmp_path, resume=False)
    assert "holds checkpoints" in message
    assert contents(tmp_path) == before


def test_a_checkpoint_is_no_model(tmp_path):
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    with pytest.raises(DataError) as error:
        orbm.load(tmp_path / "vector-000004.checkpoint")
    message = str(error.value)
    assert "vector-000004.checkpoint' is a checkpoint" in message
    assert f"use fit(..., checkpoint='{tmp_path}')" in message
    assert message.endswith(".") and ". " not in message.replace("...", "")


# Folders


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "Checkpoints cannot be written to folder" in refused(survey_model(), SURVEY, folder)


@contextmanager
def files_of_at_most(n_bytes):
    """As on a disk with room for so much; no trick, the system refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def before_epochs(monkeypatch, **happenings):
    """Let something happen when so many epochs of a survey have ended: ``after_2=...``."""
    after = CheckpointWriter.after

    def and_more(self, learner, state):
        happening = happenings.get(f"after_{len(learner.history) - 1}")
        if happening is not None:
            happening()
        after(self, learner, state)

    monkeypatch.setattr(CheckpointWriter, "after", and_more)


def test_a_disk_that_is_full_for_a_while(tmp_path, monkeypatch):
    """Said once, and checkpoints are written again when there is room."""
    limit = files_of_at_most(4096)
    happenings = {"after_1": limit.__enter__, "after_3": lambda: limit.__exit__(None, None, None)}
    with monkeypatch.context() as patch:
        before_epochs(patch, **happenings)
        with pytest.warns(UserWarning, match="goes on without.*File too large") as told:
            model = survey_model(n_epochs=5).fit(SURVEY, checkpoint=tmp_path, every=1)
    assert len(told) == 1
    assert names(tmp_path) == ["vector-000004.checkpoint", "vector-000005.checkpoint"]
    small_surveys.assert_same_model(model, survey_model(n_epochs=5).fit(SURVEY))


@pytest.mark.parametrize("instead", ["nothing", "a file"])
def test_a_folder_that_is_gone_does_not_end_learning(instead, tmp_path, monkeypatch):
    folder = tmp_path / "kept"

    def remove():
        shutil.rmtree(folder)
        if instead == "a file":
            folder.write_text("mine")

    with monkeypatch.context() as patch:
        before_epochs(patch, after_1=remove)
        with pytest.warns(UserWarning, match="goes on without.*does not exist") as told:
            model = survey_model().fit(SURVEY, checkpoint=folder, every=1)
    assert len(told) == 1
    assert not folder.is_dir()
    small_surveys.assert_same_model(model, survey_model().fit(SURVEY))


def test_names_are_settled_after_contents(tmp_path, monkeypatch):
    """A power cut after a checkpoint was written leaves it there, under its name."""
    steps = []
    sync, replace = os.fsync, os.replace

    def note_sync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def note_move(*places):
        steps.append("move")
        replace(*places)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_move)
    survey_model().fit(SURVEY, checkpoint=tmp_path, every=2)
    assert steps == 2 * ["file", "move", "folder"]


# Two at a time


def test_two_fits_in_one_folder_are_refused(tmp_path):
    with Checkpoints(tmp_path):
        half_written = tmp_path / ".ordinalrbm-abc"
        half_written.write_bytes(b"of the other one")
        assert "Another fit is written to folder" in refused(survey_model(), SURVEY, tmp_path)
        assert half_written.exists()
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    assert names(tmp_path) == ["vector-000004.checkpoint"]


def test_a_fit_that_was_refused_holds_no_folder(tmp_path):
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    for _ in range(2):  # the first of them would stand in the way of the second
        assert "holds checkpoints" in refused(survey_model(), SURVEY, tmp_path, resume=False)
        assert "differs in" in refused(survey_model(random_state=1), SURVEY, tmp_path)
    survey_model().fit(SURVEY, checkpoint=tmp_path)


def test_where_there_are_no_locks_learning_goes_on(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", unknown)
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    assert names(tmp_path) == ["vector-000004.checkpoint"]


def test_what_a_killed_process_leaves_behind_is_removed(tmp_path):
    left = tmp_path / ".ordinalrbm-abc"
    left.write_bytes(b"half")
    survey_model().fit(SURVEY, checkpoint=tmp_path)
    assert names(tmp_path) == ["vector-000004.checkpoint"]


# Divergence


def test_the_smaller_rate_is_remembered(tmp_path, monkeypatch):
    def fit(model, **how):
        with pytest.warns(UserWarning, match="diverged with learning_rate=150 and went on with 0.15"):
            return model.fit(RATINGS, **how)

    changes = {"learning_rate": 150}
    whole = fit(ratings_model(**changes))
    assert np.isfinite(whole.history_["validation"]).all()
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(StoppedError):
            ratings_model(**changes).fit(RATINGS, checkpoint=tmp_path, every=1)
    small_matrices.assert_same_models(fit(ratings_model(**changes), checkpoint=tmp_path), whole)


def test_the_best_so_far_is_kept_when_nothing_helps(monkeypatch):
    learning = sys.modules["ordinalrbm.vector.learner"]._VectorLearner
    epoch = learning._pass

    def explodes(learner, number, rate):
        epoch(learner, number, rate)
        if number == 3:
            learner.model.weights[0, 0] = np.nan

    monkeypatch.setattr(learning, "_pass", explodes)
    with pytest.warns(UserWarning, match=r"still with 1e-08 after epoch 2.*best model so far"):
        model = survey_model().fit(SURVEY)
    assert model.n_iter_ == 2
    assert all(np.isfinite(part).all() for part in model.model_[:-1])
