"""When a server says that it is ready, requests find everything compiled; before, it says that it is not."""

import gc
import os
import shutil
import threading
import time

import pytest
from numba.core.registry import CPUDispatcher
from served import ALLOWED, client_of
from stored_models import file_of
from threadpoolctl import threadpool_info

import ordinalrbm as orbm
from ordinalrbm.serve import ServedModel

SCORES = ("expected", "liked", "rating", "demand")


def forms():
    """What is compiled now: every kernel of ours, for every kind of arguments."""
    kernels = [one for one in gc.get_objects() if isinstance(one, CPUDispatcher)]
    return {
        (kernel.py_func.__module__, kernel.py_func.__qualname__, str(signature))
        for kernel in kernels
        if kernel.py_func.__module__.startswith("ordinalrbm.")
        for signature in kernel.signatures
    }


def forget_forms():
    """Let the kernels be as in a new process: those that other tests have used are not there."""
    for one in gc.get_objects():
        if isinstance(one, CPUDispatcher) and hasattr(one._cache, "load_overload"):
            one._reset_overloads()


def requests_of_ratings(model):
    users, items = model.users_.labels.tolist(), model.items_.labels.tolist()
    nobody, label = (
        ("nobody" if model.users_.is_text else 99_999),
        [model.ratings_.scale_of(j).labels[-1] for j in range(len(items))],
    )
    of_person = [{"item": items[j], "rating": label[j]} for j in (1, 2)]
    of_users = [one | {"user": who} for one in of_person for who in (users[2], nobody)]
    timed = [one | {"timestamp": 1_700_000_000 + k} for k, one in enumerate(of_users)]
    many = [{"item": items[k % 5], "rating": label[k % 5], "user": users[k // 5]} for k in range(20)]
    for score in SCORES:
        for who in (
            {"users": users[1:2]},
            {"users": [*users, nobody]},
            {"users": users * 100},
            {"ratings": of_person},
            {"ratings": of_users, "users": [users[2], nobody]},
            {"ratings": timed},
            {"ratings": many},
        ):
            for more in (
                {},
                {"items": items[2:], "exclude": items[:1], "n": 2},
                {"liked": label[0], "exclude_seen": False},
            ):
                yield "/recommend", {**who, **more, "score": score}
    for rule in ("mean", "mode", "median"):
        yield "/predict", {"users": users[1:2], "items": items[1:2], "rule": rule}
        yield "/predict", {"users": [*users[:3], nobody], "items": items[:4], "rule": rule, "proba": True}
    for by in ("demand", "taste"):
        yield "/similar", {"item": items[1], "by": by}
        yield "/similar", {"user": users[1], "by": by}
    yield "/explain", {"user": users[1], "item": items[2]}
    for ratings in (of_person, timed):
        yield "/explain", {"ratings": ratings, "item": items[0]}
    yield "/search", {"text": "1"}


def requests_of_survey(model):
    names = [str(name) for name in model.feature_names_in_]
    whole = {
        name: 1.5 if scale is None else scale.labels[0]
        for name, scale in zip(names, model.scales_, strict=True)
    }
    background = set(names) - {names[j] for j in model.questionnaire_.questions}
    whole |= dict.fromkeys(background, "south")
    part = dict(list(whole.items())[:2])
    for rows in ([{}], [part], [whole, part, {}] * 100):
        yield "/impute", {"rows": rows}
        yield "/impute", {"rows": rows, "proba": True}
        yield "/scores", {"rows": rows}
    for more in (
        {},
        {"k": 2},
        {"factors": "all"},
        {"factors": ["Factor 2"], "until": 0.3},
        {"among": names[2:4]},
    ):
        yield "/ask", more
        yield "/ask", {**more, "answers": part}


def changes_of(model):
    users, items = model.users_.labels.tolist(), model.items_.labels.tolist()
    rating = {"item": items[1], "rating": model.ratings_.scale_of(1).labels[0]}
    yield "/ratings", {"ratings": [rating | {"user": users[1]}]}
    yield "/ratings", {"ratings": [rating | {"user": "new" if model.users_.is_text else 777}]}
    yield "/ratings", {"ratings": [rating | {"user": users[2], "timestamp": 1_700_000_000}]}
    yield "/forget", {"users": users[3:4]}
    yield "/forget", {"items": items[4:5]}


@pytest.mark.parametrize(
    "kind",
    [
        "vector", "mixed", "ordinal_mf", "point", "featured", "sampled", "matrix_crbm", "gaussian_mf",
        "multinomial_rbm",
    ],
)  # fmt: skip
def test_no_request_compiles(kind, tmp_path):
    path = shutil.copy(file_of(kind), tmp_path)
    model, is_survey = orbm.load(path), kind in ("vector", "mixed")
    forget_forms()
    client = client_of(ServedModel("model", path))
    ready = forms()

    def ask(asked):
        answers = [client.post(path, json=body, headers=ALLOWED) for path, body in asked]
        assert {answer.status_code for answer in answers} <= {200, 422}
        return [answer.status_code for answer in answers].count(200)

    asked = list((requests_of_survey if is_survey else requests_of_ratings)(model))
    assert ask(asked) > len(asked) / 2
    assert forms() == ready
    if not is_survey:
        ask(changes_of(model))
        ask(asked)
        assert forms() == ready


def test_until_it_is_ready_a_server_says_so(tmp_path, monkeypatch):
    served, begun = (
        ServedModel("films", shutil.copy(file_of("ordinal_mf"), tmp_path), warm=False),
        threading.Event(),
    )
    warm, go_on = served.service.warm, threading.Event()

    def slow():
        begun.set()
        assert go_on.wait(60)
        warm()

    monkeypatch.setattr(served.service, "warm", slow)
    with client_of(served) as client:
        ready = threading.Event()
        client.app.state.on_ready = ready.set
        assert begun.wait(60)
        health = client.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "starting")
        for path, body in (("/recommend", {"users": ["u1"]}), ("/forget", {"users": ["u1"]}), ("/save", {})):
            answer = client.post(path, json=body, headers=ALLOWED)
            assert answer.status_code == 503 and "is starting" in answer.json()["error"]
        assert not ready.is_set()
        go_on.set()
        assert ready.wait(60)
        health = client.get("/health")
        assert (health.status_code, health.json()["status"]) == (200, "ok")
        assert client.post("/recommend", json={"users": ["u1"]}).json()["recommendations"]
        of_blas = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
        assert of_blas and set(of_blas) == {1}
    assert 'status="503"' in client.get("/metrics").text


def test_a_new_file_is_live_when_it_is_warm(tmp_path, monkeypatch):
    """The old model answers until then; a file whose model cannot be asked is refused."""
    path = shutil.copy(file_of("ordinal_mf"), tmp_path)
    served = ServedModel("films", path)
    before, seen = served.service, []

    def warm(self):
        seen.append(served.service is before)
        if len(seen) == 1:
            raise RuntimeError("it does not answer")

    monkeypatch.setattr(type(before), "warm", warm)
    os.utime(path, ns=(1, 1))
    assert served.refresh() == "refused" and served.service is before
    os.utime(path, ns=(2, 2))
    assert served.refresh() == "loaded" and served.service is not before
    assert seen == [True, True] and served.is_ready


def test_a_model_that_cannot_be_asked_never_becomes_ready(tmp_path, monkeypatch, caplog):
    served = ServedModel("films", shutil.copy(file_of("ordinal_mf"), tmp_path), warm=False)

    def fail():
        raise RuntimeError("it does not answer")

    monkeypatch.setattr(served.service, "warm", fail)
    with client_of(served, token=None) as client:
        end = time.monotonic() + 60
        while served.error is None and time.monotonic() < end:
            time.sleep(0.01)
        health = client.get("/health")
        assert health.status_code == 503 and health.json()["models"]["films"]["error"] == "it does not answer"
    assert "requests cannot be answered" in caplog.text
