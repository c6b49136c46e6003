"""``python -m ordinalrbm`` is the command line."""

import signal
import sys


def run() -> None:
    """Run the program; Ctrl-C while it is still being loaded ends it like any later one."""
    try:
        from ordinalrbm.cli import app

        app(prog_name="ordinalrbm")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    finally:
        # All is said and written: Ctrl-C while Python tidies up would only show a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    run()
