"""Model files with right checksums and wrong contents: every array, every kind of absurd number.

`cases` lists them all, in an order that does not change; `outcome` tells what becomes of one.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from questions import faults
from stored_models import file_of, rewritten

import ordinalrbm as orbm
from ordinalrbm.storage import model_file

# Besides what no check could let pass, numbers at the bounds of what readers take.
SIZES = (np.inf, 1e30, 1e300, 1e6, 1e4, 300.0, 40.0, 1.0)
NUMBERS = (np.nan, *SIZES, *(-size for size in SIZES), 0.0, 1e-30, 1e-9, 1e-5, 65504.0, 3e38)
EXTENTS = ("entry", "row", "all")


class Change(NamedTuple):
    """One array in which one entry, one row or everything is another number."""

    array: str
    value: float | int
    extent: str

    def applied(self, array, rng):
        """The array, changed; where the entry or row is, is drawn."""
        array = array.copy()
        with np.errstate(over="ignore"):
            value = np.array(self.value).astype(array.dtype)
        if self.extent == "all":
            array[...] = value
        elif self.extent == "row":
            array[rng.integers(len(array))] = value
        else:
            array.reshape(-1)[rng.integers(array.size)] = value
        return array


def cases(kind, n):
    """The first n cases of a kind: (number, changes).

    Every array with every number in every extent comes first, then pairs of these, at random.
    """
    single = _single_changes(kind)
    found = [(k, (change,)) for k, change in enumerate(single[:n])]
    rng = np.random.default_rng(len(single))
    for k in range(len(found), n):
        one, other = rng.integers(len(single), size=2)
        found.append((k, (single[one], single[other])))
    return found


def some_cases(kind, n):
    """About n cases of a kind, spread over all arrays, and as many pairs as a third of these."""
    n_single = len(_single_changes(kind))
    every = cases(kind, n_single + n // 3)
    step = max(1, n_single // (n - n // 3))
    # A step that shares no factor with the numbers tried meets all of them.
    return [*every[: n_single : step + (step % 3 == 0)], *every[n_single:]]


def _single_changes(kind):
    arrays, _ = model_file.read(file_of(kind))
    return [
        Change(name, value, extent)
        for name, array in sorted(arrays.items())
        if array.size
        for value in _values_for(array)
        for extent in EXTENTS
        if extent != "row" or array.ndim > 1
    ]


def _values_for(array):
    """Numbers that this array can hold, each once."""
    if array.dtype.kind == "b":
        return [0, 1]
    if array.dtype.kind in "iu":
        limits, most = np.iinfo(array.dtype), int(array.max())
        wanted = [-1, 0, 1, most + 1, most + 1000, limits.max, limits.min]
        return sorted({value for value in wanted if limits.min <= value <= limits.max})
    largest = float(np.finfo(array.dtype).max)
    return [value for value in NUMBERS if not np.isfinite(value) or abs(value) <= largest]


def write(source, case, path):
    """Write a file like the source, changed as the case says."""
    number, changes = case

    def change(arrays, header):
        rng = np.random.default_rng([number, 23])
        for one in changes:
            arrays[one.array] = one.applied(arrays[one.array], rng)

    rewritten(source, path, change)


# ---- what becomes of it -------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What was said when a file was refused, or else what was wrong with the model's answers."""

    refusal: str | None
    faults: list[str]


def outcome(source, case, folder, *, all_questions=True):
    """Write the file of a case, load it and ask the model everything, or a part that is drawn."""
    turn = None if all_questions else int(np.random.default_rng([case[0], 5]).integers(1000))
    path = Path(folder) / "contents.orbm"
    write(source, case, path)
    try:
        model = orbm.load(path)
    except orbm.DataError as error:
        return Outcome(str(error), [])
    except Exception as error:
        return Outcome(None, [f"load: {type(error).__name__}: {error}"])
    return Outcome(None, faults(model, turn=turn))
