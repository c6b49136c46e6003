"""How far a chain can be trusted: split R-hat and effective sample size of its numbers."""

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import rankdata


def r_hat(draws: np.ndarray) -> float:
    """Split R-hat: how much wider all halves of chains are together than each; 1 if they agree.

    Of one chain, or of several in lines. The square root of the ratio of variances, of Gelman and
    Rubin. Above 1.05 the chains have not forgotten where they began. NaN if no half varies.
    """
    chains = np.atleast_2d(draws)
    half = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :half], chains[:, -half:]]) if half > 1 else np.zeros((2, 2))
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return np.nan
    return float(np.sqrt((half - 1) / half + between / within))


def normal_scores(draws: np.ndarray) -> np.ndarray:
    """Quantiles of the normal distribution in the order of the draws, so that heavy tails do no harm."""
    return ndtri((rankdata(draws) - 0.375) / (draws.size + 0.25)).reshape(draws.shape)


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


def summary(chains: list[pd.DataFrame]) -> pd.DataFrame:
    """Mean, standard deviation, R-hat and effective size of each column of chains.

    The latter two are those of normal scores (Vehtari et al. 2021); effective sizes are summed.
    """
    every, shortest = pd.concat(chains), min(map(len, chains))
    scores = [
        normal_scores(np.stack([chain[name].to_numpy()[-shortest:] for chain in chains])) for name in every
    ]
    return pd.DataFrame(
        {
            "mean": every.mean(),
            "sd": every.std(),
            "r_hat": [r_hat(each) for each in scores],
            "effective_size": [sum(map(effective_size, each)) for each in scores],
        }
    )
