#!/usr/bin/env bash
# Follows a job to its end: its state when that changes, the last lines of the main node when it is over. Exits with the
# main node's exit code (the job's, in Batch's eyes), 4 where the job ended without one. Of an array (sweep.sh) it prints
# how many of its jobs are in which state; 4 where one of them failed.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/monitor.sh JOB-ID        POLL_SECONDS=30 between two questions
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

case ${1:-} in
  -h | --help) usage "$0"; exit 0 ;;
  '') fail "no job was named" "run scripts/aws/batch/monitor.sh JOB-ID" ;;
esac
id=$1
check_account
# The main node of a multi-node job is ID#0, and has the exit code and the log.
field() { aws batch describe-jobs --jobs "$1" --query "jobs[0].$2" --output text; }
of_main_node() {
  local value
  value=$(field "$id#0" "$1" 2>/dev/null || true)
  if [ -z "$value" ] || [ "$value" = None ]; then value=$(field "$id" "$1"); fi
  printf '%s\n' "$value"
}

before=
while true; do
  now=$(field "$id" status)
  [ "$now" != None ] || fail "there is no job $id in $AWS_REGION" "list the jobs with aws batch list-jobs --job-queue $NAME"
  if [ "$now" != "$before" ]; then say "$(date -u +%T) $now, $(field "$id" statusReason)"; fi
  before=$now
  case $now in SUCCEEDED | FAILED) break ;; esac
  sleep "${POLL_SECONDS:-30}"
done
if [ "$(field "$id" arrayProperties.size)" != None ]; then
  note "$(aws batch describe-jobs --jobs "$id" --query 'jobs[0].arrayProperties.statusSummary' --output json | tr -d '{}"\n ')"
  [ "$now" = SUCCEEDED ] || note "which: aws batch list-jobs --array-job-id $id --job-status FAILED"
  [ "$now" = SUCCEEDED ] || exit 4
  exit 0
fi
stream=$(of_main_node container.logStreamName)
if [ "$stream" != None ]; then
  aws logs get-log-events --log-group-name /aws/batch/job --log-stream-name "$stream" --limit 40 --output text \
    --query 'events[].message' 2>/dev/null | tr '\t' '\n' || note "its log cannot be read"
fi
code=$(of_main_node container.exitCode)
if [ "$now" = SUCCEEDED ]; then exit 0; fi
case $code in
  '' | None | 0) exit 4 ;;
  *) exit "$code" ;;
esac
