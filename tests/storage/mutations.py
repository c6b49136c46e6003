"""Ways to spoil a model file, each named by a seed, and what becomes of loading it.

`attempt` runs in a process of its own, so that a crash is seen and named.
"""

import copy
import resource
from pathlib import Path

import numpy as np
from questions import faults
from stored_models import parts, rewritten, sealed

import ordinalrbm as orbm
from ordinalrbm.storage import container

NUMBERS = [0, 1, -1, 2, 7, 127, 128, 2**15, 2**31 - 1, 2**31, 2**40, 2**62, 2**63, 2**64, 10**30]
LISTS = [[], [[]], [1, 2], ["a", "b"], [1, "a"], [None], {}, {"a": 1}]
WORDS = ["", "x", "ä" * 500, "variational", "mcmc", "latent"]
VALUES = [None, True, False, *NUMBERS, 10**400, 0.0, 0.5, -1.5, 1e308, 5e-324, *WORDS, *LISTS]
KINDS = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"]


# ---- bytes that no longer agree with their checksums --------------------------------------------


def flipped(content, rng):
    """One bit is another."""
    spoilt = bytearray(content)
    spoilt[rng.integers(len(content))] ^= 1 << rng.integers(8)
    return bytes(spoilt)


def cut(content, rng):
    """The end is missing: from the border of a part or near it, or from anywhere."""
    front, _ = parts(content)
    end = 8 + int.from_bytes(content[:8], "little")
    borders = [0, 1, 7, 8, 9, end - 1, end]
    for name, said_of in front.items():
        if name != "__metadata__":
            borders += [end + said_of["data_offsets"][1] - 1, end + said_of["data_offsets"][0]]
    place = rng.choice(borders) if rng.random() < 0.5 else rng.integers(len(content))
    return content[: int(place)]


def swapped(content, rng):
    """Two blocks of equal length in each other's place."""
    length = int(rng.integers(1, 65))
    first, second = np.sort(rng.choice(len(content) // length, 2, replace=False)) * length
    a, b = content[first : first + length], content[second : second + length]
    return content[:first] + b + content[first + length : second] + a + content[second + length :]


def filled(content, rng):
    """A block of zeros or of anything."""
    start = int(rng.integers(len(content)))
    length = int(rng.integers(1, 65))
    block = bytes(length) if rng.random() < 0.5 else rng.bytes(length)
    return content[:start] + block + content[start + length :]


def longer(content, rng):
    """Something more, somewhere."""
    start = int(rng.integers(len(content) + 1))
    return content[:start] + rng.bytes(int(rng.integers(1, 65))) + content[start:]


DAMAGE = [flipped, flipped, cut, swapped, filled, longer]


# ---- what somebody hostile would write, checksums and all ---------------------------------------


def _pick(rng, among):
    return among[int(rng.integers(len(among)))]


def absurd_front(content, rng):
    """What the file says about the type, shape or place of an array makes no sense."""
    front, data = parts(content)
    name = _pick(rng, [name for name in front if name != "__metadata__"])
    place = front[name]
    what = _pick(rng, ["shape", "shape", "shape", "data_offsets", "dtype", "gone", "whole"])
    if what == "gone":
        del front[name]
    elif what == "whole":
        front[name] = _pick(rng, VALUES)
    elif what == "dtype":
        place[what] = _pick(rng, [*container.TYPES, "BF16", "F8_E4M3", "object", 4])
    elif rng.random() < 0.3 or not place[what]:
        place[what] = [_pick(rng, NUMBERS) for _ in range(int(rng.integers(0, 40)))]
    else:
        place[what][int(rng.integers(len(place[what])))] = _pick(rng, VALUES)
    return sealed(front, data)


def _numbers(array, rng):
    """Some numbers, or all, are others."""
    array = array.copy()
    if not array.size:
        return array
    where = rng.random(array.shape) < _pick(rng, [0.05, 0.5, 1.0])
    where.flat[int(rng.integers(array.size))] = True
    if array.dtype.kind == "f":
        value = _pick(rng, [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e300, 0.0, -1.0, 50.0, -800.0])
    elif array.dtype.kind == "b":
        value = ~array[where]
    else:
        limits = np.iinfo(array.dtype)
        near = array[where].astype(object) + _pick(rng, [-1, 1, 3])
        least, most = int(array.min()), int(array.max())
        value = _pick(rng, [limits.min, limits.max, -1, 0, 1, least, most, most + 1, near])
        value = np.clip(np.asarray(value, dtype=object), limits.min, limits.max)
    with np.errstate(over="ignore"):
        array[where] = np.asarray(value, dtype=object).astype(array.dtype)
    return array


def _form(array, rng):
    """Another shape or type."""
    way = int(rng.integers(9))
    if way == 0:
        with np.errstate(all="ignore"):
            return np.nan_to_num(array).astype(_pick(rng, KINDS))
    if way == 1:
        return array.reshape(-1)
    if way == 2:
        return array[None]
    if way == 3:
        return np.ascontiguousarray(array.T)
    if way == 4:
        return array[: int(rng.integers(array.shape[0] + 1))]
    if way == 5:
        return np.concatenate([array, array[-1:]])
    if way == 6:
        return array[..., :0]
    if way == 7:
        return rng.permutation(array)
    return np.zeros((0, 2**30), dtype=array.dtype)


def other_array(arrays, header, rng):
    """One array is gone, is another, or is in excess."""
    name = _pick(rng, sorted(arrays))
    way = rng.random()
    if way < 0.05:
        del arrays[name]
    elif way < 0.1:
        arrays[f"{name}.more"] = arrays[name]
    elif way < 0.2:
        arrays[name] = arrays[_pick(rng, sorted(arrays))]
    else:
        arrays[name] = (_numbers if way < 0.65 else _form)(arrays[name], rng)


def other_header(arrays, header, rng):
    """Something in the header is gone or is something else."""
    inside = header
    names = [name for name in header if name not in ("format", "release")]
    key = _pick(rng, names)
    while isinstance(inside[key], dict | list) and inside[key] and rng.random() < 0.8:
        inside = inside[key]
        key = _pick(rng, sorted(inside) if isinstance(inside, dict) else range(len(inside)))
    way = rng.random()
    if way < 0.15:
        del inside[key]
    elif way < 0.3 and isinstance(inside, list):
        inside.insert(int(rng.integers(len(inside) + 1)), copy.deepcopy(inside[key]))
    elif way < 0.4 and isinstance(inside, dict):
        inside["more"] = _pick(rng, VALUES)
    else:
        inside[key] = copy.deepcopy(_pick(rng, VALUES))


def hostile(source, seed, target):
    """Write a file that only a look at its contents can refuse."""
    rng = np.random.default_rng([seed, 17])
    way = rng.random()
    if way < 0.25:
        target.write_bytes(absurd_front(source.read_bytes(), rng))
        return
    change = other_array if way < 0.7 else other_header
    rewritten(source, target, lambda arrays, header: change(arrays, header, rng))


# ---- what becomes of it -------------------------------------------------------------------------


def peak():
    """The most memory this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def attempt(path):
    """Load a file and ask the model; what was said if it was refused, and MB that loading took."""
    before = peak()
    try:
        model, refusal = orbm.load(path), None
    except orbm.DataError as error:
        model, refusal = None, str(error)
    memory = peak() - before
    if model is not None:
        # Scales may be such that the questions are not on them.
        assert faults(model, may_refuse=True) == []
    return refusal, memory


def attempt_hostile(source, seed, folder):
    """The same of the hostile file with this seed."""
    target = Path(folder) / f"{seed}-{Path(source).name}"
    hostile(source, seed, target)
    found = attempt(target)
    target.unlink()
    return found
