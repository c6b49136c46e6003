"""The lowest version of every library that pyproject.toml allows, as pip takes constraints."""

import re
import tomllib
from pathlib import Path


def lowest(requirement: str) -> str:
    """``numpy>=2.0`` as ``numpy==2.0``."""
    return re.sub(r">=", "==", requirement.split(";")[0]).strip()


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    print("\n".join(map(lowest, project["project"]["dependencies"])))
