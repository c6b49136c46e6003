"""Write one small model of every kind, as this release writes them.

Run once per version of the format, from the root of the repository:

    python tests/storage/files/make.py

The files are named by kind and version. They are not written again: what was saved must load.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stored_models import FILES, MAKERS

from ordinalrbm.storage import container

if __name__ == "__main__":
    for kind, make in MAKERS.items():
        path = FILES / f"{kind}-{container.VERSION}.orbm"
        if not path.exists():
            make().save(path)
            print(path, path.stat().st_size)
