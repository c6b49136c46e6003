"""``python -m ordinalrbm`` is the command line."""

import contextlib
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
    except SystemExit as leaving:
        _leave_at_once_if_in_a_group(leaving.code)
        raise
    finally:
        # All is said and written: Ctrl-C while Python tidies up would only show a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Nor need it look for garbage among all that libraries have made, most of a second long.
        gc.freeze()


def _leave_at_once_if_in_a_group(code: object) -> None:
    """End without tearing Python down where other processes of a run may be lost.

    Threads of torch still wait for these then, and one of them can abort the process when it meets
    an interpreter that is gone. After a success there is no group any more.
    """
    process_group = sys.modules.get("ordinalrbm.runtime.process_group")  # there may be no memory for more
    if process_group is not None and process_group.current() is not None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code if isinstance(code, int) else 1)


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
