"""What a GPU keeps of an estimator's models from one call to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ordinalrbm.matrix.model import MatrixModel

if TYPE_CHECKING:
    from ordinalrbm.matrix.gpu.recommend import OnGpu


class Resident:
    """The models that are on a device, if any, and which ones they are.

    Others on another device, or other models, take their place; several threads may ask at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: tuple[str, list[MatrixModel]] | None = None
        self._there: OnGpu | None = None

    def models(
        self,
        models: Sequence[MatrixModel],
        device: str,
        opened: Callable[[], Sequence[MatrixModel]],
    ) -> OnGpu:
        """These models on a device; ``opened`` gives them with a stranger at the end.

        Raises
        ------
        DataError
            Without torch, Triton or a GPU.
        """
        from ordinalrbm.engine.gpu.device import torch_device

        torch_device(device)  # which says what is missing, before anything is imported
        from ordinalrbm.matrix.gpu.recommend import OnGpu

        with self._lock:
            if self._there is None or not self._is_of(models, device):
                self._of = self._there = None  # its memory first
                self._there = OnGpu(opened(), device)
                self._of = device, list(models)
            return self._there

    def _is_of(self, models: Sequence[MatrixModel], device: str) -> bool:
        if self._of is None or self._of[0] != device or len(self._of[1]) != len(models):
            return False
        return all(one is other for one, other in zip(self._of[1], models, strict=True))
