"""``python -m ordinalrbm`` is the command line."""

from ordinalrbm.cli import app

if __name__ == "__main__":
    app(prog_name="ordinalrbm")
