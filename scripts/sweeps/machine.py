"""Divides this machine among the trials that run at once: each gets its share of the cores and of the GPUs. The number of
threads decides about the last bits of a result, so it is told to each trial and kept with it."""

import math
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from safe_files import Failure, read_bounded

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Share:
    threads: int                                       # for the computing of all ranks of a trial
    cores: list[int] = field(default_factory=list)     # empty: not restricted
    gpus: list[str] = field(default_factory=list)      # empty: all

    def environment(self) -> dict[str, str]:
        return {**os.environ, **({"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)} if self.gpus else {})}


def quota(membership: str, mount: Path = CGROUPS) -> int | None:
    """Returns the cores that the control groups of this process grant, or None, as data/machine/limits.cc does."""
    least = None
    for line in membership.splitlines():
        _, controllers, group = [*line.split(":", 2), "", "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        folder = (mount if not controllers else mount / "cpu") / group.lstrip("/")
        for one in (folder, *folder.parents):
            if not one.is_relative_to(mount):
                break
            try:
                files = [one / "cpu.max"] if not controllers else [one / "cpu.cfs_quota_us", one / "cpu.cfs_period_us"]
                granted, period = map(float, b" ".join(read_bounded(file, 4096) for file in files).split())
            except (Failure, ValueError):  # no limit here
                continue
            if granted > 0 and period > 0:
                least = min(least or math.inf, granted / period)
    return None if least is None else math.ceil(least)


def threads(cores: list[int]) -> int:
    try:
        granted = quota(Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        granted = None
    return min(len(cores), granted or len(cores))


def gpus() -> list[str]:
    """Returns the GPUs that CUDA_VISIBLE_DEVICES names, or all that nvidia-smi lists."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [one.strip() for one in named.split(",") if one.strip()]
    if not shutil.which("nvidia-smi"):
        return []
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, encoding="ascii",
                              errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise Failure("nvidia-smi does not answer", "name the GPUs with CUDA_VISIBLE_DEVICES") from None
    return done.stdout.split() if done.returncode == 0 else []


def shares(jobs: int, cores: list[int], devices: list[str], granted: int | None = None) -> list[Share]:
    """Returns the share of each trial that runs at once. A single trial has everything. `granted` limits the threads of
    all of them."""
    granted = granted or len(cores)
    if jobs == 1:
        return [Share(granted)]
    if devices and len(devices) < jobs:
        raise Failure(f"--jobs={jobs} is more than the {len(devices)} GPUs of this machine", f"use --jobs={len(devices)}")
    core_share, device_share = len(cores) // jobs, len(devices) // jobs
    return [Share(max(1, granted // jobs), cores[job * core_share:(job + 1) * core_share],
                  devices[job * device_share:(job + 1) * device_share])
            for job in range(jobs)]
