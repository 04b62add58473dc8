#!/usr/bin/env bash
# Makes machines for trainings by hand, as in AWS's posts of 2018 and 2019: COUNT instances with EFA in a placement group, and
# a head machine to log in to. Writes the hosts file for scripts/ssh and says how to go on. Run it again with another COUNT to
# have more or fewer of them. All are billed until `clean_up.sh instances` has deleted them, with their disks: what is to stay is on
# /fsx.
#
#   AWS_REGION=us-east-1 KEY=mine SSH_FROM=203.0.113.7/32 scripts/aws/cloudformation/instances.sh COUNT [HOSTS-FILE]
#
# Environment: KEY, an EC2 key pair; SSH_FROM, the addresses that may log in; INSTANCE_TYPE (p4d.24xlarge), any of
# instance_types.tsv; MACHINE_IMAGE, the AMI that scripts/ssh/machine_image.sh led to (by default that of the machines that are
# there, or AWS's Deep Learning Base AMI; V100s need one with NVIDIA's driver 570 or 580); GPU_ZONE, the base stack's OTHER_ZONE;
# CAPACITY_RESERVATION_ID, a Capacity Block or a reservation on demand; SPOT=1, cheaper machines that AWS takes back two minutes
# after a notice (ssh/train.sh saves then). The file system of the stack NAME-files is mounted on /fsx, if there is one.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
count=${1:-}
hosts=${2:-hosts}
[[ $count =~ ^[1-9][0-9]?$ ]] && [ "$count" -le 64 ] && [ $# -le 2 ] || fail "the number of machines is '$count'" "give 1 to 64: instances.sh 8 writes ./hosts with 8 machines"
[ -f "$hosts" ] && [ -w "$hosts" ] || { [ ! -e "$hosts" ] && [ -w "$(dirname "$hosts")" ]; } || fail "$hosts cannot be written" "name a file for the hosts in a folder that is there"
check_login
[[ $SSH_FROM != pl-* ]] || fail "SSH_FROM is a prefix list" "name addresses here, such as 203.0.113.7/32"
check_account
type=${INSTANCE_TYPE:-p4d.24xlarge}
check_instance_type "$type"
check_driver "$type" MACHINE_IMAGE docs/machines.md
need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
network=$(private_subnet)
read -r subnet zone <<<"$network"
check_capacity "$type" "$zone" "$count"
say_price "$type" "$count"
check_key

# image_for OUTPUT PARAMETER: prints the AMI that the machines have already, since another one would replace them all, or AWS's newest.
image_for() {
  local found
  found=$(stack_output "$NAME-instances" "$1")
  [[ $found = ami-* ]] || found=$(aws ssm get-parameter --name "/aws/service/$2" --query Parameter.Value --output text 2>/dev/null) || true
  [[ $found != ami-* ]] || printf '%s\n' "$found"
}
image=${MACHINE_IMAGE:-$(image_for Image deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id)}
[ -n "$image" ] || fail "no AMI for $type was found" "set MACHINE_IMAGE to one with NVIDIA's driver (scripts/ssh/machine_image.sh)"
head_image=$(image_for HeadImage canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id)
head_image=${head_image:-$image}

file_system=
status=$(stack_status "$NAME-files")
case $status in
  *_COMPLETE)
    file_system=$(stack_output "$NAME-files" DnsName)@tcp:/
    file_system+=$(stack_output "$NAME-files" MountName) ;;
  *) note "there is no file system: the machines share no storage, which a training of several needs (cloudformation/set_up.sh --file-system)" ;;
esac
vpc=$(stack_output "$NAME-base" VpcId)
public=$(stack_output "$NAME-base" PublicSubnetId)
group=$(stack_output "$NAME-base" SecurityGroupId)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$aws_folder/cloudformation/instances.py" --name="$NAME" --type="$type" --count="$count" --image="$image" --head_image="$head_image" \
  --key="$KEY" --ssh_from="$SSH_FROM" --vpc="$vpc" --public_subnet="$public" --private_subnet="$subnet" --group="$group" --file_system="$file_system" \
  --market="${market#on-demand}" --reservation="${CAPACITY_RESERVATION_ID:-}" >"$work/instances.json"
deploy "$NAME-instances" "$work/instances.json"

addresses=$(stack_output "$NAME-instances" Hosts)
{
  printf '# %s, written by scripts/aws/cloudformation/instances.sh\n' "$NAME-instances"
  for address in $addresses; do printf '%s slots=%s\n' "$address" "$(instance_value "$type" 4)"; done
} >"$hosts"
head=$(stack_output "$NAME-instances" Head)
say "Ready: $count × $type; their addresses are in $hosts. docs/machines.md says how to go on, from the first of them:"
note "ssh -A -J ubuntu@$head ubuntu@$(awk '!/^#/ {print $1; exit}' "$hosts")"
