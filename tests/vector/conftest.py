"""The enumerated models of tests/exact judge here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "exact"))
