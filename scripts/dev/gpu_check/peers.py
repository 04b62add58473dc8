"""Runs PyTorch's side (peer.py) in a process that stays, so that each model is compiled once and takes turns with ours,
and compiles for it ahead of time in several processes at once."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from processes import LAST_WORDS, Failed, end

MOST_AT_ONCE = 6  # the GPU's memory must hold a step of each
PROGRAM = Path(__file__).resolve().parent / "peer.py"


class Peer:
    """One process of peer.py. It ends when it is closed, or fails, or when this process ends."""

    def __init__(self, device: str, folder: Path, threads: int = 0):
        """`folder`, or TORCHINDUCTOR_CACHE_DIR, keeps what was compiled. `threads`: compiling ones; 0: as many as PyTorch wants."""
        cache = {"TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor")),
                 "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}
        if threads:
            cache["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
        self.began = time.time()
        self.words = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([sys.executable, str(PROGRAM), f"--device={device}"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.words, text=True, start_new_session=True,
                                        env={**os.environ, **cache})

    def ask(self, request: dict, timeout: float) -> dict:
        """Raises an error with the process's last words if it fails or does not answer. It has then ended."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answers = select.select([self.process.stdout], [], [], timeout)[0]
            line = self.process.stdout.readline() if answers else ""
        except OSError:
            answers, line = [self.process], ""
        if line:
            return json.loads(line)
        self.close()
        how = "failed" if answers else f"did not answer in {timeout:.0f} s"
        self.words.seek(0)
        raise Failed(f"peer.py {how} at {request}: {self.words.read()[-LAST_WORDS:].strip()}")

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        end(self.process)
        self.process.stdin.close()
        self.process.stdout.close()


def compile_ahead(device: str, folder: Path, requests: list[dict], timeout: float) -> list[str]:
    """Compiles for each request in a process of its own, several at once, into the cache that later processes use: compiling
    a model keeps one core busy. Returns what failed."""

    def compile_one(request: dict) -> str:
        peer = Peer(device, folder, threads=2)
        try:
            # Algorithms are not timed while several processes use the GPU.
            peer.ask(request | {"warmup": 0, "steps": 1, "seconds": 0, "benchmark": False}, timeout)
            return ""
        except Failed as error:
            return str(error)
        finally:
            peer.close()

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return [error for error in pool.map(compile_one, requests) if error]
