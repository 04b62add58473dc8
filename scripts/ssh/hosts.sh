# shellcheck shell=bash
# Sourced by the scripts beside it: saying what is wrong, reading hosts files, speaking to many machines at once.
#
# Environment: HOSTS (default: ./hosts) names the file; REMOTE_SHELL (default: ssh without questions) is called with a host and
# a command.

HOSTS=${HOSTS:-hosts}
remote_shell=${REMOTE_SHELL:-ssh -o BatchMode=yes -o ConnectTimeout=10}

fail() {
  printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 2
}

# usage SCRIPT: prints its opening comment.
usage() { sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$1"; }

# read_hosts: fills hosts and slots. Fails before anything is started if a host is named twice, has no slots or contains
# an odd character.
read_hosts() {
  hosts=()
  slots=()
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
    slots+=("${count#slots=}")
  done <"$HOSTS"
  [ ${#hosts[@]} -gt 0 ] || fail "$HOSTS names no host" "write one line per machine: ADDRESS slots=8"
}

# on_each FUNCTION: runs a command on every host at once, the one that FUNCTION prints for the host's place in the file
# (from 0). Prefixes each line of output with its host. Returns the first code that is not 0, in the order of the file.
on_each() {
  local i host process code=0 one
  local processes=()
  for i in "${!hosts[@]}"; do
    host=${hosts[$i]}
    # shellcheck disable=SC2086  # the remote shell may have options
    ($remote_shell "$host" "$("$1" "$i")" </dev/null 2>&1 | sed -u "s/^/$host: /"; exit "${PIPESTATUS[0]}") &
    processes+=($!)
  done
  for process in "${processes[@]}"; do
    one=0
    wait "$process" || one=$?
    if [ "$code" = 0 ]; then code=$one; fi
  done
  return "$code"
}

# on_all COMMAND: runs the same command on every host.
on_all() {
  local command=$1
  # shellcheck disable=SC2329  # on_each calls it
  same_command() { printf '%s' "$command"; }
  on_each same_command
}
