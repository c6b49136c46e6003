"""``ordinalrbm info``: what is in a model file, or among checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.output import Output, listing, results_table

if TYPE_CHECKING:
    from rich.table import Table

_MOST_SHOWN = 40
# Notes of ``ordinalrbm fit`` that are shown under other names.
_OWN_NOTES = ("data", "rows", "answers", "ratings", "schema", "weighted")


@app.command(epilog="\b\nExample:\n  ordinalrbm info survey.orbm")
def info(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model file, a checkpoint, or a folder of these.")
    ],
    json: options.JsonOption = False,
) -> None:
    """Show what is in a model file or a checkpoint.

    Only the header is read, however large the file is.
    """
    inputs.check_files(model)
    from ordinalrbm.storage import model_file

    output = Output(as_json=json)
    seen = None if model.is_dir() and any(model.glob("*.checkpoint")) else model_file.glance(model)
    if seen is None or seen.is_checkpoint:
        _tell_of_checkpoints(model, output)
        return
    _, estimator = model_file.estimator_of(model, seen.header)
    with model_file.refused_if_useless(model):
        found = {"file": str(model), "bytes": model.stat().st_size, "model": estimator}
        release = seen.header.get("release")
        if isinstance(release, str):
            found["written_by"] = f"ordinalrbm {release:.40}"
        _tell_of_model(seen, found, output)


def _tell_of_model(seen: Any, found: dict[str, Any], output: Output) -> None:
    from ordinalrbm.data.questionnaire import Questionnaire
    from ordinalrbm.data.scales import Scale
    from ordinalrbm.storage.reader import Stored

    stored = Stored(seen.arrays, seen.header)
    about = stored.notes()
    found |= _learning(stored, about)
    found |= {
        f"note, {name}": note  # by the maker of the model, rather than by the command that made it
        for name, note in about.items()
        if name not in _OWN_NOTES and isinstance(note, str | int | float)
    }
    detail: dict[str, object] = {}
    tables = []
    if found["model"] == "CumulativeRBM":
        known = Questionnaire.from_stored(stored)
        names = list(map(str, stored.entry("columns", list, None) or range(len(known.kinds))))
        labels = (None if scale is None else list(scale.labels) for scale in known.scales)
        scales = dict(zip(names, labels, strict=True))
        found["questions"] = len(known.questions)
        tables.append(_question_table(scales, known.kinds))
        detail = {"scales": scales}
        if not known.is_plain:
            detail |= {"kinds": dict(zip(names, known.kinds, strict=True))}
    else:
        found |= {name: _number_of(name, seen.shapes) for name in ("users", "items")}
        if stored.entry("one_scale", bool):
            scale = Scale.from_json(stored.entry("scales", list)[0])
            found["scale"] = " < ".join(map(str, scale.labels))
    parameters = {k: v for k, v in stored.entry("parameters", dict).items() if v is not None}
    output.result(
        {**found, **detail, "parameters": parameters, "about": about}, _listing(found, parameters), *tables
    )


def _learning(stored: Any, about: dict[str, Any]) -> dict[str, Any]:
    import pandas as pd

    from ordinalrbm.cli.fit import summary

    found = {"learnt_from": about["data"]} if about.get("data") else {}
    found |= {name: about[name] for name in ("rows", "answers", "ratings") if name in about}
    history = pd.DataFrame(stored.history())
    return found | summary(history, len(history), stored.whole("best_epoch", 0))


def _number_of(name: str, shapes: dict[str, tuple[int, ...]]) -> int:
    from ordinalrbm.storage.reader import lacking

    for part in ("number", "end"):  # ids are numbers, or texts with an end each
        if f"{name}.{part}" in shapes:
            return shapes[f"{name}.{part}"][0]
    raise lacking(name)


def _question_table(scales: dict[str, list[Any] | None], kinds: Sequence[str]) -> Table:
    rows = []
    for (name, levels), kind in list(zip(scales.items(), kinds, strict=True))[:_MOST_SHOWN]:
        if levels is None:
            rows.append((name, "", "a number" if kind == "numeric" else f"({kind})"))
        else:
            sign, order = (" < ", "") if kind == "ordinal" else (", ", "without an order: ")
            rows.append((name, str(len(levels)), order + sign.join(map(str, levels))))
    if len(scales) > _MOST_SHOWN:
        rows.append((f"... and {len(scales) - _MOST_SHOWN} more", "", ""))
    return results_table(dict.fromkeys(("question", "levels", "from lowest to highest"), ""), rows)


def _tell_of_checkpoints(path: Path, output: Output) -> None:
    from ordinalrbm.training.checkpoint import newest

    parts = newest(path)
    identity = parts[-1][1].identity
    epochs = [f"{about.part} {about.epoch}{' (has ended)' if about.finished else ''}" for _, about in parts]
    found = {
        "file": str(path),
        "checkpoint_of": identity["estimator"],
        "release": identity["release"],
        "learnt_epochs": ", ".join(epochs),
        **identity["counts"],
    }
    settings = {name: value for name, value in identity["settings"].items() if value is not None}
    output.result({**found, "parameters": settings}, _listing(found, settings))


def _listing(found: dict[str, Any], parameters: dict[str, Any]) -> Table:
    shown = {"parameters": ", ".join(f"{name}={value}" for name, value in parameters.items())}
    return listing({name.replace("_", " "): value for name, value in {**found, **shown}.items()})
