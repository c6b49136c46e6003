"""Parts of the demand beside factors: weights between items, what comes next, and how they are mixed."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.data.observations import Observations
from ordinalrbm.matrix import demand_choice, implicit_als, item_weights, sequence
from ordinalrbm.matrix.blend import HeldOutChoices
from ordinalrbm.matrix.item_weights import ItemWeights, Past


def past(n_rows=12, n_columns=9, seed=0, with_ties=False):
    """Rows that choose some columns, one after the other."""
    rng = np.random.default_rng(seed)
    row, column, age = [], [], []
    for d in range(n_rows):
        own = rng.permutation(n_columns)[: rng.integers(1, n_columns + 1)]
        row += [d] * own.size
        column += own.tolist()
        age += (np.arange(own.size) // (2 if with_ties else 1)).tolist()
    answers = Observations.from_triples(
        np.array(row), np.array(column), np.zeros(len(row), int), n_rows, n_columns, 2
    )
    ages = np.empty(len(row), dtype=np.uint16)
    ages[answers.search(np.array(row), np.array(column))] = age
    return Past(answers, ages)


def orders(data):
    """Columns of each row, from the first that was chosen to the last."""
    found = []
    for d in range(data.answers.n_rows):
        own = slice(data.answers.row_start[d], data.answers.row_start[d + 1])
        found.append(data.answers.column[own][np.argsort(-data.age[own].astype(int))])
    return found


def histories(chosen, n_columns):
    """(H n_columns,) of what was chosen, by the definition."""
    found = np.zeros((2, n_columns))
    for since, column in enumerate(chosen[::-1]):
        found[0, column] = np.exp(-since / 2.0) if since < 30 else 0.0
        found[1, column] = 0.5 * np.exp(-since / 25.0) if since < 60 else 0.0
    return found.ravel()


def test_weights_to_the_next_are_a_ridge_regression_over_all_positions():
    data = past(40, 9)
    x, y = [], []
    for order in orders(data):
        for t in range(1, order.size):
            x.append(histories(order[:t], 9))
            y.append(np.eye(9)[order[t]])
    x, y = np.array(x), np.array(y)
    ridge = 0.6 * np.square(x).sum() / 18
    truth = np.linalg.solve(x.T @ x + ridge * np.eye(18), x.T @ y)
    found = sequence.NormalEquations(data, np.arange(9)).solved(0.6)
    dense = np.zeros((18, 9))
    np.put_along_axis(dense, found.target.astype(int), found.weight, axis=1)
    np.testing.assert_allclose(dense, truth, atol=2e-4)
    scores = found.scores(data, np.arange(40))
    for d, order in enumerate(orders(data)):
        np.testing.assert_allclose(scores[d], histories(order, 9) @ truth, atol=1e-3)


def test_a_long_history_counts_in_the_equations_as_in_scores():
    """Beyond the windows, too: 80 choices of a row."""
    order = np.random.default_rng(0).permutation(80)
    answers = Observations.from_triples(np.zeros(80, int), order, np.zeros(80, int), 1, 80, 2)
    age = np.empty(80, dtype=np.uint16)
    age[order] = np.arange(80)[::-1]
    data = Past(answers, age)
    x = np.array([histories(order[:t], 80) for t in range(1, 80)])
    y = np.eye(80)[order[1:]]
    found = sequence.NormalEquations(data, np.arange(80))
    np.testing.assert_allclose(found.gram, x.T @ x, atol=1e-4)
    np.testing.assert_allclose(found.cross, x.T @ y, atol=1e-5)


def test_neighbours_are_the_constrained_regression():
    """Each column on all others, which is what the closed form stands for."""
    answers = past(50, 8).answers
    chosen = (answers.to_dense() >= 0).astype(float)
    gram = chosen.T @ chosen
    ridge = 2.0 * np.diag(gram).mean()
    columns = np.arange(8)
    every = np.zeros(8, dtype=np.int16)
    found = item_weights.neighbours(
        item_weights.gram_of(item_weights.chosen_of(answers, columns)), columns, 2.0, every
    )
    dense = np.zeros((8, 8))
    np.put_along_axis(dense, found.target.astype(int), found.weight, axis=1)
    for j in range(8):
        others = columns[columns != j]
        truth = np.linalg.solve(gram[np.ix_(others, others)] + ridge * np.eye(7), gram[others, j])
        np.testing.assert_allclose(dense[others, j], truth, atol=1e-3)
        assert dense[j, j] == 0.0
    np.testing.assert_allclose(
        found.scores(Past(answers, None), np.array([3]))[0], chosen[3] @ dense, atol=1e-3
    )


def test_only_frequent_columns_take_part(monkeypatch):
    monkeypatch.setattr(item_weights, "MOST_COLUMNS", 4)
    data = past(30, 9)
    columns = item_weights.frequent(data.answers)
    counts = data.answers.column_counts
    assert columns.size == 4 and counts[columns].min() >= np.delete(counts, columns).max()
    found = sequence.NormalEquations(data, columns).solved(1.0)
    scores = found.scores(data, np.arange(30))
    assert not np.delete(scores, columns, axis=1).any() and scores[:, columns].any()


def test_choices_of_one_time_have_an_order_that_stays():
    data = past(20, 9, with_ties=True)
    equations = sequence.NormalEquations(data, np.arange(9))
    again = sequence.NormalEquations(data, np.arange(9))
    np.testing.assert_array_equal(equations.gram, again.gram)
    # As many positions, whatever the ties.
    n_next = np.maximum(data.answers.row_counts - 1, 0).sum()
    strict = sequence.NormalEquations(past(20, 9), np.arange(9))
    assert np.trace(equations.gram) == pytest.approx(np.trace(strict.gram), rel=1e-5)
    assert n_next > 0


def logit(n_rows=3000, n_columns=6, seed=0):
    """Held-out choices that are drawn with known exponents of two parts."""
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal((n_rows, n_columns)).astype(np.float32) for _ in range(3)]
    liking = np.log(np.linspace(0.2, 1.0, n_columns)).astype(np.float32)
    total = 1.5 * parts[0] + 0.7 * parts[1] + liking
    is_chosen = rng.random(total.shape) < 0.3
    is_chosen[:, 0] = False
    total[is_chosen] = -np.inf
    drawn = (total + rng.gumbel(size=total.shape)).argmax(axis=1)
    share = np.ones((n_rows, 1), dtype=np.float32)
    rows = np.arange(n_rows)
    return HeldOutChoices(rows, rows, drawn, is_chosen, share, liking), parts


def test_exponents_are_found_again():
    held, parts = logit()
    exponents, _ = held.exponents(parts)
    np.testing.assert_allclose(exponents, [1.5, 0.7, 0.0], atol=0.1)


def test_what_is_not_liked_counts_in_no_weight_between_liked_items():
    """Neither in what is learnt nor in what a row is asked by."""
    rng = np.random.default_rng(0)
    answers = past(60, 8).answers
    answers = replace(answers, level=rng.integers(0, 5, answers.n_entries).astype(np.int8))
    lowest = rng.integers(1, 4, 8)
    settings = demand_choice.Settings((1.0, 0.0, 1.0, 0.0), (0.1,) * 4, neighbours=8.0)
    found = settings.blend(Past(answers, None), lowest).liked
    liked = answers.select(answers.level >= lowest[answers.column])
    dense = (liked.to_dense() >= 0).astype(float)
    gram = item_weights.gram_of(item_weights.chosen_of(liked, np.arange(8)))
    truth = dense @ item_weights.between(gram, 8.0)
    np.testing.assert_allclose(found.scores(Past(answers, None), np.arange(60)), truth, atol=2e-3)


@pytest.mark.parametrize("with_times", [False, True])
def test_held_out_choices_are_liked_ones_of_the_end_or_of_anywhere(with_times):
    data = past(200, 9, with_ties=True)
    level = np.random.default_rng(1).integers(0, 2, data.answers.n_entries).astype(np.int8)
    data = Past(replace(data.answers, level=level), data.age if with_times else None)
    train, held = demand_choice._held_out(data, 0.05, np.random.default_rng(0))
    assert held.row.size > 20 and (held.level == 1).all()
    assert not (train.answers.search(held.row, held.column) >= 0).any()
    if not with_times:
        return
    for d in np.unique(held.row):
        own = held.column[held.row == d]
        age = data.age[data.answers.search(np.full(own.size, d), own)]
        left = slice(train.answers.row_start[d], train.answers.row_start[d + 1])
        assert np.unique(age).size == 1 and (train.age[left] > age[0]).all() and left.start < left.stop


def test_where_nothing_liked_is_left_to_learn_from_all_is_finite():
    """Views, and one purchase of each user in the end, which is held out."""
    data = past(300, 12)
    has_others = np.repeat(data.answers.row_counts > 1, data.answers.row_counts)
    level = ((data.age == 0) & has_others).astype(np.int8)
    found = demand_choice.chosen(
        Past(replace(data.answers, level=level), data.age), np.ones(12, dtype=np.int64), 3, 0.1, 0
    )
    assert found.exponents and np.isfinite(found.exponents).all() and np.isfinite(found.least).all()


def test_what_parts_count_is_found_with_the_weights_of_choices():
    answers, lowest = past(300, 12).answers, np.zeros(12, dtype=np.int64)
    weight = np.random.default_rng(0).choice([0.5, 8.0], answers.n_entries)
    found = [
        demand_choice.chosen(Past(answers.with_weight(own), None), lowest, 3, 0.1, 0).exponents
        for own in (weight, np.ones(weight.size), weight[:0])
    ]
    np.testing.assert_allclose(found[1], found[2], rtol=1e-3)
    assert abs(found[0][0] - found[1][0]) > 1e-3


def test_weights_of_some_columns_ask_for_the_same_levels():
    rng, data = np.random.default_rng(0), past(30, 9)
    answers = replace(data.answers, level=rng.integers(0, 5, data.answers.n_entries).astype(np.int8))
    settings = demand_choice.Settings((1.0, 0.0, 1.0, 0.0), (0.1,) * 4)
    blend, some = settings.blend(Past(answers, None), rng.integers(1, 5, 9)), np.array([7, 2, 4, 5])
    rows = np.arange(30)
    fewer = answers.reorder(rows, some)
    there = answers.select(np.isin(answers.column, some))
    np.testing.assert_allclose(
        blend.taken(some).liked.scores(Past(fewer, None), rows),
        blend.liked.scores(Past(there, None), rows)[:, some],
        atol=1e-6,
    )


def chains(n_users=300, n_items=40, with_times=True, seed=0):
    """Users walk along the items in a circle, from anywhere; ratings tell nothing."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_users), 8)
    item = (rng.integers(0, n_items, n_users)[:, None] + np.arange(8)).ravel() % n_items
    frame = pd.DataFrame({"user": user, "item": item, "rating": rng.integers(1, 6, user.size)})
    return frame.assign(timestamp=np.tile(np.arange(8), n_users)) if with_times else frame


@pytest.fixture(scope="module")
def walking():
    return orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(chains())


def next_ones(model, frame):
    best = model.recommend("all", n=1, score="demand")
    last = frame.groupby("user")["item"].last()
    return (best.set_index("user")["item"] == (last + 1) % 40).mean()


def test_what_comes_next_is_recommended_where_there_are_times(walking):
    assert walking.demand_.blend.sequence is not None
    assert next_ones(walking, chains()) > 0.95
    without = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(chains(with_times=False))
    assert without.demand_.blend.sequence is None
    assert next_ones(without, chains()) < 0.7


def test_new_users_and_updates_have_a_sequence(walking, tmp_path):
    new = pd.DataFrame({"user": 999, "item": [20, 21, 22, 5, 6, 7], "rating": 3})
    new["timestamp"] = [1, 2, 3, 4, 5, 6]
    found = walking.recommend(ratings=new, score="demand")
    assert found["item"][0] == 8
    later = new.assign(timestamp=[11, 12, 13, 4, 5, 6])
    assert walking.recommend(ratings=later, score="demand")["item"][0] == 23
    folded = walking.fold_in(new).recommend(999, score="demand")
    pd.testing.assert_frame_equal(found, folded, rtol=1e-3)
    walking.save(tmp_path / "model.orbm")
    again = orbm.load(tmp_path / "model.orbm")
    pd.testing.assert_frame_equal(again.recommend("all", n=3), walking.recommend("all", n=3))
    again.update(new)
    assert again.recommend(999, n=1, score="demand")["item"][0] == 8


@pytest.mark.parametrize("form", ["two columns", "with times", "two arrays", "all equal"])
def test_choices_alone_are_learnt_from(form):
    frame = chains()
    both = frame.assign(rating=1)
    given = {
        "two columns": frame[["user", "item"]],
        "with times": frame[["user", "item", "timestamp"]],
        "two arrays": (frame["user"].to_numpy(), frame["item"].to_numpy()),
        "all equal": both.drop(columns="timestamp"),
    }[form]
    with pytest.warns(UserWarning, match="there is nothing to rate, and only who chooses what is learnt"):
        model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(given)
    best = model.recommend("all", n=3)
    pd.testing.assert_frame_equal(best, model.recommend("all", n=3, score="demand"))
    # Neighbours on the circle, and not the first ids.
    first = frame.groupby("user")["item"].first().to_numpy()
    away = (best["item"].to_numpy().reshape(-1, 3)[:, 0] - first) % 40
    assert (np.minimum(away, (8 - 1 - away) % 40 + 7) < 20).mean() > 0.9
    new = ([999] * 3, [5, 6, 7])
    assert set(model.recommend(ratings=new, n=2)["item"]) <= {2, 3, 4, 8, 9, 10}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("exponents", lambda array: array + 100.0),
        ("least", lambda array: array * 0.0),
        ("sequence.columns", lambda array: array + 1000),
        ("sequence.target", lambda array: array + 1000),
        ("sequence.weight", lambda array: array + np.float16(1e4)),
        ("neighbours.fading", lambda array: array - 1.0),
    ],
)
def test_weights_of_files_are_checked(walking, part, change):
    from ordinalrbm.matrix.blend import Blend
    from ordinalrbm.storage.reader import Stored

    blend = walking.demand_.blend
    if blend.neighbours is None:
        blend = blend._replace(neighbours=blend.sequence)
    arrays = blend.to_arrays()
    assert Blend.from_stored(Stored(arrays, {}), 40) is not None
    arrays[part] = change(arrays[part]) if part != "neighbours.fading" else arrays[part] - np.float32(2.0)
    with pytest.raises(orbm.DataError):
        Blend.from_stored(Stored(arrays, {}), 40)


@pytest.mark.parametrize("parts", ["all", "neighbours", "liked", "sequence", "none"])
def test_a_blend_is_a_product_of_powers(parts):
    """By the formula, for rows with many choices, few, and none."""
    rng, data = np.random.default_rng(0), past(30, 9)
    is_left = data.answers.cells().row != 4
    answers = data.answers.select(is_left)
    answers = replace(answers, level=rng.integers(0, 5, answers.n_entries).astype(np.int8))
    data, lowest = Past(answers, data.age[is_left]), rng.integers(1, 5, 9)
    settings = demand_choice.Settings((0.8, 0.5, 0.6, 1.2), (0.1, 0.02, 0.04, 0.03), 1.0)
    blend = settings.blend(data, lowest)
    names = ("neighbours", "liked", "sequence")
    blend = blend._replace(**{name: None for name in names if parts not in (name, "all")})
    factors, facing = rng.normal(0.2, 0.4, (30, 3)), rng.normal(0.3, 0.5, (9, 3))
    demand = implicit_als.Demand.of(factors, facing, 1.0, blend=blend)
    rows, counts = np.arange(30), data.answers.row_counts
    share = (counts**2 / (counts**2 + 100.0))[:, None]
    products = np.log(np.maximum(demand.rows.astype(float) @ demand.columns.T, 0.0) + 0.1)
    total = (share * 0.8 + 1.0 - share) * products
    for part, exponent, least in zip(blend[:3], blend.exponents[1:], blend.least[1:], strict=True):
        if part is not None:
            total += share * exponent * np.log(np.maximum(part.scores(data, rows), 0.0) + least)
    np.testing.assert_allclose(demand.scores(demand.rows, data, rows), np.exp(total), rtol=1e-4)


def test_weights_are_the_largest():
    dense = np.arange(12.0).reshape(3, 4) - 6.25
    found = ItemWeights.of(np.arange(4), item_weights._ALL_ALIKE, dense, 2)
    assert found.target.tolist() == [[0, 1], [0, 1], [2, 3]]
    assert found.weight.tolist() == [[-6.25, -5.25], [-2.25, -1.25], [3.75, 4.75]]
