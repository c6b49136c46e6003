"""The small parts that commands share."""

from __future__ import annotations

import inspect

from typer.models import OptionInfo

from ordinalrbm import cli
from ordinalrbm.cli.options import written_scale
from ordinalrbm.cli.process import is_out_of_memory


def test_written_scale():
    assert (written_scale("bad,fair,good").labels, written_scale("1..5").labels) == (
        ("bad", "fair", "good"),
        (1, 2, 3, 4, 5),
    )
    assert (written_scale("0.5,1..3").labels) == (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


def test_is_out_of_memory():
    assert is_out_of_memory(ImportError("libfoo.so: failed to map segment from shared object"))


def test_options_named_as_their_metavar_say_so_themselves():
    """Typer 0.27 would name them in capitals."""
    found = []
    for command in cli.app.registered_commands:
        for parameter in inspect.signature(command.callback).parameters.values():
            for about in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(about, OptionInfo) and (about.metavar or "").lower() == parameter.name:
                    found.append((parameter.name, about.default))  # where Typer has the first name
    assert len(found) > 1
    assert all(str(name).startswith("-") for _, name in found), found
