"""What each clue of a schema is needed for: every clue switched off in turn.

    python benchmarks/schema_clues.py

The columns of tests/files/corpus are read without it, and how many are right is counted. Where that
changes nothing, the tests that hold columns of other files are run without it, too.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordinalrbm.schema import infer, labels

TESTS = Path(__file__).parents[1] / "tests" / "files"
sys.path.insert(0, str(TESTS))

from corpus_columns import Truth, read_corpus, sources  # noqa: E402
from test_corpus import FILES  # noqa: E402

CASES = ("test_batteries.py", "test_proposal.py", "test_read_survey.py")


class Failed:
    """Names of the tests that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid.partition("::")[2])


def judged(truths: list[Truth]) -> dict[str, tuple[Any, bool]]:
    """What is proposed for each column of the corpus, and whether it is right."""
    found = {}
    schemas = {name: infer.propose(source) for name, source in sources(truths).items()}
    for truth in truths:
        column = schemas[truth.file].column(truth.name)
        said = (column.role, column.levels, column.missing)
        found[f"{truth.file} {truth.name}"] = (said, not truth.mistakes(column))
    return found


def failed_tests() -> list[str]:
    plugin = Failed()
    files = [str(TESTS / name) for name in CASES]
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main(["-q", "--maxfail=3", "-p", "no:cacheprovider", *files], [plugin])
    assert code in (0, 1), f"pytest ended with {code}"
    return plugin.names


def ablations() -> Iterator[tuple[str, Any, str, Any]]:
    """What is switched off, and the module, the name and the value that do it."""
    for name in ("NO_ANSWER", "ORDER"):
        table = getattr(labels, name)
        for r, row in enumerate(table):
            for k, clue in enumerate(row):
                rest = (*row[:k], *row[k + 1 :])
                without = (*table[:r], rest, *table[r + 1 :])
                yield f"{name} {clue.points:+g} {clue.because}", labels, name, without
    for name in ("RULES_AS_SPELT", "RULES"):
        functions = getattr(infer, name)
        for k, function in enumerate(functions):
            without = (*functions[:k], *functions[k + 1 :])
            yield f"{name} {function.__name__.strip('_')}", infer, name, without


def main() -> None:
    truths = [truth for name in FILES for truth in read_corpus(name)]
    before = judged(truths)
    n_right = sum(is_right for _, is_right in before.values())
    print(f"{n_right} of {len(before)} columns are right with all clues")
    print("changed: columns read otherwise without the clue; then how many are right")
    for name, module, key, without in ablations():
        whole = getattr(module, key)
        setattr(module, key, without)
        try:
            after = judged(truths)
            changed = [column for column in before if after[column][0] != before[column][0]]
            right = sum(is_right for _, is_right in after.values())
            needed_by = changed or failed_tests()
        finally:
            setattr(module, key, whole)
        said = ", ".join(needed_by[:3]) or "nothing"
        print(f"{name:75} {len(changed):4} {right:5}  {said}", flush=True)


if __name__ == "__main__":
    main()
