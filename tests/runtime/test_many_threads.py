"""One model used by several threads at once: the same answers as one after the other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_info, threadpool_limits

import ordinalrbm as orbm
from ordinalrbm.runtime.threads import one_blas_thread


def test_eight_threads_get_what_one_gets():
    rng = np.random.default_rng(0)
    answers = pd.DataFrame(rng.integers(1, 6, (200, 8)), columns=list("abcdefgh"))
    survey = orbm.CumulativeRBM.binary(3, n_epochs=2, random_state=0).fit(answers)
    user, item = np.divmod(np.arange(1600), 8)
    ratings = (user, item, answers.to_numpy().ravel())
    rater = orbm.MatrixCumulativeRBM(3, 3, n_epochs=3, random_state=0).fit(ratings)

    def asked(_: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
        best = rater.recommend("all", n=3, exclude_seen=False)
        return survey.transform(answers), best, rater.predict_proba(user, item)

    factors, best, probabilities = asked(0)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(asked, range(24)):
            np.testing.assert_array_equal(found[0], factors)
            pd.testing.assert_frame_equal(found[1], best)
            np.testing.assert_array_equal(found[2], probabilities)


def test_one_thread_multiplies_matrices():
    def n_threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with threadpool_limits(2, "blas"):
        with one_blas_thread():
            assert n_threads() == {1}
        assert n_threads() == {2}
