#!/usr/bin/env bash
# Fuzzes all parsers with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer (preset fuzz, with clang), from
# the seeds of tests/fuzz/make_corpus.py on; exits with 1 if anything is found.
#
#   scripts/dev/fuzz.sh [--seconds=60] [TARGET…]      e.g. scripts/dev/fuzz.sh --seconds=600 jpeg tfrecord
#
# What is found lies in build/fuzz/findings/: once repaired, it belongs into tests/fuzz/findings/TARGET/ under the name of
# its cause, where every test run replays it. What else was learned stays in build/fuzz/corpus/ for the next time.
# Environment: DTRAIN_FUZZ_SECONDS=N like --seconds.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"

seconds=${DTRAIN_FUZZ_SECONDS:-60}
targets=()
for argument in "$@"; do
  case $argument in
    --seconds=?*) seconds=${argument#--seconds=} ;;
    -h | --help) usage "$0"; exit 0 ;;
    -*) fail "fuzz.sh does not know '$argument'. It takes --seconds=N and names of targets." ;;
    *) targets+=("$argument") ;;
  esac
done
cd "$root"
mapfile -t known < <(sed -n 's/^FUZZ_TARGET(\(.*\)) {$/\1/p' tests/fuzz/*.cc)
for target in "${targets[@]}"; do
  [[ " ${known[*]} " == *" $target "* ]] || fail "fuzz.sh knows no target '$target'. There are ${known[*]}."
done
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]}")
command -v clang++ >/dev/null || fail "clang++ is missing: scripts/setup.sh --long installs what fuzzing needs."
scripts/build.sh --preset=fuzz
.venv/bin/python tests/fuzz/make_corpus.py build/fuzz/seeds

# fuzz TARGET: no input may take 20 s, 128 MB at once or 1 GB in all, because sizes that a file only claims must not be
# allocated.
fuzz() {
  local target=$1 learned=build/fuzz/corpus/$1 log=build/fuzz/$1.log
  mkdir -p "$learned" build/fuzz/findings
  if FUZZ_TARGET=$target build/fuzz/bin/fuzzers -max_total_time="$seconds" -max_len=8192 -timeout=20 -malloc_limit_mb=128 \
    -rss_limit_mb=1024 -artifact_prefix="build/fuzz/findings/$target-" -print_final_stats=1 \
    "$learned" "build/fuzz/seeds/$target" >"$log" 2>&1; then
    note "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
  else
    note "$target: FOUND something (all of it in $log)"
    grep -E 'ERROR|runtime error|what\(\)|Test unit written|SUMMARY' "$log" || tail -n 5 "$log"
    return 1
  fi
}
export -f fuzz note
export seconds
say "Fuzzing ${#targets[@]} targets, $seconds s each"
printf '%s\0' "${targets[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'fuzz {}' ||
  { echo "error: see the findings above; they are in build/fuzz/findings/" >&2; exit 1; }
