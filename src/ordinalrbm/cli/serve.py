"""``ordinalrbm serve``: models behind an address."""

from __future__ import annotations

import logging
import os
import re
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import option
from ordinalrbm.cli.process import Stopped
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import place

if TYPE_CHECKING:
    from ordinalrbm.serve import ServedModel

_EXAMPLES = """\b
Examples:
  ordinalrbm serve films.orbm --titles titles.csv
  ordinalrbm serve films=a.orbm food=b.orbm --token-file token.txt
  ordinalrbm serve films.orbm --workers 4"""

_MODELS = "Files that `ordinalrbm fit` has written; NAME=FILE gives one another name than its own."
_TITLES = "Titles of items; of several models, of which they are. Repeat the option."
_WHO = "The address to listen at; 0.0.0.0 for all that this machine has."
_WORKERS = "Processes that share the models' memory; they take no changes."
_TOKEN = "A file with the token that changes need; or set ORDINALRBM_TOKEN. Without one, nothing changes."
_WATCH = "Seconds between looks whether a model file is new; 0: never."
_HOSTS = "A name the server may be called by; by default all, and at 127.0.0.1 those of this machine."
_ORIGINS = "A site whose pages may call the server; by default none."
_LOCAL = ("127.0.0.1", "localhost", "[::1]", "::1")
_TOKEN_VARIABLE, _SHORTEST_TOKEN = "ORDINALRBM_TOKEN", 16


@app.command(epilog=_EXAMPLES)
def serve(
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help=_MODELS)],
    *,
    host: Annotated[str, option("ADDRESS", _WHO)] = "127.0.0.1",
    port: Annotated[int, option("N", "The port; 0 for any that is free.", min=0, max=65535)] = 8000,
    titles: Annotated[list[str] | None, option("[NAME=]FILE[:COLUMN]", _TITLES)] = None,
    token_file: Annotated[Path | None, option("FILE", _TOKEN)] = None,
    workers: Annotated[int, option("N", _WORKERS, min=1, max=256)] = 1,
    watch: Annotated[float, option("SECONDS", _WATCH, min=0)] = 2.0,
    allow_host: Annotated[list[str] | None, option("NAME", _HOSTS)] = None,
    allow_origin: Annotated[list[str] | None, option("URL", _ORIGINS)] = None,
    telling: options.Telling,
) -> None:
    """Serve models over HTTP, with a page to explore them.

    Recommendations, predictions and reasons for models of ratings, imputation and scores for those of
    surveys. A model file that is replaced is loaded while the old model answers.
    """
    try:
        from ordinalrbm.serve import Settings
        from ordinalrbm.serve import workers as running
    except ImportError as error:
        raise DataError(
            f'Serving needs {error.name}, which is not installed; pip install "ordinalrbm[serve]".'
        ) from error
    token, output = _token(token_file), telling.output()
    if workers > 1 and token is not None:
        raise DataError("Changes are made by a single process; leave out --workers, or the token.")
    logging.basicConfig(level="WARNING" if output.quiet else "INFO", format="%(asctime)s %(message)s")
    logging.getLogger("uvicorn.error").setLevel("WARNING")
    hosts = [name.lower() for name in allow_host or (_LOCAL if host in _LOCAL else ())]
    from ordinalrbm.runtime.threads import threads

    with threads(1) if workers > 1 else nullcontext():
        served = _served(models, titles or [])
    with running.listen(host, port) as where:
        address = f"http://{f'[{host}]' if ':' in host else host}:{where.getsockname()[1]}"
        names, settings = (
            ", ".join(one.name for one in served),
            Settings(token, hosts, allow_origin or (), watch),
        )
        output.say(f"Preparing {names}: {address}/health says when requests are answered.")
        ready = partial(output.say, f"Serving {names} at {address} (Ctrl-C ends it).")
        with suppress(Stopped):  # after all requests were answered
            running.run(served, settings, where, workers, ready)
    output.say("Stopped.")
    if not all(one.is_ready for one in served):
        os._exit(0)  # what is being compiled can neither be stopped nor outlive the interpreter


def _served(models: list[str], titles: list[str]) -> list[ServedModel]:
    from ordinalrbm.serve import ServedModel

    files, tables = dict(map(_named, models)), {}
    if len(files) < len(models):
        raise DataError("Two models have the same name; name them, such as films=a.orbm food=b.orbm.")
    for given in titles:
        name, _, table = given.rpartition("=") if given.partition("=")[0] in files else ("", "", given)
        if not name and len(files) > 1:
            raise DataError(f"--titles {given!r} does not say of which model; write NAME={given}.")
        found = inputs.titles_table(table)
        assert found is not None, "a file is given"
        tables[name or next(iter(files))] = dict(found.astype(str).itertuples(index=False, name=None))
    inputs.check_files(*files.values())
    return [ServedModel(name, path, tables.get(name), warm=False) for name, path in files.items()]


def _named(given: str) -> tuple[str, Path]:
    name, equals, rest = given.partition("=")
    if "://" in name:  # of an address it is a part
        equals = ""
    path = place(rest if equals else given)
    name = name if equals else path.stem
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise DataError(
            f"{name!r} cannot be part of an address; give a name of letters and digits, such as films={path}."
        )
    return name, path


def _token(file: Path | None) -> str | None:
    from ordinalrbm.files.survey import read_text

    token = os.environ.get(_TOKEN_VARIABLE) if file is None else read_text(file).strip()
    if token is not None and not re.fullmatch(f"[!-~]{{{_SHORTEST_TOKEN},}}", token):
        where = _TOKEN_VARIABLE if file is None else f"File '{file}'"
        raise DataError(
            f"{where} holds no token; give at least {_SHORTEST_TOKEN} letters and digits, such as "
            "`openssl rand -hex 32` prints."
        )
    return token
