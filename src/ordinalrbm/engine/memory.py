"""How much memory a fit will take, and whether it is there: known before an hour is spent.

A peak is a sum of products. Per answer there are views by rows and by columns, 13 bytes together
(`data/observations.py`), and the same once more in the order of the learner; per row and column
what is learnt. How many of these are there at the same time is not seen from the code at once, so
that the numbers below are those of measured peaks (`benchmarks/results/memory.txt` has both).
"""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError, user_stacklevel

# Beyond this share of what is free a fit may fail, or make everything slow: a warning.
_TIGHT = 0.8
# Beyond this multiple it is sure to fail, even if the estimate is a third too high.
_CERTAIN_FAILURE = 1.5


class Size(NamedTuple):
    """What the memory of a fit depends on; rows and columns are users and items for ratings."""

    rows: int
    columns: int
    answers: int
    levels: int
    row_factors: int
    column_factors: int = 0


class Cost(NamedTuple):
    """Bytes that a kind of model takes at its peak, per unit of a `Size`."""

    answer: float
    row_factor: float  # per row and factor; a bias counts as a factor
    column_factor: float
    level: float = 0.0  # per row or column and level
    weight: float = 0.0  # per column, factor and level
    correlation: float = 0.0  # per pair of columns, unless they are too many to start from these


# Per answer, before there is a model of ratings: what reading and ordering take; blocks of fixed size.
_READING, _FIXED = 22.0, 12 * 2**20
# Means, variances and the best of both, and what a half-sweep makes of them, in float32;
# cutpoints and gaps in float64.
_GAUSSIAN = Cost(12.0, 19.0, 19.0, level=66.0)
COSTS = {
    "ordinal_mf": _GAUSSIAN,
    "gaussian_mf": _GAUSSIAN,
    # Weights, sums of squares, chains, the best and the state to go back to; an offset per rating.
    "matrix_crbm": Cost(25.0, 30.0, 30.0, level=85.0),
    # Weights per level, their moments, their average, gradients: eight arrays in float32.
    "multinomial_rbm": Cost(22.0, 7.0, 7.0, weight=30.0),
    # Both views twice, and what a batch leaves; chains, of which rows have bits; weights,
    # gradients, moments, the best and the state to go back to; half a dozen matrices of
    # correlations.
    "survey": Cost(18.0, 4.2, 60.0, correlation=68.0),
}
# Per row and factor of several units, or of more than a byte counts: draws need more room too.
_SEVERAL_UNITS, _MANY_UNITS = 16.2, 25.0
_MOST_CORRELATED = 2000


def needed(kind: str, size: Size, *, n_averaged: int = 1, units: int = 1) -> int:
    """Bytes that learning takes at its peak, beside the data themselves.

    ``kind`` is one of `COSTS`; others are taken to cost what Gaussian factors do. Predictions are
    averaged over ``n_averaged`` epochs, and the factors of a survey have so many ``units``.
    """
    cost = COSTS.get(kind, _GAUSSIAN)
    if units > 1:
        cost = cost._replace(row_factor=_SEVERAL_UNITS if units <= 255 else _MANY_UNITS)
    both, factors = size.rows + size.columns, 1 + size.row_factors + size.column_factors
    correlated = size.columns if size.columns <= _MOST_CORRELATED else 0
    learning = (
        cost.answer * size.answers
        + factors * (cost.row_factor * size.rows + cost.column_factor * size.columns)
        + cost.level * both * size.levels
        + cost.weight * size.columns * factors * size.levels
        + cost.correlation * correlated**2
        # Every averaged epoch is a model more, with variances; they are put in order at the end.
        + (n_averaged - 1) * 3 * both * (4 * factors + 8 * size.levels)
    )
    reading = 0.0 if kind == "survey" else _READING * size.answers
    return int(_FIXED + max(learning, reading))


# Tables on a GPU have rows of a multiple of so many numbers, and rows of answers are cut into pieces
# (`engine/gpu/tables.py`, `pieces.py`).
_MULTIPLE, _PIECE = 16, 256
# Of an answer that is sorted by columns on a GPU: itself, its row, keys and places before and after,
# and itself again.
_TO_TRANSPOSE = 5 + 4 + 2 * (4 + 8) + 5
# A share of what is free is left to kernels, matrix products and gaps between arrays.
_USABLE = 0.85


def on_gpu(size: Size, level_bytes: int = 1) -> int:
    """Bytes that learning Gaussian factors takes on a GPU; factors are those that ratings can tell.

    Measured on ratings of Netflix' shape: 6.2 GB at the peak.
    """
    both, larger = size.rows + size.columns, max(size.rows, size.columns)
    numbers, pieces = 1 + size.row_factors + size.column_factors, size.answers // _PIECE
    table = 4 * -(-numbers // _MULTIPLE) * _MULTIPLE
    return (
        4 * 2**20  # blocks of fixed size
        # Means and variances in float32 now, of the best epoch, and once more while they are rotated;
        # cutpoints, gaps and where they are drawn towards, twice, and variances in float64.
        + both * (3 * 2 * 4 * numbers + 7 * 8 * (size.levels - 1))
        # Tables that a half-sweep makes of the other side; three sums of each piece, and of a row twice.
        + 2 * table * larger
        + 3 * table * (3 * larger + pieces)
        # Which row a piece is of, where it begins and ends; where the pieces of a row begin.
        + 20 * 2 * (both + pieces)
        + 8 * both
        # Column and level, by rows and by columns; two numbers in float32.
        + (2 * (4 + level_bytes) + 2 * 4) * size.answers
    )


def bytes_to_transpose(n_answers: int) -> int:
    """What it takes on a GPU to sort answers by columns, with the answers and the result."""
    return _TO_TRANSPOSE * n_answers


def usable_on_gpu(free: int) -> int:
    return int(_USABLE * free)


def check_on_gpu(ratings: Observations, n_factors: int, usable: int) -> None:
    """Refuse to learn from ratings that do not fit into the memory of a GPU."""
    size = size_of(ratings, n_factors)
    n_bytes = on_gpu(size, ratings.level.itemsize)
    if n_bytes > usable:
        raise DataError(
            f"{_task(size, _OF_RATINGS)} takes about {format_bytes(n_bytes)} of the GPU's memory, and "
            f"only {format_bytes(usable)} can be had; take fewer factors, a GPU with more memory, "
            'several GPUs, or device="cpu".'
        )


def available(root: str = "/") -> int | None:
    """Bytes that this process may still take; None where the system does not say.

    The least of what the computer has free, what is left to a control group (a container, a job of
    a batch system) and what is left below the limit of the process (``ulimit -v``).
    """
    return min(_limits(Path(root)), default=None)


def _limits(root: Path) -> Iterator[int]:
    with suppress(OSError, KeyError, ValueError):
        free = _table(root / "proc/meminfo")
        yield 1024 * (free["MemAvailable"] + free.get("SwapFree", 0))
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            yield from _left_to_group(root / "sys/fs/cgroup", kinds, path)
    yield from _left_to_process(root)


def _left_to_group(base: Path, kinds: str, path: str) -> Iterator[int]:
    """What a control group and those around it leave; the kinds of version 2 have no name."""
    if kinds == "":
        names = ("memory.max", "memory.current", "inactive_file")
    elif "memory" in kinds.split(","):
        base /= "memory"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    else:
        return
    inner = Path(path.lstrip("/"))
    for group in (inner, *inner.parents):
        with suppress(OSError, ValueError):  # "max" is no number, and no limit
            limit, used = (int((base / group / name).read_text()) for name in names[:2])
            # Pages of files that were not read lately are given back when needed.
            idle = _table(base / group / "memory.stat").get(names[2], 0)
            yield max(0, limit - used + idle)


def _left_to_process(root: Path) -> Iterator[int]:
    try:
        import resource
    except ImportError:  # Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    with suppress(OSError, KeyError, ValueError):
        yield max(0, limit - 1024 * _table(root / "proc/self/status")["VmSize"])


def _table(path: Path) -> dict[str, int]:
    """Names and numbers, one pair a line, of a file that the system writes."""
    found = {}
    for line in path.read_text().splitlines():
        name, *rest = line.replace(":", " ").split()
        if rest and rest[0].isdigit():
            found[name] = int(rest[0])
    return found


def check_survey(answers: Observations, n_factors: int, units: int, *, is_latent: bool) -> None:
    """Warn or refuse when there is not the memory to learn from answers; see :func:`check`."""
    size = size_of(answers, n_factors)
    # A missing answer counts like any other when it is integrated over.
    counted = size._replace(answers=size.rows * size.columns) if is_latent else size
    check(needed("survey", counted, units=units), size, ("answers", "rows", "columns"))


class Fit(NamedTuple):
    """What the memory of a fit to ratings depends on, beside the ratings."""

    kind: str
    n_user_factors: int
    n_item_factors: int = 0
    n_averaged: int = 1


def check_ratings(ratings: Observations, *fits: Fit) -> None:
    """Warn or refuse when there is not the memory for some fits to ratings; see :func:`check`."""
    for kind, n_user_factors, n_item_factors, n_averaged in fits:
        size = size_of(ratings, n_user_factors, n_item_factors)
        check(needed(kind, size, n_averaged=n_averaged), size, _OF_RATINGS)


_OF_RATINGS = ("ratings", "users", "items")


def size_of(given: Observations, *n_factors: int) -> Size:
    levels = int(given.n_levels.max(initial=1))
    return Size(given.n_rows, given.n_columns, given.n_entries, levels, *n_factors)


def check(n_bytes: int, size: Size, words: tuple[str, str, str]) -> None:
    """Warn when a fit will hardly find the memory it needs, and refuse when it never will.

    ``words`` are how answers, rows and columns are called.
    """
    free = available()
    if free is None or n_bytes <= _TIGHT * free:
        return
    need, has = format_bytes(n_bytes), format_bytes(free)
    sentence = f"{_task(size, words)} takes about {need} of memory, and only {has} are free"
    remedy = f"take fewer factors or fewer {words[1]}, or a computer with more memory"
    if n_bytes > _CERTAIN_FAILURE * free:
        raise DataError(f"{sentence}; {remedy}.")
    warnings.warn(f"{sentence}; should it fail, {remedy}.", stacklevel=user_stacklevel())


def _task(size: Size, words: tuple[str, str, str]) -> str:
    answers, rows, columns = words
    factors = " + ".join(str(n) for n in (size.row_factors, size.column_factors) if n) or "no"
    return (
        f"Learning {factors} factors from {size.answers:,} {answers} ({size.rows:,} {rows}, "
        f"{size.columns:,} {columns})"
    )


def format_bytes(n_bytes: int) -> str:
    """A number of bytes in a unit of its size."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"
