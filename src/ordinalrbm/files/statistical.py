"""SPSS, Stata and SAS transport files, with labels, missing values and formats."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat
from pyreadstat import PyreadstatError, ReadstatError

from ordinalrbm.schema.schema import Code
from ordinalrbm.schema.source import Format, Missing, Source, name_of, plain_code, unreadable

# By the beginning of a format's name; the first that fits counts.
_SPSS_DATES = (
    (r"DATETIME|YMDHMS", "datetime"),
    (r"[AEJS]?DATE|QYR|MOYR|WKYR", "date"),
    (r"D?TIME|MTIME", "time"),
)
_STATA_DATES = ((r"%-?t[cC]", "datetime"), (r"%-?(td|d)", "date"), (r"%-?t[bwmqhy]", "period"))
_SAS_DATES = (
    (r"DATETIME|DATEAMPM|E8601DT", "datetime"),
    (r"TIME|HHMM|E8601TM", "time"),
    (r"DATE|DDMMYY|MMDDYY|YYMMDD|JULIAN|MONYY|WORDDAT|WEEKDAT|E8601DA", "date"),
)
_DATES = {"dta": _STATA_DATES, "xpt": _SAS_DATES}


def read(path: Path, kind: Format) -> Source:
    with path.open("rb"):
        pass  # pyreadstat would not say why it cannot open a file
    frame, meta, remarks = _parsed(path, kind)
    for k, name in enumerate(frame.columns):
        if not isinstance(name, str):
            raise unreadable(path, f"the name of column {k + 1} is damaged")
    frame, tags = _untagged(path, frame, meta) if kind == "dta" else (frame, {})
    return Source(
        path,
        kind,
        name_of(path),
        frame,
        value_labels={name: _labels(labels, kind) for name, labels in meta.variable_value_labels.items()},
        questions={name: label.strip() for name, label in meta.column_names_to_labels.items() if label},
        missing={name: _missing(entries) for name, entries in meta.missing_ranges.items()},
        measure={name: m for name, m in meta.variable_measure.items() if m and m != "unknown"},
        dates=_dates(meta.original_variable_types, _DATES.get(kind, _SPSS_DATES)),
        tags=tags,
        variable_formats={name: form for name, form in meta.original_variable_types.items() if form},
        display_widths=dict(meta.variable_display_width),
        response_sets=dict(meta.mr_sets or {}),
        file_label=meta.file_label or "",
        file_notes=tuple(meta.notes or ()),
        remarks=remarks,
    )


def _parsed(path: Path, kind: Format) -> tuple[pd.DataFrame, Any, tuple[str, ...]]:
    if kind == "por":  # whose reader knows neither encodings nor user-missing codes, which are empty
        reader = partial(_portable, os.fspath(path))
    elif kind == "xpt":
        reader = partial(pyreadstat.read_xport, os.fspath(path), disable_datetime_conversion=True)
    else:
        read_file = pyreadstat.read_dta if kind == "dta" else pyreadstat.read_sav
        reader = partial(read_file, os.fspath(path), user_missing=True, disable_datetime_conversion=True)
    try:
        return *reader(), ()
    except UnicodeDecodeError:
        pass
    except (ReadstatError, PyreadstatError) as error:
        if "convert" not in str(error):
            raise unreadable(path, error) from error
    try:
        frame, meta = reader(encoding="WINDOWS-1252")
    except (ReadstatError, PyreadstatError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    remark = f"File '{path}' has text that is not in the encoding it names and was read as "
    return frame, meta, (remark + "Windows-1252; check its accents.",)


def _portable(path: str, encoding: str | None = None) -> tuple[pd.DataFrame, Any]:
    if encoding is not None:
        raise PyreadstatError("its text is not in UTF-8")
    return pyreadstat.read_por(path, disable_datetime_conversion=True)


def _untagged(path: Path, frame: pd.DataFrame, meta: Any) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """The frame with empty cells where Stata has .a to .z, and these by column.

    With tags, pyreadstat gives 0 for plainly missing whole numbers; without tags, they are empty.
    So such columns are read once more.
    """
    tagged = list(meta.missing_user_values)
    if not tagged:
        return frame, {}
    again, _ = pyreadstat.read_dta(os.fspath(path), usecols=tagged, disable_datetime_conversion=True)
    tags = {}
    for name in tagged:
        tags[name] = np.array([f".{v}" if isinstance(v, str) else "" for v in frame[name]], dtype=object)
        frame[name] = pd.to_numeric(again[name])
    return frame, tags


def _labels(labels: dict[Any, str], kind: Format) -> dict[Code, str]:
    named: dict[Code, str] = {}
    for value, label in labels.items():
        code = plain_code(value)
        if code is not None:
            is_tag = kind == "dta" and isinstance(code, str)
            named[f".{code}" if is_tag else code] = label.strip()
    return named


def _missing(entries: list[Any]) -> tuple[Missing, ...]:
    ends = [(e["lo"], e["hi"]) if isinstance(e, dict) else (e, e) for e in entries]
    read = [plain_code(low) if low == high else (float(low), float(high)) for low, high in ends]
    return tuple(entry for entry in read if entry is not None)


def _dates(formats: dict[str, str | None], known: tuple[tuple[str, str], ...]) -> dict[str, str]:
    dates = {
        name: next((kind for pattern, kind in known if re.match(pattern, form or "")), "")
        for name, form in formats.items()
    }
    return {name: kind for name, kind in dates.items() if kind}
