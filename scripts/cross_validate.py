#!/usr/bin/env python3
"""Trains K times, each time without another K-th of the samples, and predicts for these: so every sample has a prediction of
a model that has not seen it.

    scripts/cross_validate.py [--folds=5] --output=DIR -- dtrain_main FLAGS…

DIR/fold-1 … are the run directories, and DIR/out_of_fold.csv has each sample once, as --predictions writes it: sorted by
loss, it begins with what is mislabelled or hard (none of masked words and vectors of texts; without samples whose outputs
are not finite). DIR/summary.json has the mean
and the standard deviation of each metric over the folds; to choose settings by such a mean, scripts/sweep.py --average_over=val_fold. --group_pattern or --group_column keeps samples that belong together in one fold. Stopped or killed, the same
command goes on.

Exit codes: those of dtrain_main; 0 done · 2 usage · 5 disk · 75 stopped, run it again.
"""

import argparse
import csv
import io
import json
import math
import signal
import statistics
import subprocess
import sys
from pathlib import Path

from safe_files import DATA, DIVERGED, INTERNAL, PREEMPTED, Failure, Parser, exit_code, output_file, parse_json, read_bounded, replace, shown

MOST_BYTES = 1 << 30
LONGEST_CELL = 16 << 20
OWN = ("val_fold", "run_dir", "resume", "resume_from_checkpoint", "mode", "predictions", "val_fraction", "val_split", "dry_run", "print_config", "doctor")
WITHOUT_PREDICTIONS = ("masked_lm", "sentence_embedding")  # values of --task
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
OF_EACH_COMMAND = ("data_dir", "labels", "data_format", "index_dir", "workers", "backend", "nproc_per_node")  # a run keeps the rest


def parse_arguments(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    before = words[:words.index("--")] if "--" in words else words
    parser = Parser(description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=5, choices=range(2, 101), metavar="K", help="2 to 100, default 5")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the runs and of out_of_fold.csv")
    options, command = parser.parse_args(before), words[len(before) + 1:]
    if not command:
        raise Failure("there is no command after --", "scripts/cross_validate.py --output=DIR -- dtrain_main FLAGS…")
    theirs = [word for word in command if word.startswith("-") and
              word.lstrip("-").split("=")[0].replace("-", "_").removeprefix("no") in OWN]
    if theirs:
        raise Failure(f"{shown(theirs[0])} is what cross-validation sets itself", "leave it out")
    return options, command


class Commands:
    """Runs commands, one after the other. The first signal asks the one that runs to save, by SIGUSR1 (or SIGTERM for that): a second
    one of the same kind, as from schedulers that tell all processes of a job, would end it at once. It has a session of its own,
    so that a terminal's ^C reaches it by this way alone."""

    def __init__(self) -> None:
        self._child: subprocess.Popen | None = None
        self._to_pass_on: list[int] = []
        self._is_told = False
        for kind in STOPS:
            if signal.getsignal(kind) != signal.SIG_IGN:  # as nohup has it
                signal.signal(kind, self._hear)

    def _hear(self, kind: int, _) -> None:
        if not self._is_told:
            self._to_pass_on.append(signal.SIGTERM if kind == signal.SIGUSR1 else signal.SIGUSR1)
        self._is_told = True
        self._pass_on()

    def _pass_on(self) -> None:
        while self._child is not None and self._to_pass_on:
            self._child.send_signal(self._to_pass_on.pop())

    def run(self, command: list[str]) -> None:
        code = 0
        if not self._is_told:
            self._child = subprocess.Popen(command, start_new_session=True)  # noqa: S603  the user's own command
            self._pass_on()
            code = self._child.wait()
        if self._is_told and code <= 0:
            raise Failure("stopped by a signal", "the same command goes on", PREEMPTED)
        if code != 0:
            raise Failure(f"{shown(' '.join(command))} ended with {code}", "its message is above; the same command goes on",
                          code if 0 < code < 128 else INTERNAL)


def evaluate(commands: Commands, command: list[str], fold: Path) -> Path | None:
    """Evaluates on the fold's own held-out part, and returns the table of predictions if the task has any. Where the data are,
    the run knows, whoever said it: flags of other programs and files of flags are read."""
    config = parse_json(read_bounded(fold / "config.json", MOST_BYTES, DATA).decode())
    data = [f"--{name}={config[name]}" for name in OF_EACH_COMMAND if config.get(name)]
    program = next((place for place, word in enumerate(command) if Path(word).name == "dtrain_main"), 0)
    table = None if config["task"] in WITHOUT_PREDICTIONS else Path(f"{fold}.csv")
    commands.run([*command[:program + 1], "--mode=eval", f"--run_dir={fold}", *([f"--predictions={table}"] if table else []), *data])
    return table


def summary_of(each: list[float | None]) -> dict[str, object]:
    """A metric may be nothing in some folds, such as r2 of one sample."""
    known = [one for one in each if one is not None]
    return {"mean": statistics.fmean(known) if known else None,
            "standard_deviation": statistics.stdev(known) if len(known) > 1 else None, "folds": each}


def rows_of(path: Path) -> tuple[list[str], list[list[str]]]:
    text = read_bounded(path, MOST_BYTES, DATA).decode("utf-8", "surrogateescape")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return header, rows


def write_samples(table: Path, header: list[str], samples: list[list[str]]) -> None:
    """An output that is not finite has no loss, and the class beside it is no prediction."""
    loss = header.index("loss")
    losses = {place: float(row[loss] or "nan") for place, row in enumerate(samples)}
    known = sorted((place for place in losses if math.isfinite(losses[place])), key=lambda place: -losses[place])
    if not known:
        raise Failure("the models' outputs are finite for no sample", "a lower --lr, or --precision=fp32", DIVERGED)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *(samples[place] for place in known)])
    replace(table, text.getvalue())
    print(f"{len(known)} samples, each predicted once: {shown(table)}")
    if len(known) < len(samples):
        print(f"warning: the models' outputs are not finite for {len(samples) - len(known)} samples, which are left out", file=sys.stderr)


def keep_command(path: Path, folds: int, command: list[str]) -> None:
    """Folds that are finished are not trained again, so those of another command must not count as this one's."""
    asked = {"folds": folds, "command": command}
    if path.exists() and parse_json(read_bounded(path, MOST_BYTES, DATA).decode()) != asked:
        raise Failure(f"{shown(path.parent)} has the folds of another command, which {shown(path)} says", "name another --output")
    replace(path, json.dumps(asked) + "\n")


def main() -> int:
    csv.field_size_limit(LONGEST_CELL)
    options, command = parse_arguments(sys.argv[1:])
    options.output.mkdir(parents=True, exist_ok=True)
    table, numbers = options.output / "out_of_fold.csv", options.output / "summary.json"
    output_file(table, [".csv"], [], b",prediction,loss")
    output_file(numbers, [".json"], [], b'"standard_deviation"')
    output_file(options.output / "command.json", [".json"], [], b'{"folds"')
    keep_command(options.output / "command.json", options.folds, command)
    header, samples, results, commands = [], [], [], Commands()
    for number in range(1, options.folds + 1):
        fold = options.output / f"fold-{number}"
        print(f"fold {number} of {options.folds}: {shown(fold)}", flush=True)
        commands.run([*command, f"--val_fold={number}/{options.folds}", f"--run_dir={fold}", "--resume=auto"])
        if predicted := evaluate(commands, command, fold):
            header, rows = rows_of(predicted)
            samples += rows
        results.append(parse_json(read_bounded(fold / "eval-held_out" / "result.json", MOST_BYTES, DATA).decode()))
    if samples:
        write_samples(table, header, samples)
    summary = {name: summary_of([one[name] for one in results]) for name in results[0] if name.startswith("val_")}
    replace(numbers, json.dumps(summary, indent=2) + "\n")
    print(" ".join(f"{name}={one['mean']:.4g}" + (f"±{one['standard_deviation']:.2g}" if one["standard_deviation"] is not None else "") for name, one in summary.items()
                   if one["mean"] is not None))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
