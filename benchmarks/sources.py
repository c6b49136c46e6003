"""Where the data of the benchmarks lies, and how rating data is read."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

import ordinalrbm as orbm

DATA = Path(
    os.environ.get(
        "ORDINALRBM_DATA", Path(__file__).resolve().parents[1].parent / "shared" / "data"
    )
)
"""Folder of the data sets; by default beside the project."""

RATINGS = ("ml-1m", "ml-100k", "dating-top2000", "insteval")
"""The rating data sets in it, by name."""


def ratings(name: str | Path) -> pd.DataFrame:
    """Ratings of a data set in the folder, or of a file: parquet or a layout of MovieLens."""
    if name in RATINGS:
        return pd.read_parquet(DATA / f"{name}.parquet")
    path = Path(name)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return orbm.datasets.read_movielens(path)
