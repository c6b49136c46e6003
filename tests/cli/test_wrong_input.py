"""Wrong files, columns and options: one sentence, the right exit status, nothing left behind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from program import LONG, names_in, run, run_here
from small_files import survey_frame, write_spss

OUT = "kept.csv"
# The arguments, and words of the sentence. Where it is not said, --out goes to a file that exists.
CASES: dict[str, tuple[str, str]] = {
    "file missing": ("fit nope.csv --out m.orbm", "'nope.csv' does not exist"),
    "junk sav": ("fit junk.sav --out m.orbm", "'junk.sav' cannot be read"),
    "damaged name": ("fit name.sav --out m.orbm", "the name of column 2 is damaged"),
    "list ids": ("fit list.parquet --out m.orbm", "column 'user', row 0 (counted from 0): the use"),
    "list pairs": (f"predict films.orbm list.parquet --out {OUT}", "a list or struct; give a col"),
    "pandas index": ("fit index.parquet --out m.orbm", "cannot be read (KeyError: 'nope')"),
    "text not utf-8": ("fit utf8.parquet --out m.orbm", "column 'who' cannot be read"),
    "schema nested": ("fit survey.sav --schema deep.toml --out m.orbm", "nested too deeply"),
    "schema number": ("fit survey.sav --schema digits.toml --out m.orbm", "too many digits"),
    "schema hex": ("fit survey.sav --schema hex.toml --out m.orbm", "too many digits"),
    "model as data": ("fit survey.orbm --out m.orbm", "'survey.orbm' is a model, not data"),
    "ratings for survey model": (f"predict survey.orbm ratings.csv --out {OUT}", "holds ratings"),
    "survey for ratings model": (f"predict films.orbm survey.sav --out {OUT}", "no column 'user'"),
    "survey tests ratings": ("evaluate films.orbm --data survey.sav", "holds no ratings"),
    "model without data": ("evaluate films.orbm", "give what to test it on with --data"),
    "data without model": ("evaluate ratings.csv --data later.csv", "--data goes with a model"),
    "ratings model imputes": (f"impute films.orbm survey.sav --out {OUT}", "learnt from a survey"),
    "survey model recommends": ("recommend survey.orbm", "learnt from ratings"),
    "question lacking": (f"impute survey.orbm lacks.sav --out {OUT}", "lacks the column 'q3'"),
    "unknown code": (f"impute survey.orbm code.sav --out {OUT}", "column 'q1', row 3"),
    "schema missing": ("fit survey.sav --schema no.toml --out m.orbm", "'no.toml' does not exist"),
    "unknown group": ("report survey.sav --out p.html --group land", "choose one of country"),
    "group of ratings": ("report films.orbm --out p.html --group land", "--group changes nothing"),
    "unknown user": ("report films.orbm --out p.html --user 777", "--user '777' is not known"),
    "user in words": ("recommend films.orbm --users Zoë", "'Zoë' is no number"),
    "no such device": (f"predict films.orbm pairs.csv --out {OUT} --device gpu", "'device' param"),
    "no GPU to predict": (f"predict films.orbm pairs.csv --out {OUT} --device cuda", "'cuda'"),
    "survey on a GPU": (
        f"predict survey.orbm survey.sav --out {OUT} --device cuda",
        "--device changes nothing",
    ),
    "nobody": ("recommend films.orbm --users ,", "--users names nobody"),
    "no weights in ratings": ("fit ratings.csv --out m.orbm --weighted", "--weighted changes"),
    "too few ratings": ("evaluate ratings.csv --min-ratings 500", "lower --min-ratings"),
    "own training ratings": ("evaluate films.orbm --data ratings.csv", "nothing is left to test"),
    "test off the scale": ("evaluate films.orbm --data stars.csv", "rating 7 is not on the scale"),
    "liked in words": ("evaluate ratings.csv --liked good", "--liked='good' is not on the scale"),
    "no list": ("evaluate ratings.csv --top 0", "'--top'"),
    "lists of a survey": ("evaluate survey.sav --top 5", "--top changes nothing"),
    "liked in a survey": ("evaluate survey.orbm --data survey.sav --liked 4", "--liked changes nothing"),
    "no times": ("evaluate names.csv --protocol chronological", "'timestamp'"),
    "zero factors": ("fit survey.sav --out m.orbm --factors 0", "'--factors'"),
    "unknown option": ("fit survey.sav --out m.orbm --fctors 3", "No such option: --fctors"),
    "unknown command": ("ft survey.sav", "No such command 'ft'"),
    "model of a survey": ("fit survey.sav --out m.orbm --model ordinal-mf", "taken for a survey"),
    "factors of items": ("fit ratings.csv --out m.orbm --item-factors 3", "--item-factors changes"),
    "unknown kind": ("fit survey.sav --out m.orbm --model cube", "'--model'"),
    "mean is no level": (f"impute survey.orbm survey.sav --out {OUT} --rule mean", "median"),
    "unknown parameters": (
        f"impute survey.orbm survey.sav --out {OUT} --draws 2 --parameters none",
        "'--parameters'",
    ),
    "out folder missing": ("fit survey.sav --out no/m.orbm", "Folder 'no' does not exist"),
    "out is a folder": ("fit survey.sav --out folder", "'folder' is a folder"),
    "out is a pipe": ("fit survey.sav --out pipe", "no ordinary file"),
    "out is the data": ("impute survey.orbm survey.sav --out survey.sav", "would be written over"),
    "out ending": ("predict films.orbm pairs.csv --out a.xyz", "ending that is not known"),
    "out no table": ("recommend films.orbm --out best.sav", "cannot hold a plain table"),
    "no permission": ("fit survey.sav --out {forbidden}/m.orbm", "cannot be written"),
    "no permission to read": ("fit {secret} --out m.orbm", "may not be read"),
}
# In processes of their own, as users have it; the others in this one, which is seconds quicker.
APART = set(CASES) if LONG else {"junk sav"}
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def _add_wrong_parquet(folder: Path) -> None:
    n = 40
    ratings = {
        "user": pa.array(np.arange(n) % 8),
        "item": pa.array(np.arange(n) // 8),
        "rating": pa.array(np.arange(n) % 5),
    }
    lists = pa.array([[k % 8] for k in range(n)])
    pq.write_table(pa.table({**ratings, "user": lists}), folder / "list.parquet")
    index = b'{"index_columns": ["nope"], "columns": [], "column_indexes": []}'
    table = pa.table(ratings).replace_schema_metadata({b"pandas": index})
    pq.write_table(table, folder / "index.parquet")
    ends = pa.py_buffer(np.arange(0, 2 * n + 2, 2, dtype=np.int32))
    wrong = pa.StringArray.from_buffers(n, ends, pa.py_buffer(b"a\xff" * n))
    pq.write_table(pa.table({"q1": ratings["rating"], "who": wrong}), folder / "utf8.parquet")


def _add_damaged_name(folder: Path) -> None:
    """An SPSS file whose second column has a name that is no text."""
    frame = pd.DataFrame({name: [1.0, 2.0, 3.0] for name in ("q1", "q2", "q3")})
    pyreadstat.write_sav(frame, folder / "name.sav")
    content = (folder / "name.sav").read_bytes()
    (folder / "name.sav").write_bytes(content.replace(b"Q2 ", b"\xff2 ", 1))


def _add_wrong_files(folder: Path) -> None:
    _add_wrong_parquet(folder)
    _add_damaged_name(folder)
    (folder / "deep.toml").write_text("x = " + "[" * 50_000 + "]" * 50_000)
    (folder / "digits.toml").write_text(f"[columns.q1]\nlevels = [{'1' * 100_000}]")
    (folder / "hex.toml").write_text(f"[columns.q1]\nrole = 0x{'1' * 100_000}")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")  # never a real device: as root, a mistake would destroy it
    junk = np.random.default_rng(0).bytes(5000)
    (folder / "junk.sav").write_bytes(b"\0" + junk)
    frame = survey_frame()
    write_spss(folder / "lacks.sav", frame.drop(columns="q3"))
    frame.loc[3, "q1"] = 7.0
    write_spss(folder / "code.sav", frame)
    (folder / "stars.csv").write_text("user,item,rating\n1,101,5\n1,102,7\n")
    (folder / OUT).write_text("mine")
    (folder / "secret.csv").write_text("a,b\n1,2\n")
    (folder / "secret.csv").chmod(0)
    (folder / "forbidden").mkdir(mode=0o500)


@pytest.fixture(scope="module")
def failures(originals, tmp_path_factory):
    """What becomes of every case, in one folder."""
    folder = Path(shutil.copytree(originals, tmp_path_factory.mktemp("wrong") / "work"))
    _add_wrong_files(folder)
    before = names_in(folder)
    places = {"forbidden": "/proc" if AS_ROOT else "forbidden", "secret": "secret.csv"}

    done = {
        case: (run if case in APART else run_here)(*line.format(**places).split(" "), cwd=folder)
        for case, (line, _) in CASES.items()
    }
    done["left behind"] = names_in(folder) - before
    done["existing file"] = (folder / OUT).read_text()
    return done


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_status_2(case, failures):
    if case == "no permission to read" and AS_ROOT:
        pytest.skip("nothing is forbidden to root")
    done, words = failures[case], CASES[case][1]
    assert words in done.stderr
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1
    assert done.stderr.endswith((".\n", "?\n"))
    assert "unforeseen" not in done.stderr


def test_nothing_is_left_behind(failures):
    assert failures["left behind"] == set()
    assert failures["existing file"] == "mine"
