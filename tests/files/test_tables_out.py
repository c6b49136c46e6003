"""Tables for readers, opened again by the programs' own libraries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import docx
import numpy as np
import openpyxl
import pandas as pd
import pytest

import ordinalrbm as orbm
from ordinalrbm.errors import DataError
from ordinalrbm.files import tables_out
from ordinalrbm.files.tables_out import PrintedTable, printed, write_tables
from ordinalrbm.files.writing import write_table

TEXTS = {"q1": "Tea & milk?", "q2": "50% of £10_000?", "q3": "=1+1"}


@pytest.fixture(scope="module")
def reading():
    rng = np.random.default_rng(4)
    trait = rng.normal(size=(250, 2))
    X = pd.DataFrame({f"q{k + 1}": np.digitize(trait[:, k % 2] * 1.5 + rng.normal(size=250), [-1, 1])
                      for k in range(6)})  # fmt: skip
    model = orbm.CumulativeRBM(2, n_epochs=2, random_state=0).fit(X)
    return model.factor_solution(X, rotation="oblimin", questions=TEXTS)


def cells(path: Path, sheet: str) -> list[tuple]:
    return list(openpyxl.load_workbook(path)[sheet].iter_rows(values_only=True))


def test_a_workbook_has_the_numbers_of_the_api(reading, tmp_path):
    reading.to_excel(tmp_path / "a.xlsx")
    table = reading.table()
    head, *rows = cells(tmp_path / "a.xlsx", "Loadings")
    assert list(head) == ["name", *table.columns]
    for (name, line), row in zip(table.iterrows(), rows, strict=False):
        assert row[0] == name and row[1] == (line["question"] or None)
        assert row[2:] == pytest.approx(line.iloc[1:].tolist())
    assert rows[-1][0].startswith("Note. Rotation: oblimin.")
    head, *rows = cells(tmp_path / "a.xlsx", "Correlations")
    assert [row[1:] for row in rows] == pytest.approx(reading.correlations.to_numpy())
    head, *rows = cells(tmp_path / "a.xlsx", "Reliability")
    omega = head.index("omega")
    assert [row[omega] for row in rows] == pytest.approx(reading.reliability["omega"].tolist())


def test_no_text_in_a_workbook_is_a_formula(tmp_path):
    frame = pd.DataFrame({"=2+2": ["=1+1", "@x", "#N/A"], "n": [1, 2, None]})
    write_table(tmp_path / "a.xlsx", frame)
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").active
    assert [cell.value for cell in sheet["A"]] == ["=2+2", "=1+1", "@x", "#N/A"]
    assert {cell.data_type for cell in sheet["A"]} == {"s"}
    assert [cell.value for cell in sheet["B"]] == ["n", 1, 2, None]
    assert sheet["B2"].number_format in ("0", "General")  # as in the table, and not 1.00


def test_the_table_of_a_paper_in_word(reading, tmp_path):
    reading.to_word(tmp_path / "a.docx")
    document = docx.Document(str(tmp_path / "a.docx"))
    grid, correlations = document.tables
    head, *rows = [[cell.text for cell in row.cells] for row in grid.rows]
    assert head == ["Item", "Factor 1", "Factor 2", "h²"]
    for name, row in zip(reading.table().index, rows, strict=False):
        assert row[0] == (f"{TEXTS[name]} ({name})" if name in TEXTS else name)
        for factor, text in zip(reading.factors, row[1:], strict=False):
            loading = reading.loadings.loc[name, factor]
            assert text == (printed(loading, "r") if abs(loading) >= 0.3 else "")
        assert row[3] == printed(reading.communalities[name], "r") and row[3].startswith(".")
    assert [row[0] for row in rows[-3:]] == ["Proportion of variance", "ω", "α"]
    assert rows[-2][1] == printed(reading.reliability["omega"].iloc[0], "r")
    assert rows[-1][2] == printed(reading.reliability["alpha"].iloc[1], "r")
    assert correlations.rows[2].cells[1].text == printed(reading.correlations.iloc[1, 0], "r")
    texts = [paragraph.text for paragraph in document.paragraphs]
    assert "Table 1" in texts and "Factor loadings, oblimin rotation" in texts
    assert any(text.startswith("Note. Loadings below .30") for text in texts)


def test_latex_is_escaped_and_compiles(reading, tmp_path):
    reading.to_latex(tmp_path / "loadings.tex")
    text = (tmp_path / "loadings.tex").read_text(encoding="utf-8")
    assert r"Tea \& milk? (q1)" in text and r"50\% of £10\_000? (q2)" in text
    assert printed(reading.communalities["q1"], "r") in text and r"$\omega$" in text
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex here")
    whole = "\\documentclass{article}\n\\usepackage{longtable}\n\\begin{document}\n\\input{loadings}\n"
    (tmp_path / "whole.tex").write_text(whole + "\\end{document}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "whole.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]


def test_sheets_with_one_title_have_names_that_excel_takes(tmp_path):
    title = "Country/region: [which] one do you live in, and how long?"
    table = PrintedTable(title, ["a"], [[0.5]], ["r"])
    write_tables(tmp_path / "a.xlsx", [table, table])
    names = openpyxl.load_workbook(tmp_path / "a.xlsx").sheetnames
    assert len(set(names)) == 2 and max(map(len, names)) <= 31


def test_numbers_of_the_apa():
    assert [printed(x, "r") for x in (0.304, -0.996, 1.0, np.nan)] == [".30", "−1.00", "1.00", ""]
    assert [printed(p, "p") for p in (0.0004, 0.0312)] == ["< .001", ".031"]
    assert printed(0.25, ".1%") == "25.0%" and printed(1234, ",d") == "1,234"


def test_a_library_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(tables_out, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"needs python-docx, .* pip install 'ordinalrbm\[word\]'\.$"):
        write_tables(tmp_path / "a.docx", [])
    with pytest.raises(DataError, match=r"\.xlsx, \.docx or \.tex\.$"):
        write_tables(tmp_path / "a.odt", [])
    assert list(tmp_path.iterdir()) == []
