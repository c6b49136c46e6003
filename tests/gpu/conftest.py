"""On a GPU if there is one; otherwise in Triton's interpreter, which must be known beforehand."""

from importlib.util import find_spec

import numpy as np
import pytest
from interpreter import use_interpreter

if find_spec("torch"):  # else all of these tests are skipped
    import torch

    if find_spec("triton") and not torch.cuda.is_available():
        use_interpreter()


@pytest.fixture(scope="session")
def device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True, scope="session")
def without_warnings_of_the_interpreter():
    """NumPy says when ∞ is multiplied by zero; on a GPU nobody does, and a select drops it."""
    with np.errstate(all="ignore"):
        yield
