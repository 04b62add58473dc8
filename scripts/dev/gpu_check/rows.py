"""The rows of a check, the most wanted first. Each result is written down as soon as it is there."""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable

from processes import LeftOut
from programs import Machine


@dataclass
class Row:
    name: str
    # The most time that the row takes on a GPU. It is not begun if less is left of its part's time, but for --smoke.
    seconds: float
    # Returns "text" and any other results worth keeping. A failure is "ok" False or an exception.
    run: Callable[[], dict]


class Report:
    """All results so far. They are written to disk after every row, so they survive this process."""

    def __init__(self, path: Path, header: dict):
        self.path = path
        self.content = header | {"rows": []}
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")

    def run_part(self, part: str, rows: Iterable[Row], machine: Machine, minutes: float) -> None:
        machine.begin_part(minutes)
        for row in rows:
            self.add(part, row, float("inf") if machine.smoke else machine.seconds_left())

    def add(self, part: str, row: Row, left: float) -> None:
        began = time.monotonic()
        entry = {"part": part, "name": row.name}
        if left < row.seconds:
            entry |= {"left_out": f"no time: {max(0.0, left):.0f} s left, {row.seconds:.0f} s needed"}
        else:
            try:
                entry |= {"ok": True} | row.run()
            except LeftOut as reason:
                entry |= {"left_out": str(reason)}
            except Exception as error:  # the other rows still run
                entry |= {"ok": False, "text": f"{type(error).__name__}: {error}"}
        entry["seconds"] = round(time.monotonic() - began, 1)
        self.content["rows"].append(entry)
        self.write()
        print(line_of(entry), file=sys.stderr, flush=True)

    def ok(self) -> bool:
        """Returns whether something was checked and nothing is wrong."""
        looked_at = [row for row in self.content["rows"] if "left_out" not in row]
        return bool(looked_at) and all(row["ok"] for row in looked_at)


def line_of(row: dict) -> str:
    if "left_out" in row:
        return f"{row['part']:7} {row['name']}: left out: {row['left_out']}"
    state = "" if row["ok"] else "NOT OK "
    return f"{row['part']:7} {row['name']}: {state}{row.get('text', '')} ({row['seconds']} s)"
