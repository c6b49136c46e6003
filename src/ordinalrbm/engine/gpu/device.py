"""Which GPU, or why none."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ordinalrbm.errors import DataError


def torch_device(name: str) -> Any:
    """The torch device of a name such as "cuda" or "cuda:1"; never another one instead.

    Raises
    ------
    DataError
        Without torch, Triton or a GPU, with what is missing.
    """
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
    """Bytes of a GPU that can be had, those among them that torch keeps; None if it is no GPU."""
    import torch

    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def working_on(device: Any) -> AbstractContextManager:
    """Kernels go to the device that is the current one: let it be this, for as long as it takes."""
    import torch

    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def working_on_named(name: str) -> AbstractContextManager:
    """The same, of a device's name; with the cores there is nothing to do."""
    return nullcontext() if name == "cpu" else working_on(torch_device(name))
