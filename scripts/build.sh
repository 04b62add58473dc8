#!/usr/bin/env bash
# Configures and builds one preset. The screen gets progress and failures, build/PRESET.log everything.
#
#   scripts/build.sh [--preset=release] [--target=NAME]… [-DVARIABLE=VALUE]…
#
# Environment: DTRAIN_JOBS=N parallel compilers (default: the cores, fewer where memory is short);
# DTRAIN_CUDA=ON|OFF decides for the release preset (default: CMake decides).
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

preset=release
configure_options=()
build_options=()
for argument in "$@"; do
  case $argument in
    --preset=?*) preset=${argument#--preset=} ;;
    --target=?*) build_options+=(--target "${argument#--target=}") ;;
    -D?*) configure_options+=("$argument") ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "build.sh does not know '$argument'. It takes --preset=, --target= and -DVARIABLE=VALUE." ;;
  esac
done
cd "$root"
log=build/$preset.log

# A file that includes torch needs up to 2 GB to compile. With more compilers than fit into memory, or into the limit of a
# container, some would be killed.
parallel_jobs() {
  local cores memory limit
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  while read -r limit; do
    if [ $((limit / 1024)) -lt "$memory" ]; then memory=$((limit / 1024)); fi
  done < <(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | grep -E '^[0-9]{1,15}$')
  memory=$((memory / 1024 / 1024 / 2))
  printf '%s\n' "${DTRAIN_JOBS:-$((memory < 1 ? 1 : memory < cores ? memory : cores))}"
}

# Shows one of Ninja's lines "[12/80] Building…" for every tenth of the work.
show_progress() {
  local line tenth shown=0
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
      if [ "$tenth" -gt "$shown" ]; then
        note "${tenth}0 % (${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}, $(elapsed $((SECONDS - began))))"
        shown=$tenth
      fi
    fi
  done
}

configure() {
  configure_options+=("-DDTRAIN_TORCH_DIR=$(named_torch_dir)")
  if [ -n "${DTRAIN_CUDA:-}" ] && [ "$preset" = release ]; then configure_options+=("-DDTRAIN_CUDA=$DTRAIN_CUDA"); fi
  if ! "$(cmake_tool cmake)" --preset "$preset" "${configure_options[@]}" >"$log" 2>&1; then
    sed -n '/CMake Error/,$p' "$log" | tail -n 30 >&2
    fail "the configuration failed (see above, all of it in $log). If a library is missing, run scripts/setup.sh."
  fi
}

compile() {
  if ! "$(cmake_tool cmake)" --build --preset "$preset" --parallel "$jobs" "${build_options[@]}" 2>&1 |
    tee -a "$log" | show_progress; then
    if grep -q '^FAILED:' "$log"; then
      # Leaves out compiler commands, which are in the log.
      sed -n '/^FAILED:/,$p' "$log" | grep -vE '^\[[0-9]+/[0-9]+\]|ccache ' | sed -n '1,60p' >&2
    else
      tail -n 5 "$log" >&2
    fi
    fail "the build failed (the first errors are above, everything in $log)."
  fi
}

mkdir -p build
jobs=$(parallel_jobs)
began=$SECONDS
say "Building ($preset, $jobs at a time; log: $log)"
configure
note "configured in $(elapsed $((SECONDS - began))); $(sed -n 's/^-- \(CUDA: .*\)/\1/p' "$log" | tail -n 1)"
compile
say "Built in $(elapsed $((SECONDS - began))): build/$preset/bin"
