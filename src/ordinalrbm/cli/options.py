"""Options that several commands have."""

from __future__ import annotations

import csv
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError
from ordinalrbm.estimators import ESTIMATORS
from ordinalrbm.runtime.places import place

if TYPE_CHECKING:
    from ordinalrbm.data.scales import Scale
    from ordinalrbm.estimators.ratings import RatingModel
    from ordinalrbm.files.ratings import Layout

_MOST_STEPS = 32_767  # levels that a scale can have
# Models of ratings by their names for --model.
RATING_MODELS = {kind.replace("_", "-"): name for kind, (_, name) in ESTIMATORS.items() if kind != "vector"}
Model = StrEnum("Model", {name: name for name in RATING_MODELS})  # type: ignore[misc]


Rule = StrEnum("Rule", "MEDIAN MODE MEAN")  # which level to name of a distribution
Rotation = StrEnum("Rotation", "VARIMAX QUARTIMAX OBLIMIN PROMAX BIFACTOR NONE")
Protocol = StrEnum("Protocol", "CHRONOLOGICAL RANDOM")  # which ratings are hidden
Duplicates = StrEnum("Duplicates", "ERROR LAST")  # which of several ratings of an item counts


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    # Typer 0.27 writes an option in capitals where no name is given, and the metavar is the same word.
    return typer.Option(*names, metavar=metavar, help=text, **more)


def flag(name: str, text: str) -> Any:
    return typer.Option(name, help=text)


def out_option(text: str, metavar: str = "FILE") -> Any:
    return option(metavar, text, "--out", "-o")


_DATA_HELP = "A .sav, .zsav, .por, .dta, .xpt, .xlsx, .csv, .tsv (also .gz) or .parquet file, or a "
_Columns = list[str] | None
DataFile = Annotated[Path, typer.Argument(metavar="DATA", help=f"{_DATA_HELP}folder of .parquet files.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `ordinalrbm fit` has written.")]
DataOrModel = Annotated[Path, typer.Argument(metavar="DATA|MODEL", help="A file to learn from, or a model.")]
_OF_MODEL = typer.Argument(metavar="DATA", help="After a model: the survey to use it on.")
DataOfModel = Annotated[Path | None, _OF_MODEL]
SeedOption = Annotated[int, option("N", "Same seed, same result.", "--seed", min=0, max=2**32 - 1)]
ThreadsOption = Annotated[int | None, option("N", "Number of threads; by default, all.", "--threads", min=1)]
DeviceOption = Annotated[str, option("DEVICE", "Ratings: cpu, cuda, or cuda:1 and so on.", "--device")]
_ROTATED = "How factors are rotated; with oblimin and promax they may be correlated."
RotationOption = Annotated[Rotation, typer.Option("--rotation", help=_ROTATED)]
_TAKEN = "Use only these questions: names or patterns with *, separated by commas, or repeat the option."
QuestionsOption = Annotated[_Columns, option("COLUMNS", _TAKEN, "--questions")]
ExcludeOption = Annotated[_Columns, option("COLUMNS", "Leave out these columns.", "--exclude")]
_TITLES = "A table of items with their titles, which are shown next to the ids."
ItemNamesOption = Annotated[str | None, option("FILE[:COLUMN]", _TITLES, "--item-names")]
JsonOption = Annotated[bool, flag("--json", "Results as JSON, and nothing else.")]
_QUIET = "Print nothing but results, warnings and errors."
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help=_QUIET)]


@dataclass(frozen=True)
class Telling:
    """What a command prints; see `expanded`."""

    json: JsonOption = False
    quiet: QuietOption = False

    def output(self, *, silent: bool = False) -> Output:
        return Output(as_json=self.json, quiet=self.quiet, silent=silent)


_FOR_READINGS = (".xlsx", ".docx", ".tex", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
_ESCAPED = "In .csv and .tsv, put ' before text that a spreadsheet would take for a formula."


@dataclass(frozen=True)
class Writing(Telling):
    """What a command prints that writes a table, and how it is written."""

    escape_formulas: Annotated[bool, flag("--escape-formulas", _ESCAPED)] = False

    def begin(
        self, ctx: typer.Context, out: Path | None, *, labelled: bool = False, printed: bool = False
    ) -> Output:
        """Refuse files of other formats, and --escape-formulas where it would change nothing.

        Spreadsheets compute only what is in .csv and .tsv; only SPSS and Stata files are labelled,
        and only tables of a reading are printed, in .docx and .tex.
        """
        from ordinalrbm.files import tables_out
        from ordinalrbm.schema.source import format_of

        if printed and out is not None and not out.name.lower().endswith(_FOR_READINGS):
            raise DataError(
                f"File '{out}' cannot hold these tables; write to .xlsx, .docx, .tex, .csv or .parquet."
            )
        is_printed = printed and out is not None and tables_out.is_printed(out)
        if out is None or is_printed or format_of(out) not in ("csv", "tsv"):
            refuse(ctx, ("escape_formulas",), "it is for --out with a .csv or .tsv file")
        if out is not None:
            tables_out.check_library(out)
            if not labelled and not is_printed:
                from ordinalrbm.files.writing import check_table_format

                check_table_format(out)
        return self.output()


_INCLUDED = (
    "Categories without an order, or numbers, to model as well: names, patterns with *, nominal or "
    "numeric; separated by commas, or repeat the option."
)
_BACKGROUND = "Covariates, which are never predicted: names, patterns with *, or background."
_WEIGHTED = "Use the weights of the survey in learning."
_Schema = Annotated[Path | None, option("FILE", "A TOML file that says what the columns of a survey are.")]


@dataclass(frozen=True)
class SurveySettings:
    """Settings of learning from a survey; None is for us to choose.

    The annotated ones are options of every command that learns (see `expanded`), the others are
    set by the commands that have them.
    """

    schema: _Schema = None
    questions: QuestionsOption = None
    exclude: ExcludeOption = None
    include: Annotated[_Columns, option("COLUMNS", _INCLUDED)] = None
    background: Annotated[_Columns, option("COLUMNS", _BACKGROUND)] = None
    weighted: Annotated[bool, flag("--weighted", _WEIGHTED)] = False
    epochs: Annotated[int | None, option("N", "Passes over the data, at most.", min=1)] = None
    seed: SeedOption = 0
    threads: ThreadsOption = None
    factors: int | None = None
    survey: bool = False
    progress: bool = False
    design: dict[str, Any] = field(default_factory=dict)
    """Columns that say how people were sampled, as `read_survey` takes them."""
    checkpoints: dict[str, Any] = field(default_factory=dict)
    """Where and how often to write them, and whether to go on from them, as ``fit`` takes it."""

    @property
    def common(self) -> dict[str, Any]:
        common = {"random_state": self.seed, "n_jobs": self.threads, "verbose": self.progress}
        return common if self.epochs is None else {**common, "n_epochs": self.epochs}


_REPLICATES = "Replicate weights: names or patterns with *, such as 'repwt*'."
_KINDS = "How these were made: JK1, JKn, BRR, Fay, bootstrap, SDR or other."
_SCALE_OF = "Of the variance of replicates: a number, or one for each with commas; by default by their type."


@dataclass(frozen=True)
class DesignColumns:
    """How the people of a survey were sampled, by columns of its file."""

    weights: Annotated[str | None, option("COLUMN", "The weight of each person.")] = None
    strata: Annotated[str | None, option("COLUMN", "The stratum of each person.")] = None
    cluster: Annotated[str | None, option("COLUMN", "The primary sampling unit of each person.")] = None
    replicates: Annotated[_Columns, option("COLUMNS", _REPLICATES)] = None
    replicate_type: Annotated[str | None, option("KIND", _KINDS)] = None
    replicate_scale: Annotated[str | None, option("NUMBERS", _SCALE_OF)] = None

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of a SurveyDesign, with names of columns; none if nothing is known."""
        scale = self.replicate_scale
        try:
            numbers = None if scale is None else [float(one) for one in scale.split(",")]
        except ValueError as error:
            raise DataError(
                f"--replicate-scale {scale!r} holds no numbers; write 0.5 or 0.5,0.75."
            ) from error
        parts: dict[str, Any] = {"weights": self.weights, "strata": self.strata, "clusters": self.cluster}
        parts |= {"replicates": self.replicates, "kind": self.replicate_type, "scale": numbers}
        return {name: part for name, part in parts.items() if part is not None}


_FACTORS = "Number of factors; by default 50, for a survey at most one per question, for its report 12 to 30."
_MODELS = (
    f"{', '.join(RATING_MODELS)}: ordinal matrix factorisation (the default), the matrix model with binary "
    "factors of users and items, or one of two baselines."
)
_ITEM_FACTORS = "matrix-crbm: factors of an item; by default as many as of a user."
_SCALE = "All labels from lowest to highest, such as bad,fair,good, or 1..5, or 0.5,1..5 in halves."
_SURVEY = "Read the file as a survey, whatever its columns are."


@dataclass(frozen=True)
class Settings(SurveySettings):
    """Settings of learning from a survey or from ratings."""

    factors: Annotated[int | None, option("K", _FACTORS, "--factors", "-k", min=1)] = None
    survey: Annotated[bool, flag("--survey", _SURVEY)] = False
    model: Annotated[Model | None, option("MODEL", _MODELS, "--model")] = None
    item_factors: Annotated[int | None, option("S", _ITEM_FACTORS, min=0)] = None
    scale: Annotated[str | None, option("LABELS", _SCALE)] = None
    users: Annotated[Path | None, option("FILE", "A table with features of users.")] = None
    items: Annotated[Path | None, option("FILE", "A table with features of items.")] = None
    device: str = "cpu"


# ---- columns of ratings -----------------------------------------------------------------------


def _column(of: str) -> Any:
    return option("COLUMN", f"The column of {of}.")


@dataclass(frozen=True)
class PairColumns:
    """Which columns of a table of pairs are which; None is found by its name."""

    user_column: Annotated[str | None, _column("users")] = None
    item_column: Annotated[str | None, _column("items")] = None

    def layout(self, options: dict[str, str] | None = None, **more: Any) -> Layout:
        """How to read a file with these columns; further arguments are those of `Layout`."""
        from ordinalrbm.files.ratings import Layout

        names = ("user", "item", "rating", "time")
        given = {name: getattr(self, f"{name}_column", None) for name in names}
        columns = {"timestamp" if k == "time" else k: name for k, name in given.items() if name is not None}
        own = {name: f"--{name}-column" for name in names} | {"duplicates": "--duplicates"}
        return Layout(columns, options=own | (options or {}), **more)


_DUPLICATES = (
    "If a user has rated an item more than once: refuse, or take the latest (the last line where there "
    "are no times)."
)
_WHERE = "Of Parquet files only rows such as 'year>=2020'; repeat the option for further conditions."


@dataclass(frozen=True)
class RatingColumns(PairColumns):
    """Which columns of a file of ratings are which."""

    rating_column: Annotated[str | None, _column("ratings")] = None
    time_column: Annotated[str | None, _column("times")] = None
    duplicates: Annotated[Duplicates, typer.Option(help=_DUPLICATES)] = Duplicates.ERROR
    where: Annotated[_Columns, option("CONDITION", _WHERE)] = None

    def to_learn(self, scale: str | None, needs_times: bool) -> Layout:
        """How to read ratings to learn from; times also where the latest rating is wanted."""
        return self.layout(
            {"scale": "--scale", "survey": "--survey"},
            scale=None if scale is None else written_scale(scale),
            duplicates=self.duplicates.value,
            where=self._conditions(),
            needs_times=needs_times or self.duplicates is Duplicates.LAST,
        )

    def _conditions(self) -> tuple[tuple[str, str, str], ...]:
        found = [re.fullmatch(r"\s*(.*?)\s*([<>!=]=|[<>=])\s*(.*?)\s*", one) for one in self.where or ()]
        if not all(found):
            raise DataError(
                "--where is no condition; write a column, an operator and a value, such as 'year>=2020'."
            )
        parts = [one.groups() for one in found if one is not None]
        return tuple((column, "==" if how == "=" else how, value) for column, how, value in parts)

    def known_to(self, model: RatingModel) -> Layout:
        from ordinalrbm.data.scales import Scale

        scale = model.scales_ if isinstance(model.scales_, Scale) else None
        return self.layout(
            scale=scale,
            duplicates=self.duplicates.value,
            where=self._conditions(),
            needs_times=self.duplicates is Duplicates.LAST,
            has_own_scales=scale is None,
        )


COLUMN_OPTIONS = ("user_column", "item_column", "rating_column", "time_column", "duplicates", "where")


# Options of surveys, of ratings, and of both that matter to learning only.
OF_DESIGN = tuple(one.name for one in fields(DesignColumns))
OF_SURVEYS = ("group", "weighted", "include", "background", "questions", "exclude")
OF_RATINGS: tuple[str, ...] = ("model", "item_factors", "protocol", "min_ratings", "user", "device", "scale")
OF_RATINGS += ("users", "items", "item_names", "sample_weight", *COLUMN_OPTIONS)
LEARNING: tuple[str, ...] = ("model", "factors", "item_factors", "epochs", "schema", "survey", "scale")
LEARNING += ("users", "items", *OF_SURVEYS[1:])
# Sections of a command's help; options are in the second unless they are named below.
SECTIONS = ("Arguments", "Options", "Survey", "Ratings", "Running", "Output")
_RUNNING = ("epochs", "seed", "threads", "device", "checkpoint", "every", "resume", "timeout", "show_timings")
_OUTPUT = ("out", "tables", "page", "open_it", "escape_formulas", "json", "quiet", "help")


def section_of(option: str) -> str:
    if option in _RUNNING or option in _OUTPUT:
        return "Running" if option in _RUNNING else "Output"
    if option in (*OF_SURVEYS, *OF_DESIGN, "schema", "survey"):
        return "Survey"
    return "Ratings" if option in OF_RATINGS or option in ("top", "liked") else "Options"


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
        given = {name: place(value) if isinstance(value, Path) else value for name, value in given.items()}
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


def check_number(number: int, most: int, whose: str, option: str = "--factors") -> None:
    if number > most:
        raise DataError(f"{option} {number} is more than {whose}; give at most {most}.")


# ---- scales -----------------------------------------------------------------------------------


def written_scale(text: str) -> Scale:
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
