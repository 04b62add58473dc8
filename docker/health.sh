#!/usr/bin/env bash
# Succeeds if this container is healthy: one of the programs runs, and, if HEALTH_SECONDS is set, the run directory's
# metrics.jsonl has grown within that many seconds (more than the longest evaluation and the first batches take).
set -euo pipefail

running=no
for name in /proc/[0-9]*/comm; do
  if [ -r "$name" ] && [[ $(cat "$name" 2>/dev/null || true) = dtrain_* ]]; then running=yes; fi
done
if [ "$running" = no ]; then
  echo "no dtrain program runs"
  exit 1
fi
metrics=${RUN_DIR:-}/metrics.jsonl
if [ -n "${HEALTH_SECONDS:-}" ] && [ -f "$metrics" ]; then
  age=$(($(date +%s) - $(stat -c %Y "$metrics")))
  if [ "$age" -gt "$HEALTH_SECONDS" ]; then
    echo "no line in $metrics for $age s"
    exit 1
  fi
fi
