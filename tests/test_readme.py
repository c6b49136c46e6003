"""What the README shows runs as it stands, prints what it says, and leads somewhere."""

import re
from pathlib import Path

import pytest
from long_form import LONG
from small_survey import shorten_survey

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+\.\d+")
MOST_WORDS = 760
MOST_BYTES, MOST_BYTES_IN_ALL = 150_000, 1_500_000


def test_every_python_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shorten_survey(monkeypatch)
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, re.DOTALL)
    assert len(blocks) >= 2
    names = {}
    for code, printed in blocks:
        exec(compile(code, "README.md", "exec"), names)
        found = capsys.readouterr().out
        assert found.count("\n") == printed.count("\n")
        if LONG:  # the other form learns from few rows
            assert NUMBER.sub("#", found).split() == NUMBER.sub("#", printed).split()
            numbers = [[float(n) for n in NUMBER.findall(text)] for text in (found, printed)]
            assert numbers[0] == pytest.approx(numbers[1], abs=0.03)
    assert (tmp_path / "food.orbm").is_file()


def test_links_lead_to_files():
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    local = [target for target in targets if not target.startswith("https://")]
    assert [target for target in local if not (ROOT / target).exists()] == []
    assert len(local) > 10


def test_it_is_short_and_begins_with_what_it_is():
    assert len(README.split()) < MOST_WORDS
    first_screen = README[:2500]
    for word in ("ordinal data", "Likert", "docs/pictures/", "make demo", "make test", "pip install ."):
        assert word in first_screen


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()}
    assert [name for name, size in sizes.items() if size >= MOST_BYTES] == []
    assert sum(sizes.values()) < MOST_BYTES_IN_ALL
