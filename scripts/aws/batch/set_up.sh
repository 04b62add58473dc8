#!/usr/bin/env bash
# Makes the Batch environment and queue, and registers the job definition. Checks first what would fail after an hour: the
# file system, the image, the quota, the zone. Costs nothing while no job is in the queue. Run it again to bring it up to
# date: what is as it should be is not touched.
#
#   AWS_REGION=us-east-1 NODES=20 scripts/aws/batch/set_up.sh [--workflow]
#
#   --workflow   no file system that is there all the time: also makes the workflow (workflow.yaml), which makes one of CAPACITY_GIB
#                (2400) for each training
# A queue that was disabled, by the budget's stop or by a person, is enabled again.
# Environment: INSTANCE_TYPE (p4d.24xlarge), NODES (2): the most that a job may have; IMAGE (default: the newest one of the
# base stack's repository, by its digest); RETRIES (3), HOURS (24): the most that an attempt may take. What a job of all NODES may
# cost with them is printed, here and before each submission; above MOST_DOLLARS it is refused. EMAIL gets alarms (failed jobs,
# ends of the workflow); BUDGET: dollars a month, at which all jobs are told to stop. Both stay as they are if they are not given.
# CAPACITY_RESERVATION_ID: a Capacity Block or a reservation on demand, in which all machines are started (in its zone: GPU_ZONE).
# Otherwise jobs that find no machines in the first zone are tried in the base stack's OTHER_ZONE.
# MACHINE_IMAGE: an AMI of your own in place of Batch's newest one, which does not drive V100s (p3).
set -euo pipefail
# shellcheck source=scripts/aws/batch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

if [ "${1:-}" != --workflow ]; then takes_nothing "$0" "it takes --workflow; its settings are environment variables: --help" "$@"; fi
type=${INSTANCE_TYPE:-p4d.24xlarge}
nodes=${NODES:-2}
check_driver "$type" MACHINE_IMAGE "an AMI for ECS with that driver; Batch's own ones do not support p3 any more"
[[ $nodes =~ ^[1-9][0-9]{0,2}$ ]] || fail "NODES is '$nodes'" "give a number from 1 to 999"
[[ ${BUDGET:-0} =~ ^[0-9]+$ ]] || fail "BUDGET is '$BUDGET'" "give whole dollars a month; 0 removes the budget"
check_account
check_instance_type "$type"
need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
if [ "${1:-}" != --workflow ]; then need_stack "$NAME-files" "scripts/aws/cloudformation/set_up.sh --file-system"; fi

network=$(private_subnet)
read -r subnet zone <<<"$network"
[ -z "${SPOT:-}" ] || fail "Batch runs no job of several machines on Spot" "unset SPOT; EKS, ParallelCluster and machines by hand can use it"
check_capacity "$type" "$zone" "$nodes"
other=
if [ -z "${CAPACITY_RESERVATION_ID:-}${GPU_ZONE:-}" ]; then other=$(stack_output "$NAME-base" OtherPrivateSubnetId); fi

image=${IMAGE:-$(image_of latest)}
[[ $image = *@sha256:* ]] || note "IMAGE has no digest: attempts of one job may run different images"
estimate "$type" "$nodes" "${HOURS:-24}" "${RETRIES:-3}"

group=$(stack_output "$NAME-base" SecurityGroupId)
profile=$(stack_output "$NAME-base" InstanceProfileArn)
role=$(stack_output "$NAME-base" JobRoleArn)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$aws_folder/instance_types.py" "$type" "$aws_folder/batch/environment.yaml" >"$work/environment.yaml"
deploy "$NAME-batch" "$work/environment.yaml" "Name=$NAME" "SubnetId=$subnet" "OtherSubnetId=${other#None}" "InstanceType=$type" \
  "CapacityReservationId=${CAPACITY_RESERVATION_ID:-}" "Market=$market" "ImageId=${MACHINE_IMAGE:-}" \
  "SecurityGroupId=$group" "MaxVcpus=$((nodes * $(instance_value "$type" 2)))" \
  "InstanceProfileArn=$profile" ${EMAIL+"Email=$EMAIL"} ${BUDGET+"BudgetDollars=$BUDGET"}
if [ "${BUDGET:-0}" != 0 ]; then
  note "the budget sees costs only when dtrain:name is active as a cost allocation tag, a day after its first use:"
  note "aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey=dtrain:name,Status=Active"
fi

# The budget's stop is none of CloudFormation's.
enable() {  # enable KIND ID FIELD KIND-FOR-is_settled
  local state
  state=$(rows batch "describe-$1s" "--$1s" "$2" --query "$3[0].state")
  if [ "$state" = ENABLED ]; then return; fi
  note "the $1 $2 was $state, and is enabled again; a budget that is spent does not stop it once more this month: raise BUDGET"
  wait_until 600 "the $1 to be settled" is_settled "$4" "$2"
  aws batch "update-$1" "--$1" "$2" --state ENABLED >/dev/null
}
environments=$(rows batch describe-job-queues --job-queues "$NAME" --query 'jobQueues[].computeEnvironmentOrder[].computeEnvironment')
for environment in $environments; do
  enable compute-environment "$environment" computeEnvironments environment
done
enable job-queue "$NAME" jobQueues queue

register "$NAME" --instance_type="$type" --nodes="$nodes" --image="$image" --role="$role" --retries="${RETRIES:-3}" --hours="${HOURS:-24}"
if [ "${1:-}" = --workflow ]; then
  subnet=$(stack_output "$NAME-base" PrivateSubnetId)
  bucket=$(stack_output "$NAME-base" BucketName)
  topic=$(stack_output "$NAME-batch" AlarmTopicArn)
  seconds=$(longest)
  deploy "$NAME-workflow" "$aws_folder/batch/workflow.yaml" "Name=$NAME" "CapacityGib=${CAPACITY_GIB:-2400}" "SubnetId=$subnet" \
    "BucketName=$bucket" "SecurityGroupId=$group" "TrainSeconds=$((seconds + 3600))" "AlarmTopicArn=$topic"
fi
say "Ready: scripts/aws/batch/submit.sh${1:+ $1}"
