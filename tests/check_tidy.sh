#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the sources that include no torch header: it takes a second per file, and half a
# minute with torch. It reads the files that the build compiles as one in one go, which halves the time, and leaves out
# slow checks that never found anything here. With DTRAIN_LONG_TESTS=1 it runs all checks on every file by itself.
# Only version 14 (Debian 12, Ubuntu 22.04) is used, because versions disagree. Without it the check exits with 77, which
# CTest counts as skipped, and in CI (CI=true), where nobody reads what was skipped, with 1.
# Usage: tests/check_tidy.sh BUILD_DIR
set -euo pipefail
build=$(realpath "${1:?usage: tests/check_tidy.sh BUILD_DIR}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tidy=
for candidate in clang-tidy-14 clang-tidy; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then tidy=$candidate; break; fi
done
if [ -z "$tidy" ]; then
  if [ "${CI:-}" = true ]; then echo "error: clang-tidy 14 is not installed. Run scripts/setup.sh --tests." >&2; exit 1; fi
  echo "skipped: clang-tidy 14 is not installed"
  exit 77
fi

# CMake gives a file that includes torch the precompiled header, but clang cannot read GCC's.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
python3 - "$build/compile_commands.json" "$database" "${DTRAIN_LONG_TESTS:-0}" >"$database/files" <<'PYTHON'
import json, re, sys
source, folder, everything = sys.argv[1], sys.argv[2], sys.argv[3] == "1"


def text(path):
    with open(path) as file:
        return file.read()


def is_wanted(entry, path):
    return everything or not ("cmake_pch" in entry["command"] or re.search(r"#include <(torch|ATen|c10)/", text(path)))


def sources(entry):
    """The files that clang-tidy reads for an entry: for a unity file, one new file that includes the wanted parts of it."""
    if "/Unity/" not in entry["file"]:
        return [entry["file"]] if is_wanted(entry, entry["file"]) else []
    parts = [part for part in re.findall(r'#include "(.*)"', text(entry["file"])) if is_wanted(entry, part)]
    if everything or len(parts) < 2:
        return parts
    together = f"{folder}/{len(kept)}.cc"
    with open(together, "w") as file:
        file.writelines(f'#include "{part}"  // NOLINT(bugprone-suspicious-include)\n' for part in parts)
    return [together]


kept = []
for entry in json.load(open(source)):
    if "/tests/" in entry["file"] or entry["file"].endswith(("torch_pch.cc", ".cu")) or "cmake_pch" in entry["file"]:
        continue
    command = re.sub(r"-Winvalid-pch |-include \S*cmake_pch\.hxx ", "", entry["command"])
    command = re.sub(r"^.*?ccache ", "", command)
    for path in sources(entry):
        kept.append({**entry, "file": path, "command": command.replace(entry["file"], path)})
json.dump(kept, open(f"{folder}/compile_commands.json", "w"))
print("\n".join(entry["file"] for entry in kept))
PYTHON
left_out=
if [ "${DTRAIN_LONG_TESTS:-}" != 1 ]; then
  left_out=-readability-redundant-declaration,-bugprone-infinite-loop,-bugprone-suspicious-string-compare
  left_out+=,-modernize-use-nullptr,-bugprone-not-null-terminated-result,-bugprone-misplaced-widening-cast
  left_out+=,-performance-type-promotion-in-math-fn
fi
xargs -P "$(nproc)" -n 1 "$tidy" --quiet --config-file=.clang-tidy --checks="$left_out" -p "$database" \
  <"$database/files" 2>"$database/errors" || { grep -v 'warnings generated' "$database/errors" >&2; exit 1; }
