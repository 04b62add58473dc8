"""The programs of .venv/clusters (scripts/setup.sh --tests): linters, the AWS CLI, an imitation of AWS."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command import BUILD, ROOT, Outcome, make_program, run

sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "aws" / "batch")]

from job_definition import FINAL  # noqa: E402, F401  exit codes after which no cluster starts a job again
from safe_files import PREEMPTED  # noqa: E402, F401

BIN = ROOT / ".venv" / "clusters" / "bin"


def tool(name: str) -> Path:
    if not (BIN / name).exists():
        pytest.skip(f"{BIN / name} is not installed (scripts/setup.sh --tests)")
    return BIN / name


def call(name: str, *arguments, **options) -> Outcome:
    """Runs a program of .venv/clusters."""
    return run(*arguments, program=tool(name), **options)


def tracked(*patterns: str) -> list[Path]:
    """Returns the files of the project, also those that git does not know yet."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns], cwd=ROOT,
                            capture_output=True, text=True, check=True, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    return sorted({ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()})


def make_bundle(folder: Path, program: str | None = None) -> Path:
    """Makes what scripts/bundle.sh makes, as far as jobs need it, with a script in place of dtrain_main if it is given."""
    folder.mkdir()
    (folder / "scripts").symlink_to(ROOT / "scripts")
    if program is None:
        (folder / "bin").symlink_to(BUILD.resolve() / "bin")
    else:
        (folder / "bin").mkdir()
        make_program(folder / "bin" / "dtrain_main", program)
    return folder


# Writes what every user of the machine may see, and then the secret.
TELL = """#!/bin/bash
[ "$1" = --version ] || { sleep 1; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' >FOLDER/seen-RANK; echo "$DTRAIN_RUN_TOKEN" >FOLDER/secret-RANK; }
"""


def assert_secret_starts(folder: Path, rank: str, start) -> None:
    """start(BUNDLE) starts two ranks with --lr=1 and returns what was printed or logged besides. `rank` is what a shell of one
    makes 0 or 1 of. Each start has a token that both know and nobody else sees."""
    bundle, secrets = make_bundle(folder / "telling", TELL.replace("FOLDER", str(folder)).replace("RANK", rank)), set()
    for _ in range(2):
        said = start(bundle)
        first, second = ((folder / f"secret-{number}").read_text().strip() for number in (0, 1))
        assert re.fullmatch("[0-9a-f]{32}", first) and first == second
        seen = "".join((folder / f"seen-{number}").read_text() for number in (0, 1))
        assert "--lr=1" in seen and first not in seen + said
        secrets.add(first)
    assert len(secrets) == 2


def read_yaml(text: str):
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))"
    return json.loads(call("python", "-c", code, text).stdout)
