"""``python -m ordinalrbm`` is the command line."""

import gc
import os
import signal
import sys


def run() -> None:
    """Run the program; Ctrl-C while it is still being loaded ends it like any later one."""
    _open_standard_streams()
    try:
        from ordinalrbm.cli import app

        app(prog_name="ordinalrbm")
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    finally:
        # All is said and written: Ctrl-C while Python tidies up would only show a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Nor need it look for garbage among all that libraries have made, most of a second long.
        gc.freeze()


def _open_standard_streams() -> None:
    """Put nothing in the place of streams that were closed (``>&-``).

    Else the next file that is opened would get the number of standard output or error, and what is
    said would be written into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:  # something else has taken its place already
                os.dup2(nowhere, number)
                os.close(nowhere)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


if __name__ == "__main__":
    run()
