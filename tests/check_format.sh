#!/usr/bin/env bash
# Checks that the tracked sources are formatted according to .clang-format. It runs from anywhere: tests/check_format.sh
# Versions of clang-format disagree with each other, so only version 14 (Debian 12, Ubuntu 22.04) is used. Without it
# the check exits with 77, which CTest counts as skipped (SKIP_RETURN_CODE 77), but in CI (CI=true), where nobody reads
# what was skipped, with 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=14

for formatter in "clang-format-$version" clang-format; do
  if command -v "$formatter" >/dev/null && "$formatter" --version | grep -q "version $version\."; then
    mapfile -d '' -t sources < <(git ls-files -z -- '*.cc' '*.h' '*.cu' '*.cuh')
    if [ ${#sources[@]} = 0 ]; then echo "error: no tracked sources; is this a git checkout?" >&2; exit 1; fi
    if ! "$formatter" --dry-run -Werror "${sources[@]}"; then
      echo "error: the files above are not formatted. Run $formatter -i on them." >&2
      exit 1
    fi
    echo "${#sources[@]} files are formatted"
    exit 0
  fi
done
if [ "${CI:-}" = true ]; then
  echo "error: clang-format $version is not installed, and other versions format differently. Run scripts/setup.sh --tests." >&2
  exit 1
fi
echo "skipped: clang-format $version is not installed, and other versions format differently"
exit 77
