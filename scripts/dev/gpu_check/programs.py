"""Finds and runs the programs, and writes and reads their files. Nothing here needs more than Python and torch."""

import json
import os
import re
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import torch

import peers
from processes import LAST_WORDS, Failed, NoTime, end

HERE = Path(__file__).resolve()
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.uint8: "U8"}
# The default time limit of a program, which is then killed, so that its row fails.
TIMEOUT_SECONDS = 240


class Ended:
    """A program that has ended by itself."""

    def __init__(self, code: int, stdout: str, stderr: str, began: float):
        self.code, self.stdout, self.stderr, self.began = code, stdout, stderr, began

    def words(self) -> str:
        return (self.stderr.strip() or self.stdout.strip())[-LAST_WORDS:]


def default_folder() -> Path:
    """Returns the folder of the bundle that contains this file, or of the release build in a checkout."""
    home = HERE.parents[3]
    return home / "bin" if (home / "BUNDLE.txt").exists() else home / "build" / "release" / "bin"


def find_test(folder: Path) -> Path:
    for candidate in (folder / "gpu_test", folder.parent / "tests" / "gpu_test"):
        if candidate.exists():
            return candidate
    raise Failed(f"no gpu_test beside {folder}: this build is without CUDA")


class Machine:
    """Runs programs on the requested device until the time is up. Checks the device that they print, because a program
    that fell back to the CPU has measured nothing."""

    def __init__(self, arguments, folder: Path):
        self.bin, self.device, self.smoke, self.folder = arguments.bin, arguments.device, arguments.smoke, folder
        self.last_deadline = self.deadline = time.monotonic() + 60 * arguments.minutes
        self.peer_process: peers.Peer | None = None

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    def begin_part(self, minutes: float) -> None:
        self.deadline = min(self.last_deadline, time.monotonic() + 60 * minutes)

    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def limit(self, timeout: float) -> float:
        """Returns how many seconds a program may take."""
        left = self.seconds_left()
        if left < 1:
            raise NoTime
        return min(timeout, left)

    def start(self, program: Path, *flags: str, env: dict | None = None, output=subprocess.PIPE) -> subprocess.Popen:
        """Starts the program in a session of its own, so that all its processes can be ended."""
        return subprocess.Popen([str(program), *flags], stdout=output, stderr=output, text=True, start_new_session=True,
                                env={**os.environ, **(env or {})})

    def run(self, program: Path, *flags: str, env: dict | None = None, timeout: float = TIMEOUT_SECONDS,
            code: int | None = 0) -> Ended:
        """Raises an error with the program's own words if its exit code is not `code` (None: any), or if it does not
        end."""
        limit = self.limit(timeout)
        began = time.time()
        process = self.start(program, *flags, env=env)
        try:
            stdout, stderr = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end(process)
            stdout, stderr = process.communicate()
            if self.seconds_left() <= 0:
                raise NoTime(f"{program.name} {' '.join(flags)} (for {limit:.0f} s)") from None
            words = (stderr.strip() or stdout.strip())[-LAST_WORDS:]
            raise Failed(f"{program.name} {' '.join(flags)} did not end in {limit:.0f} s: {words}") from None
        ended = Ended(process.returncode, stdout, stderr, began)
        if code is not None and ended.code != code:
            raise Failed(f"{program.name} {' '.join(flags)} ended with {ended.code}: {ended.words()}")
        return ended

    def bench(self, *flags: str, **options) -> dict:
        """Returns dtrain_bench's JSON object."""
        result = last_json(self.run(self.bin / "dtrain_bench", *flags, "--json", **options).stdout)
        self.require_device(result.get("device", "nothing"))
        return result

    def ask(self, request: dict, timeout: float = TIMEOUT_SECONDS, fresh: bool = False) -> dict:
        """Returns the peer's answer and when its process began. `fresh`: asks a new process."""
        limit = self.limit(timeout)
        if fresh or self.peer_process is None or not self.peer_process.alive():
            self.close()
            self.peer_process = peers.Peer(self.device, self.folder)
        try:
            answer = self.peer_process.ask(request, limit)
        except Failed:
            if self.seconds_left() <= 0:
                raise NoTime(f"peer.py with {request}") from None
            raise
        self.require_device(answer["device"])
        return answer | {"began": self.peer_process.began}

    def close(self) -> None:
        if self.peer_process is not None:
            self.peer_process.close()
            self.peer_process = None

    def train(self, run_dir: Path, *flags: str, **options) -> Ended:
        """Runs dtrain_main, whose banner names the device."""
        ended = self.run(self.bin / "dtrain_main", *self.training_flags(run_dir, flags), **options)
        self.require_device(device_of(ended.stdout))
        return ended

    def training_flags(self, run_dir: Path, flags: tuple[str, ...]) -> list[str]:
        own = [f"--run_dir={run_dir}", "--save_every_epochs=0", "--log_format=table"]
        if not any(flag.startswith("--backend") for flag in flags):
            own.append(backend(self.device))
        return [*own, *flags]

    def train_until(self, run_dir: Path, enough, *flags: str, timeout: float = TIMEOUT_SECONDS) -> list[dict]:
        """Trains until `enough` accepts the lines of metrics.jsonl, then kills the training. Returns the lines."""
        limit = time.monotonic() + self.limit(timeout)
        # A file, because nobody would read a pipe meanwhile.
        with tempfile.TemporaryFile("w+") as output:
            process = self.start(self.bin / "dtrain_main", *self.training_flags(run_dir, flags), output=output)
            try:
                points: list[dict] = []
                while not enough(points):
                    if self.seconds_left() <= 0:
                        raise NoTime(f"dtrain_main {' '.join(flags)}")
                    if process.poll() is not None or time.monotonic() > limit:
                        output.seek(0)
                        how = "ended too early" if process.poll() is not None else "was too slow"
                        raise Failed(f"dtrain_main {' '.join(flags)} {how}: {output.read()[-LAST_WORDS:]}")
                    time.sleep(0.05)
                    points = metrics(run_dir, "train")
            finally:
                end(process)
            output.seek(0)
            self.require_device(device_of(output.read()))
        return points

    def require_device(self, device: str) -> None:
        if self.on_gpu and not device.startswith("cuda"):
            raise Failed(f"it ran on {device}, which is not a GPU")


def last_json(stdout: str) -> dict:
    lines = stdout.strip().splitlines()
    if not lines:
        raise Failed("it printed nothing instead of a JSON object")
    try:
        return json.loads(lines[-1])
    except ValueError:
        raise Failed(f"its last line is not a JSON object: {lines[-1][:200]}") from None


def device_of(banner: str) -> str:
    found = re.search(r"^ +device +(\S+)", banner, re.MULTILINE)
    return found.group(1).rstrip(",") if found else "nothing"


def backend(device: str) -> str:
    return "--backend=auto" if device == "cuda" else "--backend=gloo"


def metrics(run_dir: Path, kind: str) -> list[dict]:
    path = run_dir / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []  # the last line may be incomplete
    return [point for point in map(json.loads, lines) if point["kind"] == kind]


def write_safetensors(path: Path, tensors: dict) -> None:
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def read_safetensors(path: Path) -> dict:
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    types = {name: dtype for dtype, name in TYPES.items()}
    tensors = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end_ = (8 + length + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(content[begin:end_]), dtype=types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors
