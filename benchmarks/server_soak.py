"""An hour of load on `ordinalrbm serve`: is any answer wrong, any request lost, any memory kept?

    python benchmarks/server_soak.py [--minutes 60] [--swaps 10] [--connections 4] [--pause 0]

One server has two models: the file of "films" is replaced time and again by one of two others, and "live"
learns new ratings. A second one answers for "films" by two workers, one of which is killed (-9) after each
swap. Each answer for films must be that of one of the two files, and from ten seconds after a swap on, of
the new one; each answer for live is compared with a model in this process that has learnt the same.
Meanwhile others send garbage, bodies that end too early, and bodies of one byte per second. Ends with 1 if
an answer is wrong, a request that is in order is refused, or memory grows by more than 5 % after a tenth of
the time. Connections that end with a killed worker, or with one that a swap replaces, are counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from server import free_port, post, until_up
from sources import ratings

import ordinalrbm as orbm

TOKEN = "only-for-the-hour-of-the-soak"
LATE = 10.0  # seconds after which a new file must be live
LIMIT = 1.05
N_NEW = 200  # users who come by their ratings


class Soak:
    """What is asked, what should be answered, and what was."""

    def __init__(self, folder: Path, minutes: float, n_swaps: int, pause: float) -> None:
        table = ratings("ml-100k")[["user", "item", "rating"]]
        self.table, self.end, self.minutes, self.n_swaps = table, 0.0, minutes, n_swaps
        self.users = table["user"].unique()[:200].tolist()
        self.files = [folder / f"{seed}.orbm" for seed in (0, 1)]
        for seed, path in enumerate(self.files):
            orbm.OrdinalMF(8, n_epochs=3, random_state=seed).fit(table).save(path)
        self.films, live = folder / "films.orbm", folder / "live.orbm"
        shutil.copy(self.files[0], self.films)
        shutil.copy(self.files[0], live)
        self.truth = [lists_of(orbm.load(path), self.users) for path in self.files]
        self.mirror, self.live_file = orbm.load(live), live
        self.swapped_at, self.shown, self.counts = 0.0, 0, Counter()
        self.seconds: list[float] = []
        self.killed_at, self.pause = -LATE, pause

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    async def films_of(self, port: int, path: str, *, may_break: bool) -> None:
        """Ask for one user after the other."""
        rng, connection = np.random.default_rng(port), None
        while self.goes_on:
            user = self.users[int(rng.integers(len(self.users)))]
            begun, shown, since = time.monotonic(), self.shown, self.swapped_at
            try:
                connection = connection or await asyncio.open_connection("127.0.0.1", port)
                status, answer = await asked(connection, post(path, {"users": [user]}))
            except (OSError, asyncio.IncompleteReadError):
                connection = None
                now, why = time.monotonic(), "LOST"
                if may_break and now - self.killed_at < LATE:
                    why = "lost with a killed worker"
                elif may_break and now - self.swapped_at < LATE:
                    why = "connections closed by workers that were replaced"
                self.counts[why] += 1
                await asyncio.sleep(0.1)
                continue
            self.seconds.append(time.monotonic() - begun)
            found = None if status != 200 else [line["item"] for line in answer["recommendations"]]
            # Only requests that see no swap from their beginning to their end say which file is live.
            is_settled = shown == self.shown and begun - since > LATE
            right = [self.truth[shown % 2]] if is_settled else self.truth
            is_right = any(found == lists[user] for lists in right)
            self.counts["right answers" if is_right else "WRONG"] += 1
            await asyncio.sleep(self.pause)

    async def learn(self, port: int) -> None:
        """Teach a rating, and compare the list of that user with that of the mirror."""
        rng, connection = np.random.default_rng(7), await asyncio.open_connection("127.0.0.1", port)
        items, number = self.table["item"].unique(), 0
        while self.goes_on:
            number += 1
            # New users come until there are as many as can be: then nothing is left to grow.
            user = int(rng.choice(self.users)) if number % 2 else 100_000 + number % (2 * N_NEW)
            some = [int(item) for item in rng.choice(items, 3, replace=False)]
            lines = [{"user": user, "item": item, "rating": int(rng.integers(1, 6))} for item in some]
            status, _ = await asked(connection, post_with_token("/models/live/ratings", {"ratings": lines}))
            self.mirror.update(pd.DataFrame(lines))
            self.counts["updates" if status == 200 else "REFUSED UPDATES"] += 1
            status, answer = await asked(connection, post("/models/live/recommend", {"users": [user]}))
            found = [line["item"] for line in answer["recommendations"]] if status == 200 else None
            is_right = found == self.mirror.recommend(user)["item"].tolist()
            self.counts["right answers after updates" if is_right else "WRONG AFTER UPDATES"] += 1
            await asyncio.sleep(1.0)

    async def send_garbage(self, port: int) -> None:
        """Bytes that are no request, and bodies that end too early."""
        rng, whole = np.random.default_rng(3), post("/models/films/recommend", {"users": [1]})
        while self.goes_on:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            is_cut = bool(rng.integers(2))
            try:
                writer.write(whole[:-4] if is_cut else rng.bytes(200) + b"\r\n\r\n")
                if is_cut:
                    writer.write_eof()
                await self.refuse(reader, "garbage refused")
            except OSError:
                self.counts["garbage refused"] += 1
            finally:
                writer.close()
            await asyncio.sleep(0.4)

    async def be_slow(self, port: int) -> None:
        """A client that sends ten bytes per second, and never the last."""
        whole = post("/models/films/recommend", {"users": [1]})
        while self.goes_on:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                for byte in whole[:-1]:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.1)
                await self.refuse(reader, "slow clients refused")
            except OSError:
                self.counts["slow clients refused"] += 1
            finally:
                writer.close()

    async def refuse(self, reader: asyncio.StreamReader, what: str) -> None:
        try:
            answer = await asyncio.wait_for(reader.read(100), 40.0)
        except TimeoutError:
            what = "NEITHER ANSWERED NOR CLOSED"
        else:
            what = what if b" 200 " not in answer else "GARBAGE ANSWERED"
        self.counts[what] += 1

    async def swap(self, workers: subprocess.Popen) -> None:
        for turn in range(1, self.n_swaps + 1):
            await asyncio.sleep(60.0 * self.minutes / (self.n_swaps + 1))
            fresh = self.films.with_suffix(".new")
            shutil.copy(self.files[turn % 2], fresh)
            os.replace(fresh, self.films)
            self.shown, self.swapped_at = turn, time.monotonic()
            await asyncio.sleep(LATE)
            children = subprocess.run(
                ["pgrep", "-P", str(workers.pid)], capture_output=True, text=True, check=False
            ).stdout.split()
            if children:
                self.killed_at = time.monotonic()
                os.kill(int(children[0]), 9)
                self.counts["killed workers"] += 1

    async def watch(self, servers: list[subprocess.Popen]) -> list[list[float]]:
        found = []
        while self.goes_on:
            found.append([memory(server.pid) for server in servers])
            minute = len(found) * self.minutes / 20
            print(
                f"minute {minute:5.1f}  memory of the servers {found[-1][0]:7.1f} {found[-1][1]:7.1f} MiB  "
                f"{dict(self.counts)}",
                flush=True,
            )
            await asyncio.sleep(60.0 * self.minutes / 20)
        return found

    async def run(self, servers: list[subprocess.Popen], ports: list[int], n: int) -> list[list[float]]:
        self.end = time.monotonic() + 60.0 * self.minutes
        tasks = [self.films_of(ports[0], "/models/films/recommend", may_break=False) for _ in range(n)]
        tasks += [self.films_of(ports[1], "/recommend", may_break=True) for _ in range(n)]
        tasks += [way(port) for way in (self.send_garbage, self.be_slow) for port in ports]
        others = self.learn(ports[0]), self.swap(servers[1])
        found = await asyncio.gather(self.watch(servers), *others, *tasks)
        return found[0]


def lists_of(model: Any, users: list[Any]) -> dict[Any, list[Any]]:
    return {user: model.recommend(user)["item"].tolist() for user in users}


def post_with_token(path: str, body: Any) -> bytes:
    return post(path, body).replace(b"\r\n", f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode(), 1)


async def asked(connection: Any, request: bytes) -> tuple[int, Any]:
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


def memory(pid: int) -> float:
    """Of a process and its children, in MiB: what is theirs, shared pages in shares."""
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    total = 0
    for one in (pid, *map(int, children.stdout.split())):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            total += int(line.split()[1]) if line.startswith("Pss:") else 0
    return total / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--swaps", type=int, default=10)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between requests of a connection")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), given.minutes, given.swaps, given.pause)
        ports = [free_port(), free_port()]
        quiet = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        environments = [{**quiet, "ORDINALRBM_TOKEN": TOKEN}, quiet]  # workers take no changes
        serve = [sys.executable, "-m", "ordinalrbm", "serve"]
        files = [[f"films={soak.films}", f"live={soak.live_file}"], [soak.films, "--workers", 2]]
        servers = [
            subprocess.Popen([*serve, *map(str, own), "--port", str(port)], env=env)
            for own, port, env in zip(files, ports, environments, strict=True)
        ]
        try:
            for port in ports:
                until_up(port, "/health")
            found = np.array(asyncio.run(soak.run(servers, ports, given.connections)))
        finally:
            for server in servers:
                server.terminate()
                server.wait()
    # Medians, because workers that leave are beside the new ones for a while.
    first, last = found[len(found) // 10 : len(found) // 2], found[-(-3 * len(found) // 4) :]
    usual, late = np.median(first, axis=0), np.median(last, axis=0)
    quantiles = 1e3 * np.quantile(soak.seconds, [0.5, 0.99, 0.999])
    print(f"{len(soak.seconds):,} lists; p50, p99, p99.9: {', '.join(f'{q:.1f}' for q in quantiles)} ms")
    for what, number in sorted(soak.counts.items()):
        print(f"{what:50s} {number:,}")
    print(f"memory of the last quarter over that of the first half: {np.round(late / usual, 3)}")
    sys.exit(any(what.isupper() for what in soak.counts) or bool((late > LIMIT * usual).any()))


if __name__ == "__main__":
    main()
