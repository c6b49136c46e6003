"""Examples in help texts and on the page of the documentation do what they say, as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from program import LONG, succeed_here

import ordinalrbm as orbm
from ordinalrbm.cli.demo_run import as_ratings

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = [
    "demo",
    "schema",
    "fit",
    "predict",
    "impute",
    "factors",
    "scores",
    "ask",
    "invariance",
    "recommend",
    "explain",
    "similar",
    "forget",
    "serve",
    "evaluate",
    "report",
    "info",
    "doctor",
]


@cache
def _help(*command: str) -> str:
    return succeed_here(*command, "--help", cwd=Path.cwd()).stdout


def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def _in_help(text: str) -> list[str]:
    return re.findall(r"^    (ordinalrbm .*)$", re.sub(r"\\\n +", "", text), re.MULTILINE)


def _in_page(page: Path) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.M)
    return [line for block in blocks for line in re.findall(r"^\$ (ordinalrbm .*)$", block, re.M)]


PAGES = sorted(page for page in DOCS.glob("*.md") if _in_page(page))


def _lines() -> list[str]:
    """Every example once, in an order in which what one makes is there for the next."""
    lines = [line for command in COMMANDS for line in _in_help(_help(command))]
    lines += _in_help(_help())
    lines += [line for page in PAGES for line in _in_page(page)]
    commands = {" ".join(shlex.split(line, comments=True)[1:]): None for line in lines}
    del commands["demo"]  # the same as with --out, and the slowest
    ordered = sorted(commands, key=lambda line: not line.startswith("schema "))
    return ordered if LONG else _distinct(ordered)


_OUT = re.compile(r" (?:--out|-o) (\S+)")


def _shape(line: str) -> tuple[str, frozenset[str]]:
    """The command, its options, and the kinds of its files; a page or model may go anywhere."""
    words = shlex.split(re.sub(_OUT.pattern + r"(?<=\.html|\.orbm)", "", line).replace("--out", "-o"))
    kinds = {word if word.startswith("-") else Path(word).suffix for word in words[1:]}
    return words[0], frozenset(kinds)


def _made(line: str) -> set[str]:
    """Files that it writes, as far as others read them."""
    command, *words = line.split()
    return {*_OUT.findall(line)} or ({f"{Path(words[0]).stem}.orbm"} if command == "fit" else set())


def _distinct(lines: list[str]) -> list[str]:
    """One of each shape, and those that make a file for one of them."""
    first: dict[object, str] = {}
    for line in lines:
        first.setdefault(_shape(line), line)
    read = {word for line in first.values() for word in _OUT.sub("", line).split()}
    wanted = read.difference(*map(_made, first.values()))
    return [line for line in lines if line in first.values() or wanted & _made(line)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example_that_fits(command):
    text = _help(command)
    assert _in_help(text)
    assert max(map(len, text.splitlines())) <= 80


def test_the_list_of_commands_is_not_cut():
    assert "..." not in _help().split("Commands:")[1].split("Examples:")[0]


def test_every_command_is_on_the_page():
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([a-z]+)$", text, re.MULTILINE) == COMMANDS
    for command in COMMANDS:
        assert f"$ ordinalrbm {command}" in text


@pytest.fixture(scope="module")
def workplace(originals, tmp_path_factory):
    folder = Path(shutil.copytree(originals, tmp_path_factory.mktemp("examples") / "work"))
    for name in ("ratings.orbm", "model.orbm"):
        shutil.copy(folder / "films.orbm", folder / name)
    # What the tutorials write before, with few people and questions.
    answers, background = orbm.datasets.load_food_world_cup(background=True)
    few = answers.notna().sum(axis=1).nlargest(100).index.sort_values()
    background.join(answers.iloc[:, :8]).loc[few].to_csv(folder / "food.csv")
    as_ratings(answers.loc[few]).to_csv(folder / "cuisines.csv", index=False)
    return folder


@pytest.mark.parametrize("line", _lines())
def test_example(line, workplace):
    if line.startswith("demo ") and not LONG:
        pytest.skip("tests/cli/test_demo.py runs it; ORDINALRBM_LONG=1 here, too")
    if "--device cuda" in line and not _has_gpu():
        pytest.skip("there is no GPU here")
    if line.startswith("serve "):
        pytest.skip("it goes on until it is stopped; tests/serve does that")
    if "://" in line:
        pytest.skip("it is for files elsewhere; tests/cli/test_object_store.py has some")
    before = (workplace / "films.orbm").read_bytes()
    done = succeed_here(*shlex.split(line), cwd=workplace)
    if line.startswith("forget "):  # what other examples ask of
        (workplace / "films.orbm").write_bytes(before)
    out = _OUT.search(line)
    if out is not None and "--draws" not in line:
        assert (workplace / out[1]).exists()
    assert done.stdout
