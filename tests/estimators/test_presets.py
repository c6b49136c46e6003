"""The settings that a survey gets by default, and those of the paper's model by name."""

import numpy as np
import pytest
from long_form import only_long

import ordinalrbm as orbm

# What benchmarks/hidden_answers measures with a Gaussian copula, on the same hidden answers
# (benchmarks/results/hidden-answers-peers.txt).
COPULA_NLL = 1.0755
# The paper's model; what learns it is our own in `binary`, the paper's in `paper`.
PLAIN = {
    "units_per_factor": 1,
    "response_styles": 1,
    "unanswered": "absent",
    "inference": "mean_field",
    "gibbs_steps": 1,
    "free_phase": "contrastive",
    "batch_size": 100,
    "validation_fraction": 0.05,
}
OUR_LEARNER = {
    "n_epochs": 40,
    "learning_rate": 0.01,
    "weight_decay": 10.0,
    "patience": 5,
    "solver": "adam",
    "centred": True,
    "init": "polychoric",
    "thresholds": "marginal",
    "schedule": "cosine",
}
PAPER_LEARNER = {
    "n_epochs": 100,
    "learning_rate": 0.03,
    "weight_decay": 0.0,
    "patience": 10,
    "solver": "sgd",
    "centred": False,
    "init": "random",
    "thresholds": "even",
    "schedule": "constant",
}


def hidden_tenth(answers):
    """The cells that benchmarks/hidden_answers hides from the food survey, mask 0."""
    values = answers.to_numpy()
    observed = np.flatnonzero(~np.isnan(values))
    n_hidden = round(0.1 * observed.size)
    chosen = np.random.default_rng(0).choice(observed, size=n_hidden, replace=False)
    return np.unravel_index(chosen, values.shape)


def nll(model, shown, answers, rows, columns):
    """Mean negative log-probability of the hidden answers, which are 1 to 5."""
    found = np.stack(model.fit(shown).predict_proba(shown), axis=1)[rows, columns]
    level = answers.to_numpy()[rows, columns].astype(int) - 1
    return -float(np.log(found[np.arange(level.size), level]).mean())


@only_long
def test_defaults_predict_better_than_a_copula_and_than_binary_factors():
    answers = orbm.datasets.load_food_world_cup().dropna(how="all")
    rows, columns = hidden_tenth(answers)
    values = answers.to_numpy().copy()
    values[rows, columns] = np.nan
    shown = answers.copy()
    shown[:] = values
    asked = (shown, answers, rows, columns)
    ours = nll(orbm.CumulativeRBM(20, random_state=0), *asked)
    binary = nll(orbm.CumulativeRBM.binary(20, n_epochs=5, random_state=0), *asked)
    assert ours < COPULA_NLL - 0.02
    assert ours < binary - 0.03


@pytest.mark.parametrize(("n_questions", "n_factors"), [(4, 4), (60, 50)])
def test_by_default_there_is_a_factor_for_each_question(n_questions, n_factors, tmp_path):
    rng = np.random.default_rng(0)
    X = np.digitize(rng.normal(size=(80, 1)) + rng.normal(size=(80, n_questions)), [-0.5, 0.5])
    model = orbm.CumulativeRBM(n_epochs=1, random_state=0).fit(X)
    assert model.transform(X).shape == (80, n_factors)
    model.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    assert again.n_factors is None
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("preset", "learner"),
    [(orbm.CumulativeRBM.binary, OUR_LEARNER), (orbm.CumulativeRBM.paper, PAPER_LEARNER)],
)
def test_presets_do_not_follow_the_defaults(preset, learner):
    found = preset(7).get_params()
    assert found["n_factors"] == 7 and preset().n_factors == 50
    assert {name: found[name] for name in PLAIN | learner} == PLAIN | learner
    assert preset(7, n_epochs=3).n_epochs == 3
