"""Files that commands are given: data and models.

What takes seconds to import is imported in functions: a wrong file should be told at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

import ordinalrbm as orbm
from ordinalrbm.cli import options
from ordinalrbm.cli.output import Output, counted
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import Address, packing, place, result_path, split_sheet
from ordinalrbm.runtime.timing import stage
from ordinalrbm.storage.atomic import check_writable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from ordinalrbm.data.ratings import Ratings
    from ordinalrbm.estimators.ratings import RatingModel
    from ordinalrbm.files.ratings import Layout, ParquetRatings
    from ordinalrbm.files.survey import Survey
    from ordinalrbm.schema.schema import Schema
    from ordinalrbm.schema.source import Source

_MOST_TOLD = 3  # parts that are left out for the same reason
_MOST_GUESSED = 10_000  # ids among which a misspelt one is looked for
_UNWEIGHTED = "the model is fitted without the weights in {!r}; give --weighted to fit with them."
_TITLES = ("title", "name", "label", "item", "description")  # usual names of a column of titles


def check_files(*read: Path | None, out: Path | None = None) -> None:
    """Refuse files that are not there, and a result that cannot be written or would destroy them.

    None is an option that was not given.
    """
    given = [split_sheet(path)[0] for path in read if path is not None]
    for path in given:
        try:
            is_there = path.exists()
        except OSError as error:  # a folder that must not be looked into, a name that is too long
            raise DataError(f"File '{path}' cannot be read ({error.strerror}); check the path.") from error
        if not is_there:
            raise DataError(f"File '{path}' does not exist; check the path.")
    if out is None:
        return
    check_writable(out)
    for path in given:
        if out == path or (out.exists() and not isinstance(path, Address) and out.samefile(path)):
            raise DataError(f"File '{out}' is read and would be written over; write elsewhere.")


def written_like(data: Path, ending: str) -> Path:
    """The name of a file beside a survey, in its format if that can be written, else as SPSS."""
    file = split_sheet(data)[0]
    packed = packing(file)
    suffixes = Path(file.name.removesuffix(packed)).suffix + packed
    known = {"": ".parquet", ".por": ".sav", ".xpt": ".sav", ".orbm": ".sav"}
    return result_path(data, ending + known.get(suffixes.lower(), suffixes))


# ---- data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """What a file holds: a survey, or ratings.

    Of ratings in Parquet files, each of several processes may read a part: then they are still to be read.
    """

    source: Source
    survey: Survey | None = None
    ratings: pd.DataFrame | None = None
    unread: ParquetRatings | None = None
    features: dict[str, pd.DataFrame] = field(default_factory=dict)
    """What is known of users and items, as ``fit`` takes it."""

    @property
    def n_ratings(self) -> int | None:
        """How many ratings there are in all; None of a survey."""
        if self.unread is not None:
            return self.unread.n_ratings
        return None if self.ratings is None else len(self.ratings)


def read_material(
    path: Path,
    settings: options.SurveySettings | None = None,
    known: Schema | None = None,
    in_parts: bool = False,
    layout: Layout | None = None,
) -> Material:
    """Read a file, and decide what it is; ``in_parts``, not more of it than must be."""
    from ordinalrbm.files.formats import read
    from ordinalrbm.files.ratings import AS_IT_IS, ParquetRatings, checked_ratings, is_ratings, read_source
    from ordinalrbm.files.survey import apply
    from ordinalrbm.storage import model_file

    if model_file.is_model(path):
        raise DataError(f"File '{path}' is a model, not data; give a file with answers or ratings.")
    settings, layout = settings or options.SurveySettings(), layout or AS_IT_IS
    as_survey = settings.survey or settings.schema is not None
    if in_parts and not as_survey and layout.duplicates == "error" and not layout.where:
        # Files that are no ratings in Parquet, or damaged, are refused below.
        with suppress(DataError):
            unread = ParquetRatings(path, layout)
            return Material(unread.source, unread=unread)
    with stage("reading the file"):
        source = read(path) if as_survey else read_source(path, layout)
    if not as_survey and (layout.names_columns or is_ratings(source)):
        if known is None:
            with stage("checking the file"):
                return Material(source, ratings=checked_ratings(source, layout))
        if not set(known.names("ordinal")) & set(source.frame.columns):
            raise DataError(
                f"File '{path}' holds ratings, but the model was learnt from a survey; give a file "
                "with its questions."
            )
    with stage("checking the file"):
        schema = schema_of(source, settings, None if as_survey else layout) if known is None else known
        survey = apply(source, schema, settings.design)
    if known is None and survey.weight is not None and survey.design is None and not settings.weighted:
        survey = replace(survey, notes=(*survey.notes, _UNWEIGHTED.format(survey.weight.name)))
    return Material(source, survey)


def schema_of(source: Source, settings: options.SurveySettings, layout: Layout | None = None) -> Schema:
    from ordinalrbm.files.ratings import refuse_likely_ratings
    from ordinalrbm.files.survey import read_text, select
    from ordinalrbm.schema.infer import propose
    from ordinalrbm.schema.toml import override

    schema, file = propose(source), settings.schema
    if layout is not None and not settings.include:
        refuse_likely_ratings(source, schema, layout)
    if file is not None:
        schema = override(schema, read_text(file), f"File '{file}'")
    with _naming_options():
        return select(schema, settings.questions or (), settings.exclude or ())


@contextmanager
def _naming_options() -> Iterator[None]:
    """Errors that begin with the name of an argument begin with that of an option."""
    try:
        yield
    except DataError as error:
        raise DataError(f"--{error}") from error


def respondents(survey: Survey) -> np.ndarray:
    import numpy as np
    from pandas.api.types import is_float_dtype

    ids = survey.ids
    if ids is not None and ids.is_unique and ids.notna().all():
        if is_float_dtype(ids) and (ids == np.floor(ids)).all():  # SPSS knows no whole numbers
            ids = ids.astype(np.int64)
        return ids.to_numpy(dtype=object)
    return np.arange(1, survey.encoded.shape[0] + 1)


def tell_material(material: Material, output: Output) -> None:
    if output.quiet:
        return
    name, survey, ratings = material.source.name, material.survey, material.ratings
    if survey is not None:
        _tell_survey(survey, output)
    elif ratings is not None:
        from ordinalrbm.data.columns import read_column

        n_users, n_items = (
            len(read_column(ratings[side], side).coded().distinct) for side in ("user", "item")
        )
        output.say(f"{name}: {len(ratings):,} ratings by {n_users:,} users of {n_items:,} items.")
        n_repeated = len(material.source.frame) - len(ratings)
        if n_repeated:
            output.say(f"Repeated ratings of a pair became one: {n_repeated:,} fewer.")
    else:
        output.say(f"{name}: {material.n_ratings:,} ratings, of which each process reads a part.")


def _tell_survey(survey: Survey, output: Output) -> None:
    from ordinalrbm.cli.schema import proposal_table

    every = survey.schema.columns
    doubtful = tuple(column for column in every if column.is_doubtful)
    if doubtful:
        output.show(proposal_table(replace(survey.schema, columns=doubtful)))
    output.say(
        f"{counted(len(every), 'column')}, {len(doubtful) or 'none'} of them doubtful; `ordinalrbm schema` "
        "shows what each was taken for."
    )
    for note in survey.notes:
        output.say(f"Note: {note}")
    for why in dict.fromkeys(left.why for left in survey.left_out):
        parts = [left for left in survey.left_out if left.why == why]
        named = "; ".join(left.what for left in parts[:_MOST_TOLD])
        more = f" and {len(parts) - _MOST_TOLD:,} more" if len(parts) > _MOST_TOLD else ""
        count = sum(left.count for left in parts)
        cells = f", {counted(count, 'cell')}" if count else ""
        output.say(f"Left out: {named}{more} ({why.removeprefix('is ')}{cells}).")
    n_rows, n_questions = survey.encoded.shape
    output.say(
        f"{survey.name}: {n_rows:,} respondents, {n_questions} questions, "
        f"{survey.encoded.observations.density:.1%} answered."
    )
    for words, columns in (
        ("Also asked about, without an order", survey.chosen.nominal),
        ("Also asked about, numbers", survey.chosen.numeric),
        ("Background that shapes what is expected", survey.chosen.background),
    ):
        if columns:
            output.say(f"{words}: {', '.join(columns)}.")


def read_to_learn(
    ctx: typer.Context,
    path: Path,
    settings: options.Settings,
    columns: options.RatingColumns,
    *,
    data: Path | None = None,
    in_parts: bool = False,
    needs_times: bool = False,
    weight: str | None = None,
) -> Material:
    """Read a file to learn from, and refuse options that are for data of another kind."""
    if data is not None:
        raise DataError(f"--data goes with a model, but '{path}' is none; leave it out.")
    layout = replace(columns.to_learn(settings.scale, needs_times), weight=weight)
    has_features = settings.users is not None or settings.items is not None
    in_parts = in_parts and not has_features and weight is None
    material = read_material(path, settings, in_parts=in_parts, layout=layout)
    if material.n_ratings is None:
        options.refuse(ctx, options.OF_RATINGS, f"'{path}' is taken for a survey")
        assert material.survey is not None, "a file is a survey or ratings"
        return replace(material, survey=with_columns(material.survey, settings))
    options.refuse(ctx, (*options.OF_SURVEYS, *options.OF_DESIGN), f"'{path}' is taken for ratings")
    if settings.model != "matrix-crbm":
        options.refuse(ctx, ("item_factors",), "only with --model matrix-crbm have items their own number")
    if settings.model not in (None, "ordinal-mf"):
        why = f"--model {settings.model} knows users and items by their ratings alone"
        options.refuse(ctx, ("users", "items"), why)
    return replace(material, features=_read_features(material, settings, layout))


def with_columns(survey: Survey, settings: options.SurveySettings) -> Survey:
    with _naming_options():
        return survey.choosing(settings.include or (), settings.background or ())


def read_survey_to_learn(path: Path, settings: options.SurveySettings) -> Material:
    material = read_material(path, settings)
    if material.survey is None:
        raise DataError(f"File '{path}' holds ratings, and this command needs a survey; give a survey.")
    return replace(material, survey=with_columns(material.survey, settings))


def given_or_learnt(
    ctx: typer.Context, target: Path, data: Path | None, settings: options.SurveySettings, output: Output
) -> tuple[orbm.CumulativeRBM | None, Source, Survey]:
    """A model of a survey and the survey for it; or None, where there is a survey to learn from."""
    if is_model(target):
        if data is None:
            raise DataError(f"'{target}' is a model; give the survey to use it on after it.")
        options.refuse(ctx, options.LEARNING, f"'{target}' has learnt already")
        model = load_for(target, "a survey").set_params(n_jobs=settings.threads, verbose=settings.progress)
        return model, *survey_for(model, target, data)
    if data is not None:
        raise DataError(
            f"'{target}' is no model, but '{data}' is given after it; give one file to learn from."
        )
    material = read_survey_to_learn(target, settings)
    assert material.survey is not None, "ratings are refused"
    tell_material(material, output)
    return None, material.source, material.survey


def _read_features(material: Material, settings: options.Settings, layout: Layout) -> dict[str, pd.DataFrame]:
    from ordinalrbm.files.ratings import read_side_table

    ratings, tables = material.ratings, {}
    for name, path in (("user", settings.users), ("item", settings.items)):
        if path is not None:
            assert ratings is not None, "with tables beside them, ratings are read whole"
            tables[f"{name}_features"] = read_side_table(path, name, ratings[name], layout)
    return tables


# ---- models -----------------------------------------------------------------------------------


def is_model(path: Path) -> bool:
    """Whether a file is a model, by its content or else by its name."""
    from ordinalrbm.storage import model_file

    return model_file.is_model(path) or path.suffix.lower() == ".orbm"


def load_for(path: Path, wanted: Literal["a survey", "ratings"]) -> Any:
    model = orbm.load(path)
    if isinstance(model, orbm.CumulativeRBM) != (wanted == "a survey"):
        raise DataError(
            f"File '{path}' holds {_a(model)}, not a model of {wanted}; give a model "
            f"that `ordinalrbm fit` has learnt from {wanted}."
        )
    return model


def set_device(ctx: typer.Context, model: Any, path: Path, device: str) -> None:
    if "device" in model.get_params():
        model.set_params(device=device)
    else:
        options.refuse(ctx, ("device",), f"'{path}' holds {_a(model)}, which knows no devices")


def _a(model: Any) -> str:
    name = type(model).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


# ---- data for models --------------------------------------------------------------------------


def survey_for(
    model: orbm.CumulativeRBM, path: Path, data: Path, settings: options.SurveySettings | None = None
) -> tuple[Source, Survey]:
    from ordinalrbm.schema.schema import from_json

    content = model.about_.get("schema")
    if content is None:
        raise DataError(
            f"File '{path}' does not say what the columns of a file are (it was made in Python); "
            "use it from Python, or fit with `ordinalrbm fit`."
        )
    material = read_material(data, settings, known=from_json(content, f"File '{path}'"))
    assert material.survey is not None, "with a known schema, a file is a survey"
    return material.source, material.survey.aligned_to(model.feature_names_in_, model.questionnaire_)


def ratings_for(model: RatingModel, path: Path, data: Path, columns: options.RatingColumns) -> pd.DataFrame:
    from ordinalrbm.files.ratings import checked_ratings, is_ratings, read_source
    from ordinalrbm.storage import model_file

    if model_file.is_model(data):
        raise DataError(f"File '{data}' is a model, not data; give a file with ratings.")
    layout = columns.known_to(model)
    source = read_source(data, layout)
    if not layout.names_columns and not is_ratings(source):
        how = " ".join(layout.saying(name, "COLUMN") for name in ("user", "item", "rating"))
        raise DataError(
            f"File '{data}' holds no ratings, but '{path}' is a model of ratings; give a table "
            f"with the columns user, item and rating, or say which they are with {how}."
        )
    return with_known_ids(model, checked_ratings(source, layout))


def with_known_ids(model: RatingModel, ratings: pd.DataFrame) -> pd.DataFrame:
    """Ratings or pairs in which ids are text if they are to the model.

    A file whose ids all look like numbers is read as numbers. In the file that was learnt from,
    one like 007 may have made all of them text.
    """
    from ordinalrbm.files.ratings import as_text_like

    known = {"user": model.users_, "item": model.items_}
    return ratings.assign(**{name: as_text_like(ids.is_text, ratings[name]) for name, ids in known.items()})


def ids_of(model: RatingModel, texts: list[str], what: Literal["user", "item"] = "user") -> list[Any]:
    return (model.users_ if what == "user" else model.items_).typed(texts, what)


def known_id(model: RatingModel, text: str, what: Literal["user", "item"]) -> Any:
    """An id that --user or --item gives; refuses one that the model does not know."""
    from ordinalrbm.schema.schema import did_you_mean

    (found,), known = ids_of(model, [text], what), model.users_ if what == "user" else model.items_
    if found not in set(known.labels.tolist()):
        guess = did_you_mean(text, map(str, known.labels[:_MOST_GUESSED].tolist())) if known.is_text else ""
        raise DataError(f"--{what} {text!r} is not known to the model{guess}; give one that has ratings.")
    return found


def titles_table(named: str | None) -> pd.DataFrame | None:
    from ordinalrbm.data.triples import candidates
    from ordinalrbm.files.formats import read
    from ordinalrbm.schema.schema import did_you_mean

    if named is None:
        return None
    file, _, column = (named, "", "") if split_sheet(place(named))[0].exists() else named.rpartition(":")
    check_files(place(file or named))
    frame = read(file).frame
    ids = (candidates(frame.columns, "item") or list(frame.columns))[0]
    others = [name for name in frame.columns if name != ids]
    usual = [name for word in _TITLES for name in others if name.casefold() == word]
    titles = column or (usual or others or ["title"])[0]
    if titles not in frame:
        raise DataError(
            f"File '{file}' has no column {titles!r}{did_you_mean(titles, others)}; give that of the titles, "
            f"such as {file}:{(others or ['title'])[0]}."
        )
    return frame[[ids, titles]].dropna().set_axis(["item", "title"], axis=1)


def item_titles(model: RatingModel, table: pd.DataFrame | None) -> dict[Any, str]:
    from ordinalrbm.files.ratings import as_text_like

    if table is None:
        return {}
    keys = as_text_like(model.items_.is_text, table["item"])
    return dict(zip(keys.tolist(), table["title"].astype(str), strict=True))


def lowest_liked_of(text: str, known: Ratings) -> Any:
    """The rating that --liked gives; refuses one that is not on the scale."""
    from ordinalrbm.evaluate.ranking import lowest_liked

    liked: Any = text
    if all(scale.is_numeric for scale in known.distinct()[0]):
        with suppress(ValueError):
            liked = float(text)
    try:
        lowest_liked(known, liked)
    except DataError as error:
        raise DataError(f"--{error}") from error
    return liked
