"""Scales, categories, numbers and background by brute force: sums over all states of the factors.

Written from the definition of the model and importing nothing of the library. A row has covariates
x; h are binary factors, u utilities, and for each question that the row has

    a scale or number   −u²/2 + (α + w·h) u,   the answer being about u + A·x
    a nominal question  Σ_l [v = l] (b_l + B_l·x + W_l·h)

and Σ_k (γ_k + Γ_k·x) h_k. A number z has u + A·x = s z.
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr


class Scale(NamedTuple):
    weights: np.ndarray  # (K,)
    bias: float
    slopes: np.ndarray  # (P,)
    thresholds: np.ndarray  # (L − 1,)


class Number(NamedTuple):
    weights: np.ndarray  # (K,)
    bias: float
    slopes: np.ndarray  # (P,)
    scale: float


class Nominal(NamedTuple):
    weights: np.ndarray  # (C, K)
    bias: np.ndarray  # (C,)
    slopes: np.ndarray  # (C, P)


class Model(NamedTuple):
    questions: list
    gamma: np.ndarray  # (K,)
    gamma_slopes: np.ndarray  # (K, P)


def states(n_factors):
    return (np.arange(2**n_factors)[:, None] >> np.arange(n_factors)) & 1


def inputs(question, h, x):
    """What multiplies u, or each category, in every state."""
    added = question.slopes @ x if isinstance(question, Nominal) else 0.0
    return question.bias + h @ np.transpose(question.weights) + added


def log_weight(model, asked, x):
    """log P*(h) of every state, for a row that has the questions ``asked``."""
    h = states(model.gamma.size)
    total = h @ (model.gamma + model.gamma_slopes @ x)
    for question in (model.questions[j] for j in asked):
        mean = inputs(question, h, x)
        if isinstance(question, Nominal):
            total = total + logsumexp(mean, axis=1)
        else:
            total = total + 0.5 * mean**2
    return total


def log_answer(question, answer, h, x, stretch=1.0):
    """log P(answer | h) of every state: a level, a category, or a density."""
    mean = inputs(question, h, x)
    if isinstance(question, Nominal):
        return mean[:, answer] - logsumexp(mean, axis=1)
    mean = mean + question.slopes @ x
    if isinstance(question, Number):
        beyond = question.scale * answer - mean
        return np.log(question.scale) - 0.5 * beyond**2 - 0.5 * np.log(2 * np.pi)
    bounds = np.concatenate([[-np.inf], stretch * question.thresholds, [np.inf]])
    return np.log(ndtr(bounds[answer + 1] - mean) - ndtr(bounds[answer] - mean))


def log_joint(model, answers, x, asked=None, stretch=1.0):
    """log P*(h) P(answers | h) of every state; answers are {question: answer}."""
    h = states(model.gamma.size)
    total = log_weight(model, sorted(answers) if asked is None else asked, x)
    for j, answer in answers.items():
        total = total + log_answer(model.questions[j], answer, h, x, stretch)
    return total


def log_likelihood(model, answers, x, asked=None, styles=((1.0, 1.0),)):
    """log P(answers); ``styles`` are pairs of a stretch and its share."""
    asked = sorted(answers) if asked is None else asked
    given = [
        np.log(share) + logsumexp(log_joint(model, answers, x, asked, stretch)) for stretch, share in styles
    ]
    return logsumexp(given) - logsumexp(log_weight(model, asked, x))


def posterior(model, answers, x, asked=None):
    joint = log_joint(model, answers, x, asked)
    return np.exp(joint - logsumexp(joint))


def prediction(model, j, distribution, x):
    """Probabilities of levels or categories; of a number its mean and standard deviation."""
    h, question = states(model.gamma.size), model.questions[j]
    if isinstance(question, Number):
        mean = inputs(question, h, x) + question.slopes @ x
        first, second = distribution @ mean, distribution @ (mean**2 + 1.0)
        return np.array([first, np.sqrt(second - first**2)]) / question.scale
    n = len(question.bias) if isinstance(question, Nominal) else len(question.thresholds) + 1
    each = [np.exp(log_answer(question, level, h, x)) for level in range(n)]
    return distribution @ np.array(each).T


def over_numbers(function, n_numbers):
    """Integral of a function of some numbers over all of them."""
    if n_numbers == 0:
        return function([])

    def inner(z):
        return over_numbers(lambda rest: function([z, *rest]), n_numbers - 1)

    return quad(inner, -12.0, 12.0, epsabs=1e-10, limit=200)[0]
