"""Data and models that commands are given."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import typer
from pandas.api.types import is_float_dtype

from ordinalrbm.cli.options import OF_RATINGS, OF_SURVEYS, Kind, refuse
from ordinalrbm.cli.output import Output
from ordinalrbm.errors import DataError
from ordinalrbm.files.formats import Source, read
from ordinalrbm.files.parquet_parts import ParquetRatings
from ordinalrbm.files.proposal import propose
from ordinalrbm.files.ratings import has_pairs, is_ratings, pairs_of, ratings_of
from ordinalrbm.files.schema import Schema, from_json, override
from ordinalrbm.files.showing import proposal_table
from ordinalrbm.files.survey import Survey, apply, read_text
from ordinalrbm.storage import model_file

# What takes seconds to import is imported in functions: a wrong file should be told at once.
if TYPE_CHECKING:
    from ordinalrbm.estimators.ratings import MatrixCumulativeRBM
    from ordinalrbm.estimators.survey import CumulativeRBM

_MOST_TOLD = 12  # lines about what is left out; more would hide the proposal


@dataclass(frozen=True)
class Material:
    """What a file holds: a survey, or ratings.

    A survey may be wanted as ratings of questions by respondents; then it is both. Of ratings in
    Parquet files, each of several processes may read a part: then they are still to be read.
    """

    source: Source
    survey: Survey | None = None
    ratings: pd.DataFrame | None = None
    item_scales: dict[str, list[str]] | None = None
    unread: ParquetRatings | None = None

    @property
    def n_ratings(self) -> int | None:
        """How many ratings there are in all; None of a survey."""
        if self.unread is not None:
            return self.unread.n_ratings
        return None if self.ratings is None else len(self.ratings)


def read_material(
    path: Path, kind: Kind | None = None, schema_file: Path | None = None,
    known: Schema | None = None, in_parts: bool = False,
) -> Material:  # fmt: skip
    """Read a file, and decide what it is; ``in_parts``, not more of it than must be."""
    if model_file.is_model(path):
        raise DataError(f"File '{path}' is a model, not data; give a file with answers or ratings.")
    if in_parts and schema_file is None:
        # What is no ratings in Parquet files, or is damaged, is told below.
        with suppress(DataError):
            unread = ParquetRatings(path)
            return Material(unread.source, unread=unread)
    source = read(path)
    if is_ratings(source) and schema_file is None:
        if known is None:
            return Material(source, ratings=ratings_of(source))
        if not set(known.names("ordinal")) & set(source.frame.columns):
            raise DataError(
                f"File '{path}' holds ratings, but the model was learnt from a survey; give a file "
                "with its questions."
            )
    schema = propose(source) if known is None else known
    if schema_file is not None:
        schema = override(schema, read_text(schema_file), f"File '{schema_file}'")
    survey = apply(source, schema)
    if kind is Kind.MATRIX:
        return Material(source, survey, *_as_ratings(survey))
    return Material(source, survey)


def _as_ratings(survey: Survey) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Answers as ratings: respondents are users, questions items with scales of their own."""
    row, column = np.nonzero(survey.answers.notna().to_numpy())
    labels = survey.answers.astype(object).to_numpy()
    names = np.asarray(survey.answers.columns, dtype=object)
    ratings = pd.DataFrame(
        {"user": respondents(survey)[row], "item": names[column], "rating": labels[row, column]}
    )
    scales = {name: list(survey.answers[name].cat.categories) for name in survey.answers}
    return ratings, scales


def respondents(survey: Survey) -> np.ndarray:
    """What respondents are called: by their ids, else by the number of their row from 1."""
    ids = survey.ids
    if ids is not None and ids.is_unique and ids.notna().all():
        if is_float_dtype(ids) and (ids == np.floor(ids)).all():  # SPSS knows no whole numbers
            ids = ids.astype(np.int64)
        return ids.to_numpy(dtype=object)
    return np.arange(1, len(survey.answers) + 1)


def tell_material(material: Material, talk: Output) -> None:
    """Say what the file was taken for, and what of it is left out."""
    survey = material.survey
    if material.unread is not None:
        talk.say(
            f"{material.source.name}: {material.n_ratings:,} ratings, of which each process reads "
            "a part."
        )
        return
    if survey is None:
        ratings = _required(material.ratings)
        talk.say(
            f"{material.source.name}: {len(ratings):,} ratings by {ratings['user'].nunique():,} "
            f"users of {ratings['item'].nunique():,} items."
        )
        return
    talk.show(proposal_table(survey.schema))
    for note in survey.notes:
        talk.say(f"Note: {note}")
    for left in survey.left_out[:_MOST_TOLD]:
        counted = f": {left.count:,} times" if left.count > 1 else ""
        talk.say(f"Left out: {left.what}, {left.why}{counted}.")
    untold = len(survey.left_out) - _MOST_TOLD
    if untold > 0:
        talk.say(f"Left out: {untold:,} more; `ordinalrbm report` has all of them.")
    share = survey.answers.notna().to_numpy().mean()
    talk.say(
        f"{survey.name}: {len(survey.answers):,} respondents, {survey.answers.shape[1]} questions, "
        f"{share * 100:.1f} % answered."
    )


def _required(ratings: pd.DataFrame | None) -> pd.DataFrame:
    assert ratings is not None, "a file is a survey or ratings"
    return ratings


def refuse_unused(ctx: typer.Context, material: Material, kind: Kind | None) -> None:
    """Refuse options that are for data of another kind, before anything is said."""
    if material.n_ratings is None:
        refuse(ctx, OF_RATINGS, f"'{material.source.path}' is taken for a survey")
        return
    refuse(ctx, OF_SURVEYS, f"'{material.source.path}' is taken for ratings")
    if kind is Kind.VECTOR:
        refuse(ctx, ("item_factors",), "with --model vector items have no factors")


def is_model(path: Path) -> bool:
    """Whether a path is that of a model: by what is in the file, or else by its name."""
    return model_file.is_model(path) or path.suffix.lower() == ".orbm"


def load_model(path: Path) -> Any:
    """A model from its file."""
    return model_file.load(path)


def stored_schema(model: Any, path: Path) -> Schema | None:
    """What the columns of its file were for a model, if it was learnt from one."""
    content = model.about_.get("schema")
    return None if content is None else from_json(content, f"File '{path}'")


def as_model_of_ratings(model: Any, path: Path) -> MatrixCumulativeRBM:
    """A model of ratings, or a sentence."""
    from ordinalrbm.estimators.ratings import MatrixCumulativeRBM

    if not isinstance(model, MatrixCumulativeRBM):
        raise DataError(
            f"File '{path}' holds a {type(model).__name__}, not a MatrixCumulativeRBM; give a "
            "model that `ordinalrbm fit` has learnt from ratings."
        )
    return model


def on_device(ctx: typer.Context, model: Any, path: Path, device: str) -> Any:
    """A model, told where to predict; only models of ratings can be."""
    from ordinalrbm.estimators.ratings import MatrixCumulativeRBM

    if isinstance(model, MatrixCumulativeRBM):
        return model.set_params(device=device)
    refuse(ctx, ("device",), f"'{path}' holds a {type(model).__name__}, which knows no devices")
    return model


def as_model_of_surveys(model: Any, path: Path) -> CumulativeRBM:
    """A model of surveys, or a sentence."""
    from ordinalrbm.estimators.survey import CumulativeRBM

    if not isinstance(model, CumulativeRBM):
        raise DataError(
            f"File '{path}' holds a {type(model).__name__}, not a CumulativeRBM; give a model that "
            "`ordinalrbm fit` has learnt from a survey."
        )
    return model


def survey_for(model: CumulativeRBM, path: Path, data: Path) -> Material:
    """A survey file as a model understands it."""
    known = stored_schema(model, path)
    if known is None:
        raise DataError(
            f"File '{path}' does not say what the columns of a file are (it was made in Python); "
            "use it from Python, or fit with `ordinalrbm fit`."
        )
    return read_material(data, known=known)


def ratings_for(model: MatrixCumulativeRBM, path: Path, data: Path) -> pd.DataFrame:
    """Ratings from a file; a survey, where the model was learnt from one as a matrix."""
    known = stored_schema(model, path)
    if known is not None:
        return _required(read_material(data, Kind.MATRIX, known=known).ratings)
    ratings = read_material(data).ratings
    if ratings is None:
        raise DataError(
            f"File '{data}' holds no ratings, but '{path}' is a model of ratings; give a table "
            "with the columns user, item and rating."
        )
    return ratings


def pairs_for(model: Any, path: Path, data: Path) -> pd.DataFrame:
    """Pairs from a file; of a survey, where the model was learnt from one, those unanswered."""
    known, source = stored_schema(model, path), read(data)
    if known is None or has_pairs(source):
        return pairs_of(source)
    survey = apply(source, known)
    row, column = np.nonzero(survey.answers.isna().to_numpy())
    names = np.asarray(survey.answers.columns, dtype=object)
    return pd.DataFrame({"user": respondents(survey)[row], "item": names[column]})


def levels_of(model: Any, ratings: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Ratings as a score takes them, and the values of the levels.

    Labels of one scale of numbers stand for themselves; others are counted from 1.
    """
    from ordinalrbm.data.ratings import encode
    from ordinalrbm.data.scales import Scale

    encoded = encode(model.ratings_, ratings[["user", "item", "rating"]]).level
    scale = model.scales_
    if isinstance(scale, Scale) and scale.is_numeric:
        values = np.asarray(scale.values, dtype=float)
    else:
        values = np.arange(1.0, int(model.ratings_.observations.n_levels.max()) + 1)
    if (encoded < 0).any():
        item = ratings["item"].iloc[int((encoded < 0).argmax())]
        raise DataError(f"The item {item!r} is new, and items have different scales; leave it out.")
    return values[encoded], values


def user_ids(model: Any, texts: list[str]) -> list[Any]:
    """Ids in the type that a model knows its users by."""
    if model.users_.labels.dtype.kind not in "iu":
        return list(texts)
    for text in texts:
        if not text.removeprefix("-").isdecimal():
            raise DataError(
                f"The user {text!r} is no number, but all users of the model are; give numbers."
            )
    return [int(text) for text in texts]
