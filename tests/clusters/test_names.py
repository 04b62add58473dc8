"""The recipes and flags that the files for clusters use exist (our flags have underscores, AWS's hyphens)."""

import re

from command import ROOT
from tools import tracked

FLAG = re.compile(r"(?<![\w-])--([a-z]+(?:_[a-z0-9]+)+)\b")
RECIPE = re.compile(r"\b(?:resnet\d+|efficientnet_b\d|roberta_base|roberta_large|roberta)_[a-z0-9_]+\b")


def words(pattern: re.Pattern) -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in tracked("docker", "scripts/aws", "scripts/ssh", "docs/machines.md", "docs/parallelcluster.md")]
    return {word for text in texts for word in pattern.findall(text)}


def test_recipes_that_are_named_exist():
    named = words(RECIPE) - {"roberta_large", "roberta_base"}  # models
    assert len(named) > 3
    assert named <= {path.stem for path in (ROOT / "scripts" / "recipes").glob("*.flags")}


def test_flags_that_are_named_exist():
    named = words(FLAG)
    assert len(named) > 10
    tables = [ROOT / "docs" / "flags.md", ROOT / "scripts" / "sweep.py", *(ROOT / "scripts" / "aws").glob("*/*.py")]
    known = "".join(path.read_text(encoding="utf-8") for path in tables).replace("[no]", "")
    assert {flag for flag in named if f"--{flag}" not in known} == set()
