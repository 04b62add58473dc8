#!/usr/bin/env bash
# Submits a training and prints its job id, alone on the last line. Refuses what could only wait or fail: more nodes than
# the environment may have, no queue, no file system, no data, no such recipe, a job of this name that is under way.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/submit.sh JOB-NAME [--nodes=N] [PARAMETER=VALUE]…
#
# Parameters are the job definition's: recipe (of scripts/recipes), data (/fsx/data), run_dir (/fsx/results/JOB-NAME), epochs, lr,
# seed; the last three are what the recipe says unless they are given. A job that is submitted again under its name, or with its
# run_dir, continues from the last checkpoint.
#   scripts/aws/batch/submit.sh baseline --nodes=20 recipe=resnet50_160gpu data=/fsx/data/resized epochs=18
# DATA_IS_THERE=1 where the data was made on the file system and is not in the bucket. What the job may cost at most is printed;
# above MOST_DOLLARS it is refused.
set -euo pipefail
# shellcheck source=scripts/aws/batch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

job=
nodes=
parameters=()
for argument in "$@"; do
  case $argument in
    -h | --help) usage "$0"; exit 0 ;;
    --nodes=*) nodes=${argument#--nodes=} ;;
    --array*) fail "Batch refuses arrays of multi-node jobs" \
      "scripts/aws/batch/trials.sh submits one for each trial; scripts/aws/batch/sweep.sh an array of trials on one machine each" ;;
    -*) fail "submit.sh does not know '$argument'" "--help says what it takes" ;;
    *=*) parameters+=("$argument") ;;
    *) [ -z "$job" ] || fail "two names were given: '$job' and '$argument'" "give one name; parameters have the form NAME=VALUE"
      job=$argument ;;
  esac
done
check_job_name "$job" 128
[[ -z $nodes || $nodes =~ ^[1-9][0-9]{0,2}$ ]] || fail "--nodes is '$nodes'" "give a number from 1 to 999"
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
check_file_system
check_data "$data"
twin=$(job_under_way "$job")
[ -z "$twin" ] || fail "a job $job is under way already: $twin" \
  "choose another name, or aws batch terminate-job --job-id $twin --reason …"

options=(--parameters "$(IFS=,; printf '%s' "${parameters[*]}")")
if [ -n "$nodes" ]; then options+=(--node-overrides "numNodes=$nodes"); fi
id=$(aws batch submit-job --job-name "$job" --job-queue "$NAME" --job-definition "$(definition_field "$NAME" jobDefinitionArn)" \
  --propagate-tags --tags "dtrain:name=$NAME" "${options[@]}" --query jobId --output text)
say "$job is submitted: scripts/aws/batch/monitor.sh $id"
printf '%s\n' "$id"
