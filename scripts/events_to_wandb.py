#!/usr/bin/env python3
"""Passes a training on to Weights & Biases while it runs:

    dtrain_main … --on_event='scripts/events_to_wandb.py --project=NAME'

A training that resumes in its run directory goes on with the same run there, and one that begins anew is a new one. Needs
`pip install wandb`, and its login.
Exit codes: 0 done · 2 usage, or wandb is missing or refuses.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from run_events import follow, numbers, package, result_of
from safe_files import Parser, exit_code, read_bounded

LETTERS_OF_AN_ID = 16
MOST_BYTES = 1 << 20


def identity(folder: Path) -> str:
    """Returns what tells the run from others: its folder, and the config.json of its last start from step 0, or of its first
    one, which has the time and the machine."""
    starts = sorted((folder / "attempts").glob("*-from-step-*.json"), key=lambda file: (len(file.name), file.name))
    first = [file for file in starts if file.name.endswith("-000000000.json")][-1:] or starts[:1]
    content = read_bounded(first[0], MOST_BYTES) if first else b""
    return hashlib.sha256(bytes(folder) + content).hexdigest()[:LETTERS_OF_AN_ID]


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", help="name of the project (default: wandb's own)")
    parser.add_argument("--entity", help="user or team (default: wandb's own)")
    arguments = parser.parse_args()
    wandb = package("wandb")

    def start(event: dict):
        folder = Path(str(event.get("run_dir", ""))).absolute()
        return wandb.init(project=arguments.project, entity=arguments.entity, id=identity(folder), name=folder.name, resume="allow",
                          config=event.get("config"))

    def log(run, event: dict) -> None:
        run.log({**numbers(event), "epoch": event.get("epoch")}, step=event.get("step"))

    def end(run, event: dict) -> None:
        run.summary.update(result_of(event))
        run.finish(exit_code=0 if event.get("finished") is True else 1)

    return follow(wandb, start, log, end)


if __name__ == "__main__":
    sys.exit(exit_code(main))
