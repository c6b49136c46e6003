"""Write one small model of every kind, as this release writes them.

Run once per released version of the format, from the root of the repository:

    python tests/storage/files/make.py

The files are named by kind and version and are never written again: they must load for ever.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stored_models import FILES, MAKERS, VERSION

if __name__ == "__main__":
    for kind, make in MAKERS.items():
        path = FILES / f"{kind}-{VERSION}.orbm"
        if not path.exists():
            make().save(path)
            print(path, path.stat().st_size)
