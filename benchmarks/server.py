"""Requests per second of `ordinalrbm serve`, beside a FastAPI application around implicit.

    python benchmarks/server.py [--data ml-100k] [--requests 400] [--rounds 9] [--seconds 10] [--workers 1]

Needs ``pip install implicit``. Both models have learnt for a few epochs, because times do not depend on how
good they are. Both servers run at once, and take turns in being asked, round by round; only over this
machine's loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from sources import ratings

import ordinalrbm as orbm

IMPLICIT = """
import sys
import numpy as np, pandas as pd, uvicorn
from fastapi import FastAPI
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

table = pd.read_parquet(sys.argv[1])
users, user = np.unique(table["user"], return_inverse=True)
items, item = np.unique(table["item"], return_inverse=True)
seen = csr_matrix((np.ones(len(table), np.float32), (user, item)))
model = AlternatingLeastSquares(64, iterations=3, num_threads=1)
model.fit(seen, show_progress=False)
place = {int(one): k for k, one in enumerate(users)}
app = FastAPI()

@app.get("/recommend")
def recommend(user: int, n: int = 10):
    found, score = model.recommend(place[user], seen[place[user]], N=n)
    return [{"item": int(items[k]), "score": float(s)} for k, s in zip(found, score)]

uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""
Request = bytes


def get(path: str) -> Request:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(path: str, body: Any) -> Request:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def ask(port: int, requests: list[Request], n_connections: int, seconds: float) -> np.ndarray:
    """Milliseconds of each request, over so many connections that stay open."""
    waiting, found, end = iter(requests), [], time.perf_counter() + seconds

    async def one_connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in waiting:
            begun = time.perf_counter()
            if begun > end:
                break
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.split(b"\r\n")[0], head
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            found.append(1e3 * (time.perf_counter() - begun))
        writer.close()

    await asyncio.gather(*(one_connection() for _ in range(n_connections)))
    return np.array(found)


def measured(asking: dict[str, tuple[int, list[Request]]], n_connections: int, asked: Any) -> None:
    """Rounds in which all take turns; rates are medians of rounds, and ratios are to the first of a round."""
    rates: dict[str, list[float]] = {name: [] for name in asking}
    times: dict[str, list[np.ndarray]] = {name: [] for name in asking}
    for _ in range(asked.rounds):
        for name, (port, requests) in asking.items():
            begun = time.perf_counter()
            times[name].append(asyncio.run(ask(port, requests, n_connections, asked.seconds)))
            rates[name].append(times[name][-1].size / (time.perf_counter() - begun))
    first = np.array(rates[next(iter(asking))])
    for name, found in rates.items():
        ratio, (half, late) = np.array(found) / first, np.quantile(np.concatenate(times[name]), [0.5, 0.99])
        print(
            f"{n_connections:>3} connections  {name:<34} {np.median(found):8.1f} requests/s "
            f"({np.median(ratio):5.2f} of the first, {ratio.min():.2f} to {ratio.max():.2f})   "
            f"p50 {half:8.2f} ms   p99 {late:8.2f} ms",
            flush=True,
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as where:
        return where.getsockname()[1]


def until_up(port: int, path: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}")
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("A server has not begun.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    table = ratings(asked.data)[["user", "item", "rating"]]
    rng, users = np.random.default_rng(0), table["user"].unique()
    some, items = rng.choice(users, asked.requests).tolist(), table["item"].unique()[:500]
    new = [
        [{"item": int(item), "rating": 4} for item in rng.choice(items, 5, replace=False)]
        for _ in range(asked.requests)
    ]
    ours = {
        "ordinalrbm, recommend": [post("/recommend", {"users": [user]}) for user in some],
        "ordinalrbm, by 5 new ratings": [post("/recommend", {"ratings": own}) for own in new],
        "ordinalrbm, predict": [post("/predict", {"users": [u], "items": [int(items[0])]}) for u in some],
    }
    with tempfile.TemporaryDirectory() as folder:
        data, model, code = (Path(folder) / name for name in ("ratings.parquet", "model.orbm", "app.py"))
        table.to_parquet(data)
        code.write_text(IMPLICIT)
        orbm.OrdinalMF(20, n_epochs=3, random_state=0).fit(table).save(model)
        port, peer, env = free_port(), free_port(), {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        serve = [
            sys.executable,
            "-m",
            "ordinalrbm",
            "serve",
            model,
            "--port",
            port,
            "--workers",
            asked.workers,
        ]
        servers = [
            subprocess.Popen([*map(str, command)], env=env)
            for command in (serve, [sys.executable, code, data, peer])
        ]
        try:
            until_up(port, "/health")
            until_up(peer, f"/recommend?user={some[0]}")
            theirs = [get(f"/recommend?user={user}") for user in some]
            for requests in ours.values():  # what is done for the first time
                asyncio.run(ask(port, requests[:20], 2, asked.seconds))
            asking = {"FastAPI and implicit, recommend": (peer, theirs)}
            asking |= {name: (port, requests) for name, requests in ours.items()}
            for n_connections in (1, 8, 64):
                measured(asking, n_connections, asked)
        finally:
            for server in servers:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
