"""Checkpoints of every learner, and what becomes of a fit that goes on from a spoilt one.

`attempt` runs in a process of its own, so that a crash is seen and named.
"""

import shutil
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from mutations import DAMAGE, hostile, peak
from stored_models import answers, ratings, said

import ordinalrbm as orbm
from ordinalrbm.training.checkpoint import CheckpointWriter

COMMON = {"n_epochs": 3, "random_state": 0}
BATCHES = {"batch_size": 4, **COMMON}
# Together they have every kind of array that a checkpoint can have.
MODELS = {
    "vector": lambda: orbm.CumulativeRBM.binary(
        2, response_styles=3, units_per_factor=4, free_phase="persistent", validation_fraction=0.2, **BATCHES
    ),
    "gaussian": lambda: orbm.OrdinalMF(4, **COMMON),
    "binary": lambda: orbm.MatrixCumulativeRBM(2, 2, free_phase="persistent", **BATCHES),
    "multinomial": lambda: orbm.MultinomialRBM(2, **BATCHES),
}
# Epochs after which a fit is stopped: on its way, and at its end.
STOPS = dict.fromkeys(MODELS, (2, 3))


class StoppedError(Exception):
    """As good as a crash."""


@contextmanager
def stopped_after(n_epochs):
    """Crash when so many epochs have ended, the checkpoint of the last one written."""
    ordinary, done = CheckpointWriter.after, []

    def and_stop(self, learner, state=None):
        ordinary(self, learner, state)
        done.append(1)
        if len(done) == n_epochs:
            raise StoppedError

    CheckpointWriter.after = and_stop
    try:
        yield
    except StoppedError:
        pass
    finally:
        CheckpointWriter.after = ordinary


def fitted(kind, folder=None, every="1 h"):
    """The model, learnt to the end, from a checkpoint if there is one."""
    data = answers() if kind == "vector" else ratings()
    return MODELS[kind]().fit(data, checkpoint=folder, every=every)


def truth(kind):
    """What a fit comes to that nobody has stopped.

    To be asked in the process that attempts are made in: kernels that were just compiled may round
    otherwise than the same ones from the cache.
    """
    return said(fitted(kind))


def kept(kind, stop, home):
    """A folder with the newest checkpoint of each part, made once."""
    folder = Path(home) / f"{kind}-{stop}"
    if not folder.exists():
        with stopped_after(stop):
            fitted(kind, folder, every=1)
        for path in sorted(folder.glob("*.checkpoint")):
            others = sorted(folder.glob(f"{path.name.split('-')[0]}-*"))
            others[0].unlink() if len(others) > 1 else None
    return folder


def attempt(kind, seed, home, change=None):
    """Spoil a checkpoint and go on from it; what was said, MB, answers of the model.

    Even seeds damage a file, odd ones write what only a look at its contents can refuse, and
    ``change(source, target)`` whatever it likes.
    """
    rng = np.random.default_rng([seed, 5])
    source = kept(kind, STOPS[kind][seed // 2 % 2], home)
    folder = Path(home) / f"spoilt-{kind}-{seed}"
    shutil.copytree(source, folder)
    names = sorted(path.name for path in source.glob("*.checkpoint"))
    name = names[int(rng.integers(len(names)))]
    if change is not None:
        change(source / names[0], folder / names[0])
    elif seed % 2:
        hostile(source / name, seed, folder / name)
    else:
        content = (source / name).read_bytes()
        (folder / name).write_bytes(DAMAGE[seed // 2 % len(DAMAGE)](content, rng))
    try:
        return going_on(kind, folder)
    finally:
        shutil.rmtree(folder)


def going_on(kind, folder):
    """What is said and done when a fit goes on from this folder."""
    before, model, words = peak(), None, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fitted(kind, folder)
        except orbm.DataError as error:
            words.append(str(error))
    memory = peak() - before
    words += [str(each.message) for each in caught]
    return words, memory, None if model is None else said(model)
