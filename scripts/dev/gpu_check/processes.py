"""How a check can fail, and how a process is ended."""

import os
import signal
import subprocess

LAST_WORDS = 1500


class Failed(Exception):
    """The result of a check is not as it should be, or could not be found out."""


class LeftOut(Exception):
    """This machine lacks something that the check needs; the text names it."""


class NoTime(LeftOut):
    """The time of the part is up."""

    def __init__(self, what: str = ""):
        super().__init__(f"no time is left{what and f': {what} was still running'}")


def end(process: subprocess.Popen) -> None:
    """Ends a process that leads a session of its own, with all its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
