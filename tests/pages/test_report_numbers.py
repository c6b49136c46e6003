from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from small_pages import fitted, rater, ratings, survey

from ordinalrbm import evaluate, pages
from ordinalrbm.errors import DataError
from ordinalrbm.evaluate.hidden import restored, score_hidden, without
from ordinalrbm.pages import ratings as rating_sections
from ordinalrbm.pages.factors import Related
from ordinalrbm.pages.frequencies import batteries, frequencies
from ordinalrbm.pages.groups import group_means, grouping_of
from ordinalrbm.pages.page import Label
from ordinalrbm.pages.points import UNKNOWN, Described, map_section, point_map, variable_of

# Hidden answers


def test_hidden_answers_are_gone_and_known():
    whole = survey()
    rest, held_out = evaluate.hide_answers(whole.encoded, share=0.2, random_state=1)
    given = whole.answers.notna().to_numpy()
    assert held_out.row.size == round(0.2 * given.sum())
    hidden = given & rest.to_frame().isna().to_numpy()
    assert set(zip(*np.nonzero(hidden), strict=True)) == set(
        zip(held_out.row.tolist(), held_out.column.tolist(), strict=True)
    )
    for row, column, level in zip(held_out.row, held_out.column, held_out.level, strict=True):
        assert whole.answers.iloc[row, column] == whole.answers.dtypes.iloc[column].categories[level]
    assert (rest.to_frame().dtypes == whole.answers.dtypes).all()
    for made in (restored(rest, held_out), restored(whole.encoded, held_out)):
        pd.testing.assert_frame_equal(made.to_frame(), whole.answers)
    for made in (without(rest, held_out), without(whole.encoded, held_out)):
        pd.testing.assert_frame_equal(made.to_frame(), rest.to_frame())


def test_a_share_must_be_one():
    with pytest.raises(DataError, match="share"):
        evaluate.hide_answers(survey().encoded, share=1.5)


def test_scores_of_hidden_answers_are_those_of_evaluate():
    whole = survey()
    rest, held_out = evaluate.hide_answers(whole.encoded, share=0.2)
    model = fitted(replace(whole, encoded=rest))
    scores = score_hidden(model, whole.encoded, held_out)
    predicted = model.predict_proba(rest.to_frame())
    for i, name in enumerate(whole.answers.columns):
        own = held_out.column == i
        truth = held_out.level[own] + 1
        judged = evaluate.score(predicted[i][held_out.row[own]], truth)
        counts = rest.to_frame()[name].value_counts(sort=False).to_numpy() + 0.5
        usual = evaluate.score(np.tile(counts / counts.sum(), (own.sum(), 1)), truth)
        line = scores.by_question.loc[name]
        assert line["count"] == own.sum()
        for mine, theirs in (("error", "mae_median"), ("nll", "nll"), ("hits", "accuracy")):
            assert line[f"model_{mine}"] == pytest.approx(judged[theirs])
            assert line[f"usual_{mine}"] == pytest.approx(usual[theirs])
    everything = np.concatenate([p[held_out.row[held_out.column == i]] for i, p in enumerate(predicted)])
    truth = np.concatenate([held_out.level[held_out.column == i] + 1 for i in range(5)])
    assert scores.overall["model_nll"] == pytest.approx(evaluate.score(everything, truth)["nll"])
    assert scores.overall["count"] == held_out.row.size


# Groups


def test_a_single_person_has_no_interval():
    factor, groups = np.array([[1.0], [3.0], [7.0]]), pd.Series(["a", "a", "b"], name="g")
    found = group_means(factor, grouping_of(groups))
    assert found.mean[1, 0] == 7.0
    assert np.isnan(found.low[1, 0]) and not np.isnan(found.low[0, 0])


# Maps


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def test_points_are_packed_and_keep_their_proportions():
    points = point_map(np.array([[0.0, 0.0], [10.0, 5.0]]), Described(["a", "b"], [], []))
    assert np.frombuffer(unpacked(points["x"]), "<u2").tolist() == [0, 65_535]
    assert np.frombuffer(unpacked(points["y"]), "<u2").tolist() == [16_384, 49_151]
    assert unpacked(points["names"]) == b"a\nb"


def test_of_many_people_some_are_drawn(monkeypatch):
    monkeypatch.setattr("ordinalrbm.pages.points.MOST_POINTS", 20)
    factors, told = np.random.default_rng(0).random((30, 3)), []

    def describe(rows):
        told.append(rows)
        return Described([str(row) for row in rows], [], [])

    found = map_section(np.arange(30), factors, describe)
    (rows,) = told
    assert len(rows) == len(set(rows)) == found["n_points"] == 20 and found["n_not_drawn"] == 10


def test_many_kinds_come_by_size():
    values = pd.Series([f"k{i}" for i in range(300)] + ["often"] * 5)
    made = variable_of(values, "v", "Background")
    assert made.labels[0] == "often"
    assert made.labels[-1] == "(51 smaller kinds)"
    assert made.codes.max() == 250


def test_missing_values_have_a_code_of_their_own():
    for values in ([1.5, None, 3.0], ["a", None, "b"], [True, None, False]):
        made = variable_of(pd.Series(values), "v", "Background")
        assert made.codes[1] == UNKNOWN
        assert UNKNOWN not in made.codes[[0, 2]]
    assert variable_of(pd.Series([None, None]), "v", "Background") is None


def test_a_few_wild_numbers_do_not_hide_the_others():
    made = variable_of(pd.Series([*range(20, 60)] * 10 + [1999]), "age", "Background")
    assert (made.low, made.high, made.cut) == (20.0, 59.0, (False, True))
    assert made.codes[-1] == 254
    infinite = variable_of(pd.Series([1.0, 2.0, np.inf]), "v", "Background")
    assert infinite.codes.tolist() == [0, 254, UNKNOWN]


def test_weights_that_are_all_zero_count_the_same():
    factor, groups = np.array([[0.0], [1.0], [4.0]]), pd.Series(["a", "a", "b"], name="g")
    found = group_means(factor, grouping_of(groups), np.zeros(3))
    assert found.mean[:, 0].tolist() == [0.5, 4.0]


# What was found


def test_questions_that_go_together_are_neighbours():
    """Three blocks of questions in random order: beyond four rows, blocks are merged and means kept."""
    block = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 4))
    loadings = 0.8 * np.eye(3)[block]
    correlation = loadings @ loadings.T
    np.fill_diagonal(correlation, 1.0)
    related = Related([f"b{b} q{k}" for k, b in enumerate(block)], correlation)
    assert related.closest[2] == pytest.approx(0.64)
    blocks = [text[:2] for text in related.merged().texts]
    assert sum(a != b for a, b in pairwise(blocks)) == 2
    merged = related.merged(3)
    assert sorted(text[:2] for text in merged.texts) == ["b0", "b1", "b2"]
    assert all(text.endswith("(+3 more)") for text in merged.texts)
    np.testing.assert_allclose(merged.correlation, np.eye(3) * (4 + 12 * 0.64) / 16, atol=1e-12)


def test_bars_diverge_from_the_middle():
    """Of five levels the third stands astride; a scale towards "disagree" is turned round."""
    agree = ["Strongly agree", "Agree", "Neutral", "Disagree", "Strongly disagree"]
    level = np.array([[0, 4], [0, 4], [1, 2], [2, -1]])
    found = frequencies(survey(level, levels=agree).encoded, [Label("a"), Label("b")])
    (battery,), folded = batteries(found, ["a", "b"])
    assert folded == [] and [one.name for one in battery.legend] == agree[::-1]
    first, second = battery.first
    assert (first.short, first.net, second.net) == ("a", 0.75, pytest.approx(-2 / 3))
    # Left of the middle: of a half of a quarter, of b two thirds and half of one; that is the widest.
    assert (first.left, second.left) == (pytest.approx(1 / 8), pytest.approx(5 / 6))
    assert (battery.left, battery.width) == (second.left, pytest.approx(5 / 6 + 7 / 8))
    assert second.missing == 0.25


# Ratings


def test_scores_of_ratings_are_those_of_evaluate():
    test = ratings().iloc[1::2]
    section = rating_sections._score(rater(), test)
    predicted = rater().predict_proba(test["user"].to_numpy(), test["item"].to_numpy())
    assert section["model"] == evaluate.score(predicted, test["rating"].to_numpy())
    judged = evaluate.score_model(rater(), test).ratings["biases"]
    assert section["usual"]["nll"] == pytest.approx(judged["nll"])


def test_ratings_that_were_learnt_from_are_no_test():
    learnt, others = ratings().iloc[::2], ratings().iloc[1::2]
    html = pages.ratings_page(rater(), test=ratings())
    assert f"On {len(others):,} ratings that it has not learnt from" in html
    assert f"{len(learnt):,} more ratings were given to test it on" in html
    assert "that it has not learnt from" not in pages.ratings_page(rater(), test=learnt)
