"""Models in MLflow: kept, registered and served as its pyfunc, without pickles.

Needs ``pip install "ordinalrbm[mlflow]"``.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from ordinalrbm.cluster import package
from ordinalrbm.data.triples import found_columns
from ordinalrbm.estimators.ratings import RatingModel
from ordinalrbm.runtime import __version__
from ordinalrbm.storage.model_file import load

_FOLDER, _FILE, _CARD = "ordinalrbm", "model.orbm", "card.md"


def save_model(model: Any, path: str, mlflow_model: Any = None, **options: Any) -> None:
    """Write a fitted model, of ratings or of a survey, as a new folder that MLflow loads and serves.

    The folder has the model's file and its card. Options are those of ``mlflow.pyfunc.save_model``;
    the signature is by default pairs of users and items, and the parameter ``rule`` of ``predict``.
    """
    pyfunc = package("mlflow.pyfunc", "mlflow")
    given = {"signature": _signature(model), **options}
    if not {"conda_env", "pip_requirements", "extra_pip_requirements"} & set(options):  # MLflow takes one
        given["pip_requirements"] = [f"ordinalrbm=={__version__}"]
    with tempfile.TemporaryDirectory() as folder:
        (data := Path(folder) / _FOLDER).mkdir()
        model.save(data / _FILE)
        (data / _CARD).write_text(model.card(), encoding="utf-8")
        pyfunc.save_model(path, loader_module=__name__, data_path=data, mlflow_model=mlflow_model, **given)


def log_model(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a fitted model, and with ``registered_model_name`` register it; what MLflow says of it."""
    flavor = sys.modules[__name__]
    return package("mlflow.models", "mlflow").Model.log(None, flavor, name=name, model=model, **options)


def load_model(model_uri: str) -> Any:
    """The model that was saved or logged, with all of its methods."""
    found = package("mlflow.artifacts", "mlflow").download_artifacts(model_uri)
    return load(Path(found) / "data" / _FOLDER / _FILE)


def _signature(model: Any) -> Any:
    """Pairs of users and items for models of ratings; tables of any form for surveys."""
    if not isinstance(model, RatingModel):
        return None
    types, ids = package("mlflow.types", "mlflow"), {"user": model.users_, "item": model.items_}
    kinds = {name: "long" if each.labels.dtype.kind in "iu" else "string" for name, each in ids.items()}
    pairs = types.Schema([types.ColSpec(kind, name) for name, kind in kinds.items()])
    rule = types.ParamSchema([types.ParamSpec("rule", "string", "mean")])
    return package("mlflow.models", "mlflow").ModelSignature(pairs, params=rule)


class _Pyfunc:
    """A model as MLflow serves it."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """What the model's ``predict`` gives, for pairs or for rows of a survey."""
        given = [model_input]
        if isinstance(self.model, RatingModel):
            given = [model_input[name] for name in found_columns(list(model_input), ("user", "item"))]
        return self.model.predict(*given, **(params or {}))


def _load_pyfunc(path: str) -> _Pyfunc:
    """Called by MLflow."""
    return _Pyfunc(load(Path(path) / _FILE))
