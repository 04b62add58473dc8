#!/usr/bin/env bash
# Runs all tests: installs what they need, builds, runs CTest. The last line is CTest's count of what passed.
#
#   scripts/test.sh            every test of the release build
#   scripts/test.sh --long     also the long ones (DTRAIN_LONG_TESTS=1), the unit tests under AddressSanitizer and
#                              UndefinedBehaviorSanitizer (preset dev) and under ThreadSanitizer (tsan), libFuzzer for
#                              DTRAIN_FUZZ_SECONDS (60) a parser (scripts/dev/fuzz.sh), and the comparisons with the
#                              instructions of older CPUs. Longest are 1,000 kills of ranks at random moments, an
#                              hour or two; DTRAIN_KILLS=100 makes it fewer
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

long=no
for argument in "$@"; do
  case $argument in
    --long) long=yes ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "test.sh does not know '$argument'. It takes --long." ;;
  esac
done
cd "$root"

# run_tests PRESET CTEST-OPTIONS…: writes the output to a log and CTest's count into `summary`.
summary=
run_tests() {
  local preset=$1 status=0
  shift
  say "Testing ($preset)"
  "$(cmake_tool ctest)" --test-dir "build/$preset" --parallel 2 --output-on-failure --no-tests=error "$@" 2>&1 |
    tee "build/$preset-tests.log" || status=$?
  summary=$(grep -E '^[0-9]+% tests passed' "build/$preset-tests.log" | tail -n 1) || summary="CTest gave no count"
  return "$status"
}

# What only the tests need is fetched and unpacked while the compilers run. Bash lets what it starts so ignore ^C.
scripts/setup.sh
if [ "$long" = yes ]; then setup=(--tests --long); else setup=(--tests); fi
env --default-signal=INT scripts/setup.sh "${setup[@]}" <&0 &
status=0
scripts/build.sh --preset=release || status=$?
wait $!
if [ "$status" != 0 ]; then exit "$status"; fi
if [ "$long" = yes ]; then
  other_runs=
  # Limits on rounding must hold on every make of CPU. With fewer instructions, this one stands in for others.
  for instructions in default:SSE41 avx2:AVX2; do
    ATEN_CPU_CAPABILITY=${instructions%:*} ONEDNN_MAX_CPU_ISA=${instructions#*:} \
      run_tests release -L 'unit|interop' || status=$?
    other_runs+="$instructions (instructions): $summary"$'\n'
  done
  export DTRAIN_LONG_TESTS=1
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  for preset in dev tsan; do
    summary="not built"
    { scripts/build.sh --preset=$preset && run_tests $preset -L unit; } || status=$?
    other_runs+="$preset (sanitizers): $summary"$'\n'
  done
  scripts/dev/fuzz.sh || status=$?
fi
run_tests release || status=$?
say "All done in $(elapsed $SECONDS)"
if [ "$long" = yes ]; then printf '%s' "$other_runs"; fi
printf '%s\n' "$summary"
exit "$status"
