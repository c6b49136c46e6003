"""``ordinalrbm info``: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import JsonOption, ModelFile
from ordinalrbm.cli.places import check_files
from ordinalrbm.cli.talking import Talk, listing, plain_table

_MOST_SHOWN = 40


@app.command(epilog="\b\nExample:\n  ordinalrbm info survey.orbm")
def info(model: ModelFile, json: JsonOption = False) -> None:
    """Say what is in a model file."""
    check_files(model)
    from ordinalrbm.cli.inputs import load_model
    from ordinalrbm.estimators import CumulativeRBM

    fitted = load_model(model)
    found = _common(fitted, model)
    tables = []
    if isinstance(fitted, CumulativeRBM):
        questions = _questions(fitted)
        found["questions"] = len(questions)
        tables.append(_question_table(questions))
        detail: dict[str, Any] = {"scales": {q["question"]: q["levels"] for q in questions}}
    else:
        found |= {"users": len(fitted.users_), "items": len(fitted.items_)}
        scale = fitted.scales_
        if hasattr(scale, "labels"):
            found["scale"] = " < ".join(map(str, scale.labels))
        detail = {}
    parameters = {name: value for name, value in fitted.get_params().items() if value is not None}
    shown = {"parameters": ", ".join(f"{name}={value}" for name, value in parameters.items())}
    Talk(as_json=json).result(
        {**found, **detail, "parameters": parameters, "about": fitted.about_},
        listing({name.replace("_", " "): value for name, value in {**found, **shown}.items()}),
        *tables,
    )


def _common(model: Any, path: Path) -> dict[str, Any]:
    from ordinalrbm.cli.fit import summary

    found = {"file": str(path), "bytes": path.stat().st_size, "model": type(model).__name__}
    if model.about_.get("data"):
        found["learnt_from"] = model.about_["data"]
    for name in ("rows", "ratings"):
        if name in model.about_:
            found[name] = model.about_[name]
    return found | summary(model)


def _questions(model: Any) -> list[dict[str, Any]]:
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [
        {"question": str(name), "levels": list(scale.labels)}
        for name, scale in zip(names, model.scales_, strict=True)
    ]


def _question_table(questions: list[dict[str, Any]]) -> Any:
    table = plain_table("question", "levels", "from lowest to highest", numbers_from=3)
    for entry in questions[:_MOST_SHOWN]:
        levels = " < ".join(map(str, entry["levels"]))
        table.add_row(entry["question"], str(len(entry["levels"])), levels)
    if len(questions) > _MOST_SHOWN:
        table.add_row(f"... and {len(questions) - _MOST_SHOWN} more", "", "")
    return table
