"""The program ``ordinalrbm``: its commands, and what happens when one of them fails."""

import io
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ordinalrbm.cli import process
from ordinalrbm.cli.options import SECTIONS, expanded, section_of
from ordinalrbm.errors import DataError, DiskError, LostError
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.display import printable

FAILED = 1
WRONG_INPUT = 2
_OF_SIGNALS = 128  # and their number, as shells have it
# Set to anything, this shows where in the code an unforeseen error was raised.
_DEBUG = "ORDINALRBM_DEBUG"
# Click's, wherever Typer keeps its Click.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _Commands(TyperGroup):
    """All commands, and what happens when one of them fails: one line, never a traceback."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _usage_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode shows question marks
        with warnings.catch_warnings(), _failures_in_one_line(), _usage_in_one_line():
            warnings.showwarning = _show_warning
            with process.stop_at_once():
                result = super().invoke(ctx)
                sys.stdout.flush()  # a full disk shows here, and not when Python ends
                return result


class _Command(TyperCommand):
    """A command; its help can be read whatever the limits are."""

    def invoke(self, ctx: Any) -> Any:
        process.refuse_low_limits()
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options in sections: those of surveys, of ratings, of running and of output."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in SECTIONS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                section = SECTIONS[0] if is_argument else section_of(parameter.name or "")
                sections[section].append(_plainly(*record))
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _plainly(names: str, text: str) -> tuple[str, str]:
    """A line of help without types and ranges that say nothing to users."""
    names = re.sub(r" <path>|[<>]", "", names)
    text = re.sub(r"(; )?-?\d*<?=?x[<>]=\d+|\[required\]", "", text).replace("  []", "")
    return names, text.rstrip()


class _Program(typer.Typer):
    def command(self, *args: Any, **kwargs: Any) -> Any:
        """Like Typer's; a parameter that is a dataclass is an option for each of its fields."""
        add = super().command(*args, **{"cls": _Command, **kwargs})
        return lambda command: add(expanded(command))


@contextmanager
def _usage_in_one_line() -> Iterator[None]:
    """Wrong arguments: the reason without the usage around it, and where to read more."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        reason = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
        ctx = getattr(error, "ctx", None)
        command = ctx.command_path if ctx is not None else "ordinalrbm"
        more = " See" if reason.endswith("?") else "; see"
        raise _failed(f"Error: {reason}{more} `{command} --help`.", WRONG_INPUT) from None


@contextmanager
def _failures_in_one_line() -> Iterator[None]:
    """Whatever goes wrong in a command: one line and the right exit status."""
    try:
        yield
    except process.Stopped as stopped:
        raise _failed("Stopped.", _OF_SIGNALS + stopped.number) from None
    except KeyboardInterrupt:
        raise _failed("Stopped.", _OF_SIGNALS + signal.SIGINT) from None
    except (DiskError, LostError, process.MemoryLimitError) as error:
        raise _failed(f"Error: {error}", FAILED) from None
    except DataError as error:
        raise _failed(f"Error: {error}", WRONG_INPUT) from None
    except BrokenPipeError:
        _forget_output()
        raise typer.Exit(FAILED) from None
    except PermissionError as error:
        message = f"Error: Permission denied: '{error.filename}'; choose another file."
        raise _failed(message, WRONG_INPUT) from None
    except Exception as error:
        if process.is_out_of_memory(error):
            raise _failed(f"Error: {process.out_of_memory()}", FAILED) from None
        if isinstance(error, OSError):
            _forget_output()
            where = f" '{error.filename}'" if error.filename else ""
            message = f"Error: The system has failed ({error.strerror or error}){where}; try again."
            raise _failed(message, FAILED) from None
        if {kind.__module__.split(".")[0] for kind in type(error).__mro__} & {"click", "typer"}:
            raise
        raise _failed(_unforeseen(error), FAILED) from None


def _failed(message: str, code: int) -> typer.Exit:
    rank = process.own_rank()
    message = message if rank is None else f"Process {rank}: {message}"
    with suppress(OSError):  # where even standard error is gone
        typer.echo(printable(message), err=True)
    return typer.Exit(code)


def _unforeseen(error: Exception) -> str:
    if os.environ.get(_DEBUG):
        typer.echo(traceback.format_exc(), err=True)
    message = " ".join(str(error).split())
    return (
        f"Error: Something unforeseen has happened ({type(error).__name__}: {message}); please report "
        f"it with what {_DEBUG}=1 shows."
    )


def _forget_output() -> None:
    """Drop output that cannot be written: at its end Python would try once more, and complain."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# The first line keeps Click from joining the others into a paragraph.
_EXAMPLES = """\b
Examples:
  ordinalrbm demo  # a survey about food; needs no data
  ordinalrbm report survey.sav  # look at a survey
  ordinalrbm fit ratings.csv -o films.orbm  # learn from ratings
  ordinalrbm recommend films.orbm --users all -n 10 -o best.csv
  ordinalrbm fit --help  # a command and its options"""

app = _Program(
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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Cumulative Restricted Boltzmann Machines for ordinal data: surveys and ratings.

    A table with the columns user, item and rating, or common alternatives, is a rating
    matrix, anything else a survey.
    """


def _show_warning(message: Warning | str, *location: Any, **more: Any) -> None:
    """Print a warning without its location in our code, which does not help the user."""
    typer.echo(f"Warning: {printable(str(message))}", err=True)
