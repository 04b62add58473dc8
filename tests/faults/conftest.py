"""Fixtures of the tests of faults."""

import functools
import shutil

import pytest

from command import losses, run, sha256
from ranks import FLAGS

STEPS = 8


@pytest.fixture(scope="session")
def undisturbed(few_images, tmp_path_factory):
    """Returns, by world size, weights and losses of an undisturbed run of that many ranks and 8 steps."""

    @functools.cache
    def get(world: int = 2) -> tuple:
        folder = tmp_path_factory.mktemp("undisturbed") / "run"
        run(*FLAGS, f"--data_dir={few_images}", f"--max_steps={STEPS}", f"--nproc_per_node={world}",
            f"--run_dir={folder}")
        result = sha256(folder / "model.safetensors"), losses(folder)
        shutil.rmtree(folder)
        return result

    return get


@pytest.fixture(scope="session")
def slow_to_evaluate(few_images, tmp_path_factory):
    """Few training images and 3,200 validation images, so that an evaluation has many batches."""
    folder = tmp_path_factory.mktemp("slow") / "data"
    shutil.copytree(few_images / "train", folder / "train")
    for source in sorted((few_images / "val").rglob("*.jpg")):
        target = folder / "val" / source.parent.name
        target.mkdir(parents=True, exist_ok=True)
        for number in range(400):
            (target / f"{source.stem}-{number:03}.jpg").hardlink_to(source)
    return folder
