#!/usr/bin/env bash
# Watches a GPU machine for broken hardware, and takes it out of service once there is some, so that no training restarts on
# it: a message of NVIDIA's driver in the kernel's log (Xid) that only a reset or another GPU remedies, a missing GPU, memory
# that could not be repaired, an EFA device without a link, a network that was measured to be slow (docker/entrypoint.sh).
#
#   guard_node.sh COMMAND…      runs the command with the reason as its last word
#   guard_node.sh cordon        takes this Kubernetes node (NODE_NAME) from the scheduler: aws/eks/guard.yaml
#
# It then goes on waiting, and does nothing more. Errors of programs (Xid 13, 31, 43, 45 …) are none of the hardware. Environment:
# GPUS and EFA_DEVICES that must be there (not looked at by default); KERNEL_LOG (/dev/kmsg, which also has what came since the
# machine was started); SLOW_FILE (/run/dtrain/slow, in a folder that this script makes), in which a training says that this
# machine's network is slow; CHECK_SECONDS (60); ANSWER_SECONDS (60), which nvidia-smi may take.
set -euo pipefail

case ${1:-} in '' | -h | --help) sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
log=${KERNEL_LOG:-/dev/kmsg}
devices=${EFA_FOLDER:-/sys/class/infiniband}
slow=${SLOW_FILE:-/run/dtrain/slow}
install -d -m 1777 "$(dirname "$slow")"  # trainings are not root
rm -f "$slow"                            # of an earlier start

# NVIDIA's catalogue of Xid errors: memory with two wrong bits, a halted controller, rows that could not be remapped, NVLink, a GPU
# off the bus, uncontained memory errors, the GPU's own processor (119, 120, 143), unrecovered memory errors.
broken='NVRM: Xid \([^)]*\): (48|62|64|74|79|95|119|120|140|143),'

count() { grep -c "$@" || true; }

# A GPU that does not answer may hold nvidia-smi for ever, even against SIGKILL; without an end of that the log would not be read.
ask() {
  local told
  IFS= read -r -d '' -t "$((${ANSWER_SECONDS:-60} + 10))" told < <(timeout -k 5 "${ANSWER_SECONDS:-60}" nvidia-smi "$@" 2>/dev/null) || true
  printf '%s' "$told"
}

# what_is_wrong: prints it, or nothing.
what_is_wrong() {
  local there
  if command -v nvidia-smi >/dev/null; then
    if [ -n "${GPUS:-}" ]; then
      there=$(ask -L | count '^GPU ')
      [ "$there" -ge "$GPUS" ] || { printf '%s of %s GPUs answer\n' "$there" "$GPUS"; return; }
    fi
    if [[ $(ask --query-remapped-rows=remapped_rows.failure --format=csv,noheader) = *[1Y]* ]]; then
      printf 'memory of a GPU could not be repaired\n'
      return
    fi
  fi
  if [ -n "${EFA_DEVICES:-}" ]; then
    there=$(cat "$devices"/*/ports/1/state 2>/dev/null | count ACTIVE)
    [ "$there" -ge "$EFA_DEVICES" ] || printf '%s of %s EFA devices have a link\n' "$there" "$EFA_DEVICES"
  fi
}

cordon() {  # cordon REASON
  local account=${SERVICE_ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount} reason=${1//[^A-Za-z0-9 .:()]/}
  curl -sSf -m 30 --noproxy '*' --cacert "$account/ca.crt" -X PATCH -H "Authorization: Bearer $(<"$account/token")" \
    -H "Content-Type: application/strategic-merge-patch+json" \
    -d "{\"spec\": {\"unschedulable\": true}, \"metadata\": {\"annotations\": {\"dtrain/out-of-service\": \"$reason\"}}}" -o /dev/null \
    "${API_SERVER:-https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT}/api/v1/nodes/$NODE_NAME"
}

looked=$SECONDS
while true; do
  reason=
  if IFS= read -r -t 5 line <&3 && [[ $line =~ $broken ]]; then
    reason=${line##*NVRM: }
  elif [ -s "$slow" ] && [ -f "$slow" ] && [ ! -L "$slow" ]; then
    IFS= read -r -n 200 reason <"$slow" || true
  elif [ $((SECONDS - looked)) -ge "${CHECK_SECONDS:-60}" ]; then
    looked=$SECONDS
    reason=$(what_is_wrong)
  fi
  [ -n "$reason" ] || continue
  printf 'guard_node.sh: out of service: %s\n' "$reason"  # alarms look for these words
  until "$@" "$reason"; do
    printf 'guard_node.sh: %s failed; again in 10 s\n' "$1"
    sleep 10
  done
  exec sleep infinity
done 3< <(while sleep 1; do cat "$log" 2>/dev/null; done)  # the kernel ends a reader who is too slow
