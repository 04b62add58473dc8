#!/usr/bin/env bash
# Submits a job as sbatch does, on the head node, after it has said what the job costs at most each time that it is started
# (a requeued job begins anew). Above MOST_DOLLARS it is refused. The last line is the job id, alone.
#
#   scripts/aws/parallelcluster/submit.sh [SBATCH-OPTIONS] scripts/aws/parallelcluster/train.sbatch FLAGS…
#
# Environment: INSTANCE_TYPE (p4d.24xlarge), as for configuration.sh; MOST_DOLLARS; and what the sbatch file names.
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

case ${1:-} in
  -h | --help | '') usage "$0"; exit 0 ;;
esac
INSTANCE_TYPE=${INSTANCE_TYPE:-p4d.24xlarge}
check_instance_type "$INSTANCE_TYPE"
command -v sbatch >/dev/null || fail "there is no sbatch here" "run it on the cluster's head node: pcluster ssh"

# Slurm itself says how many nodes for how long it has understood, while the job is held.
job=$(sbatch --parsable --hold "$@") || exit
job=${job%%;*}
trap 'scancel "$job"' EXIT
description=$(scontrol --oneliner show job "$job")
field() { sed -nE "1s/.*[[:space:]]$1=([^[:space:]]*).*/\1/p" <<<"$description"; }
nodes=$(field NumNodes)  # 8, or at least 4 and at most 8: 4-8
jobs=$(squeue --noheader --array --jobs="$job" | wc -l)
# [DAYS-]HOURS:MINUTES:SECONDS
hours=$(field TimeLimit | awk -F'[-:]' '{printf "%.6g", NF == 4 ? $1 * 24 + $2 + $3 / 60 : $1 + $2 / 60}')
[ "$(field TimeLimit)" != UNLIMITED ] || fail "the job has no limit of its time, so nobody can say what it costs" "give sbatch --time"
[ "$jobs" != 1 ] || jobs=
estimate "$INSTANCE_TYPE" "${nodes##*-}" "$hours" 1 "$jobs"

scontrol release "$job"
trap - EXIT
printf '%s\n' "$job"
