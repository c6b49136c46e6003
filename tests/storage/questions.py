"""Everything that a loaded model can be asked cheaply, and what of its answers cannot be.

`faults` is empty for a model that was learnt, and must be for any file that is not refused.
"""

import contextlib
import copy
import warnings

import numpy as np
import pandas as pd
from stored_models import answers_of_all_kinds

import ordinalrbm as orbm

ROUNDING = 1e-6
RULES = ("mean", "median", "mode")


def faults(model, *, may_refuse=False, turn=None):
    """Sentences on what a model says that cannot be; NumPy's warnings are among them.

    Where scales may be others than those of the questions, it may refuse to answer. With a
    ``turn``, only the first question and one of the others are asked, by turns.
    """
    found = Faults(may_refuse)
    asked = questions_for(model)
    if turn is not None:
        asked = [asked[0], asked[1 + turn % (len(asked) - 1)]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for question in asked:
            with found.of(question.__name__):
                question(model, found)
    numpys = {
        f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.message}"
        for one in caught
        if issubclass(one.category, RuntimeWarning)
    }
    return [*found.said, *sorted(numpys)]


class Faults:
    """What is wrong, as far as it was looked at."""

    def __init__(self, may_refuse):
        self.said = []
        self.allowed = (orbm.DataError,) if may_refuse else ()

    @contextlib.contextmanager
    def of(self, question):
        """While a question is asked: an error is a fault, too."""
        try:
            yield
        except self.allowed:
            pass
        except Exception as error:
            self.said.append(f"{question}: {type(error).__name__}: {error}")

    def check(self, question, is_right):
        if not is_right:
            self.said.append(question)

    def finite(self, question, *numbers):
        for part in numbers:
            numbers_only = np.asarray(part, dtype=np.float64)
            self.check(f"{question}: not finite", np.isfinite(numbers_only).all())

    def distributions(self, question, found):
        self.finite(question, found)
        self.check(f"{question}: below zero", (found >= 0).all())
        off = np.abs(found.sum(axis=-1) - 1.0)
        self.check(f"{question}: adds up to another number than one", (off <= ROUNDING).all())

    def between(self, question, found, low, high):
        found = np.asarray(found, dtype=np.float64)
        slack = ROUNDING * (1.0 + max(abs(low), abs(high)))
        is_right = (low - slack <= found) & (found <= high + slack)  # NaN is not
        self.check(f"{question}: not on the scale", is_right.all())


# ---- surveys ------------------------------------------------------------------------------------


def expected_answers(model, found):
    _check_predictions(model, _rows_for(model), found)


def other_inferences(model, found):
    for inference in ("linear_response", "mcmc"):
        other = copy.copy(model).set_params(inference=inference, n_draws=3)
        _check_predictions(other, _rows_for(model), found)


def factors(model, found):
    expected, deviation = model.transform(_rows_for(model), return_std=True)
    found.between("transform", expected, 0.0, 1.0)
    found.finite("transform, std", deviation)
    found.finite("response_style", model.response_style(_rows_for(model)))


def points(model, found):
    for rule in RULES:
        _check_points(model, model.predict(_rows_for(model), rule=rule), rule, found)


def filled_gaps(model, found):
    rows = _rows_for(model)
    for unanswered in ("absent", "latent"):
        other = copy.copy(model).set_params(unanswered=unanswered)
        _check_points(other, other.impute(rows), "median", found)
    for drawn in model.impute(rows, n_draws=2, parameters="fixed", random_state=0):
        _check_points(model, drawn, "mode", found)


def likelihoods(model, found):
    rows = _rows_for(model)
    found.finite("score", model.score(rows))
    found.finite("log_likelihood", model.log_likelihood(rows))
    few = {"n_temperatures": 5, "n_chains": 2, "random_state": 0}
    found.finite("log_likelihood by ais", model.log_likelihood(rows, "ais", **few))


def made_up_rows(model, found):
    _check_points(model, model.sample(4, n_steps=3, random_state=0), "mode", found)


def rotated_factors(model, found):
    if hasattr(model, "population_"):  # which is drawn where it is not kept: not cheap
        found.finite("loadings", model.loadings())
        found.finite("scores", *model.scores(_rows_for(model), return_std=True))


def _rows_for(model):
    """Four rows with gaps, the last without an answer, under the names that the model knows."""
    rows = answers_of_all_kinds().iloc[[0, 5, 7, 8]].reset_index(drop=True)
    if model.n_features_in_ == 4:
        rows = rows.iloc[:, :4]
    rows.iloc[3, : min(6, rows.shape[1])] = None
    if not hasattr(model, "feature_names_in_"):
        return rows.to_numpy()
    return rows.set_axis(model.feature_names_in_, axis=1)


def _check_predictions(model, rows, found):
    for scale, one in zip(model.scales_, model.predict_proba(rows), strict=True):
        if scale is not None and one is not None:
            found.distributions(f"predict_proba {model.inference}", one)
        elif one is not None:
            found.finite(f"predict_proba {model.inference}, numbers", one)


def _check_points(model, table, rule, found):
    table = pd.DataFrame(table)
    for j in model.questionnaire_.questions:
        scale, own = model.scales_[j], table.iloc[:, j]
        if scale is None:
            found.finite(f"{rule} of numbers", own)
        elif rule == "mean" and model.questionnaire_.kinds[j] == "ordinal":
            found.between(f"{rule}", own, min(scale.values), max(scale.values))
        else:
            found.check(f"{rule}: not a label", set(own) <= set(scale.labels))


# ---- ratings ------------------------------------------------------------------------------------


def expected_ratings(model, found):
    _check_ratings(model, found, model.users_.labels[:3])


def best_items(model, found):
    users = [*model.users_.labels[:2], "nobody" if model.users_.is_text else -77]
    for score in ("liked", "rating", "demand"):
        best = model.recommend(users, n=3, score=score, exclude_seen=False)
        found.finite(f"recommend {score}", best["score"])


def similar_ones(model, found):
    found.finite("similar", model.similar_items(model.items_.labels[0])["similarity"])
    found.finite("similar", model.similar_users(model.users_.labels[0])["similarity"])
    found.finite("score", model.score(model.ratings_.to_frame()))


def reasons(model, found):
    said = model.explain(model.users_.labels[0], model.items_.labels[1])
    values = model.ratings_.scale_of(1).values
    found.between("explain", said.expected, min(values), max(values))
    found.finite("explain", said.ratings["effect"])


def newcomers(model, found):
    new_user, new_item, label = _nobody_yet(model)
    user, item = model.users_.labels[0], model.items_.labels[1]
    some = model.recommend(ratings=([new_user], [item], [label]), n=3)
    found.finite("recommend by ratings", some["score"])
    few = ([new_user, user], [item, new_item], [label, label])
    if isinstance(model, orbm.MultinomialRBM):  # which folds in no items
        few = ([new_user], [item], [label])
    _check_ratings(model.fold_in(few), found, [new_user, user], "after fold_in, ")


def vectors(model, found):
    told = model.vectors()
    found.finite("vectors", told.users, told.items)


def news(model, found):
    new_user, _, label = _nobody_yet(model)
    user, item = model.users_.labels[0], model.items_.labels[1]
    renewed = copy.copy(model).update(([new_user, user], [item, item], [label, label]))
    _check_ratings(renewed, found, [new_user, user], "after update, ")


def binary_factors(model, found):
    found.between("transform", model.transform(), 0.0, 1.0)
    for of in ("users", "items"):  # all of the matrix together is a sum over too many states
        found.finite("log_likelihood", model.log_likelihood(of=of))


def _nobody_yet(model):
    """Ids of a user and an item that are not known, and a label of the second item's scale."""
    user = "new" if model.users_.is_text else -9
    item = "new" if model.items_.is_text else -9
    return user, item, model.ratings_.scale_of(1).labels[0]


def _check_ratings(model, found, users, when=""):
    """Predictions and recommendations for these users and somebody unknown."""
    unknown_user = "nobody" if model.users_.is_text else -77
    unknown_item = "nothing" if model.items_.is_text else -77
    items, users = [*model.items_.labels, unknown_item], [*users, unknown_user]
    asked = np.repeat(np.array(users, dtype=object), len(items)), items * len(users)
    found.distributions(f"{when}predict_proba", model.predict_proba(*asked))
    scales = [model.ratings_.scale_of(j) for j in range(len(items) - 1)]
    scales.append(model.ratings_.cold_start_scale())
    for rule in RULES if not when else RULES[:1]:
        told = np.array(model.predict(*asked, rule=rule)).reshape(len(users), -1)
        for scale, own in zip(scales, told.T, strict=True):
            found.between(f"{when}{rule}", own, min(scale.values), max(scale.values))
    best = model.recommend(users, n=3, exclude_seen=False)
    found.finite(f"{when}recommend", best["score"])


# ---- which questions ----------------------------------------------------------------------------

OF_SURVEYS = (
    expected_answers,
    other_inferences,
    factors,
    points,
    filled_gaps,
    likelihoods,
    made_up_rows,
    rotated_factors,
)
OF_RATINGS = (expected_ratings, best_items, similar_ones, reasons, newcomers)
OF_GAUSSIAN_FACTORS = (vectors, news)
OF_BINARY_FACTORS = (binary_factors,)


def questions_for(model):
    """All questions that a model of this kind can answer."""
    if isinstance(model, orbm.CumulativeRBM):
        return [*OF_SURVEYS]
    if isinstance(model, orbm.OrdinalMF | orbm.GaussianMF):
        return [*OF_RATINGS, *OF_GAUSSIAN_FACTORS]
    if isinstance(model, orbm.MatrixCumulativeRBM):
        return [*OF_RATINGS, *OF_BINARY_FACTORS]
    return [*OF_RATINGS]
