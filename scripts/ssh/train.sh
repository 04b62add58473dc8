#!/usr/bin/env bash
# Trains on the machines of a hosts file with mpirun, one rank a slot. SIGTERM and SIGUSR1 to this script make all ranks save
# at the same step and end with 75, and so does EC2's notice to a Spot instance among them (../with_notices.sh); called again it
# goes on. The exit code is dtrain_main's.
#
#   HOSTS=hosts scripts/ssh/train.sh --data_dir=/fsx/data/resized --run_dir=/fsx/results/run --flagfile=…
#
# Environment: DTRAIN (default: this project's build/release) has bin/dtrain_main, on every machine at the same path (copyclust
# brings a bundle there); the run directory is on storage that all share. REMOTE_SHELL as for runclust.
set -euo pipefail
# shellcheck source=scripts/ssh/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=${DTRAIN:-$root/build/release}/bin/dtrain_main
notices=${DTRAIN:-$root}/scripts/with_notices.sh
[ -x "$notices" ] || notices=$root/scripts/with_notices.sh
[[ "$*" = *--run_dir=* || "$*" = *--run-dir=* ]] || fail "no --run_dir was given" "name a folder on storage that all machines share: rank 0 posts its address there"
command -v mpirun >/dev/null || fail "mpirun is not installed" "install it on all machines: apt-get install openmpi-bin"
read_hosts
total=0
for count in "${slots[@]}"; do total=$((total + count)); done
on_all "test -x '$program' && test -x '$notices'" || fail "$program or $notices is not on all machines" "copy it with scripts/ssh/copyclust, or name its folder with DTRAIN"

# shellcheck disable=SC2054  # the commas are Open MPI's
options=(--hostfile "$HOSTS" -n "$total" --bind-to none
  # Enough time for a save between the end of the first rank and that of the last one. mpirun itself waits that long.
  --mca odls_base_sigkill_timeout "${SAVE_SECONDS:-120}"
  # Open MPI only starts the ranks here. Images for EFA have no UCX.
  --mca pml '^ucx' --mca btl tcp,self --mca btl_tcp_if_exclude "lo,docker0")
if [ "$(id -u)" = 0 ]; then options+=(--allow-run-as-root); fi
if [ -n "${REMOTE_SHELL:-}" ]; then options+=(--mca plm_rsh_agent "$REMOTE_SHELL"); fi
if [ -n "${MPI_INTERFACE:-}" ]; then options+=(--mca oob_tcp_if_include "$MPI_INTERFACE"); fi
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-^lo,docker,veth}
for name in NCCL_SOCKET_IFNAME NCCL_DEBUG LD_LIBRARY_PATH DTRAIN_TORCH_DIR OMP_NUM_THREADS; do
  if [ -n "${!name:-}" ]; then options+=(-x "$name"); fi
done

# On SIGTERM mpirun kills its ranks a second later, before they have saved. It passes SIGUSR1 on to them, and they save.
mpirun "${options[@]}" "$notices" "$program" "$@" &
mpirun=$!
trap 'kill -USR1 "$mpirun" 2>/dev/null || true' TERM USR1 INT
while true; do
  code=0
  wait "$mpirun" || code=$?
  # A trapped signal ends `wait` while mpirun goes on.
  kill -0 "$mpirun" 2>/dev/null || exit "$code"
done
