"""Runs the binaries of DTRAIN_BUILD_DIR (default: build/release) as a user does, and reads their output files.

Nothing here sleeps to wait for a process: a test waits for a line of output, a file or an exit, with a deadline.
"""

import csv
import functools
import hashlib
import json
import os
import queue
import re
import select
import signal
import socket
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("DTRAIN_BUILD_DIR", ROOT / "build" / "release"))
MAIN = BUILD / "bin" / "dtrain_main"
BENCH = BUILD / "bin" / "dtrain_bench"
DATA = BUILD / "bin" / "dtrain_data"

DEADLINE = 120  # seconds; generous, for a busy machine: a test that passes never waits for it

# Variables that a launcher around the tests would leak into them begin as those that are read.
LAUNCHER_VARIABLES = tuple(set(re.findall(r'"(RANK|[A-Z][A-Z0-9]*_)[A-Z0-9_]*"', (ROOT / "trainer/launch/launchers.cc").read_text(encoding="utf-8"))))

# A small, gentle training: about 0.1 s a step on one core. A checkpoint has 32 MB, a third of that of the smallest ResNet.
TINY = ("--model=efficientnet_b0", "--image_size=32", "--batch_size=16", "--lr=0.005", "--log_interval=1",
        "--eval_every_epochs=0")
# Without EfficientNet's dropout, which differs from rank to rank.
TINY_STEADY = (*TINY, "--dropout=0", "--drop_path=0")
# Learns within 20 steps, but takes twice the time to start, to step and to save.
TINY_RESNET = ("--model=resnet18", *TINY[1:])


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def step_lines(self) -> list[str]:
        """Returns the console's lines about steps, without the time of day before them."""
        return [line[9:] for line in self.lines if re.match(r"\d\d:\d\d:\d\d step \d+/", line)]

    @property
    def last_line(self) -> str:
        return self.lines[-1] if self.lines else ""

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def environment(extra: dict | None = None, threads: int | None = 1) -> dict:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_VARIABLES)}
    variables.pop("OMP_NUM_THREADS", None)
    if threads is not None:
        variables["OMP_NUM_THREADS"] = str(threads)
    return variables | (extra or {})


def run(*flags, check: int | None = 0, program=MAIN, env=None, threads: int | None = 1, cwd=None,
        timeout: float = DEADLINE, text: str = "") -> Outcome:
    """Runs `program` to its end, with `text` as its input. `check` is the expected exit code; None accepts any."""
    done = subprocess.run([str(program), *map(str, flags)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
                          env=environment(env, threads), input=text, check=False)
    outcome = Outcome(done.returncode, done.stdout, done.stderr)
    assert check is None or outcome.code == check, f"expected exit code {check}: {flags}\n{outcome}"
    return outcome


class Background:
    """A command under way. Leaving the `with` block kills it and all that it started."""

    def __init__(self, *flags, program=MAIN, env=None, threads: int | None = 1):
        self._mark = f"DTRAIN_TEST_PROCESS={uuid.uuid4()}"
        name, value = self._mark.split("=")
        self.process = subprocess.Popen([str(program), *map(str, flags)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                                        env=environment({**(env or {}), name: value}, threads))
        self._texts = {"stdout": "", "stderr": ""}
        self._lines = queue.Queue()
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._texts]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            self._texts[name] += line
            if name == "stdout":
                self._lines.put(line)
        if name == "stdout":
            self._lines.put(None)

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *_) -> None:
        for pid in self.family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr_so_far(self) -> str:
        return self._texts["stderr"]

    def wait_for_line(self, part: str) -> str:
        end = time.monotonic() + DEADLINE
        while True:
            line = self._lines.get(timeout=max(0.1, end - time.monotonic()))
            assert line is not None, f"ended without a line with '{part}'\n{self._texts}\n{self.process.wait()}"
            if part in line:
                return line

    def wait(self, timeout: float = DEADLINE) -> Outcome:
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return Outcome(code, self._texts["stdout"], self._texts["stderr"])

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in text.split()]

    def family(self) -> list[int]:
        """Returns every living process that carries this command's mark in its environment."""
        mark = self._mark.encode()
        pids = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if mark in (folder / "environ").read_bytes():
                    pids.append(int(folder.name))
            except OSError:  # ended meanwhile, a zombie, or another user's
                continue
        return pids


@functools.cache
def choices(program: Path, flag: str) -> tuple[str, ...]:
    """Returns the words that a flag may have, as the program's help lists them; none if it is not built."""
    if not program.exists():
        return ()
    flags = json.loads(run("--help=json", program=program).stdout)["flags"]
    return tuple(next(one["choices"] for one in flags if one["name"] == flag))


class Answering:
    """A program that answers each line with a line, for one whose start takes longer than its answers."""

    def __init__(self, *words):
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> str:
        """Returns the answer; empty if the program has ended."""
        print(line, file=self.process.stdin, flush=True)
        assert select.select([self.process.stdout], [], [], DEADLINE)[0], f"no answer to {line}"
        return self.process.stdout.readline().rstrip("\n")


def kill_at(step: int, *flags, saved: Path | None = None, **options) -> None:
    """Trains until the step is logged and, if one is named, the checkpoint is there, and kills the training."""
    with Background(*flags, **options) as training:
        if saved is not None:
            wait_until(saved.exists, f"the checkpoint {saved}")
        training.wait_for_line(f"step {step}/")
        training.process.kill()
        training.wait()


def wait_until(condition, what: str, seconds: float = DEADLINE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain for: {what}"
        time.sleep(0.005)


def metrics(run_dir: Path, kind: str | None = None) -> list[dict]:
    return [point for point in load_lines(run_dir / "metrics.jsonl") if kind in (None, point["kind"])]


def losses(run_dir: Path) -> list[tuple[int, float]]:
    """Returns (step, loss) of the training lines, exactly as they were written."""
    return [(point["step"], point["loss"]) for point in metrics(run_dir, "train")]


def weights_and_losses(run_dir: Path) -> tuple:
    """Returns what must be the same, to the bit, if a run is; with the average of the weights, if it has one."""
    average = run_dir / "model_ema.safetensors"
    return sha256(run_dir / "model.safetensors"), losses(run_dir), *([sha256(average)] if average.exists() else [])


def load_json(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def load_lines(path: Path) -> list:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def inspected(*flags) -> list[dict]:
    return [json.loads(line) for line in run("inspect", *flags, program=DATA).lines]


def load_table(path: Path) -> list[dict]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def change_state(checkpoint: Path, change) -> None:
    """Changes the state like somebody who knows the format: all sums are right."""
    state = load_json(checkpoint / "state.json")
    change(state)
    content = json.dumps(state).encode()
    (checkpoint / "state.json").write_bytes(content)
    manifest = load_json(checkpoint / "manifest.json")
    manifest["files"]["state.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    del manifest["sha256"]
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, indent=2).encode()).hexdigest()
    (checkpoint / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="ascii")


def leave_record(page: str, name: str, entry: dict) -> None:
    """Leaves a record in the build folder, from which a script makes a page of docs."""
    folder = BUILD / page
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{name}.tmp"
    temporary.write_text(json.dumps(entry), encoding="utf-8")
    temporary.replace(folder / f"{name}.json")


def make_program(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def final_numbers(line: str) -> dict[str, float]:
    """'val_top1=75.93 val_loss=0.99' → {'val_top1': 75.93, 'val_loss': 0.99}"""
    return {name: float(value) for name, value in (item.split("=") for item in line.split())}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
