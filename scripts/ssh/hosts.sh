# shellcheck shell=bash
# Sourced by the scripts beside it: saying what is wrong, reading hosts files, speaking to many machines at once.
#
# Environment: HOSTS (default: ./hosts) names the file; REMOTE_SHELL (default: ssh without questions, which takes the key of a new
# machine at the first contact and refuses another one later) is called with a host and a command.

HOSTS=${HOSTS:-hosts}
REMOTE_SHELL=${REMOTE_SHELL:-ssh -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new}

fail() {
  printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 2
}

# usage SCRIPT: prints its opening comment.
usage() { sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$1"; }

# read_hosts: fills hosts, and slots with the number of all ranks. Fails before anything is started if a host is named twice, has
# no slots or contains an odd character.
read_hosts() {
  hosts=()
  slots=0
  local line host count number=0
  [ -r "$HOSTS" ] || fail "the hosts file $HOSTS cannot be read" "write one line per machine, ADDRESS slots=8 (see scripts/ssh/hosts.example), or name another file with HOSTS=FILE"
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    line=${line%%#*}
    read -r host count <<<"$line" || true
    if [ -z "$host" ]; then continue; fi
    count=${count:-slots=1}
    [[ $host =~ ^[A-Za-z0-9][A-Za-z0-9.:_-]*$ && $count =~ ^slots=[1-9][0-9]{0,3}$ ]] ||
      fail "$HOSTS, line $number: '$line' is not a host" "write ADDRESS slots=NUMBER"
    [[ " ${hosts[*]} " != *" $host "* ]] || fail "$HOSTS, line $number: $host is listed twice" "write one line per machine, with all its slots"
    hosts+=("$host")
    slots=$((slots + ${count#slots=}))
  done <"$HOSTS"
  [ ${#hosts[@]} -gt 0 ] || fail "$HOSTS names no host" "write one line per machine: ADDRESS slots=8"
}

# on_all COMMAND: runs a command on every host at once. Prefixes each line of output with its host. Returns the first code that is
# not 0, in the order of the file.
on_all() {
  local host process code=0 one
  local processes=()
  for host in "${hosts[@]}"; do
    # shellcheck disable=SC2086  # the remote shell may have options
    ($REMOTE_SHELL "$host" "$1" </dev/null 2>&1 | sed -u "s/^/$host: /"; exit "${PIPESTATUS[0]}") &
    processes+=($!)
  done
  for process in "${processes[@]}"; do
    one=0
    wait "$process" || one=$?
    if [ "$code" = 0 ]; then code=$one; fi
  done
  return "$code"
}
