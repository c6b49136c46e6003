"""``ordinalrbm demo``: a survey about food."""

from pathlib import Path
from typing import Annotated

from ordinalrbm.cli import options
from ordinalrbm.cli.app import app


@app.command(epilog="\b\nExample:\n  ordinalrbm demo --out pictures")
def demo(
    out: Annotated[
        Path, options.out_option("The folder of the report and pictures; made if need be.", "FOLDER")
    ] = Path("ordinalrbm-demo"),
) -> None:
    """Learn tastes from a survey about food, and draw them.

    Hides some answers and predicts them, says in words what it has learnt, and saves a report to
    open in a browser and two pictures. Needs no data and no network, and takes less than a minute.
    """
    from ordinalrbm.cli import demo_run

    demo_run.run(out)
