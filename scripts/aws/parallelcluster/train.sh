#!/usr/bin/env bash
# The common part of the sbatch files: checks, starts one task per GPU, and ends as dtrain_main ended. Slurm's --signal
# sends SIGUSR1 to the tasks before the time is over. They save and end with 75, with which the job goes back into the
# queue (by RequeueExit; without it this script requeues the job). EC2's notice to a Spot instance does the same
# (with_notices.sh of the bundle).
#
#   train.sh FLAGS-FOR-dtrain_main…      within a job
#
# Environment: DTRAIN, a folder with bin/dtrain_main on all nodes (a bundle: scripts/bundle.sh, with LibTorch by
# scripts/ssh/install_libtorch.sh; default /fsx/dtrain), or IMAGE, an image for Pyxis (/fsx/dtrain.sqsh); RUN_DIR, DATA_DIR
# (/fsx/data/resized). RUN_DIR is on storage that all nodes share, because they meet and save there: not on /scratch.
set -euo pipefail

fail() {
  printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 2
}

[ -n "${SLURM_JOB_ID:-}" ] || fail "this is not a Slurm job" "run sbatch scripts/aws/parallelcluster/resnet50.sbatch"
dtrain=${DTRAIN:-/fsx/dtrain}
data=${DATA_DIR:-/fsx/data/resized}
run=${RUN_DIR:-}
[ -n "$run" ] || fail "RUN_DIR is not set" "run sbatch --export=ALL,RUN_DIR=/fsx/results/NAME …"
case $run in /scratch/*) fail "RUN_DIR is $run, on this node's own disk" "take a folder on /fsx: the ranks of all nodes meet there, and a requeued job finds its checkpoints" ;; esac
[ -d "$data" ] && [ -n "$(ls -A "$data")" ] || { printf 'error: there is no data in %s\n  what to do: pack it there, or set DATA_DIR\n' "$data" >&2; exit 3; }

if [ -n "${IMAGE:-}" ]; then
  [[ $(srun --help) = *--container-image* ]] || fail "this Slurm runs no containers: Pyxis is off" \
    "ParallelCluster's images have it switched off: scripts/aws/parallelcluster/pyxis.sh on every node (cluster.yaml has it), or leave IMAGE unset"
  launch=(srun --container-image="$IMAGE" --container-mounts=/fsx:/fsx --no-container-mount-home --no-container-entrypoint
    --container-env=NCCL_SOCKET_IFNAME /opt/dtrain/scripts/with_notices.sh /opt/dtrain/bin/dtrain_main)
else
  [ -x "$dtrain/bin/dtrain_main" ] || fail "there is no $dtrain/bin/dtrain_main" "copy a bundle there, or set DTRAIN, or IMAGE"
  "$dtrain/bin/dtrain_main" --version >/dev/null || fail "$dtrain/bin/dtrain_main does not run here" "see the message above; a bundle has no LibTorch of its own: scripts/ssh/install_libtorch.sh $dtrain"
  notices=$dtrain/scripts/with_notices.sh
  [ -x "$notices" ] || notices=$(dirname "${BASH_SOURCE[0]}")/../../with_notices.sh
  launch=(srun "$notices" "$dtrain/bin/dtrain_main")
fi
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-^lo,docker,veth}

# scancel and the end of the job's time send SIGTERM to this shell, too. The tasks get it from Slurm; it must not be
# passed on to srun, which would kill them before they have saved.
trap 'printf "train.sh: told to stop, waiting for the tasks to save\n" >&2' TERM USR1
"${launch[@]}" --data_dir="$data" --run_dir="$run" "$@" &
step=$!
code=0
while true; do
  code=0
  wait "$step" || code=$?
  # A trapped signal ends `wait` while the step goes on.
  kill -0 "$step" 2>/dev/null || break
done

# srun returns the highest code of all tasks. The code of the root cause is in error.json, which the victims (4) do not
# write.
if [ "$code" != 0 ] && [ "$code" != 75 ] && [ -r "$run/error.json" ]; then
  cause=$(sed -n 's/.*"exit_code": *\([0-9]*\).*/\1/p' "$run/error.json" | head -n 1)
  code=${cause:-$code}
fi
if [ "$code" = 75 ] && ! scontrol show config | grep -Eq '^RequeueExit +=.*\b75\b'; then
  scontrol requeue "$SLURM_JOB_ID" || printf 'train.sh: submit it again: it continues where it stopped\n' >&2
fi
exit "$code"
