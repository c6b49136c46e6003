"""A report in one call: read, learn if needed, and write the page."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator, clone

from ordinalrbm.errors import DataError
from ordinalrbm.estimators.factor_analysis import number_to_read, readable_factors
from ordinalrbm.estimators.ordinal_mf import OrdinalMF
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.evaluate.hidden import hide_answers, hide_ratings
from ordinalrbm.files import tables_out
from ordinalrbm.files.formats import from_frame, read
from ordinalrbm.files.ratings import checked_ratings, is_ratings
from ordinalrbm.files.survey import Survey, apply
from ordinalrbm.pages.page import Page, Progress
from ordinalrbm.pages.ratings import ratings_page
from ordinalrbm.pages.survey import check_group, survey_page
from ordinalrbm.runtime.places import place
from ordinalrbm.schema.infer import propose
from ordinalrbm.schema.schema import from_json
from ordinalrbm.schema.source import StrPath
from ordinalrbm.stats.welch import counting
from ordinalrbm.storage.atomic import atomic_write
from ordinalrbm.storage.model_file import is_model, load

# Hidden from learning, so that the page can tell how well they are predicted.
_SHARE = 0.05
_GROUPS = "Groups"  # how titles of tables begin that compare groups


def report(
    data: Any,
    model: Any = None,
    *,
    out: str | os.PathLike = "report.html",
    tables: str | os.PathLike | None = None,
    random_state: int = 0,
    **options: Any,
) -> Path:
    """Write a page about a survey or ratings, to be opened in a browser.

    Parameters
    ----------
    data : path, data frame, Survey or fitted model of ratings
        A survey (a file, a table, or what :func:`ordinalrbm.read_survey` returns), or ratings in
        the columns user, item and rating or others whose names say as much. A fitted model of
        ratings, or its file, has its ratings inside.
    model : CumulativeRBM or model of ratings, optional
        If it is fitted (a CumulativeRBM on a Survey), or the file of a fitted one, the page shows
        what it has learnt, and ratings are test ratings. If not, it is cloned and learns from the
        data, of which 5% are hidden to be predicted. By default, :class:`CumulativeRBM` or
        :class:`OrdinalMF`.
    out : path, default="report.html"
    tables : path, optional
        Where its tables go as well: all of them to ``.xlsx``; for print, to ``.docx`` or ``.tex``,
        those of ratings, or loadings and groups of a survey.
    random_state : int, default=0
        Seed of what is hidden, of learning by default, and of the map.
    **options
        ``title``, and other options of :func:`ordinalrbm.pages.survey_page` (``group``, ...) or
        :func:`ordinalrbm.pages.ratings_page` (``example_user``, ...).

    Examples
    --------
    >>> import os, tempfile, pandas as pd, ordinalrbm as orbm
    >>> answers = pd.DataFrame({"tea": ["no", "yes", "maybe"] * 9, "milk": ["yes", "no", "no"] * 9})
    >>> file = os.path.join(tempfile.mkdtemp(), "tea.html")
    >>> orbm.report(answers, orbm.CumulativeRBM(1, n_epochs=2, random_state=0), out=file).name
    'tea.html'
    """
    data, model = (load(one) if _is_path(one) and is_model(one) else one for one in (data, model))
    if _is_path(model):
        raise DataError(f"File '{model}' is no model, or does not exist; check the path.")
    if tables is not None:
        check_tables(tables)
    subject = _subject(data, model, random_state, options)
    seed = {} if subject.survey is None else {"random_state": random_state}
    subject.write(subject.page(**seed, **options), out, tables)
    return place(out)


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _subject(data: Any, model: Any, seed: int, options: dict[str, Any]) -> Subject:
    """What the page is about; options that it does not have are refused before all is learnt."""
    if isinstance(data, CumulativeRBM):
        raise DataError(
            "A model of a survey does not hold its answers; give the survey as data, with the model."
        )
    if isinstance(data, BaseEstimator):
        return Subject(data)
    more = {}
    if not isinstance(data, Survey):
        source = read(data) if _is_path(data) else from_frame(data)
        if isinstance(model, RatingModel) or (model is None and is_ratings(source)):
            more = {"title": source.name} if _is_path(data) else {}
            data = checked_ratings(source)
        else:
            schema = getattr(model, "about_", {}).get("schema")
            data = apply(source, from_json(schema) if schema else propose(source))
    is_survey = isinstance(data, Survey)
    inspect.signature(survey_page if is_survey else ratings_page).bind_partial(**options)
    if is_survey:
        check_group(data, options.get("group"))
    if hasattr(model, "model_"):
        return Subject(model, data) if is_survey else Subject(model, None, {"test": data, **more})
    if model is None and is_survey:
        model = CumulativeRBM(readable_factors(data.encoded.shape[1]), random_state=seed)
    elif model is None:
        model = OrdinalMF(random_state=seed)
    return learnt(data, clone(model).fit, seed, options.get("progress"), **more)


@dataclass(frozen=True)
class Subject:
    """A model, the survey that it is shown on, and what else its page is given."""

    model: Any
    survey: Survey | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def page(self, **options: Any) -> Page:
        """The page, with options of `survey_page` or `ratings_page`."""
        options = {**self.more, **options}
        if self.survey is not None:
            return survey_page(self.model, self.survey, **options)
        return ratings_page(self.model, **options)

    def write(self, page: Page, out: StrPath, tables: StrPath | None = None) -> None:
        """Write the page, and its tables to a file of their own if they are wanted."""
        if tables is not None:
            self._write_tables(page, place(tables))
        with atomic_write(place(out)) as file:
            file.write_text(page, encoding="utf-8")

    def _write_tables(self, page: Page, path: Path) -> None:
        own = [tables_out.PrintedTable(_title(about), *table) for about, table in page.tables.items()]
        if self.survey is None:
            tables_out.write_tables(path, own)
            return
        if tables_out.is_printed(path):
            number: int | None = number_to_read(self.model)
            own = [table for table in own if table.title.startswith(_GROUPS)]
        else:
            number, own = None, [tables_out.of_frame("Answers", _answer_counts(self.survey)), *own]
        survey = self.survey
        weight = None
        if survey.design is None and survey.weight is not None and self.model.about_.get("weighted"):
            weight = counting(survey.weight.to_numpy(float), len(survey.weight))
        reading = self.model.factor_solution(
            survey.table, n_factors=number, design=survey.design, sample_weight=weight
        )
        tables_out.write_reading(path, reading, own)


def learnt(
    data: Survey | pd.DataFrame,
    learn: Callable[[Any], Any],
    seed: int,
    progress: Progress | None = None,
    **more: Any,
) -> Subject:
    """A survey or ratings, and what was learnt from all but a twentieth of the answers, which is hidden."""
    say = progress or (lambda text: None)
    if isinstance(data, Survey):
        shown, held_out = hide_answers(data.encoded, _SHARE, seed)
        say(f"learning from all answers but {held_out.row.size:,}, which are hidden")
        return Subject(learn(replace(data, encoded=shown)), data, {"held_out": held_out, **more})
    train, test = hide_ratings(data, _SHARE, seed)
    say(f"learning from all ratings but {len(test):,}, which are hidden")
    return Subject(learn(train), None, {"test": test, "left_out": (), **more})


def check_tables(path: StrPath, argument: str = "tables") -> None:
    """Refuse a file that cannot hold tables, before hours of learning."""
    target = place(path)
    if target.suffix.lower() != ".xlsx" and not tables_out.is_printed(target):
        raise DataError(
            f"{argument} '{path}' has another ending than .xlsx, .docx and .tex; give one of these."
        )
    tables_out.check_library(target)


def _title(about: str) -> str:
    """What a table of the page is called, by where on the page it is."""
    words = (
        re.sub(r"^groups variables (.*) tests$", r"groups by \1", about)
        .replace("_", " ")
        .removesuffix(" table")
    )
    return words[:1].upper() + words[1:]


def _answer_counts(survey: Survey) -> pd.DataFrame:
    """How often each level of each question was chosen, a line for each."""
    lines = []
    for name in survey.answers:
        counts = survey.answers[name].value_counts(sort=False)
        text = survey.schema.column(str(name)).question
        lines += [(name, text, str(level), int(n), n / max(counts.sum(), 1)) for level, n in counts.items()]
    return pd.DataFrame(lines, columns=["name", "question", "answer", "count", "share"])
