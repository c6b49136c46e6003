"""``ordinalrbm ask``: an interview in the terminal."""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordinalrbm.cli import inputs, options
from ordinalrbm.cli.app import app
from ordinalrbm.cli.options import Rotation, option
from ordinalrbm.cli.output import counted, results_table
from ordinalrbm.runtime.display import printable

if TYPE_CHECKING:
    from ordinalrbm.data.scales import Scale

_EXAMPLES = """\b
Examples:
  ordinalrbm ask survey.orbm
  ordinalrbm ask survey.orbm -k 5 --until 0.4 --most 20"""

_NUMBER = "Number of factors; by default as many as have at least two questions of their own."
_UNTIL = "Stop when all factors have a standard error of at most this."
_HOW = "Answer with a number or a label; an empty line skips the question, q ends the interview."
_END = object()


@app.command(epilog=_EXAMPLES)
def ask(
    ctx: typer.Context,
    model: options.ModelFile,
    *,
    number: Annotated[int | None, option("K", _NUMBER, "--factors", "-k", min=1)] = None,
    rotation: options.RotationOption = Rotation.VARIMAX,
    until: Annotated[float, option("SE", _UNTIL, min=0)] = 0.3,
    most: Annotated[int | None, option("N", "Stop after so many questions.", min=1)] = None,
    telling: options.Telling,
) -> None:
    """Ask one person what tells most about the factors.

    The next question is chosen by the answers so far. In the end, scores are printed with their
    standard errors.
    """
    from ordinalrbm.estimators.factor_analysis import number_to_read

    inputs.check_files(model)
    output, fitted = telling.output(), inputs.load_for(model, "a survey")
    options.check_number(number or 1, min(fitted.model_.weights.shape), f"'{model}' has")
    chosen: dict[str, Any] = {"rotation": rotation.value}
    chosen["n_factors"] = number or number_to_read(fitted, **chosen)
    wanted = {"factors": "all", "until": until or None, **chosen}
    columns = list(fitted.feature_names_in_)
    output.say(_HOW)
    names = fitted.factor_solution(**chosen).names
    answers: dict[str, Any] = {}
    left = [fitted.feature_names_in_[j] for j in fitted.questionnaire_.questions]
    while not (best := fitted.ask(answers, left, **wanted)).empty and len(answers) != most:
        name = best["question"][0]
        answer = _answer(best.get("text", best["question"])[0] or name, fitted.scales_[columns.index(name)])
        if answer is _END:
            break
        left.remove(name)
        if answer is not None:
            answers[name] = answer
    scores, errors = best.attrs["scores"], best.attrs["standard_errors"]
    lines = [{"name": names[one], "score": scores[one], "standard_error": errors[one]} for one in errors]
    table = results_table({"factor": "", "score": "+.2f", "error": ".2f"}, [line.values() for line in lines])
    found = {"answers": answers, "scores": dict(zip(errors, lines, strict=True))}
    output.result(found, table, text=f"By {counted(len(answers), 'answer')}.")


def _answer(text: str, scale: Scale | None) -> Any:
    """What is typed in: a level of the scale or a number; None if nothing, and `_END` at the end."""
    labels = () if scale is None else scale.labels
    known: dict[str, Any] = {}
    if scale is not None and not scale.is_numeric and not any(map(_is_number, scale.names)):
        known = {str(k): at for k, at in enumerate(labels, start=1)}
    lines = [f"{number:>3}  {label}" for number, label in known.items()]
    known |= {} if scale is None else dict(zip(map(str.casefold, scale.names), labels, strict=True))
    choices = [] if scale is None else [", ".join(scale.names)]
    typer.echo(printable("\n".join(["", text, *(lines or choices)])), err=True)
    while True:
        typer.echo("> ", err=True, nl=False)
        line = sys.stdin.readline()
        typed = line.strip().casefold()
        if typed in known or not typed or typed == "q":
            return known.get(typed, None if line and not typed else _END)
        with suppress(ValueError):
            if scale is None and math.isfinite(number := float(typed)):
                return number
        typer.echo(_HOW, err=True)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
