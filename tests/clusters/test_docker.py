"""Tests docker/ without a container engine: lints the files, validates the list of components, and runs the steps of
Dockerfile.cpu (long)."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from command import ROOT
from tools import call, tool, tracked

DOCKER = ROOT / "docker"


def test_dockerfiles():
    call("hadolint", DOCKER / "Dockerfile", DOCKER / "Dockerfile.cpu")


def test_every_yaml_file_is_readable():
    files = sorted((ROOT / "scripts" / "aws").rglob("*.yaml"))
    rules = "{extends: relaxed, rules: {line-length: disable, commas: disable, braces: disable, brackets: disable}}"
    call("yamllint", "--strict", "-d", rules, *files)


def test_the_list_of_components_is_cyclonedx_and_has_the_wheels(tmp_path):
    if shutil.which("dpkg-query") is None:
        pytest.skip("this is no Debian or Ubuntu")
    for name, version in (("torch", "2.11.0+cu130"), ("nvidia_cudnn_cu13", "9.19.0.56"), ("nvidia_nccl_cu13", "2.28.9")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        licence = "License-Expression: BSD-3-Clause" if name == "torch" else "License: \"NVIDIA\" Proprietary"
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\r\nName: {name.replace('_', '-')}\r\nVersion: {version}\r\n{licence}\r\n"
                                         "\r\nName: prose\r\n", encoding="utf-8", newline="")
    listed = subprocess.run([DOCKER / "sbom.sh", "dtrain=0.1.0", f"--wheels={tmp_path}", f"--wheels={tmp_path}"], capture_output=True, text=True, check=True).stdout
    code = ("import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator; "
            "print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))")
    done = subprocess.run([tool("python"), "-c", code], input=listed, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
    components = json.loads(listed)["components"]
    assert len({one["bom-ref"] for one in components}) == len(components)
    found = {one["name"]: one for one in components}
    assert {"dtrain", "bash", "libc6"} <= set(found)
    assert found["nvidia-cudnn-cu13"]["version"] == "9.19.0.56" and found["nvidia-nccl-cu13"]["version"] == "2.28.9"
    assert found["torch"]["purl"] == "pkg:pypi/torch@2.11.0%2Bcu130"
    licences = {name: [one["license"]["name"] for one in found[name].get("licenses", [])] for name in ("torch", "nvidia-nccl-cu13", "bash")}
    assert licences["torch"] == ["BSD-3-Clause"] and licences["nvidia-nccl-cu13"] == ['"NVIDIA" Proprietary'] and "GPL-3+" in licences["bash"]


def test_every_image_lists_its_components_after_its_last_installation():
    for path in (DOCKER / "Dockerfile", DOCKER / "Dockerfile.cpu"):
        for stage in path.read_text(encoding="utf-8").replace("\\\n", " ").split("\nFROM ")[1:]:
            runs = [line for line in stage.splitlines() if line.startswith("RUN ")]
            if runs and " AS build" not in stage.splitlines()[0]:
                assert "sbom.sh" in runs[-1] and runs[-1].rfind(" install ") < runs[-1].find("sbom.sh"), (path, stage)


# ---- The steps of Dockerfile.cpu in bare roots -----------------------------------------------------------------------

NEEDED = ("debootstrap", "unshare", "chroot")


def instructions(path: Path) -> list[tuple[str, str]]:
    text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.strip().split(maxsplit=1)) for line in lines if line.strip()]


class Stage:
    """A root in which the instructions of a stage are run. Its mounts are gone when each command ends."""

    def __init__(self, root: Path):
        self.root, self.user = root, "0:0"
        self.variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.folder = "/"

    def run(self, command: str) -> None:
        inside = f"cd {shlex.quote(self.folder)} && {command}"
        user = f"--userspec={self.user}"
        chroot = shlex.join(["chroot", user, str(self.root), "/usr/bin/env", "-i",
                             *(f"{name}={value}" for name, value in self.variables.items()), "/bin/sh", "-c", inside])
        mounts = "".join(f"mount --rbind /{name} {self.root}/{name}; " for name in ("proc", "dev", "sys"))
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts + chroot], check=True,
                       timeout=5400)


def bare_root(folder: Path) -> Path:
    mirror = next((line.split()[1] for line in Path("/etc/apt/sources.list.d/debian.sources").read_text().splitlines()
                   if line.startswith("URIs:")), "http://deb.debian.org/debian")
    subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates,git", "bookworm", folder, mirror], check=True,
                   stdout=subprocess.DEVNULL, timeout=1200)
    # This machine's way to its package sources.
    shutil.rmtree(folder / "etc/apt/sources.list.d", ignore_errors=True)
    (folder / "etc/apt/sources.list").unlink(missing_ok=True)
    for name in ("etc/apt/sources.list.d", "etc/apt/apt.conf.d", "usr/share/keyrings"):
        shutil.copytree(Path("/") / name, folder / name, dirs_exist_ok=True)
    for name in ("etc/pip.conf", "etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        if (Path("/") / name).exists():
            shutil.copy(Path("/") / name, folder / name, follow_symlinks=True)
    return folder


@pytest.mark.skipif(os.environ.get("DTRAIN_LONG_TESTS") != "1", reason="DTRAIN_LONG_TESTS=1: builds in a bare Debian")
def test_the_steps_of_the_cpu_image_make_one_that_trains(tmp_path):
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0 or not Path("/etc/apt/sources.list.d/debian.sources").exists():
        pytest.skip(f"needs root on Debian 12, and {missing or 'nothing else'}")
    stages: dict[str, Stage] = {}
    stage, command = None, []
    try:
        for instruction, rest in instructions(DOCKER / "Dockerfile.cpu"):
            if instruction == "FROM":
                stage = Stage(bare_root(tmp_path / f"stage{len(stages)}"))
                stages[rest.split(" AS ")[-1]] = stage
            elif instruction == "ARG":
                name, _, value = rest.partition("=")
                stage.variables[name] = value
            elif instruction == "ENV":
                stage.variables |= dict(word.split("=", 1) for word in shlex.split(rest))
            elif instruction == "WORKDIR":
                stage.folder = rest
                (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
                os.chmod(stage.root / rest.lstrip("/"), 0o777)
            elif instruction == "USER":
                stage.user = rest
            elif instruction == "RUN":
                stage.run(rest)
            elif instruction == "COPY":
                *sources, target = rest.split()
                place = stage.root / (target if target.startswith("/") else f"{stage.folder}/{target}").lstrip("/")
                if sources[0].startswith("--from="):
                    source = stages[sources.pop(0).removeprefix("--from=")].root / sources[0].lstrip("/")
                    shutil.copytree(source, place, symlinks=True)
                elif sources == ["."]:
                    for source in tracked("."):
                        target = place / source.relative_to(ROOT)
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(source, target)
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    for source in sources:
                        shutil.copy(ROOT / source, place)
            elif instruction in ("ENTRYPOINT", "CMD"):
                command = (command if instruction == "CMD" else []) + json.loads(rest)
        # As docker run would start it: the entry point, not as root, with the flags of a training.
        stage.run(shlex.join([command[0], "dtrain_main", "--data_format=synthetic", "--model=resnet18", "--image_size=32",
                              "--num_classes=10", "--batch_size=8", "--max_steps=2", "--nproc_per_node=2", "--run_dir=/work/run"]))
        assert (stage.root / "work/run/model.safetensors").stat().st_uid == 10001
        assert json.loads((stage.root / "opt/dtrain/sbom.cdx.json").read_text())["specVersion"] == "1.6"
    finally:
        if not any(f" {tmp_path}/" in line for line in Path("/proc/self/mounts").read_text().splitlines()):
            for made in stages.values():
                shutil.rmtree(made.root, ignore_errors=True)
