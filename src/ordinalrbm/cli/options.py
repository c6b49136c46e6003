"""Options that several commands have."""

from __future__ import annotations

import csv
import functools
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import ESTIMATORS

if TYPE_CHECKING:
    from ordinalrbm.data.scales import Scale
    from ordinalrbm.estimators.ratings import RatingModel
    from ordinalrbm.files.ratings import Layout

_MOST_STEPS = 32_767  # levels that a scale can have
# Models of ratings by their names for --model.
RATING_MODELS = {kind.replace("_", "-"): name for kind, (_, name) in ESTIMATORS.items() if kind != "vector"}
Model = StrEnum("Model", {name: name for name in RATING_MODELS})  # type: ignore[misc]


class Rule(StrEnum):
    """Which level to name of a distribution."""

    MEDIAN = "median"
    MODE = "mode"
    MEAN = "mean"


class Rotation(StrEnum):
    """How factors are turned so that they can be read."""

    VARIMAX = "varimax"
    QUARTIMAX = "quartimax"
    OBLIMIN = "oblimin"
    PROMAX = "promax"
    NONE = "none"


class Protocol(StrEnum):
    """Which ratings are hidden."""

    CHRONOLOGICAL = "chronological"
    RANDOM = "random"


class Duplicates(StrEnum):
    """Which rating counts where a user has rated an item several times."""

    ERROR = "error"
    LAST = "last"
    MEAN = "mean"


DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A .sav, .zsav, .dta, .csv, .tsv (also .gz) or .parquet file, or a folder of .parquet files.",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `ordinalrbm fit` has written.")]
DataOrModel = Annotated[Path, typer.Argument(metavar="DATA|MODEL", help="A file to learn from, or a model.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Same seed, same result.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, metavar="N", help="By default, all.")]
DeviceOption = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="Ratings: cpu, cuda, or cuda:1 and so on.")
]
WeightedOption = Annotated[
    bool, typer.Option("--weighted", help="Survey: let its weights count in learning.")
]
RotationOption = Annotated[
    Rotation,
    typer.Option(
        "--rotation", help="How factors are rotated; with oblimin and promax they may be correlated."
    ),
]
_Columns = list[str] | None
IncludeOption = Annotated[
    _Columns,
    typer.Option(
        "--include",
        metavar="COLUMNS",
        help="Survey: columns without an order that are asked about too: names, patterns with *, "
        "nominal or numeric; with commas or repeated.",
    ),
]
BackgroundOption = Annotated[
    _Columns,
    typer.Option(
        "--background",
        metavar="COLUMNS",
        help="Survey: columns that shape what is expected of people and are not asked about: "
        "names, patterns with *, or background.",
    ),
]
EpochsOption = Annotated[
    int | None, typer.Option("--epochs", min=1, metavar="N", help="Passes over the data, at most.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Results as JSON, and nothing else.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but results, warnings and errors.")
]


@dataclass(frozen=True)
class Telling:
    """What a command prints; see `expanded`."""

    json: JsonOption = False
    quiet: QuietOption = False

    def output(self, *, silent: bool = False) -> Output:
        return Output(as_json=self.json, quiet=self.quiet, silent=silent)


@dataclass(frozen=True)
class Writing:
    """What a command prints that writes a table, and how it is written."""

    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="In .csv and .tsv, put ' before text that a spreadsheet would take for a formula.",
        ),
    ] = False
    json: JsonOption = False
    quiet: QuietOption = False

    def begin(self, ctx: typer.Context, out: Path | None, *, labelled: bool = False) -> Output:
        """Refuse files of other formats, and --escape-formulas where it would change nothing.

        Spreadsheets compute only what is in .csv and .tsv; only these and .parquet have no labels.
        """
        from ordinalrbm.schema.source import format_of

        if out is None or format_of(out) not in ("csv", "tsv"):
            refuse(ctx, ("escape_formulas",), "it is for --out with a .csv or .tsv file")
        if out is not None and not labelled:
            from ordinalrbm.files.writing import check_table_format

            check_table_format(out)
        return Output(as_json=self.json, quiet=self.quiet)


@dataclass(frozen=True)
class Settings:
    """Settings of learning; None is for us to choose.

    The annotated ones are options of every command that learns (see `expanded`), the others are
    set by the commands that have them.
    """

    model: Annotated[
        Model | None,
        typer.Option(
            help="Ratings: ordinal matrix factorisation (the default), the matrix model with "
            "binary factors of users and items, a baseline, or an ensemble of the first two, "
            "slower and more accurate."
        ),
    ] = None
    factors: Annotated[
        int | None,
        typer.Option(
            "--factors",
            "-k",
            min=1,
            metavar="K",
            help="Number of factors; by default 50, of a survey at most as many as questions, and "
            "for its report 12 to 30.",
        ),
    ] = None
    item_factors: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="S", help="matrix-crbm: factors of an item; by default as many as of a user."
        ),
    ] = None
    epochs: EpochsOption = None
    seed: SeedOption = 0
    threads: ThreadsOption = None
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file that says what the columns of a survey are."),
    ] = None
    include: IncludeOption = None
    background: BackgroundOption = None
    survey: Annotated[
        bool, typer.Option("--survey", help="Take the file for a survey, whatever its columns are.")
    ] = False
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="LABELS",
            help="Ratings: all labels from lowest to highest, such as bad,fair,good, or 1..5, or "
            "0.5,1..5 in halves.",
        ),
    ] = None
    users: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ratings: a table of what is known of users.")
    ] = None
    items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ratings: a table of what is known of items.")
    ] = None
    device: str = "cpu"
    weighted: bool = False
    progress: bool = False
    checkpoints: dict[str, Any] = field(default_factory=dict)
    """Where and how often to write them, and whether to go on from them, as ``fit`` takes it."""

    @property
    def common(self) -> dict[str, Any]:
        common = {"random_state": self.seed, "n_jobs": self.threads, "verbose": self.progress}
        return common if self.epochs is None else {**common, "n_epochs": self.epochs}


# ---- columns of ratings -----------------------------------------------------------------------


def _column(of: str, *names: str) -> Any:
    return typer.Option(*names, metavar="COLUMN", help=f"Ratings: the column of {of}.")


@dataclass(frozen=True)
class PairColumns:
    """Which columns of a table of pairs are which; None is found by its name."""

    user_column: Annotated[str | None, _column("users", "--user", "--user-column")] = None
    item_column: Annotated[str | None, _column("items", "--item", "--item-column")] = None
    _ending = ""  # of the options, where errors name them

    def layout(self, options: dict[str, str] | None = None, **more: Any) -> Layout:
        """How to read a file with these columns; further arguments are those of `Layout`."""
        from ordinalrbm.files.ratings import Layout

        names = ("user", "item", "rating", "time")
        given = {name: getattr(self, f"{name}_column", None) for name in names}
        columns = {"timestamp" if k == "time" else k: name for k, name in given.items() if name is not None}
        own = {name: f"--{name}{self._ending}" for name in names} | {"duplicates": "--duplicates"}
        return Layout(columns, options=own | (options or {}), **more)


@dataclass(frozen=True)
class RatingColumns(PairColumns):
    """Which columns of a file of ratings are which."""

    rating_column: Annotated[str | None, _column("ratings", "--rating", "--rating-column")] = None
    time_column: Annotated[str | None, _column("times", "--time", "--time-column")] = None
    duplicates: Annotated[
        Duplicates,
        typer.Option(
            help="Ratings: of several by one user of one item, refuse them, take the latest (the "
            "last line where there are no times), or the mean, rounded to a label."
        ),
    ] = Duplicates.ERROR

    def to_learn(self, scale: str | None, needs_times: bool) -> Layout:
        """How to read ratings to learn from; times also where the latest rating is wanted."""
        return self.layout(
            {"scale": "--scale", "survey": "--survey"},
            scale=None if scale is None else written_scale(scale),
            duplicates=self.duplicates.value,
            needs_times=needs_times or self.duplicates is Duplicates.LAST,
        )

    def known_to(self, model: RatingModel) -> Layout:
        """How to read ratings on the scales of a model."""
        from ordinalrbm.data.scales import Scale

        scale = model.scales_ if isinstance(model.scales_, Scale) else None
        return self.layout(
            scale=scale,
            duplicates=self.duplicates.value,
            needs_times=self.duplicates is Duplicates.LAST,
            has_own_scales=scale is None,
        )


@dataclass(frozen=True)
class LongRatingColumns(RatingColumns):
    """The same where --user or --users are ids of users: only the long names."""

    user_column: Annotated[str | None, _column("users", "--user-column")] = None
    item_column: Annotated[str | None, _column("items", "--item-column")] = None
    rating_column: Annotated[str | None, _column("ratings", "--rating-column")] = None
    time_column: Annotated[str | None, _column("times", "--time-column")] = None
    _ending = "-column"


COLUMN_OPTIONS = ("user_column", "item_column", "rating_column", "time_column", "duplicates")


# Options that matter to learning only, to ratings, and to surveys.
LEARNING: tuple[str, ...] = (
    "model",
    "factors",
    "item_factors",
    "epochs",
    "schema",
    "weighted",
    "survey",
    "scale",
)
LEARNING += ("users", "items", "include", "background")
OF_RATINGS: tuple[str, ...] = ("model", "item_factors", "protocol", "min_ratings", "user", "device", "scale")
OF_RATINGS += ("users", "items", *COLUMN_OPTIONS)
OF_SURVEYS = ("group", "weighted", "include", "background")


# ---- options of commands ----------------------------------------------------------------------


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter of a dataclass is an option for each annotated field of it."""
    hints = get_type_hints(command, include_extras=True)
    options: dict[str, list[inspect.Parameter]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = hints[parameter.name]
        if is_dataclass(group):
            options[parameter.name] = _options(group)
            parameters += options[parameter.name]
        else:
            keyword = {"kind": inspect.Parameter.KEYWORD_ONLY, "annotation": group}
            parameters.append(parameter.replace(**keyword))

    @functools.wraps(command)
    def run(**given: object) -> None:
        for name, own in options.items():
            given[name] = hints[name](**{option.name: given.pop(option.name) for option in own})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name]
        )
        for one in fields(group)
        if get_origin(hints[one.name]) is Annotated
    ]


def refuse(ctx: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options that would change nothing, rather than let users believe they do."""
    for name in names:
        source: Any = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise DataError(
                f"--{name.rstrip('_').replace('_', '-')} changes nothing here: {why}; leave it out."
            )


# ---- scales -----------------------------------------------------------------------------------


def written_scale(text: str) -> Scale:
    """The scale that --scale names."""
    from ordinalrbm.data.scales import Scale

    first, dots, last = text.partition("..")
    parts = [part.strip() for part in next(csv.reader([first], skipinitialspace=True), [])]
    try:
        labels = _steps(parts, last) if dots else _numbers_or_text(parts)
        return Scale(tuple(labels))
    except (DataError, ValueError) as error:
        why = f" ({str(error).rstrip('.')})" if isinstance(error, DataError) else ""
        raise DataError(
            f"--scale {text!r} is no scale{why}; write all labels from lowest to highest with "
            "commas between them, or 1..5, or in other steps 0.5,1..5."
        ) from error


def _numbers_or_text(parts: list[str]) -> list[Any]:
    try:
        return [_number(part) for part in parts]
    except ValueError:
        return list(parts)


def _number(text: str) -> int | float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return int(number) if number.is_integer() and "." not in text else number


def _steps(parts: list[str], last: str) -> list[Any]:
    """From the first number to the last, in steps of one, or as far as the second is from the first."""
    low, high = _number(parts[0]), _number(last)
    step = 1 if len(parts) == 1 else _number(parts[1]) - low
    n_steps = (high - low) / step if step else 0.0
    if len(parts) > 2 or not 1 <= n_steps <= _MOST_STEPS or abs(n_steps - round(n_steps)) > 1e-6:
        raise ValueError(last)
    # Twelve digits, so that a level reads 0.3 and not 0.30000000000000004.
    labels = [float(f"{low + k * step:.12g}") for k in range(round(n_steps) + 1)]
    return [int(label) for label in labels] if all(x.is_integer() for x in labels) else labels
