#!/usr/bin/env bash
# The entry point of all containers: under AWS Batch, Kubernetes, Slurm with Pyxis, and plain docker. It checks what
# clusters most often get wrong before a GPU is used, says what is running, and becomes the program, so that signals and
# exit codes are the program's own, also as process 1.
#
#   entrypoint.sh [dtrain_main | dtrain_data | dtrain_bench | COMMAND] ARGUMENTS…     --flags alone: dtrain_main
#
# Three additions to flags, for job definitions in which each word is a parameter with a value (--NAME=VALUE does, too):
#   --recipe NAME          --flagfile of the recipe of this name in the image; `--recipe default`: none
#   --FLAG default         as if the flag were not given, so that the recipe decides
#   --run_token WORD       is given in the environment (DTRAIN_RUN_TOKEN), since everybody on the machine sees command lines
# Environment, all optional; a flag in the arguments overrides a variable:
#   DATA_DIR or JOB_DIR    the data: --data_dir (JOB_DIR is its name in AWS's multi-node template for Batch)
#   RUN_DIR                --run_dir
#   SCRATCH_DIR            used for results if RUN_DIR is not set: --run_dir=SCRATCH_DIR/dtrain-JOB. It must be on storage
#                          that outlives the machine, or a retried job begins anew
#   BATCH_SIZE             --batch_size, for each GPU
#   GPUS or MPI_GPUS       ranks of the whole job: --nproc_per_node is this divided by the nodes
#   METRICS_PORT           serves metrics and health to other machines: --metrics_port, --metrics_address=0.0.0.0
#   MOUNT, MOUNT_TIMEOUT   a mount point to wait for before anything else (300 seconds), such as /fsx
#   MOUNT_TYPE             the kind of file system that must be there (lustre): a volume of the container is a mount point even
#                          where the machine has mounted nothing
#   EFA_DEVICES            the number of EFA devices that this container must see; without it, or 0, none is required
#   LEAST_GBPS             measures the network between the machines before each start of dtrain_main or dtrain_bench, two at a
#                          time, and ends with 4 if one is slow beside the others, with 2 if all have fewer GB/s than this. 0 only
#                          compares them. The slow one says so in SLOW_FILE (/run/dtrain/slow), where scripts/guard_node.sh takes
#                          it out of service. Not under torchrun, whose machines change
#   STOP_GRACE_SECONDS     the time that the cluster waits after SIGTERM; printed for comparison with the time of a save
# Exit codes are dtrain_main's: 2 settings, 3 data, 5 storage, 75 told to stop. 5 may be tried again on other machines.
set -euo pipefail

# Process 1 ignores signals that it does not handle. Whatever is waited for runs in the background, because a trap does not run before
# a command in the foreground has ended. The program that this script becomes has its own handlers.
waiting=
trap 'kill $waiting 2>/dev/null || true; exit 75' TERM INT  # nothing may be waited for
in_background() {
  "$@" &
  waiting=$!
  wait "$waiting"
}

fail() {  # fail CODE WHAT HAPPENED, WHAT TO DO
  printf 'dtrain failed (before the start, exit code %s): %s\n  what to do: %s\n' "$1" "$2" "$3" >&2
  exit "$1"
}

note() { printf 'dtrain: %s\n' "$*" >&2; }

whole_number() {  # whole_number VARIABLE
  [[ ${!1} =~ ^[1-9][0-9]{0,6}$ ]] || fail 2 "$1 is '${!1}', not a whole number above 0" "correct it in the job's environment"
}

# ---- What to run -----------------------------------------------------------------------------------------------------

# SageMaker starts every image with the word `train`. The flags are its hyperparameters, an object of names and texts in JSON, for which
# the image has no program.
from_hyperparameters() {  # from_hyperparameters FILE: fills words
  local rest name string='[[:space:]]*"([^"\]*(\\(["\/bfnrt]|u[0-9a-fA-F]{4})[^"\]*)*)"[[:space:]]*'
  rest=$(tr '\n' ' ' <"$1")
  rest=${rest#"${rest%%[![:space:]]*}"}
  rest=${rest%"${rest##*[![:space:]]}"}
  [[ $rest = '{'*'}' ]] && rest=${rest:1:-1}
  words=()
  while [[ $rest =~ ^$string:$string(,|$) ]]; do
    name=${BASH_REMATCH[1]} text=${BASH_REMATCH[4]} rest=${rest:${#BASH_REMATCH[0]}}
    if [[ $name != _tuning* ]]; then
      unescape
      # A map has no order: what other flags change comes first.
      if [[ $name = flagfile || $name = recipe ]]; then words=("--$name=$text" "${words[@]}"); else words+=("--$name=$text"); fi
    fi
  done
  [[ $rest =~ ^[[:space:]]*$ ]] || fail 2 "$1 is no JSON object of names and texts, at ${rest:0:60}" 'write every value as a text: {"epochs": "90"}'
}

unescape() {  # replaces what JSON escapes in text
  local rest=$text character LC_ALL=C.UTF-8
  text=
  while [[ $rest =~ ^([^\\]*)\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|.) ]]; do
    rest=${rest:${#BASH_REMATCH[0]}} character=${BASH_REMATCH[2]}
    case $character in
      u*u*) printf -v character '\\U%08x' $((0x10000 + ((0x${character:1:4} - 0xd800) << 10) + 0x${character:7:4} - 0xdc00)) ;;
      [ubfnrt]*) character=\\$character ;;
    esac
    case $character in \\*) printf -v character '%b' "$character" ;; esac
    text+=${BASH_REMATCH[1]}$character
  done
  text+=$rest
}

sagemaker=${SAGEMAKER_DIR:-/opt/ml} all_gpus=
if [ "$*" = train ] && [ -r "$sagemaker/input/config/hyperparameters.json" ]; then
  from_hyperparameters "$sagemaker/input/config/hyperparameters.json"
  set -- dtrain_main --data_dir="$sagemaker/input/data/training" --run_dir="$sagemaker/checkpoints" "${words[@]}"
  all_gpus=1
fi
case ${1:-} in
  '') fail 2 "nothing to run" "name a program and its flags: dtrain_main --data_dir=…, or dtrain_main --help" ;;
  -*) set -- dtrain_main "$@" ;;
esac
program=$1
shift

recipes=$(dirname "${BASH_SOURCE[0]}")/recipes  # in the image; the next line has the place in the sources
if [ ! -d "$recipes" ]; then recipes=$(dirname "${BASH_SOURCE[0]}")/../scripts/recipes; fi
recipe=()
from_parameters() {  # fills words and recipe
  local names=("$recipes"/*.flags)
  names=("${names[@]##*/}")
  words=()
  while [ $# -gt 0 ]; do
    if [[ $1 =~ ^--(recipe|run[-_]token)= || $1 = --?*=default ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
    if [[ $1 = --?* && ${2:-} = default ]]; then
      shift
    elif [[ $1 = --run[-_]token ]]; then
      export DTRAIN_RUN_TOKEN=${2:-}
      shift
    elif [ "$1" = --recipe ]; then
      [ -r "$recipes/${2:-}.flags" ] || fail 2 "there is no recipe '${2:-}'" "--recipe takes one of: ${names[*]%.flags}"
      # Ours come first, also before what is taken from the environment, which changes them.
      case $program in dtrain_*) recipe+=("--flagfile=$recipes/$2.flags") ;; *) words+=("--flagfile=$recipes/$2.flags") ;; esac
      shift
    else
      words+=("$1")
    fi
    shift
  done
}
from_parameters "$@"
set -- "${words[@]}"
command -v "$program" >/dev/null || fail 2 "there is no program '$program' in this container" \
  "dtrain_main, dtrain_data and dtrain_bench are; arguments that begin with -- go to dtrain_main"

given() {  # given FLAG ARGUMENTS…: succeeds if the arguments have this flag
  local flag=$1 argument
  shift
  for argument in "$@"; do
    argument=${argument//-/_}
    if [[ $argument = "__$flag" || $argument = "__$flag="* ]]; then return 0; fi
  done
  return 1
}

value_of() {  # value_of FLAG ARGUMENTS…: prints the last value given, or nothing
  local flag=$1 found='' name
  shift
  while [ $# -gt 0 ]; do
    name=${1%%=*}
    if [ "${name//-/_}" = "__$flag" ]; then
      if [ "$name" != "$1" ]; then found=${1#*=}; else found=${2:-}; fi
    fi
    shift
  done
  printf '%s\n' "$found"
}

given_any() {  # given_any "FLAG FLAG…" ARGUMENTS…: succeeds if the arguments have one of these flags
  local flag any=$1
  shift
  for flag in $any; do
    if given "$flag" "$@"; then return 0; fi
  done
  return 1
}

# ---- What the variables of the walk-throughs mean ----------------------------------------------------------------------

flags=()
from_variables() {
  local data=${DATA_DIR:-${JOB_DIR:-}} run=${RUN_DIR:-} gpus=${GPUS:-${MPI_GPUS:-}} nodes=${AWS_BATCH_JOB_NUM_NODES:-1}
  local job=${AWS_BATCH_JOB_ID:-}
  if [ -z "$run" ] && [ -n "${SCRATCH_DIR:-}" ]; then run=$SCRATCH_DIR/dtrain-${job%%#*}; run=${run%-}; fi
  if [ "$program" = dtrain_data ]; then  # some of its commands have no such flag
    if [ -n "$data" ] && [[ $(dtrain_data "$@" --help 2>/dev/null) = *$'\n  --data_dir '* ]]; then flags+=("--data_dir=$data"); fi
    return
  fi
  if [ -n "$data" ] && [ "$program" != dtrain_bench ]; then flags+=("--data_dir=$data"); fi
  if [ "$program" = dtrain_main ]; then
    if [ -n "$run" ]; then flags+=("--run_dir=$run"); fi
    if [ -n "${METRICS_PORT:-}" ]; then flags+=("--metrics_port=$METRICS_PORT" --metrics_address=0.0.0.0); fi
  fi
  if [ -n "${BATCH_SIZE:-}" ]; then
    whole_number BATCH_SIZE
    flags+=("--batch_size=$BATCH_SIZE")
  fi
  if [ -n "$gpus" ]; then
    [[ $gpus =~ ^[1-9][0-9]{0,6}$ ]] || fail 2 "GPUS is '$gpus', not a whole number above 0" "correct it in the job's environment"
    if [ $((gpus % nodes)) != 0 ]; then
      fail 2 "GPUS=$gpus cannot be shared evenly by $nodes nodes" "give the number of GPUs of all nodes together"
    fi
    flags+=("--nproc_per_node=$((gpus / nodes))")
  elif [ -n "${AWS_BATCH_JOB_NODE_INDEX:-}$all_gpus" ]; then
    flags+=("--nproc_per_node=auto")
  fi
}
case $program in dtrain_main | dtrain_data | dtrain_bench) from_variables "${@:1:1}" ;; esac
subcommand=()
if [[ $program = dtrain_@(data|bench) && ${1:--} != -* ]]; then
  subcommand=("$1")
  shift
fi

# ---- What a cluster gets wrong -----------------------------------------------------------------------------------------

await_mount() {
  local mount=$1 seconds=${MOUNT_TIMEOUT:-300} waited=0
  while ! mountpoint -q "$mount" || [ "${MOUNT_TYPE:-$(stat -f -c %T "$mount")}" != "$(stat -f -c %T "$mount")" ]; do
    if [ "$waited" = 0 ]; then note "waiting up to $seconds s for $mount to be mounted"; fi
    if [ "$waited" -ge "$seconds" ]; then
      fail 5 "$mount is not mounted${MOUNT_TYPE:+ as $MOUNT_TYPE} after $seconds s" \
        "does the machine have a Lustre client for its kernel, and does the file system's security group let it in (ports 988 and 1018-1023)? see the machine's log of its first start; MOUNT_TIMEOUT says how long to wait"
    fi
    in_background sleep 1
    waited=$((waited + 1))
  done
}

check_data() {
  local data=$1
  [ -e "$data" ] || fail 3 "the data folder $data does not exist" \
    "is the file system mounted at this path in the container, and linked to the bucket? DATA_DIR or --data_dir names it"
  if [ ! -r "$data" ] || { [ -d "$data" ] && [ ! -x "$data" ]; }; then
    fail 3 "the data folder $data cannot be read by user $(id -u)" "let everybody read it (chmod -R a+rX), or run as the user to whom it belongs"
  fi
  if [ -d "$data" ] && [ -z "$(ls -A "$data")" ]; then
    fail 3 "the data folder $data is empty" \
      "was the import from the bucket finished (BatchImportMetaDataOnCreate), or the preparation job run?"
  fi
}

# Runs lock their directory, and Lustre has no locks unless it is mounted with the option flock.
check_run_directory() {
  local run=$1 probe
  mkdir -p "$run" 2>/dev/null || fail 5 "the run directory $run cannot be created by user $(id -u)" \
    "let the preparation job chown the folder above it to this user, and see that it is not mounted read-only"
  probe=$run/.lock-probe.$(hostname 2>/dev/null || printf '%s' "$$").$$
  { : >"$probe"; } 2>/dev/null || fail 5 "nothing can be written to the run directory $run by user $(id -u)" \
    "chown it to this user, and see that it is not mounted read-only or full"
  if ! flock --nonblock "$probe" true 2>/dev/null; then
    rm -f "$probe"
    fail 5 "files in $run cannot be locked" "mount Lustre with the option flock"
  fi
  rm -f "$probe"
}

# EFA pins its buffers in memory. What eight ranks pin fits into the 5 GiB of huge pages that a pod with EFA requests; with
# less than that, EFA fails late and with a message that does not name the limit.
enough_memlock_kib=$((5 * 1024 * 1024))

may_lock_anything() {  # the capability IPC_LOCK, which root has in privileged containers, lifts the limit
  local capabilities
  capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
  (((16#${capabilities:-0} >> 14) & 1))
}

check_memlock() {
  local memlock installed remedy="set the container's ulimit memlock to -1, soft and hard (Docker: --ulimit memlock=-1:-1; AWS Batch: ulimits)"
  memlock=$(ulimit -l)
  if [ "$memlock" = unlimited ] || may_lock_anything; then return; fi
  installed=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  if [ "$memlock" -ge "${installed:-0}" ] && [ "$memlock" -ge "$enough_memlock_kib" ]; then return; fi
  if [ -n "${KUBERNETES_SERVICE_HOST:-}" ]; then
    remedy="a pod cannot raise it: set RLIMIT_MEMLOCK where the node is made, in containerd's baseRuntimeSpec (scripts/aws/eks/cluster.yaml has it), and replace the node"
  fi
  if [ "$memlock" -lt "$enough_memlock_kib" ]; then
    fail 2 "there are EFA devices, but only $memlock KiB of memory may be locked" "$remedy"
  fi
  note "warning: the memory that may be locked is limited to $memlock KiB, which is enough for EFA unless there are many ranks; better: $remedy"
}

check_efa() {
  local folder=${INFINIBAND_DIR:-/dev/infiniband} present
  present=("$folder"/uverbs*)
  if [ ! -e "${present[0]}" ]; then present=(); fi
  if [ ${#present[@]} -gt 0 ]; then check_memlock; fi
  case ${EFA_DEVICES:-0} in 0) return ;; esac
  whole_number EFA_DEVICES
  if [ ${#present[@]} -lt "$EFA_DEVICES" ]; then
    fail 2 "there are ${#present[@]} EFA devices, but EFA_DEVICES asks for $EFA_DEVICES" \
      "AWS Batch: one linuxParameters device for each /dev/infiniband/uverbsN; Kubernetes: the limit vpc.amazonaws.com/efa, with a device plugin that tolerates the nodes' taints; never a hostPath"
  fi
  if command -v fi_info >/dev/null && ! fi_info -p efa >/dev/null 2>&1; then
    fail 2 "libfabric finds no EFA provider ('fi_info -p efa' fails)" \
      "the security group must allow all traffic to and from itself, by its own id, in both directions"
  fi
}

# A slow machine kills nobody, so no restart gets rid of it: it must be found before the training begins.
check_network() {  # check_network ARGUMENTS…: those of the program, some of which say where its ranks are
  local name value port code=0 ranks=()
  for name in nproc_per_node nnodes node_rank master_addr backend; do
    value=$(value_of "$name" "$@")
    if [ -n "$value" ]; then ranks+=("--$name=$value"); fi
  done
  # A port of its own, because a machine that is done begins the training while another one still leaves.
  port=$(value_of master_port "$@")
  port=${port:-${PET_MASTER_PORT:-${MASTER_PORT:-29500}}}
  if [[ ! $port =~ ^[1-9][0-9]{0,4}$ ]]; then  # Kubernetes sets MASTER_PORT=tcp://… for a service called "master"
    note "the network was not measured: the port of rank 0, '$port', is no number"
    return
  fi
  port=$((port + 1))
  in_background dtrain_bench pairs --steps=5 --warmup=1 --least_gbyte="$LEAST_GBPS" --slow_file="${SLOW_FILE:-/run/dtrain/slow}" \
    --master_port="$port" "${ranks[@]}" >&2 || code=$?
  case $code in
    0) ;;
    2) exit 2 ;;
    # The guard takes the slow machine out of service within seconds, so that nothing starts on it again. 5: it cannot say so.
    4 | 5) in_background sleep "${SLOW_SECONDS:-15}"
      exit "$code" ;;
    *) note "the network was not measured: the training begins without that" ;;
  esac
}

say_versions() {
  local gpu system version
  # shellcheck source=/dev/null
  system=$(. /etc/os-release && printf '%s' "${PRETTY_NAME:-Linux}")
  version=$(dtrain_main --version 2>/dev/null | head -n 1) || true  # within a word, bash 5.2 could not parse the trap's text
  note "$version, $system, Linux $(uname -r), user $(id -u)," \
    "memlock $(ulimit -l), open files $(ulimit -n)"
  if command -v nvidia-smi >/dev/null; then
    gpu=$(nvidia-smi --query-gpu=driver_version,name --format=csv,noheader 2>/dev/null | sort | uniq -c | tr -s ' ') || gpu=
    note "GPUs:${gpu:- nvidia-smi sees none}"
  fi
  if [ -n "${AWS_BATCH_JOB_ID:-}" ]; then
    note "Batch job $AWS_BATCH_JOB_ID, attempt ${AWS_BATCH_JOB_ATTEMPT:-1}, node ${AWS_BATCH_JOB_NODE_INDEX:-0} of ${AWS_BATCH_JOB_NUM_NODES:-1}"
  fi
  if [ -n "${STOP_GRACE_SECONDS:-}" ]; then
    note "after SIGTERM the cluster waits $STOP_GRACE_SECONDS s: a save must take less"
  fi
}

say_versions
if [ -n "${MOUNT:-}" ]; then await_mount "$MOUNT"; fi
check_efa
data=$(value_of data_dir "${flags[@]}" "$@")
run=$(value_of run_dir "${flags[@]}" "$@")
answers="help version list_models print_config"  # flags with which nothing is opened
checks="$answers dry_run doctor"                 # and those with which nothing is begun
mode=$(value_of mode "$@")
if [ -n "$data" ] && ! given_any "$answers" "$@"; then check_data "$data"; fi
if [ -n "$run" ] && [ "$program" = dtrain_main ] && [ "${mode:-train}" = train ] && ! given_any "$checks" "$@"; then
  check_run_directory "$run"
fi

# Docker's and Batch's own interfaces lead to no other machine, so NCCL must not choose them.
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-^lo,docker,ecs,veth}
# If an index cannot be kept beside the data, it is kept beside the results.
if [ "$program" = dtrain_main ] && [ -w "$run" ] && [ -d "$data" ] && [ ! -w "$data" ] && ! given index_dir "$@"; then
  flags+=("--index_dir=$run/index")
fi
if [ ${#flags[@]} -gt 0 ]; then note "from the environment: ${flags[*]}"; fi
if [ -n "${LEAST_GBPS:-}" ] && [ -z "${TORCHELASTIC_RUN_ID:-}" ] && ! given_any "$checks" "$@"; then
  case $program in dtrain_main | dtrain_bench) check_network "${flags[@]}" "$@" ;; esac
fi
exec "$program" "${subcommand[@]}" "${recipe[@]}" "${flags[@]}" "$@"
