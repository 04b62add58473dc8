#!/usr/bin/env python3
"""A training as a run of Weights & Biases: starts the command, and passes metrics.jsonl and the last line on to it.

    wandb_trial.py dtrain_main FLAGS…        called by `wandb agent`; ends as the training ends
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import wandb

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from safe_files import is_number, read_object  # noqa: E402
from sweeps.points import Points  # noqa: E402

MOST_BYTES = 1 << 20  # of result.json


def main() -> int:
    run = wandb.init()
    folder = Path("runs") / f"wandb-{run.id}"
    training = subprocess.Popen([*sys.argv[1:], f"--run_dir={folder}"])
    signal.signal(signal.SIGTERM, lambda *_: training.terminate())  # the agent stops the training this way; it saves first
    points, sent, over = Points(folder / "metrics.jsonl", {"train", "val", "epoch"}), 0, False
    while not over:
        over = training.poll() is not None
        for point in points.read()[sent:]:
            sent += 1
            prefix = "val_" if point["kind"] == "val" else ""
            run.log({name if name in ("step", "epoch") else prefix + name: value for name, value in point.items() if name != "kind"})
        if not over:
            time.sleep(1)
    if training.returncode == 0:
        result = read_object(folder / "result.json", MOST_BYTES)
        run.summary.update({name: value for name, value in result.items() if is_number(value)})
    run.finish(exit_code=training.returncode)
    return training.returncode


if __name__ == "__main__":
    sys.exit(main())
