"""Lists of recommendations in another order."""

from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.data import frames
from ordinalrbm.errors import DataError


def diverse(model: Any, lists: Any, share: float) -> Any:
    """Lists whose items are less like those above them, by maximal marginal relevance.

    The next item of a list has the greatest (1 − share) · relevance − share · similarity (Carbonell and
    Goldstein 1998). Relevance is the score, from 0 for the lowest to 1 for the highest of the list;
    similarity the greatest cosine of demand factors to an item above, or 0. The scores stay as they are.

    Parameters
    ----------
    model : model of ratings
    lists : DataFrame
        Long lists, such as those by ``model.recommend(users, n=200)``: the columns item, rank, score
        and, unless they are of one person, user. Keep the n best of the result by ``rank <= n``.
    share : float from 0 to 1
        How much dissimilarity counts; 0 leaves the order as it is.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit((users, items, 1 + (users + items) % 3))
    >>> lists = orbm.rerank.diverse(model, model.recommend([3, 4], n=6, exclude_seen=False), 0.3)
    >>> lists.loc[lists["rank"] <= 2, "user"].tolist()
    [3, 3, 4, 4]
    """
    if not 0.0 <= share <= 1.0:
        raise DataError(f"The 'share' must be a number from 0 to 1. Got {share!r} instead.")
    table = frames.frame_of(lists, "The lists").to_pandas()
    for name in ("item", "rank", "score"):
        if name not in table:
            raise DataError(f"The lists have no column {name!r}; give them as recommend() returns them.")
    position = model.ratings_.lookup(table["item"], "item")
    if (position < 0).any():
        item = table["item"].iloc[int((position < 0).argmax())]
        raise DataError(f"The item {item!r} is not known to the model; leave it out of the lists.")
    twice = table.duplicated(table.columns.intersection(["user", "item"]).tolist())
    if twice.any():
        raise DataError(
            f"The lists have the item {table['item'][twice].iloc[0]!r} twice; give each user once."
        )
    factors = model._factors_of("item", "demand").astype(np.float64)
    factors /= np.maximum(np.linalg.norm(factors, axis=1, keepdims=True), 1e-12)
    user, score = pd.factorize(table.get("user", position * 0))[0], table["score"].to_numpy(np.float64)
    lines, order = np.lexsort((table["rank"], user)), [np.zeros(0, dtype=np.intp)]
    for line in np.split(lines, np.flatnonzero(np.diff(user[lines])) + 1):
        order.append(line[_order(factors[position[line]], score[line], share)])
    result = table.iloc[np.concatenate(order)].reset_index(drop=True)
    result["rank"] = np.concatenate([np.arange(1, line.size + 1) for line in order])
    return frames.like(result, lists)


def _order(factors: np.ndarray, score: np.ndarray, share: float) -> np.ndarray:
    low, high = score.min(initial=np.inf), score.max(initial=-np.inf)
    relevance, similarity = (score - low) / ((high - low) or 1.0), np.zeros(score.size)
    is_open, order = np.ones(score.size, dtype=bool), np.zeros(score.size, dtype=np.intp)
    for rank in range(score.size):
        gain = (1.0 - share) * relevance - share * similarity
        order[rank] = best = np.where(is_open, gain, -np.inf).argmax()
        is_open[best], similarity = False, np.maximum(similarity, factors @ factors[best])
    return order
