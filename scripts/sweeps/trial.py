"""One training of a sweep: its process, its validations, and the meaning of its end."""

import ctypes
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import optuna

KILL_AFTER_SECONDS = 120  # for a trial that was told to stop, because a large model takes a while to save
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class Running:
    def __init__(self, trial: optuna.Trial, lock: int, command: list[str], folder: Path, cores: list[int], gpus: list[str]):
        self.trial, self._lock = trial, lock
        self.run_dir = folder / f"trial-{trial.number:04}"
        self.log = folder / f"trial-{trial.number:04}.log"
        self.pruned_at = None  # the validation after which it was told to stop
        self._told_at = None
        self._validations = len(self._points())
        environment = {**os.environ, "RUN_DIR": str(self.run_dir)}
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)

        def prepare():
            """Runs in the child: it stops, and saves, if the sweep dies; and it keeps to its share of the cores."""
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if cores:
                os.sched_setaffinity(0, cores)

        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*command, f"--run_dir={self.run_dir}"], stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=subprocess.STDOUT, env=environment, pass_fds=(lock,),
                                             start_new_session=True, preexec_fn=prepare)

    def code(self) -> int | None:
        """Returns the exit code once the training has ended, and None before. Releases the lock then."""
        code = self._process.poll()
        if code is None and self._told_at and time.monotonic() - self._told_at > KILL_AFTER_SECONDS:
            self._process.kill()
        if code is not None and self._lock is not None:
            os.close(self._lock)
            self._lock = None
        return code

    def stop(self) -> None:
        if self._told_at is None and self._process.poll() is None:
            self._told_at = time.monotonic()
            self._process.terminate()

    def watch(self, metric: str) -> None:
        """Reports new validations to the study, and stops the training if the pruner says so. The n-th validation is
        step n."""
        points = self._points()
        for number in range(self._validations, len(points)):
            value = points[number].get(metric)
            if isinstance(value, (int, float)):
                self.trial.report(value, number + 1)
        if len(points) > self._validations and self.pruned_at is None and self._told_at is None and self.trial.should_prune():
            self.pruned_at = len(points)
            self.stop()
        self._validations = max(self._validations, len(points))

    def _points(self) -> list[dict]:
        try:
            text = (self.run_dir / "metrics.jsonl").read_text(encoding="utf-8")
        except OSError:
            return []
        points = [json.loads(line) for line in text.split("\n")[:-1] if '"kind":"val"' in line]
        return [point for point in points if isinstance(point, dict)]

    def result(self) -> dict:
        try:
            return json.loads((self.run_dir / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def reason(self) -> str:
        """Returns the reason of a failure: error.json's message, else the last line of the log."""
        try:
            return json.loads((self.run_dir / "error.json").read_text(encoding="utf-8"))["message"]
        except (OSError, ValueError, KeyError, TypeError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            return lines[-1] if lines else "it said nothing"
