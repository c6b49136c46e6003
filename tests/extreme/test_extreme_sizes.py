"""Very unequal users, and a million items of which most were never rated.

A tenth of that, unless ORDINALRBM_LONG=1.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from extremes import LONG, assert_distributions, numbers_of, rating_model, saved_and_loaded

N_ITEMS = 1_000_000 if LONG else 100_000
MOST = 20_000 if LONG else 4_000


def one_who_rates_everything():
    """A user with thousands of ratings among 3,000 with two; quality is all there is to know."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=MOST)
    user = np.repeat(np.arange(1, 3001), 2)
    # Others rate the same hundred items, so that these are known well.
    item = (rng.integers(0, 50, user.size) + 50 * (np.arange(user.size) % 2)).astype(int)
    # She is milder than the others, and more so with items of even number.
    of_her = quality + 1.0 * (np.arange(MOST) % 2 == 0)
    utility = np.concatenate([of_her, quality[item]]) + 0.5 * rng.normal(size=MOST + user.size)
    user = np.concatenate([np.zeros(MOST, dtype=int), user])
    item = np.concatenate([np.arange(MOST), item])
    return user, item, 1 + np.clip(np.floor(utility + 2.5), 0, 4).astype(int)


@pytest.mark.parametrize("kind", ["OrdinalMF", "MatrixCumulativeRBM", "point", "GaussianMF"])
def test_one_user_has_rated_thousands_of_items_and_the_others_two(kind, tmp_path):
    user, item, rating = one_who_rates_everything()
    test = np.random.default_rng(3).random(user.size) < 0.1
    n_epochs = 15 if kind == "MatrixCumulativeRBM" else 30
    model = rating_model(kind, n_epochs=n_epochs).fit((user[~test], item[~test], rating[~test]))
    assert all(np.isfinite(part).all() for part in numbers_of(model))
    found = model.predict(user[test], item[test])
    hers = user[test] == 0
    # Most of her items nobody else has rated: for these nothing is better than her own mean.
    own_mean = rating[~test & (user == 0)].mean()
    assert root_of(found - rating[test], hers) < 1.02 * root_of(own_mean - rating[test], hers)
    # The others have rated the same hundred items, and are alike.
    of_others = ~test & (user > 0)
    counts = np.bincount(item[of_others], minlength=MOST)
    item_mean = np.bincount(item[of_others], rating[of_others], MOST) / np.maximum(counts, 1)
    by_items = root_of(item_mean[item[test]] - rating[test], ~hers)
    # The Gaussian sees one spread in all, and takes most of what items have for noise.
    most = {"GaussianMF": 1.7, "point": 1.2}.get(kind, 1.15)
    assert root_of(found - rating[test], ~hers) < most * by_items
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(again.predict(user[test], item[test]), found)
    best = model.recommend([0, 1], n=10)
    assert not set(best["item"][best["user"] == 0]) & set(item[~test & (user == 0)])


def root_of(errors, chosen):
    """Root of the mean square."""
    return np.sqrt(np.mean(errors[chosen] ** 2))


@pytest.mark.parametrize("kind", ["OrdinalMF", "MatrixCumulativeRBM", "GaussianMF", "point"])
def test_a_million_items_most_of_them_never_rated(kind, tmp_path):
    rng = np.random.default_rng(0)
    user, rated = np.repeat(np.arange(500), 10), np.arange(300) * (N_ITEMS // 300 - 2)
    item = rng.choice(300, user.size)
    quality = rng.normal(size=300)
    rating = 1 + np.clip(np.floor(quality[item] + 0.5 * rng.normal(size=user.size) + 2.5), 0, 4)
    cells = np.unique(user * N_ITEMS + rated[item], return_index=True)[1]
    table = sp.csr_array((rating[cells], (user[cells], rated[item[cells]])), shape=(500, N_ITEMS))
    model = rating_model(kind, n_epochs=15).fit(table)
    assert len(model.items_) == N_ITEMS
    best = model.recommend(np.arange(20), n=5)
    assert np.isfinite(best["score"]).all()
    # What is known to be good comes before what nobody knows.
    assert set(best["item"]) <= set(rated[quality > 0.5])
    found = model.predict_proba(3, [1, 2, N_ITEMS - 1, 0])
    assert_distributions(found)
    np.testing.assert_array_equal(found[0], found[2])
    # Binary factors do not say how far somebody new may be from the usual: they are too sure.
    usual = np.bincount(rating[cells].astype(int) - 1) / cells.size
    bound = 0.15 if kind == "OrdinalMF" else 0.25
    np.testing.assert_allclose(model.predict_proba(-1, [1])[0], usual, atol=bound)
    again = saved_and_loaded(model, tmp_path)
    assert again.recommend(np.arange(20), n=5).equals(best)
    per_item = (tmp_path / "model.orbm").stat().st_size / N_ITEMS
    assert per_item < 150  # bytes: factors and weights of four each, with what is not known of them
