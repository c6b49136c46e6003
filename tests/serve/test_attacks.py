"""Sixty ways to be rude: each is answered by one sentence, and the server goes on."""

import json

import pytest
from served import TOKEN, client_of, file_of

from ordinalrbm.serve import ServedModel

JSON = {"content-type": "application/json"}
ALLOWED = JSON | {"authorization": f"Bearer {TOKEN}"}
RATED = {"item": "ü0", "rating": 4}
DEEP = 100_000


def of(path, body, status=422, headers=ALLOWED, method="POST"):
    """A request: its body is sent as it is if it is text or bytes."""
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    return method, path, content, headers, status


ATTACKS = {
    # paths
    "climbs out": of("/../../../etc/passwd", "", 404, {}, "GET"),
    "climbs out, escaped": of("/%2e%2e/%2e%2e/etc/passwd", "", 404, {}, "GET"),
    "climbs out, twice escaped": of("/%252e%252e%252fetc%252fpasswd", "", 404, {}, "GET"),
    "climbs out by backslashes": of("/..\\..\\app.py", "", 404, {}, "GET"),
    "climbs out of models": of("/models/../../app.py", "", 404, {}, "GET"),
    "asks for the code": of("/../app.py", "", 404, {}, "GET"),
    "asks for a hidden file": of("/.git/config", "", 404, {}, "GET"),
    "ends a path with zero": of("/explore.js%00.html", "", 404, {}, "GET"),
    "asks for a model that is none": of("/models/none/recommend", {"users": ["u0"]}, 405),
    "asks for a folder": of("/page/", "", 404, {}, "GET"),
    "asks with a very long path": of("/" + "a" * 5_000, "", 404, {}, "GET"),
    "deletes": of("/recommend", "", 405, {}, "DELETE"),
    "puts": of("/models/films/about", {}, 405, ALLOWED, "PUT"),
    "traces": of("/health", "", 405, {}, "TRACE"),
    "posts to a page": of("/", {}, 405),
    # bodies
    "huge body": of("/recommend", b" " * 1_000_001, 413),
    "huge length": of("/recommend", "{}", 413, ALLOWED | {"content-length": "99999999999"}),
    "no body": of("/recommend", b"", 422),
    "half an object": of("/recommend", '{"users": ["u0"', 422),
    "no UTF-8": of("/recommend", b'{"users": ["\xff\xfe"]}', 400),
    "deep lists": of("/recommend", "[" * DEEP, 400),
    "deep objects": of("/recommend", '{"users":' * DEEP, 400),
    "deep and closed": of("/recommend", "[" * DEEP + "]" * DEEP, 400),
    "a list": of("/recommend", [1, 2]),
    "a number": of("/recommend", "7"),
    "null": of("/recommend", "null"),
    "a huge number": of("/recommend", '{"users": [' + "9" * 5_000 + "]}", 400),
    "a number beyond int64": of("/recommend", '{"users": [9223372036854775808]}'),
    "NaN": of("/ratings", '{"ratings": [{"user": "u0", "item": "ü0", "rating": NaN}]}'),
    "Infinity": of("/ratings", '{"ratings": [{"user": "u0", "item": "ü0", "rating": Infinity}]}'),
    "minus infinity by size": of("/ratings", '{"ratings": [{"user": "u0", "item": "ü0", "rating": -1e999}]}'),
    "code": of("/recommend", b"\x80\x04cposix\nsystem\n(S'true'\ntR.", 400),
    # content types
    "no content type": of("/recommend", {"users": ["u0"]}, 415, {}),
    "text": of("/recommend", {"users": ["u0"]}, 415, {"content-type": "text/plain"}),
    "a form": of("/recommend", "users=u0", 415, {"content-type": "application/x-www-form-urlencoded"}),
    "XML": of("/recommend", "<users/>", 415, {"content-type": "application/xml"}),
    "compressed": of("/recommend", b"\x1f\x8b", 415, JSON | {"content-encoding": "gzip"}),
    # types and sizes
    "users that are a word": of("/recommend", {"users": "all"}),
    "users that are an object": of("/recommend", {"users": {"u0": 1}}),
    "a user that is true": of("/recommend", {"users": [True]}),
    "a user that is null": of("/recommend", {"users": [None]}),
    "a user that is a list": of("/recommend", {"users": [["u0"]]}),
    "a user that is a fraction": of("/recommend", {"users": [1.5]}),
    "nobody": of("/recommend", {"users": []}),
    "nothing": of("/recommend", {}),
    "n of zero": of("/recommend", {"users": ["u0"], "n": 0}),
    "n of minus one": of("/recommend", {"users": ["u0"], "n": -1}),
    "n without end": of("/recommend", {"users": ["u0"], "n": 10**9}),
    "n in words": of("/recommend", {"users": ["u0"], "n": "10"}),
    "more users than a batch": of("/recommend", {"users": ["u0"] * 1_001}),
    "more ratings than a batch": of("/recommend", {"ratings": [RATED] * 1_001}),
    "an unknown field": of("/recommend", {"users": ["u0"], "__class__": "x"}),
    "an unknown score": of("/recommend", {"users": ["u0"], "score": "__dict__"}),
    "a score of another type": of("/recommend", {"users": ["u0"], "score": ["expected"]}),
    "pairs that do not pair": of("/predict", {"users": ["u0", "u1"], "items": ["ü0", "ü1", "ü2"]}),
    "a rating twice": of("/recommend", {"ratings": [RATED, RATED]}),
    "a label that is none": of("/recommend", {"ratings": [{"item": "ü0", "rating": "🍵"}]}),
    "to forget the unknown": of("/forget", {"users": ["nobody"]}),
    "to forget nothing": of("/forget", {}),
    # ids
    "a control character": of("/recommend", {"users": ["u0\r\nX: y"]}),
    "zero in an id": of("/recommend", {"users": ["u\0"]}),
    "half a character": of("/recommend", '{"users": ["\\ud800"]}'),
    "text turned round": of("/recommend", {"users": ["\u202eu0"]}),
    "a long id": of("/recommend", {"users": ["u" * 501]}),
    "an empty id": of("/recommend", {"users": [""]}),
    "a control character in a field": of("/recommend", {"\x1b[31m": 1}),
    # tokens
    "no token": of("/ratings", {"ratings": [RATED]}, 401, JSON),
    "an empty token": of("/ratings", {"ratings": [RATED]}, 401, JSON | {"authorization": "Bearer "}),
    "half a token": of("/save", {}, 401, JSON | {"authorization": f"Bearer {TOKEN[:-1]}"}),
    "a token and more": of("/save", {}, 401, JSON | {"authorization": f"Bearer {TOKEN}x"}),
    "the token as a password": of("/save", {}, 401, JSON | {"authorization": f"Basic {TOKEN}"}),
    "a token of other letters": of("/save", {}, 401, JSON | {"authorization": b"Bearer \xff\xfe"}),
    "the token in the address": of(f"/save?token={TOKEN}", {}, 401, JSON),
    "the token in a cookie": of("/save", {}, 401, JSON | {"cookie": f"authorization={TOKEN}"}),
    # hosts
    "another host": of("/health", "", 400, {"host": "evil.example"}, "GET"),
    "a host that begins well": of("/health", "", 400, {"host": "testserver.evil.example"}, "GET"),
    "no host": of("/health", "", 400, {"host": ""}, "GET"),
    "a host with a user": of("/health", "", 400, {"host": "testserver@evil.example"}, "GET"),
    "a forwarded host": of("/health", "", 400, {"host": "evil", "x-forwarded-host": "testserver"}, "GET"),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    return client_of(ServedModel("films", file_of("ordinal_mf", folder)), hosts=["testserver"])


@pytest.fixture(scope="module")
def usual(client):
    return client.post("/recommend", json={"users": ["u0", "u1"]}).json()


def test_there_are_sixty():
    assert len(ATTACKS) >= 60


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_answered_by_one_sentence(client, usual, name):
    method, path, content, headers, status = ATTACKS[name]
    answer = client.request(method, path, content=content, headers=headers)
    assert answer.status_code == status, answer.text
    said = answer.json()["error"]
    assert list(answer.json()) == ["error"] and said.isprintable() and said.endswith(".")
    assert len(said) < 400 and "Traceback" not in said and TOKEN not in said
    assert client.post("/recommend", json={"users": ["u0", "u1"]}).json() == usual
