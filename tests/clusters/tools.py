"""The programs of .venv/clusters (scripts/setup.sh --tests): linters, the AWS CLI, an imitation of AWS."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from command import ROOT

BIN = ROOT / ".venv" / "clusters" / "bin"


def tool(name: str) -> Path:
    if not (BIN / name).exists():
        pytest.skip(f"{BIN / name} is not installed (scripts/setup.sh --tests)")
    return BIN / name


def call(name: str, *arguments, check: bool = True, **options) -> subprocess.CompletedProcess:
    """Runs a program of .venv/clusters. A failure's message has its output."""
    done = subprocess.run([tool(name), *map(str, arguments)], capture_output=True, text=True, check=False,
                          stdin=options.pop("stdin", subprocess.DEVNULL), timeout=options.pop("timeout", 120), **options)
    assert not check or done.returncode == 0, f"{name} {arguments}\n{done.stdout}\n{done.stderr}"
    return done


def tracked(*patterns: str) -> list[Path]:
    """Returns the files of the project, also those that git does not know yet."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns], cwd=ROOT,
                            capture_output=True, text=True, check=True, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    return sorted({ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()})


def read_yaml(text: str):
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))"
    return json.loads(call("python", "-c", code, text).stdout)
