"""What stands before the application: whom it answers, how much it reads, and how long that took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from ordinalrbm.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_LONGEST_BODY = 1_000_000  # bytes
_SLOWEST_BODY = 20.0  # seconds


class Guard:
    """An ASGI application around another; ``hosts`` are the names it may be called by, if not all."""

    def __init__(self, app: Any, hosts: Sequence[str], metrics: Metrics) -> None:
        self.app, self.hosts, self.metrics = app, hosts, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_ALWAYS]
            await send(message)

        try:
            body = await self._admitted(scope, receive)
            await self.app(scope, _again(body, receive), send_on)
        except HTTPException as refused:
            answer = JSONResponse({"error": refused.detail}, refused.status_code)
            await answer(scope, receive, send_on)
        finally:
            path = getattr(scope.get("route"), "path", "")
            self.metrics.count_request(path, status, time.perf_counter() - begun)

    async def _admitted(self, scope: Message, receive: Receive) -> bytes:
        """The body of a request that may come in."""
        headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        name, _, port = host.rpartition(":")
        if self.hosts and (name if port.isdecimal() else host) not in self.hosts:
            raise HTTPException(400, "The server has no such name; start it with --allow-host NAME.")
        if scope["method"] != "POST":
            return b""
        kind = headers.get(b"content-type", "").partition(";")[0].strip()
        if kind != "application/json" or b"content-encoding" in headers:
            said = "The body must be plain JSON; send it uncompressed, with Content-Type: application/json."
            raise HTTPException(415, said)
        length = headers.get(b"content-length", "0")
        try:
            async with asyncio.timeout(_SLOWEST_BODY):
                return await _read(int(length) if length.isdecimal() else 0, receive)
        except TimeoutError:
            said = f"The body took more than {_SLOWEST_BODY:g} seconds; send it faster."
            raise HTTPException(408, said) from None


async def _read(length: int, receive: Receive) -> bytes:
    body, more = b"", True
    while more and max(length, len(body)) <= _LONGEST_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "The body ends before its length; send all of it.")
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if max(length, len(body)) > _LONGEST_BODY:
        raise HTTPException(413, f"The body has more than {_LONGEST_BODY:,} bytes; send less at a time.")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more, and then what comes."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
