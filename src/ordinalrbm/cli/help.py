"""``ordinalrbm help``: the same as --help."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ordinalrbm.cli.app import app


@app.command("help", epilog="\b\nExample:\n  ordinalrbm help fit")
def show_help(
    ctx: typer.Context,
    command: Annotated[
        str | None, typer.Argument(metavar="[COMMAND]", help="By default, all of them.")
    ] = None,
) -> None:
    """Show this help, or that of a command."""
    parent: Any = ctx.parent
    if command is not None:
        name, found, _ = parent.command.resolve_command(parent, [command])
        parent = type(parent)(found, info_name=name, parent=parent)
    typer.echo(parent.get_help())
