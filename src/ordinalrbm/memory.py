"""How much memory a fit will take, and whether it is there: known before an hour is spent.

Peaks are sums of a few products. Per answer there are views by rows and by columns (13 bytes, see
`data/observations.py`) in two or three orders, and one or two numbers that a pass leaves; per row
and per column there are factors, weights and whatever a learner keeps of them: sums of squares,
variances, the best epoch so far, the state to go back to. The numbers below are these counts, and
`benchmarks/memory.py` puts them beside measured peaks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError

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
    """Bytes per answer, per row or column and factor, and per row or column and level.

    ``of_rows`` and ``of_columns`` are multiplied by all factors, those of rows and of columns.
    """

    answer: float
    of_rows: float
    of_columns: float
    level: float


# Of ratings: both views in the order of the learner and in that of the ids, one in between, and
# (binary) an offset, or (baselines, in float64) a value and a weight per rating and view.
# Rows and columns: see the arrays of each learner, float32 (baselines float64), in as many copies
# as there are at the peak: the current and the best, what an epoch makes of them, what is saved.
COSTS = {
    "continuous": Cost(45.0, 36.0, 36.0, 120.0),
    "binary": Cost(45.0, 30.0, 30.0, 120.0),
    "gaussian_mf": Cost(100.0, 60.0, 60.0, 0.0),
    "ordinal_mf": Cost(100.0, 60.0, 60.0, 100.0),
    "multinomial_rbm": Cost(40.0, 8.0, 40.0, 0.0),
}


def of_ratings(kind: str, size: Size, n_averaged: int = 1) -> int:
    """Bytes that learning from ratings takes at its peak, beside the ratings themselves.

    Examples
    --------
    >>> films = Size(rows=6_000, columns=4_000, answers=10**6, levels=5, row_factors=50)
    >>> 30 < of_ratings("continuous", films) / 2**20 < 100
    True
    """
    if kind == "mixed":  # one after the other; the first leaves its model
        return max(of_ratings(part, size, n_averaged) for part in ("continuous", "binary"))
    cost = COSTS[kind]
    factors = 1 + size.row_factors + size.column_factors
    return int(
        cost.answer * size.answers
        + factors * (cost.of_rows * size.rows + cost.of_columns * size.columns)
        + size.levels * cost.level * (size.rows + size.columns)
    )


def of_survey(size: Size, units: int, *, is_latent: bool) -> int:
    """Bytes that learning from a survey takes at its peak, beside the table itself."""
    answers = size.rows * size.columns if is_latent else size.answers
    return int(26 * answers + 4 * size.rows * size.row_factors)


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
    size = _size(answers, n_factors)
    check(of_survey(size, units, is_latent=is_latent), size, ("answers", "rows", "columns"))


def check_ratings(
    kind: str,
    ratings: Observations,
    n_user_factors: int,
    n_item_factors: int = 0,
    n_averaged: int = 1,
) -> None:
    """Warn or refuse when there is not the memory to learn from ratings; see :func:`check`."""
    size = _size(ratings, n_user_factors, n_item_factors)
    check(of_ratings(kind, size, n_averaged), size, ("ratings", "users", "items"))


def _size(given: Observations, *n_factors: int) -> Size:
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
    answers, rows, columns = words
    factors = " + ".join(str(n) for n in (size.row_factors, size.column_factors) if n) or "no"
    told = (
        f"Learning {factors} factors from {size.answers:,} {answers} ({size.rows:,} {rows}, "
        f"{size.columns:,} {columns}) takes about {in_words(needed)} of memory, and only "
        f"{in_words(free)} are free"
    )
    remedy = f"take fewer factors or fewer {rows}, or a machine with more memory"
    if needed > _HOPELESS * free:
        raise DataError(f"{told}; {remedy}.")
    warnings.warn(f"{told}; should it fail, {remedy}.", stacklevel=4)


def in_words(n_bytes: int) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> in_words(3_400_000), in_words(12_345_678_901)
    ('3 MB', '12.3 GB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"
