"""The manual is true: its links lead somewhere, its commands are understood, its lists of flags are current."""

import json
import re
import shlex
import sys

import pytest

from command import BUILD, ROOT, run

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page) -> list[list[str]]:
    """Returns the commands of a page's shell blocks, with continued lines joined."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_links_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_front_door_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_flags_and_man_pages_are_current():
    run(ROOT / "scripts" / "dev" / "make_reference.py", "--check", program=sys.executable, env={"DTRAIN_BUILD_DIR": str(BUILD)})


def test_exit_codes_are_told_alike():
    source = (ROOT / "data" / "error.h").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^  (k\w+) = (\d+),", source, re.MULTILINE))
    kinds = {int(numbers[name]): kind for name, kind in re.findall(r"ExitCodeFacts\{ExitCode::(k\w+), \"(\w+)\"", source)}
    assert len(kinds) == len(numbers) > 8
    told = json.loads((ROOT / "docs" / "schemas" / "error.json").read_text(encoding="utf-8"))["properties"]
    assert dict(zip(told["exit_code"]["enum"], told["kind"]["enum"], strict=True)) == {code: kind for code, kind in kinds.items() if code}
    sentence = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8").split("\nExit codes: ")[1].split("\n\n")[0]
    assert [int(code) for code in re.findall(r"(?:^|· )(\d+) ", sentence)] == sorted(kinds)
    # A cluster's job is not started again after those that would recur, and if memory was full.
    recurring = [int(numbers[name]) for name in re.findall(r"ExitCode::(k\w+), \"\w+\", /\*would_recur=\*/true", source)]
    final = sorted([*recurring, int(numbers["kOutOfMemory"])])
    batch = (ROOT / "scripts" / "aws" / "batch" / "job_definition.py").read_text(encoding="utf-8")
    assert json.loads(f"[{re.search(r'^FINAL = [(](.*)[)]', batch, re.MULTILINE)[1]}]") == final


@pytest.mark.parametrize("command", commands(ROOT / "docs" / "coming-from.md"), ids=lambda words: " ".join(words[1:4]))
def test_commands_of_other_trainers_are_understood(command):
    assert command[0] == "dtrain_main"
    outcome = run(*command[1:], "--print_config")
    assert "no such flag" not in outcome.stderr
