"""The server says what the model says in Python."""

import numpy as np
import pandas as pd
import pytest
from served import RATINGS, asked, client_of, file_of, refused

import ordinalrbm as orbm
from ordinalrbm.serve import ServedModel

TITLES = {"ü0": "Tea", "ü1": "Milk", "0": "Zero"}


@pytest.fixture(params=RATINGS)
def films(request, tmp_path):
    path = file_of(request.param, tmp_path)
    return orbm.load(path), client_of(ServedModel("films", path, TITLES))


@pytest.fixture
def mf(tmp_path):
    path = file_of("ordinal_mf", tmp_path)
    return orbm.load(path), client_of(ServedModel("films", path, TITLES))


@pytest.fixture
def survey(tmp_path):
    path = file_of("vector", tmp_path)
    return orbm.load(path), client_of(ServedModel("survey", path))


def ids(model):
    return model.users_.labels.tolist(), model.items_.labels.tolist()


def label_of(model, item):
    return model.ratings_.scale_of(int(model.ratings_.lookup([item], "item")[0])).labels[-1]


def test_lists_are_those_of_the_model_at_both_addresses(films):
    model, client = films
    users, items = ids(model)
    wanted = model.recommend([*users, "nobody" if model.users_.is_text else 99_999], 3, exclude=items[:1])
    request = {"users": wanted["user"].unique().tolist(), "n": 3, "exclude": items[:1]}
    for path in ("/recommend", "/models/films/recommend"):
        lines = asked(client, path, **request)["recommendations"]
        assert [line["title"] for line in lines] == [TITLES.get(str(item)) for item in wanted["item"]]
        found = pd.DataFrame(lines)
        np.testing.assert_allclose(found["score"], wanted["score"])
        assert (
            found[["user", "item", "rank"]].values.tolist()
            == wanted[["user", "item", "rank"]].values.tolist()
        )


def test_lists_with_conditions_are_those_of_the_model(tmp_path):
    path = file_of("sampled", tmp_path)
    model, client = orbm.load(path), client_of(ServedModel("films", path))
    users, items = ids(model)[0][:2], ids(model)[1]
    for conditions in ({"items": items[1:]}, {"score": "liked", "liked": label_of(model, items[0])}):
        wanted = model.recommend(users, 3, exclude_seen=False, **conditions)
        lines = asked(client, "/recommend", users=users, n=3, exclude_seen=False, **conditions)
        found = pd.DataFrame(lines["recommendations"])[wanted.columns.tolist()]
        pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    said = refused(client, "/recommend", users=users, where={"genre": "Comedy"})
    assert "no features of items" in said or "no item feature" in said
    assert "where" in refused(client, "/recommend", users=users, where="Comedy")


def test_a_person_without_an_id_is_inferred_by_ratings(films):
    model, client = films
    item = ids(model)[1][0]
    label = label_of(model, item)
    found = asked(client, "/recommend", ratings=[{"item": item, "rating": label}], n=2)["recommendations"]
    nobody = "x" if model.users_.is_text else -7
    wanted = model.recommend(ratings=([nobody], [item], [label]), n=2)
    assert [line["user"] for line in found] == [None] * len(wanted)
    assert [line["item"] for line in found] == wanted["item"].tolist()
    np.testing.assert_allclose([line["score"] for line in found], wanted["score"])


def test_predictions_pair_by_pair(films):
    model, client = films
    users, items = ids(model)
    pairs = {"users": users[:3], "items": items[:3]}
    found = asked(client, "/predict", **pairs, proba=True)["predictions"]
    np.testing.assert_allclose([line["rating"] for line in found], model.predict(*pairs.values()))
    for line, chance in zip(found, model.predict_proba(*pairs.values()), strict=True):
        assert len(line["labels"]) == len(line["probabilities"])
        np.testing.assert_allclose(line["probabilities"], chance[: len(line["labels"])])
    assert "number" not in refused(client, "/predict", users=users[:2], items=items[:3])


def test_reasons_and_what_is_alike(mf):
    model, client = mf
    users, items = ids(model)
    found, wanted = (
        asked(client, "/explain", user=users[1], item=items[2], n=3),
        model.explain(users[1], items[2], 3),
    )
    assert found["expected"] == pytest.approx(wanted.expected)
    assert found["baseline"] == pytest.approx(wanted.baseline)
    assert [line["item"] for line in found["ratings"]] == wanted.ratings["item"].tolist()
    label = label_of(model, items[0])
    of_nobody = asked(client, "/explain", ratings=[{"item": items[0], "rating": label}], item=items[1])
    wider = model.fold_in((["x"], items[:1], [label]))
    assert of_nobody["expected"] == pytest.approx(wider.explain("x", items[1]).expected)
    similar = asked(client, "/similar", item=items[0], n=2)["similar"]
    assert [line["item"] for line in similar] == model.similar_items(items[0], 2)["item"].tolist()
    similar = asked(client, "/similar", user=users[0], n=2, by="taste")["similar"]
    assert [line["user"] for line in similar] == model.similar_users(users[0], 2, by="taste")["user"].tolist()
    assert "either" in refused(client, "/similar") and "either" in refused(client, "/explain", item=items[0])


def test_search_finds_ids_and_titles(mf):
    model, client = mf
    found = asked(client, "/search", text=" TEA")["found"]
    assert found == [{"item": "ü0", "title": "Tea", "labels": [1, 2, 3, 4, 5]}]
    counts = model.ratings_.observations.column_counts
    first = asked(client, "/search", n=1)["found"][0]["item"]
    assert first == ids(model)[1][int(counts.argmax())]
    assert asked(client, "/search", what="user", text="u1")["found"] == [{"user": "u1"}]
    about = client.get("/about").json()
    assert (about["users"], about["items"]) == tuple(map(len, ids(model)))


def test_ids_that_are_numbers_may_come_as_text(tmp_path):
    users, items = np.divmod(np.arange(60), 6)
    model = orbm.OrdinalMF(2, n_epochs=1, random_state=0).fit((users, items, 1 + (users + items) % 3))
    model.save(tmp_path / "m.orbm")
    client = client_of(ServedModel("m", tmp_path / "m.orbm"))
    found = asked(client, "/predict", users=["3", 3], items=[4, "4"])["predictions"]
    assert found[0] == found[1] and found[0]["user"] == 3
    for wrong in ("three", "³", "9" * 30):
        assert "is no number" in refused(client, "/predict", users=[wrong], items=[1])


def test_new_ratings_are_learnt_and_counted(mf):
    model, client = mf
    users, items = ids(model)
    new = [{"user": who, "item": items[0], "rating": label_of(model, items[0])} for who in (users[0], "new")]
    found = asked(client, "/ratings", ratings=new)
    assert found == {"users": len(users) + 1, "items": len(items)}
    frame = pd.DataFrame(new)
    chances = model.predict_proba(frame["user"], frame["item"])[:, -1]
    model.update(frame)
    after = asked(client, "/predict", users=["new"], items=[items[1]])["predictions"][0]["rating"]
    assert after == pytest.approx(float(model.predict("new", [items[1]])[0]))
    text = client.get("/metrics").text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
    assert float(figures['ordinalrbm_ratings_total{model="films"}']) == 2
    loss = float(figures['ordinalrbm_rating_log_loss_sum{model="films"}'])
    assert loss == pytest.approx(-np.log(chances).sum(), rel=1e-5)
    assert figures['ordinalrbm_requests_total{path="/ratings",status="200"}'] == "1"
    assert figures['ordinalrbm_request_seconds_count{path="/ratings"}'] == "1"


def test_ratings_that_cannot_be_learnt_change_nothing(mf):
    model, client = mf
    users, items = ids(model)
    rating = {"user": users[0], "item": items[0], "rating": 1}
    assert "has no user" in refused(client, "/ratings", ratings=[{"item": items[0], "rating": 1}])
    assert "scale" in refused(client, "/ratings", ratings=[rating | {"rating": 77}])
    assert "timestamp" in refused(
        client, "/ratings", ratings=[rating, rating | {"item": items[1], "timestamp": 5}]
    )
    assert "ratings_total{" not in client.get("/metrics").text
    found = asked(client, "/recommend", users=users, n=5)["recommendations"]
    assert [line["item"] for line in found] == model.recommend(users, n=5)["item"].tolist()


def test_surveys_are_imputed_scored_and_asked(survey):
    model, client = survey
    name = str(model.feature_names_in_[2])
    label = model.scales_[2].labels[-1]
    rows = [{name: label}, {}, {name: None}]
    table = pd.DataFrame([[row.get(key) for key in model.feature_names_in_] for row in rows], dtype=object)
    table.columns = model.feature_names_in_
    found = asked(client, "/impute", rows=rows, proba=True)
    assert [list(row.values()) for row in found["rows"]] == model.impute(table).values.tolist()
    chances = model.predict_proba(table)
    np.testing.assert_allclose(found["probabilities"][0]["mood"], chances[3][0])
    scores = model.scores(table)
    np.testing.assert_allclose(pd.DataFrame(asked(client, "/scores", rows=rows)["scores"]), scores)
    best = asked(client, "/ask", answers={name: label}, k=2, factors="all")
    wanted = model.ask({name: label}, k=2, factors="all")
    assert [line["question"] for line in best["questions"]] == wanted["question"].tolist()
    assert best["scores"] == pytest.approx(wanted.attrs["scores"])
    about = client.get("/about").json()["questions"]
    assert [one["question"] for one in about] == list(model.feature_names_in_)
    assert "(did you mean 'mood'?)" in refused(client, "/impute", rows=[{"moot": 1}])


def test_questions_without_names_are_numbered(tmp_path):
    table = np.random.default_rng(0).integers(1, 5, (50, 4)).astype(float)
    model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(table)
    model.save(tmp_path / "m.orbm")
    client = client_of(ServedModel("m", tmp_path / "m.orbm"))
    found = asked(client, "/impute", rows=[{"1": 2}])["rows"][0]
    assert found["1"] == 2 and list(found) == ["0", "1", "2", "3"]
    assert asked(client, "/ask", answers={"1": 2}, among=["0"])["questions"][0]["question"] == "0"
