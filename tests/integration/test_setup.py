"""scripts/setup.sh decides what a machine gets: CUDA and NVIDIA's compiler where there is a driver, without a toolkit. The
driver is a stand-in, and so is the pip that would download. What quickstart.sh and test.sh make of it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from command import BUILD, ROOT, make_program, run, wait_until

PINNED = ["nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-cccl==13.0.85",
          "nvidia-cuda-runtime==13.0.96"]


@pytest.fixture
def tmp_path():
    """On the disk of the build: setup.sh asks for room for what it would download, which memory may not have."""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        yield Path(folder)


@pytest.fixture
def setup(tmp_path):
    """Runs a copy of setup.sh on a machine with the libraries of a driver in `driver`, and returns what it prints and what
    it asks pip for."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "requirements.txt").write_bytes((ROOT / "tests" / "requirements.txt").read_bytes())
    for name in ("setup.sh", "environment.sh"):
        (tmp_path / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ncase $1 in -c) exec {sys.executable} "$@" ;; esac\n'
                      f'echo "$@" >>{tmp_path}/asked; mkdir -p {tmp_path}/.venv/lib/python3.11/site-packages/nvidia/cu13/lib\n')
    python.chmod(0o755)

    def run_setup(driver: list[str], *flags: str, **env: str) -> tuple[str, str]:
        folder = tmp_path / "driver"
        folder.mkdir()
        for name in driver:
            (folder / name).touch()
        if driver and driver[0] != "libcuda.so.1":
            (folder / "libcuda.so.1").symlink_to(driver[0])
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
        # The folders of the system's programs alone, where no toolkit puts its compiler.
        done = subprocess.run(["bash", tmp_path / "scripts" / "setup.sh", *flags], check=True, capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "CUDA_HOME": "/nonexistent", "LD_LIBRARY_PATH": str(folder), **kept, **env})
        return done.stdout, (tmp_path / "asked").read_text()

    return run_setup


@pytest.mark.parametrize("library", ["libcuda.so.1", "libcuda.so.580.65.06", "libcuda.so.1000.1"])
def test_a_driver_without_a_compiler_gets_one(setup, tmp_path, library):
    said, asked = setup([library])
    assert f"There is no nvcc, but a driver of NVIDIA ({tmp_path}/driver/libcuda.so.1): so that the build is for GPUs" in said
    assert "install torch==2.11.0\n" in asked  # with what it depends on
    assert f"install --no-deps {' '.join(PINNED)}\n" in asked
    toolkit = tmp_path / ".venv/lib/python3.11/site-packages/nvidia/cu13"
    assert (toolkit / "lib/libcudart.so").readlink().name == "libcudart.so.13" and (toolkit / "lib64").readlink().name == "lib"


@pytest.mark.parametrize("driver, env, words", [
    ([], {}, ""), (["libcuda.so.570.12"], {}, "NVIDIA's driver 570.12 is older than 580"), (["libcuda.so.580.65.06"], {"DTRAIN_CUDA": "OFF"}, "")])
def test_a_machine_for_cpus_gets_no_compiler(setup, driver, env, words):
    said, asked = setup(driver, **env)
    assert words in said and "nvcc" not in asked and "install --no-deps torch==2.11.0" in asked


def test_a_wish_needs_no_driver(setup):
    said, asked = setup([], DTRAIN_CUDA="ON")
    assert "There is no nvcc: so that the build is for GPUs" in said and PINNED[0] in asked


def test_the_compiler_does_not_fit_every_libtorch(setup, tmp_path):
    for folder in ("include/torch/csrc/api/include/torch", "lib"):
        (tmp_path / "torch" / folder).mkdir(parents=True)
    (tmp_path / "torch/include/torch/csrc/api/include/torch/version.h").write_text(
        "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n")
    (tmp_path / "torch/lib/libtorch_cpu.so").touch()
    (tmp_path / "torch/lib/libc10_cuda.so").write_bytes(b"\0libcudart-d0da41ae.so.12\0")
    said, asked = setup(["libcuda.so.1"], DTRAIN_TORCH_DIR=str(tmp_path / "torch"))
    assert "is not for CUDA 13" in said and "nvcc" not in asked


def test_small_tests_need_no_peers(setup):
    _, asked = setup([], "--tests=small")
    assert "install numpy==2.2.6 pillow==12.0.0 pytest==8.4.2 pytest-xdist==3.8.0\n" in asked and "tensorflow" not in asked


def stand_ins(folder, names: dict[str, str], *scripts: str) -> None:
    """Puts scripts into a tree, beside programs in place of others."""
    for name in (*names, *(f"scripts/{script}" for script in scripts)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name, text in names.items():
        make_program(folder / name, f"#!/bin/bash\n{text}\n")
    for script in scripts:
        shutil.copy(ROOT / "scripts" / script, folder / "scripts")


def test_the_quick_starts_options_are_of_the_callers_folder(tmp_path):
    quiet = dict.fromkeys(("scripts/setup.sh", "scripts/build.sh", ".venv/bin/python"), "")
    stand_ins(tmp_path, {**quiet, "build/release/bin/dtrain_main": 'pwd; printf "%s\\n" "$@"'}, "quickstart.sh", "environment.sh")
    (tmp_path / "here").mkdir()
    lines = run("--data_dir=mine", program=tmp_path / "scripts" / "quickstart.sh", cwd=tmp_path / "here").lines
    assert str(tmp_path / "here") in lines and lines[-1] == "--data_dir=mine"
    assert f"--flagfile={tmp_path}/scripts/recipes/resnet50_digits.flags" in lines and f"--data_dir={tmp_path}/demo/digits" in lines


def test_tests_that_are_interrupted_leave_no_setup_running(tmp_path):
    stand_ins(tmp_path, {"scripts/setup.sh": '[ -z "$1" ] || { echo $$ >setup; exec sleep 600; }', "scripts/build.sh": "exec sleep 600"}, "test.sh", "environment.sh")
    with subprocess.Popen(["env", "--default-signal=INT", tmp_path / "scripts" / "test.sh"], stdout=subprocess.DEVNULL, start_new_session=True) as tests:
        wait_until(lambda: (tmp_path / "setup").exists() and (tmp_path / "setup").read_text(), "the set-up for the tests")
        os.killpg(tests.pid, signal.SIGINT)
        tests.wait(20)
    wait_until(lambda: not os.path.exists(f"/proc/{(tmp_path / 'setup').read_text().strip()}"), "the end of the set-up", 20)
