"""What an answer is expected to tell, against all states of the factors and all levels enumerated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, ndtr, softmax

from ordinalrbm.data.observations import Observations
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL, Answers
from ordinalrbm.engine import thresholds
from ordinalrbm.vector import asking
from ordinalrbm.vector.model import VectorModel, layout_of, side

UNITS = 60
LEVELS = np.array([2, 3, 5, 4, 3], dtype=np.int32)
TARGETS = np.array([[0.12, 0.03], [-0.04, 0.15]])


def small_model(kind=(ORDINAL,) * 5, stretches=(1.0,), seed=0):
    """Two factors of many units, centred, so that people differ by degrees."""
    rng, kind = np.random.default_rng(seed), np.array(kind, dtype=np.int8)
    n_levels = np.where(kind == NUMERIC, 1, LEVELS).astype(np.int32)
    own = kind if (kind != ORDINAL).any() else np.zeros(0, np.int8)
    plan = layout_of(own, n_levels)
    weights = rng.normal(0, 0.08, (plan.members.size, 2)).astype(np.float32)
    cutpoints = np.zeros((plan.members.size, thresholds.n_cutpoints(plan.n_levels)))
    cutpoints[:, 0] = rng.normal(-0.7, 0.3, len(cutpoints))
    cutpoints[:, 1:] = np.log(rng.uniform(0.4, 1.0, cutpoints[:, 1:].shape))
    cutpoints[plan.is_number] = 0.0
    return VectorModel(
        weights=weights,
        bias=(rng.normal(0, 0.2, len(weights)) - 0.5 * UNITS * weights.sum(axis=1)).astype(np.float32),
        factor_bias=np.array([0.1, -0.05], dtype=np.float32),
        cutpoints=cutpoints,
        n_levels=n_levels,
        units=UNITS,
        stretches=np.array(stretches),
        style_weights=softmax(-np.abs(np.log(stretches))),
        kind=own,
    )


def enumerated(model):
    """States, log P(h, style) with all utilities integrated over, and log P(level | h, style) by question."""
    on = np.arange(UNITS + 1)
    choose = gammaln(UNITS + 1) - gammaln(on + 1) - gammaln(UNITS - on + 1)
    states = np.stack(np.meshgrid(on, on, indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    mean = model.bias + states @ model.weights.T.astype(float)
    plan, logs = model.layout, []
    prior = choose[states.astype(int)].sum(axis=1) + states @ model.factor_bias
    for question, kind in enumerate(plan.kind):
        own = mean[:, plan.columns(question)]
        prior = prior + (logsumexp(own, axis=1) if kind == NOMINAL else 0.5 * own[:, 0] ** 2)
        if kind == NOMINAL:
            logs.append(np.log(softmax(own, axis=1))[:, None].repeat(model.stretches.size, axis=1))
            continue
        if kind == NUMERIC:  # in narrow intervals
            bounds = np.concatenate([[-np.inf], np.linspace(-6, 6, 121), [np.inf]])[None] - own
            bounds = bounds[:, None].repeat(model.stretches.size, axis=1)
        else:
            row = model.thresholds[plan.first[question], : model.n_levels[question] + 1]
            bounds = model.stretches[:, None] * row - own[:, None]
        logs.append(np.log(np.maximum(np.diff(ndtr(bounds)), 1e-300)))
    joint = prior[:, None] + np.log(model.style_weights)
    return states, joint, logs


def exact_reduction(model, given):
    """Variances of the targets, and the expected fall by each question: over all states and levels."""
    states, log_joint, logs = enumerated(model)
    for question, level in given.items():
        log_joint = log_joint + logs[question][:, :, level]
    chance, values = np.exp(log_joint - logsumexp(log_joint)), states @ TARGETS.T
    mean = np.einsum("hg,ht->t", chance, values)
    variance = np.einsum("hg,ht->t", chance, (values - mean) ** 2)
    reduction = []
    for each in logs:
        by_level = np.einsum("hg,hgl->l", chance, np.exp(each))
        moved = np.einsum("hg,hgl,ht->tl", chance, np.exp(each), values - mean)
        reduction.append((moved**2 / np.maximum(by_level, 1e-300)).sum(axis=1))
    return variance, np.array(reduction).T


def observed(model, given):
    levels = np.full((1, LEVELS.size), -1)
    for question, level in given.items():
        levels[0, question] = level
    answers = Observations.from_dense(levels, model.n_levels)
    if model.kind.size:
        answers = Answers.of(answers, model.kind, np.full((1, int((model.kind == NUMERIC).sum())), np.nan))
    return side(model, answers, "latent")


CASES = {
    "scales": ((ORDINAL,) * 5, (1.0,)),
    "styles": ((ORDINAL,) * 5, (0.6, 1.0, 1.7)),
    "kinds": ((ORDINAL, NOMINAL, ORDINAL, NUMERIC, NOMINAL), (1.0,)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("given", [{}, {0: 1, 2: 3}])
def test_expected_variances_are_those_of_enumeration(case, given):
    model = small_model(*CASES[case])
    styles = asking.styles_of(model, observed(model, given))
    variance, reduction = asking.expected_reduction(model, styles, TARGETS)
    true_variance, true_reduction = exact_reduction(model, given)
    np.testing.assert_allclose(variance, true_variance, rtol=0.02)
    new = [question for question in range(LEVELS.size) if question not in given]
    np.testing.assert_allclose(reduction[:, new], true_reduction[:, new], atol=0.01 * variance.max())
