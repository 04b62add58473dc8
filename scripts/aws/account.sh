# shellcheck shell=bash
# Sourced by the scripts beside it: the account, its stacks, and everything that is checked before money is spent.
#
# Environment of all of them: AWS_REGION (required), and the usual ones of the AWS CLI; NAME (default: dtrain) is the prefix
# of all names and the value of the tag dtrain:name, by which clean-up finds what a failed set-up has left.

aws_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/aws/costs.sh
source "$aws_folder/costs.sh"
NAME=${NAME:-dtrain}
export AWS_PAGER=""
shopt -s inherit_errexit  # what fails within $(…) is no empty text

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
fail() {  # fail WHAT HAPPENED, WHAT TO DO
  printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 2
}

# usage SCRIPT: prints its opening comment.
usage() { sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$1"; }

# takes_nothing SCRIPT WHAT TO DO ARGUMENTS…: for scripts without arguments except --help.
takes_nothing() {
  case ${3:-} in
    '') ;;
    -h | --help) usage "$1"; exit 0 ;;
    *) fail "$(basename "$1") does not know '$3'" "$2" ;;
  esac
}

need() {  # need VARIABLE MEANING
  [ -n "${!1:-}" ] || fail "$1 is not set" "export $1=… ($2)"
}

# Checks that the CLI is installed, the region is one of this account's, and the credentials work. Costs nothing.
check_account() {
  command -v aws >/dev/null || fail "the AWS CLI is not installed" "pip install awscli, or AWS's installer"
  [[ $NAME =~ ^[a-z][a-z0-9-]{1,30}$ ]] || fail "NAME is '$NAME'" "use 2 to 31 lower-case letters, digits and hyphens"
  need AWS_REGION "such as us-east-1, the region of your quota and of your bucket"
  export AWS_DEFAULT_REGION=$AWS_REGION
  local regions
  [[ $AWS_REGION =~ ^[a-z]{2}(-[a-z]+)+-[0-9]$ ]] || fail "AWS_REGION is '$AWS_REGION', which is not a region" "set it to one such as us-east-1"
  account=$(aws sts get-caller-identity --query Account --output text 2>&1) ||
    fail "AWS does not know who you are: ${account##*$'\n'}" "run aws configure or aws sso login, and check AWS_REGION"
  regions=$(aws ec2 describe-regions --query 'Regions[].RegionName' --output text) ||
    fail "AWS does not answer in the region '$AWS_REGION'" "see the message above; check AWS_REGION and that you have the permission ec2:DescribeRegions"
  [[ $'\t'${regions//$'\n'/$'\t'}$'\t' = *$'\t'$AWS_REGION$'\t'* ]] ||
    fail "this account has no region '$AWS_REGION'" "choose one of: ${regions//$'\t'/ }"
}

# rows AWS-ARGUMENTS…: prints what --query finds in the whole answer, an element a line, its fields apart by tabs, null as None. (Asked
# for text, the CLI applies the query to each page of an answer, which has as many firsts as pages.)
rows() {
  local answer
  answer=$(aws "$@" --output json) || return
  python3 -c 'import json, sys
found = json.loads(sys.stdin.read() or "null")
for row in found if isinstance(found, list) else [found]:
    print(*("None" if field is None else field for field in (row if isinstance(row, list) else [row])), sep="\t")' <<<"$answer"
}

# instance_value TYPE COLUMN: prints a value of instance_types.tsv
instance_value() { awk -F'\t' -v type="$1" -v column="$2" '$1 == type {print $column}' "$aws_folder/instance_types.tsv"; }

check_instance_type() {  # check_instance_type TYPE
  [ -n "$(instance_value "$1" 2)" ] || fail "$1 is not among the instance types that these scripts know" \
    "choose one of $(awk -F'\t' '!/^#/ {printf "%s ", $1}' "$aws_folder/instance_types.tsv")or add a line to scripts/aws/instance_types.tsv"
}

check_offered() {  # check_offered TYPE ZONE
  local found
  found=$(rows ec2 describe-instance-type-offerings --location-type availability-zone \
    --filters "Name=instance-type,Values=$1" "Name=location,Values=$2" --query 'InstanceTypeOfferings[].InstanceType')
  [ -n "$found" ] || fail "$1 is not offered in $2" "take another zone; it is offered in: $(rows ec2 describe-instance-type-offerings \
    --location-type availability-zone --filters "Name=instance-type,Values=$1" --query 'InstanceTypeOfferings[].Location' | paste -sd ' ' -)"
}

# check_quota TYPE NODES: the vCPUs that this account may run at once, less those that run. Machines of this NAME do not count, since
# a set-up is also repeated while they run.
check_quota() {
  local wanted have running
  wanted=$(($2 * $(instance_value "$1" 2)))
  have=$(aws service-quotas get-service-quota --service-code ec2 --quota-code "$(instance_value "$1" 6)" \
    --query Quota.Value --output text 2>&1) ||
    fail "the quota for $1 cannot be read: ${have##*$'\n'}" "this needs the permission servicequotas:GetServiceQuota"
  running=$(rows ec2 describe-instances --filters "Name=instance-type,Values=${1:0:1}*" Name=instance-state-name,Values=pending,running --query \
    "Reservations[].Instances[?!InstanceLifecycle && !(Tags[?Key=='dtrain:name' && Value=='$NAME'])][].CpuOptions.[CoreCount, ThreadsPerCore]") ||
    fail "the instances that run cannot be listed" "this needs the permission ec2:DescribeInstances"
  running=$(awk '{sum += $1 * $2} END {print sum + 0}' <<<"$running")
  have=$((${have%.*} - running))
  [ "$have" -ge "$wanted" ] || fail "$2 × $1 need $wanted vCPUs, and this account's quota is $((have + running)), of which $running are in use" \
    "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code $(instance_value "$1" 6) --desired-value $((wanted + running))"
}

# check_driver TYPE VARIABLE WHAT: requires an image that is pinned by VARIABLE for V100s, whose last driver branch is NVIDIA's 580.
check_driver() {
  case $1 in
    p3*) [ -n "${!2:-}" ] || fail "$1 has V100s, for which NVIDIA's driver 580 is the last branch, and this year's images have 595" \
      "pin an image with the closed driver 570 or 580: $2=… ($3), or take p4d.24xlarge or newer" ;;
  esac
}

# check_reservation TYPE ZONE NODES: requires that CAPACITY_RESERVATION_ID has that many machines of this type there.
check_reservation() {
  local found state type place machines
  found=$(aws ec2 describe-capacity-reservations --capacity-reservation-ids "$CAPACITY_RESERVATION_ID" --output text --query \
    'CapacityReservations[0].[State, InstanceType, AvailabilityZone, TotalInstanceCount, ReservationType]' 2>&1) ||
    fail "the reservation $CAPACITY_RESERVATION_ID cannot be read: ${found##*$'\n'}" "aws ec2 describe-capacity-reservations lists yours"
  read -r state type place machines market <<<"$found"
  [ "$type $place" = "$1 $2" ] || fail "the reservation $CAPACITY_RESERVATION_ID is of $type in $place" \
    "set INSTANCE_TYPE=$type and the zone to it: GPU_ZONE=$place (ZONE=$place where the network is made)"
  case $state in active | scheduled | pending) ;; *) fail "the reservation $CAPACITY_RESERVATION_ID is $state" "name one that is active or scheduled" ;; esac
  [ "$machines" -ge "$3" ] || fail "the reservation $CAPACITY_RESERVATION_ID has $machines machines, not $3" "fewer nodes, or a larger reservation"
}

# check_capacity TYPE ZONE NODES: whether so many machines may be started there, and in `market` how they are paid: on-demand
# (also in a reservation on demand), capacity-block (CAPACITY_RESERVATION_ID names one) or spot (SPOT=1).
check_capacity() {
  market=on-demand
  check_offered "$1" "$2"
  if [ -n "${CAPACITY_RESERVATION_ID:-}" ]; then
    [ -z "${SPOT:-}" ] || fail "SPOT and CAPACITY_RESERVATION_ID are both set" "unset one of them"
    check_reservation "$1" "$2" "$3"  # no quota limits it
    if [ "$market" != capacity-block ]; then market=on-demand; fi
  elif [ -n "${SPOT:-}" ]; then
    market=spot
    note "Spot has a quota of its own, which is not checked; a machine is taken back two minutes after its notice"
  else
    check_quota "$1" "$3"
  fi
}

# check_login: KEY and SSH_FROM, with which a person gets into machines. (`pl-…` is a prefix list of addresses.)
check_login() {
  need KEY "the name of an EC2 key pair of yours, for ssh"
  need SSH_FROM "the addresses that may log in, such as your own: 203.0.113.7/32"
  [[ $SSH_FROM =~ ^[0-9]{1,3}(\.[0-9]{1,3}){3}/([1-9]|[12][0-9]|3[0-2])$|^pl-[0-9a-f]+$ ]] ||
    fail "SSH_FROM is '$SSH_FROM'" "name your own addresses, such as 203.0.113.7/32, not the whole world"
}

check_key() {
  aws ec2 describe-key-pairs --key-names "$KEY" >/dev/null 2>&1 ||
    fail "there is no key pair $KEY in $AWS_REGION" "aws ec2 create-key-pair --key-name $KEY, or set KEY"
}

# list_jobs QUERY: asks for the jobs in Batch's queue that have not ended.
list_jobs() {
  local state
  for state in SUBMITTED PENDING RUNNABLE STARTING RUNNING; do
    rows batch list-jobs --job-queue "$NAME" --job-status "$state" --query "$1" || return 1
  done
}

# is_settled queue|environment ID: whether Batch has done what it was asked for last.
is_settled() {
  local status
  case $1 in
    queue) status=$(aws batch describe-job-queues --job-queues "$2" --query 'jobQueues[0].status' --output text) ;;
    *) status=$(aws batch describe-compute-environments --compute-environments "$2" --query 'computeEnvironments[0].status' --output text) ;;
  esac
  [ "$status" != UPDATING ]
}

# ---- Stacks ------------------------------------------------------------------------------------------------------------

# Each prints a fact of a stack, nothing if there is no such stack, and None if the stack has no such output or parameter. What
# AWS does not answer is refused: a stack that is there must not be taken for none.
stack_field() {
  local found
  found=$(aws cloudformation describe-stacks --stack-name "$1" --query "Stacks[0].$2" --output text 2>&1) || case $found in
    *"does not exist"*) found= ;;
    *) fail "CloudFormation does not describe the stack $1: ${found##*$'\n'}" "see the message, then run this again" ;;
  esac
  printf '%s\n' "$found"
}
stack_status() { stack_field "$1" StackStatus; }
stack_owner() { stack_field "$1" "Tags[?Key=='dtrain:name'].Value | [0]"; }
stack_output() { stack_field "$1" "Outputs[?OutputKey=='$2'].OutputValue | [0]"; }
stack_parameter() { stack_field "$1" "Parameters[?ParameterKey=='$2'].ParameterValue | [0]"; }

need_stack() {  # need_stack STACK SCRIPT
  local status
  status=$(stack_status "$1")
  case $status in
    CREATE_COMPLETE | UPDATE_COMPLETE | UPDATE_ROLLBACK_COMPLETE) ;;
    '') fail "there is no stack $1" "run $2 first, with the same NAME and AWS_REGION" ;;
    *) fail "the stack $1 is $status" "wait for it, or clean up and run $2 again" ;;
  esac
}

# refuse_executions: refuses while the workflow (batch/workflow.yaml) is under way.
refuse_executions() {
  local machine running
  machine=$(stack_output "$NAME-workflow" StateMachineArn)
  if [ -z "$machine" ] || [ "$machine" = None ]; then return; fi
  running=$(rows stepfunctions list-executions --state-machine-arn "$machine" --status-filter RUNNING --query 'executions[].name' 2>&1) || case $running in
    *DoesNotExist*) running= ;;
    *) fail "Step Functions does not say what is running: ${running##*$'\n'}" "see the message, then run this again" ;;
  esac
  [ -z "$running" ] || fail "the workflow is under way: $running; without it nothing would export its results or take its file system down" \
    "wait for it, or aws stepfunctions stop-execution …, then run this again"
}

# image_of TAG: prints the base stack's image of this tag by its digest, so that all nodes and all attempts run the
# same one, whatever is pushed meanwhile.
image_of() {
  local repository digest
  repository=$(stack_output "$NAME-base" RepositoryUri)
  digest=$(aws ecr describe-images --repository-name "$NAME" --image-ids "imageTag=$1" --query 'imageDetails[0].imageDigest' --output text 2>/dev/null) ||
    fail "there is no image $repository:$1" "docs/aws.md has the commands that build and push it; or set IMAGE"
  printf '%s@%s\n' "$repository" "$digest"
}

# private_subnet: prints the base stack's private subnet and its zone: that of GPU_ZONE, or the first one.
private_subnet() {
  local key subnet place
  for key in PrivateSubnetId OtherPrivateSubnetId; do
    subnet=$(stack_output "$NAME-base" "$key")
    if [ -z "$subnet" ] || [ "$subnet" = None ]; then continue; fi
    place=$(aws ec2 describe-subnets --subnet-ids "$subnet" --query 'Subnets[0].AvailabilityZone' --output text)
    if [ "${GPU_ZONE:-$place}" = "$place" ]; then printf '%s %s\n' "$subnet" "$place"; return; fi
  done
  fail "the network of $NAME has no private subnet in $GPU_ZONE" "OTHER_ZONE=$GPU_ZONE scripts/aws/cloudformation/set_up.sh adds one, with the ZONE it has"
}

# deploy STACK TEMPLATE NAME=VALUE…: makes the stack, updates it, or leaves it if it is up to date. Does not touch a
# stack of this name that belongs to somebody else.
deploy() {
  local stack=$1 template=$2 status answer
  shift 2
  status=$(stack_status "$stack")
  if [ -n "$status" ] && [ "$status" != REVIEW_IN_PROGRESS ]; then  # that status is of a change set that was never executed
    [ "$(stack_owner "$stack")" = "$NAME" ] || fail "there is a stack $stack that these scripts have not made" "choose another NAME"
    case $status in
      ROLLBACK_COMPLETE | *_FAILED) fail "the stack $stack is $status: an earlier set-up failed" \
        "see aws cloudformation describe-stack-events --stack-name $stack, run scripts/aws/clean_up.sh, then this again" ;;
    esac
  fi
  say "Stack $stack ($(basename "$template"))"
  answer=$(aws cloudformation deploy --stack-name "$stack" --template-file "$template" --no-fail-on-empty-changeset \
    --capabilities CAPABILITY_IAM CAPABILITY_NAMED_IAM --tags "dtrain:name=$NAME" ${1+--parameter-overrides "$@"} 2>&1) ||
    [[ $answer = *"No updates are to be performed"* ]] || fail "$stack could not be deployed: $answer" \
    "see aws cloudformation describe-stack-events --stack-name $stack; scripts/aws/clean_up.sh removes what was made"
  if [[ $answer = *"No changes to deploy"* || $answer = *"No updates"* ]]; then note "it is as it should be"; fi
}

# deploy_file_system SUBNET SECURITY_GROUP BUCKET: refuses settings for which CloudFormation would replace an existing
# file system.
deploy_file_system() {
  local wanted=("CapacityGib=${CAPACITY_GIB:-2400}" "Deployment=${DEPLOYMENT:-SCRATCH_2}" "SubnetId=$1" "SecurityGroupId=$2" "BucketName=$3")
  local parameter there
  for parameter in "${wanted[@]}"; do
    there=$(stack_parameter "$NAME-files" "${parameter%%=*}")
    [ -z "$there" ] || [ "$there" = None ] || [ "$there" = "${parameter#*=}" ] ||
      fail "the file system of $NAME has ${parameter%%=*} $there, not ${parameter#*=}: another one would take its place, without its files" \
        "the same settings as before, or scripts/aws/clean_up.sh files first, or another NAME"
  done
  say "The file system: $(file_system_costs "${CAPACITY_GIB:-2400}" "${DEPLOYMENT:-SCRATCH_2}") (us-east-1, $(price_date))"
  deploy "$NAME-files" "$aws_folder/cloudformation/file_system.yaml" "Name=$NAME" "${wanted[@]}"
}

# wait_until SECONDS WHAT COMMAND…: repeats the command every few seconds until it succeeds, for at most SECONDS.
wait_until() {
  local seconds=$1 what=$2 waited=0 pause=${POLL_SECONDS:-5}
  shift 2
  until "$@"; do
    [ "$waited" -lt "$seconds" ] || fail "waited $seconds s for $what, without success" "look at it in the console, then run this again"
    sleep "$pause"
    waited=$((waited + pause))
  done
}
