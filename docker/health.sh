#!/usr/bin/env bash
# Docker's HEALTHCHECK, if METRICS_PORT is set: asks the training in this container whether its ranks go on, as Kubernetes
# does by itself. Fails if they stand still or do not answer. While nobody listens, the training has not begun, or another
# program runs: that is healthy, because a program that ends also ends its container.
set -euo pipefail

if [ -z "${METRICS_PORT:-}" ] || ! { exec 3<>"/dev/tcp/127.0.0.1/$METRICS_PORT"; } 2>/dev/null; then exit 0; fi
printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
if ! read -r -t 5 -u 3 status; then
  echo "the training does not answer"
  exit 1
fi
sed '1,/^\r$/d' <&3
[[ $status = 'HTTP/1.'?' 200 '* ]]
