"""The command line, of which one process meets a fault after its second epoch.

FAULT says which: "killed", "hangs" (for ever, answering nobody) or "slow" (from then on, each of
its epochs takes half a second more). FAULTY says which process.
"""

import os
import signal
import time

from ordinalrbm.__main__ import run
from ordinalrbm.training.checkpoint import CheckpointWriter

FAULTS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hangs": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "slow": lambda: time.sleep(0.5),
}


def let_it_happen(fault):
    after = CheckpointWriter.after

    def disturbed(writer, learner, state=None):
        after(writer, learner, state)
        if len(learner.history) >= 2:
            fault()

    CheckpointWriter.after = disturbed


if __name__ == "__main__":
    if os.environ["RANK"] == os.environ.get("FAULTY"):
        let_it_happen(FAULTS[os.environ["FAULT"]])
    run()
