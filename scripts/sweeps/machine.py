"""Divides this machine among the trials that run at once: each gets its share of the cores and of the GPUs."""

import os
import shutil
import subprocess

from sweeps.failure import Failure


def gpus() -> list[str]:
    """Returns the GPUs that CUDA_VISIBLE_DEVICES names, or all that nvidia-smi lists."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [one.strip() for one in named.split(",") if one.strip()]
    if not shutil.which("nvidia-smi"):
        return []
    done = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def shares(jobs: int, cores: list[int], devices: list[str]) -> list[tuple[list[int], list[str]]]:
    """Returns (cores, GPUs) of each trial that runs at once. Empty means no restriction. A single trial has
    everything."""
    if jobs == 1:
        return [([], [])]
    if devices and len(devices) < jobs:
        raise Failure(f"--jobs={jobs} is more than the {len(devices)} GPUs of this machine", f"use --jobs={len(devices)}")
    core_share, device_share = len(cores) // jobs, len(devices) // jobs
    return [(cores[job * core_share:(job + 1) * core_share], devices[job * device_share:(job + 1) * device_share])
            for job in range(jobs)]
