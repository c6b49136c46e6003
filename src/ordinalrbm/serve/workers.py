"""Running the application: in this process, or in several that share the models' memory.

Several are forked from one that has loaded the models and answers nothing itself. It looks at the files:
when a new model is there, workers that have it take the place of the others, which first answer what they
were asked. So a model is in memory once, and a worker that dies is replaced.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import uvicorn

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.threads import threads
from ordinalrbm.serve.app import Settings, create_app, refresh
from ordinalrbm.serve.source import ServedModel

log = logging.getLogger("ordinalrbm.serve")
_CONNECTIONS = 1_000  # of a process at once; more are told to come again
_GRACE = 10  # seconds for requests that are under way when the server stops
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_PAUSE, _TOO_SOON = 0.1, 1.0  # seconds between looks at the workers, and before one that died is replaced


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        where = socket.create_server((host, port), family=family, backlog=_CONNECTIONS)
    except OSError as error:
        raise DataError(
            f"The address {host}, port {port} cannot be taken ({error.strerror or error}); give another "
            "with --host and --port."
        ) from error
    # asyncio does so only with sockets of its own; without it, the end of an answer waits 40 ms.
    where.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return where


def run(
    models: Sequence[ServedModel],
    settings: Settings,
    where: socket.socket,
    n_workers: int,
    on_ready: Callable[[], None],
) -> None:
    """Answer until SIGTERM or Ctrl-C; in forked workers, if there are to be several.

    Models of these must have been loaded by a single thread, since others do not survive a fork.
    """
    if n_workers == 1:
        app = create_app(models, settings)
        app.state.on_ready = on_ready
        return _serve(app, where)
    # Workers that are finishing their requests need a line of metrics each, and so does this process.
    app = create_app(models, settings._replace(watch=0.0, n_counting=3 * n_workers + 1))
    with threads(1):
        parent = _Parent(app, where, n_workers)
        parent.warm(models)
        parent.run(models, settings.watch or float("inf"), on_ready)


def _serve(app: Any, where: socket.socket) -> None:
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    limits: dict[str, Any] = {"limit_concurrency": _CONNECTIONS, "timeout_graceful_shutdown": _GRACE}
    uvicorn.Server(uvicorn.Config(app, **quiet, **limits)).run(sockets=[where])


class _Parent:
    def __init__(self, app: Any, where: socket.socket, n_workers: int) -> None:
        self.app, self.where, self.n_workers, self.is_stopped = app, where, n_workers, False
        self.lines: dict[int, int] = {}  # of the metrics, by process
        self.workers: set[int] = set()  # those that do not leave
        app.state.metrics.worker = 3 * n_workers

    def warm(self, models: Sequence[ServedModel]) -> None:
        """Let first workers say that models are not ready until they are."""
        self._start_all()
        try:
            for served in models:
                served.warm()
        except BaseException:
            self._end(set(self.lines))
            raise

    def run(self, models: Sequence[ServedModel], watch: float, on_ready: Callable[[], None]) -> None:
        for number in _STOPPING:
            signal.signal(number, self._stop)
        self._start_all()
        looked, is_said = time.monotonic(), False
        while not self.is_stopped:
            time.sleep(_PAUSE)
            self._replace_dead()
            if not is_said and self.workers >= set(self.lines):  # those that were not ready have left
                on_ready()
                is_said = True
            if time.monotonic() - looked > watch:
                if refresh(models, self.app.state.metrics) and not self.is_stopped:
                    self._start_all()  # after a refused file, too, which they have to tell
                looked = time.monotonic()
        self._end(set(self.lines))
        with suppress(ChildProcessError):
            while True:
                os.wait()

    def _stop(self, number: int, frame: object) -> None:
        self.is_stopped = True

    def _start_all(self) -> None:
        """Workers with the models as they are now, in the place of those there are."""
        before, self.workers = self.workers, set()
        for _ in range(self.n_workers):
            self._fork()
        self._end(before)

    def _end(self, processes: set[int]) -> None:
        for process in processes:
            os.kill(process, signal.SIGTERM)  # it is ours until we have waited for it

    def _fork(self) -> None:
        line = min(set(range(len(self.lines) + 1)) - set(self.lines.values()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of ours sleep
            signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
            process = os.fork()
        if process:
            self.lines[process] = line
            self.workers.add(process)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
            return
        try:
            for number in _STOPPING:  # until the server has its own, these end the process
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
            self.app.state.metrics.worker = line
            _serve(self.app, self.where)
        except BaseException:
            log.exception("A worker has failed.")
        finally:
            os._exit(0)

    def _replace_dead(self) -> None:
        process = -1
        while process and self.lines:
            process, status = os.waitpid(-1, os.WNOHANG)
            self.lines.pop(process, None)
            if process in self.workers:
                self.workers.remove(process)
                log.error("Worker %d has died (%d); another takes its place.", process, status)
                time.sleep(_TOO_SOON)
                if not self.is_stopped:
                    self._fork()
