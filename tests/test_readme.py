"""What the README shows runs as it stands."""

import re
from pathlib import Path

from small_survey import shorten_survey

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shorten_survey(monkeypatch)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert (tmp_path / "food.orbm").is_file()
