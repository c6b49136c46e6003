"""How much memory a fit will take, and whether it is there: known before an hour is spent.

A peak is a sum of products. Per answer there are views by rows and by columns, 13 bytes together
(`data/observations.py`), the same once more in the order of the learner, and what a pass leaves.
Per row and per column there are factors, weights and what a learner keeps of them: variances or
sums of squares, the best epoch so far, the state to go back to. How many of these are there at the
same time is not seen from the code at once, so that the numbers below are those of measured peaks
(`benchmarks/memory.py` has both, side by side).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError, user_stacklevel

# Beyond this share of what is free a fit may fail, or make everything slow: that is said.
_TIGHT = 0.8
# Beyond this multiple it is sure to fail, even if the estimate is a third too high.
_HOPELESS = 1.5


class Size(NamedTuple):
    """What the memory of a fit depends on; rows and columns are users and items for ratings."""

    rows: int
    columns: int
    answers: int
    levels: int
    row_factors: int
    column_factors: int = 0


class Cost(NamedTuple):
    """Bytes per answer; per row or column and factor; per row or column and level.

    ``weight`` is per column, factor and level, for models that have such weights.
    """

    answer: float
    factor: float
    level: float
    weight: float = 0.0


# Means, variances and the best of both, and what a half-sweep makes of them, in float32; cutpoints
# and gaps in float64.
_GAUSSIAN = Cost(16.0, 19.0, 66.0)
COSTS = {
    "ordinal_mf": _GAUSSIAN,
    "gaussian_mf": _GAUSSIAN,
    # Weights, sums of squares, chains, the best and the state to go back to; an offset per rating.
    "matrix_crbm": Cost(28.0, 30.0, 85.0),
    # Weights per level, their moments, their average, gradients: eight arrays in float32.
    "multinomial_rbm": Cost(27.0, 7.0, 0.0, 30.0),
}
# Reading ratings and putting them into the order of the learner: per rating, before there is a
# model.
_ARRANGING = 28.0
# Blocks of fixed size.
_FIXED = 4 * 2**20


def of_ratings(kind: str, size: Size, n_averaged: int = 1) -> int:
    """Bytes that learning from ratings takes at its peak, beside the ratings themselves.

    Examples
    --------
    >>> films = Size(6_000, 4_000, 10**6, levels=5, row_factors=50, column_factors=50)
    >>> 30 < of_ratings("ordinal_mf", films) / 2**20 < 60
    True
    """
    both = size.rows + size.columns
    factors = 1 + size.row_factors + size.column_factors
    model = both * (4 * factors + 8 * size.levels)
    cost = COSTS[kind]
    learning = cost.answer * size.answers + both * (
        cost.factor * factors + cost.level * size.levels
    )
    learning += cost.weight * size.columns * factors * size.levels
    # Every averaged epoch is a model more, with variances, and they are put in order at the end.
    learning += (n_averaged - 1) * 3 * model
    return int(_FIXED + max(learning, _ARRANGING * size.answers))


# Of surveys: both views twice, and what a batch leaves.
_OF_ANSWER = 18.0
# Chains and their state to go back to, which is bits for factors of one unit, and bytes or pairs
# of bytes for those of many, whose draws need more room too.
_OF_CHAIN = (4.2, 16.2, 25.0)
# Weights, gradients, moments, the best and the state to go back to.
_OF_WEIGHT = 60.0
# Learning starts from correlations, unless there are too many columns; half a dozen matrices.
_OF_CORRELATION, _MOST_CORRELATED = 68.0, 2000
# What is watched are some thousand rows; tables of counts come in blocks.
_FIXED_OF_SURVEY = 12 * 2**20


def of_survey(size: Size, units: int, *, is_latent: bool) -> int:
    """Bytes that learning from a survey takes at its peak, beside the table itself.

    Examples
    --------
    >>> survey = Size(100_000, 80, 8 * 10**6, levels=5, row_factors=50)
    >>> 100 < of_survey(survey, 1, is_latent=False) / 2**20 < 300
    True
    """
    # An answer that nobody has given is one all the same when it is integrated over.
    answers = size.rows * size.columns if is_latent else size.answers
    correlated = size.columns if size.columns <= _MOST_CORRELATED else 0
    return int(
        _FIXED_OF_SURVEY
        + _OF_ANSWER * answers
        + _OF_CHAIN[(units > 1) + (units > 255)] * size.rows * size.row_factors
        + _OF_WEIGHT * size.columns * size.row_factors
        + _OF_CORRELATION * correlated**2
    )


# On a GPU


class OnGpu(NamedTuple):
    """Bytes on a GPU while continuous factors are learnt: what stays, and what comes and goes.

    What comes and goes is per answer, per piece of a row (of at most 256 answers) and per row that
    are on the device together: all of a view, or a block of its rows.
    """

    stays: int
    answer: int
    piece: int
    row: int


# Numbers of each row and column in float32: means and variances now, of the best epoch, and once
# more while they are turned; of their steps in float64: steps, widths and where they are drawn
# towards, now and of the best epoch, and variances.
_COPIES, _STEPS = 3, 7
# Tables of means and variances that a half-sweep makes of the party that rows face.
_TABLES = 2
# Sums that a half-sweep keeps of a piece, and of a row twice.
_SUMS = 3
# Which row a piece is of, where it begins and ends; where the pieces of a row begin.
_OF_PIECE, _OF_ROW = 20, 8
# Tables have rows of a multiple of so many numbers; see `engine/gpu/tables.py`.
_MULTIPLE, _PIECE = 16, 256
# A share of what is free is left to kernels, matrix products and gaps between arrays.
_USABLE = 0.85


def on_gpu(size: Size, level_bytes: int = 1) -> OnGpu:
    """What learning continuous factors takes on a GPU; factors are those that ratings can tell.

    Measured on ratings of Netflix' shape: 6.2 GB at the peak.

    Examples
    --------
    >>> films = Size(480_189, 17_770, 100_000_000, levels=5, row_factors=100)
    >>> need = on_gpu(films)
    >>> pieces = films.rows + films.answers // 256
    >>> whole = need.answer * films.answers + need.piece * pieces + need.row * films.rows
    >>> 5.5e9 < need.stays + whole < 6.5e9
    True
    """
    both = size.rows + size.columns
    numbers = 1 + size.row_factors + size.column_factors
    table = -(-numbers // _MULTIPLE) * _MULTIPLE
    pieces = 2 * (both + size.answers // _PIECE)
    stays = (
        _FIXED
        + both * (_COPIES * 2 * 4 * numbers + _STEPS * 8 * (size.levels - 1))
        + _TABLES * 4 * table * max(size.rows, size.columns)
        + _OF_PIECE * pieces
        + _OF_ROW * both
    )
    # Column and level, by rows and by columns or in two buffers; two numbers in float32.
    answer = 2 * (4 + level_bytes) + 2 * 4
    return OnGpu(stays, answer, _SUMS * 4 * table, 2 * _SUMS * 4 * table)


def usable_on_gpu(free: int) -> int:
    """How much of the free memory of a GPU may be planned with."""
    return int(_USABLE * free)


def refuse_on_gpu(size: Size, needed: int, usable: int) -> None:
    """Say that a GPU is too small even if ratings come to it a few at a time."""
    raise DataError(
        f"{_task(size, _OF_RATINGS)} takes about {in_words(needed)} of the GPU's memory even if "
        f"ratings are streamed, and only {in_words(usable)} can be had; take fewer factors, a GPU "
        'with more memory, or device="cpu".'
    )


# What there is


def available(root: str = "/") -> int | None:
    """Bytes that this process may still take; None where the system does not say.

    The least of what the machine has free, what is left to a control group (a container, a job of
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
            # Pages of files that nobody has asked for lately are given back when needed.
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


# What is said


def check_survey(answers: Observations, n_factors: int, units: int, *, is_latent: bool) -> None:
    """Warn or refuse when there is not the memory to learn from answers; see :func:`check`."""
    size = size_of(answers, n_factors)
    check(of_survey(size, units, is_latent=is_latent), size, ("answers", "rows", "columns"))


class Fit(NamedTuple):
    """What the memory of a fit to ratings depends on, beside the ratings."""

    kind: str
    n_user_factors: int
    n_item_factors: int = 0
    n_averaged: int = 1


def check_ratings(ratings: Observations, *fits: Fit) -> None:
    """Warn or refuse when there is not the memory for some fits to ratings; see :func:`check`."""
    for fit in fits:
        size = size_of(ratings, fit.n_user_factors, fit.n_item_factors)
        check(of_ratings(fit.kind, size, fit.n_averaged), size, _OF_RATINGS)


_OF_RATINGS = ("ratings", "users", "items")


def size_of(given: Observations, *n_factors: int) -> Size:
    """What the memory of learning from these depends on."""
    levels = int(given.n_levels.max(initial=1))
    return Size(given.n_rows, given.n_columns, given.n_entries, levels, *n_factors)


def check(needed: int, size: Size, words: tuple[str, str, str]) -> None:
    """Warn when a fit will hardly find the memory it needs, and refuse when it never will.

    Parameters
    ----------
    needed : bytes
    size : what the fit is about
    words : how answers, rows and columns are called

    Raises
    ------
    DataError
        When the need is clearly more than there is.
    """
    free = available()
    if free is None or needed <= _TIGHT * free:
        return
    told = (
        f"{_task(size, words)} takes about {in_words(needed)} of memory, and only "
        f"{in_words(free)} are free"
    )
    remedy = f"take fewer factors or fewer {words[1]}, or a machine with more memory"
    if needed > _HOPELESS * free:
        raise DataError(f"{told}; {remedy}.")
    warnings.warn(f"{told}; should it fail, {remedy}.", stacklevel=user_stacklevel())


def _task(size: Size, words: tuple[str, str, str]) -> str:
    answers, rows, columns = words
    factors = " + ".join(str(n) for n in (size.row_factors, size.column_factors) if n) or "no"
    return (
        f"Learning {factors} factors from {size.answers:,} {answers} ({size.rows:,} {rows}, "
        f"{size.columns:,} {columns})"
    )


def in_words(n_bytes: int) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> in_words(3_400_000), in_words(12_345_678_901)
    ('3 MB', '12.3 GB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"
