"""What the documentation shows runs as it stands, and prints what it says.

Pages that learn for long do it with fewer rows here, and then print other numbers than they say:
the words are compared here, the numbers in the long form.
"""

import doctest
import importlib.util
import re
from pathlib import Path

import pytest
from long_form import LONG
from small_survey import shorten_survey

DOCS = Path(__file__).parents[1] / "docs"
# Learning is the same on any number of threads, but not to the last digit on any processor.
RELATIVE, ABSOLUTE = 0.05, 0.03

# Packages of which there are examples, and that need not be there.
OPTIONAL = ("faiss", "fsspec")

# Pages that learn from the whole survey, and those of them that print numbers of what was learnt.
SLOW = ("factors", "gallery", "settings", "survey-start")
OTHER_NUMBERS = () if LONG else ("settings", "survey-start")

_BLOCK = re.compile(r"^```(?:python|pycon)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


class _Near(doctest.OutputChecker):
    """The same words, and numbers that are nearly the same."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        words = [" ".join(_NUMBER.sub("#", text).split()) for text in (want, got)]
        numbers = [[float(n) for n in _NUMBER.findall(text)] for text in (want, got)]
        return words[0] == words[1] and numbers[1] == pytest.approx(numbers[0], rel=RELATIVE, abs=ABSOLUTE)


class _Words(doctest.OutputChecker):
    """The same words, and as many numbers."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        words = ["".join(_NUMBER.sub(" # ", text).split()) for text in (want, got)]
        return words[0] == words[1]


def _blocks(page: Path) -> list[tuple[int, str]]:
    """Line and code of every block."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(1)) + 1, m[1]) for m in _BLOCK.finditer(text)]


def _run(page: Path, line: int, code: str, names: dict) -> None:
    if ">>> " not in code:
        # Line numbers of a traceback are those of the page.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line - 1)
    test.globs = names  # not a copy: later blocks go on with what this one made
    checker = _Words() if page.stem in OTHER_NUMBERS else _Near()
    runner = doctest.DocTestRunner(checker, verbose=False, optionflags=doctest.ELLIPSIS)
    wrong: list[str] = []
    runner.run(test, out=wrong.append, clear_globs=False)
    assert not wrong, "".join(wrong)


PAGES = sorted(page for page in DOCS.glob("*.md") if _blocks(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.stem in SLOW:
        shorten_survey(monkeypatch)
    names = {"__name__": "__main__"}
    for line, code in _blocks(page):
        needed = [name for name in OPTIONAL if re.search(rf"\bimport {name}\b", code)]
        if all(importlib.util.find_spec(name) for name in needed):
            _run(page, line, code, names)


def test_there_are_blocks_to_run():
    assert {"survey-start", "ratings-start", "research-start"} <= {page.stem for page in PAGES}


def test_numbers_may_differ_a_little_and_words_may_not():
    near = _Near()
    assert near.check_output("a 1.00\n", "a 1.01\n", 0)
    assert not near.check_output("a 1.00\n", "a 1.20\n", 0)
    assert not near.check_output("a 1.00\n", "b 1.00\n", 0)


def test_words_count_where_numbers_do_not():
    words = _Words()
    assert words.check_output("a  1.00 ,\n", "a 2.5,\n", 0)
    assert not words.check_output("a 1.00\n", "b 1.00\n", 0)
    assert not words.check_output("a 1.00\n", "a 1.00 2.00\n", 0)


def test_a_wrong_result_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Text\n\n```pycon\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    ((line, code),) = _blocks(page)
    with pytest.raises(AssertionError, match="Expected"):
        _run(page, line, code, {})
