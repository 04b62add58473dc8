"""scripts/bundle.sh: the folder that it makes runs elsewhere, with its own libraries, LibTorch's and the C library's.

The loader's own log shows that no other library is loaded. The long mode tests a system without any of the
distribution's libraries (tests/foreign_root.sh)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command import BUILD, ROOT, metrics

pytest.importorskip("torch", reason="scripts/setup.sh --tests installs it")

SYSTEM = re.compile(r"/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s))\.so[.\d]*$")
MEGABYTES = 68


def torch_folder() -> Path:
    code = "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])"
    return Path(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Installed by cmake --install in one place, and moved to another."""
    folder = tmp_path_factory.mktemp("bundle")
    own = ROOT / ".venv" / "bin" / "cmake"  # setup.sh puts one there if the machine's is too old
    subprocess.run([own if own.exists() else "cmake", "--install", BUILD, "--prefix", folder / "made"], check=True,
                   stdout=subprocess.DEVNULL)
    moved = folder / "moved here, with a space"
    (folder / "made").rename(moved)
    yield moved
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def bundle(installed):
    return installed / "lib" / "dtrain"


def run(program, *flags, env=None, python=None):
    """Runs as a user who has set nothing. `python` is a folder with a python3, first on the PATH."""
    path = f"{python}:/usr/bin:/bin" if python else "/usr/bin:/bin"
    variables = {"PATH": path, "HOME": "/nonexistent", "OMP_NUM_THREADS": "1", **(env or {})}
    return subprocess.run([str(program), *map(str, flags)], capture_output=True, text=True, env=variables, timeout=120,
                          check=False)


def test_it_is_small_and_says_what_it_needs(bundle):
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    assert size <= MEGABYTES * 2**20
    assert re.search(r"^LibTorch 2\.11$", (bundle / "BUNDLE.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert (bundle / "licenses" / "dtrain").exists()
    # test_wheel.py runs other scripts, and test_onnx.py what this one exports.
    subprocess.run([sys.executable, bundle / "scripts" / "export_onnx.py", "--help"], check=True, stdout=subprocess.DEVNULL)
    for program in (bundle / "libexec").iterdir():
        dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
        assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, program


def test_what_is_installed_is_on_the_path_and_has_its_manual(installed):
    env = {"DTRAIN_TORCH_DIR": str(torch_folder())}
    for program in ("dtrain_main", "dtrain_data", "dtrain_bench"):
        assert run(installed / "bin" / program, "--version", env=env).stdout.startswith(program)
        assert (installed / "share" / "man" / "man1" / f"{program}.1").exists()
    assert {path.name for path in (installed / "share" / "doc" / "dtrain").iterdir()} >= {"LICENSE", "notices.md"}


def test_it_trains_on_its_own_libraries(bundle, few_images, tmp_path):
    torch = torch_folder()
    done = run(bundle / "bin" / "dtrain_main", f"--data_dir={few_images}", "--model=resnet18", "--image_size=32",
               "--batch_size=16", "--max_steps=3", "--log_interval=1", f"--run_dir={tmp_path / 'a run'}",
               env={"DTRAIN_TORCH_DIR": str(torch), "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "loader")})
    assert done.returncode == 0, done.stderr
    assert [point["step"] for point in metrics(tmp_path / "a run", "train")] == [1, 2, 3]
    assert "val_top1=" in done.stdout.splitlines()[-1]
    loaded = set()
    for log in tmp_path.glob("loader.*"):  # one for each program image, the launcher's shell included
        text = log.read_text(errors="replace")
        if "libtorch_cpu" in text:
            loaded |= set(re.findall(r"calling init: (\S.*)", text))
    assert any("libopencv_core" in path for path in loaded) and any("libtorch_cpu" in path for path in loaded)
    own = (str(bundle), str(torch.resolve()), str(torch), str(torch.parent / "nvidia"))
    strangers = [path for path in loaded if not os.path.normpath(path).startswith(own) and not SYSTEM.search(path)]
    assert not strangers


def test_python_on_the_path_is_asked_where_torch_is(bundle):
    """Python is asked for the folder and does not import torch, which would take seconds. A folder called torch in the
    working directory is not taken for it."""
    (bundle.parent / "torch").mkdir(exist_ok=True)
    done = subprocess.run([str(bundle / "bin" / "dtrain_main"), "--print_config", "--data_format=synthetic"],
                          capture_output=True, text=True, cwd=bundle.parent, check=False,
                          env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert '"data_format": "synthetic"' in done.stdout


def test_arguments_and_exit_codes_are_the_programs(bundle):
    env = {"DTRAIN_TORCH_DIR": str(torch_folder())}
    done = run(bundle / "bin" / "dtrain_main", "--data_dir=a  folder 'of' $mine", "--print_config", env=env)
    assert "\"data_dir\": \"a  folder 'of' $mine\"" in done.stdout
    assert run(bundle / "bin" / "dtrain_main", "--no_such_flag", env=env).returncode == 2
    link = bundle.parent / "dtrain_bench"
    link.symlink_to(bundle / "bin" / "dtrain_bench")
    assert "step" in run(link, "--help", env=env).stdout


def fake_torch(folder, version):
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libtorch_cpu.so").touch()
    (folder / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("folder", "words"), [
    (lambda path: fake_torch(path / "old", "2.10.0+cu130"), "holds PyTorch 2.10.0+cu130; this build needs 2.11"),
    (lambda path: path / "nowhere", "there is no LibTorch in"),
])
def test_a_torch_that_does_not_fit_is_named(bundle, tmp_path, folder, words):
    done = run(bundle / "bin" / "dtrain_main", "--help", env={"DTRAIN_TORCH_DIR": str(folder(tmp_path))})
    assert done.returncode == 2
    assert words in done.stderr and "what to do: " in done.stderr


def test_a_folder_that_is_no_bundle_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    done = subprocess.run([ROOT / "scripts" / "bundle.sh", tmp_path / "mine"], capture_output=True, text=True,
                          env={**os.environ, "DTRAIN_BUILD_DIR": str(BUILD)}, check=False)
    assert done.returncode == 2 and "is not a bundle" in done.stderr
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.skipif(os.environ.get("DTRAIN_LONG_TESTS") != "1", reason="DTRAIN_LONG_TESTS=1: makes a foreign system")
def test_in_a_root_of_another_release(bundle):
    done = subprocess.run([ROOT / "tests" / "foreign_root.sh", bundle], capture_output=True, text=True, timeout=1200,
                          check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
