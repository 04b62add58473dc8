#!/usr/bin/env bash
# Prints the configuration of a Slurm cluster in the base stack's network, with its file system on /fsx, for `pcluster
# create-cluster` and `update-cluster` of version 3.16. Checks before that what would fail a quarter of an hour later, says what
# the cluster costs, and puts node.sh into the bucket, where its nodes find it. docs/parallelcluster.md has all steps.
#
#   AWS_REGION=us-east-1 KEY=mine SSH_FROM=203.0.113.7/32 scripts/aws/parallelcluster/configuration.sh >cluster.yaml
#
# Environment: KEY, an EC2 key pair; SSH_FROM, the addresses that may log in; INSTANCE_TYPE (p4d.24xlarge); MAX_NODES (8);
# GPU_ZONE, the base stack's OTHER_ZONE for them; CAPACITY_RESERVATION_ID, a reservation on demand, or a Capacity Block, of which
# MAX_NODES instances run at all times; SPOT=1, cheaper instances that AWS takes back (the job saves, and goes back into the
# queue); CUSTOM_AMI, which V100s need.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

takes_nothing "$0" "its settings are environment variables: --help" "$@"
exec 3>&1 >&2  # the configuration alone goes to standard output
check_login
INSTANCE_TYPE=${INSTANCE_TYPE:-p4d.24xlarge}
MAX_NODES=${MAX_NODES:-8}
[[ $MAX_NODES =~ ^[1-9][0-9]{0,2}$ ]] || fail "MAX_NODES is '$MAX_NODES'" "give a number from 1 to 999"
check_driver "$INSTANCE_TYPE" CUSTOM_AMI docs/parallelcluster.md
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

SUBNET_PUBLIC=$(stack_output "$NAME-base" PublicSubnetId)
SECURITY_GROUP=$(stack_output "$NAME-base" SecurityGroupId)
BUCKET=$(stack_output "$NAME-base" BucketName)
FILE_SYSTEM_ID=$(stack_output "$NAME-files" FileSystemId)
export NAME KEY SSH_FROM INSTANCE_TYPE MAX_NODES MIN_NODES CAPACITY_TYPE PLACEMENT_GROUP BUCKET
export SUBNET_PUBLIC SUBNET_PRIVATE SECURITY_GROUP FILE_SYSTEM_ID
aws s3 cp --no-progress "$aws_folder/parallelcluster/node.sh" "s3://$BUCKET/clusters/$NAME/node.sh"
"$aws_folder/eks/render.py" "$aws_folder/parallelcluster/cluster.yaml" >&3
