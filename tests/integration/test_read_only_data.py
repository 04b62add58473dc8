"""Data in a folder that nobody may write to: rank 0 makes the index and sends it to the others."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from command import MAIN, TINY, Background, free_port, run


@pytest.fixture
def nobody() -> list:
    """Returns the beginning of a command that runs it without root's right to list and write everything."""
    if os.geteuid() != 0:
        return [MAIN]
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if not shutil.which("setpriv") or subprocess.run([*prefix, "test", "-x", MAIN], check=False).returncode != 0:
        pytest.skip("another user must be able to run the program: run the tests as root, from a clone that others may enter")
    return [*prefix, MAIN]


@pytest.fixture
def open_folder():
    """A folder outside pytest's own, which only their owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="dtrain-test-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
    shutil.rmtree(folder)


def copy_with_mode(source: Path, target: Path, mode: int) -> Path:
    shutil.copytree(source, target)
    for index in target.glob("*.index"):
        index.unlink()
    for path, _, _ in os.walk(target, topdown=False):
        os.chmod(path, mode)
    return target


def test_one_rank_lists_for_all(few_images, open_folder, nobody):
    """Rank 1 has a copy of the data, whose folders may be entered but not listed."""
    data = {0: copy_with_mode(few_images, open_folder / "first", 0o555),
            1: copy_with_mode(few_images, open_folder / "second", 0o111)}
    runs = open_folder / "runs"
    runs.mkdir()
    runs.chmod(0o777)
    program, flags = nobody[0], [*nobody[1:], *TINY, "--max_steps=2", "--batch_size=8", f"--run_dir={runs / 'run'}"]

    alone = run(*flags, f"--data_dir={data[1]}", "--dry_run", program=program, check=3)
    assert "cannot list" in alone.stderr
    port = free_port()
    ranks = [Background(*flags, f"--data_dir={data[rank]}", f"--rank={rank}", "--world_size=2", "--init_timeout=30",
                        "--master_addr=127.0.0.1", f"--master_port={port}", program=program) for rank in (1, 0)]
    with ranks[0], ranks[1]:
        second, first = (rank.wait() for rank in ranks)
    assert (first.code, second.code) == (0, 0), (first, second)
    assert first.stderr.count("train.imagefolder.index") == 1 and "--index_dir" in first.stderr
    assert "train.imagefolder.index" not in second.stderr
    assert not list(open_folder.rglob("*.index"))
