"""The small data sets that all tests share, made once per session from fixed seeds."""

import fcntl
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import MAIN, TINY, run
from matrix import Recorder
from text_data import TEXT, make_tokens
from two_hosts import TwoHosts

CLASSES = ("blue", "green", "red", "stripes")

# PyTorch's threads that wait leave the cores to other tests soon, like those of the programs. Read when torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# transformers would use an installed TensorFlow, whose Keras is too new for it.
os.environ["USE_TF"] = "0"


# Runs write gigabytes and wait until they are on the disk, which takes a disk a third of the tests' time. So the tests'
# folders are in memory, where there is enough of it.
MEMORY = Path("/dev/shm")
ENOUGH = 6 << 30  # bytes


def hold(folder: Path) -> bool:
    """Holds the folder to the end of this process. Returns whether nobody else did, perhaps in another container."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True


def is_room_in_memory() -> bool:
    available = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    return (os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH
            and available is not None and int(available[1]) << 10 >= ENOUGH)


def pytest_configure(config):
    config.addinivalue_line("markers", "fault(row, fault, bound): leaves a record for docs/faults.md (tests/matrix.py)")
    config.pluginmanager.register(Recorder())
    if config.option.basetemp is not None:  # given by a user, or by pytest-xdist, of which this is a worker
        return
    for left in MEMORY.glob("dtrain-tests-*"):  # by a session that failed or was killed
        if hold(left):
            shutil.rmtree(left, ignore_errors=True)
    if is_room_in_memory():
        folder = Path(tempfile.mkdtemp(prefix="dtrain-tests-", dir=MEMORY))
        hold(folder)
        config.option.basetemp = folder / "of"


def pytest_sessionfinish(session, exitstatus):
    """What a failed test leaves stays until the next session."""
    folder = Path(session.config.option.basetemp or "").parent
    if folder.parent == MEMORY and folder.name.startswith("dtrain-tests-") and exitstatus == 0:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items):
    if MAIN.exists():
        return
    for item in items:
        if {"test_prepare_imagenet", "test_image_preprocessing"}.isdisjoint({item.module.__name__}):
            item.add_marker(pytest.mark.skip(reason=f"{MAIN} is not built"))


def picture(kind: str, random: np.random.Generator) -> Image.Image:
    """Returns 40 × 40 pixels of noise with a tint or stripes, which a network learns within an epoch or two."""
    pixels = random.normal(110, 25, (40, 40, 3))
    if kind == "stripes":
        pixels += 60 * ((np.arange(40) // 5) % 2)[None, :, None]
    else:
        pixels[..., ("red", "green", "blue").index(kind)] += 60
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def make_image_folder(folder: Path, train: int, val: int, seed: int = 7) -> Path:
    """Makes `train` and `val` JPEGs of each class."""
    random = np.random.default_rng(seed)
    for split, count in (("train", train), ("val", val)):
        for kind in CLASSES if count else ():
            (folder / split / kind).mkdir(parents=True)
            for number in range(count):
                picture(kind, random).save(folder / split / kind / f"{number:03}.jpg", quality=90)
    return folder


@pytest.fixture(scope="session")
def images(tmp_path_factory) -> Path:
    """160 training and 40 validation images of four classes. Not to be changed."""
    return make_image_folder(tmp_path_factory.mktemp("images") / "data", train=40, val=10)


@pytest.fixture(scope="session")
def few_images(tmp_path_factory) -> Path:
    """40 training images, 2.5 batches of 16, and 8 for validation. Not to be changed."""
    return make_image_folder(tmp_path_factory.mktemp("few_images") / "data", train=10, val=2)


@pytest.fixture(scope="session")
def one_step(few_images, tmp_path_factory) -> Path:
    """A run of one step on `few_images`. Not to be changed."""
    folder = tmp_path_factory.mktemp("one_step") / "run"
    run(*TINY, f"--data_dir={few_images}", "--max_steps=1", f"--run_dir={folder}")
    return folder


@pytest.fixture(scope="session")
def tokens(tmp_path_factory) -> Path:
    """Token files of a small text, with a validation split. Not to be changed."""
    return make_tokens(tmp_path_factory.mktemp("tokens"), train=TEXT, valid="the dog and the cat sat\n" * 30)


@pytest.fixture
def own_images(few_images, tmp_path) -> Path:
    """A copy of `few_images` for a test that changes it."""
    return Path(shutil.copytree(few_images, tmp_path / "own_images"))


@pytest.fixture
def run_dir(tmp_path):
    """A run directory that does not exist yet, and is removed with its checkpoints when the test is over."""
    yield tmp_path / "run"
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


@pytest.fixture(scope="module")
def module_dir(tmp_path_factory):
    """A folder for what several tests of a file share; removed after them."""
    folder = tmp_path_factory.mktemp("shared")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def torchrun() -> Path:
    program = Path(sys.executable).parent / "torchrun"
    if not program.exists():
        pytest.skip(f"{program} is not installed (scripts/setup.sh --tests)")
    return program


@pytest.fixture(scope="session")
def mpirun() -> tuple:
    """The start of mpirun's command line."""
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed (scripts/setup.sh --tests)")
    return ("mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe")


@pytest.fixture
def two_hosts():
    with TwoHosts() as hosts:
        yield hosts


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory):
    """Returns a function from a source, named from this folder, to an environment that preloads what it makes."""

    @functools.cache
    def library(source: str) -> Path:
        made = tmp_path_factory.mktemp("preload") / f"{Path(source).stem}.so"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", made,
                        Path(__file__).parent / source, "-ldl"], check=True)
        return made

    return lambda source, **variables: {"LD_PRELOAD": str(library(source)),
                                        **{name: str(value) for name, value in variables.items()}}


@pytest.fixture(scope="session")
def bad_disk(preloaded):
    """Returns a function from the variables of bad_disk.c to an environment."""
    return lambda file, **variables: preloaded("faults/bad_disk.c", BAD_FILE=file, **variables)
