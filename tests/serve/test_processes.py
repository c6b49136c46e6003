"""The command, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from long_form import LONG
from served import TOKEN, file_of
from typer.testing import CliRunner

import ordinalrbm as orbm
from ordinalrbm import cli

SOURCE = Path(orbm.__file__).parents[1]
PATIENCE = 300


@contextmanager
def serving(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process of a server, and its port."""
    server = subprocess.Popen(
        [sys.executable, "-m", "ordinalrbm", "serve", *map(str, arguments), "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stderr is not None
    try:
        for line in server.stderr:
            if found := re.search(r"at http://127\.0\.0\.1:(\d+)", line):
                yield server, int(found[1])
                break
        else:
            raise AssertionError("it has not begun")
    finally:
        server.kill()
        server.communicate()


def ask(port: int, path: str, body: object = None, headers: dict[str, str] | None = None) -> object:
    data = None if body is None else json.dumps(body).encode()
    own = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, own)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def raw(port: int, content: bytes, *, is_whole: bool = False) -> bytes:
    """What is answered to bytes that are no request."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
        try:
            line.sendall(content)
            if not is_whole:
                line.shutdown(socket.SHUT_WR)
            return line.makefile("rb").read()
        except TimeoutError:
            raise
        except OSError:  # it has closed before all of it was read
            return b""


def until(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never true"
        time.sleep(0.05)


LISTS = {"users": ["u1", "u2"], "n": 3}


def test_garbage_swaps_changes_and_a_graceful_stop(tmp_path):
    path, token = file_of("ordinal_mf", tmp_path), tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with serving(path, "--token-file", token, "--watch", "0.1") as (server, port):
        wanted = ask(port, "/recommend", LISTS)
        for garbage in (b"\0" * 5_000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 200_000, b"",
                        b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                        b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        b"Content-Length: 50\r\n\r\n{",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000):  # fmt: skip
            answer = raw(port, garbage)
            assert not answer or re.match(rb"HTTP/1\.[01] 4\d\d ", answer), (garbage[:40], answer[:200])
        for climbing in (b"/../../etc/passwd", b"/%2e%2e/app.py", b"//etc/passwd", b"http://evil/../x"):
            request = b"GET " + climbing + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            answer = raw(port, request, is_whole=True)
            assert re.match(rb"HTTP/1\.1 40\d ", answer) and b"root:" not in answer
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(port, "/ratings", {"ratings": []})
        new = {"ratings": [{"user": "new", "item": "ü1", "rating": 4}]}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert ask(port, "/ratings", new, headers) == {"users": 9, "items": 6}
        assert ask(port, "/forget", {"users": ["u7"]}, headers) == {"users": 8, "items": 6}
        assert b"u7" not in path.read_bytes() and "new" in orbm.load(path).users_
        file_of("ordinal_mf", tmp_path, "again.orbm").replace(path)
        until(lambda: ask(port, "/about")["users"] == 8 and ask(port, "/recommend", LISTS) == wanted)
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_workers_are_replaced_and_get_new_models(tmp_path):
    path = file_of("ordinal_mf", tmp_path)
    with serving(path, "--workers", 2, "--watch", "0.1") as (server, port):
        wanted = ask(port, "/recommend", LISTS)

        def workers() -> set[int]:
            found = subprocess.run(
                ["ps", "--ppid", str(server.pid), "-o", "pid="], capture_output=True, text=True
            )
            return set(map(int, found.stdout.split()))

        before = workers()
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)
        until(lambda: len(workers()) == 2 and min(before) not in workers())
        assert ask(port, "/recommend", LISTS) == wanted
        model = orbm.load(path)
        model.update((["new"], ["ü1"], [4])).save(path)
        until(lambda: ask(port, "/about")["users"] == 9)
        until(lambda: len(workers()) == 2 and not workers() & before)
        path.write_bytes(b"no model")
        until(lambda: ask(port, "/health")["status"] == "stale")
        assert ask(port, "/about")["users"] == 9
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0
        until(lambda: not workers())


def run(*arguments):
    return CliRunner().invoke(cli.app, [*map(str, arguments)], env={"COLUMNS": "80"})


def test_what_cannot_be_served_is_said_in_one_sentence(tmp_path):
    path, short = file_of("ordinal_mf", tmp_path), tmp_path / "short"
    short.write_text("secret")
    shutil.copy(path, tmp_path / "größe.orbm")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for arguments, said in (
            ([tmp_path / "none.orbm"], "does not exist"),
            ([path, path], "the same name"),
            ([tmp_path / "größe.orbm"], "cannot be part of an address"),
            ([f"a/b={path}"], "cannot be part of an address"),
            ([path, "--token-file", short], "holds no token"),
            ([path, "--token-file", tmp_path / "none"], "does not exist"),
            ([path, "--port", taken.getsockname()[1]], "cannot be taken"),
            ([f"a={path}", f"b={path}", "--titles", short], "does not say of which model"),
        ):
            done = run("serve", *arguments)
            assert done.exit_code == 2 and said in done.stderr, (arguments, done.stderr)
            assert done.stderr.count("Error:") == 1 and done.stderr.rstrip().endswith(".")
    long = tmp_path / "long"
    long.write_text(TOKEN)
    done = run("serve", path, "--token-file", long, "--workers", 2)
    assert done.exit_code == 2 and "single process" in done.stderr


def test_forget_changes_the_file_or_writes_another(tmp_path):
    path = file_of("ordinal_mf", tmp_path)
    before = path.read_bytes()
    done = run("forget", path, "--users", "u7, u3", "--items", "ü1", "-o", tmp_path / "few.orbm", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["forgotten"] == {"user": 2, "item": 1}
    few = orbm.load(tmp_path / "few.orbm")
    assert "u7" not in few.users_ and "ü1" not in few.items_ and path.read_bytes() == before
    done = run("forget", path, "--user", "u7")
    assert done.exit_code == 0 and "Forgot 1 user" in done.stdout
    assert b"u7" in before and b"u7" not in path.read_bytes()
    assert {one.name for one in tmp_path.iterdir()} == {"model.orbm", "few.orbm"}
    kept = path.read_bytes()
    for arguments, said in (([], "nothing to forget"), (["--users", "u7"], "is not known")):
        done = run("forget", path, *arguments)
        assert done.exit_code == 2 and said in done.stderr and path.read_bytes() == kept


@pytest.mark.parametrize("pause", [0.0, 0.2] if LONG else [0.2])
def test_a_server_ends_while_it_puts_new_workers_in_place(tmp_path, pause):
    path = file_of("ordinal_mf", tmp_path)
    with serving(path, "--workers", "2", "--watch", "0.05") as (server, port):
        ask(port, "/recommend", {"users": ["u1"]})
        os.replace(file_of("ordinal_mf", tmp_path, "new.orbm"), path)
        time.sleep(pause)
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE / 5) == 0
