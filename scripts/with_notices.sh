#!/usr/bin/env bash
# Becomes a program, and leaves a watcher beside it: when EC2 announces that this machine goes (a Spot instance two minutes
# before, or by the rebalance recommendation earlier), the program gets SIGUSR1. dtrain_main then saves and ends with 75, all
# of its ranks at the same step.
#
#   with_notices.sh PROGRAM ARGUMENTS…        ssh/train.sh and aws/parallelcluster/train.sbatch start every rank with it
#
# Only the first rank of a machine has a watcher. It asks EC2's metadata service (version 2) every two seconds, ends with the
# program, and ends at once where no such service answers: not on EC2, or in a container whose packets may take only one hop
# (EKS drains such a node by itself). A recommendation from before this start is passed over, because it has led to a save:
# otherwise a job that comes back to the same machine would stop again and again. Environment, as for AWS's own tools:
# AWS_EC2_METADATA_SERVICE_ENDPOINT; AWS_EC2_METADATA_DISABLED=true, no watcher. Needs curl.
set -euo pipefail

service=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}
case ${1:-} in '' | -h | --help) sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac

ask() { curl -q -sf -m 2 --noproxy '*' "$@"; }  # a link-local address is behind no proxy
get_token() { ask -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" "$service/latest/api/token"; }
get() { ask -H "X-aws-ec2-metadata-token: $token" "$service/latest/meta-data/$1"; }

is_there() { [ -e "/proc/$1/exe" ]; }  # nor is a program that has ended, until its parent asks for its code

# takes_signal PID: whether it handles SIGUSR1 yet, which would end a program that has just begun. The launcher of ranks blocks it
# and waits for it.
takes_signal() {
  local caught blocked
  caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status") blocked=$(sed -n 's/^SigBlk:[[:space:]]*//p' "/proc/$1/status")
  (((16#${caught:-0} | 16#${blocked:-0}) >> 9 & 1))
}

watch() {  # watch PID
  local start token notice
  start=$(date +%s)
  get_token >/dev/null || return 0
  while sleep 2 && is_there "$1"; do
    token=$(get_token) || continue
    notice=$(get spot/instance-action) || notice=$(get events/recommendations/rebalance) || continue
    # {"action": "terminate", "time": "2026-01-19T08:22:00Z"}, or {"noticeTime": "…"}
    if [[ $notice =~ \"noticeTime\":\ *\"([^\"]*)\" ]] && [ "$(date -d "${BASH_REMATCH[1]}" +%s)" -lt "$start" ]; then continue; fi
    while is_there "$1" && ! takes_signal "$1"; do sleep 0.2; done
    printf 'with_notices.sh: EC2 announces %s: saving\n' "$notice" >&2
    kill -USR1 "$1"  # once: dtrain_main ends at the second one without a save
    return
  done
}

rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${LOCAL_RANK:-0}}}
if [ "$rank" = 0 ] && [ "${AWS_EC2_METADATA_DISABLED:-}" != true ] && command -v curl >/dev/null; then
  watch $$ </dev/null >/dev/null &
fi
exec "$@"
