#!/usr/bin/env bash
# Submits trials that need more machines than one: a multi-node job for each line of a file, for Batch refuses arrays of them.
# A line is PARAMETER=VALUE …; # begins a comment. Trial 7 of the sweep `lr` is the job lr-0007. Run it again to submit those
# that are missing. Where a trial fits on one machine, and values are searched for: scripts/aws/batch/sweep.sh.
#
#   AWS_REGION=us-east-1 scripts/aws/batch/trials.sh SWEEP-NAME FILE [--nodes=N]
set -euo pipefail
# shellcheck source=scripts/aws/batch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
[ $# -ge 2 ] || fail "a name and a file are needed" "run scripts/aws/batch/trials.sh lr trials.txt"
sweep=$1
file=$2
shift 2
[ -r "$file" ] || fail "$file cannot be read" "write one line per trial, such as lr=0.05 seed=1"
most=${MOST_TRIALS:-100}
trials=()
while IFS= read -r line; do trials+=("$line"); done < <(sed 's/#.*//; /^[[:space:]]*$/d' "$file")  # macOS' bash has no mapfile
[ ${#trials[@]} -gt 0 ] || fail "$file has no trial" "write one line per trial, such as lr=0.05 seed=1"
[ ${#trials[@]} -le "$most" ] || fail "$file has ${#trials[@]} trials, more than $most" "set MOST_TRIALS=${#trials[@]} if that is intended: each trial is a whole training"
check_account
for trial in "${trials[@]}"; do  # a mistake in the last line must be found before any trial runs
  read -ra parameters <<<"$trial"
  check_parameters "$NAME" "${parameters[@]}"
done
asked=$(definition_field "$NAME" 'tags."dtrain:nodes"')
for option in "$@"; do case $option in --nodes=*) asked=${option#--nodes=} ;; esac; done
[[ $asked =~ ^[1-9][0-9]{0,2}$ ]] || fail "--nodes is '$asked'" "give a number from 1 to 999"
estimate_job "$NAME" "$asked" "${#trials[@]}"

known=$(list_jobs 'jobSummaryList[].jobName' SUCCEEDED | tr '\t\n' '  ')
for number in "${!trials[@]}"; do
  job=$(printf '%s-%04d' "$sweep" "$number")
  if [[ " $known " = *" $job "* ]]; then
    note "$job is there"
    continue
  fi
  read -ra parameters <<<"${trials[$number]}"
  "$aws_folder/batch/submit.sh" "$job" "$@" "${parameters[@]}"
done
