#!/usr/bin/env bash
# Ends all jobs and removes queue, environment, job definitions and workflow, also those that a failed set-up has left. The
# file system, the network and the bucket stay (scripts/aws/cloudformation/clean_up.sh). Touches nothing without our tag.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/clean_up.sh [--dry_run] [--yes]
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

deletion_options "" "$@"
check_account

offer_jobs() {
  local ids id owner
  ids=$(list_jobs 'jobSummaryList[].jobId') || fail "Batch does not list the jobs of the queue" "see the message above, then run this again"
  for id in $ids; do
    owner=$(owner_of job "$id")
    [[ $owner = "$NAME" || $owner = gone ]] || fail "the job $id in the queue $NAME belongs to $owner, and the queue cannot go without it" \
      "if it may end: aws batch terminate-job --job-id $id --reason …, then run this again"
    offer job "$id"
  done
}
no_jobs() {
  local found
  found=$(list_jobs 'jobSummaryList[].jobId') && [ -z "$found" ]
}

offer queue "$NAME"
if is_going queue "$NAME"; then offer_jobs; fi
offer stack "$NAME-workflow"
if is_going stack "$NAME-workflow"; then refuse_executions; fi
offer stack "$NAME-batch"
offer_all environment "Batch does not list the environments" batch describe-compute-environments \
  --query "computeEnvironments[?status!='DELETED' && tags.\"dtrain:name\"=='$NAME'].computeEnvironmentName"
for name in "$NAME" "$NAME-sweep"; do
  offer_all definition "Batch does not list the job definitions" batch describe-job-definitions --job-definition-name "$name" \
    --status ACTIVE --query 'jobDefinitions[].jobDefinitionArn'
done
confirm

if is_going queue "$NAME"; then
  aws batch update-job-queue --job-queue "$NAME" --state DISABLED >/dev/null
  delete_all job
  wait_until 900 "the jobs to end" no_jobs
fi
delete stack "$NAME-workflow"
delete stack "$NAME-batch"
# What the stack of a failed set-up has left behind goes after the stack.
delete queue "$NAME"
delete_all environment definition
say "Done: nothing of ours is left in Batch under the name $NAME"
