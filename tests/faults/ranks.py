"""Ranks that are started one by one, as on several machines, so that no launcher cleans up after them."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

from command import TINY, Background, Outcome, free_port, wait_until
from matrix import measured

# 2 ranks, 8 images each in a step, every step logged.
FLAGS = (*TINY, "--batch_size=8", "--init_timeout=30", "--comm_timeout=30")


class Ranks:
    """Leaving the `with` block kills all ranks. `own` has further flags of single ranks, by rank, and `env` the variables
    of rank 0."""

    def __init__(self, *flags, world: int = 2, own: dict | None = None, port: int | None = None, only=None, base=FLAGS,
                 env: dict | None = None):
        port = port or free_port()
        self.began = time.monotonic()
        self.processes = {
            rank: Background(*base, *flags, f"--rank={rank}", f"--world_size={world}", "--master_addr=127.0.0.1",
                             f"--master_port={port}", *(own or {}).get(rank, ()), env=env if rank == 0 else None)
            for rank in (range(world) if only is None else only)
        }

    def __enter__(self) -> "Ranks":
        self._stack = ExitStack()
        for process in self.processes.values():
            self._stack.enter_context(process)
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()

    def __getitem__(self, rank: int) -> Background:
        return self.processes[rank]

    def signal(self, rank: int, number: int) -> float:
        """Sends a signal. Returns the time of the monotonic clock."""
        os.kill(self[rank].pid, number)
        return time.monotonic()

    def outcomes(self, since: float, within: float, ranks=None, margin: float = 10) -> dict[int, Outcome]:
        """Waits until `ranks` (default: all) have ended, which must take at most `within` seconds. A busy machine gets
        a margin, and the measured time is printed."""
        found = {}
        for rank in ranks if ranks is not None else self.processes:
            found[rank] = self[rank].wait(timeout=max(1, since + within + margin + 30 - time.monotonic()))
        seconds = time.monotonic() - since
        print(f"\nmeasured: ended {seconds:.2f} s after the fault (bound: {within} s)")
        measured(seconds)
        assert seconds < within + margin, found
        return found


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "T"


def stop(process: Background) -> float:
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(process.pid), "the process to be stopped")
    return time.monotonic()
