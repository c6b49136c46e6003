"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Kind(StrEnum):
    """What to make of a table."""

    VECTOR = "vector"
    MATRIX = "matrix"


class Rule(StrEnum):
    """Which level to name of a distribution."""

    MEDIAN = "median"
    MODE = "mode"
    MEAN = "mean"


class Factors(StrEnum):
    """Factors of the model of ratings."""

    CONTINUOUS = "continuous"
    BINARY = "binary"
    MIXED = "mixed"


class Protocol(StrEnum):
    """Which ratings are hidden."""

    CHRONOLOGICAL = "chronological"
    RANDOM = "random"


DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A .sav, .zsav, .dta, .csv, .tsv (also .gz) or .parquet file, or a folder of .parquet "
        "files.",
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `ordinalrbm fit` has written.")
]
KindOption = Annotated[
    Kind | None,
    typer.Option(
        "--model",
        help="Treat the table as a survey (vector) or as ratings (matrix); by default its columns "
        "decide.",
    ),
]
FactorsOption = Annotated[
    int | None,
    typer.Option(
        "--factors",
        "-k",
        min=1,
        metavar="K",
        help="Number of factors; 50, for the report of a survey 12, and not more than questions.",
    ),
]
ItemFactorsOption = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="S", help="Ratings: factors of an item; by default as many as of a user."
    ),
]
KindOfFactorsOption = Annotated[
    Factors, typer.Option(help="Ratings: kind of factors; mixed is slower and more accurate.")
]
EpochsOption = Annotated[
    int | None,
    typer.Option("--epochs", min=1, metavar="N", help="Passes over the data, at most."),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Same seed, same result.")
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="By default, all.")
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema", metavar="FILE", help="A TOML file that says what the columns of a survey are."
    ),
]
WeightedOption = Annotated[
    bool, typer.Option("--weighted", help="Survey: let its weights count in learning.")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Keep what has been learnt so far in a folder, so that a long fit can go on if it "
        "is stopped.",
    ),
]
EveryOption = Annotated[
    str,
    typer.Option(
        "--every",
        metavar="TIME",
        help="How often to write a checkpoint, such as '30 s', '5 min' or '1 h', or a number of "
        "epochs.",
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on from the checkpoint if there is one; the result is as if never stopped.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Results as JSON, and nothing else.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but results, warnings and errors.")
]
