"""Tokens, several models, files that are replaced, figures, and what browsers are told."""

import asyncio
import json
import logging
import os
import shutil
import threading
import time

import pytest
from served import ALLOWED, asked, client_of, file_of, refused

import ordinalrbm as orbm
from ordinalrbm.serve import ServedModel, guard
from ordinalrbm.serve.app import refresh


@pytest.fixture
def films(tmp_path):
    return ServedModel("films", file_of("ordinal_mf", tmp_path))


RATING = {"user": "u0", "item": "ü0", "rating": 5}


def test_changes_need_the_token(films):
    client = client_of(films)
    before = films.service.model.ratings_
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": ALLOWED["Authorization"][7:]}):
        for path in ("/ratings", "/forget", "/save", "/models/films/ratings"):
            answer = client.post(path, json={"ratings": [RATING]}, headers=headers)
            assert (answer.status_code, list(answer.json())) == (401, ["error"])
    answer = client_of(films, token=None).post("/save", json={}, headers=ALLOWED)
    assert answer.status_code == 403 and "--token-file" in answer.json()["error"]
    assert films.service.model.ratings_ is before


def test_what_was_learnt_is_in_the_file_after_save(films):
    client = client_of(films)
    asked(client, "/ratings", ratings=[RATING | {"user": "new"}])
    assert "new" not in orbm.load(films.path).users_.labels
    assert asked(client, "/save") == {"saved": "films"}
    assert "new" in orbm.load(films.path).users_.labels
    assert films.refresh() is None  # it is what is live


def test_a_newer_file_is_not_written_over(films, tmp_path, monkeypatch):
    client = client_of(films)
    newer = orbm.load(films.path).update((["from the night"], ["ü0"], [5]))
    newer.save(films.path)
    asked(client, "/forget", users=["u0"])
    kept = orbm.load(films.path).users_
    assert "from the night" in kept and "u0" not in kept
    assert 'model_swaps_total{model="films",result="loaded"} 1' in client.get("/metrics").text
    # While that file is loaded, another one comes; and one that is only half there.
    load, whole = films._load, films.path.read_bytes()

    def and_another():
        found = load()
        newer.save(films.path)
        return found

    monkeypatch.setattr(films, "_load", and_another)
    os.utime(films.path, ns=(1, 1))
    assert films.refresh() is None and "u0" not in films.service.model.users_
    assert "is being replaced" in refused(client, "/save")
    monkeypatch.setattr(films, "_load", load)
    films.path.write_bytes(whole[:100])
    assert asked(client, "/save") == {"saved": "films"}
    assert client.get("/health").json()["status"] == "ok"
    assert films.path.read_bytes() == whole


def test_what_cannot_be_written_is_in_memory(films, monkeypatch):
    client = client_of(films)
    save = films.service.model.save
    monkeypatch.setattr(films.service.model, "save", lambda path: save(tmp / "no" / "place.orbm"))
    tmp = films.path.parent
    assert "The change is in memory; call /save" in refused(client, "/forget", users=["u0"])
    monkeypatch.undo()
    asked(client, "/save")
    assert "u0" not in orbm.load(films.path).users_


def test_ids_that_no_request_may_have_are_served(tmp_path):
    ratings = ([*"aabb"], ["\u00a0", "y", "\u00a0", "y"], [1, 2, 2, 1])
    orbm.OrdinalMF(1, n_epochs=1, random_state=0).fit(ratings).save(tmp_path / "few.orbm")
    client = client_of(ServedModel("few", tmp_path / "few.orbm"))
    assert asked(client, "/predict", users=["a"], items=["y"])["predictions"]


def test_several_models_are_side_by_side(films, tmp_path):
    survey = ServedModel("people", file_of("vector", tmp_path, "people.orbm"))
    client = client_of(films, survey)
    assert asked(client, "/models/films/recommend", users=["u1"])["recommendations"]
    assert asked(client, "/models/people/impute", rows=[{}])["rows"]
    for path in ("/recommend", "/models/people/recommend"):
        assert client.post(path, json={"users": ["u0"]}).status_code in (404, 405)
    paths = client.get("/openapi.json").json()["paths"]
    assert "/models/people/ask" in paths and "/models/people/ratings" not in paths
    assert list(client.get("/health").json()["models"]) == ["films", "people"]


def test_a_new_file_is_live_and_a_bad_one_is_not(films, tmp_path, caplog):
    client = client_of(films)
    metrics, before = client.app.state.metrics, films.service
    assert not refresh([films], metrics)
    other = orbm.load(films.path).update(([*"ab"], ["ü0", "ü1"], [5, 3]))
    other.save(films.path)
    with caplog.at_level(logging.INFO, "ordinalrbm.serve"):
        assert refresh([films], metrics) and films.service is not before
    assert asked(client, "/predict", users=["a"], items=["ü1"])["predictions"][0]["rating"] == pytest.approx(
        float(other.predict("a", "ü1"))
    )
    whole, live = films.path.read_bytes(), films.service
    for spoilt in (whole[: len(whole) // 2], b"", bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]])):
        films.path.write_bytes(spoilt)
        assert refresh([films], metrics) and films.service is live
        assert not refresh([films], metrics)  # it is not tried again
        health = client.get("/health").json()
        assert health["status"] == "stale" and str(tmp_path) not in health["models"]["films"]["error"]
    file_of("vector", tmp_path)
    assert refresh([films], metrics) and "another kind" in films.error and films.service is live
    films.path.unlink()
    assert refresh([films], metrics) and films.service is live
    films.path.write_bytes(whole)
    assert refresh([films], metrics) and client.get("/health").json()["status"] == "ok"
    text = client.get("/metrics").text
    assert 'model_swaps_total{model="films",result="loaded"} 2' in text
    assert 'model_swaps_total{model="films",result="refused"} 5' in text
    assert "stays as it was" in caplog.text and "is live" in caplog.text


def test_files_are_looked_at_while_the_application_runs(films, tmp_path):
    with client_of(films, watch=0.01) as client:
        before = films.service
        new = tmp_path / "new.orbm"
        shutil.copy(films.path, new)
        os.replace(new, films.path)
        end = time.monotonic() + 60
        while films.service is before and time.monotonic() < end:
            time.sleep(0.01)
        assert films.service is not before
        assert asked(client, "/recommend", users=["u1"])["recommendations"]


def test_each_answer_is_of_one_model_while_models_change(films):
    """Threads ask while the model is updated and replaced: no answer is of none of them."""
    client, wrong = client_of(films), []
    done = threading.Event()

    def ask():
        while not done.is_set():
            answer = client.post("/recommend", json={"users": ["u0", "u1", "later"], "n": 2})
            if answer.status_code != 200 or not answer.json()["recommendations"]:
                wrong.append(answer.text)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(4):
        asked(client, "/ratings", ratings=[RATING | {"user": f"later-{k}"}])
        os.utime(films.path, ns=(k, k))
        assert films.refresh() == "loaded"
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pages_of_other_sites_are_not_let_in(films):
    origin = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client_of(films).options("/recommend", headers=origin).headers
    allowed = client_of(films, origins=[origin["Origin"]]).options("/recommend", headers=origin)
    assert allowed.headers["access-control-allow-origin"] == origin["Origin"]
    assert allowed.status_code == 200  # without which browsers do not ask


def test_slow_and_broken_bodies_are_given_up(films, monkeypatch):
    """A client that sends nothing more, and one that goes away, at the ASGI interface."""
    monkeypatch.setattr(guard, "_SLOWEST_BODY", 0.01)
    app, head = client_of(films).app, [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/recommend", "headers": head, "query_string": b""}

    async def status_after(*messages):
        waiting, answered = list(messages), []

        async def receive():
            if not waiting:
                await asyncio.sleep(60)
            return waiting.pop(0)

        async def send(message):
            answered.append(message)

        await app(dict(scope), receive, send)
        return answered[0]["status"], json.loads(answered[1]["body"])["error"]

    part = {"type": "http.request", "body": b"{", "more_body": True}
    assert asyncio.run(status_after(part)) == (408, "The body took more than 0.01 seconds; send it faster.")
    gone = {"type": "http.disconnect"}
    assert asyncio.run(status_after(part, gone)) == (400, "The body ends before its length; send all of it.")
    many = [{"type": "http.request", "body": b" " * 300_000, "more_body": True} for _ in range(9)]
    assert asyncio.run(status_after(*many))[0] == 413


def test_hosts_that_are_not_named_are_refused(films):
    client = client_of(films, hosts=["localhost", "[::1]"])
    for host, status in (
        ("localhost:80", 200),
        ("[::1]:1", 200),
        ("evil.example", 400),
        ("localhost.evil", 400),
    ):
        assert client.get("/health", headers={"Host": host}).status_code == status


def test_the_page_needs_nothing_from_elsewhere(films):
    client = client_of(films)
    for path, kind in (("/", "text/html"), ("/explore.css", "text/css"), ("/explore.js", "text/javascript")):
        answer = client.get(path)
        assert answer.headers["content-type"].startswith(kind)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "http:" not in answer.text and "https:" not in answer.text and "//cdn" not in answer.text
    assert client.get("/docs").status_code == 404


def test_what_is_unforeseen_is_one_sentence_for_clients(films, caplog, monkeypatch):
    client = client_of(films)
    monkeypatch.setattr(films.service, "model", None)
    assert "unforeseen" in refused(client, "/recommend", status=500, users=["u0"])
    assert "AttributeError" in caplog.text
