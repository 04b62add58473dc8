#!/usr/bin/env bash
# Trains on the machines of a hosts file with mpirun, one rank a slot. SIGTERM, SIGUSR1, ^C and the end of the login make all
# ranks save at the same step and end with 75, and so does EC2's notice to a Spot instance among them (../with_notices.sh); called
# again it goes on. The exit code is dtrain_main's.
#
#   HOSTS=hosts scripts/ssh/train.sh --data_dir=/fsx/data/resized --run_dir=/fsx/results/run --flagfile=…
#
# Environment: DTRAIN (/fsx/dtrain) is a bundle (scripts/bundle.sh) with LibTorch, on every machine at the same path; the run
# directory is on storage that all share. REMOTE_SHELL as for runclust.
set -euo pipefail
# shellcheck source=scripts/ssh/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
dtrain=${DTRAIN:-/fsx/dtrain}
given_run_dir() {  # in the arguments, or in a file of flags among them
  while [ $# -gt 0 ]; do
    if [[ $1 = ?(-)-run[_-]dir?(=*) ]]; then return 0; fi
    if [[ $1 = ?(-)-flagfile?(=*) ]]; then
      if [ "$1" = "${1#*=}" ]; then shift; fi
      if grep -qsE '^-*run[_-]dir|"run_dir": *"[^"]' "${1#*=}"; then return 0; fi
    fi
    shift
  done
  return 1
}
given_run_dir "$@" ||
  fail "no --run_dir was given" "name a folder on storage that all machines share: rank 0 posts its address there"
# EFA's installer brings Open MPI, on the path of login shells. Called by its whole name, mpirun finds its parts on the others, too.
mpirun=$(PATH=$PATH:/opt/amazon/openmpi/bin command -v mpirun) ||
  fail "mpirun is not installed" "scripts/ssh/machine_image.sh on all machines, or apt-get install openmpi-bin"
read_hosts
on_all "'$dtrain/bin/dtrain_main' --version >/dev/null && test -x '$dtrain/scripts/with_notices.sh'" ||
  fail "$dtrain does not run on all machines" "see the messages above; have a bundle (scripts/bundle.sh) with LibTorch \
(scripts/ssh/install_libtorch.sh) on storage that all share, or name it with DTRAIN"

# shellcheck disable=SC2054  # the commas are Open MPI's
options=(--hostfile "$HOSTS" -n "$slots" --bind-to none --mca plm_rsh_agent "$REMOTE_SHELL"
  # Enough time for a save between the end of the first rank and that of the last one. mpirun itself waits that long.
  --mca odls_base_sigkill_timeout "${SAVE_SECONDS:-120}"
  # Open MPI only starts the ranks here. Images for EFA have no UCX.
  --mca pml '^ucx' --mca btl tcp,self --mca btl_tcp_if_exclude "lo,docker0")
if [ "$(id -u)" = 0 ]; then options+=(--allow-run-as-root); fi
if [ -n "${MPI_INTERFACE:-}" ]; then options+=(--mca oob_tcp_if_include "$MPI_INTERFACE"); fi
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-^lo,docker,veth}
# A secret of this start, for its ranks alone (docs/trust.md). -x takes the name: an argument could be seen by every user.
token=$(openssl rand -hex 16)
export DTRAIN_RUN_TOKEN=$token
for name in DTRAIN_RUN_TOKEN NCCL_SOCKET_IFNAME NCCL_DEBUG LD_LIBRARY_PATH DTRAIN_TORCH_DIR OMP_NUM_THREADS; do
  if [ -n "${!name:-}" ]; then options+=(-x "$name"); fi
done

run=$("$dtrain/bin/dtrain_main" "$@" --print_config 2>/dev/null | sed -n 's/^ *"run_dir": "\(.*\)",\{0,1\}$/\1/p') || true
told_of() { stat -c '%i %y' "$run/error.json" 2>/dev/null || true; }
told_before=$(told_of)

# On SIGTERM mpirun kills its ranks a second later, before they have saved. It passes SIGUSR1 on to them, and they save. In a session
# of its own it does not get a terminal's ^C. A second SIGUSR1 ends them at once: as with dtrain_main itself, that is what the same
# signal asks for when it comes twice, but for SIGHUP, which the shell and the kernel both send at the end of a login.
setsid "$mpirun" "${options[@]}" "$dtrain/scripts/with_notices.sh" "$dtrain/bin/dtrain_main" "$@" &
ranks=$!
first=
# shellcheck disable=SC2329  # the traps call it
pass_on() {
  if [ -n "$first" ] && { [ "$1" != "$first" ] || [ "$1" = HUP ]; }; then return 0; fi
  first=$1
  kill -USR1 "$ranks" 2>/dev/null || true
}
for kind in TERM USR1 INT HUP; do
  # shellcheck disable=SC2064  # this kind
  trap "pass_on $kind" "$kind"
done
while true; do
  code=0
  wait "$ranks" || code=$?
  # A trapped signal ends `wait` while mpirun goes on.
  kill -0 "$ranks" 2>/dev/null || break
done

# mpirun returns the code of the rank that ended first, often a victim (4); the cause's is in error.json, as train.sbatch has it.
if [ "$code" != 0 ] && [ "$code" != 75 ] && [ -r "$run/error.json" ] && [ "$(told_of)" != "$told_before" ]; then
  cause=$(sed -n 's/.*"exit_code": *\([0-9]*\).*/\1/p' "$run/error.json" | head -n 1)
  code=${cause:-$code}
fi
exit "$code"
