"""Where the data of the benchmarks lies, and how rating data is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

import ordinalrbm as orbm

DATA = Path(os.environ.get("ORDINALRBM_DATA", Path(__file__).resolve().parents[1].parent / "shared" / "data"))
"""Folder of the data sets; by default beside the project."""

RATINGS = ("ml-1m", "ml-100k", "dating-top2000", "insteval")
"""The rating data sets in it, by name."""


Parts = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]
"""Training, validation and test ratings."""


def split(name: str | Path, protocol: str | None = None) -> Parts:
    """Ratings in three parts; chronological, or random where there are no times."""
    frame = ratings(name)
    return orbm.evaluate.split(frame, protocol=protocol or usual_protocol(frame), other_users="drop")


def usual_protocol(frame: pd.DataFrame) -> str:
    """By time where there are times."""
    return "chronological" if "timestamp" in frame else "random"


def ratings(name: str | Path) -> pd.DataFrame:
    """Ratings of a data set in the folder, or of a file: parquet or a layout of MovieLens."""
    if name in RATINGS:
        return pd.read_parquet(DATA / f"{name}.parquet")
    path = Path(name)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return orbm.datasets.read_movielens(path)


def chain_of(model: Any) -> str:
    """How the chain of a sampled model went, for the line of its figures; else nothing."""
    models = getattr(model, "models", [model])
    chains = [each.chain_ for each in models if getattr(each, "posterior", "") == "sampled"]
    return "".join(
        f"  R-hat {chain['r_hat'].max():.2f} ({chain['r_hat'].idxmax()}), least effective size "
        f"{chain['effective_size'].min():.0f}"
        for chain in chains
    )
