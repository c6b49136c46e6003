"""Thousands of spoilt checkpoints: a fit refuses them, does without them, or ends in good order.

ORDINALRBM_LONG=1 tries 2,000 of each learner.
"""

from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
from long_form import LONG
from spoilt_checkpoints import MODELS, attempt, going_on, kept, truth
from stored_models import parts, rewritten

N_EACH = 2000 if LONG else 10
MOST_MEMORY = 200.0  # MB

every_kind = pytest.mark.parametrize("kind", MODELS)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def elsewhere(another_process, home):
    """It has gone on from good checkpoints before."""
    for kind in MODELS:
        for seed in (0, 2):
            words, *_, answers = another_process.submit(attempt, kind, seed, home, unchanged).result()
            assert not words
            assert same(answers, another_process.submit(truth, kind).result())
    return another_process


def unchanged(source, target):
    assert target.read_bytes() == source.read_bytes()


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def assert_is_a_sentence(text):
    assert text.endswith(".")
    assert "\n" not in text
    assert ". " not in text
    assert len(text) < 900


def outcome(elsewhere, kind, seed, home, *change):
    """What was said, and the answers of the model if there is one; within memory."""
    try:
        words, memory, answers = elsewhere.submit(attempt, kind, seed, home, *change).result(timeout=120)
    except BrokenProcessPool:
        pytest.fail(f"checkpoint {seed} of {kind} ended the process")
    except Exception as error:
        raise AssertionError(f"checkpoint {seed} of {kind}") from error
    for text in words:
        assert_is_a_sentence(text)
    assert memory < MOST_MEMORY, seed
    assert words or answers
    return words, memory, answers


@every_kind
def test_spoilt_checkpoints(kind, elsewhere, home):
    """Damage is noticed and changes nothing; of what is hostile no nonsense is learnt."""
    expected = elsewhere.submit(truth, kind).result()
    n_refused, most = 0, 0.0
    for seed in range(N_EACH):
        words, memory, answers = outcome(elsewhere, kind, seed, home)
        most = max(most, memory)
        if seed % 2 == 0:
            assert answers is not None and same(answers, expected), seed
        n_refused += bool(words)
        for part in answers or ():
            assert np.isfinite(np.asarray(part, dtype=float)).all(), seed
    print(f"{kind}: {N_EACH} spoilt, {n_refused} noticed, {most:.0f} MB at most")
    assert n_refused > N_EACH / 2


@every_kind
def test_a_checkpoint_may_end_nowhere_else(kind, elsewhere, home):
    """Cut at the beginning and the end of every part: learning begins anew, to the same end."""
    source = min(kept(kind, 2, home).glob("*.checkpoint"))
    front, data = parts(source.read_bytes())
    end = source.stat().st_size - len(data)
    places = {0, 8, end} | {
        end + place["data_offsets"][0] for name, place in front.items() if name != "__metadata__"
    }
    places.discard(source.stat().st_size)  # where the last array is empty
    expected = elsewhere.submit(truth, kind).result()
    for place in sorted(places) if LONG else sorted(places)[:6]:
        words, *_, answers = outcome(elsewhere, kind, 0, home, Cut(place))
        assert "is damaged" in words[0] and "begins anew" in words[0]
        assert same(answers, expected)


class Cut:
    """A change that can be sent to another process."""

    def __init__(self, place):
        self.place = place

    def __call__(self, source, target):
        target.write_bytes(source.read_bytes()[: self.place])


def put(name, place, value):
    def change(arrays, header):
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return change


# Kernels would read outside of their arrays, or learning would never end, or in nonsense.
DANGEROUS = {
    "levels beyond the data": ("vector", put("model.n_levels", 0, 50), "levels than"),
    "more units": ("vector", put("model.units", 0, 9000), "model.units"),
    "not a number": ("vector", put("model.weights", (0, 0), np.nan), "model.weights"),
    "shares of styles": ("vector", put("best.style_weights", 0, 0.9), "add up to one"),
    "factors beyond their units": ("vector", put("clamped", (0, 0), 5), "clamped"),
    "slowed a million times": ("vector", put("n_slowed", 0, 10**6), "n_slowed"),
    "slowed less than never": ("binary", put("n_slowed", 0, -1), "n_slowed"),
    "squares below zero": ("vector", put("moments.second.bias", 0, -1), "moments.second"),
    "sums of nothing": ("binary", put("sums.0.weights", (0, 0), 0), "sums.0.weights"),
    "variance below zero": ("gaussian", put("gaussian.rows.variance", 0, -1), "rows.variance"),
    "gaps of other cutpoints": ("gaussian", put("best.rows.gaps", (0, 1), 9), "rows.gaps"),
    "cutpoints beyond numbers": ("gaussian", put("best.rows.cutpoints", 0, 41), "cutpoints"),
    "no precision": ("gaussian", put("gaussian.row_prior.precision", 1, 0), "precision"),
    "precision below zero": ("binary", put("priors.0.weights", 0, -3), "below zero"),
    "an epoch below zero": ("gaussian", put("history.epoch", 0, -1), "count the epochs"),
    "epochs out of order": ("binary", put("history.epoch", 1, 10**9), "count the epochs"),
    "nothing held out": ("binary", put("history.validation", 0, np.nan), "history.validation"),
}


@pytest.mark.parametrize("size", [-800.0, -20.0, 20.0])
def test_strange_cutpoints_predict_something(size, home, tmp_path):
    (source,) = kept("gaussian", 3, home).glob("*.checkpoint")

    def change(arrays, header):
        for name in arrays:
            if name.startswith("last.") and name.endswith(".cutpoints"):
                arrays[name] = np.full_like(arrays[name], size)

    rewritten(source, tmp_path / source.name, change)
    words, *_, answers = going_on("gaussian", tmp_path)
    assert not words
    assert all(np.isfinite(part.astype(float)).all() for part in answers)


def changed(name, change):
    def changes(arrays, header):
        arrays[name] = change(arrays[name])

    return changes


def longer_history(arrays, header):
    for name in [name for name in arrays if name.startswith("history.")]:
        arrays[name] = np.concatenate([arrays[name], arrays[name][-1:] + (name[8:] == "epoch")])


def no_history(arrays, header):
    for name in [name for name in arrays if name.startswith("history.")]:
        arrays[name] = arrays[name][:0]


DANGEROUS |= {
    "chains too short": ("binary", changed("clamped.0", lambda a: a[:-1]), "clamped.0"),
    "chains too long": ("binary", changed("free.1", lambda a: np.append(a, a)), "free.1"),
    "chains of another type": ("binary", changed("clamped.0", np.float64), "clamped.0"),
    "a history that is longer": ("gaussian", longer_history, "history"),
    "no history": ("gaussian", no_history, "history"),
    "one history column shorter": ("vector", changed("history.seconds", lambda a: a[:-1]), "history.seconds"),
    "a part is gone": ("vector", lambda arrays, header: arrays.pop("free"), "'free'"),
}


@pytest.mark.parametrize("case", DANGEROUS)
def test_dangerous_contents_are_refused(case, home, tmp_path):
    kind, change, expected = DANGEROUS[case]
    (source,) = kept(kind, 2, home).glob("*.checkpoint")
    rewritten(source, tmp_path / source.name, change)
    (words,), *_, answers = going_on(kind, tmp_path)
    assert answers is None
    assert_is_a_sentence(words)
    assert "cannot be used" in words and "remove it" in words and expected in words


SAYINGS = {
    "seed": -1,
    "seed ": 2**40,
    "seed  ": "x",
    "seed   ": None,
    "seed    ": True,
    "epoch": -3,
    "epoch ": 10**30,
    "epoch  ": "2",
    "part": "binary",
    "finished": 7,
    "identity": [],
    "settings": 3,
    "counts": None,
    "release": 1,
}


@pytest.mark.parametrize("case", SAYINGS)
def test_what_it_says_of_itself_makes_sense(case, home, tmp_path):
    name, value = case.strip(), SAYINGS[case]

    def change(arrays, header):
        about = header["checkpoint"]
        inside = about if name in about else about["identity"]
        inside = inside["settings"] if name == "seed" else inside
        inside[name] = value

    (source,) = kept("vector", 2, home).glob("*.checkpoint")
    rewritten(source, tmp_path / source.name, change)
    (words,), *_ = going_on("vector", tmp_path)
    assert_is_a_sentence(words)
    assert "is damaged" in words or "cannot be used" in words
