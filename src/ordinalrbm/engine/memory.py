"""Refuses to learn what cannot fit into memory, before an hour is spent."""

from contextlib import suppress
from pathlib import Path

from ordinalrbm.data.observations import Observations
from ordinalrbm.errors import DataError

# Limits of containers and batch jobs: control groups of version 2 and of version 1.
_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")


def available(root: str = "/") -> int | None:
    """Bytes that are free, at most those that a container may have; None where the system does not say."""
    limits = []
    with suppress(OSError, KeyError):
        sizes = dict(line.split()[:2] for line in Path(root, "proc/meminfo").read_text().splitlines())
        limits.append(1024 * (int(sizes["MemAvailable:"]) + int(sizes["SwapFree:"])))
    for name in _LIMITS:
        with suppress(OSError, ValueError):  # "max" is no number, and no limit
            limits.append(int(Path(root, name).read_text()))
    return min(limits, default=None)


def check(data: Observations, numbers: int, free: int | None) -> None:
    """Raise DataError if both views of the answers and the parameters alone do not fit.

    There are so many 32-bit ``numbers`` per row and column.
    """
    needed = 13 * data.n_entries + 4 * numbers * (data.n_rows + data.n_columns)
    if free is not None and needed > free:
        raise DataError(
            f"Learning from {data.n_entries:,} answers ({data.n_rows:,} rows, {data.n_columns:,} columns) "
            f"takes at least {format_bytes(needed)} of memory, and only {format_bytes(free)} are free; take "
            "fewer factors or fewer rows, or a device with more memory."
        )


def format_bytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"
