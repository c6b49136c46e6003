"""``ordinalrbm help``: the same as --help."""

from typing import Annotated, Any

import typer

from ordinalrbm.cli.app import app

_Command = Annotated[str | None, typer.Argument(metavar="COMMAND", help="By default, all of them.")]


@app.command("help", epilog="\b\nExample:\n  ordinalrbm help fit")
def show_help(ctx: typer.Context, command: _Command = None) -> None:
    """Show this help, or that of a command."""
    parent: Any = ctx.parent
    if command is not None:
        name, found, _ = parent.command.resolve_command(parent, [command])
        parent = type(parent)(found, info_name=name, parent=parent)
    typer.echo(parent.get_help())
