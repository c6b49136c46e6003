"""What :mod:`ordinalrbm.spark` and :mod:`ordinalrbm.ray` share.

An engine brings the ratings as Arrow tables, one to each of its processes, and says where these can
meet; they learn by torch's process group as those of torchrun do, and the first gives back the
model as the bytes of its file, or writes it to where all can read it. Predictions are made table by
table.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.ratings import as_list
from ordinalrbm.data.triples import COLUMNS, candidates, found_columns
from ordinalrbm.errors import DataError, DataTypeError, LostError
from ordinalrbm.estimators.ordinal_mf import OrdinalMF
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.estimators.validation import check_whole
from ordinalrbm.files.ratings import TIME, RatingsPart
from ordinalrbm.runtime import places, process_group
from ordinalrbm.storage.atomic import check_writable
from ordinalrbm.storage.model_file import load

NAMES = [*COLUMNS, TIME]  # of what is learnt from
_OF_THE_RUN = ("n_jobs", "verbose", "device", "random_state")  # which files do not keep, or not as given


def package(name: str, extra: str) -> Any:
    """The module of another package; where that is missing, an error names what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DataError(
            f'This needs {error.name}, which is not installed; pip install "ordinalrbm[{extra}]".'
        ) from error


class Place(NamedTuple):
    """Which of the processes this is, and where they meet."""

    rank: int
    size: int
    address: str  # host:port of the first process's store
    store: Any = None  # of the first process itself


Outcome = tuple[bytes, str]  # the model file, of the first process; or what is wrong with the ratings


def columns_to_learn(estimator: Any, size: int, name: str, columns: list[str]) -> list[str]:
    """Those of users, items, ratings and, where there is one, times; what several cannot learn is refused."""
    if not isinstance(estimator, OrdinalMF) or estimator.posterior == "sampled":
        given = "posterior='sampled'" if isinstance(estimator, OrdinalMF) else type(estimator).__name__
        raise DataTypeError(
            f"Clusters learn an OrdinalMF with the posterior 'variational' or 'point', not {given}; learn "
            "that in a single process."
        )
    check_whole(name, size, 1)
    found, times = found_columns(columns, COLUMNS), candidates(columns, TIME)
    return found + times if len(times) == 1 else found


def meeting_point(host: str) -> tuple[Any, str]:
    """A store at a free port of the first process, and its address for the others."""
    dist = package("torch.distributed", "distributed")
    store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    return store, f"{host}:{store.port}"


@contextmanager
def _joined(place: Place) -> Iterator[None]:
    if place.size == 1:
        yield
        return
    dist = package("torch.distributed", "distributed")
    host, _, port = place.address.rpartition(":")
    store = place.store or dist.TCPStore(host, int(port), is_master=False)
    dist.init_process_group("gloo", store=store, rank=place.rank, world_size=place.size)
    try:
        yield
    finally:  # the engine may use this process again
        dist.destroy_process_group()


def seen_by_all(given: Any) -> Any:
    """A path from anywhere, or an address; what is neither, as it is."""
    if not isinstance(given, str | os.PathLike):
        return given
    found = places.place(given)
    return str(found if isinstance(found, places.Address) else found.absolute())


def learn(
    estimator: Any,
    ratings: pa.Table,
    place: Place,
    n_jobs: int,
    options: dict[str, Any],
    path: str | None = None,
) -> Outcome:
    """Learn with the other processes, of which each brings some rows: users, items, ratings and times."""
    own = {"n_jobs": estimator.n_jobs or n_jobs, "verbose": estimator.verbose and place.rank == 0}
    named = ratings.rename_columns(NAMES[: ratings.num_columns])
    part = RatingsPart(named if ratings.num_rows else ([], [], []))
    try:
        with _joined(place):
            if path is not None:
                with (process_group.current() or process_group.ALONE).raise_on_all_ranks():
                    check_writable(path)
            model = clone(estimator).set_params(**own).fit(part, **options)
            if path is None:
                return to_bytes(model), ""
            model.save(path)  # by all
            return b"", ""
    except LostError:  # the engine has an error of the lost process, which tells more
        raise
    except DataError as error:
        return b"", str(error)


def learnt(outcomes: Iterable[Outcome], estimator: Any, path: str | None = None) -> Any:
    """The fitted estimator, by what the processes ended with, or the path of its file.

    The estimator that was given stays as it is.
    """
    contents, errors = zip(*outcomes, strict=True)
    if any(errors):
        raise DataError(next(filter(None, errors)))
    if path is not None:
        return path
    return from_bytes(b"".join(contents)).set_params(**{k: getattr(estimator, k) for k in _OF_THE_RUN})


def to_bytes(model: Any) -> bytes:
    """The bytes of a model's file; of processes that share the ratings, on the first."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder) / "model.orbm")
        return path.read_bytes() if path.exists() else b""


def from_bytes(content: bytes) -> Any:
    """The model whose file these bytes are; they are checked as any file."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "model.orbm").write_bytes(content)
        return load(path)


_KEPT: dict[str, Any] = {}  # the last model of this process, by a name of its own


class Question(NamedTuple):
    """What a model is asked about each table of users, or of users and items."""

    method: Literal["predict", "recommend"]
    columns: list[str]
    added: dict[str, pa.DataType]  # columns of the answer that the table has not
    options: dict[str, Any]

    @classmethod
    def of(cls, method: Any, model: Any, columns: list[str], options: dict[str, Any]) -> Question:
        """For tables with these columns; what is wrong is said now, and not by a worker."""
        if not isinstance(model, RatingModel):
            raise DataTypeError(
                f"The model must be one of ratings, such as OrdinalMF, not {type(model).__name__}."
            )
        check_is_fitted(model, "models_")
        if method == "predict" and "prediction" in columns:
            raise DataError("The pairs have a column 'prediction' already; rename or drop it.")
        asked = found_columns(columns, COLUMNS[: 2 if method == "predict" else 1])
        first = (model.users_.labels[:1], model.items_.labels[:1])[: len(asked)]
        # All that the user has rated may be all there is.
        probe = options if method == "predict" else {**options, "exclude_seen": False}
        found = getattr(model, method)(*first, **probe)
        found = pa.table({"prediction": found}) if method == "predict" else pa.Table.from_pandas(found)
        return cls(method, asked, {one.name: one.type for one in found.schema if one.name != "user"}, options)

    def answer(self, table: pa.Table, name: str, content: Callable[[], str | bytes]) -> pa.Table:
        """The table with predictions, or lists; by the model of this name, which each process loads once.

        Its content is the bytes of a file, or its path.
        """
        if name not in _KEPT:
            _KEPT.clear()
            given = content()
            model = load(given) if isinstance(given, str) else from_bytes(given)
            _KEPT[name] = model.set_params(n_jobs=1)
        found = getattr(_KEPT[name], self.method)(*(table[one] for one in self.columns), **self.options)
        if self.method == "recommend":
            return found
        return table.append_column("prediction", pa.array(found, self.added["prediction"]))


def question(
    method: str, model: Any, columns: list[str], options: dict[str, Any], elsewhere: Callable[[Callable], Any]
) -> Question:
    """The question to a model; about a file, ``elsewhere`` has a process of the engine read it."""
    work = partial(_question, method, model, columns, options)
    found = elsewhere(work) if isinstance(model, str) else work()
    if isinstance(found, str):
        raise DataError(found)
    return found


def _question(method: str, model: Any, columns: list[str], options: dict[str, Any]) -> Question | str:
    try:
        return Question.of(method, load(model) if isinstance(model, str) else model, columns, options)
    except DataError as error:
        return str(error)


def users_table(model: Any, users: Any) -> pa.Table:
    """These users, or all that the model knows if they are "all"."""
    if not (isinstance(users, str) and users == "all"):
        return pa.table({"user": as_list(users)})
    if isinstance(model, str):
        raise DataError(
            f"Give the users as a table with a column user: the model is in '{model}', and the driver does "
            "not read it."
        )
    return pa.table({"user": model.users_.labels})
