"""``ordinalrbm fit``: from a file to a model."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, Settings, refuse
from ordinalrbm.cli.output import Output, results_table
from ordinalrbm.cli.process import own_rank, own_threads, process_group, read_timeout
from ordinalrbm.engine.gpu.device import initialising_device
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.timing import stage, timings

_EXAMPLES = """\b
Examples:
  ordinalrbm fit survey.sav --out survey.orbm
  ordinalrbm fit survey.sav --write-schema schema.toml
  ordinalrbm fit survey.sav --schema schema.toml --out survey.orbm -k 20
  ordinalrbm fit survey.sav --out a.orbm --include region --background country
  ordinalrbm fit ratings.csv --out films.orbm --model ensemble
  ordinalrbm fit orders.csv --out a.orbm --user who --item what --rating mark
  ordinalrbm fit ratings.csv --out films.orbm --users people.csv --scale 1..5
  ordinalrbm fit ratings.csv --out films.orbm --checkpoint steps --resume
  torchrun --nproc-per-node=4 -m ordinalrbm fit ratings/ --out films.orbm"""


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints are kept, and how often they are written."""

    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep what has been learnt so far in a folder, so that a long fit can go on if "
            "it is stopped.",
        ),
    ] = None
    every: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How often to write a checkpoint, such as '30 s', '5 min' or '1 h', or a number of epochs.",
        ),
    ] = "5 min"
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on from the checkpoint if there is one; the result is as if never stopped."
        ),
    ] = False

    def as_fit_takes_it(self) -> dict[str, Any]:
        if self.checkpoint is None:
            if self.resume:
                raise DataError("--resume needs to know where the checkpoints are: --checkpoint FOLDER.")
            return {}
        return {"checkpoint": self.checkpoint, "every": self.every, "resume": self.resume}


@app.command(epilog=_EXAMPLES)
def fit(
    ctx: typer.Context,
    data: options.DataFile,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Where the model goes, such as a.orbm.")
    ] = None,
    settings: Settings,
    columns: RatingColumns,
    device: options.DeviceOption = "cpu",
    write_schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write what the columns were taken for to a TOML file, for you to correct, and stop.",
        ),
    ] = None,
    weighted: options.WeightedOption = False,
    checkpoints: Checkpoints,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long several processes wait for one that does not answer, before they end.",
        ),
    ] = "10 min",
    show_timings: Annotated[
        bool, typer.Option("--timings", help="Say how long each stage took, from file to model.")
    ] = False,
    telling: options.Telling,
) -> None:
    """Learn a model from a survey or from ratings.

    For a survey, prints which columns were taken for questions, with which levels in which order,
    and what is left out and why. Correct it with --write-schema and --schema.

    Ratings are recognised by names of columns such as user_id, product_id and stars; others are
    named with --user, --item and --rating.

    Several processes, started by torchrun, learn an ordinal-mf together. Of Parquet files each
    reads a part, of others all.
    """
    target = _target(out, write_schema)
    inputs.check_files(data, settings.schema, settings.users, settings.items, out=target)
    rank = own_rank()
    output = telling.output(silent=bool(rank))
    settings = replace(
        settings,
        device=device,
        weighted=weighted,
        progress=output.shows_progress,
        threads=settings.threads or (None if rank is None else own_threads()),
        checkpoints=checkpoints.as_fit_takes_it(),
    )
    patience = read_timeout(timeout)
    stages = ctx.with_resource(timings())
    with initialising_device(device):
        material = inputs.read_to_learn(ctx, data, settings, columns, in_parts=rank is not None)
    if material.survey is None:
        refuse(ctx, ("write_schema",), f"'{data}' holds ratings, which need no schema")
    inputs.tell_material(material, output)
    if write_schema is not None:
        if not rank:
            _write_schema(material, write_schema, output)
        return
    begun = time.perf_counter()
    fitted = _learn(material, settings, rank, patience)
    if rank:  # all have the whole model, and one writes it
        return
    with stage("writing the model"):
        _save(fitted, target, checkpoints.checkpoint)
    _tell(fitted, target, time.perf_counter() - begun, stages if show_timings else {}, output)


def _learn(material: inputs.Material, settings: Settings, rank: int | None, patience: timedelta) -> Any:
    from ordinalrbm.cli.learning import learn

    if rank is not None and material.survey is not None:
        raise DataError(
            f"Several processes learn from ratings only, and '{material.source.path}' is taken for "
            "a survey; start a single process."
        )
    with process_group(settings.device, patience):
        return learn(material, settings)


def _tell(model: Any, path: Path, seconds: float, stages: dict[str, float], output: Output) -> None:
    output.say(f"Learnt in {seconds:.1f} s.")
    found = {"model": str(path), "seconds": round(seconds, 3)}
    found |= summary(model.history_, model.n_iter_, model.best_epoch_)
    tables = []
    if stages:
        found["stages"] = {name: round(took, 3) for name, took in stages.items()}
        tables = [results_table({"stage": "", "seconds": ".2f"}, stages.items())]
    text = f"The model is in {path}; `ordinalrbm info {path}` says what is in it."
    output.result(found, *tables, text=text)


def _target(out: Path | None, write_schema: Path | None) -> Path:
    if write_schema is not None:
        if out is not None:
            raise DataError("--write-schema stops before learning; leave out --out.")
        return write_schema
    if out is None:
        raise DataError("Nothing says where the model goes; add --out, such as --out model.orbm.")
    return out


def _save(model: Any, path: Path, checkpoint: Path | None) -> None:
    """Write a model; if that fails, the error names the checkpoint: learning may have taken hours."""
    try:
        model.save(path)
    except DataError as error:
        if checkpoint is None or not any(checkpoint.glob("*.checkpoint")):
            raise
        raise type(error)(
            f"{str(error).rstrip('.')}; the same command with --resume goes on from the last "
            f"checkpoint in '{checkpoint}'."
        ) from error


def _write_schema(material: inputs.Material, path: Path, output: Output) -> None:
    from ordinalrbm.schema.toml import to_toml
    from ordinalrbm.storage.atomic import atomic_write

    assert material.survey is not None, "ratings need no schema"
    with atomic_write(path) as file:
        file.write_text(to_toml(material.survey.schema), encoding="utf-8")
    output.result(
        {"schema": str(path)},
        text=f"The schema is in {path}; edit it, then fit with --schema {path} --out MODEL.",
    )


def summary(history: Any, n_epochs: int, best_epoch: int) -> dict[str, float]:
    """Numbers of epochs, and the best held-out log-likelihood."""
    held_out = float(history["validation"].max()) if len(history) else float("nan")
    return {"epochs": n_epochs, "best_epoch": best_epoch, "held_out_log_likelihood": round(held_out, 4)}
