#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the sources that include no torch header: it takes a second per file, and half a
# minute with torch. With DTRAIN_LONG_TESTS=1 it runs on all. Usage: tests/check_tidy.sh BUILD_DIR
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
python3 - "$build/compile_commands.json" "$database/compile_commands.json" "${DTRAIN_LONG_TESTS:-0}" <<'PYTHON'
import json, re, sys
source, target, everything = sys.argv[1:]


def one_by_one(entries):
    """Files that are compiled several at once, each as if it were alone."""
    for entry in entries:
        if "/Unity/" not in entry["file"]:
            yield entry
            continue
        with open(entry["file"]) as file:
            for part in re.findall(r'#include "(.*)"', file.read()):
                yield {**entry, "file": part, "command": entry["command"].replace(entry["file"], part)}


kept = []
for entry in one_by_one(json.load(open(source))):
    if "/tests/" in entry["file"] or entry["file"].endswith("torch_pch.cc") or "cmake_pch" in entry["file"]:
        continue
    if entry["file"].endswith(".cu"):  # compiled by nvcc
        continue
    with open(entry["file"]) as file:
        includes_torch = re.search(r"#include <(torch|ATen|c10)/", file.read())
    if ("cmake_pch" in entry["command"] or includes_torch) and everything != "1":
        continue
    command = re.sub(r"-Winvalid-pch |-include \S*cmake_pch\.hxx ", "", entry["command"])
    entry["command"] = re.sub(r"^.*?ccache ", "", command)
    kept.append(entry)
json.dump(kept, open(target, "w"))
print("\n".join(entry["file"] for entry in kept))
PYTHON
python3 -c 'import json, sys; print("\n".join(e["file"] for e in json.load(open(sys.argv[1]))))' \
  "$database/compile_commands.json" | xargs -P "$(nproc)" -n 4 "$tidy" --quiet -p "$database" 2>"$database/errors" ||
  { grep -v 'warnings generated' "$database/errors" >&2; exit 1; }
