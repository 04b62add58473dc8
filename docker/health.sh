#!/usr/bin/env bash
# Succeeds if this container is healthy: one of the programs runs, and, if HEALTH_SECONDS is set, it is no older than that
# many seconds, or the run directory's metrics.jsonl has grown within them (more than the longest evaluation and the first
# batches take). A run that was resumed has an old metrics.jsonl until its first line, so its own age counts too.
#
# Docker calls it by itself; Kubernetes ignores an image's HEALTHCHECK, and calls it as the pod's liveness probe.
set -euo pipefail

processes=()
for folder in /proc/[0-9]*; do
  if [[ $(cat "$folder/comm" 2>/dev/null || true) = dtrain_* ]]; then processes+=("$folder"); fi
done
if [ ${#processes[@]} = 0 ]; then
  echo "no dtrain program runs"
  exit 1
fi

seconds_since_start() {  # of the process whose folder in /proc is given
  local status uptime _
  read -r uptime _ </proc/uptime
  status=$(<"$1/stat")
  # The name, in brackets, may have spaces. The start is the 20th word after it, in hundredths of a second.
  read -r -a status <<<"${status##*)}"
  printf '%s\n' $((${uptime%.*} - status[19] / 100))
}

metrics=${RUN_DIR:-}/metrics.jsonl
if [ -n "${HEALTH_SECONDS:-}" ] && [ -f "$metrics" ]; then
  age=$(($(date +%s) - $(stat -c %Y "$metrics")))
  for process in "${processes[@]}"; do
    since=$(seconds_since_start "$process" 2>/dev/null) || continue
    if [ "$since" -lt "$age" ]; then age=$since; fi
  done
  if [ "$age" -gt "$HEALTH_SECONDS" ]; then
    echo "no line in $metrics for $age s"
    exit 1
  fi
fi
