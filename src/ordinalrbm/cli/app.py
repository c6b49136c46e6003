"""The program ``ordinalrbm``: its commands, and what happens when one of them fails."""

from __future__ import annotations

import os
import traceback
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ordinalrbm import __version__
from ordinalrbm.cli.stopping import Stopped, stop_at_once
from ordinalrbm.errors import DataError

FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
# Set to anything, this shows where in the code something unforeseen has happened.
_DEBUG = "ORDINALRBM_DEBUG"


class _Commands(TyperGroup):
    """All commands, and what happens when one of them fails: one line, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                with stop_at_once():
                    return super().invoke(ctx)
            except DataError as error:
                raise _failed(f"Error: {error}", WRONG_INPUT) from None
            except (KeyboardInterrupt, Stopped):
                raise _failed("Stopped.", INTERRUPTED) from None
            except MemoryError:
                message = "Error: The memory of this machine is not enough; use fewer rows."
                raise _failed(message, FAILED) from None
            except Exception as error:
                if _is_meant(error):
                    raise
                raise _failed(_unforeseen(error), FAILED) from None


def _failed(message: str, code: int) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(code)


def _is_meant(error: Exception) -> bool:
    """Whether it is a way of Typer's to say something, or a closed pipe, which it looks after."""
    modules = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return bool(modules & {"click", "typer"}) or isinstance(error, BrokenPipeError)


def _unforeseen(error: Exception) -> str:
    if os.environ.get(_DEBUG):
        typer.echo(traceback.format_exc(), err=True)
    told = " ".join(str(error).split())
    return (
        f"Error: Something unforeseen has happened ({type(error).__name__}: {told}); please report "
        f"it with what {_DEBUG}=1 shows."
    )


# The first line keeps Click from joining the others into a paragraph.
_EXAMPLES = """\b
Examples:
  ordinalrbm demo                                 a survey about food, no data needed
  ordinalrbm report survey.sav --out report.html  look at a survey
  ordinalrbm fit ratings.csv --out films.orbm     learn from ratings
  ordinalrbm recommend films.orbm --users all -n 10 --out best.csv
  ordinalrbm fit --help                           a command and its options"""

app = typer.Typer(
    name="ordinalrbm",
    cls=_Commands,
    no_args_is_help=True,
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
    """Cumulative Restricted Boltzmann Machines for ordinal data: surveys and ratings.

    A table with the columns user, item and rating is a rating matrix, anything else a survey.
    """


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
