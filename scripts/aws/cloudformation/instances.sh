#!/usr/bin/env bash
# Makes machines for trainings by hand, as in AWS's posts of 2018 and 2019: COUNT instances with EFA in a placement group, and
# a head machine to log in to. Writes the hosts file for scripts/ssh and says how to go on. Run it again with another COUNT to
# have more or fewer of them. All are billed until `instances.sh 0` has deleted them, with their disks: what is to stay is on
# /fsx.
#
#   AWS_REGION=us-east-1 KEY=mine SSH_FROM=203.0.113.7/32 scripts/aws/cloudformation/instances.sh COUNT [HOSTS-FILE]
#   AWS_REGION=us-east-1 scripts/aws/cloudformation/instances.sh 0 [--dry_run] [--yes]
#
# Environment: KEY, an EC2 key pair; SSH_FROM, the addresses that may log in; INSTANCE_TYPE (p4d.24xlarge), any of
# instance_types.tsv; MACHINE_IMAGE, the AMI that scripts/ssh/machine_image.sh led to (by default that of the machines that are
# there, or AWS's Deep Learning Base AMI; V100s need one with NVIDIA's driver 570 or 580); GPU_ZONE, the base stack's OTHER_ZONE;
# CAPACITY_RESERVATION_ID, a Capacity Block or a reservation on demand; SPOT=1, cheaper machines that AWS takes back two minutes
# after a notice (ssh/train.sh saves then). The file system of the stack NAME-files is mounted on /fsx, if there is one.
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
count=${1:-}
if [ "$count" = 0 ]; then
  deletion_options "" "${@:2}"
  check_account
  offer stack "$NAME-instances"
  confirm
  delete stack "$NAME-instances"
  say "Done: no machines of $NAME are left"
  exit 0
fi
hosts=${2:-hosts}
[[ $count =~ ^[1-9][0-9]?$ ]] && [ "$count" -le 64 ] && [ $# -le 2 ] || fail "the number of machines is '$count'" "give 1 to 64: instances.sh 8 writes ./hosts with 8 machines"
check_login
type=${INSTANCE_TYPE:-p4d.24xlarge}
case $type in
  p3*) [ -n "${MACHINE_IMAGE:-}" ] || fail "the newest images have no driver for the V100s of $type" \
    "set MACHINE_IMAGE to one with NVIDIA's closed driver 570 or 580 (docs/machines.md), or take p4d.24xlarge or newer" ;;
esac
[[ $SSH_FROM != pl-* ]] || fail "SSH_FROM is a prefix list" "name addresses here, such as 203.0.113.7/32"
check_account
check_instance_type "$type"
need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
network=$(private_subnet)
read -r subnet zone <<<"$network"
check_capacity "$type" "$zone" "$count"
say_price "$type" "$count"
check_key

# Machines that are there keep their image, since CloudFormation would replace them, disks and all. New ones have AWS's newest.
image_of() {  # image_of PARAMETER NAME-OF-THE-NEWEST
  local there
  there=$(stack_parameter "$NAME-instances" "$1")
  case $there in ami-*) printf '%s\n' "$there" ;; *) aws ssm get-parameter --name "$2" --query Parameter.Value --output text 2>/dev/null || true ;; esac
}
image=${MACHINE_IMAGE:-$(image_of ImageId /aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id)}
[[ $image = ami-* ]] || fail "no AMI for $type was found" "set MACHINE_IMAGE to one with NVIDIA's driver (scripts/ssh/machine_image.sh)"
head_image=$(image_of HeadImageId /aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id)
[[ $head_image = ami-* ]] || head_image=$image

file_system=
status=$(stack_status "$NAME-files")
case $status in
  *_COMPLETE) file_system=$(stack_output "$NAME-files" DnsName)@tcp:/$(stack_output "$NAME-files" MountName) ;;
  *) note "there is no file system: the machines share no storage, which a training of several needs (cloudformation/set_up.sh --file-system)" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
template=$work/instances.json
"$aws_folder/cloudformation/instances.py" --type="$type" --count="$count" --market="${market#on-demand}" \
  ${CAPACITY_RESERVATION_ID:+--reservation} >"$template"
deploy "$NAME-instances" "$template" "Name=$NAME" "ImageId=$image" "HeadImageId=$head_image" "KeyName=$KEY" "SshFrom=$SSH_FROM" \
  "VpcId=$(stack_output "$NAME-base" VpcId)" "PublicSubnetId=$(stack_output "$NAME-base" PublicSubnetId)" \
  "PrivateSubnetId=$subnet" "SecurityGroupId=$(stack_output "$NAME-base" SecurityGroupId)" "FileSystem=$file_system" \
  ${CAPACITY_RESERVATION_ID:+"CapacityReservationId=$CAPACITY_RESERVATION_ID"}

{
  printf '# %s, written by scripts/aws/cloudformation/instances.sh\n' "$NAME-instances"
  for address in $(stack_output "$NAME-instances" Hosts); do printf '%s slots=%s\n' "$address" "$(instance_value "$type" 4)"; done
} >"$hosts"
head=$(stack_output "$NAME-instances" Head)
say "Ready: $count × $type; their addresses are in $hosts. docs/machines.md says how to go on, from the first of them:"
note "ssh -A -J ubuntu@$head ubuntu@$(awk '!/^#/ {print $1; exit}' "$hosts")"
