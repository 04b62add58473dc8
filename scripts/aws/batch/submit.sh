#!/usr/bin/env bash
# Submits a training and prints its job id, alone on the last line. Refuses what could only wait or fail: more nodes than
# the environment may have, no queue, a job of this name that is still under way.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/submit.sh JOB-NAME [--nodes=N] [PARAMETER=VALUE]…
#
# Parameters are the job definition's: recipe (of scripts/recipes), epochs, lr, seed.
#   scripts/aws/batch/submit.sh baseline --nodes=20 recipe=resnet50_160gpu epochs=90
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

job=
nodes=
parameters=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage "$0"; exit 0 ;;
    --nodes=*) nodes=${argument#--nodes=} ;;
    --array*) fail "Batch refuses arrays of multi-node jobs" "scripts/aws/batch/sweep.sh submits one job for each trial" ;;
    -*) fail "submit.sh does not know '$argument'" "--help says what it takes" ;;
    *=*) parameters+=("$argument") ;;
    *) [ -z "$job" ] || fail "two names were given: '$job' and '$argument'" "parameters are NAME=VALUE"
      job=$argument ;;
  esac
done
[[ $job =~ ^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$ ]] || fail "'$job' is no name for a job" "begin with a letter or digit; up to 128 of letters, digits, - and _"
[[ -z $nodes || $nodes =~ ^[1-9][0-9]{0,2}$ ]] || fail "--nodes is '$nodes'" "give a number from 1 to 999"
check_account

# One query each: a field, of the newest definition and of the queue.
definition() {
  aws batch describe-job-definitions --job-definition-name "$NAME" --status ACTIVE --output text \
    --query "reverse(sort_by(jobDefinitions, &revision))[0].$1"
}
revision=$(definition jobDefinitionArn)
[ "$revision" != None ] || fail "there is no job definition $NAME" "run scripts/aws/batch/set_up.sh first"
known=$(definition 'keys(parameters)')
for parameter in "${parameters[@]}"; do
  [[ $'\t'$known$'\t' = *$'\t'${parameter%%=*}$'\t'* ]] || fail "the job definition has no parameter '${parameter%%=*}'" "it has: ${known//$'\t'/ }"
  [[ $parameter != *,* ]] || fail "'$parameter' has a comma, which the AWS CLI takes for the next parameter" "put it into a recipe"
done
read -r state status environment < <(aws batch describe-job-queues --job-queues "$NAME" --output text \
  --query 'jobQueues[0].[state, status, computeEnvironmentOrder[0].computeEnvironment]')
[ "$state $status" = "ENABLED VALID" ] || fail "the queue $NAME is ${state:-not there} ${status:-}" "run scripts/aws/batch/set_up.sh"
limit=$(aws batch describe-compute-environments --compute-environments "$environment" --output text \
  --query 'computeEnvironments[0].computeResources.maxvCpus')
type=$(definition 'tags."dtrain:instance-type"')
wanted=$((${nodes:-$(definition 'tags."dtrain:nodes"')} * $(instance_value "$type" 2)))
[ "$wanted" -le "$limit" ] || fail "the job needs $wanted vCPUs, and the environment may have $limit: it would wait for ever" \
  "fewer --nodes, or NODES=… scripts/aws/batch/set_up.sh"
for under_way in SUBMITTED PENDING RUNNABLE STARTING RUNNING; do
  twin=$(aws batch list-jobs --job-queue "$NAME" --job-status "$under_way" --output text \
    --query "jobSummaryList[?jobName=='$job'].jobId | [0]")
  [ "$twin" = None ] || fail "a job $job is $under_way already: $twin" "choose another name, or aws batch terminate-job --job-id $twin --reason …"
done

options=()
if [ ${#parameters[@]} -gt 0 ]; then options+=(--parameters "$(IFS=,; printf '%s' "${parameters[*]}")"); fi
if [ -n "$nodes" ]; then options+=(--node-overrides "numNodes=$nodes"); fi
id=$(aws batch submit-job --job-name "$job" --job-queue "$NAME" --job-definition "$revision" --propagate-tags \
  --tags "dtrain:name=$NAME" "${options[@]}" --query jobId --output text)
say "$job is submitted: scripts/aws/batch/monitor.sh $id"
printf '%s\n' "$id"
