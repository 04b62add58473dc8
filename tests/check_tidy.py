#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) on the sources that include no torch header: it takes a second per file, and half a
minute with torch. Many files are read as one, because most of the time would go to the same headers again and again, and
slow checks that never found anything here are left out. With DTRAIN_LONG_TESTS=1 all checks read every file by itself.

What was without findings is remembered (in ~/.cache, like the compiler's results) by the bytes of all files that were
read, so that only what has changed is read again, also in another clone.

Only version 14 (Debian 12, Ubuntu 22.04) is used, because versions disagree. Without it the check exits with 77, which
CTest counts as skipped, and in CI (CI=true), where nobody reads what was skipped, with 1.

Usage: tests/check_tidy.py BUILD_DIR"""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dtrain-clang-tidy"
EVERYTHING = os.environ.get("DTRAIN_LONG_TESTS") == "1"
LEFT_OUT = "" if EVERYTHING else ",".join(f"-{name}" for name in (
    "readability-redundant-declaration", "bugprone-infinite-loop", "bugprone-suspicious-string-compare",
    "modernize-use-nullptr", "bugprone-not-null-terminated-result", "bugprone-misplaced-widening-cast",
    "performance-type-promotion-in-math-fn"))
TOGETHER = 24  # files; more save little


def version_14() -> str:
    for name in ("clang-tidy-14", "clang-tidy"):
        if shutil.which(name) and "version 14." in subprocess.run([name, "--version"], capture_output=True, text=True).stdout:
            return name
    return ""


def sources(build: Path) -> dict[str, set[str]]:
    """Returns the files to read, each with the options with which it is compiled."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file, command = entry["file"], entry["command"]
        if "/tests/" in file or "cmake_pch" in file or file.endswith(("torch_pch.cc", ".cu")):
            continue
        parts = re.findall(r'#include "(.*)"', Path(file).read_text(encoding="utf-8")) if "/Unity/" in file else [file]
        for part in parts:
            with_torch = "cmake_pch" in command or re.search(r"#include <(torch|ATen|c10)/", Path(part).read_text(encoding="utf-8"))
            if EVERYTHING or not with_torch:
                options = re.findall(r"-[DI]\S+|-isystem \S+", command.replace("\\", ""))
                found[part] = {option for option in options if EVERYTHING or "/torch/" not in option}
    return found


def batches(files: list[str], count: int) -> list[list[str]]:
    """Puts files together whose own names, those of their anonymous namespaces, mean nothing in the other ones."""
    made = [([], set(), set()) for _ in range(count)]  # files, their own names, all their words
    for file in files:
        text = Path(file).read_text(encoding="utf-8")
        own, words = set(), set(re.findall(r"\w+", text))
        for part in re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL):
            own |= set(re.findall(r"^[^\s/#}].*?\b(\w+)(?= = |\(| ?\{|;$)", part, re.MULTILINE))
        chosen = min(made, key=lambda batch: (bool(own & batch[1]), bool(own & batch[2] or words & batch[1]), len(batch[0])))
        chosen[0].append(file)
        chosen[1].update(own)
        chosen[2].update(words)
    return [batch[0] for batch in made if batch[0]]


@functools.cache
def sum_of(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


class Checker:
    def __init__(self, tidy: str, build: Path):
        self.command = [tidy, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", "--checks=" + LEFT_OUT]
        self.fixed = subprocess.run([tidy, "--version"], capture_output=True, text=True).stdout + LEFT_OUT
        self.fixed += (ROOT / ".clang-tidy").read_text(encoding="utf-8")
        self.build, self.options = build, sources(build)

    def key(self, files: list[str], arguments: list[str]) -> Path:
        """Returns the file that stands for: these bytes are without findings."""
        read = subprocess.run(["c++", "-M", *arguments, *files], capture_output=True, text=True, check=True).stdout
        names = {name for name in read.replace("\\\n", " ").split() if not name.endswith(":")}
        names = {name for name in names if not name.startswith(str(self.build))}  # generated: the commit
        words = [self.fixed, *(word.replace(str(ROOT), "") for word in arguments + files), *sorted(map(sum_of, names))]
        return CACHE / hashlib.sha256("\n".join(words).encode()).hexdigest()

    def findings(self, files: list[str]) -> str:
        arguments = ["-std=c++20", *" ".join(sorted(set().union(*(self.options[file] for file in files)))).split()]
        key = self.key(files, arguments)
        if key.exists():
            return ""
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as together:
            together.writelines(f'#include "{file}"  // NOLINT(bugprone-suspicious-include)\n' for file in files)
            together.flush()
            done = subprocess.run([*self.command, together.name if len(files) > 1 else files[0], "--", *arguments],
                                  capture_output=True, text=True)
        found = "" if done.returncode == 0 else done.stdout + done.stderr
        if found and len(files) > 1:
            half = len(files) // 2  # perhaps names clash nevertheless, which is no finding
            found = self.findings(files[:half]) + self.findings(files[half:])
        if not found:
            with contextlib.suppress(OSError):  # a home that cannot be written
                CACHE.mkdir(parents=True, exist_ok=True)
                key.touch()
        return found


def main() -> int:
    tidy = version_14()
    if not tidy:
        is_ci = os.environ.get("CI") == "true"
        print("error: clang-tidy 14 is not installed. Run scripts/setup.sh --tests." if is_ci else
              "skipped: clang-tidy 14 is not installed", file=sys.stderr)
        return 1 if is_ci else 77
    checker = Checker(tidy, Path(sys.argv[1]).resolve())
    files = list(checker.options)
    together = [[file] for file in files] if EVERYTHING else batches(files, -(-len(files) // TOGETHER))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        found = "".join(threads.map(checker.findings, together))
    print(found, end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
