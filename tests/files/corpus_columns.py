"""Columns in the wording of public questionnaires, with what they truly are.

Each line of a file in corpus/ is a column: labels as "code=text" with bars between them, and the
truth: its kind (or several that are right, with bars), its levels from lowest to highest, and the
codes that are no answer. Nothing under levels means all other labelled codes in the order of their
numbers, "?" that anything is right. Data is drawn from the labels, or as the column `data` says.
"""

from __future__ import annotations

import csv
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ordinalrbm.schema.schema import Column
from ordinalrbm.schema.source import Source

CORPUS = Path(__file__).parent / "corpus"
N_ROWS = 300


@dataclass(frozen=True)
class Truth:
    """What a column is."""

    file: str
    name: str
    question: str
    measure: str
    kinds: tuple[str, ...]
    labels: dict[Any, str]
    levels: tuple[Any, ...] | None  # None: anything
    missing: frozenset[Any] | None
    data: str

    @property
    def is_text(self) -> bool:
        """Whether answers are text without codes."""
        return all(code == label for code, label in self.labels.items())

    def mistakes(self, column: Column) -> list[str]:
        """In what a proposal is wrong: its kind, its levels, its missing codes."""
        wrong = []
        if column.role not in self.kinds:
            wrong.append(f"{column.role} instead of {'/'.join(self.kinds)}")
        elif column.role == "ordinal" and self.levels not in (None, column.levels):
            wrong.append(f"levels {column.levels} instead of {self.levels}")
        codes = frozenset(column.missing) & {*self.labels, *(self.missing or ())}
        if self.missing is not None and column.role != "ignored" and codes != self.missing:
            wrong.append(f"missing {sorted(codes)} instead of {sorted(self.missing)}")
        return wrong


def read_corpus(name: str) -> list[Truth]:
    with (CORPUS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [_truth(row) for row in csv.DictReader(file, delimiter=";")]


def _truth(row: dict[str, str]) -> Truth:
    pairs = [entry.split("=", 1) for entry in row["labels"].split(" | ") if entry]
    labels = {_code(code): text.strip() for code, text in pairs}
    missing = None if row["missing"] == "?" else frozenset(_codes(row["missing"]))
    levels: tuple[Any, ...] | None = None
    if row["levels"] != "?":
        levels = tuple(_codes(row["levels"])) or tuple(
            sorted((code for code in labels if code not in (missing or ())), key=str)
        )
    return Truth(
        row["file"],
        row["name"],
        row["question"],
        row["measure"],
        tuple(row["kind"].split("|")),
        labels,
        levels,
        missing,
        row["data"],
    )


def _code(text: str) -> Any:
    text = text.strip()
    return int(text) if text.removeprefix("-").isdigit() else text


def _codes(text: str) -> list[Any]:
    if ".." in text:
        low, high = text.split("..")
        return list(range(int(low), int(high) + 1))
    # Numbers have blanks between them, texts have bars.
    return [_code(entry) for entry in (text.split("|") if re.search("[A-Z]", text) else text.split())]


def sources(truths: list[Truth]) -> dict[str, Source]:
    """A file of each survey, with data that is drawn from the labels."""
    files: dict[str, list[Truth]] = {}
    for truth in truths:
        files.setdefault(truth.file, []).append(truth)
    return {name: _source(name, columns) for name, columns in files.items()}


def _source(name: str, truths: list[Truth]) -> Source:
    frame = pd.DataFrame({truth.name: _values(truth) for truth in truths})
    return Source(
        None,
        "sav",
        name,
        frame,
        {truth.name: truth.labels for truth in truths if not truth.is_text},
        {truth.name: truth.question for truth in truths if truth.question},
        measure={truth.name: truth.measure for truth in truths if truth.measure},
        dates={truth.name: "date" for truth in truths if truth.data == "date"},
    )


def _values(truth: Truth) -> Any:
    rng = np.random.default_rng(zlib.crc32(f"{truth.file} {truth.name}".encode()))
    kind, *numbers = truth.data.split() or ["labels"]
    missing = sorted(truth.missing or (), key=str)
    if kind == "unique":
        return np.arange(N_ROWS) + int(numbers[0])
    if kind == "code":
        return [f"{numbers[0]}{k:04d}" for k in range(N_ROWS)]
    if kind == "weight":
        return np.round(rng.lognormal(-0.08, 0.4, N_ROWS), 5)
    if kind == "date":
        return rng.integers(13_600_000_000 // 86400, 13_700_000_000 // 86400, N_ROWS) * 86400.0
    if kind == "time":
        return [f"{rng.integers(8, 19):02d}:{rng.integers(0, 60):02d}" for _ in range(N_ROWS)]
    if kind == "day":
        return [20190300 + int(day) for day in rng.integers(1, 32, N_ROWS)]
    if kind == "pick":
        return rng.choice(numbers, N_ROWS)
    if kind == "text":
        return [f"{rng.integers(1e6)} said so" for _ in range(N_ROWS)]
    if kind == "float":
        return np.round(rng.normal(float(numbers[0]), float(numbers[1]), N_ROWS), 2)
    answers = [code for code in truth.labels if code not in missing]
    if kind == "int":
        answers = list(range(int(numbers[0]), int(numbers[1]) + 1))
    if kind == "also":
        answers += _codes(numbers[0])
    values = rng.choice(np.array(answers, dtype=object), N_ROWS, p=_shares(rng, len(answers)))
    # Codes that are no answer are rare, and some that have a label do not occur.
    for place, code in enumerate(missing[: 1 + len(missing) // 2 * 2]):
        values[rng.choice(N_ROWS, 4 + 3 * place, replace=False)] = code
    if all(isinstance(value, int) for value in values):
        return values.astype("float64")
    return values


def _shares(rng: np.random.Generator, n: int) -> np.ndarray:
    shares = rng.dirichlet(np.full(n, 3.0)) + 0.2 / n
    return shares / shares.sum()
