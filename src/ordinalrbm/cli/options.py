"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ordinalrbm.errors import DataError


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
        help="Factors of respondents or users alone (vector), or also of questions or items "
        "(matrix); by default vector for a survey and matrix for ratings.",
    ),
]
FactorsOption = Annotated[
    int | None,
    typer.Option(
        "--factors",
        "-k",
        min=1,
        metavar="K",
        help="Number of factors; by default 50, of a survey at most as many as questions, and for "
        "its report 12 to 30.",
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
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="DEVICE", help="Ratings: cpu, cuda, or cuda:1 and so on."),
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


@dataclass(frozen=True)
class Settings:
    """What a user may set on the command line; None is for us to choose."""

    factors: int | None = None
    item_factors: int | None = None
    kind_of_factors: str = "continuous"
    epochs: int | None = None
    seed: int = 0
    threads: int | None = None
    weighted: bool = False
    progress: bool = False
    checkpoints: dict[str, Any] = field(default_factory=dict)
    """Where and how often to write them, and whether to go on from them, as ``fit`` takes it."""
    device: str = "cpu"

    @property
    def common(self) -> dict[str, Any]:
        """Parameters that every estimator has."""
        return {"random_state": self.seed, "n_jobs": self.threads, "verbose": self.progress}


# What only learning looks at.
LEARNING = ("model", "factors", "item_factors", "factors_kind", "epochs", "schema", "weighted")
OF_RATINGS = ("item_factors", "factors_kind", "protocol", "min_ratings", "user", "device")
OF_SURVEYS = ("group", "weighted")


def refuse(ctx: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options that would change nothing, rather than let somebody believe they do."""
    for name in names:
        source: Any = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise DataError(
                f"--{name.replace('_', '-')} changes nothing here: {why}; leave it out."
            )
