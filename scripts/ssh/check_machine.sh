#!/usr/bin/env bash
# What a machine of a cluster must have before it is worth a training: prints a line for each check, and exits with 2 if one
# failed. On all machines:  scripts/ssh/runclust "$PWD/scripts/ssh/check_machine.sh --efa --lustre=/fsx"
#
#   scripts/ssh/check_machine.sh [--gpus=N] [--efa] [--lustre=MOUNT]
set -euo pipefail
# shellcheck source=scripts/ssh/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

failed=0
check() {  # check WHAT REMEDY COMMAND…
  local what=$1 remedy=$2
  shift 2
  if "$@" >/dev/null 2>&1; then
    printf 'ok      %s\n' "$what"
  else
    printf 'failed  %s\n        what to do: %s\n' "$what" "$remedy"
    failed=1
  fi
}

# The checks are called by their names.
# shellcheck disable=SC2329
{
  sees_gpus() { [ "$(nvidia-smi -L | grep -c '^GPU ')" = "$1" ]; }
  sees_efa() { ls /dev/infiniband/uverbs* && fi_info -p efa; }
  unlimited_memlock() { [ "$(ulimit -l)" = unlimited ]; }
  is_lustre() { mountpoint -q "$1" && [ "$(stat -f -c %T "$1")" = lustre ]; }
  has_module() { modinfo lustre; }
  can_lock() {
    local probe
    probe=$(mktemp "$1/.lock-probe.XXXXXX") || return 1
    if flock --nonblock "$probe" true; then rm -f "$probe"; else rm -f "$probe"; return 1; fi
  }
  enough_files() { [ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -Hn)" -ge 4096 ]; }
}

check "at least 4,096 open files allowed" "raise nofile in /etc/security/limits.conf: rank 0 holds a connection to each rank" enough_files
for argument in "$@"; do
  case $argument in
    --gpus=*) check "${argument#--gpus=} GPUs" "nvidia-smi -L; is the driver loaded (nvidia-smi), is a GPU lost (dmesg, Xid)?" sees_gpus "${argument#--gpus=}" ;;
    --efa)
      check "EFA: devices and provider" "install EFA's software, and let the security group allow all traffic to and from its own id" sees_efa
      check "EFA: memory may be locked without limit" "memlock unlimited in /etc/security/limits.conf" unlimited_memlock
      check "EFA: the plugin for NCCL" "EFA's installer brings it to /opt/amazon/ofi-nccl" test -d /opt/amazon/ofi-nccl
      ;;
    --lustre=*)
      check "Lustre: a client for this kernel" "the client and the kernel must fit: after an upgrade of the kernel install the client again" has_module
      check "Lustre: ${argument#--lustre=} is mounted" "mount -t lustre -o relatime,flock DNS@tcp:/MOUNTNAME ${argument#--lustre=}" is_lustre "${argument#--lustre=}"
      check "Lustre: files can be locked" "mount it with the option flock" can_lock "${argument#--lustre=}"
      ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "check_machine.sh does not know '$argument'" "use --gpus=N, --efa, --lustre=MOUNT" ;;
  esac
done
exit $((failed * 2))
