"""The five surveys of the "predicting hidden answers" benchmark, and the cells hidden from them.

Every method must see exactly the same training cells, so that the files here are the only place
where questions are chosen and answers are hidden.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sources import DATA

FILES = {
    "bfi": "bfi.parquet",
    "food": "food-world-cup/responses.csv",
    "spi": "spi.parquet",
    "big5": "big5-openpsychometrics.parquet",
    "pisa": "pisa2009-north-america.parquet",
}
"""File of each data set, from the quickest to the slowest to fit."""

NAMES = tuple(FILES)

NOT_QUESTIONS = {
    "bfi": ["gender", "education", "age"],
    "food": [
        "RespondentID",
        "knowledge",
        "interest",
        "Gender",
        "Age",
        "Household Income",
        "Education",
        "Location (Census Region)",
    ],
    "spi": ["age", "sex", "health", "p1edu", "p2edu", "education", "wellness", "exer", "smoke", "ER"],
    "big5": ["country", "age", "gender", "engnat"],
    "pisa": ["country"],
}

Masked = tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]


def load(name: str) -> pd.DataFrame:
    """Return the questions of a survey as floats, with NaN for "not answered".

    Respondents who answered nothing are dropped from the food survey only: nearly a tenth of its
    file is such rows. Dropping them elsewhere would not change which cells are hidden.
    """
    path = DATA / FILES[name]
    frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    frame = frame.drop(columns=NOT_QUESTIONS[name]).astype(float)
    if name == "food":
        frame = frame.dropna(how="all").reset_index(drop=True)
    check_codes(frame)
    return frame


def check_codes(frame: pd.DataFrame) -> None:
    """Refuse codes that are no answer, such as 0: a model would take them for one more level."""
    values = frame.to_numpy()
    values = values[~np.isnan(values)]
    if np.any(values < 1) or np.any(values != np.round(values)):
        raise ValueError("answers must be integer codes from 1 on")


def mask(frame: pd.DataFrame, seed: int = 0, fraction: float = 0.1) -> Masked:
    """Hide a fraction of the observed cells, chosen uniformly at random.

    Returns the training frame (hidden cells are NaN), the rows and the columns of the hidden
    cells, and the answers that were there.
    """
    values = frame.to_numpy(dtype=float, copy=True)
    observed = np.flatnonzero(~np.isnan(values))
    rng = np.random.default_rng(seed)
    chosen = rng.choice(observed, size=round(fraction * observed.size), replace=False)
    rows, columns = np.unravel_index(chosen, values.shape)
    truth = values[rows, columns]
    values[rows, columns] = np.nan
    return pd.DataFrame(values, columns=frame.columns), rows, columns, truth


def levels(frame: pd.DataFrame) -> list[np.ndarray]:
    """Return the sorted levels each column takes: what the columns of probabilities stand for."""
    return [np.sort(frame[column].dropna().unique()) for column in frame.columns]
