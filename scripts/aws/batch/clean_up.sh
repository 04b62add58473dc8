#!/usr/bin/env bash
# Ends all jobs and removes queue, environment, job definitions and workflow, also those that a failed set-up has left. The
# file system, the network and the bucket stay (scripts/aws/cloudformation/clean_up.sh).
#
#   AWS_REGION=us-east-1 scripts/aws/batch/clean_up.sh
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

takes_nothing "$0" "it takes nothing" "$@"
check_account

queue_field() { aws batch describe-job-queues --job-queues "$NAME" --query "jobQueues[0].$1" --output text 2>/dev/null || printf 'None\n'; }
environment_field() {
  aws batch describe-compute-environments --compute-environments "$1" --query "computeEnvironments[0].$2" --output text 2>/dev/null || printf 'None\n'
}
queue_settled() { [ "$(queue_field status)" != UPDATING ]; }
queue_gone() { case $(queue_field status) in None | DELETED) ;; *) return 1 ;; esac; }
environment_settled() { [ "$(environment_field "$1" status)" != UPDATING ]; }
environment_gone() { case $(environment_field "$1" status) in None | DELETED) ;; *) return 1 ;; esac; }
jobs_in() { aws batch list-jobs --job-queue "$NAME" --job-status "$1" --query 'jobSummaryList[].jobId' --output text | tr '\t' '\n' | sed '/^None$/d'; }
no_jobs() {
  local state
  for state in SUBMITTED PENDING RUNNABLE STARTING RUNNING; do
    if [ -n "$(jobs_in "$state")" ]; then return 1; fi
  done
}

environment=None
if ! queue_gone; then
  environment=$(queue_field 'computeEnvironmentOrder[0].computeEnvironment')
  aws batch update-job-queue --job-queue "$NAME" --state DISABLED >/dev/null
  for state in SUBMITTED PENDING RUNNABLE STARTING RUNNING; do
    for id in $(jobs_in "$state"); do
      say "Ending the job $id"
      aws batch terminate-job --job-id "$id" --reason "scripts/aws/batch/clean_up.sh"
    done
  done
  wait_until 900 "the jobs to end" no_jobs
fi
delete_stack "$NAME-workflow"
delete_stack "$NAME-batch"

# Job definitions that a failed stack has left behind.
if ! queue_gone; then
  say "Deleting the queue $NAME"
  wait_until 600 "the queue to be disabled" queue_settled
  aws batch delete-job-queue --job-queue "$NAME"
  wait_until 600 "the queue to be deleted" queue_gone
fi
if [ "$environment" != None ] && ! environment_gone "$environment"; then
  say "Deleting the environment $environment"
  aws batch update-compute-environment --compute-environment "$environment" --state DISABLED >/dev/null
  wait_until 600 "the environment to be disabled" environment_settled "$environment"
  aws batch delete-compute-environment --compute-environment "$environment"
  wait_until 900 "the environment to be deleted" environment_gone "$environment"
fi
for name in "$NAME" "$NAME-sweep"; do
  for definition in $(aws batch describe-job-definitions --job-definition-name "$name" --status ACTIVE \
    --query 'jobDefinitions[].jobDefinitionArn' --output text); do
    if [ "$definition" != None ]; then aws batch deregister-job-definition --job-definition "$definition"; fi
  done
done
say "Nothing of Batch is left under the name $NAME"
