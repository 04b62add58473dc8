#!/usr/bin/env bash
# Submits a training and prints its job id, alone on the last line. Refuses what could only wait or fail: more nodes than
# the environment may have, no queue, no file system, no data, no such recipe, a job of this name that is under way.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/submit.sh JOB-NAME [--nodes=N | --workflow] [PARAMETER=VALUE]…
#
# Parameters are the job definition's: recipe (of scripts/recipes), data (/fsx/data), run_dir (/fsx/results/JOB-NAME), epochs, lr,
# seed; the last three are what the recipe says unless they are given. A job that is submitted again under its name, or with its
# run_dir, continues from the last checkpoint.
#   scripts/aws/batch/submit.sh baseline --nodes=20 recipe=resnet50_160gpu data=/fsx/data/resized epochs=18
#   --workflow   makes a file system for this training, and takes it down after it, whatever becomes of it (set_up.sh --workflow).
#                One at a time under each NAME: instances mount the file system of this name. Prints the execution's ARN
# DATA_IS_THERE=1 where the data was made on the file system and is not in the bucket. What the job may cost at most is printed;
# above MOST_DOLLARS it is refused.
set -euo pipefail
# shellcheck source=scripts/aws/batch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

job=
nodes=
workflow=
parameters=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage "$0"; exit 0 ;;
    --nodes=*) nodes=${argument#--nodes=} ;;
    --workflow) workflow=yes ;;
    --array*) fail "Batch refuses arrays of multi-node jobs" \
      "submit one job for each trial; scripts/aws/batch/sweep.sh submits an array of trials on one machine each" ;;
    -*) fail "submit.sh does not know '$argument'" "--help says what it takes" ;;
    *=*) parameters+=("$argument") ;;
    *) [ -z "$job" ] || fail "two names were given: '$job' and '$argument'" "give one name; parameters have the form NAME=VALUE"
      job=$argument ;;
  esac
done
# An execution of the workflow has the job's name and the time, in 80 characters.
check_job_name "$job" $((${workflow:+-64} + 128))
[[ -z $nodes || $nodes =~ ^[1-9][0-9]{0,2}$ ]] || fail "--nodes is '$nodes'" "give a number from 1 to 999"
[ -z "$nodes" ] || [ -z "$workflow" ] || fail "--nodes and --workflow were both given" \
  "a workflow's job has the nodes of its definition: NODES=$nodes scripts/aws/batch/set_up.sh --workflow"
check_account

[[ " ${parameters[*]-}" = *" run_dir="* ]] || parameters+=("run_dir=/fsx/results/$job")
check_parameters "$NAME" "${parameters[@]}"
asked=${nodes:-$(definition_field "$NAME" 'tags."dtrain:nodes"')}
check_queue "$NAME" "$asked"
estimate_job "$NAME" "$asked"
data=$(definition_field "$NAME" parameters.data)
for parameter in "${parameters[@]}"; do
  if [[ $parameter = data=* ]]; then data=${parameter#data=}; fi
done
[ -n "$workflow" ] || check_file_system
check_data "$data"
twin=$(job_under_way "$job")
[ -z "$twin" ] || fail "a job $job is under way already: $twin" \
  "choose another name, or aws batch terminate-job --job-id $twin --reason …"
# All ranks of this submission know it, and nobody else (docs/trust.md). The entry point takes it out of the command line.
parameters+=("run_token=$(openssl rand -hex 16)")
given=$(python3 -c 'import json, sys; print(json.dumps(dict(one.split("=", 1) for one in sys.argv[1:])))' "${parameters[@]}")

if [ -n "$workflow" ]; then
  need_stack "$NAME-workflow" "scripts/aws/batch/set_up.sh --workflow"
  refuse_executions
  check_no_file_system
  # The job definition may have been registered again with more HOURS or RETRIES than the workflow was made for.
  limit=$(stack_parameter "$NAME-workflow" TrainSeconds)
  [ "$limit" -ge "$(longest)" ] ||
    fail "the workflow ends a training after $limit s, and the job may take $(longest) s" "run scripts/aws/batch/set_up.sh --workflow again"
  machine=$(stack_output "$NAME-workflow" StateMachineArn)
  # The name of an execution is taken for 90 days: two of one minute differ in their last six digits.
  id=$(aws stepfunctions start-execution --state-machine-arn "$machine" \
    --name "$job-$(date -u +%m%dT%H%M)$(openssl rand -hex 3)" --input "{\"job\": \"$job\", \"parameters\": $given}" --query executionArn --output text)
  say "$job is under way: aws stepfunctions describe-execution --execution-arn $id --query '[status, cause]'"
else
  options=(--parameters "$given")
  if [ -n "$nodes" ]; then options+=(--node-overrides "numNodes=$nodes"); fi
  id=$(aws batch submit-job --job-name "$job" --job-queue "$NAME" --job-definition "$(definition_field "$NAME" jobDefinitionArn)" \
    --propagate-tags --tags "dtrain:name=$NAME" "${options[@]}" --query jobId --output text)
  say "$job is submitted: aws batch describe-jobs --jobs $id --query 'jobs[0].[status, statusReason]'; its log: aws logs tail /dtrain/$NAME --follow"
fi
printf '%s\n' "$id"
