"""What one process makes of ratings, and what is asked of every engine."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import ordinalrbm as orbm

SOURCE = str(Path(orbm.__file__).resolve().parents[1])
SETTINGS = {"n_epochs": 4, "random_state": 3}


def environment() -> dict[str, str]:
    """Of the workers: the code that is tested, and one thread each."""
    return {
        "PYTHONPATH": SOURCE,
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": os.environ["PATH"],
    }


def ratings() -> pd.DataFrame:
    """With ids that are text, other names than ours, and times; groups of users choose other items."""
    rng = np.random.default_rng(1)
    user = rng.integers(0, 150, 3000)
    of_group = user % 4 * 10 + rng.integers(0, 10, user.size)
    item = np.where(rng.random(user.size) < 0.8, of_group, rng.integers(0, 40, user.size))
    taste = (user % 3 - 1) * (item % 5 - 2) / 2 + rng.normal(0, 0.7, user.size)
    stars = np.clip(np.rint(3.5 + taste), 1, 5).astype(np.int64)
    date = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.permutation(user.size) // 4, unit="h")
    frame = pd.DataFrame({"userId": [f"ü{k}" for k in user], "date": date, "movieId": item, "stars": stars})
    return frame.drop_duplicates(["userId", "movieId"], ignore_index=True)


@cache
def model() -> orbm.OrdinalMF:
    """What one process learns."""
    return orbm.OrdinalMF(4, **SETTINGS).fit(ratings())


def assert_same_model(found: orbm.OrdinalMF) -> None:
    truth = model()
    assert found.get_params() == truth.get_params()
    assert found.ratings_.to_frame().equals(truth.ratings_.to_frame())
    np.testing.assert_array_equal(found.ratings_.age, truth.ratings_.age)
    users, early = truth.users_.labels, pd.Timestamp("2020-01-02")
    then, true_then = (each.predict_proba(users, 3, times=early) for each in (found, truth))
    np.testing.assert_allclose(then, true_then, atol=1e-5)
    assert np.abs(then - truth.predict_proba(users, 3)).max() > 1e-3
    np.testing.assert_allclose(found.history_["validation"], truth.history_["validation"], atol=1e-5)
    for name in ("user_biases_", "item_biases_"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), atol=1e-4)
    np.testing.assert_allclose(*(each.predict_proba("ü7", range(40)) for each in (found, truth)), atol=1e-5)
    assert truth.demand_.blend.sequence is not None  # there is something to choose by
    lists, true_lists = (each.recommend("all", n=3) for each in (found, truth))
    assert lists[["user", "item"]].equals(true_lists[["user", "item"]])


def assert_same_table(found: pd.DataFrame, truth: pd.DataFrame, by: list[str]) -> None:
    found, truth = (each.sort_values(by).reset_index(drop=True) for each in (found, truth))
    pd.testing.assert_frame_equal(found.astype(truth.dtypes), truth, rtol=1e-5)


def predicted(rule: str) -> pd.DataFrame:
    known = ratings()
    return known.assign(prediction=model().predict(known["userId"], known["movieId"], rule))
