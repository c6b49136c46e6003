"""The small parts that commands share."""

from __future__ import annotations

import inspect

import pandas as pd
from typer.models import OptionInfo

from ordinalrbm import cli
from ordinalrbm.cli.demo_run import as_ratings
from ordinalrbm.cli.options import written_scale
from ordinalrbm.cli.output import counted
from ordinalrbm.cli.process import is_out_of_memory
from ordinalrbm.cli.schema import levels_in_words
from ordinalrbm.estimators.factor_analysis import readable_factors
from ordinalrbm.schema.schema import Column


def test_as_ratings():
    assert as_ratings(pd.DataFrame({"tea": [1.0, None], "milk": [4.0, 5.0]})).values.tolist() == [
        [0, "tea", 1],
        [0, "milk", 4],
        [1, "milk", 5],
    ]


def test_readable_factors():
    assert [readable_factors(n) for n in (5, 40, 100, 300)] == [5, 12, 20, 30]


def test_written_scale():
    assert (written_scale("bad,fair,good").labels, written_scale("1..5").labels) == (
        ("bad", "fair", "good"),
        (1, 2, 3, 4, 5),
    )
    assert (written_scale("0.5,1..3").labels) == (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


def test_counted():
    assert (counted(1, "user"), counted(1200, "user")) == ("1 user", "1,200 users")


def test_is_out_of_memory():
    assert is_out_of_memory(ImportError("libfoo.so: failed to map segment from shared object"))


def test_levels_in_words():
    assert (
        levels_in_words(Column("Q", "ordinal", levels=(1, 2, 3, 4), names=("no", "2", "3", "yes")))
        == "1 no … 4 yes"
    )


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
