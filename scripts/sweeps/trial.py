"""One training of a sweep: its process, its validations, and the meaning of its end."""

import ctypes
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import optuna

from safe_files import (DATA, DISK, DIVERGED, INTERNAL, OUT_OF_MEMORY, PEER_LOST, PREEMPTED, USAGE, Failure, is_number, open_regular,
                        read_object, shown, why)
from sweeps.machine import Share
from sweeps.points import Points
from sweeps.program import Command

KILL_AFTER_SECONDS = 120  # for a trial that was told to stop, because a large model takes a while to save
FAILURES = (USAGE, DATA, PEER_LOST, DISK, DIVERGED, OUT_OF_MEMORY, INTERNAL)
TOLD_TO_SAVE = re.compile(rb'exit[_ ]code(": ?| )75\b')  # in the log, as nothing else tells of a stop
PR_SET_PDEATHSIG = 1
MOST_BYTES = 1 << 20  # of result.json and error.json
LAST_BYTES = 1 << 16  # of a log
LONGEST_REASON = 300
# Variables that decide about a result's bits. OMP_NUM_THREADS is set unless the caller has set it.
DECISIVE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "NVIDIA_TF32_OVERRIDE",
            "CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES")
libc = ctypes.CDLL(None)


def run_dir_of(folder: Path, number: int) -> Path:
    return folder / f"trial-{number:04}"


def environment_of(trial) -> dict[str, str]:
    """Returns the decisive variables that the trial ran with."""
    kept = trial.user_attrs.get("environment")
    kept = kept if isinstance(kept, dict) else {}
    return {name: value for name, value in kept.items() if name in DECISIVE and isinstance(value, str) and shown(value) == value}


def settings(trial, share: Share, command: Command) -> dict[str, str]:
    """Returns the decisive variables of a trial. One that goes on keeps its number of threads if the share has so many."""
    environment = share.environment()
    found = {name: environment[name] for name in DECISIVE if name in environment}
    if "OMP_NUM_THREADS" not in found and command.is_direct:
        threads = max(1, share.threads // command.local_ranks)
        before = environment_of(trial).get("OMP_NUM_THREADS", "")
        goes_on = re.fullmatch("[1-9][0-9]{0,3}", before) and int(before) <= threads
        found["OMP_NUM_THREADS"] = before if goes_on else str(threads)
    return found


class Running:
    def __init__(self, trial: optuna.Trial, lock: int, command: Command, folder: Path, share: Share):
        self.trial, self._lock = trial, lock
        self.run_dir = run_dir_of(folder, trial.number)
        self.log = folder / f"trial-{trial.number:04}.log"
        self.pruned_at = None  # the validation after which it was told to stop
        self._has_launcher = command.program is not None and len(command.start) > 1
        self._earlier_error = self._error_file()
        self._told_at = None
        self._metrics = Points(self.run_dir / "metrics.jsonl")
        self._validations = len(self._metrics.read())
        kept = settings(trial, share, command)
        trial.set_user_attr("environment", kept)
        trial.set_user_attr("cores", share.cores)
        words = [*command.trial(trial.params), f"--run_dir={self.run_dir}"]
        if command.program is not None:
            words.append("--resume=auto")  # whatever its command says: --overwrite_output_dir
        self._process = self._start(words, {**os.environ, **kept, "RUN_DIR": str(self.run_dir)}, share.cores)

    def _start(self, words: list[str], environment: dict[str, str], cores: list[int]) -> subprocess.Popen:
        def prepare():
            """Runs in the child: it stops, and saves, if the sweep dies; and it keeps to its share of the cores."""
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if cores:
                os.sched_setaffinity(0, cores)

        try:
            log = open_regular(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self._log_begin = os.fstat(log).st_size
        except OSError as error:
            raise Failure(f"{self.log} cannot be written: {why(error)}", "free space, remove it, or choose another --output",
                          DISK) from None
        try:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment,
                                    pass_fds=(self._lock,), start_new_session=True, preexec_fn=prepare)
        except OSError as error:
            raise Failure(f"{words[0]} cannot be started: {why(error)}", "correct the command after --") from None
        finally:
            os.close(log)

    def code(self) -> int | None:
        """Returns the exit code once the training has ended, and None before."""
        code = self._process.poll()
        if code is None and self._told_at and time.monotonic() - self._told_at > KILL_AFTER_SECONDS:
            self._process.kill()
        return code if code is None or code in (0, PREEMPTED) else self._cause(code)

    def _cause(self, code: int) -> int:
        """Returns what the program ended with. A launcher may end with 1 whatever that was (torchrun), with the code of the rank
        that ended first (mpirun), or with 128 and the number of the signal (srun, sh)."""
        told = self._error().get("exit_code")
        if isinstance(told, int) and told in FAILURES:
            return told
        has_begun = self.run_dir.exists() and not (self.run_dir / "result.json").exists()
        if self._has_launcher and has_begun and code not in FAILURES and TOLD_TO_SAVE.search(last_bytes(self.log, self._log_begin)):
            return PREEMPTED
        if 128 < code < 128 + signal.NSIG:
            return 128 - code
        # The program itself says why it fails, unless it is killed.
        return PEER_LOST if self._has_launcher and has_begun and code not in FAILURES and code >= 0 else code

    def release(self) -> None:
        """Lets other workers have the trial. Called after the study knows its end, or they would train it again."""
        os.close(self._lock)

    def stop(self) -> None:
        if self._told_at is None and self._process.poll() is None:
            self._told_at = time.monotonic()
            self._process.terminate()

    def watch(self, metric: str) -> None:
        """Reports new validations to the study, and stops the training if the pruner says so. The n-th validation is
        step n."""
        values = {number: point[metric] for number, point in enumerate(self._metrics.read(), 1) if metric in point}
        new = [number for number in values if number > self._validations]
        for number in new:
            self.trial.report(values[number], number)
        if new and self.pruned_at is None and self._told_at is None and self.trial.should_prune():
            self.pruned_at = new[-1]
            self.stop()
        self._validations = max([self._validations, *new])

    def value(self, metric: str) -> float | None:
        value = read_object(self.run_dir / "result.json", MOST_BYTES).get(metric)
        return value if is_number(value) else None

    def _error_file(self) -> tuple[int, int] | None:
        """Tells apart the error.json of two attempts."""
        try:
            status = os.lstat(self.run_dir / "error.json")
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _error(self) -> dict:
        return {} if self._error_file() == self._earlier_error else read_object(self.run_dir / "error.json", MOST_BYTES)

    def reason(self) -> str:
        """Returns the reason of a failure: error.json's message, else the last line of the log."""
        message = self._error().get("message")
        if isinstance(message, str):
            return shown(message, LONGEST_REASON)
        return shown(last_line(self.log) or "it said nothing", LONGEST_REASON)


def last_bytes(path: Path, begin: int = 0) -> bytes:
    """Returns the end of what stands behind the byte `begin`."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        file.seek(max(begin, os.fstat(descriptor).st_size - LAST_BYTES))
        return file.read(LAST_BYTES)


def last_line(path: Path) -> bytes:
    return next((line for line in reversed(last_bytes(path).split(b"\n")) if line.strip()), b"")
