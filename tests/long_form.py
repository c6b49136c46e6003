"""Whether the long forms of tests run: `make test-long` sets ORDINALRBM_LONG=1."""

import os

import pytest

LONG = os.environ.get("ORDINALRBM_LONG") == "1"
only_long = pytest.mark.skipif(not LONG, reason="only in `make test-long` (ORDINALRBM_LONG=1)")
