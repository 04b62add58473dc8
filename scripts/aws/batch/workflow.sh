#!/usr/bin/env bash
# The workflow: a file system for one training, made before it and taken down after it, whatever becomes of it. One at a time
# under each NAME: instances mount the file system of this name.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/workflow.sh set-up
#   AWS_REGION=us-east-1 scripts/aws/batch/workflow.sh start JOB-NAME [PARAMETER=VALUE]…     prints the execution's ARN
#   AWS_REGION=us-east-1 scripts/aws/batch/workflow.sh wait EXECUTION-ARN                    exit code 0, or 4 and the cause
#
# scripts/aws/batch/clean_up.sh removes it; scripts/aws/cloudformation/clean_up.sh the file system of an aborted execution.
set -euo pipefail
# shellcheck source=scripts/aws/batch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

command=${1:-}
case $command in
  set-up | start | wait) shift ;;
  -h | --help) usage "$0"; exit 0 ;;
  *) fail "workflow.sh does not know '$command'" "it takes set-up, start or wait" ;;
esac
check_account

# longest: prints the seconds that all attempts may take, with their waits for machines (the queue cancels a job after an hour).
longest() {
  local seconds attempts
  read -r seconds attempts < <(definition_field "$NAME" '[timeout.attemptDurationSeconds, retryStrategy.attempts]')
  printf '%s\n' $((attempts * (seconds + 3600)))
}

if [ "$command" = set-up ]; then
  need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
  need_stack "$NAME-batch" "WITHOUT_FILE_SYSTEM=1 scripts/aws/batch/set_up.sh"
  deploy "$NAME-workflow" "$aws_folder/batch/workflow.yaml" "Name=$NAME" "CapacityGib=${CAPACITY_GIB:-2400}" \
    "SubnetId=$(stack_output "$NAME-base" PrivateSubnetId)" "BucketName=$(stack_output "$NAME-base" BucketName)" \
    "SecurityGroupId=$(stack_output "$NAME-base" SecurityGroupId)" "TrainSeconds=$(($(longest) + 3600))" \
    "AlarmTopicArn=$(stack_output "$NAME-batch" AlarmTopicArn)"
  say "Ready: POST $(stack_output "$NAME-workflow" Url), signed; or workflow.sh start JOB-NAME"
elif [ "$command" = start ]; then
  need_stack "$NAME-workflow" "scripts/aws/batch/workflow.sh set-up"
  job=${1:-}
  check_job_name "$job" 80
  shift
  [[ " $*" = *" run_dir="* ]] || set -- "$@" "run_dir=/fsx/results/$job"  # imported from the bucket, it continues
  check_parameters "$NAME" "$@"
  estimate_job "$NAME" "$(definition_field "$NAME" 'tags."dtrain:nodes"')" >&2  # the output is the ARN
  data=$(definition_field "$NAME" parameters.data)
  parameters=
  for argument in "$@"; do
    if [[ $argument = data=* ]]; then data=${argument#data=}; fi
    parameters+=${parameters:+, }"\"${argument%%=*}\": \"${argument#*=}\""
  done
  check_no_file_system
  check_data "$data"
  # The job definition may have been registered again with more HOURS or RETRIES than the workflow was made for.
  limit=$(stack_parameter "$NAME-workflow" TrainSeconds)
  [ "$limit" -ge "$(longest)" ] ||
    fail "the workflow ends a training after $limit s, and the job may take $(longest) s" "run scripts/aws/batch/workflow.sh set-up again"
  # An execution's name is taken for 90 days. A second call with the same name starts nothing.
  aws stepfunctions start-execution --state-machine-arn "$(stack_output "$NAME-workflow" StateMachineArn)" --name "$job" \
    --input "{\"job\": \"$job\", \"parameters\": {$parameters}}" --query executionArn --output text
else
  execution=${1:?the ARN of an execution}
  is_over() { [ "$(aws stepfunctions describe-execution --execution-arn "$execution" --query status --output text)" != RUNNING ]; }
  wait_until "${WAIT_SECONDS:-345600}" "the end of $execution" is_over
  read -r status cause < <(aws stepfunctions describe-execution --execution-arn "$execution" --query '[status, cause]' --output text)
  say "$status ${cause#None}"
  [ "$status" = SUCCEEDED ] || exit 4
fi
