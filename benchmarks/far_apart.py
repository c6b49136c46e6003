"""Two processes of one run in networks of their own, with a slow and lossy line between them.

    python benchmarks/far_apart.py --delay 20 --loss 1 -- python -m ordinalrbm fit ...

The command is started twice, as torchrun would on two machines, and its exit status is the larger
of both. Nobody else can reach these networks, and they are gone when the program has ended. Linux
only, and only for root. The line is a program between two TUN devices, because not every kernel has
netem: each packet is late by --delay milliseconds, one way, and lost with a chance of --loss per
cent. With --told-by FILE, both are what stands in the file, which may change while the processes
run ("20 1"). The last line on standard error says how many packets and bytes went over it.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_NAME_IT = 0x400454CA  # TUNSETIFF
_PACKETS_ONLY = 0x0001 | 0x1000  # IFF_TUN | IFF_NO_PI
_DEVICE = "orbm0"
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
_PORT = "29400"  # nobody else has these networks, so that it is free
_LARGEST = 65536


class Late(NamedTuple):
    """A packet on its way."""

    due: float
    there: int
    packet: bytes


class Line:
    """What goes between two devices."""

    def __init__(self, delay: float, loss: float, told_by: Path | None = None) -> None:
        self.delay, self.loss, self.told_by = delay / 1e3, loss / 100, told_by
        self.chance, self.looked_at = random.Random(0), 0.0
        self.on_their_way: deque[Late] = deque()
        self.packets = self.bytes = self.lost = 0

    def take(self, packet: bytes, there: int) -> None:
        self.packets += 1
        self.bytes += len(packet)
        if self.chance.random() < self.loss:
            self.lost += 1
            return
        self.on_their_way.append(Late(time.monotonic() + self.delay, there, packet))

    def look(self) -> None:
        """See what is told of the line, some times a second."""
        if self.told_by is None or time.monotonic() < self.looked_at + 0.1:
            return
        self.looked_at = time.monotonic()
        if self.told_by.exists():
            delay, loss = self.told_by.read_text().split()
            self.delay, self.loss = float(delay) / 1e3, float(loss) / 100

    def deliver(self) -> None:
        while self.on_their_way and self.on_their_way[0].due <= time.monotonic():
            _, there, packet = self.on_their_way.popleft()
            os.write(there, packet)

    def wait(self) -> float:
        """Seconds until the next packet is due, or somebody should look around."""
        if not self.on_their_way:
            return 0.05
        return min(0.05, max(0.0, self.on_their_way[0].due - time.monotonic()))


def enter_new_network(address: str) -> int:
    """Move to a network with nothing but a device of this address; returns its other end."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network of one's own")
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, _NAME_IT, struct.pack("16sH", _DEVICE.encode(), _PACKETS_ONLY))
    for command in (
        f"addr add {address}/24 dev {_DEVICE}",
        f"link set {_DEVICE} txqueuelen 10000 up",
        "link set lo up",
    ):
        subprocess.run(["ip", *command.split()], check=True, capture_output=True)
    return end


def can_be_far_apart() -> bool:
    """Whether this machine lets us have networks of our own, tried in another process."""
    code = "import far_apart; far_apart.enter_new_network('10.77.0.1')"
    here = os.path.dirname(os.path.abspath(__file__))
    tried = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True)
    return tried.returncode == 0


def as_rank(rank: int) -> dict[str, str]:
    """What torchrun would tell this process of two, each on a machine of its own."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": _ADDRESSES[0],
        "MASTER_PORT": _PORT,
        "GLOO_SOCKET_IFNAME": _DEVICE,
    }


def run(command: list[str], line: Line) -> int:
    """Start both processes, and carry packets until both have ended."""
    ends, processes = [], []
    for rank, address in enumerate(_ADDRESSES):
        ends.append(enter_new_network(address))
        processes.append(subprocess.Popen(command, env=os.environ | as_rank(rank)))
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while any(process.poll() is None for process in processes):
        for end in select.select(ends, [], [], line.wait())[0]:
            line.take(os.read(end, _LARGEST), other[end])
        line.deliver()
        line.look()
    return max(abs(process.returncode) for process in processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds, one way")
    parser.add_argument("--loss", type=float, default=0.0, help="per cent of all packets")
    parser.add_argument("--told-by", type=Path, metavar="FILE", help="delay and loss")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    line = Line(given.delay, given.loss, given.told_by)
    status = run([word for word in given.command if word != "--"], line)
    print(f"{line.packets} packets, {line.lost} lost, {line.bytes} bytes", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
