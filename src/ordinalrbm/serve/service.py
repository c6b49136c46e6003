"""What is asked of a loaded model, as plain lists and dictionaries for JSON."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count, islice, product
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pandas as pd

from ordinalrbm.data.ratings import encode
from ordinalrbm.data.scales import Scale
from ordinalrbm.errors import DataError
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.survey import CumulativeRBM
from ordinalrbm.runtime.threads import threads
from ordinalrbm.schema.schema import did_you_mean
from ordinalrbm.serve.forms import Answers, Id, Ids, Label, Name, Number, Positive, Rating, Ratings, Rows
from ordinalrbm.storage.model_file import plain_number

Answer = dict[str, Any]
_FEW = 10  # ratings that tell a new user apart at once
_Score = Literal["expected", "liked", "rating", "demand"]
_By = Literal["demand", "taste"]
_Rule = Literal["mean", "mode", "median"]


def service_for(model: Any, titles: Mapping[str, str]) -> Service:
    """What answers requests to a model."""
    with threads(1):
        return (SurveyService if isinstance(model, CumulativeRBM) else RatingService)(model, titles)


def warm(service: Service, *, changes: bool) -> None:
    """Ask all that requests can ask, so that kernels are compiled and tables made; also for changes."""
    with threads(1):
        service.warm()
    if changes:
        service.warm_changes()


def _try(do: Callable[..., Any], **asked: Any) -> None:
    """Ask something that some models refuse: they have no reasons, no times, no background."""
    with suppress(DataError):
        do(**asked)


def _records(found: pd.DataFrame) -> list[Answer]:
    """Lines of a table, with Python's own numbers; many times as quick as ``to_dict`` for a few."""
    names = found.columns.tolist()
    return [dict(zip(names, line, strict=True)) for line in found.to_numpy(dtype=object).tolist()]


def _plain(value: Any) -> Any:
    """A value as JSON has it; None where it is missing."""
    return None if pd.isna(value) else plain_number(value)


def _unknown(ids: Any) -> Any:
    """An id that is none of these."""
    candidates = ("_" * k if ids.is_text else -k for k in count(1))
    return next(one for one in candidates if ids.lookup([one])[0] < 0)


def _labels(scale: Scale | None) -> list[Any]:
    return [] if scale is None else list(map(plain_number, scale.labels))


class RatingService:
    """A model of ratings."""

    calls: ClassVar = ("recommend", "predict", "similar", "explain", "search")
    changes: ClassVar = ("ratings", "forget")

    def __init__(self, model: RatingModel, titles: Mapping[str, str]) -> None:
        self.model, self.titles = model, titles

    @staticmethod
    def is_quick(name: str, asked: Mapping[str, Any]) -> bool:
        """Whether the answer takes about a millisecond: lists and predictions of one person."""
        size = max(len(asked.get("users") or ()), len(asked.get("ratings") or ()) // _FEW)
        return name in ("recommend", "predict") and size <= 1

    def about(self) -> Answer:
        model, known = self.model, self.model.ratings_
        scales = list(map(_labels, known.distinct()[0]))
        sizes = {"users": len(model.users_), "items": len(model.items_)}
        return {"kind": "ratings", **sizes, "scales": scales, "nobody": self._nobody()}

    def warm(self) -> None:
        """Call what requests will call."""
        user, item, _, unknown = self._examples()
        lists: list[Answer] = [{"users": [user]}, {"users": [user, self._nobody()] * _FEW}]
        lists += [{"ratings": ratings} for ratings in self._example_ratings()]
        closed: Answer = {"exclude": [item], "exclude_seen": False, "liked": self._labels_of(item)[-1]}
        for who, score in product(lists, get_args(_Score)):
            _try(self.recommend, **who, score=score)
            _try(self.recommend, **who, score=score, **closed)
        for users, rule in product(([user], [user, self._nobody()]), get_args(_Rule)):
            for one in (item, unknown):
                self.predict(users, [one] * len(users), rule, proba=True)
        for by in get_args(_By):
            _try(self.similar, item=item, by=by)
            _try(self.similar, user=user, by=by)
        _try(self.explain, item=item, user=user)
        for ratings in self._example_ratings():
            _try(self.explain, item=item, ratings=ratings)

    def warm_changes(self) -> None:
        """Change a copy, which shares all arrays with the model, and ask it again."""
        trial = RatingService(copy.copy(self.model), self.titles)
        for ratings in self._example_ratings():
            if any(one.user is not None for one in ratings):
                _try(trial.expected, ratings=ratings)
                _try(trial.ratings, ratings=ratings)
        # The only item on the longest scale cannot be forgotten, but another can.
        for label in self.model.items_.labels[:2]:
            _try(trial.forget, items=[plain_number(label)])
        _try(trial.forget, users=[plain_number(self.model.users_.labels[0])])
        with threads(1):
            trial.warm()

    def _examples(self) -> tuple[Any, Any, Any, Any]:
        """A user, an item, its best label, and an item that is not known."""
        user, item = (plain_number(ids.labels[0]) for ids in (self.model.users_, self.model.items_))
        return user, item, self._labels_of(item)[-1], _unknown(self.model.items_)

    def _example_ratings(self) -> Iterator[list[Rating]]:
        """Ratings of a person without an id and of users, with and without times."""
        user, item, label, unknown = self._examples()
        for users, time in product(([None], [user, self._nobody()]), (None, 1)):
            example = {"item": item, "rating": label, "timestamp": time}
            # Ids of a file may be what no request may have.
            yield [Rating.model_construct(**example, user=one) for one in users]
        example = {"item": unknown, "rating": label, "timestamp": None}
        yield [Rating.model_construct(**example, user=user)]

    def recommend(
        self,
        users: Ids | None = None,
        n: Number = 10,
        ratings: Ratings | None = None,
        items: Ids | None = None,
        exclude: Ids | None = None,
        score: _Score = "expected",
        liked: Label | None = None,
        exclude_seen: bool = True,
        where: dict[Name, Label | list[Name]] | None = None,
    ) -> Answer:
        """The best items for users, or for a person with ratings and no id."""
        person = ratings is not None and all(one.user is None for one in ratings)
        new = None if ratings is None else self._person(ratings) if person else self._frame(ratings)
        columns = self.model.recommend_arrays(
            self._typed(users, "user"),
            n,
            self._typed(items, "item"),
            self._typed(exclude, "item"),
            new,
            score,
            liked=liked,
            exclude_seen=exclude_seen,
            where=where,
        )
        names, lists = ("user", "item", "rank", "score"), [column.tolist() for column in columns]
        if person:
            lists[0] = [None] * len(lists[0])
        lines = [dict(zip(names, line, strict=True)) for line in zip(*lists, strict=True)]
        return {"recommendations": self._titled(lines)}

    def predict(self, users: Ids, items: Ids, rule: _Rule = "mean", proba: bool = False) -> Answer:
        """Ratings of pairs of users and items; with ``proba`` all labels and their probabilities."""
        pairs = self._typed(users, "user"), self._typed(items, "item")
        found = zip(*pairs, self.model.predict(*pairs, rule).tolist(), strict=True)
        lines = self._titled([dict(zip(("user", "item", "rating"), line, strict=True)) for line in found])
        if proba:
            for line, chance in zip(lines, self.model.predict_proba(*pairs).tolist(), strict=True):
                labels = self._labels_of(line["item"])
                line |= {"labels": labels, "probabilities": chance[: len(labels)]}
        return {"predictions": lines}

    def similar(
        self, item: Id | None = None, user: Id | None = None, n: Number = 10, by: _By = "demand"
    ) -> Answer:
        if (item is None) == (user is None):
            raise DataError("Nothing says what to compare with; give either an item or a user.")
        if item is None:
            return {"similar": _records(self.model.similar_users(self._one(user, "user"), n, by=by))}
        return {"similar": self._titled(self.model.similar_items(self._one(item, "item"), n, by=by))}

    def explain(
        self, item: Id, user: Id | None = None, ratings: Ratings | None = None, n: Number = 5
    ) -> Answer:
        """Why a user should like an item; or a person with ratings and no id."""
        if (user is None) == (ratings is None):
            raise DataError("Nothing says whose reasons are asked for; give either a user or ratings.")
        model, who = self.model, self._nobody() if user is None else self._one(user, "user")
        if ratings is not None:
            model = model.fold_in(self._frame(ratings))
        found = model.explain(who, self._one(item, "item"), n)
        reasons = self._titled(found.ratings)
        return {"expected": found.expected, "baseline": _plain(found.baseline), "ratings": reasons}

    def search(self, what: Literal["item", "user"] = "item", text: str = "", n: Number = 20) -> Answer:
        """Ids and titles with a text in them, of items those with most ratings first."""
        known, part, is_item = self.model.ratings_, text.casefold().strip(), what == "item"
        ids, titles = (known.items, self.titles) if is_item else (known.users, {})
        order = (
            np.argsort(-known.observations.column_counts, kind="stable") if is_item else np.arange(len(ids))
        )
        words = ((one, f"{one}\n{titles.get(str(one), '')}") for one in ids.labels[order].tolist())
        found: list[Answer] = [
            {what: one} for one, text in islice((w for w in words if part in w[1].casefold()), n)
        ]
        if is_item:
            found = [one | {"labels": self._labels_of(one["item"])} for one in self._titled(found)]
        return {"found": found}

    # ---- changes --------------------------------------------------------------------------------

    def expected(self, ratings: Ratings) -> tuple[np.ndarray, np.ndarray]:
        """Distributions of those ratings whose items are known, and their levels."""
        frame = self._frame(ratings)
        cells = encode(self.model.ratings_, frame)
        known = cells.column >= 0
        return self.model.predict_proba(frame["user"], frame["item"])[known], cells.level[known]

    def ratings(self, ratings: Ratings) -> Answer:
        """Learn from ratings of known and new users; the file stays as it is until /save."""
        if any(one.user is None for one in ratings):
            raise DataError("A rating has no user, and nothing can be learnt from it; give each a user.")
        self.model.update(self._frame(ratings))
        return {"users": len(self.model.users_), "items": len(self.model.items_)}

    def forget(self, users: Ids | None = None, items: Ids | None = None) -> Answer:
        self.model.forget(self._typed(users, "user"), self._typed(items, "item"))
        return {"users": len(self.model.users_), "items": len(self.model.items_)}

    # ---- ids and titles -------------------------------------------------------------------------

    def _typed(self, given: list[Any] | None, what: str) -> Any:
        ids = self.model.users_ if what == "user" else self.model.items_
        return None if given is None else ids.typed(given, what)

    def _one(self, given: Any, what: str) -> Any:
        return self._typed([given], what)[0]

    def _person(self, ratings: list[Rating]) -> dict[Any, Any]:
        """Ratings of one person by item; times make no difference."""
        items = self._typed([one.item for one in ratings], "item")
        if len(set(items)) < len(items):
            raise DataError("An item is rated more than once by the same person; give one rating of each.")
        return dict(zip(items, [one.rating for one in ratings], strict=True))

    def _frame(self, ratings: list[Rating]) -> pd.DataFrame:
        users, times = [one.user for one in ratings], [one.timestamp for one in ratings]
        for name, values in (("user", users), ("timestamp", times)):
            if None in values and any(value is not None for value in values):
                raise DataError(f"Some ratings have a {name} and others none; give all of them one, or none.")
        columns = {
            "user": [self._nobody()] * len(users) if None in users else self._typed(users, "user"),
            "item": self._typed([one.item for one in ratings], "item"),
            "rating": [one.rating for one in ratings],
        }
        return pd.DataFrame(columns if None in times else columns | {"timestamp": times})

    def _nobody(self) -> Any:
        """An id that no user has, for a person without one."""
        return _unknown(self.model.users_)

    def _labels_of(self, item: Any) -> list[Any]:
        known = self.model.ratings_
        at = int(known.lookup([item], "item")[0])
        return _labels(known.cold_start_scale() if at < 0 else known.scale_of(at))

    def _titled(self, found: pd.DataFrame | list[Answer]) -> list[Answer]:
        lines = _records(found) if isinstance(found, pd.DataFrame) else found
        for line in lines:
            line["title"] = self.titles.get(str(line["item"]))
        return lines


class SurveyService:
    """A model of a survey."""

    calls: ClassVar = ("impute", "scores", "ask")
    changes: ClassVar[tuple[str, ...]] = ()
    is_quick: ClassVar = staticmethod(lambda name, asked: False)

    def __init__(self, model: CumulativeRBM, titles: Mapping[str, str]) -> None:
        self.model = model
        names = getattr(model, "feature_names_in_", range(model.n_features_in_))
        self._keys = {str(name): name for name in names}
        texts, names = model.factor_solution(rotation="none").questions, list(self._keys)
        self._questions = [
            {"question": names[j], "text": texts.get(names[j], ""), "labels": _labels(model.scales_[j])}
            for j in model.questionnaire_.questions
        ]

    def about(self) -> Answer:
        """What the page needs to know: all questions, their texts and their labels."""
        return {"kind": "survey", "questions": self._questions}

    def warm(self) -> None:
        """Call what requests will call."""
        labels = {one["question"]: one["labels"] or [1] for one in self._questions}
        whole = {name: own[-1] for name, own in labels.items()}
        several: tuple[list[Answer], ...] = ([{}], [whole], [{}, whole])
        for rows in several:
            self.impute(rows, proba=True)
            self.scores(rows)
        first = next(iter(whole))
        wishes = product(({}, {first: whole[first]}), (None, list(whole)), (None, "all"), (None, 0.5))
        for answers, among, factors, until in wishes:
            _try(self.ask, answers=answers, among=among, k=2, factors=factors, until=until)

    def warm_changes(self) -> None:
        """There are none."""

    def impute(self, rows: Rows, proba: bool = False) -> Answer:
        """All answers of some people, those that are left out or null as the model expects them."""
        table, names = self._table(rows), list(self._keys)
        found = _records(pd.DataFrame(self.model.predict(table)).set_axis(names, axis=1))
        for line, row in zip(found, rows, strict=True):
            line |= {name: _plain(value) for name, value in line.items()}
            line |= {name: answer for name, answer in row.items() if answer is not None}
        if not proba:
            return {"rows": found}
        chances = dict(zip(names, self.model.predict_proba(table), strict=True))
        chances = {name: own.tolist() for name, own in chances.items() if own is not None}
        of_rows = [{name: own[k] for name, own in chances.items()} for k in range(len(rows))]
        return {"rows": found, "probabilities": of_rows}

    def scores(self, rows: Rows) -> Answer:
        scores, errors = self.model.scores(self._table(rows), return_std=True)
        return {"scores": _records(scores), "standard_errors": _records(errors)}

    def ask(
        self,
        answers: Answers | None = None,
        among: Ids | None = None,
        k: Number = 1,
        factors: Literal["all"] | Ids | None = None,
        until: Positive | None = None,
    ) -> Answer:
        row = {self._key(name): answer for name, answer in (answers or {}).items()}
        candidates = None if among is None else [self._key(str(name)) for name in among]
        found = self.model.ask(row, candidates, k, factors, until=until)
        return {"questions": _records(found.assign(question=found["question"].map(str))), **found.attrs}

    def _table(self, rows: list[dict[str, Any]]) -> Any:
        for name in {name for row in rows for name in row}:
            self._key(name)
        lines = [[row.get(name) for name in self._keys] for row in rows]
        table = pd.DataFrame(lines, columns=list(self._keys), dtype=object)
        return table if hasattr(self.model, "feature_names_in_") else table.to_numpy()

    def _key(self, name: str) -> Any:
        if name not in self._keys:
            guess = did_you_mean(name, self._keys)
            raise DataError(f"There is no question {name!r}{guess}; /about has all.")
        return self._keys[name]


Service = RatingService | SurveyService
