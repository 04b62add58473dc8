#!/usr/bin/env bash
# Makes the Slurm cluster (a quarter of an hour) in the base stack's network, with its file system on /fsx. Run again it goes
# on waiting for a cluster that is being made, and leaves a ready one as it is.
#
#   AWS_REGION=us-east-1 KEY=mine SSH_FROM=203.0.113.7/32 scripts/aws/parallelcluster/set_up.sh
#
# Needs pcluster 3.16 (pip install aws-parallelcluster==3.16.1, with Node.js). Environment: KEY, an EC2 key pair; SSH_FROM, the
# addresses that may log in; INSTANCE_TYPE (p4d.24xlarge); MAX_NODES (8); GPU_ZONE, the base stack's OTHER_ZONE for them;
# CAPACITY_RESERVATION_ID, a reservation on demand, or a Capacity Block, of which MAX_NODES instances run at all times; SPOT=1,
# cheaper instances that AWS takes back (the job saves, and goes back into the queue); CUSTOM_AMI, which V100s need.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

takes_nothing "$0" "its settings are environment variables: --help" "$@"
check_login
INSTANCE_TYPE=${INSTANCE_TYPE:-p4d.24xlarge}
MAX_NODES=${MAX_NODES:-8}
[[ $MAX_NODES =~ ^[1-9][0-9]{0,2}$ ]] || fail "MAX_NODES is '$MAX_NODES'" "give a number from 1 to 999"
case $INSTANCE_TYPE in
  p3*) [ -n "${CUSTOM_AMI:-}" ] || fail "ParallelCluster's own images do not support $INSTANCE_TYPE" \
    "set CUSTOM_AMI to one with NVIDIA's closed driver (pcluster build-image), or take p4d.24xlarge or newer" ;;
esac
command -v pcluster >/dev/null || fail "pcluster is not installed" "pip install aws-parallelcluster==3.16.1"
check_account
check_instance_type "$INSTANCE_TYPE"
need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
need_stack "$NAME-files" "scripts/aws/cloudformation/set_up.sh --file-system"
network=$(private_subnet)
read -r SUBNET_PRIVATE zone <<<"$network"
check_capacity "$INSTANCE_TYPE" "$zone" "$MAX_NODES"
MIN_NODES=0 PLACEMENT_GROUP=true
if [ -n "${CAPACITY_RESERVATION_ID:-}" ]; then PLACEMENT_GROUP=false; fi
case $market in
  capacity-block) CAPACITY_TYPE=CAPACITY_BLOCK MIN_NODES=$MAX_NODES ;;
  spot) CAPACITY_TYPE=SPOT ;;
  *) CAPACITY_TYPE=ONDEMAND ;;
esac
say_price "$INSTANCE_TYPE" "$MAX_NODES"
check_key

# The cluster's stack has the cluster's name, and the tag that cluster.yaml gives it.
status=$(stack_status "$NAME")
if [ -n "$status" ]; then
  [ "$(stack_owner "$NAME")" = "$NAME" ] || fail "there is a stack $NAME that this script has not made" "choose another NAME"
  case $status in
    ROLLBACK_COMPLETE | DELETE_IN_PROGRESS | *_FAILED) fail "the cluster $NAME is $status" \
      "see pcluster get-cluster-stack-events -n $NAME, then scripts/aws/parallelcluster/clean_up.sh, and this again" ;;
  esac
  note "the cluster $NAME is there"
else
  SUBNET_PUBLIC=$(stack_output "$NAME-base" PublicSubnetId)
  SECURITY_GROUP=$(stack_output "$NAME-base" SecurityGroupId)
  BUCKET=$(stack_output "$NAME-base" BucketName)
  FILE_SYSTEM_ID=$(stack_output "$NAME-files" FileSystemId)
  export NAME KEY SSH_FROM INSTANCE_TYPE MAX_NODES MIN_NODES CAPACITY_TYPE PLACEMENT_GROUP BUCKET
  export SUBNET_PUBLIC SUBNET_PRIVATE SECURITY_GROUP FILE_SYSTEM_ID
  aws s3 cp "$aws_folder/parallelcluster/pyxis.sh" "s3://$BUCKET/clusters/$NAME/pyxis.sh" >/dev/null
  configuration=$(mktemp)
  trap 'rm -f "$configuration"' EXIT
  "$aws_folder/eks/render.py" "$aws_folder/parallelcluster/cluster.yaml" >"$configuration"
  say "Cluster $NAME"
  pcluster create-cluster --cluster-name "$NAME" --region "$AWS_REGION" --cluster-configuration "$configuration"
fi
is_ready() { case $(stack_status "$NAME") in CREATE_COMPLETE | UPDATE_COMPLETE) ;; *FAILED* | *ROLLBACK*) fail "the cluster $NAME could not be made" \
  "see pcluster get-cluster-stack-events -n $NAME, then scripts/aws/parallelcluster/clean_up.sh" ;; *) return 1 ;; esac; }
wait_until 3600 "the cluster $NAME" is_ready
say "Ready: pcluster ssh -n $NAME -r $AWS_REGION -i YOUR-KEY, then scripts/aws/parallelcluster/submit.sh scripts/aws/parallelcluster/resnet50.sbatch"
