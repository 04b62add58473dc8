"""Every shell script of the project passes shellcheck."""

from command import ROOT
from tools import call, tracked


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
