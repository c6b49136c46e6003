"""Fit, save, load, predict, recommend again and again: nothing is left behind."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from long_form import only_long

import ordinalrbm as orbm

ROUND = 3  # cycles: each of the rating models, once
RATING_MODELS = (
    lambda seed: orbm.OrdinalMF(6, n_epochs=3, random_state=seed),
    lambda seed: orbm.MatrixCumulativeRBM(6, 6, n_epochs=3, random_state=seed),
    lambda seed: orbm.MultinomialRBM(4, n_epochs=2, random_state=seed),
)


def cycle(seed: int, folder: Path) -> None:
    """What users do with a survey and with ratings, with files that are gone afterwards."""
    file = folder / "model.orbm"
    answers = orbm.datasets.load_food_world_cup()[:100]
    orbm.CumulativeRBM.binary(5, n_epochs=3, random_state=seed).fit(answers).save(file)
    survey = orbm.load(file)
    for method in (survey.transform, survey.predict_proba, survey.predict, survey.impute):
        method(answers)
    rng = np.random.default_rng(seed)
    user, item = np.divmod(np.sort(rng.choice(40 * 20, 300, replace=False)), 20)
    RATING_MODELS[seed % ROUND](seed).fit((user, item, rng.integers(1, 6, 300))).save(file)
    ratings = orbm.load(file)
    ratings.predict_proba(user, item)
    ratings.recommend("all", n=10)
    ratings.fold_in((np.full(20, 40), np.arange(20), 1 + np.arange(20) % 5)).recommend(40)
    file.unlink()


@only_long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="handles are counted in /proc")
def test_nothing_is_left_behind(tmp_path):
    def a_round(first: int) -> tuple[int, int, int]:
        for number in range(first, first + ROUND):
            cycle(number, tmp_path)
        gc.collect()
        handles, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
        return tracemalloc.get_traced_memory()[0], handles, threads

    tracemalloc.start()
    try:
        a_round(0)  # imports, compiled code, tables that are made once
        before = a_round(ROUND)
        after = a_round(2 * ROUND)
    finally:
        tracemalloc.stop()
    assert after[1:] == before[1:]
    # A table of answers kept by each of the cycles would be 30 kB each.
    assert after[0] - before[0] < 60_000
    assert list(tmp_path.iterdir()) == []
