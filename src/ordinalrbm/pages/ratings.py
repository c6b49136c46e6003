"""The page of ratings: what its sections show."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ordinalrbm import plots
from ordinalrbm.data.observations import count_levels
from ordinalrbm.data.ratings import Ratings, encode
from ordinalrbm.data.scales import Scale, label_name
from ordinalrbm.data.triples import as_triples
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.matrix import MatrixCumulativeRBM
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.evaluate import reliability, score
from ordinalrbm.evaluate.baselines import DampedBiases
from ordinalrbm.evaluate.hidden import in_training, level_values, predicted_ratings
from ordinalrbm.evaluate.metrics import MEASURES
from ordinalrbm.evaluate.model_scores import score_model
from ordinalrbm.files.survey import LeftOut
from ordinalrbm.pages.frequencies import levels_of
from ordinalrbm.pages.page import Page, Progress, Table, drawing, left_out_table, render
from ordinalrbm.pages.points import MOST_POINTS, Described, map_section, some_of, variable_of
from ordinalrbm.plots.style import shortened

_MOST_SCORED = 200_000
_MOST_RANKED_FOR = 2_000  # users
_LONG_TAIL = (0.01, 0.1, 0.2, 0.5)  # shares of the items, the most rated first
_OFTEN_RATED = 10  # items that stand for a factor
_N_RECOMMENDED = 5
_MOST_OWN_RATINGS = 12
_N_REASONS = 5
_N_FACTORS_TOLD, _N_ENDS, _N_FACTORS_ON_MAP = 6, 6, 12


def ratings_page(
    model: Any,
    *,
    test: pd.DataFrame | None = None,
    left_out: Iterable[LeftOut] | None = None,
    title: str | None = None,
    example_user: Any = None,
    item_names: Mapping[Any, Any] | pd.Series | None = None,
    progress: Progress | None = None,
) -> Page:
    """A page about ratings and what a model has learnt from them.

    Parameters
    ----------
    model : estimator of ratings, fitted
        The ratings that it was fitted on are in it.
    test : DataFrame with the columns user, item, rating, optional
        Ratings that the model has not learnt from; pairs that it has are left out, and counted.
        Without them, the page cannot say how good predictions are.
    left_out : iterable of LeftOut, optional
        What of the file was not used; None when no file was read.
    title : str, optional
    example_user : id, optional
        Whose recommendations to explain; by default somebody with a usual number of ratings.
    item_names : dict or Series, optional
        Titles by item id, shown instead of the ids; items without one keep their id.
    progress : callable, optional
        Called with words for what is being done.

    Returns
    -------
    Page
        HTML, a ``str``; ``tables`` are those in it, by what they are about.

    Examples
    --------
    >>> import numpy as np, pandas as pd, ordinalrbm as orbm
    >>> from ordinalrbm import pages
    >>> user, item = np.divmod(np.arange(60), 6)
    >>> ratings = pd.DataFrame({"user": user, "item": item, "rating": 1 + (user + item) % 3})
    >>> model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(ratings[6:])
    >>> names = {0: "Tea", 1: "Milk"}
    >>> page = pages.ratings_page(model, test=ratings[:6], title="Drinks", item_names=names)
    >>> "<h1>Drinks</h1>" in page, "Milk" in page
    (True, True)
    """
    check_is_fitted(model, "ratings_")
    say = progress or (lambda text: None)
    known = model.ratings_
    titles = _titles(known, item_names)
    say("scoring test ratings")
    scores = None if test is None else _score(model, test)
    say("explaining an example")
    example = example_of(model, example_user, titles=titles)
    say(f"placing {known.n_items:,} items on a map")
    items = Items.of(model)
    # Of many items, those that are rated most: they have a place that can be trusted.
    most_rated = np.argsort(-known.observations.column_counts, kind="stable")[:MOST_POINTS]
    rows = np.sort(most_rated) if items.order else most_rated[:0]
    the_map = map_section(rows, items.vectors, lambda shown: _points(known, items, shown, titles))
    say("drawing")
    levels = [f"level {k + 1}" for k in range(int(known.observations.n_levels.max()))]
    if isinstance(known.scales, Scale):  # the same for all items
        levels = known.scales.names
    counts = np.bincount(known.observations.level, minlength=len(levels))
    return render(
        "ratings.html.j2",
        title or "Ratings",
        model,
        model_name=type(model).__name__,
        tail=_long_tail(known),
        known=known,
        density=known.observations.density,
        levels=levels_of(levels, counts / max(counts.sum(), 1), counts, ordered=True),
        left_out=None if left_out is None else left_out_table(tuple(left_out)),
        scores=scores,
        example=example,
        map=the_map,
        n_not_drawn=known.n_items - rows.size,
        factors=_factor_ends(known, items, titles),
    )


def _titles(known: Ratings, names: Mapping[Any, Any] | pd.Series | None = None) -> np.ndarray:
    """(items,) what items are called: their titles where these are known, else their ids."""
    # Ids in a file of titles may be text where those of the ratings are numbers.
    given = {} if names is None else {str(i): str(name) for i, name in names.items() if name == name}
    ids = map(str, known.items.take(np.arange(known.n_items)))
    return np.array([given.get(item, item) for item in ids], dtype=object)


def _long_tail(known: Ratings) -> dict[str, object]:
    counts = np.sort(known.observations.column_counts)[::-1]
    heads = [(share, max(1, round(share * counts.size))) for share in _LONG_TAIL]
    rows = [(share, n, counts[:n].sum() / counts.sum()) for share, n in heads]
    head = ("most-rated items", "how many", "share of all ratings")
    return {"table": Table(head, rows, (".0%", ",d", ".0%")), "median": np.median(counts), "tenth": rows[1]}


# Scores


def _score(model: RatingModel, test: pd.DataFrame) -> dict[str, object] | None:
    known = model.ratings_
    given = encode(known, test)
    learnt = in_training(known, given.row, given.column)
    usable = np.flatnonzero((given.level >= 0) & ~learnt)
    if not usable.size:
        return None
    scored = some_of(usable, _MOST_SCORED, 0)
    user, item = test["user"].to_numpy()[scored], test["item"].to_numpy()[scored]
    column, level = given.column[scored], given.level[scored].astype(np.intp)
    predicted = predicted_ratings(model, as_triples(test.iloc[scored]))
    values, biases = level_values(known), DampedBiases().fit(known).predict_proba(user, item)
    own, usual = (score(shares, values[level], values) for shares in (predicted, biases))
    measures = [(label, own[name], usual[name]) for name, label in MEASURES.items()]
    figure = plots.calibration(reliability(predicted, values[level], values))
    return {
        "n_ratings": scored.size,
        "n_given": usable.size,
        "n_unknown": int(((given.row[scored] < 0) | (column < 0)).sum()),
        "n_learnt": int(learnt.sum()),
        "model": own,
        "usual": usual,
        "table": Table(("measure", "model", "biases of user and item"), measures, ("", ".3f", ".3f")),
        "ranking": _ranking(model, test.iloc[usable]),
        "calibration": drawing(figure, "calibration"),
    }


def _ranking(model: RatingModel, test: pd.DataFrame) -> dict[str, object] | None:
    """Lists of recommendations against what some users liked, beside the most popular items."""
    users = test["user"].drop_duplicates()
    some = some_of(np.arange(len(users)), _MOST_RANKED_FOR, 0)
    found = score_model(model, test[test["user"].isin(users.iloc[some])]).ranking
    if not found:
        return None
    first = found["model"]
    rows = [(name, one.ndcg, one.recall, one.coverage) for name, one in found.items()]
    head = ("lists by", f"NDCG@{first.k}", f"recall@{first.k}", "coverage")
    return {"table": Table(head, rows, ("", ".3f", ".3f", ".0%")), "protocol": first.protocol}


# An example


def example_of(
    model: Any, user: Any = None, *, n_items: int = _N_RECOMMENDED, titles: np.ndarray | None = None
) -> dict[str, Any] | None:
    """One user, by default one with a usual number of ratings: these, what is recommended, and why.

    None when there is nothing to recommend, or the model cannot explain itself.
    """
    if not hasattr(model, "explain"):
        return None
    known = model.ratings_
    if user is None:
        counts = np.diff(known.observations.row_start)
        user = known.users.labels[np.argsort(counts, kind="stable")[counts.size // 2]]
    elif known.lookup(user, "user")[0] < 0:
        raise DataError(f"There is no user {user!r} to explain; choose one who has rated something.")
    best = model.recommend([user], n=n_items)
    if best.empty:
        return None
    titles = _titles(known) if titles is None else titles
    recommended = _recommended(model, user, best, titles)
    first = recommended.rows[0][0]
    why = model.explain(user, best["item"].iloc[0], n=_N_REASONS)
    own = _own_ratings(known, user, titles)
    speaking = titles[known.lookup(why.ratings.iloc[:, 0], "item")]
    given, effects = map(label_name, why.ratings.iloc[:, 1]), why.ratings.iloc[:, 2].astype(float)
    reasons = list(zip(speaking, given, effects, strict=True))
    return {
        "user": str(user),
        "n_ratings": len(own),
        "ratings": Table(("item", "rating"), own[:_MOST_OWN_RATINGS], ("", "")),
        "recommended": recommended,
        "first": first,
        "expected": why.expected,
        "reasons": Table(("item", "rating given", "effect"), reasons, ("", "", "+.3f")),
    }


def _own_ratings(known: Ratings, user: Any, titles: np.ndarray) -> list[tuple[str, str]]:
    items, levels = known.observations.row(int(known.lookup(user, "user")[0]))
    order = np.argsort(-levels.astype(np.int64), kind="stable")
    labels = known.decode(levels[order], items[order])
    return [(name, label_name(r)) for name, r in zip(titles[items[order]], labels, strict=True)]


def _recommended(model: RatingModel, user: Any, best: pd.DataFrame, titles: np.ndarray) -> Table:
    places = model.ratings_.lookup(best["item"], "item")
    scales = [model.ratings_.scale_of(i) for i in places]
    users, items = [user] * len(best), best["item"].to_numpy()
    shares, means = model.predict_proba(users, items), model.predict(users, items)
    # The most likely rating, and how likely at least that one is.
    rows = []
    lines = zip(titles[places], best["score"], means, shares, scales, strict=True)
    for name, rank_by, expected, share, scale in lines:
        top = int(share[: scale.n_levels].argmax())
        likely = label_name(scale.labels[top])
        rows.append((name, float(rank_by), float(expected), likely, float(share[top:].sum())))
    head = ("item", "score", "expected rating", "most likely", "chance of that or better")
    return Table(head, rows, ("", ".3g", ".2f", "", ".0%"))


# Items


class Items(NamedTuple):
    """Items as the users see them."""

    vectors: np.ndarray  # (items, factors): what each factor adds to the mean user's utility
    names: list[str]  # of the factors
    order: list[int]  # of the factors, those that move most first

    @classmethod
    def of(cls, model: Any) -> Self:
        """Those of a fitted model of ratings."""
        vectors, names = _item_vectors(model)
        spread = vectors.std(axis=0)
        order = np.argsort(-spread, kind="stable")
        return cls(vectors, names, order[spread[order] > 1e-6].tolist())


def _item_vectors(model: Any) -> tuple[np.ndarray, list[str]]:
    """(items, factors) what factors add to a user's utility, and their names; no columns without any."""
    if isinstance(model, MatrixCumulativeRBM):
        half, other = model.model_.by_rows, model.model_.by_columns
        # A user's factors are around one in size; an item's count as much as users weigh them.
        vectors = np.concatenate([half.weights, other.factors * _size(other.weights)], axis=1)
        names = [f"User factor {k}" for k in range(half.n_factors)]
        return vectors, names + [f"Item factor {k}" for k in range(other.n_factors)]
    if hasattr(model, "item_factors_"):
        vectors = model.item_factors_ * _size(model.user_factors_)
        return vectors, [f"Factor {k}" for k in range(vectors.shape[1])]
    return np.zeros((model.ratings_.n_items, 0)), []


def _size(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(values.astype(np.float64) ** 2, axis=0))


def _points(known: Ratings, items: Items, rows: np.ndarray, titles: np.ndarray) -> Described:
    """Names, what to colour points by, and what to tell of each: how it is rated, and how often."""
    counts = count_levels(known.observations)[rows]
    total = counts.sum(axis=1)
    mean = pd.Series(counts @ level_values(known) / np.where(total > 0, total, np.nan))
    bounds = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000]
    names = ["1", *(f"{low + 1:,} to {high:,}" for low, high in pairwise(bounds)), "more than 10,000"]
    often = pd.Series(pd.cut(total, [0, *bounds, np.inf], labels=names))
    found = [
        variable_of(mean.round(2), "mean rating", "Ratings"),
        variable_of(often.cat.remove_unused_categories(), "number of ratings", "Ratings"),
    ]
    found += [
        variable_of(pd.Series(items.vectors[rows, k]), items.names[k], "Factors")
        for k in items.order[:_N_FACTORS_ON_MAP]
    ]
    variables = [one for one in found if one is not None]
    shown = [shortened(name, 80) for name in titles[rows]]
    return Described(shown, variables, range(min(2, len(variables))))


def _factor_ends(known: Ratings, items: Items, titles: np.ndarray) -> list[tuple[str, list[str], list[str]]]:
    """The strongest factors, with the items at both ends; only items that many have rated."""
    count = known.observations.column_counts
    often = np.flatnonzero(count >= min(np.median(count), _OFTEN_RATED))
    found = []
    for k in items.order[:_N_FACTORS_TOLD]:
        order = often[np.argsort(items.vectors[often, k], kind="stable")]
        number = min(_N_ENDS, len(order) // 2)
        if number:
            ends = (order[:number], order[::-1][:number])
            low, high = (titles[end].tolist() for end in ends)
            found.append((items.names[k], low, high))
    return found
