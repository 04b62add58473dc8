#!/usr/bin/env python3
"""A training as a run of Weights & Biases: starts the command, and passes metrics.jsonl and the last line on to it.

    wandb_trial.py dtrain_main FLAGS…        called by `wandb agent`; ends as the training ends
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import wandb


def new_points(path: Path, done: int) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]][done:]


def main() -> int:
    run = wandb.init()
    folder = Path("runs") / f"wandb-{run.id}"
    training = subprocess.Popen([*sys.argv[1:], f"--run_dir={folder}"])
    signal.signal(signal.SIGTERM, lambda *_: training.terminate())  # the agent stops the training this way; it saves first
    sent, over = 0, False
    while not over:
        over = training.poll() is not None
        for point in new_points(folder / "metrics.jsonl", sent):
            sent += 1
            kind = point.pop("kind")
            run.log({(f"val_{name}" if kind == "val" and name not in ("step", "epoch") else name): value
                     for name, value in point.items() if value is not None})
        if not over:
            time.sleep(1)
    if training.returncode == 0:
        run.summary.update(json.loads((folder / "result.json").read_text(encoding="utf-8")))
    run.finish(exit_code=training.returncode)
    return training.returncode


if __name__ == "__main__":
    sys.exit(main())
