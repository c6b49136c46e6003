"""The GPU to work on, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Thread
from typing import Any

from ordinalrbm.errors import DataError


def torch_device(name: str) -> Any:
    """The torch device of a name such as "cuda" or "cuda:1"; a DataError if something is missing."""
    try:
        import torch
        import triton
    except ImportError as error:
        raise DataError(
            f"device='{name}' needs torch and Triton, and {error.name} is not installed; "
            'pip install "ordinalrbm[gpu]", or use device="cpu".'
        ) from error
    if triton.knobs.runtime.interpret:  # kernels run on the host, which is how they are tested
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise DataError(
            f"device='{name}' was asked for, but torch {torch.__version__} finds no GPU; install a "
            'driver and a torch for it, or use device="cpu".'
        )
    device = torch.device(name)
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise DataError(
            f"device='{name}' was asked for, but there are {torch.cuda.device_count()} GPUs, "
            "counted from 0; give one of these."
        )
    return device


def free_memory(device: Any) -> int | None:
    """Bytes that are free on a GPU, or kept by torch for reuse; None if it is no GPU."""
    import torch

    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def working_on(device: Any) -> AbstractContextManager:
    import torch

    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def initialising_device(name: str) -> Iterator[None]:
    """Initialise the named device in a background thread while the block runs: it takes seconds.

    Its errors are raised when it is used.
    """
    if name == "cpu":
        yield
        return
    thread = Thread(target=_initialise, args=(name,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _initialise(name: str) -> None:
    with suppress(Exception):
        device = torch_device(name)
        import torch

        torch.zeros(1, device=device)


def working_on_named(name: str) -> AbstractContextManager:
    """A context in which kernels are launched on the named device; none for "cpu"."""
    return nullcontext() if name == "cpu" else working_on(torch_device(name))
