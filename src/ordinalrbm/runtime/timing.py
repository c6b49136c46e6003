"""What a long call spends its time on, stage by stage: logged, and kept inside `timings`; lengths of time."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_log = logging.getLogger("ordinalrbm.stages")
_kept: ContextVar[dict[str, float] | None] = ContextVar("kept", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Log the time of what is done inside, and add it to `timings`; stages do not contain stages."""
    begun = time.perf_counter()
    yield
    seconds, kept = time.perf_counter() - begun, _kept.get()
    _log.info("%s: %.2f s", name, seconds)
    if kept is not None:
        kept[name] = kept.get(name, 0.0) + seconds


@contextmanager
def timings() -> Iterator[dict[str, float]]:
    """Seconds of each stage that is passed inside, in their order."""
    found: dict[str, float] = {}
    before = _kept.set(found)
    try:
        yield found
    finally:
        _kept.reset(before)


def seconds_of(text: str) -> float | None:
    """How long "30 s", "5 min" or "1 h" is; None if it is no length of time with a unit."""
    import pandas as pd

    try:
        # Without a unit these would be nanoseconds.
        seconds = pd.Timedelta(text).total_seconds() if text[-1:].isalpha() else -1.0
    except ValueError:
        return None
    return seconds if seconds >= 0.0 else None  # which "nat" is not
