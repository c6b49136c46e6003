"""A command that torchrun has started several times: how its processes find one another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.durations import seconds_of

# What torchrun sets for every process that it starts.
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def own_rank() -> int | None:
    """Which of several processes this is, counted from 0; None if there are no others."""
    if any(not os.environ.get(name, "").isdecimal() for name in _VARIABLES):
        return None
    return _number("RANK") if _number("WORLD_SIZE") > 1 else None


def _number(name: str) -> int:
    return int(os.environ[name])


def own_threads() -> int:
    """As many as the cores of the machine, shared with the other processes on it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) // _number("LOCAL_WORLD_SIZE"))


def read_timeout(text: str) -> timedelta:
    """How long the processes wait for one another, of what stands behind ``--timeout``."""
    seconds = seconds_of(text.strip().lower())
    if not seconds:  # nor do they wait for no time at all
        raise DataError(f"--timeout must be a time such as '30 s', '10 min' or '1 h', not '{text}'.")
    return timedelta(seconds=seconds)


@contextmanager
def process_group(device: str, timeout: timedelta) -> Iterator[None]:
    """A process group of all processes that torchrun has started; nothing if it is one or none.

    A process that does not answer for so long is given up by the others.
    """
    if own_rank() is None:
        yield
        return
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise DataError(
            f"Several processes learn together by torch, and {error.name} is not installed; "
            'pip install "ordinalrbm[distributed]", or start a single process.'
        ) from error
    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(_number("LOCAL_RANK") % torch.cuda.device_count())
    from ordinalrbm.runtime.process_group import with_others

    with_others(_join, dist, "nccl" if on_gpu else "gloo", timeout)
    yield
    # Not after an error: others may wait where this process never comes, and torchrun ends them.
    dist.destroy_process_group()


def _join(dist: Any, backend: str, timeout: timedelta) -> None:
    store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
    # After a restart the store still holds the addresses of those that have ended.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    dist.init_process_group(
        backend,
        store=dist.PrefixStore(f"attempt-{attempt}", store),
        rank=rank,
        world_size=size,
        timeout=timeout,
    )
