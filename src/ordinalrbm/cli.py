"""The command line ``ordinalrbm``."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ordinalrbm import __version__
from ordinalrbm.errors import DataError

WRONG_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class Stopped(BaseException):
    """Ctrl-C where half a result is of no use.

    Not a ``KeyboardInterrupt``: on that one learning ends early and keeps its best model.
    """


class _Commands(TyperGroup):
    """All commands, and what happens when one of them fails: one line, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except DataError as error:
                typer.echo(f"Error: {error}", err=True)
                raise typer.Exit(WRONG_INPUT) from None
            except (KeyboardInterrupt, Stopped):
                typer.echo("Stopped.", err=True)
                raise typer.Exit(INTERRUPTED) from None


# The first line keeps Click from joining the others into a paragraph.
_EXAMPLES = """\b
Examples:
  ordinalrbm demo                  learn from a survey about food
  ordinalrbm demo --out pictures   the same, with the pictures elsewhere
  ordinalrbm demo --help           what a command does, and its options"""

app = typer.Typer(
    name="ordinalrbm",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ordinalrbm {__version__}")
        raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Cumulative Restricted Boltzmann Machines for ordinal data: surveys and ratings."""


@app.command(epilog="\b\nExample:\n  ordinalrbm demo --out pictures")
def demo(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the pictures go; made if need be.")
    ] = Path("ordinalrbm-demo"),
) -> None:
    """Learn tastes from a survey about food, and draw them.

    Hides some answers and predicts them, says in words what it has learnt, and saves two
    pictures. Needs no data and no network, and takes less than a minute.
    """
    with _stop_at_once():
        from ordinalrbm import demo as the_demo  # slow to import; --help should not wait for it

        the_demo.run(out)


@contextmanager
def _stop_at_once() -> Iterator[None]:
    """Let Ctrl-C end the command, rather than learning only."""
    ours = (
        threading.current_thread() is threading.main_thread()
        # Whoever has another handler, or ignores the signal (nohup), has a reason.
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        with _nothing_swallowed():
            yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _nothing_swallowed() -> Iterator[None]:
    """Send the signal again when its exception came up where none can be raised.

    While LLVM compiles, Python runs only in callbacks from C, and there an exception is lost.
    """
    ordinary, again = sys.unraisablehook, []

    def lost(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is not Stopped:
            ordinary(what)
            return
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.daemon = True
        again.append(timer)
        timer.start()

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = ordinary
        for timer in again:
            timer.cancel()


def _stop(number: int, frame: Any) -> None:
    raise Stopped


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """A warning is for the user, and the place in our code is not."""
    typer.echo(f"Warning: {message}", err=True)
