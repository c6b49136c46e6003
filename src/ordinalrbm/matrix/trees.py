"""Named tuples and lists of arrays, changed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with every array changed; numbers stay."""
    if isinstance(tree, list):
        return [mapped(change, part) for part in tree]
    if isinstance(tree, tuple):
        return type(tree)(*(mapped(change, part) for part in tree))
    return change(tree) if hasattr(tree, "shape") else tree
