#!/usr/bin/env python3
"""Passes a training on to MLflow while it runs:

    MLFLOW_TRACKING_URI=… dtrain_main … --on_event='scripts/events_to_mlflow.py --experiment=NAME'

Each start of the training is a run there; --run_id=ID goes on with an earlier one. Needs `pip install mlflow`.
Exit codes: 0 done · 2 usage, or mlflow is missing or refuses.
"""

import argparse
import json
import sys
from pathlib import Path

from run_events import follow, numbers, package, result_of
from safe_files import Parser, exit_code

MOST_PARAMETERS = 100     # in one call
LONGEST_PARAMETER = 500   # letters


def log_configuration(mlflow, config: dict) -> None:
    texts = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in config.items()]
    for first in range(0, len(texts), MOST_PARAMETERS):
        mlflow.log_params({name: text[:LONGEST_PARAMETER] for name, text in texts[first:first + MOST_PARAMETERS]})


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", help="name of the experiment (default: MLflow's own)")
    parser.add_argument("--run_id", help="a run to go on with")
    arguments = parser.parse_args()
    mlflow = package("mlflow")

    def start(event: dict):
        if arguments.experiment:
            mlflow.set_experiment(arguments.experiment)
        folder = str(event.get("run_dir", ""))
        run = mlflow.start_run(run_id=arguments.run_id, run_name=Path(folder).name)
        mlflow.set_tag("dtrain.run_dir", folder)
        if not arguments.run_id and isinstance(event.get("config"), dict):
            log_configuration(mlflow, event["config"])
        return run

    def log(_, event: dict) -> None:
        mlflow.log_metrics(numbers(event), step=event.get("step"))

    def end(_, event: dict) -> None:
        mlflow.log_metrics(result_of(event))
        mlflow.end_run("FINISHED" if event.get("finished") is True else "FAILED")

    return follow(mlflow, start, log, end)


if __name__ == "__main__":
    sys.exit(exit_code(main))
