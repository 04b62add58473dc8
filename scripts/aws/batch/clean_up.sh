#!/usr/bin/env bash
# Ends all jobs and removes queue, environment, job definitions and workflow, also those that a failed set-up has left. The
# file system, the network and the bucket stay (scripts/aws/cloudformation/clean_up.sh). Touches nothing without our tag.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/clean_up.sh [--dry_run] [--yes]
#
#   --dry_run   lists what would go, and what it costs
#   --yes       does not ask
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

for argument in "$@"; do
  deletion_option "$argument" || fail "clean_up.sh does not know '$argument'" "it takes --dry_run and --yes"
done
check_account

jobs_in() { aws batch list-jobs --job-queue "$NAME" --job-status "$1" --query 'jobSummaryList[].jobId' --output text; }
offer_jobs() {
  local state ids id owner
  for state in SUBMITTED PENDING RUNNABLE STARTING RUNNING; do
    ids=$(jobs_in "$state") || fail "Batch does not list the jobs of the queue" "see the message above, then run this again"
    for id in $ids; do
      if [ "$id" = None ]; then continue; fi
      owner=$(owner_of job "$id")
      [[ $owner = "$NAME" || $owner = gone ]] || fail "the job $id in the queue $NAME belongs to $owner, and the queue cannot go without it" \
        "if it may end: aws batch terminate-job --job-id $id --reason …, then run this again"
      offer job "$id"
    done
  done
}
no_jobs() {
  local state found
  for state in SUBMITTED PENDING RUNNABLE STARTING RUNNING; do
    found=$(jobs_in "$state") && [[ -z $found || $found = None ]] || return 1
  done
}
refuse_executions() {
  local machine running
  machine=$(stack_output "$NAME-workflow" StateMachineArn)
  if [ -z "$machine" ] || [ "$machine" = None ]; then return; fi
  running=$(aws stepfunctions list-executions --state-machine-arn "$machine" --status-filter RUNNING --query 'executions[].name' --output text) ||
    fail "Step Functions does not say what is running" "see the message above, then run this again"
  [[ -z $running || $running = None ]] || fail "the workflow is under way: $running; without it nothing would export its results or take its file system down" \
    "wait for it (workflow.sh wait), or aws stepfunctions stop-execution …, then run this again"
}

offer queue "$NAME"
if is_going queue "$NAME"; then offer_jobs; fi
offer stack "$NAME-workflow"
if is_going stack "$NAME-workflow"; then refuse_executions; fi
offer stack "$NAME-batch"
environments=$(aws batch describe-compute-environments --output text \
  --query "computeEnvironments[?status!='DELETED' && tags.\"dtrain:name\"=='$NAME'].computeEnvironmentName") ||
  fail "Batch does not list the environments" "see the message above, then run this again"
for name in $environments; do
  if [ "$name" != None ]; then offer environment "$name"; fi
done
for name in "$NAME" "$NAME-sweep"; do
  definitions=$(aws batch describe-job-definitions --job-definition-name "$name" --status ACTIVE \
    --query 'jobDefinitions[].jobDefinitionArn' --output text) || fail "Batch does not list the job definitions" "see the message above, then run this again"
  for definition in $definitions; do
    if [ "$definition" != None ]; then offer definition "$definition"; fi
  done
done
confirm

# What the stack of a failed set-up has left behind goes after the stack.
list=$going
if is_going queue "$NAME"; then
  aws batch update-job-queue --job-queue "$NAME" --state DISABLED >/dev/null
  while read -r kind id; do
    if [ "$kind" = job ]; then delete job "$id"; fi
  done <<<"$list"
  wait_until 900 "the jobs to end" no_jobs
fi
delete stack "$NAME-workflow"
delete stack "$NAME-batch"
delete queue "$NAME"
while read -r kind id; do
  case $kind in environment | definition) delete "$kind" "$id" ;; esac
done <<<"$list"
say "Done: nothing of ours is left in Batch under the name $NAME"
