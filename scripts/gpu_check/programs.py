"""Finds and runs the programs, and writes and reads their files. Nothing here needs more than Python and torch."""

import json
import os
import struct
import subprocess
import time
from pathlib import Path

import torch

HERE = Path(__file__).resolve()
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.uint8: "U8"}


def default_folder() -> Path:
    """Of the bundle that this file is in; of the release build where it is in a checkout."""
    home = HERE.parents[2]
    return home / "bin" if (home / "BUNDLE.txt").exists() else home / "build" / "release" / "bin"


def find_test(folder: Path) -> Path:
    for candidate in (folder / "gpu_test", folder.parent / "tests" / "gpu_test"):
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"no gpu_test beside {folder}: the build was one without CUDA")


def run(program: Path, *flags: str, env: dict | None = None) -> tuple[str, float]:
    """stdout, and when it was started. An exit code other than 0 is an error with the program's own words."""
    began = time.time()
    done = subprocess.run([str(program), *flags], capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise RuntimeError(f"{program.name} {' '.join(flags)} ended with {done.returncode}: {words}")
    return done.stdout, began


def last_json(stdout: str) -> dict:
    return json.loads(stdout.strip().splitlines()[-1])


def backend(device: str) -> str:
    return "--backend=auto" if device == "cuda" else "--backend=gloo"


def metrics(run_dir: Path, kind: str) -> list[dict]:
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
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
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(content[begin:end]), dtype=types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors
