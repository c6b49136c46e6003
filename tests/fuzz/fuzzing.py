"""What all random tests share: how many cases, what a refusal must look like, and the tally.

A short run has a third of the cases that a test names, ORDINALRBM_LONG=1 45 times as many.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from long_form import LONG

from ordinalrbm import DataError

_TIMES_LONGER, _TIMES_SHORTER = 45, 3

# What may be said in a warning while a result is given all the same; nothing else may be.
TOLD = (
    r"looks continuous",
    r"Mean-field did not settle",
    r"does not have valid feature names",
    r"has feature names, but .* was fitted without",
    r"zeros .* taken as",
    r"validation ratings .* not used",
    r"on a scale of one level",
)
# scikit-learn's estimator checks ask for this text word by word, line ends and all.
_OF_SCIKIT_LEARN = ("The feature names should match those that were passed during fit.",)


@dataclass
class Tally:
    """What became of the cases of one test."""

    legal: int = 0
    refused: int = 0

    @property
    def cases(self) -> int:
        return self.legal + self.refused


TALLIES: dict[str, Tally] = {}


def cases(n: int, **others: Any) -> settings:
    """A share or a multiple of so many cases, the same ones every time."""
    return settings(
        max_examples=n * _TIMES_LONGER if LONG else max(n // _TIMES_SHORTER, 1),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        **others,
    )


@contextmanager
def case(name: str) -> Iterator[None]:
    """One case: it ends well, or it is refused with one sentence of ours."""
    tally = TALLIES.setdefault(name, Tally())
    try:
        yield
        tally.legal += 1
    except DataError as error:
        assert_is_a_sentence(str(error))
        tally.refused += 1


def told(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, list[str]]:
    """What a call gives and the warnings it speaks, which must be ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **options)
    said = [str(warning.message) for warning in caught]
    for warning, text in zip(caught, said, strict=True):
        assert issubclass(warning.category, UserWarning), f"{warning.category.__name__}: {text}"
        assert any(re.search(known, text) for known in TOLD), f"a warning that is not ours: {text}"
    return result, said


def refused(call: Callable[..., Any], *args: Any) -> bool:
    """Whether a question about a model is refused, with one sentence of ours."""
    try:
        told(call, *args)
    except DataError as error:
        assert_is_a_sentence(str(error))
        return True
    return False


def assert_is_a_sentence(text: str) -> None:
    if text.startswith(_OF_SCIKIT_LEARN):
        return
    assert "\n" not in text, f"more than one line: {text!r}"
    assert text.endswith((".", "?")), f"no full stop: {text!r}"
    assert len(text) < 1000, f"{len(text)} letters: {text!r}"
