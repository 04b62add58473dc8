#!/usr/bin/env python3
"""Passes a training on to Weights & Biases while it runs:

    dtrain_main … --on_event='scripts/events_to_wandb.py --project=NAME'

A training that resumes in its run directory goes on with the same run there. Needs `pip install wandb`, and its login.
Exit codes: 0 done · 2 usage, or wandb is missing or refuses.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from run_events import follow, numbers, package, result_of
from safe_files import Parser, exit_code

LETTERS_OF_AN_ID = 16


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", help="name of the project (default: wandb's own)")
    parser.add_argument("--entity", help="user or team (default: wandb's own)")
    arguments = parser.parse_args()
    wandb = package("wandb")

    def start(event: dict):
        folder = Path(str(event.get("run_dir", ""))).absolute()
        identity = hashlib.sha256(str(folder).encode()).hexdigest()[:LETTERS_OF_AN_ID]
        return wandb.init(project=arguments.project, entity=arguments.entity, id=identity, name=folder.name, resume="allow",
                          config=event.get("config"))

    def log(run, event: dict) -> None:
        run.log({**numbers(event), "epoch": event.get("epoch")}, step=event.get("step"))

    def end(run, event: dict) -> None:
        run.summary.update(result_of(event))
        run.finish(exit_code=0 if event.get("finished") is True else 1)

    return follow(wandb, start, log, end)


if __name__ == "__main__":
    sys.exit(exit_code(main))
