"""Names that would steer a terminal, turn text round, or be computed by a spreadsheet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from program import run_here, succeed_here

RED, TURNED, C1 = "\x1b[31mred", "\u202eabc", "c1 \x9b2J"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FORMULAS = ["=1+1", "+SUM(A1)", "-2+3", "@here"]
USERS = [RED, TURNED, C1, "plain"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    pairs = [(user, item) for user in USERS for item in (*FORMULAS, "-5", "tea", "rum")]
    ratings = pd.DataFrame(pairs, columns=["user", "item"]).assign(rating=rng.integers(1, 6, len(pairs)))
    ratings.to_parquet(folder / "ratings.parquet")
    answers = {f"q{k} {RED}{TURNED}": rng.choice(["no", "maybe", f"yes {C1}"], 60) for k in (1, 2)}
    pd.DataFrame({**answers, "=id": FORMULAS * 15}).to_parquet(folder / "survey.parquet")
    succeed_here("fit", "ratings.parquet", "--out", "m.orbm", "--epochs", 2, cwd=folder)
    return folder


@pytest.mark.parametrize(
    "line",
    [
        ["recommend", "m.orbm", "--seen"],
        ["recommend", "m.orbm", "--users", f"new {RED}"],
        ["recommend", "m.orbm", "--json", "--seen"],
        ["info", "m.orbm"],
        ["schema", "survey.parquet"],
        ["fit", "survey.parquet", "--out", "s.orbm", "--epochs", 1],
        ["evaluate", "survey.parquet", "--epochs", 1],
    ],
)
def test_nothing_printed_steers_a_terminal(line, hostile):
    done = succeed_here(*line, cwd=hostile)
    assert not CONTROLS.search(done.stdout + done.stderr)


def test_names_are_shown_escaped(hostile):
    done = succeed_here("recommend", "m.orbm", "--seen", cwd=hostile)
    assert r"\u001b[31mred" in done.stdout and r"\u202eabc" in done.stdout
    content = json.loads(succeed_here("recommend", "m.orbm", "--json", cwd=hostile).stdout)
    assert {line["user"] for line in content["recommendations"]} <= set(USERS)


@pytest.mark.parametrize("line", [["fit", f"{RED}.csv", "--out", "x.orbm"], ["fit", f"--{TURNED}"]])
def test_errors_are_escaped(line, hostile):
    done = run_here(*line, cwd=hostile)
    assert done.returncode == 2
    assert r"\u" in done.stderr and not CONTROLS.search(done.stderr)


@pytest.mark.parametrize("data", ["survey.parquet", "ratings.parquet"])
def test_reports_are_escaped(data, hostile):
    succeed_here("report", data, "--out", "page.html", cwd=hostile)
    page = (hostile / "page.html").read_text(encoding="utf-8")
    assert r"\u202e" in page or data == "ratings.parquet"  # which names no user
    assert not CONTROLS.search(page)


def _cells(folder: Path, name: str) -> set[str]:
    return set(pd.read_csv(folder / name, dtype=str).to_numpy().ravel().tolist())


def test_formulas_are_escaped_when_asked(hostile):
    succeed_here("recommend", "m.orbm", "--seen", "--out", "as-is.csv", cwd=hostile)
    assert _cells(hostile, "as-is.csv") >= {*FORMULAS, "-5", "tea"}
    line = ["recommend", "m.orbm", "--seen", "--escape-formulas", "--out", "safe.csv"]
    succeed_here(*line, cwd=hostile)
    found = _cells(hostile, "safe.csv")
    assert found >= {*(f"'{formula}" for formula in FORMULAS), "-5", "tea"}
    assert not found & set(FORMULAS)


def test_every_command_that_writes_csv_escapes_formulas(hostile):
    learn = ["fit", "survey.parquet", "--out", "s.orbm", "--epochs", 1]
    succeed_here(*learn, cwd=hostile)
    lines = [
        ["predict", "m.orbm", "ratings.parquet"],
        ["impute", "s.orbm", "survey.parquet", "--fill", "all"],
        ["scores", "s.orbm", "survey.parquet"],
        ["factors", "survey.parquet", "--factors", 1],
    ]
    for line in lines:
        out = hostile / "out.csv"
        succeed_here(*line, "--out", out.name, "--escape-formulas", cwd=hostile)
        header = out.read_text(encoding="utf-8").partition("\n")[0]
        cells = {*_cells(hostile, out.name), *header.split(",")}
        assert not cells & {*FORMULAS, "=id"}, line
        if line[0] in ("predict", "impute"):
            assert {f"'{formula}" for formula in FORMULAS} <= cells


@pytest.mark.parametrize("out", [["--out", "best.parquet"], []])
def test_escaping_what_no_spreadsheet_computes_is_refused(out, hostile):
    done = run_here("recommend", "m.orbm", "--escape-formulas", *out, cwd=hostile)
    assert done.returncode == 2 and "--escape-formulas changes nothing here" in done.stderr
