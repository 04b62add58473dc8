"""scripts/wheel.sh makes a wheel that pip accepts and whose commands are the programs. tests/foreign_root.sh FILE.whl
tests a whole installation, torch included, in a root of another release, and under torchrun."""

import os
import subprocess
import sys
import zipfile

import pytest

from command import BUILD, MAIN, ROOT, run

pytest.importorskip("torch", reason="scripts/setup.sh --tests installs it")
pytest.importorskip("wheel", reason="scripts/setup.sh --tests installs it")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([ROOT / "scripts" / "wheel.sh", folder], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DTRAIN_BUILD_DIR": str(BUILD)})
    found, = folder.glob("*.whl")
    return found


def test_it_says_what_it_is_and_needs(wheel):
    version = run("--version", program=MAIN).stdout.split()[1]
    assert wheel.name.startswith(f"dtrain-{version}-py3-none-manylinux_2_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"dtrain-{version}.dist-info/METADATA").decode().split("\n\n")[0].splitlines()
    assert [line for line in metadata if line.startswith("Requires-Dist")] == ["Requires-Dist: torch==2.11.*"]
    assert {f"dtrain-{version}.dist-info/licenses/LICENSE", f"dtrain-{version}.dist-info/licenses/notices.md"} <= set(names)
    assert not [name for name in names if name.endswith("gpu_test")]


def test_its_commands_are_the_programs(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check",
                    f"--prefix={tmp_path}", wheel], check=True)
    packages, = tmp_path.glob("lib/python*/site-packages")
    env = {"PYTHONPATH": str(packages)}
    for program in ("dtrain_main", "dtrain_data", "dtrain_bench"):
        assert run("--version", program=tmp_path / "bin" / program, env=env).stdout.startswith(program)
    assert "exit code 3" in run("--data_dir=/nonexistent", program=tmp_path / "bin" / "dtrain_main", env=env, check=3).stderr
