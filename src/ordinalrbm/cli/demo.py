"""``ordinalrbm demo``: a survey about food."""

from pathlib import Path
from typing import Annotated

from ordinalrbm.cli import options
from ordinalrbm.cli.app import app


@app.command(epilog="\b\nExample:\n  ordinalrbm demo --out food.html")
def demo(
    out: Annotated[Path, options.out_option("The file of the report.")] = Path("ordinalrbm-demo.html"),
) -> None:
    """Learn tastes from a survey about food, and report them.

    Hides some answers and predicts them, prints the factors that it has learnt, recommends, and
    writes a report to open in a browser. Needs no data and no network, and takes less than a minute.
    """
    from ordinalrbm.cli import demo_run

    demo_run.run(out)
