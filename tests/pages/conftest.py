"""What tests of pages share."""

import numpy as np
import pytest

from ordinalrbm.pages import points


@pytest.fixture(autouse=True, scope="module")
def _a_quick_map():
    """Maps by two of the factors: t-SNE is tested with the other figures, and slow."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(points, "row_positions", lambda factors, **_: np.asarray(factors)[:, [0, -1]])
        yield
