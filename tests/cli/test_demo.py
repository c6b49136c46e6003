from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import ordinalrbm as orbm
from ordinalrbm.cli import demo_run
from ordinalrbm.data.tables import read_table
from ordinalrbm.evaluate.hidden import hide_answers, marginals
from ordinalrbm.pages import points, reporting

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
    """One demo from end to end: what it found and printed. t-SNE is tested elsewhere, and slow."""
    console, stream = printed()
    path = tmp_path_factory.mktemp("demo") / "food.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "row_positions", lambda factors, **_: np.asarray(factors)[:, :2])
        subject, rater, scores = demo_run.run(path, console=console, n_factors=4, n_epochs=8)
    return subject.model, rater, scores, path, text_of(stream)


def test_demo_from_end_to_end(demo):
    model, _, scores, path, text = demo
    survey, rating, usual = scores.values()
    assert survey["nll"] < usual["nll"] - 0.03
    assert survey["mae_median"] < usual["mae_median"] - 0.03
    assert survey["accuracy"] > usual["accuracy"] + 0.02
    assert rating["nll"] < usual["nll"] - 0.1
    assert rating["mae_median"] < usual["mae_median"] - 0.1
    assert [one.name for one in path.parent.iterdir()] == ["food.html"]

    assert "1,373 Americans" in text and "CC BY 4.0" in text and "2,394" in text
    assert f"{survey['mae_median']:.3f}" in text
    assert f"{usual['accuracy']:.1%}" in text
    assert f"{rating['mae_median']:.3f}" in text
    assert "should try next" in text and "Ratings that speak most for" in text
    told, reading = " ".join(text.split()), model.factor_solution()
    for factor in reading.telling():
        cuisine, loading = next(iter(reading.strongest(factor, 4).items()))
        explained = reading.reliability.at[factor, "explained"]
        assert f"{factor} {explained:.0%} {cuisine} {loading:+.2f}" in told
    assert str(path) in text
    assert "How much do you like the food of Ghana?" in path.read_text(encoding="utf-8")
    for line in text.splitlines():
        assert len(line) <= 80 or str(path) in line
    assert "\x1b" not in text and "\r" not in text


def test_demo_without_unicode(demo, tmp_path, monkeypatch):
    """Again with what was learnt before, and without the report."""
    model, rater, *_ = demo
    monkeypatch.setattr(demo_run, "_learn", lambda *_: (model, rater))
    monkeypatch.setattr(reporting, "survey_page", lambda *_, **__: "a page")
    console, stream = printed("ascii")
    demo_run.run(tmp_path / "food.html", console=console)
    assert "The tastes it found" in text_of(stream)


def test_an_interrupted_demo_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_run, "_learn", stop)
    with pytest.raises(KeyboardInterrupt):
        demo_run.run(tmp_path / "food.html", console=printed()[0])
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
