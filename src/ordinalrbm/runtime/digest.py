"""One hash for arrays and settings: whether two are the same, without sending them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np


def digest(*parts: Any) -> str:
    """A hash of arrays, and of what JSON can hold."""
    found = blake2b(digest_size=32)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).view(np.uint8).data if part.size else b"")
        else:
            found.update(json.dumps(part, sort_keys=True, ensure_ascii=False).encode())
    return found.hexdigest()
