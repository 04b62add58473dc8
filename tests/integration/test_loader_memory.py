"""Loading for a long time takes no more memory than loading for a short one."""

import os
import time
from pathlib import Path

import pytest
from command import MAIN, Background

BENCH = MAIN.with_name("dtrain_bench")
SECONDS = 60


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


@pytest.mark.skipif(not os.environ.get("DTRAIN_LONG_TESTS"), reason="takes a minute: set DTRAIN_LONG_TESTS=1")
def test_resident_memory_stays_flat(images):
    with Background("loader", f"--data_dir={images}", "--batch_size=64", "--image_size=96", "--workers=2",
                    "--augment=trivialaugment", "--steps=100000000", program=BENCH) as bench:
        measured = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(1)  # a sample a second; nothing is waited for
            measured.append(resident_mib(bench.pid))
    settled = measured[10:]
    print(f"{settled[0]:.1f} MiB at first, {max(settled):.1f} at most, {settled[-1]:.1f} at last")
    assert max(settled[len(settled) // 2:]) - max(settled[: len(settled) // 2]) <= 2
