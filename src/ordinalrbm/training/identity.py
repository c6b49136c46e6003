"""Which fit a checkpoint is of: its settings, and digests of its data."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from ordinalrbm.data.observations import Observations, starts
from ordinalrbm.data.questionnaire import Answers
from ordinalrbm.data.ratings import Ratings
from ordinalrbm.data.scales import Scale
from ordinalrbm.runtime import __version__
from ordinalrbm.runtime.process_group import ALONE, Alone, Group, Stream
from ordinalrbm.storage.container import Header
from ordinalrbm.storage.model_file import plain_number


@dataclass(frozen=True)
class Identity:
    """Settings of a fit, sizes of its data and hashes of their parts, by words for a sentence."""

    estimator: str
    settings: Header
    counts: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    release: str = __version__

    def to_json(self) -> Header:
        return json.loads(json.dumps(vars(self)))

    def differences(self, stored: Header) -> list[str]:
        """In what a stored one differs, in words, without what follows from that."""
        now = self.to_json()
        for name in ("release", "estimator"):
            if stored[name] != now[name]:
                return [f"{name} {stored[name]:.40} (now {now[name]})"]
        for names in ("settings", "counts"):
            there, here = stored[names], now[names]
            unequal = [name for name in here if there.get(name) != here[name]]
            if unequal:
                return [
                    "random_state"
                    if name == "seed"
                    else f"{name} {there.get(name)!r:.80} (now {here[name]!r})"
                    for name in unequal
                ]
        return [name for name in now["digests"] if stored["digests"].get(name) != self.digests[name]]


# Parameters that change nothing about what is learnt; those of scales and of kinds of columns are
# in digests, and instead of the random state there is the seed.
_OF_SCALES = {"scales", "scale", "item_scales", "nominal", "numeric", "background"}
_NOT_LEARNING = _OF_SCALES | {"random_state", "n_jobs", "verbose", "inference", "n_draws"}


def identity_of(
    estimator: BaseEstimator,
    seed: int,
    observations: Observations,
    scales: Iterable[Scale],
    further: tuple[str, Iterable[np.ndarray]],
    among: Alone | Group = ALONE,
) -> Identity:
    """Identity of a fit of these observations; ``further`` is a name and other data of the fit.

    Where processes have the observations of a run of rows each, it is the first that finds it.
    """
    seen, (name, arrays) = observations, further
    row_start, parts = starts(among.summed(seen.row_counts)), map(among.stream, (seen.column, seen.level))
    weight = [seen.weight] if seen.weight.size else []
    digests = {
        "scales": digest([scale.to_json() for scale in scales]),
        "answers": digest(row_start, *parts, seen.n_levels, *weight),
        name: digest(*arrays),
    }
    if isinstance(seen, Answers):
        digests["kinds of columns"] = digest(seen.kind)
        digests["numbers"] = digest(seen.numbers)
        digests["background"] = digest(seen.covariates)
    return Identity(
        type(estimator).__name__,
        {**_settings(estimator), "seed": seed},
        {"rows": seen.n_rows, "columns": seen.n_columns, "answers": int(row_start[-1])},
        digests,
    )


def identity_of_ratings(
    estimator: BaseEstimator,
    seed: int,
    known: Ratings,
    validation: Iterable[np.ndarray | None] | None,
    tables: Iterable[csr_array | None] = (),
    among: Alone | Group = ALONE,
) -> Identity:
    """Identity of a fit of ratings; tables hold features of users and items, if there are any.

    Of ratings that processes share, it is the first that finds it.
    """
    scales = [known.scales] if isinstance(known.scales, Scale) else known.scales
    given = () if validation is None else tuple(part for part in validation if part is not None)
    further = ("validation ratings", given)
    found = identity_of(estimator, seed, known.observations, scales, further, among)
    features = [
        part
        for side, table in enumerate(tables)
        if table is not None
        for part in (side, table.shape[1], table.indptr, table.indices, table.data)
    ]
    digests = found.digests | {"features": digest(*features)}
    if known.times is not None:
        digests["times"] = digest(among.stream(known.times.value), known.times.clock)
    return replace(found, digests=digests)


def _settings(estimator: BaseEstimator) -> Header:
    given = estimator.get_params(deep=False).items()
    # Draws of predictions change nothing, but those of a chain are what is learnt.
    is_chain = getattr(estimator, "posterior", "") == "sampled"
    left_out = _NOT_LEARNING - {"n_draws"} if is_chain else _NOT_LEARNING
    return {name: plain_number(value) for name, value in given if name not in left_out}


def digest(*parts: Any) -> str:
    """A hash of arrays, and of what JSON can hold."""
    found = blake2b(digest_size=32)
    for part in parts:
        if isinstance(part, Stream):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            for block in part.blocks:
                found.update(np.ascontiguousarray(block).view(np.uint8).data if block.size else b"")
        elif isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).view(np.uint8).data if part.size else b"")
        else:
            found.update(json.dumps(part, sort_keys=True, ensure_ascii=False).encode())
    return found.hexdigest()
