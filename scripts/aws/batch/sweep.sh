#!/usr/bin/env bash
# Submits a sweep as an array of jobs: each trains trials of scripts/sweep.py on a machine of its own, and they share the study
# on the file system. As many run at a time as the environment has machines. Prints the array's job id, alone on the last line.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/sweep.sh SWEEP-NAME SPACE.yaml --trials=16 [OPTIONS…] -- FLAGS-FOR-dtrain_main…
#
# OPTIONS are sweep.py's (--sampler, --prune, --study, --seed). Instead of a flag file --recipe NAME:
#   scripts/aws/batch/sweep.sh rates space.yaml --trials=16 --prune -- --recipe resnet50_90ep --data_dir=/fsx/data/resized
# Everything is kept in /fsx/results/SWEEP-NAME, best.json too. Submitted again it goes on, and more --trials add some; while it
# is under way nothing is submitted.
#
# Environment: IMAGE (default: the newest :python of the base stack's repository, docs/aws.md),
# RETRIES (3), HOURS (24): the most that one trial may take. MOST_DOLLARS, DATA_IS_THERE=1 as for submit.sh.
set -euo pipefail
# shellcheck source=scripts/aws/batch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
[ $# -ge 2 ] || fail "a name and a search space are needed" "run scripts/aws/batch/sweep.sh rates space.yaml --trials=16 -- --recipe NAME"
sweep=$1
space=$2
shift 2
check_job_name "$sweep" 128
trials=
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    --trials=*) trials=${1#--trials=} ;;
    --sampler=* | --study=* | --seed=* | --prune) options+=("$1") ;;
    *) fail "sweep.sh does not know '$1'" "--help says what it takes; flags for dtrain_main come after --" ;;
  esac
  shift
done
shift || true  # skips the --
[[ $trials =~ ^[1-9][0-9]{0,3}$ ]] || fail "--trials is '$trials'" "give a number from 1 to 9999"
[ $# -gt 0 ] || fail "no flags for dtrain_main were given" "give at least --recipe NAME or --flagfile=… after --"
if [ ! -f "$space" ] || ! grep -q '^flags:' "$space" || ! grep -q '^metric:' "$space"; then
  fail "'$space' is not a search space" "name a YAML file with metric: and flags: (such as scripts/sweeps/examples/digits.yaml)"
fi
if [[ " $* " =~ \ --recipe\ ([^\ ]+) ]]; then check_recipe "${BASH_REMATCH[1]}"; fi
if [[ " $* " =~ \ --data[_-]dir[=\ ]([^\ ]+) ]]; then data=${BASH_REMATCH[1]}; else data=/fsx/data; set -- "$@" --data_dir=$data; fi

check_account
need_stack "$NAME-base" scripts/aws/cloudformation/set_up.sh
need_stack "$NAME-batch" scripts/aws/batch/set_up.sh
check_parameters "$NAME"
check_queue "$NAME" 1
check_file_system
check_data "$data"
twin=$(job_under_way "$sweep")
if [ -n "$twin" ]; then
  say "$sweep is under way: aws batch describe-jobs --jobs $twin"
  printf '%s\n' "$twin"
  exit 0
fi
image=${IMAGE:-$(image_of python)}
type=$(definition_field "$NAME" 'tags."dtrain:instance-type"')
estimate "$type" 1 "${HOURS:-24}" "${RETRIES:-3}" "$trials"
role=$(stack_output "$NAME-base" JobRoleArn)
register "$NAME-sweep" --sweep --instance_type="$type" --image="$image" --role="$role" --retries="${RETRIES:-3}" --hours="${HOURS:-24}"

# The space is passed as text, because the machines do not see this machine's files.
overrides=$(python3 -c 'import json, sys; print(json.dumps({"command": sys.argv[1:]}))' \
  python3 /opt/dtrain/scripts/sweep.py --space="$(sed '/^[[:space:]]*#/d' "$space")" --trials="$trials" --at_most=1 \
  --output="/fsx/results/$sweep" "${options[@]}" -- dtrain_main --nproc_per_node=auto "$@")
[ ${#overrides} -le 8192 ] || fail "command and space have ${#overrides} characters, more than Batch's 8,192" "put the flags into a recipe of the image, or try fewer values"
array=()
if [ "$trials" -gt 1 ]; then array=(--array-properties "size=$trials"); fi
id=$(aws batch submit-job --job-name "$sweep" --job-queue "$NAME" --job-definition "$(definition_field "$NAME-sweep" jobDefinitionArn)" \
  --propagate-tags --tags "dtrain:name=$NAME" "${array[@]}" --container-overrides "$overrides" --query jobId --output text)
say "$sweep is submitted: aws batch describe-jobs --jobs $id --query 'jobs[0].[status, arrayProperties.statusSummary]'"
printf '%s\n' "$id"
