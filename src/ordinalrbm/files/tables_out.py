"""Tables for readers: Excel workbooks, and Word and LaTeX tables in the form of the APA.

The ending of a file decides. A workbook has all numbers, unrounded, in a sheet for each table. Text
is never a formula. Word and LaTeX files have tables for print: loadings below .30 are left out, and
numbers that cannot be larger than one have no zero before the point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ordinalrbm.errors import DataError
from ordinalrbm.runtime.display import printable
from ordinalrbm.runtime.places import place
from ordinalrbm.storage.atomic import atomic_write

if TYPE_CHECKING:
    import pandas as pd

_CUT = 0.3  # smaller loadings are not printed
_LIBRARIES = {".xlsx": ("openpyxl", "openpyxl", "excel"), ".docx": ("docx", "python-docx", "word")}
_MOST_ROWS, _MOST_COLUMNS, _MOST_NAME = 1_048_576, 16_384, 31  # of a sheet, and letters of its name
_WIDEST = 60  # letters of a column
# Formats of numbers here and in a workbook; "r" is for what lies between −1 and 1, "p" for p-values.
_IN_EXCEL = {"r": "0.00", "p": "0.000", "d": "0", ",d": "#,##0", ".1%": "0.0%"}
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {c: f"\\{c}" for c in "&%$#_{}"}
_LATEX |= {"−": "$-$", "ω": r"$\omega$", "α": r"$\alpha$", "²": "$^2$", "<": "$<$", ">": "$>$"}


class PrintedTable(NamedTuple):
    """A table with a title and a note; a format for each column, "" for words."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formats: Sequence[str]
    note: str = ""

    def texts(self) -> list[list[str]]:
        return [
            [printed(cell, how) for cell, how in zip(row, self.formats, strict=True)] for row in self.rows
        ]


def printed(value: Any, how: str) -> str:
    """A number as the APA has it, without a zero that says nothing; or words."""
    if value is None or value != value:  # NaN
        return ""
    if not how or isinstance(value, str):  # words, labels with a code, or HTML
        return str(value.striptags() if hasattr(value, "striptags") else getattr(value, "plain", value))
    if how == "p" and value < 0.001:
        return "< .001"
    text = format(value, {"r": ".2f", "p": ".3f"}.get(how, how)).replace("-", "−")
    return re.sub(r"^(−?)0\.", r"\1.", text) if how in ("r", "p") else text


def is_printed(path: Path) -> bool:
    return path.suffix.lower() in (".docx", ".tex")


def check_library(path: Path) -> None:
    module, package, extra = _LIBRARIES.get(path.suffix.lower(), ("json", "", ""))
    if find_spec(module) is None:
        raise DataError(
            f"File '{path}' needs {package}, which is not installed; pip install 'ordinalrbm[{extra}]'."
        )


def write_reading(path: str | Path, reading: Any, more: Iterable[PrintedTable] = ()) -> None:
    """Write the loadings, correlations and reliability of factors, as .xlsx, .docx or .tex.

    ``reading`` is what ``factor_solution`` of a model gives; further tables may follow.
    """
    make = apa_tables if is_printed(place(path)) else sheets
    write_tables(path, [*make(reading), *more])


def sheets(reading: Any) -> list[PrintedTable]:
    loadings = reading.table().rename_axis("name").reset_index()
    reliability = reading.reliability.rename_axis("factor").reset_index()
    reliability.insert(1, "people high on it answer", list(reading.names.values()))
    correlations = reading.correlations.rename_axis("factor").reset_index()
    note = f"Rotation: {reading.rotation}. {_note(reading)}"
    return [
        of_frame("Loadings", loadings, note),
        of_frame("Reliability", reliability),
        of_frame("Correlations", correlations),
    ]


def of_frame(title: str, frame: pd.DataFrame, note: str = "", floats: str = "r") -> PrintedTable:
    """A table with the columns of a frame; floats have two digits, unless another format is given."""
    formats = [{"f": floats, "i": "d", "u": "d"}.get(kind.kind, "") for kind in frame.dtypes]
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    return PrintedTable(title, list(map(str, frame)), rows, formats, note)


def apa_tables(reading: Any) -> list[PrintedTable]:
    """Loadings as papers show them, and correlations of the factors where there are any."""
    from ordinalrbm.stats.rotation import OBLIQUE

    lines, factors = reading.table(), reading.factors
    texts = lines["question"] if "question" in lines else dict.fromkeys(lines.index, "")
    rows: list[list[Any]] = []
    for name in lines.index:
        loadings = [value if abs(value) >= _CUT else None for value in lines.loc[name, factors]]
        text = texts[name]
        item = f"{text} ({name})" if text and text != name else str(name)
        rows.append([item, *loadings, lines.loc[name, "communality"]])
    measures = {"Proportion of variance": "explained", "ω": "omega", "α": "alpha"}
    for label, column in measures.items():
        if column in reading.reliability:
            rows.append([label, *reading.reliability[column], None])
    formats = ["", *["r"] * (len(factors) + 1)]
    title = f"Factor loadings, {reading.rotation} rotation"
    note = f"Loadings below .30 in absolute value are not shown. {_note(reading)}"
    tables = [PrintedTable(title, ["Item", *factors, "h²"], rows, formats, note)]
    if reading.rotation in OBLIQUE and len(factors) > 1:
        whole = reading.correlations.to_numpy()
        below = [
            [name, *whole[k, : k + 1], *[None] * (len(factors) - k - 1)] for k, name in enumerate(factors)
        ]
        tables.append(PrintedTable("Correlations of the factors", ["", *factors], below, formats[:-1]))
    return tables


def _note(reading: Any) -> str:
    high = "; ".join(f"{factor}: {name}" for factor, name in reading.names.items())
    return (
        "h² = communality; ω = McDonald’s omega (total) and α = Cronbach’s alpha of the items that load "
        f"most on the factor. High on {high}."
    )


def write_tables(path: str | Path, tables: Sequence[PrintedTable]) -> None:
    target = place(path)
    writers: dict[str, Callable[[Path, Sequence[PrintedTable]], None]]
    writers = {".xlsx": write_workbook, ".docx": _write_word, ".tex": _write_latex}
    if target.suffix.lower() not in writers:
        raise DataError(f"File '{target}' cannot hold tables for readers; write to .xlsx, .docx or .tex.")
    check_library(target)
    with atomic_write(target) as file:
        writers[target.suffix.lower()](file, tables)


def write_workbook(file: Path, tables: Sequence[PrintedTable]) -> None:
    """Write a sheet for each table to a file that nobody else looks at yet."""
    from openpyxl import Workbook
    from openpyxl.utils import get_column_letter

    book, used = Workbook(write_only=True), set[str]()
    for table in tables:
        rows, columns = len(table.rows), len(table.head)
        if rows >= _MOST_ROWS or columns > _MOST_COLUMNS:
            raise DataError(f"A sheet cannot hold {rows:,} rows and {columns:,} columns; write to .csv.")
        sheet = book.create_sheet(_sheet_name(table.title, used))
        sheet.freeze_panes = "A2"
        for k, text in enumerate(table.head):
            longest = max((len(printed(row[k], table.formats[k])) for row in table.rows[:200]), default=0)
            width = min(max(len(text), longest) + 2, _WIDEST)
            sheet.column_dimensions[get_column_letter(k + 1)].width = width
        sheet.append([_cell(sheet, text, "bold") for text in table.head])
        for row in table.rows:
            sheet.append([_cell(sheet, value, how) for value, how in zip(row, table.formats, strict=True)])
        if table.note:
            sheet.append([])
            sheet.append([_cell(sheet, f"Note. {table.note}", "")])
    book.save(file)


def _cell(sheet: Any, value: Any, how: str) -> Any:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font

    value = value.item() if type(value).__module__ == "numpy" else value
    if value is None or value != value:
        return None
    if isinstance(value, int | float) or hasattr(value, "isoformat"):
        cell = WriteOnlyCell(sheet, value)
        cell.number_format = _IN_EXCEL.get(how, cell.number_format)
        return cell
    cell = WriteOnlyCell(sheet, printable(printed(value, "")))
    cell.data_type = "s"  # "=1+1" is text, and so is "#N/A"
    cell.font = Font(bold=how == "bold")
    return cell


def _sheet_name(title: str, used: set[str]) -> str:
    plain = re.sub(r"[\[\]:*?/\\]", " ", printable(title)).strip(" '")[:_MOST_NAME] or "Table"
    name = plain
    while name.casefold() in used:
        number = f" {len(used) + 1}"
        name = plain[: _MOST_NAME - len(number)] + number
    used.add(name.casefold())
    return name


def _write_word(file: Path, tables: Sequence[PrintedTable]) -> None:
    import docx
    from docx.enum.text import WD_ALIGN_PARAGRAPH
    from docx.shared import Pt

    document = docx.Document()
    normal = document.styles["Normal"]
    normal.font.name, normal.font.size, normal.paragraph_format.space_after = "Times New Roman", Pt(11), Pt(2)
    for number, table in enumerate(tables, start=1):
        document.add_paragraph().add_run(f"Table {number}").bold = True
        document.add_paragraph().add_run(printable(table.title)).italic = True
        rows = [list(table.head), *table.texts()]
        grid = document.add_table(len(rows), len(table.head))
        for r, (row, texts) in enumerate(zip(grid.rows, rows, strict=True)):
            for cell, text, how in zip(row.cells, texts, table.formats, strict=True):
                cell.text = printable(text)
                if how:
                    cell.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.RIGHT
                _rule(cell, ["top"] * (r == 0) + ["bottom"] * (r in (0, len(rows) - 1)))
        note = document.add_paragraph()
        note.add_run("Note. " if table.note else "").italic = True
        note.add_run(printable(table.note))
    document.save(str(file))


def _rule(cell: Any, sides: list[str]) -> None:
    """Lines above and below a cell: a table of the APA has no others."""
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    lines = "".join(f'<w:{side} w:val="single" w:sz="6"/>' for side in sides)
    cell._tc.get_or_add_tcPr().append(parse_xml(f"<w:tcBorders {nsdecls('w')}>{lines}</w:tcBorders>"))


def _write_latex(file: Path, tables: Sequence[PrintedTable]) -> None:
    lines = ["% \\input this file in a document with \\usepackage{longtable}."]
    for table in tables:
        words = "p{0.4\\textwidth}" if table.formats.count("") == 1 else "l"
        columns = "".join("r" if how else words for how in table.formats)
        head, *body = (" & ".join(map(_latex, row)) + r" \\" for row in (table.head, *table.texts()))
        lines += [f"\\begin{{longtable}}{{{columns}}}", rf"\caption{{{_latex(table.title)}}} \\"]
        lines += [r"\hline", head, r"\hline", r"\endhead", *body, r"\hline", r"\end{longtable}"]
        lines += [rf"\noindent\textit{{Note.}} {_latex(table.note)}", ""] if table.note else [""]
    file.write_text("\n".join(lines), encoding="utf-8")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in printable(text))
