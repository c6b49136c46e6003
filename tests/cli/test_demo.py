from __future__ import annotations

import io
import os
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.special import ndtr

import ordinalrbm as orbm
from ordinalrbm import plots
from ordinalrbm.cli import demo_run
from ordinalrbm.data.questionnaire import Questionnaire
from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import read_table
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.hidden import hide_answers, marginals
from ordinalrbm.pages import points, reporting
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.words import Wording, column_similarity, describe_factors, factor_effects

LIKES = Wording(more="likes {} more", less="likes {} less")


def hand_made(weights, labels, *, thresholds=(-0.5, 0.7), bias=None, units=1, names=True):
    """An estimator whose parameters are given: N columns on the same scale, K factors."""
    weights = np.array(weights, dtype=np.float32)
    n_columns, n_factors = weights.shape
    cutpoints = np.r_[thresholds[0], np.log(np.diff(thresholds))]
    model = orbm.CumulativeRBM.binary(n_factors=n_factors, units_per_factor=units)
    model.model_ = VectorModel(
        weights=weights,
        bias=np.zeros(n_columns, np.float32) if bias is None else np.array(bias, np.float32),
        factor_bias=np.linspace(-0.4, 0.3, n_factors).astype(np.float32),
        cutpoints=np.tile(cutpoints, (n_columns, 1)),
        n_levels=np.full(n_columns, len(labels), dtype=np.int32),
        units=units,
    )
    model.scales_ = [Scale(tuple(labels))] * n_columns
    model.questionnaire_ = Questionnaire.of_scales(model.scales_)
    model.n_features_in_ = n_columns
    if names:
        model.feature_names_in_ = np.array([f"Q{i}" for i in range(n_columns)], dtype=object)
    return model


def three_levels(mean, thresholds=(-0.5, 0.7)):
    """P(level | utility of that mean and noise one), the textbook way."""
    below = ndtr(np.array(thresholds) - mean)
    return np.array([below[0], below[1] - below[0], 1.0 - below[1]])


# Factors in numbers and words


def by_hand(model, factor=0):
    """Utilities (2, N) of people one standard deviation below and above the mean of a factor."""
    population = model._population()
    solution = model._solution(population, "varimax", None)
    centre = model.model_.bias + model.model_.weights.astype(float) @ population.mean
    slope = solution.loadings[:, factor] * solution.spread
    return centre + np.outer([-1, 1], slope)


def test_effects_are_those_between_low_and_high():
    weights = [[1.2, 0.1], [-0.4, 0.9], [0.7, -0.3]]
    model = hand_made(weights, [1, 2, 3], bias=[0.1, 0.2, 0.0])
    effects = factor_effects(model)
    assert effects["column"].tolist() == ["Q0", "Q1", "Q2"] * 2
    assert effects["factor"].tolist() == ["Factor 1"] * 3 + ["Factor 2"] * 3
    for k in range(2):
        low, high = by_hand(model, k)
        for i, line in enumerate(effects.iloc[3 * k : 3 * k + 3].itertuples()):
            ends = np.stack([three_levels(low[i]), three_levels(high[i])])
            assert [line.low, line.high] == pytest.approx(ends @ [1, 2, 3], abs=1e-5)
            assert line.change == pytest.approx((ends[1] - ends[0]) @ [1, 2, 3], abs=1e-5)
            assert [line.top_low, line.top_high] == pytest.approx(ends[:, 2], abs=1e-5)


def test_effects_keep_the_sign_of_correlations_under_other_rotations():
    model = hand_made([[0.09, -0.02], [0.03, 0.07], [-0.05, 0.04]], [1, 2, 3], units=20)
    for rotation in ("oblimin", "none"):
        effects = factor_effects(model, rotation=rotation)
        assert (np.sign(effects["change"]) == np.sign(effects["loading"])).all()
        loadings = model.factor_solution(rotation=rotation).loadings.to_numpy().T.ravel()
        np.testing.assert_allclose(effects["loading"], loadings)


def test_reversed_and_text_scales_count_positions():
    for labels in ((30, 20, 10), ("no", "maybe", "yes")):
        model = hand_made([[1.2], [-0.4]], labels)
        low, high = (three_levels(end[0]) for end in by_hand(model))
        assert factor_effects(model)["change"][0] == pytest.approx((high - low) @ [1, 2, 3], abs=1e-5)


def test_a_column_with_one_level_does_not_move():
    model = hand_made([[1.2], [0.0]], [1, 2, 3])
    model.scales_[1] = Scale((7,))
    model.questionnaire_ = Questionnaire.of_scales(model.scales_)
    model.model_.n_levels[1] = 1
    assert factor_effects(model).loc[1, ["low", "high", "change"]].tolist() == [7, 7, 0]
    assert "Q1" not in describe_factors(model)[0].text


def test_sentence_of_a_factor():
    model = hand_made([[0.3], [2.0], [-1.5], [1.2]], ["never", "sometimes", "often"])
    (told,) = describe_factors(model, wording=LIKES)
    low, high = by_hand(model)
    ends = [np.stack([three_levels(low[i]), three_levels(high[i])]) for i in range(4)]
    change = [(end[1] - end[0]) @ [1, 2, 3] for end in ends]
    top = ends[1][:, 2] * 100
    # Q0 loads less than half as much as Q1, and is not worth naming.
    assert told.text == (
        f"Factor 1, low to high: tends to answer Q1: often ({change[1]:+.1f} levels), "
        f"Q2: never (−{-change[2]:.1f} levels) and Q3: often ({change[3]:+.1f} levels). "
        f"Q1 “often”: {top[0]:.0f}% → {top[1]:.0f}%."
    )
    assert str(told) == told.text
    assert told.effects["column"].tolist() == ["Q1", "Q2", "Q3"]


def test_the_stronger_direction_comes_first():
    model = hand_made([[0.8], [-1.5]], [1, 2, 3])
    text = describe_factors(model)[0].text
    sign = 1 if model.loadings().loc["Q1", "Factor 1"] > 0 else -1
    first, second = ("higher", "lower")[::sign]
    assert re.search(rf"answers Q1 \(.\d\.\d+\) {first}; answers Q0 \(.\d\.\d+\) {second}\. Q1 3: ", text)


def test_a_factor_that_moves_everything():
    model = hand_made([[0.5], [0.9], [0.7], [0.1]], [1, 2, 3, 4, 5], thresholds=(-1, -0.3, 0.4, 1))
    (told,) = describe_factors(model, n_columns=2, wording=LIKES)
    assert re.search(
        r"likes everything (more|less), most of all "
        r"Q1 \(.\d\.\d\) and Q2 \(.\d\.\d\)\. Q1 4 or 5: ",
        told.text,
    )


def test_long_scales_in_words():
    model = hand_made(
        [[0.2], [-0.15]], [0, 10, 20, 30, 40, 50, 60], thresholds=np.linspace(-2, 2, 6), units=9
    )
    text = describe_factors(model)[0].text
    assert re.search(r"Q0 \(.\d+\) ", text)  # no decimals on a scale of sixty points
    assert "Q0 40 or above: " in text


def test_columns_without_names():
    model = hand_made([[0.8], [-1.5]], [1, 2, 3], names=False)
    assert "column 1" in describe_factors(model)[0].text


def test_factors_by_what_they_explain_and_only_those_that_load():
    # Two groups of questions, and a third factor that does nothing.
    weights = [[1.2, 0, 0], [1.1, 0, 0], [1.0, 0, 0], [0, 0.9, 0], [0, 0.8, 0]]
    model = hand_made(weights, [1, 2, 3])
    told = describe_factors(model)
    assert [one.factor for one in told] == ["Factor 1", "Factor 2"]
    assert [set(one.effects["column"]) for one in told] == [{"Q0", "Q1", "Q2"}, {"Q3", "Q4"}]
    assert [one.factor for one in describe_factors(model, 1)] == ["Factor 1"]


def test_a_model_that_has_learnt_nothing_tells_nothing():
    assert describe_factors(hand_made([[0.0], [0.0]], [1, 2, 3])) == []


def test_column_similarity_is_the_cosine_of_weights():
    similarity = column_similarity(hand_made([[3, 4], [-6, -8], [4, -3], [0, 0]], [1, 2, 3]))
    expected = [[1, -1, 0, 0], [-1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(similarity, expected, atol=1e-12)
    assert similarity.index.tolist() == similarity.columns.tolist() == ["Q0", "Q1", "Q2", "Q3"]


@pytest.mark.parametrize(
    "model",
    [
        orbm.OrdinalMF(3, n_epochs=4, random_state=0),
        orbm.GaussianMF(3, n_epochs=4, random_state=0),
        orbm.MatrixCumulativeRBM(3, 3, n_epochs=4, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_items_that_the_same_users_like_are_similar(model):
    """Users like the items of the first half and not of the second, or the other way round."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(np.arange(120 * 8), 8)
    liked = (user % 2 == 0) == (item < 4)
    rating = np.where(liked, 4, 1) + rng.integers(0, 2, user.size)
    names = np.array([f"i{k}" for k in range(8)], dtype=object)
    ratings = pd.DataFrame({"user": user, "item": names[item], "rating": rating})
    similarity = column_similarity(model.fit(ratings)).loc[names, names].to_numpy()
    alike = np.equal.outer(np.arange(8) < 4, np.arange(8) < 4)
    assert similarity[alike].min() > similarity[~alike].max()
    np.testing.assert_allclose(np.diag(similarity), 1.0)


def test_items_without_factors_cannot_be_compared():
    ratings = (np.repeat(range(9), 3), np.tile(range(3), 9), np.arange(27) % 3)
    model = orbm.MultinomialRBM(2, n_epochs=1, random_state=0).fit(ratings)
    with pytest.raises(DataError, match="MultinomialRBM has no factors of items"):
        column_similarity(model)


# Hidden answers


def test_hidden_answers_are_a_tenth_and_can_be_put_back():
    answers = orbm.datasets.load_food_world_cup()
    before = answers.copy()
    shown, hidden = hide_answers(answers, 0.1, 5)
    assert answers.equals(before)
    assert hidden.level.size == round(0.1 * answers.notna().to_numpy().sum())
    values = shown.to_frame().astype(float).to_numpy(copy=True)
    assert np.isnan(values[hidden.row, hidden.column]).all()
    values[hidden.row, hidden.column] = hidden.level + 1
    np.testing.assert_array_equal(values, answers)
    again = hide_answers(answers, 0.1, 5)[1]
    assert all(np.array_equal(a, b) for a, b in zip(hidden, again, strict=True))


def test_marginals_are_frequencies_with_half_an_answer_added():
    shown = pd.DataFrame({"a": [1.0, 1.0, 3.0, np.nan], "b": [5.0, np.nan, np.nan, np.nan]})
    expected = [np.array([2.5, 0.5, 1.5, 0.5, 0.5]) / 5.5, np.array([0.5, 0.5, 0.5, 0.5, 1.5]) / 3.5]
    encoded = read_table(shown, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(marginals(encoded.observations), expected)


# The demo itself


def printed(encoding: str = "utf-8") -> tuple[Console, io.TextIOWrapper]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Console(file=stream, width=80, highlight=False), stream


def text_of(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One demo from end to end: what it found and said. t-SNE is tested elsewhere, and slow."""
    console, stream = printed()
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "row_positions", lambda factors: np.asarray(factors)[:, :2])
        patch.setattr(points, "place", lambda factors, **_: points.Places(factors[:, :2], len(factors)))
        outcome = demo_run.run(folder, console=console, n_factors=4, n_epochs=8)
    return outcome, text_of(stream)


def test_demo_from_end_to_end(demo):
    outcome, text = demo
    survey, rating, usual = outcome.scores.values()
    assert survey["nll"] < usual["nll"] - 0.03
    assert survey["mae_median"] < usual["mae_median"] - 0.03
    assert survey["accuracy"] > usual["accuracy"] + 0.02
    assert rating["nll"] < usual["nll"] - 0.1
    assert rating["mae_median"] < usual["mae_median"] - 0.1
    assert outcome.factors
    folder = outcome.paths["report.html"].parent
    assert sorted(outcome.paths) == sorted(path.name for path in folder.iterdir())
    assert sorted(outcome.paths) == ["food-cuisines.png", "food-map.png", "report.html"]
    pictures = [path for path in outcome.paths.values() if path.suffix == ".png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)

    assert "1,373 Americans" in text and "CC BY 4.0" in text and "2,394" in text
    assert f"{survey['mae_median']:.3f}" in text
    assert f"{usual['accuracy']:.1%}" in text
    assert f"{rating['mae_median']:.3f}" in text
    assert "should try next" in text and "Ratings that speak most for" in text
    assert "1,276 respondents by taste (97 gave no answer: left out)" in text
    told = " ".join(text.split())
    assert all(" ".join(factor.text.split()) in told for factor in outcome.factors)
    assert all(str(path) in text for path in outcome.paths.values())
    page = outcome.paths["report.html"].read_text(encoding="utf-8")
    assert "How much do you like the food of Ghana?" in page
    for line in text.splitlines():
        assert len(line) <= 80 or str(folder) in line
    assert "\x1b" not in text and "\r" not in text


def test_demo_without_unicode(demo, tmp_path, monkeypatch):
    """Again with what was learnt before, and without pictures."""
    outcome, _ = demo
    monkeypatch.setattr(demo_run, "warm_up", lambda: None)
    monkeypatch.setattr(demo_run, "_learn", lambda *_: (outcome.model, outcome.rater))
    monkeypatch.setattr(reporting, "survey_page", lambda *_, **__: "a page")
    monkeypatch.setattr(demo_run, "_draw", lambda *_: {})
    console, stream = printed("ascii")
    demo_run.run(tmp_path, console=console)
    assert re.search(r"\d% -> \d+%", " ".join(text_of(stream).split()))


def test_an_interrupted_demo_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_run, "_learn", stop)
    with pytest.raises(KeyboardInterrupt):
        demo_run.run(tmp_path / "new" / "folder", console=printed()[0])
    assert list(tmp_path.iterdir()) == []


def test_what_was_in_the_folder_stays(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    (tmp_path / "mine.txt").write_text("precious")
    monkeypatch.setattr(demo_run, "_draw", stop)
    monkeypatch.setattr(demo_run, "_learn", lambda *_: (hand_made_food_model(), few_ratings_model()))
    with pytest.raises(KeyboardInterrupt):
        demo_run.run(tmp_path, console=printed()[0])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def hand_made_food_model():
    columns = orbm.datasets.load_food_world_cup().columns
    weights = np.random.default_rng(0).normal(size=(len(columns), 2))
    model = hand_made(weights, [1, 2, 3, 4, 5], thresholds=(-1, -0.3, 0.4, 1))
    model.feature_names_in_ = np.array(columns, dtype=object)
    return model


def few_ratings_model():
    answers = orbm.datasets.load_food_world_cup()
    settings = {**demo_run.RATING_SETTINGS, "n_factors": 2, "n_epochs": 1}
    return orbm.OrdinalMF(**settings).fit(demo_run.as_ratings(answers))


def test_a_full_disk_leaves_no_half_picture(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    figure = plots.row_map(np.zeros((2, 2)), {"a": [1, 2]})
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
        demo_run._write(tmp_path, {"a.png": figure}, "a page")
    assert list(tmp_path.iterdir()) == []


def test_next_steps_really_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns = ["Italy", "Mexico", "China", "Japan", "France"]
    survey = orbm.datasets.load_food_world_cup()[columns].head(80)
    survey.to_csv("survey.csv")
    demo_run.as_ratings(survey).to_csv("ratings.csv", index=False)
    names: dict = {}
    exec(demo_run.NEXT_STEPS, names)
    complete = pd.read_csv("survey-complete.csv", index_col=0)
    assert complete.notna().all(axis=None)
    given = survey.notna().to_numpy()
    np.testing.assert_array_equal(complete.to_numpy()[given], survey.to_numpy()[given])
    assert names["factors"].shape == (80, 5)
    best = pd.read_csv("best.csv", index_col=0)
    assert set(best["item"]) <= set(columns)
    assert not best.duplicated(["user", "item"]).any()
