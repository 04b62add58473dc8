# shellcheck shell=bash
# Sourced by the scripts that register and submit jobs. It checks beforehand what a job would otherwise find wrong only
# when its machines are already running.
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

recipes=$aws_folder/../recipes

check_job_name() {  # check_job_name NAME MOST-CHARACTERS
  [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9_-]*$ && ${#1} -le $2 ]] ||
    fail "'$1' is not a valid job name" "use up to $2 letters, digits, - and _, and begin with a letter or digit"
}

# definition_field DEFINITION QUERY: prints a field of the newest revision, or None if there is no revision.
definition_field() {
  rows batch describe-job-definitions --job-definition-name "$1" --status ACTIVE --query "[reverse(sort_by(jobDefinitions, &revision))[0].$2]"
}

# register DEFINITION ARGUMENTS-FOR-job_definition.py…: makes a new revision, unless the newest one is equal.
register() {
  local definition=$1 job registered
  shift
  say "Job definition $definition"
  job=$(python3 "$aws_folder/batch/job_definition.py" --name="$definition" "$@")
  registered=$(definition_field "$definition" 'tags."dtrain:sha256"')
  if [ "$registered" != None ] && [[ $job = *"\"$registered\""* ]]; then
    note "it is as it should be"
  else
    note "$(aws batch register-job-definition --cli-input-json "$job" --query jobDefinitionArn --output text)"
  fi
}

# estimate_job DEFINITION NODES [JOBS]: says what a submission may cost at most.
estimate_job() {
  local type seconds attempts
  read -r type seconds attempts < <(definition_field "$1" '[tags."dtrain:instance-type", timeout.attemptDurationSeconds, retryStrategy.attempts]')
  estimate "$type" "$2" "$(awk -v seconds="$seconds" 'BEGIN {print seconds / 3600}')" "$attempts" ${3:+"$3"}
}

# longest: prints the seconds that all attempts may take, with their waits for machines (the queue cancels a job after an hour).
longest() {
  local seconds attempts
  read -r seconds attempts < <(definition_field "$NAME" '[timeout.attemptDurationSeconds, retryStrategy.attempts]')
  printf '%s\n' $((attempts * (seconds + 3600)))
}

# check_parameters DEFINITION PARAMETER=VALUE…
check_parameters() {
  local definition=$1 known parameter value
  shift
  # shellcheck disable=SC2016  # the backquotes are JMESPath's
  known=$(definition_field "$definition" '[jobDefinitionArn, keys(parameters || `{}`)][]')
  [ "$known" != None ] || fail "there is no job definition $definition" "run scripts/aws/batch/set_up.sh first"
  known=${known#*$'\t'} known=${known//$'\t'/ }
  for parameter in "$@"; do
    value=${parameter#*=}
    [[ " $known " = *" ${parameter%%=*} "* ]] || fail "the job definition has no parameter '${parameter%%=*}'" "it has: $known"
    [[ $value =~ ^[A-Za-z0-9./_+-]+$ ]] || fail "'$parameter' has an invalid value" "use letters, digits, . / _ + and - only"
    case ${parameter%%=*} in
      recipe) check_recipe "$value" ;;
      data) [[ $value = /fsx/* ]] || fail "data=$value is not on the file system" "it is mounted at /fsx: data=/fsx/data/resized" ;;
      run_dir) [[ $value =~ ^/fsx/results/[^/]+ && $value != *..* || $value = default ]] || fail "run_dir=$value is not in /fsx/results" \
        "only what is there goes to the bucket: run_dir=/fsx/results/NAME" ;;
      epochs | lr | seed)
        [[ $value =~ ^([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|default)$ ]] ||
          fail "'$parameter' is not a number" "write, for example, epochs=90 lr=0.1 seed=1; default means the recipe's value" ;;
    esac
  done
}

check_recipe() {
  local names=("$recipes"/*.flags)
  names=("${names[@]##*/}")
  [ -r "$recipes/$1.flags" ] || fail "there is no recipe '$1'" "one of: ${names[*]%.flags}"
}

# file_systems: prints lifecycle and id of each file system that an instance would mount, now or soon.
file_systems() { rows fsx describe-file-systems --query "FileSystems[?Tags[?Key=='dtrain:name' && Value=='$NAME']].[Lifecycle, FileSystemId]"; }

# check_file_system: requires a file system, without which jobs end with 5.
check_file_system() {
  local found
  found=$(file_systems) || fail "FSx does not answer" "see the message above"
  [[ $found = *AVAILABLE* ]] || fail "there is no file system for the instances to mount" \
    "scripts/aws/cloudformation/set_up.sh --file-system makes one; submit.sh --workflow one for each training"
}

# check_no_file_system: requires that there is none yet. If two have the same name, an instance mounts the first that it
# finds.
check_no_file_system() {
  local found
  found=$(file_systems) || fail "FSx does not answer" "see the message above"
  [ -z "$found" ] || fail "there is a file system of this name already: ${found//$'\t'/ }" \
    "wait for the other execution; or scripts/aws/clean_up.sh files; or another NAME for the workflow"
}

# check_data FOLDER: requires data in the bucket's folder that the instances see as FOLDER. Data that was made on the
# file system is not in the bucket.
check_data() {
  local bucket prefix=${1#/fsx/} found
  if [ -n "${DATA_IS_THERE:-}" ]; then return; fi
  bucket=$(stack_output "$NAME-base" BucketName)
  found=$(rows s3api list-objects-v2 --bucket "$bucket" --prefix "${prefix%/}/" --max-items 1 --query 'Contents[0].Key' 2>&1) || fail "the bucket $bucket cannot be read: ${found##*$'\n'}" "this needs the permission s3:ListBucket"
  [ "$found" != None ] || fail "there is nothing in s3://$bucket/${prefix%/}/, which is $1 of the file system" \
    "aws s3 sync FOLDER s3://$bucket/${prefix%/}/; data that was made on the file system itself: DATA_IS_THERE=1"
}

# check_queue DEFINITION NODES: requires that the queue takes jobs, and that a job of so many nodes would not wait for
# ever.
check_queue() {
  local state status environment limit type wanted
  read -r state status environment < <(aws batch describe-job-queues --job-queues "$NAME" --output text \
    --query 'jobQueues[0].[state, status, computeEnvironmentOrder[0].computeEnvironment]')
  [ "$state $status" = "ENABLED VALID" ] || fail "the queue $NAME is ${state:-not there} ${status:-}" "run scripts/aws/batch/set_up.sh"
  limit=$(aws batch describe-compute-environments --compute-environments "$environment" --output text \
    --query 'computeEnvironments[0].computeResources.maxvCpus')
  type=$(definition_field "$1" 'tags."dtrain:instance-type"')
  wanted=$(($2 * $(instance_value "$type" 2)))
  [ "$wanted" -le "$limit" ] || fail "the job needs $wanted vCPUs, and the environment may have $limit: it would wait for ever" \
    "fewer --nodes, or NODES=… scripts/aws/batch/set_up.sh"
}

# job_under_way JOB: prints the id of a job of this name that has not ended, or nothing if there is none.
job_under_way() { list_jobs "jobSummaryList[?jobName=='$1'].jobId" | awk '!found++'; }
