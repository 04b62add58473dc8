"""A disk that stalls for longer than --comm_timeout: a rank may take ten minutes to save, and the others wait for
it."""

import os
import subprocess
from pathlib import Path

import pytest

from command import TINY, load_json, run

SOURCE = Path(__file__).with_name("slow_fsync.c")


@pytest.fixture(scope="module")
def preload(tmp_path_factory) -> Path:
    library = tmp_path_factory.mktemp("preload") / "slow_fsync.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("slow", ["optimizer.safetensors", ".model_best.safetensors.tmp", ".config.json.tmp"])
def test_a_stall_while_saving_ends_nothing(preload, few_images, run_dir, slow):
    """Each step saves: the second save waits for the first, and the other rank for the one that waits."""
    environment = {"LD_PRELOAD": str(preload), "SLOW_FSYNC": slow, "SLOW_FSYNC_MILLISECONDS": "5000"}
    run(*TINY, f"--data_dir={few_images}", "--nproc_per_node=2", "--batch_size=8", "--max_steps=2",
        "--save_every_epochs=0.3", "--eval_every_epochs=0.3", "--comm_timeout=3", f"--run_dir={run_dir}",
        env=environment)
    assert load_json(run_dir / "result.json")["step"] == 2
