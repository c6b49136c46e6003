"""``ordinalrbm fit``: from a file to a model."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import RatingColumns, Settings, flag, option, out_option, refuse
from ordinalrbm.cli.output import Output, results_table
from ordinalrbm.cli.process import own_rank, own_threads, process_group, read_timeout
from ordinalrbm.engine.gpu.device import initialising_device
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.places import result_path
from ordinalrbm.runtime.timing import stage, timings

_EXAMPLES = """\b
Examples:
  ordinalrbm fit survey.sav
  ordinalrbm fit survey.sav --questions "q*" --exclude q5 -o few.orbm
  ordinalrbm fit survey.sav --schema schema.toml -o survey.orbm -k 20
  ordinalrbm fit survey.sav -o a.orbm --include region --background country
  ordinalrbm fit ratings.csv -o films.orbm --model matrix-crbm
  ordinalrbm fit orders.csv --user-column who --item-column what \\
      --rating-column mark
  ordinalrbm fit ratings.csv -o films.orbm --users people.csv --scale 1..5
  ordinalrbm fit visits.csv -o films.orbm --sample-weight visits
  ordinalrbm fit ratings.csv -o films.orbm --checkpoint steps
  torchrun --nproc-per-node=4 -m ordinalrbm fit ratings/ -o films.orbm"""


_CHECKPOINT = "Save the state of learning to this folder, so that a long fit can be resumed."
_EVERY = "How often to write a checkpoint, such as '30 s', '5 min' or '1 h', or a number of epochs."
_RESUME = "Go on from the checkpoint if there is one; the result is as if never stopped."
_TIMEOUT = "How long several processes wait for one that does not answer, before they end."
_WEIGHT = "The column that says how many times each rating counts; 0 is not at all."


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints are kept, and how often they are written."""

    checkpoint: Annotated[Path | None, option("FOLDER", _CHECKPOINT)] = None
    every: Annotated[str, option("TIME", _EVERY)] = "5 min"
    resume: Annotated[bool, typer.Option(help=_RESUME)] = True

    def as_fit_takes_it(self) -> dict[str, Any]:
        if self.checkpoint is None:
            return {}
        return {"checkpoint": self.checkpoint, "every": self.every, "resume": self.resume}


@app.command(epilog=_EXAMPLES)
def fit(
    ctx: typer.Context,
    data: options.DataFile,
    *,
    out: Annotated[Path | None, out_option("By default survey.orbm for survey.sav.", "MODEL")] = None,
    settings: Settings,
    columns: RatingColumns,
    sample_weight: Annotated[str | None, option("COLUMN", _WEIGHT)] = None,
    device: options.DeviceOption = "cpu",
    checkpoints: Checkpoints,
    timeout: Annotated[str, option("TIME", _TIMEOUT)] = "10 min",
    show_timings: Annotated[bool, flag("--timings", "Show how long each stage took, file to model.")] = False,
    telling: options.Telling,
) -> None:
    """Learn a model from a survey or from ratings.

    For a survey, prints which columns are doubtful, what is left out, and why. Correct how the
    columns were read with --schema, a file that `ordinalrbm schema` writes.

    Ratings are recognised by column names such as user_id, product_id and stars; name others
    with --user-column, --item-column and --rating-column.

    Several processes, started by torchrun, learn an ordinal-mf together. Each reads a part of
    Parquet files, and all of other files.
    """
    begun = time.perf_counter()
    target = out or result_path(data, ".orbm")
    inputs.check_files(data, settings.schema, settings.users, settings.items, out=target)
    rank = own_rank()
    output = telling.output(silent=bool(rank))
    settings = replace(
        settings,
        device=device,
        progress=output.shows_progress,
        threads=settings.threads or (None if rank is None else own_threads()),
        checkpoints=checkpoints.as_fit_takes_it(),
    )
    patience = read_timeout(timeout)
    if checkpoints.checkpoint is None:
        refuse(ctx, ("resume",), "there is no --checkpoint FOLDER to go on from")
    stages = ctx.with_resource(timings())
    with initialising_device(device):
        material = inputs.read_to_learn(
            ctx, data, settings, columns, in_parts=rank is not None, weight=sample_weight
        )
    inputs.tell_material(material, output)
    with process_group(settings.device, patience):
        fitted = _learn(material, settings, rank)
        if not rank or material.unread is not None:  # processes that share the ratings write one file
            with stage("writing the model"):
                _save(fitted, target, checkpoints.checkpoint)
    if rank:
        return
    _tell(fitted, target, time.perf_counter() - begun, stages if show_timings else {}, output)


def _learn(material: inputs.Material, settings: Settings, rank: int | None) -> Any:
    with stage("loading libraries"):
        from ordinalrbm.cli.learning import learn

    if rank is not None and material.survey is not None:
        raise DataError(
            f"Several processes learn from ratings only, and '{material.source.path}' is taken for "
            "a survey; start a single process."
        )
    # Learning from ratings has stages of its own.
    learning = nullcontext() if material.survey is None else stage("learning")
    with learning:
        return learn(material, settings)


def _tell(model: Any, path: Path, seconds: float, stages: dict[str, float], output: Output) -> None:
    output.say(f"Done in {seconds:.1f} s.")
    found = {"model": str(path), "seconds": round(seconds, 3)}
    found |= summary(model.history_, model.n_iter_, model.best_epoch_)
    tables = []
    if stages:
        stages = {**stages, "other": max(seconds - sum(stages.values()), 0.0)}
        found["stages"] = {name: round(took, 3) for name, took in stages.items()}
        whole = {**stages, "total": sum(stages.values())}
        tables = [results_table({"stage": "", "seconds": ".2f"}, whole.items())]
    text = f"The model is in {path}; `ordinalrbm info {path}` shows what is in it."
    output.result(found, *tables, text=text)


def _save(model: Any, path: Path, checkpoint: Path | None) -> None:
    """Write a model; if that fails, the error names the checkpoint: learning may have taken hours."""
    try:
        model.save(path)
    except DataError as error:
        if checkpoint is None or not any(checkpoint.glob("*.checkpoint")):
            raise
        raise type(error)(
            f"{str(error).rstrip('.')}; the same command goes on from the last checkpoint in '{checkpoint}'."
        ) from error


def summary(history: Any, n_epochs: int, best_epoch: int) -> dict[str, float]:
    held_out = float(history["validation"].max()) if len(history) else float("nan")
    return {"epochs": n_epochs, "best_epoch": best_epoch, "held_out_log_likelihood": round(held_out, 4)}
