"""Rows 11 and 15 of the faults: a disk that stalls, fails or is full, while a run writes any of its files. Whatever
happens, the run either goes on or ends with 5, and the same command then goes on as if nothing had happened."""

import errno
import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from command import TINY, Background, load_json, metrics, run, wait_until, weights_and_losses
from matrix import measured, tried

IS_LONG = os.environ.get("DTRAIN_LONG_TESTS") == "1"
STALL = 30 if IS_LONG else 5  # seconds

# Two steps, each of which saves.
FLAGS = (*TINY, "--max_steps=2", "--save_every_epochs=0.3", "--eval_every_epochs=0.3", "--ema_decay=0.9")
FAULTS = {
    "ESTALE": {"BAD_CALLS": "open,read,write,fsync,rename", "BAD_ERRNO": errno.ESTALE, "BAD_TIMES": 2},
    "EIO once": {"BAD_CALLS": "read,write,fsync,close", "BAD_ERRNO": errno.EIO, "BAD_TIMES": 1},
    "ENOSPC at fsync": {"BAD_CALLS": "fsync,close", "BAD_ERRNO": errno.ENOSPC},
}


@pytest.mark.fault(15, f"a file system that hangs for {STALL} s in a save, ten times as long as --comm_timeout allows a step"
                   if IS_LONG else f"a file system that hangs for {STALL} s in a save", "the run goes on")
@pytest.mark.parametrize("slow", ["optimizer.safetensors", *((".model_best.safetensors.tmp", ".config.json.tmp") if IS_LONG else ())])
def test_a_stall_while_saving_ends_nothing(bad_disk, few_images, run_dir, slow):
    """Each step saves: the second save waits for the first, and the other rank for the one that waits."""
    environment = bad_disk(slow, BAD_CALLS="fsync", BAD_MILLISECONDS=1000 * STALL)
    run(*TINY, f"--data_dir={few_images}", "--nproc_per_node=2", "--batch_size=8", "--max_steps=2",
        "--save_every_epochs=0.3", "--eval_every_epochs=0.3", "--comm_timeout=3", f"--run_dir={run_dir}",
        env=environment, timeout=120 + 6 * STALL)
    assert load_json(run_dir / "result.json")["step"] == 2


@pytest.fixture(scope="module")
def undisturbed(few_images, module_dir) -> tuple[tuple, list[str]]:
    """The result, and the names under which the run has written all of its files, logs as they are and others at first by a
    temporary name."""
    folder = module_dir / "run"
    run(*FLAGS, f"--data_dir={few_images}", f"--run_dir={folder}")
    own = {path.name if path.suffix in ("", ".jsonl") and path.name != "latest" else f".{path.name}.tmp" for path in folder.iterdir() if path.is_file()}
    return weights_and_losses(folder), sorted(own | {path.name for path in folder.glob("checkpoints/*/*")} | {"from-step", "checkpoints/step-"})


@pytest.mark.parametrize("fault", [pytest.param(name, marks=pytest.mark.fault(
    11, f"{name}, of any file of a run", "the run goes on, or ends with 5; the same bits")) for name in FAULTS])
def test_errors_on_any_file(bad_disk, few_images, tmp_path, undisturbed, fault):
    """In the short mode each file has one of the faults."""
    flags = (*FLAGS, f"--data_dir={few_images}")
    expected, files = undisturbed
    assert len(files) > 15
    files = files if IS_LONG else files[list(FAULTS).index(fault)::len(FAULTS)]
    for number, file in enumerate(files):
        folder = tmp_path / str(number)
        outcome = run(*flags, f"--run_dir={folder}", env=bad_disk(file, **FAULTS[fault]), check=None)
        print(f"{fault} of {file}: {outcome.code}", flush=True)
        assert outcome.code in (0, 5), f"{file}\n{outcome}"
        if outcome.code == 5:
            assert "cannot " in outcome.stderr and file.strip(".").removesuffix(".tmp") in outcome.stderr, f"{file}\n{outcome}"
            run(*flags, f"--run_dir={folder}")
        assert weights_and_losses(folder) == expected, f"{fault} of {file}"
        shutil.rmtree(folder)
    tried(len(files))


def test_a_profile_that_cannot_be_written(few_images, run_dir):
    """LibTorch, which first writes into this place, does not say that it has failed."""
    (run_dir / "profile" / "rank-0.json.tmp" / "taken").mkdir(parents=True)
    outcome = run(*FLAGS, "--profile_steps=1:2", f"--data_dir={few_images}", f"--run_dir={run_dir}", check=5)
    assert "the profile could not be written to" in outcome.stderr, outcome


class SmallDisk:
    """A file system of its own, of which a test takes the room."""

    SPARE = 2 << 20  # bytes that are left, for all but checkpoints

    def __init__(self, folder: Path, mebibytes: int):
        self.folder, self._size, self._filler = folder, f"size={mebibytes}m", folder / "filler"

    def __enter__(self) -> "SmallDisk":
        if os.geteuid() != 0:
            pytest.skip("file systems are root's to mount, and this is not root")
        self.folder.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", self._size, "tmpfs", self.folder], capture_output=True,
                                 text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
        return self

    def __exit__(self, *_) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True)

    def fill(self) -> None:
        """Takes what is free now. The run frees more when it deletes an old checkpoint."""
        room = shutil.disk_usage(self.folder).free - self.SPARE
        if room > 0:
            with open(self._filler, "ab") as file, suppress(OSError):  # the run has taken a part of it meanwhile
                os.posix_fallocate(file.fileno(), file.tell(), room)

    def empty(self) -> None:
        self._filler.unlink()


@pytest.mark.fault(11, "a disk fills, empties and fills again while a run saves",
                   "tried again, then ends with 5; the last checkpoint is whole; the same bits")
def test_a_disk_that_fills_empties_and_fills(few_images, tmp_path):
    """The first time the disk has room again before the last attempt of the save; the second time it has none until the
    run has ended."""
    flags = (*TINY, f"--data_dir={few_images}", "--save_every_epochs=0.3", "--keep_checkpoints=1", "--epochs=1000",
             "--lr_schedule=constant")
    with SmallDisk(tmp_path / "disk", 400) as disk:
        run_dir = disk.folder / "run"
        with Background(*flags, f"--run_dir={run_dir}") as training:
            training.wait_for_line("step 3/")
            wait_until(lambda: disk.fill() or "(attempt 1 of 3)" in training.stderr_so_far, "a save that fails")
            disk.empty()
            training.wait_for_line(f"step {metrics(run_dir, 'train')[-1]['step'] + 5}/")
            since = time.monotonic()
            wait_until(lambda: disk.fill() or training.process.poll() is not None, "the end of the run")
            measured(time.monotonic() - since)
            outcome = training.wait()
        assert outcome.code == 5 and "No space left" in outcome.stderr and "cannot write" in outcome.stderr, outcome
        disk.empty()
        steps = metrics(run_dir, "train")[-1]["step"] + 2
        run(*flags, f"--run_dir={run_dir}", f"--max_steps={steps}")
        found = weights_and_losses(run_dir)
    run(*flags, f"--run_dir={tmp_path / 'alone'}", f"--max_steps={steps}", "--save_every_epochs=0")
    assert found == weights_and_losses(tmp_path / "alone")


def test_a_disk_without_room_for_a_checkpoint_is_refused(few_images, tmp_path):
    """A checkpoint of this model takes 32 MB."""
    flags = (*TINY, f"--data_dir={few_images}", "--max_steps=1", "--save_every_epochs=0")
    with SmallDisk(tmp_path / "disk", 24) as disk:
        for more in (["--dry_run"], []):
            said = run(*flags, f"--run_dir={disk.folder / 'run'}", *more, check=5).stderr
            assert "but a checkpoint takes about 3" in said and "none could be saved" in said
    with SmallDisk(tmp_path / "larger", 100) as disk:
        said = run(*flags, f"--run_dir={disk.folder / 'run'}", "--dry_run").stderr
        assert "but the run will write about" in said and "lower --keep_checkpoints" in said
        run(*flags, f"--run_dir={disk.folder / 'run'}", "--keep_checkpoints=1")
