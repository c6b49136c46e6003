"""Every figure of a table in README and docs is held by a file in benchmarks/results.

A section with a table of decimal figures names its result files ("paper-tables.txt"), and each such
figure, rounded as it is printed, is in one of them. In the pages that compare, the figures of the
text are held to the same.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Where prose compares, too.
COMPARING = {"README.md", "comparison.md", "paper.md", "research-start.md"}
VERSION = re.compile(r"Python ≥ [\d.]+|CC BY [\d.]+|arXiv:[\d.]+|ordinalrbm [\d.]+")
FIGURE = re.compile(r"(?<![\w.,/=\-–])[+−]?\d[\d,]*\.\d+(?![\w.]*\.\w)")
FILE = re.compile(r"[\w-]+\.txt")


def sections(page):
    """(heading, lines) of a page, without code."""
    heading, lines, inside = "", [], False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith(("```", "$$")):
            inside = not inside
        elif inside or line.lstrip().startswith("!!!"):
            continue
        elif line.startswith("#"):
            yield heading, lines
            heading, lines = line.lstrip("# "), []
        else:
            lines.append(line)
    yield heading, lines


def figures(page, lines):
    """Decimal numbers that are measurements: of tables, and of text where a page compares."""
    for line in lines:
        if line.lstrip().startswith("|") or page.name in COMPARING:
            plain = re.sub(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)", " ", VERSION.sub(" ", line))
            yield from (found.replace(",", "") for found in FIGURE.findall(plain))


@cache
def numbers(name):
    found = re.findall(r"(?<![\w.])\d[\d,]*\.?\d*(?:e[+-]?\d+)?", (RESULTS / name).read_text())
    return [float(number.replace(",", "").rstrip(".")) for number in found]


def is_held(figure, names):
    value, digits = float(figure.lstrip("+−")), len(figure.split(".")[1])
    slack = 0.5 * 10.0**-digits + 1e-9
    return any(abs(number - value) <= slack for name in names for number in numbers(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_result_files(page):
    missing = []
    for heading, lines in sections(page):
        names = sorted({name for line in lines for name in FILE.findall(line)})
        unknown = [name for name in names if not (RESULTS / name).exists()]
        assert not unknown, f"{page.name}, {heading}: there is no {unknown}"
        missing += [
            f"{heading}: {figure} is not in {names or 'any file: none is named'}"
            for figure in figures(page, lines)
            if not is_held(figure, names)
        ]
    assert not missing, f"{page.name}: {missing}"


def test_a_figure_that_no_file_holds_fails():
    assert is_held("0.904", ["paper-tables.txt"])
    assert not is_held("0.1234", ["paper-tables.txt"])
    assert not is_held("0.904", [])
