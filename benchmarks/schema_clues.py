"""What each clue of a schema is needed for: every clue and every condition switched off in turn.

    python benchmarks/schema_clues.py [clues] [known_scales] [quantities] [missing_labels]

Clues are the rows of the tables in `labels` and the rules of `infer`. The columns of
tests/files/corpus are read without each, and how many are right is counted. Where that changes
nothing, the tests that hold columns of other files are run without it, too.

Conditions are the `if`s of the other modules, and what an `or` or `and` joins there. Of these, only
whether any column of the corpus is read otherwise is looked for.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
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


Judged = dict[str, tuple[Any, bool]]  # by column, what is proposed, and whether that is right


Files = list[tuple[Any, list[Truth]]]  # with what is true of their columns


def judged(files: Files) -> Iterator[Judged]:
    """What is proposed for the columns of the corpus, file by file."""
    for source, truths in files:
        schema, found = infer.propose(source), {}
        for truth in truths:
            column = schema.column(truth.name)
            said = (column.role, column.levels, column.missing)
            found[f"{truth.file} {truth.name}"] = (said, not truth.mistakes(column))
        yield found


def failed_tests() -> list[str]:
    plugin = Failed()
    files = [str(TESTS / name) for name in CASES]
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main(["-q", "--maxfail=3", "-p", "no:cacheprovider", *files], [plugin])
    assert code in (0, 1), f"pytest ended with {code}"
    return plugin.names


Switch = Callable[[], Callable[[], None]]  # switches something off, and gives what undoes that


def clues() -> Iterator[tuple[str, Switch]]:
    """The clues of the tables and the rules, and how each is switched off."""

    def switch(module: ModuleType, name: str, value: Any) -> Switch:
        whole = getattr(module, name)
        return lambda: setattr(module, name, value) or (lambda: setattr(module, name, whole))

    for name in ("NO_ANSWER", "ORDER"):
        table = getattr(labels, name)
        for r, row in enumerate(table):
            for k, clue in enumerate(row):
                rest = (*row[:k], *row[k + 1 :])
                without = (*table[:r], rest, *table[r + 1 :])
                yield f"{name} {clue.points:+g} {clue.because}", switch(labels, name, without)
    for name in ("RULES_AS_SPELT", "RULES"):
        functions = getattr(infer, name)
        for k, function in enumerate(functions):
            without = (*functions[:k], *functions[k + 1 :])
            yield f"{name} {function.__name__.strip('_')}", switch(infer, name, without)


# ---- conditions -------------------------------------------------------------------------------


def conditions(module: ModuleType) -> Iterator[tuple[str, Switch]]:
    """The conditions of a module's functions, and how each is switched off."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    functions = {function.__code__.co_firstlineno: function for function in _functions(module)}
    for definition in ast.walk(tree):
        if not isinstance(definition, ast.FunctionDef):
            continue
        first = min([definition.lineno, *(one.lineno for one in definition.decorator_list)])
        function = functions.get(first)
        for node, part, index, value in _parts(definition) if function is not None else ():
            whole = getattr(node, part) if index is None else getattr(node, part)[index]
            changed = copy.deepcopy(tree, {id(whole): ast.copy_location(ast.Constant(value), whole)})
            codes = _codes(compile(changed, str(module.__file__), "exec"))
            said = " ".join(ast.unparse(whole).split())
            yield f"{definition.name}: {said}", _recoded(function, codes[function.__qualname__])


def _parts(definition: ast.FunctionDef) -> Iterator[tuple[Any, str, int | None, bool]]:
    """Conditions of a function: the node and the field of each, and the value that switches it off."""
    for node in ast.walk(definition):
        if isinstance(node, ast.If | ast.IfExp):
            yield node, "test", None, False
        if isinstance(node, ast.BoolOp):
            for k in range(len(node.values)):
                yield node, "values", k, isinstance(node.op, ast.And)


def _functions(owner: Any) -> Iterator[FunctionType]:
    for value in list(vars(owner).values()):
        function = getattr(value, "__wrapped__", getattr(value, "fget", value))
        if isinstance(function, FunctionType):
            yield function
        elif isinstance(value, type) and value.__module__ == getattr(owner, "__name__", ""):
            yield from _functions(value)


def _codes(code: CodeType) -> dict[str, CodeType]:
    """The compiled functions within a code, by their names."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    found = {one.co_qualname: one for one in inner}
    return {name: own for one in inner for name, own in _codes(one).items()} | found


def _recoded(function: FunctionType, code: CodeType) -> Switch:
    def switch() -> Callable[[], None]:
        whole = function.__code__
        function.__code__ = code
        return lambda: setattr(function, "__code__", whole)

    return switch


def forget() -> None:
    """Empty all caches of the schema's modules."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ordinalrbm.schema."):
            for value in vars(module).values():
                getattr(value, "cache_clear", lambda: None)()


def main() -> None:
    parts = sys.argv[1:] or ["clues", "known_scales", "quantities", "missing_labels"]
    truths = [truth for name in FILES for truth in read_corpus(name)]
    files: Files = [
        (source, [truth for truth in truths if truth.file == name])
        for name, source in sources(truths).items()
    ]
    before = {name: said for file in judged(files) for name, said in file.items()}
    n_right = sum(is_right for _, is_right in before.values())
    print(f"{n_right} of {len(before)} columns are right with all clues and conditions")
    if "clues" in parts:
        print("clues: how many columns are read otherwise without it; how many are right; the first")
    for name, switch in clues() if "clues" in parts else ():
        with switched_off(switch):
            after = {name: said for file in judged(files) for name, said in file.items()}
            changed = [column for column in before if after[column][0] != before[column][0]]
            right = sum(is_right for _, is_right in after.values())
            needed_by = changed or failed_tests()
        print(f"{name:75} {len(changed):4} {right:5}  {', '.join(needed_by[:3]) or 'nothing'}", flush=True)
    for part in parts:
        if part == "clues":
            continue
        print(f"conditions of {part}, and the first columns that are read otherwise without them")
        for name, switch in conditions(importlib.import_module(f"ordinalrbm.schema.{part}")):
            with switched_off(switch):
                print(f"{name:100} {first_changed(before, files)}", flush=True)


@contextlib.contextmanager
def switched_off(switch: Switch) -> Iterator[None]:
    back = switch()
    forget()
    try:
        yield
    finally:
        back()


def first_changed(before: Judged, files: Files) -> str:
    """Columns of the first file in which any is read otherwise."""
    try:
        for file in judged(files):
            changed = [name for name, (said, _) in file.items() if said != before[name][0]]
            if changed:
                return ", ".join(changed[:3])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    main()
