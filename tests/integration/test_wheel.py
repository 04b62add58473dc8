"""scripts/wheel.sh makes a wheel that pip accepts and whose commands are the programs. tests/foreign_root.sh FILE.whl
tests a whole installation, torch included, in a root of another release, and under torchrun."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from command import BUILD, MAIN, ROOT, TINY, run

pytest.importorskip("torch", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("wheel", reason="scripts/setup.sh --tests installs it")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    other = folder / "dtrain-0.0.1-py3-none-any.whl"
    other.touch()
    libraries = folder / "of my LibTorch"
    libraries.symlink_to(Path(find_spec("torch").submodule_search_locations[0]) / "lib")
    subprocess.run([ROOT / "scripts" / "wheel.sh", folder], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DTRAIN_BUILD_DIR": str(BUILD), "LD_LIBRARY_PATH": str(libraries)})
    found, = set(folder.glob("*.whl")) - {other}
    assert other.exists()
    return found


def test_it_says_what_it_is_and_needs(wheel):
    version = run("--version", program=MAIN).stdout.split()[1]
    assert wheel.name.startswith(f"dtrain-{version}-py3-none-manylinux_2_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"dtrain-{version}.dist-info/METADATA").decode().split("\n\n")[0].splitlines()
    needed = [line for line in metadata if line.startswith("Requires-Dist")]
    assert [line for line in needed if "extra ==" not in line] == ["Requires-Dist: torch==2.11.*"]
    assert any(line.startswith("Requires-Dist: matplotlib==") and line.endswith('; extra == "scripts"') for line in needed)
    assert {f"dtrain-{version}.dist-info/licenses/LICENSE", f"dtrain-{version}.dist-info/licenses/notices.md"} <= set(names)
    assert not [name for name in names if name.endswith("gpu_test")]


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """A bare environment with nothing but the wheel, and links to the torch and its CUDA that the tests have from PyPI."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "-q", "--python", python, "install", "--no-deps", "--no-index",
                    "--disable-pip-version-check", wheel], check=True)
    packages, = (folder / "venv").glob("lib/python*/site-packages")
    theirs = Path(find_spec("torch").submodule_search_locations[0]).parent
    for name in ("torch", "nvidia"):
        (packages / name).symlink_to(theirs / name)
    return folder / "venv"


def test_its_commands_are_the_programs(fresh, tmp_path):
    bin_folder = fresh / "bin"
    for program in ("dtrain_main", "dtrain_data", "dtrain_bench"):
        assert run("--version", program=bin_folder / program).stdout.startswith(program)
        assert "\\-\\-flagfile" in (fresh / "share/man/man1" / f"{program}.1").read_text(encoding="utf-8")
    assert run("-m", "dtrain", "--version", program=bin_folder / "python").stdout.startswith("dtrain_main")
    assert "exit code 3" in run("--data_dir=/nonexistent", program=bin_folder / "dtrain_main", check=3).stderr
    flags = (*TINY, "--data_format=synthetic", "--num_classes=4", "--max_steps=2", f"--run_dir={tmp_path / 'run'}")
    run(*flags, program=bin_folder / "dtrain_main")
    # What scripts need is an extra of the wheel; here it is lent.
    assert "pip install" in run(tmp_path / "run", program=bin_folder / "dtrain_report", check=2).stderr
    env = {"PYTHONPATH": sysconfig.get_path("purelib")}
    run(tmp_path / "run", f"--output={tmp_path / 'report'}", program=bin_folder / "dtrain_report", env=env)
    assert list((tmp_path / "report").glob("*.html"))
    assert "--trials" in run("--help", program=bin_folder / "dtrain_sweep", env=env).stdout
    assert "--folds" in run("--help", program=bin_folder / "dtrain_cross_validate").stdout
    assert "--project" in run("wandb", "--help", program=bin_folder / "dtrain_events").stdout
    run("nobody", program=bin_folder / "dtrain_events", check=2)


def test_its_kernels_take_the_cuda_of_torch(fresh):
    """A wheel with libdtrain_cuda.so has none of CUDA's libraries: those that torch loads are enough."""
    library = next(fresh.glob("lib/python*/site-packages/dtrain/bundle/libexec/libdtrain_cuda.so"), None)
    assert (library is not None) == (BUILD / "bin" / "libdtrain_cuda.so").exists()
    if library is not None:
        load = f"import ctypes, torch; ctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_GLOBAL | 2).dtrain_cuda_plugin"
        run("-c", load, program=fresh / "bin" / "python", env={"LD_LIBRARY_PATH": "", "PYTHONPATH": sysconfig.get_path("purelib")})


COMPLETE = """
source "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
previous=${COMP_WORDS[COMP_CWORD-1]}
compopt() { :; }
"_$1" "$1" "${COMP_WORDS[COMP_CWORD]}" "$previous"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("words, expected", [
    (["dtrain_main", "--max_ho"], ["--max_hours="]), (["dtrain_main", "--mode", "=", "ev"], ["eval"]), (["dtrain_main", "--nest"], ["--nesterov"]),
    (["dtrain_main", "--mode", "="], ["train", "eval", "predict", "export"]), (["dtrain_bench", "co"], ["collective"]),
    (["dtrain_data", "pack", "--output_fo"], ["--output_format="])])
def test_bash_completes(fresh, words, expected):
    done = subprocess.run(["bash", "-c", COMPLETE, fresh / "share/bash-completion/completions" / words[0], *words], capture_output=True, text=True,
                          check=True)
    assert done.stdout.split() == expected, done.stderr
    assert f"#compdef {words[0]}\n" in (fresh / "share/zsh/site-functions" / f"_{words[0]}").read_text(encoding="utf-8")
