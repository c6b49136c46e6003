"""The application: addresses, and what is behind each."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles

from ordinalrbm.errors import DataError
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.threads import one_blas_thread, threads
from ordinalrbm.serve.forms import form_of
from ordinalrbm.serve.guard import Guard
from ordinalrbm.serve.metrics import Metrics
from ordinalrbm.serve.source import ServedModel

log = logging.getLogger("ordinalrbm.serve")


class Settings(NamedTuple):
    """How models are served.

    Attributes
    ----------
    token : str, optional
        Whoever sends it may change models; without one, nobody may.
    hosts : sequence of str
        Names that the server may be called by; none means all.
    origins : sequence of str
        Sites whose pages may call it from a browser (CORS); by default only its own.
    watch : float
        Seconds between looks at the model files; 0 does not look.
    n_counting : int
        How many processes count requests together, when the application is forked.
    """

    token: str | None = None
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    watch: float = 2.0
    n_counting: int = 1


def create_app(models: Sequence[ServedModel], settings: Settings | None = None) -> FastAPI:
    """An ASGI application that answers for models; a single one also at the root.

    Examples
    --------
    >>> import os, tempfile, numpy as np, ordinalrbm as orbm
    >>> from fastapi.testclient import TestClient
    >>> from ordinalrbm.serve import ServedModel, create_app
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit((users, items, 1 + (users + items) % 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "films.orbm")
    ...     model.save(path)
    ...     app = create_app([ServedModel("films", path)])
    >>> answer = TestClient(app).post("/predict", json={"users": [3], "items": [4]}).json()
    >>> answer["predictions"][0]["item"]
    4
    """
    chosen = settings or Settings()
    app = FastAPI(
        title="ordinalrbm",
        version=__version__,
        docs_url=None,  # its page would come from elsewhere
        redoc_url=None,
        default_response_class=JSONResponse,
        lifespan=lambda app: _working(app, models, chosen),
    )
    app.state.on_ready = lambda: None
    if chosen.token is not None:
        for served in models:
            served.take_changes()
    if len(models) == 1:
        _add_model(app, models[0], chosen, "")
    for served in models:
        _add_model(app, served, chosen, f"/models/{served.name}")
    _add_common(app, models)
    app.state.metrics = Metrics(
        list(app.openapi()["paths"]), [served.name for served in models], chosen.n_counting
    )
    for kind, answer in _FAILURES.items():
        app.add_exception_handler(kind, answer)
    app.mount("/", StaticFiles(packages=[("ordinalrbm.serve", "page")], html=True))
    if chosen.origins:
        origins, methods = list(chosen.origins), ["GET", "POST"]
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=methods, allow_headers=["*"])
    app.add_middleware(Guard, hosts=chosen.hosts, metrics=app.state.metrics)
    return app


@asynccontextmanager
async def _working(app: FastAPI, models: Sequence[ServedModel], settings: Settings) -> AsyncIterator[None]:
    """Warm the models up while the application says that it is not ready; then look at their files."""
    stopped = threading.Event()

    def work() -> None:
        try:
            for served in models:
                served.warm()
        except Exception as error:  # /health says so
            served.error = " ".join(str(error).split())
            log.exception("%s: requests cannot be answered.", served.name)
        else:
            app.state.on_ready()
        while settings.watch and not stopped.wait(settings.watch):
            refresh(models, app.state.metrics)

    with one_blas_thread():  # requests are what cores share
        if settings.n_counting == 1:  # else the process that workers are forked from does both
            threading.Thread(target=work, daemon=True).start()
        yield
    stopped.set()


def refresh(models: Sequence[ServedModel], metrics: Metrics) -> bool:
    """Load files that have changed; whether there were any, also such as were refused."""
    results = {served.name: served.refresh() for served in models}
    for name, result in results.items():
        if result is not None:
            metrics.count_swap(name, result)
    return any(results.values())


# ---- addresses --------------------------------------------------------------------------------


def _add_model(app: FastAPI, served: ServedModel, settings: Settings, prefix: str) -> None:
    """Register the addresses of one model; an included router would match each request twice."""
    kind = type(served.service)

    def check_ready() -> None:
        if not served.is_ready:
            raise HTTPException(503, "The server is starting; ask again when /health says ok.")

    def add(name: str, do: Callable[[str, dict[str, Any]], Any], **more: Any) -> None:
        method = getattr(kind, name)

        async def call(asked: Any) -> JSONResponse:
            check_ready()
            given = vars(asked)
            # What takes less time than handing it to a thread is answered at once.
            is_quick = do is read and kind.is_quick(name, given)
            return JSONResponse(do(name, given) if is_quick else await run_in_threadpool(do, name, given))

        call.__annotations__["asked"], call.__doc__ = form_of(method), method.__doc__
        app.add_api_route(f"{prefix}/{name}", call, methods=["POST"], name=name, **more)

    def read(name: str, asked: dict[str, Any]) -> Any:
        with threads(1):  # requests are what cores share
            return getattr(served.service, name)(**asked)

    def change(name: str, asked: dict[str, Any]) -> Any:
        def do(now: Any) -> Any:
            expected = now.expected(**asked) if name == "ratings" else None  # before they are learnt
            found = getattr(now, name)(**asked)
            if expected is not None:
                app.state.metrics.count_ratings(served.name, *expected)
            return found

        return change_file(do) if name == "forget" else served.change(do)

    def change_file(do: Callable[[Any], Any]) -> Any:
        refresh([served], app.state.metrics)  # a newer file is not to be overwritten
        return served.change(do, keep=True)

    for name in kind.calls:
        add(name, read)
    allowed = [Depends(_token_check(settings.token))]
    for name in kind.changes:
        add(name, change, dependencies=allowed)
    if kind.changes:

        @app.post(f"{prefix}/save", dependencies=allowed)
        def save() -> JSONResponse:
            """Write the model, with what it has learnt since, to its file."""
            check_ready()
            change_file(lambda now: None)
            return JSONResponse({"saved": served.name})

    app.add_api_route(f"{prefix}/about", lambda: JSONResponse(served.service.about()), name="about")


def _token_check(token: str | None) -> Callable[..., Any]:
    async def check(authorization: Annotated[str, Header()] = "") -> None:
        if token is None:
            raise HTTPException(403, "This server takes no changes; start it with --token-file FILE.")
        kind, _, given = authorization.partition(" ")
        if not hmac.compare_digest(given.strip().encode(), token.encode()) or kind.lower() != "bearer":
            raise HTTPException(401, "The token is missing or wrong; send Authorization: Bearer TOKEN.")

    return check


def _add_common(app: FastAPI, models: Sequence[ServedModel]) -> None:
    @app.get("/health")
    def health() -> JSONResponse:
        """Whether all models are ready, and those of their files."""
        found = {served.name: served.health() for served in models}
        is_ready = all(one["ready"] for one in found.values())
        status = "stale" if any(one["error"] for one in found.values()) else "ok"
        said = {"status": status if is_ready else "starting", "version": __version__, "models": found}
        return JSONResponse(said, 200 if is_ready else 503)

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Figures for Prometheus."""
        return PlainTextResponse(app.state.metrics.render(), media_type="text/plain; version=0.0.4")


# ---- failures ---------------------------------------------------------------------------------

_NOTHING = "Nothing at this address is asked in this way; /openapi.json has all that is."
_SAID = {400: "The body is not JSON that can be read; send an object.", 404: _NOTHING, 405: _NOTHING}


def _http(request: Request, error: Any) -> JSONResponse:
    return JSONResponse({"error": _SAID.get(error.status_code, error.detail)}, error.status_code)


def _wrong_data(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 422)


def _wrong_form(request: Request, error: Any) -> JSONResponse:
    """The first thing that is wrong with a request, and where."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])[:100]
    where = f"{where}: " if where.isprintable() and where else ""
    said = first["msg"].removeprefix("Value error, ").rstrip(".")
    return JSONResponse({"error": f"The request is not understood ({where}{said}); correct it."}, 422)


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    log.error("Something unforeseen has happened", exc_info=error)
    said = "Something unforeseen has happened; the log of the server says what."
    return JSONResponse({"error": said}, 500)


_FAILURES: dict[Any, Any] = {
    DataError: _wrong_data,
    RequestValidationError: _wrong_form,
    HTTPException: _http,
    Exception: _unforeseen,
}
