"""What a long call spends its time on, stage by stage, in the log ``ordinalrbm.stages``."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger("ordinalrbm.stages")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Log the time of what is done inside; stages do not contain stages."""
    begun = time.perf_counter()
    yield
    _log.info("%s: %.2f s", name, time.perf_counter() - begun)
