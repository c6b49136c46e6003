"""How far a chain can be trusted: split R-hat and effective sample size of its numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import rankdata


def r_hat(draws: np.ndarray) -> float:
    """Split R-hat: how much wider both halves of a chain are together than each; 1 if they agree.

    The square root of the ratio of variances, of Gelman and Rubin. Above 1.05 the chain has not
    forgotten where it began. NaN if a half does not vary.
    """
    half = len(draws) // 2
    halves = np.stack([draws[:half], draws[-half:]]) if half > 1 else np.zeros((2, 2))
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return np.nan
    return float(np.sqrt((half - 1) / half + between / within))


def normal_scores(draws: np.ndarray) -> np.ndarray:
    """Quantiles of the normal distribution in the order of the draws, so that heavy tails do no harm."""
    return ndtri((rankdata(draws) - 0.375) / (len(draws) + 0.25))


def effective_size(draws: np.ndarray) -> float:
    """Number of independent draws with as precise a mean (Geyer 1992)."""
    n = len(draws)
    away = draws - draws.mean()
    if n < 4 or not away.any():
        return float(n)
    spectrum = np.fft.rfft(away, 2 * n)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    correlation /= correlation[0]
    # Sums of neighbours are positive and fall; what comes after is noise.
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    last = int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else pairs.size
    falling = np.minimum.accumulate(pairs[:last])
    return float(n / max(2.0 * falling.sum() - 1.0, 1.0 / n))


def summary(draws: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation, R-hat and effective size of each column of a chain.

    The latter two are those of normal scores (Vehtari et al. 2021).
    """
    scores = {name: normal_scores(draws[name].to_numpy()) for name in draws}
    return pd.DataFrame(
        {
            "mean": draws.mean(),
            "sd": draws.std(),
            "r_hat": [r_hat(scores[name]) for name in draws],
            "effective_size": [effective_size(scores[name]) for name in draws],
        }
    )
