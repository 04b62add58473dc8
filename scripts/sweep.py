#!/usr/bin/env python3
"""Searches for the best values of flags: runs dtrain_main many times, each time with other ones.

    scripts/sweep.py --space=FILE.yaml --trials=N [--sampler=grid|random|tpe] [--jobs=N] [--study=URL] [--output=DIR]
                     [--at_most=N] [--prune] [--seed=N] [--average_over=FLAG] -- dtrain_main FLAGS…

FILE.yaml says which flags vary and what is best (scripts/sweeps/space.py; scripts/sweeps/examples/digits.yaml). The
command may begin with a launcher (torchrun --no-python … dtrain_main FLAGS…). Of each trial DIR keeps the run directory
trial-0000 and what was printed, trial-0000.log; of all together best.json, trials.csv, parallel_coordinates.png and
history.png.

Stopped or killed, the same command goes on: trials that were under way continue from their last checkpoint. The same
command on several machines with the same DIR shares the trials (arrays of Slurm, Batch and Kubernetes: scripts/aws). A
training that diverges or runs out of memory is a result; so is one that --prune stops because its validations are worse
than the median of the trials before.

Exit codes: 0 done · 2 usage · 3 data · 4 the database of --study was lost · 5 disk: free space, and run it again · 70 a bug · 75 stopped, run it again. Where
no trial of a whole sweep has finished: the last one's.
Needs scripts/requirements.txt.
"""

import argparse
import importlib.util
import os
import shlex
import signal
import sys
import time
from pathlib import Path

import safe_files
from safe_files import Failure, shown

try:
    if importlib.util.find_spec("matplotlib") is None:  # takes a second to load, and only the end needs it
        raise ModuleNotFoundError(name="matplotlib")
    from optuna.exceptions import StorageInternalError
    from optuna.trial import TrialState

    from sweeps import machine
    from sweeps.machine import Share
    from sweeps.options import parse_arguments
    from sweeps.program import Command
    from sweeps.space import Space, as_flag_value, read_space
    from sweeps.study import Study
    from sweeps.trial import Running, run_dir_of
except ModuleNotFoundError as error:
    print(f"error: Python has no {error.name}\n  what to do: {sys.executable} -m pip install -r {Path(__file__).with_name('requirements.txt')}\n"
          "  If that is refused, as Debian's own Python does: python3 -m venv tools, and the same with tools/bin/python", file=sys.stderr)
    sys.exit(2)

POLL_SECONDS = 0.1
MOST_ATTEMPTS = 3           # tries of a trial whose machine or process was lost
FAILURES_IN_A_ROW = 3       # equal failures in a row that do not come from the values: the next trial would fail, too
PATIENCE_SECONDS = 60       # seconds to wait for trials that other processes hold, when nothing else is left to do
LONGEST_MESSAGE = 300
MOST_AVERAGES = 10           # shown; averages.csv has all


def say(text: str) -> None:
    print(shown(text), flush=True)


def validation_key(metric: str) -> str | None:
    """Returns the name that a key of result.json has in the validations of metrics.jsonl."""
    return next((metric.removeprefix(start) for start in ("val_", "best_") if metric.startswith(start)), None)


def is_of_database(error: BaseException) -> bool:
    """SQLAlchemy is only there, and only imported, for studies in databases."""
    return type(error).__module__.startswith("sqlalchemy") or isinstance(error, StorageInternalError)


class Sweep:
    """The loop of one worker. It runs as many trainings at a time as allowed, until the study has enough trials."""

    def __init__(self, study: Study, space: Space, command: Command, shares: list[Share], arguments: argparse.Namespace):
        self._study, self._space, self._command, self._arguments = study, space, command, arguments
        self._free = shares
        self._running: list[tuple[Running, Share]] = []
        self._attempts: dict[int, int] = {}
        self._begun = 0
        self._same_failures = (0, 0)  # exit code, how often in a row
        self._told = False            # by a signal
        self._stopping = 0            # the code to end with, once no more trial is begun

    def stop(self, *_) -> None:
        """The handler of signals; the loop does what it asks for."""
        self._told = True

    def _stop(self, code: int, why: str) -> None:
        if not self._stopping:
            say(f"stopping: {why}; the same command goes on with them")
        self._stopping = self._stopping or code
        for running, _ in self._running:
            running.stop()

    def run(self) -> int:
        try:
            return self._run()
        except BaseException as error:  # above all a full disk: the trainings save if they can, and are not left behind
            for running, _ in self._running:
                running.stop()
            while any(running.code() is None for running, _ in self._running):
                time.sleep(POLL_SECONDS)
            if is_of_database(error):
                raise Failure(f"the study was lost: {safe_files.why(error)[:LONGEST_MESSAGE]}",
                              "run the same command again once the database answers: it goes on", safe_files.PEER_LOST) from None
            raise

    def _run(self) -> int:
        idle_since = None
        while True:
            if self._told:
                self._stop(safe_files.PREEMPTED, "the trainings are told to save")
            while self._free and not self._stopping and not self._told and self._begin():
                pass
            if not self._running:
                if self._stopping:
                    return self._stopping
                held = self._study.running_elsewhere()
                idle_since = idle_since or time.monotonic()
                if not held or self._may_not_begin() or time.monotonic() - idle_since > PATIENCE_SECONDS:
                    if held:
                        say(f"still under way in other processes: {', '.join(f'trial {one}' for one in held)}")
                    return 0
            else:
                idle_since = None
            time.sleep(POLL_SECONDS if self._running else 1)
            self._look()

    def _may_not_begin(self) -> bool:
        return self._arguments.at_most is not None and self._begun >= self._arguments.at_most

    def _begin(self) -> bool:
        if self._may_not_begin():
            return False
        found = self._study.next(self._arguments.trials)
        if found is None:
            return False
        trial, lock = found
        self._begun += 1
        share = self._free.pop(0)
        params = " ".join(f"{name}={as_flag_value(value)}" for name, value in trial.params.items())
        goes_on = run_dir_of(self._arguments.output, trial.number).exists()
        try:
            running = Running(trial, lock, self._command, self._arguments.output, share)
        except BaseException:
            os.close(lock)
            raise
        say(f"trial {trial.number}: {params}" + (" (goes on)" if goes_on else ""))
        self._running.append((running, share))
        return True

    def _look(self) -> None:
        key = validation_key(self._space.metric)
        for running, share in list(self._running):
            code = running.code()
            if key is not None:
                running.watch(key)
            if code is not None:
                self._running.remove((running, share))
                self._free.append(share)
                try:
                    self._end(running, code)
                finally:
                    running.release()

    def _end(self, running: Running, code: int) -> None:
        trial, number = running.trial, running.trial.number
        value = running.value(self._space.metric) if code == 0 else None
        if value is not None:
            self._tell(trial, TrialState.COMPLETE, f"{self._space.metric} {value:.6g}", value, outcome="finished", exit_code=0)
        elif code == 0:
            self._tell(trial, TrialState.FAIL, f"its result.json has no number {self._space.metric}", outcome="failed",
                       exit_code=safe_files.USAGE, reason=f"no {self._space.metric} in result.json")
        elif running.pruned_at is not None:
            self._tell(trial, TrialState.PRUNED, f"pruned after validation {running.pruned_at}", outcome="pruned",
                       exit_code=code)
        elif code == safe_files.PREEMPTED:
            self._stop(code, f"trial {number} was told to save")
        elif code == safe_files.DISK:
            # Says nothing about the trial's values, and the next one would find the same disk.
            say(f"trial {number}: {running.reason()}; see {running.log}")
            self._stop(code, "free space")
        elif code in (safe_files.DIVERGED, safe_files.OUT_OF_MEMORY):
            # Optuna is told that it was pruned, so that its values count as bad ones; a failed trial would not count at
            # all.
            word = "diverged" if code == safe_files.DIVERGED else "out of memory"
            self._tell(trial, TrialState.PRUNED, word, outcome=word, exit_code=code, reason=running.reason())
        elif self._stopping in (safe_files.PREEMPTED, safe_files.DISK):
            say(f"trial {number}: ended with {code}")
        elif (code < 0 or code == safe_files.PEER_LOST) and self._attempts.get(number, 0) + 1 < MOST_ATTEMPTS:
            self._attempts[number] = self._attempts.get(number, 0) + 1
            self._begun -= 1
            say(f"trial {number}: lost ({code}), is begun again; see {running.log}")
        else:
            reason = running.reason()
            self._tell(trial, TrialState.FAIL, f"failed ({code}): {reason}", outcome="failed", exit_code=code, reason=reason)

    def _tell(self, trial, state: TrialState, words: str, value: float | None = None, **facts) -> None:
        self._study.tell(trial, state, value, **facts)
        say(f"trial {trial.number}: {words}")
        if state != TrialState.FAIL:
            self._same_failures = (0, 0)
            return
        code = facts["exit_code"]
        times = self._same_failures[1] + 1 if self._same_failures[0] == code else 1
        self._same_failures = (code, times)
        if times == FAILURES_IN_A_ROW:
            say(f"{times} trials in a row failed with {code}: no more are begun")
            self._stopping = code if 0 < code < 128 else safe_files.INTERNAL


def report(study: Study, space: Space, command: Command, folder: Path, average_over: str | None = None) -> int:
    """Writes the folder's summary files. Returns 0 if there is a best trial, else the exit code of the last failure."""
    from sweeps import results  # Matplotlib takes a second to load, for which a refusal need not wait.

    trials, best = study.trials(), study.best()
    averages = results.averages(trials, space, average_over) if average_over else []
    if averages:
        best = averages[0].typical()
        results.write_averages(folder, averages, space)
    found = results.write_best(folder, best, space, command, averages) if best is not None else {}
    results.write_table(folder, trials, space)
    results.draw(folder, trials, space)
    counts: dict[str, int] = {}
    for one in trials:
        counts[results.outcome(one)] = counts.get(results.outcome(one), 0) + 1
    say(f"{len(trials)} trials: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    if best is None:
        say("no trial has finished")
        codes = [code for code in map(results.exit_code, trials) if code]
        return codes[-1] if codes and 0 < codes[-1] < 128 else 0
    for one in averages[:MOST_AVERAGES]:
        say(f"  {one.text(space.metric)}")
    say(f"best: {'of its mean, shown by ' if averages else ''}trial {best.number}, {folder}/best.json")
    say(f"  {found['command']}")
    say(f"{space.metric}={best.value:.6g} " + " ".join(f"{name}={shlex.quote(as_flag_value(value))}"
                                                       for name, value in best.params.items()))
    return 0


def main() -> int:
    arguments, words = parse_arguments(sys.argv[1:], __doc__)
    command = Command.parse(words, arguments.program)
    space = read_space(arguments.space, command.kinds())
    if arguments.prune and validation_key(space.metric) is None:
        raise Failure(f"--prune needs validations, and {space.metric} is not one of their results",
                      "choose a metric whose name begins with val_, or leave --prune out")
    if arguments.average_over and (arguments.average_over not in space.distributions or arguments.sampler != "grid"):
        raise Failure(f"--average_over={arguments.average_over} needs a list of its values in the space, and --sampler=grid",
                      f"write {shown(arguments.average_over)}: [0, 1, 2] among the flags of the space")
    cores = sorted(os.sched_getaffinity(0))
    shares = machine.shares(arguments.jobs, cores, machine.gpus() if arguments.jobs > 1 else [], machine.threads(cores))
    command.check(space, arguments.output, shares[0].environment())
    space = space.directed(command.smaller_is_better)
    study = Study(arguments.study, arguments.output, space, command.flags, arguments.sampler, arguments.seed, arguments.prune)
    sweep = Sweep(study, space, command, shares, arguments)
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(one, sweep.stop)
    code = sweep.run()
    found = report(study, space, command, arguments.output, arguments.average_over)
    # A task of an array has succeeded even if its own trial diverged.
    return code or (0 if arguments.at_most else found)


if __name__ == "__main__":
    sys.exit(safe_files.exit_code(main))
