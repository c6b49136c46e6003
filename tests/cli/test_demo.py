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
from ordinalrbm import plots, report
from ordinalrbm.cli import tour
from ordinalrbm.data.questionnaire import Questionnaire
from ordinalrbm.data.scales import Scale
from ordinalrbm.data.tables import read_table
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.hidden import hide_answers, marginals
from ordinalrbm.report import placing
from ordinalrbm.vector.model import VectorModel
from ordinalrbm.words import Wording, column_similarity, describe_factors, factor_effects

LIKES = Wording(more="likes {} more", less="likes {} less", rows="people")


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


def answers_for(model, n_rows=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = model.scales_[0].labels
    levels = rng.integers(len(labels), size=(n_rows, model.n_features_in_))
    table = np.array(labels, dtype=object)[levels]
    table[rng.random(table.shape) < 0.2] = None
    table[0] = None  # somebody who answered nothing
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return table.astype(float)
    return pd.DataFrame(table, columns=list(names))


def three_levels(mean, thresholds=(-0.5, 0.7)):
    """P(level | utility of that mean and noise one), the textbook way."""
    below = ndtr(np.array(thresholds) - mean)
    return np.array([below[0], below[1] - below[0], 1.0 - below[1]])


# Factors in numbers


def test_effects_of_a_binary_factor():
    model = hand_made([[1.2], [-0.4]], [1, 2, 3], bias=[0.1, 0.2])
    effects = factor_effects(model, answers_for(model))
    assert effects["column"].tolist() == ["Q0", "Q1"]
    for line, weight, bias in zip(effects.itertuples(), [1.2, -0.4], [0.1, 0.2], strict=True):
        off, on = three_levels(bias), three_levels(bias + weight)
        assert line.before == pytest.approx(off @ [1, 2, 3], abs=1e-5)
        assert line.after == pytest.approx(on @ [1, 2, 3], abs=1e-5)
        assert line.change == pytest.approx((on - off) @ [1, 2, 3], abs=1e-5)
        assert line.strength == pytest.approx((on - off) @ [1, 2, 3] / 2, abs=1e-5)
        assert line.top_before == pytest.approx(off[2], abs=1e-5)
        assert line.top_after == pytest.approx(on[2], abs=1e-5)


def test_effects_with_many_units_and_other_factors_at_their_mean():
    weights = np.array([[0.09, -0.02], [0.03, 0.07], [-0.05, 0.04]])
    model = hand_made(weights, [1, 2, 3], units=20)
    X = answers_for(model)
    posterior = model.transform(X)[1:]  # without the one who answered nothing
    effects = factor_effects(model, X).set_index(["factor", "column"])
    low, high = np.quantile(posterior, [0.1, 0.9], axis=0)
    mean = posterior.mean(axis=0)
    assert (high - low > 0.02).all()
    for k in range(2):
        for end, name in ((low, "before"), (high, "after")):
            state = np.where(np.arange(2) == k, end, mean) * 20
            for i in range(3):
                expected = three_levels(weights[i] @ state) @ [1, 2, 3]
                assert effects.loc[(k, f"Q{i}"), name] == pytest.approx(expected, abs=1e-4)


def test_reversed_and_text_scales_count_positions():
    for labels in ((30, 20, 10), ("no", "maybe", "yes")):
        model = hand_made([[1.2], [-0.4]], labels)
        effects = factor_effects(model, answers_for(model))
        off, on = three_levels(0.0), three_levels(1.2)
        assert effects["change"][0] == pytest.approx((on - off) @ [1, 2, 3], abs=1e-5)


def test_a_column_with_one_level_does_not_move():
    model = hand_made([[1.2], [0.0]], [1, 2, 3])
    model.scales_[1] = Scale((7,))
    model.questionnaire_ = Questionnaire.of_scales(model.scales_)
    model.model_.n_levels[1] = 1
    X = pd.DataFrame({"Q0": [1, 2, 3], "Q1": [7, 7, None]})
    effects = factor_effects(model, X)
    assert effects.loc[1, ["before", "after", "change", "strength"]].tolist() == [7, 7, 0, 0]
    assert "Q1" not in describe_factors(model, X)[0].text


def test_rows_without_answers_are_refused():
    model = hand_made([[1.2], [-0.4]], [1, 2, 3])
    with pytest.raises(DataError, match="No row of X has an answer"):
        factor_effects(model, pd.DataFrame({"Q0": [None], "Q1": [None]}, dtype=float))


# Factors in words


def test_sentence_of_a_factor():
    model = hand_made([[0.3], [2.0], [-1.0], [0.8]], ["never", "sometimes", "often"])
    X = answers_for(model)
    (told,) = describe_factors(model, X, wording=LIKES)
    share = model.transform(X)[1:].mean()
    change = {w: (three_levels(w) - three_levels(0.0)) @ [1, 2, 3] for w in (2.0, -1.0, 0.8)}
    top = [three_levels(w)[2] * 100 for w in (0.0, 2.0)]
    # Q0 moves less than a third as far as Q1, and is not worth naming.
    assert told.text == (
        f"Factor 0, off to on (on for {share * 100:.0f} % of people): "
        f"tends to answer Q1: often ({change[2.0]:+.1f} levels), "
        f"Q2: never (−{-change[-1.0]:.1f} levels) and Q3: often ({change[0.8]:+.1f} levels). "
        f"Q1 “often”: {top[0]:.0f} % → {top[1]:.0f} %."
    )
    assert str(told) == told.text
    assert told.share_on == pytest.approx(share)
    assert told.effects["column"].tolist() == ["Q1", "Q2", "Q3", "Q0"]


def test_the_stronger_direction_comes_first():
    model = hand_made([[0.8], [-1.5]], [1, 2, 3])
    text = describe_factors(model, answers_for(model))[0].text
    assert re.search(
        r"answers Q1 \(−\d\.\d+\) lower; answers Q0 \(\+\d\.\d+\) higher\. Q1 3: ", text
    )


def test_a_factor_that_moves_everything():
    model = hand_made([[0.5], [0.9], [0.7], [0.1]], [1, 2, 3, 4, 5], thresholds=(-1, -0.3, 0.4, 1))
    (told,) = describe_factors(model, answers_for(model), n_columns=2, wording=LIKES)
    assert re.search(
        r"likes everything more, most of all Q1 \(\+\d\.\d\) and Q2 \(\+\d\.\d\)\. Q1 4 or 5: ",
        told.text,
    )


def test_long_scales_and_many_units_in_words():
    model = hand_made(
        [[0.2], [-0.1]], [0, 10, 20, 30, 40, 50, 60], thresholds=np.linspace(-2, 2, 6), units=9
    )
    text = describe_factors(model, answers_for(model))[0].text
    assert text.startswith("Factor 0, low to high: answers Q0 (+")
    assert re.search(r"Q0 \(\+\d+\) higher", text)  # no decimals on a scale of sixty points
    assert "Q0 40 or above: " in text


def test_columns_without_names():
    model = hand_made([[0.8], [-1.5]], [1, 2, 3], names=False)
    assert "column 1" in describe_factors(model, answers_for(model))[0].text


def test_factors_by_strength_without_repeating_a_story():
    # Factor 1 is the mirror image of factor 2, only weaker; factor 3 does nothing.
    weights = [[0.1, -0.8, 0.9, 0.0], [0.4, 0.8, -0.9, 0.0], [0.4, 0.0, 0.0, 0.0]]
    model = hand_made(weights, [1, 2, 3])
    X = answers_for(model)
    assert [told.factor for told in describe_factors(model, X)] == [2, 0]
    assert [told.factor for told in describe_factors(model, X, n_factors=1)] == [2]


def test_a_model_that_has_learnt_nothing_tells_nothing():
    model = hand_made([[0.0], [0.0]], [1, 2, 3])
    assert describe_factors(model, answers_for(model)) == []


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
        orbm.RatingEnsemble([orbm.OrdinalMF(3, n_epochs=4)], random_state=0),
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
    expected = [
        np.array([2.5, 0.5, 1.5, 0.5, 0.5]) / 5.5,
        np.array([0.5, 0.5, 0.5, 0.5, 1.5]) / 3.5,
    ]
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
        patch.setattr(
            placing, "place", lambda factors, **_: placing.Places(factors[:, :2], len(factors))
        )
        outcome = tour.run(folder, console=console, n_factors=4, n_epochs=8)
    return outcome, text_of(stream)


def test_demo_from_end_to_end(demo):
    outcome, text = demo
    folder = outcome.page.parent
    assert outcome.scores["nll"] < outcome.baseline["nll"] - 0.03
    assert outcome.scores["mae_median"] < outcome.baseline["mae_median"] - 0.03
    assert outcome.scores["accuracy"] > outcome.baseline["accuracy"] + 0.02
    assert outcome.rating_scores["nll"] < outcome.baseline["nll"] - 0.1
    assert outcome.rating_scores["mae_median"] < outcome.baseline["mae_median"] - 0.1
    assert outcome.factors
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["food-cuisines.png", "food-map.png", "report.html"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in outcome.pictures)

    assert "1,373 Americans" in text and "CC BY 4.0" in text and "2,394" in text
    assert f"{outcome.scores['mae_median']:.3f}" in text
    assert f"{outcome.baseline['accuracy'] * 100:.1f} %" in text
    assert f"{outcome.rating_scores['mae_median']:.3f}" in text
    assert "should try next" in text and "Ratings that speak most for" in text
    assert "1,276 respondents by taste (97 gave no answer: left out)" in text
    told = " ".join(text.split())
    assert all(" ".join(factor.text.split()) in told for factor in outcome.factors)
    assert all(str(path) in text for path in (*outcome.pictures, outcome.page))
    assert "How much do you like the food of Ghana?" in outcome.page.read_text(encoding="utf-8")
    for line in text.splitlines():
        assert len(line) <= 80 or str(folder) in line
    assert "\x1b" not in text and "\r" not in text


def test_demo_without_unicode(demo, tmp_path, monkeypatch):
    """Again with what was learnt before, and without pictures."""
    outcome, _ = demo
    monkeypatch.setattr(tour, "warm_up", lambda: None)
    monkeypatch.setattr(tour, "_learn", lambda *_: outcome.model)
    monkeypatch.setattr(tour, "_learn_ratings", lambda *_: outcome.rater)
    monkeypatch.setattr(report, "survey_page", lambda *_, **__: "a page")
    monkeypatch.setattr(tour, "_draw", lambda *_: {})
    monkeypatch.setattr(tour, "_tell_pictures", lambda *_: None)
    console, stream = printed("ascii")
    tour.run(tmp_path, console=console)
    assert re.search(r"\d % -> \d+ %", " ".join(text_of(stream).split()))


def test_an_interrupted_demo_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tour, "_learn", stop)
    with pytest.raises(KeyboardInterrupt):
        tour.run(tmp_path / "new" / "folder", console=printed()[0])
    assert list(tmp_path.iterdir()) == []


def test_what_was_in_the_folder_stays(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    (tmp_path / "mine.txt").write_text("precious")
    monkeypatch.setattr(tour, "_draw", stop)
    monkeypatch.setattr(tour, "_learn", lambda *_: hand_made_food_model())
    with pytest.raises(KeyboardInterrupt):
        tour.run(tmp_path, console=printed()[0])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def hand_made_food_model():
    columns = orbm.datasets.load_food_world_cup().columns
    weights = np.random.default_rng(0).normal(size=(len(columns), 2))
    model = hand_made(weights, [1, 2, 3, 4, 5], thresholds=(-1, -0.3, 0.4, 1))
    model.feature_names_in_ = np.array(columns, dtype=object)
    return model


def test_a_full_disk_leaves_no_half_picture(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    figure = plots.row_map(np.zeros((2, 2)), {"a": [1, 2]})
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
        tour._write(tmp_path, {"a.png": figure}, "a page")
    assert list(tmp_path.iterdir()) == []


def test_next_steps_really_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns = ["Italy", "Mexico", "China", "Japan", "France"]
    survey = orbm.datasets.load_food_world_cup()[columns].head(80)
    survey.to_csv("survey.csv")
    tour.as_ratings(survey).to_csv("ratings.csv", index=False)
    names: dict = {}
    exec(tour.NEXT_STEPS, names)
    complete = pd.read_csv("survey-complete.csv", index_col=0)
    assert complete.notna().all(axis=None)
    given = survey.notna().to_numpy()
    np.testing.assert_array_equal(complete.to_numpy()[given], survey.to_numpy()[given])
    assert names["factors"].shape == (80, 5)
    best = pd.read_csv("best.csv", index_col=0)
    assert set(best["item"]) <= set(columns)
    assert not best.duplicated(["user", "item"]).any()


def test_a_number_stays_with_its_unit():
    console, stream = printed()
    for width in range(20, 60):
        console.width = width
        tour._say(console, "likes China (+0.7) more. China loved: 44 % → 79 %. " * 3, indent=2)
    for line in text_of(stream).splitlines():
        assert not re.search(r"(^\s*[%(→]|\d$|→$)", line)
