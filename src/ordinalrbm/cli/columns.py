"""Options that say what is where in a file of ratings, and what they mean for reading it."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.errors import DataError

if TYPE_CHECKING:
    from ordinalrbm.files.ratings import Layout

_MOST_STEPS = 32_767  # levels that a scale can have


class Duplicates(StrEnum):
    """Which rating counts where a user has rated an item several times."""

    ERROR = "error"
    LAST = "last"
    MEAN = "mean"


def _column(of: str, *names: str) -> Any:
    return typer.Option(*names, metavar="COLUMN", help=f"Ratings: the column of {of}.")


@dataclass(frozen=True)
class PairColumns:
    """Which columns of a table of pairs are which; None is found by its name."""

    user_column: Annotated[str | None, _column("users", "--user", "--user-column")] = None
    item_column: Annotated[str | None, _column("items", "--item", "--item-column")] = None

    def layout(self) -> Layout:
        """What reading a file has to know."""
        from ordinalrbm.files.ratings import Layout

        columns = {"user": self.user_column, "item": self.item_column}
        options = {name: f"--{name}" for name in columns}
        return Layout(_given(columns), options=options)


@dataclass(frozen=True)
class RatingColumns(PairColumns):
    """The same of a file of ratings."""

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
        options = self._options() | {"scale": "--scale", "survey": "--survey"}
        known = None if scale is None else written_scale(scale)
        return self._layout(options, known, needs_times=needs_times)

    def known_to(self, model: Any) -> Layout:
        """How to read ratings on the scales of a model."""
        from ordinalrbm.data.scales import Scale

        scale = model.scales_ if isinstance(model.scales_, Scale) else None
        return self._layout(self._options(), scale, has_own_scales=scale is None)

    def _layout(
        self, options: dict[str, str], scale: Any, *, needs_times: bool = False, has_own_scales: bool = False
    ) -> Layout:
        from ordinalrbm.files.ratings import Layout

        columns = {
            "user": self.user_column,
            "item": self.item_column,
            "rating": self.rating_column,
            "timestamp": self.time_column,
        }
        return Layout(
            _given(columns),
            scale,
            self.duplicates.value,
            needs_times or self.duplicates is Duplicates.LAST,
            options,
            has_own_scales,
        )

    def _options(self) -> dict[str, str]:
        return {name: f"--{name}" for name in ("user", "item", "rating", "time", "duplicates")}


@dataclass(frozen=True)
class LongRatingColumns(RatingColumns):
    """The same for commands in which --user or --users names people: only the long names."""

    user_column: Annotated[str | None, _column("users", "--user-column")] = None
    item_column: Annotated[str | None, _column("items", "--item-column")] = None
    rating_column: Annotated[str | None, _column("ratings", "--rating-column")] = None
    time_column: Annotated[str | None, _column("times", "--time-column")] = None

    def _options(self) -> dict[str, str]:
        long = {name: f"--{name}-column" for name in ("user", "item", "rating", "time")}
        return super()._options() | long


COLUMN_OPTIONS = ("user_column", "item_column", "rating_column", "time_column", "duplicates")


def _given(columns: dict[str, str | None]) -> dict[str, str]:
    return {name: column for name, column in columns.items() if column is not None}


# ---- scales -----------------------------------------------------------------------------------


def written_scale(text: str) -> Any:
    """The scale that --scale names.

    Examples
    --------
    >>> written_scale("bad,fair,good").labels, written_scale("1..5").labels
    (('bad', 'fair', 'good'), (1, 2, 3, 4, 5))
    >>> written_scale("0.5,1..3").labels
    (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    """
    from ordinalrbm.data.scales import Scale

    first, dots, last = text.partition("..")
    parts = [part.strip() for part in next(csv.reader([first], skipinitialspace=True), [])]
    try:
        labels = _steps(parts, last) if dots else _plain(parts)
        return Scale(tuple(labels))
    except (DataError, ValueError) as error:
        why = f" ({str(error).rstrip('.')})" if isinstance(error, DataError) else ""
        raise DataError(
            f"--scale {text!r} is no scale{why}; write all labels from lowest to highest with "
            "commas between them, or 1..5, or in other steps 0.5,1..5."
        ) from error


def _plain(parts: list[str]) -> list[Any]:
    """Numbers if all are, else text as it is."""
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
    """From the first number to the last, in steps of one or to the second number."""
    low, high = _number(parts[0]), _number(last)
    step = 1 if len(parts) == 1 else _number(parts[1]) - low
    n_steps = (high - low) / step if step else 0.0
    if len(parts) > 2 or not 1 <= n_steps <= _MOST_STEPS or abs(n_steps - round(n_steps)) > 1e-6:
        raise ValueError(last)
    # Twelve digits, so that a level reads 0.3 and not 0.30000000000000004.
    labels = [float(f"{low + k * step:.12g}") for k in range(round(n_steps) + 1)]
    return [int(label) for label in labels] if all(x.is_integer() for x in labels) else labels
