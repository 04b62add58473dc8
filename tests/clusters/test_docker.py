"""Tests docker/ without a container engine: lints its files, and all that is shell or YAML, and validates the list of components."""

import json
import shutil

import pytest

from command import ROOT, run
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
    listed = run("dtrain=0.1.0", f"--wheels={tmp_path}", f"--wheels={tmp_path}", program=DOCKER / "sbom.sh").stdout
    code = ("import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator; "
            "print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))")
    assert run("-c", code, program=tool("python"), text=listed).stdout.strip() == "None"
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


def is_shell(path) -> bool:
    if path.suffix in (".sh", ".sbatch"):
        return True
    if path.suffix:
        return False
    with path.open("rb") as file:
        first = file.readline(100)
    return first.startswith(b"#!") and (b"bash" in first or first.rstrip().endswith(b"sh"))


def test_shellcheck():
    scripts = [path for path in tracked("scripts", "docker", "tests", ".ci") if is_shell(path)]
    assert len(scripts) > 10
    call("shellcheck", "--external-sources", "--source-path=SCRIPTDIR", f"--source-path={ROOT}", *scripts, cwd=ROOT)
