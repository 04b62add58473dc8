# shellcheck shell=bash
# Sourced by clean_up.sh, which deletes in an account or a cluster. `offer` finds out whose a thing is, `confirm` shows
# what goes and asks, and `delete` is the only function that deletes. It takes what was offered and confirmed, and asks for the
# owner once more before it acts. Ours is what has the tag dtrain:name with the value of NAME, in Kubernetes the label below.
# Whatever AWS does not answer clearly is refused.
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/account.sh"

label=app.kubernetes.io/part-of=dtrain
going=       # lines "KIND ID"
listed=      # what `confirm` shows
exported=    # ids of file systems whose files are known to be in the bucket
confirmed=no
dry_run=no yes=no discard=no

# ask_owner KIND ID: prints the thing's name and its tag, as AWS says them.
ask_owner() {
  local tags='tags."dtrain:name"' tag="Tags[?Key=='dtrain:name'].Value | [0]"
  case $1 in
    stack) aws cloudformation describe-stacks --stack-name "$2" --output text --query "Stacks[0].[StackName, $tag]" ;;
    queue) aws batch describe-job-queues --job-queues "$2" --output text --query "jobQueues[?status!='DELETED'] | [0].[jobQueueName, $tags]" ;;
    environment) aws batch describe-compute-environments --compute-environments "$2" --output text \
      --query "computeEnvironments[?status!='DELETED'] | [0].[computeEnvironmentName, $tags]" ;;
    definition) aws batch describe-job-definitions --job-definitions "$2" --output text \
      --query "jobDefinitions[?status=='ACTIVE'] | [0].[jobDefinitionArn, $tags]" ;;
    job) aws batch describe-jobs --jobs "$2" --output text --query "jobs[?status!='SUCCEEDED' && status!='FAILED'] | [0].[jobId, $tags]" ;;
    file-system) aws fsx describe-file-systems --file-system-ids "$2" --output text --query "FileSystems[0].[FileSystemId, $tag]" ;;
    cluster) aws eks describe-cluster --name "$2" --output text --query "cluster.[name, $tags]" ;;
    objects) kubectl get "$2" --all-namespaces --selector="$label" -o name | awk -v name="$NAME" 'NR == 1 {print "some\t" name}' ;;
  esac
}

# owner_of KIND ID: prints the owner by the tag, `nobody` without the tag, `gone` if there is no such thing.
owner_of() {
  local found
  found=$(ask_owner "$1" "$2" 2>&1) || case $found in
    *"does not exist"* | *NotFound* | *"No cluster found"* | *"doesn't have a resource type"*) found= ;;
    *) fail "whose the $1 $2 is cannot be found out: ${found##*$'\n'}" "see the message, then run this again" ;;
  esac
  case $found in
    '' | None | None$'\t'*) printf 'gone\n' ;;
    *$'\t'None | *$'\t') printf 'nobody\n' ;;
    *) printf '%s\n' "${found#*$'\t'}" ;;
  esac
}

# offer KIND ID: puts it on the list if it is ours; says so if it is somebody else's; does nothing if it is not there.
offer() {
  local owner
  owner=$(owner_of "$1" "$2")
  case $owner in
    gone) ;;
    "$NAME")
      going+="$1 $2"$'\n'
      listed+="    $1 $2: $(worth_of "$1" "$2")"$'\n' ;;
    *) note "left alone: the $1 $2 belongs to $owner (by its tag dtrain:name)" ;;
  esac
}

# offer_all KIND WHO AWS-ARGUMENTS…: offers all whose ids the command prints; WHO says what it means if it fails.
offer_all() {
  local kind=$1 who=$2 ids id
  shift 2
  ids=$(rows "$@") || fail "$who" "nothing was deleted; see the message above, then run this again"
  for id in $ids; do offer "$kind" "$id"; done
}

is_going() { [[ $'\n'$going = *$'\n'"$1 $2"$'\n'* ]]; }

# worth_of KIND ID: what it costs while it is there, and what is lost with it.
worth_of() {
  local size kind
  case $1 in
    stack)
      case $2 in
        *-base) printf 'network, roles, image repository with its images; its NAT gateway costs $%s an hour' "$(price_of nat)" ;;
        *) printf 'with its %s resources' "$(aws cloudformation describe-stack-resources --stack-name "$2" --query 'length(StackResources)' --output text)" ;;
      esac ;;
    job) printf 'it is told to stop and saves; its machines are billed until they end' ;;
    cluster) printf 'with everything in it; $%s an hour, and its nodes' "$(price_of eks)" ;;
    file-system)
      read -r size kind < <(aws fsx describe-file-systems --file-system-ids "$2" --output text \
        --query 'FileSystems[0].[StorageCapacity, LustreConfiguration.DeploymentType]')
      printf '%s; files outside of the folders that are linked to the bucket are nowhere else' "$(file_system_costs "$size" "$kind")" ;;
    *) printf 'costs nothing' ;;
  esac
}

# confirm: shows what goes and what it costs. Goes on only after --yes or a yes.
confirm() {
  local answer=
  if [ -z "$going" ]; then
    say "Nothing of $NAME is there to delete"
  else
    say "This goes, in the account $account, region $AWS_REGION (prices of $(price_date)):"
    printf '%s' "$listed"
    if [ "$discard" = yes ]; then note "and with it, as --discard says, every file that is not in the bucket"; fi
  fi
  if [ "$dry_run" = yes ]; then exit 0; fi
  if [ -n "$going" ] && [ "$yes" = no ]; then
    [ -t 0 ] || fail "nobody is there to be asked" "--dry_run lists what would go, --yes deletes it"
    read -r -p "Type the name $NAME to delete it: " answer
    [ "$answer" = "$NAME" ] || fail "nothing was deleted" "type the name, or give --yes"
  fi
  confirmed=yes
}

# delete KIND ID: deletes it and waits until it is gone; does nothing if it is gone already.
delete() {
  local owner name files
  if ! is_going "$1" "$2"; then return; fi
  [ "$confirmed" = yes ] || fail "the $1 $2 was not confirmed" "this is a mistake in $0"
  owner=$(owner_of "$1" "$2")
  [ "$owner" != gone ] || return 0
  [ "$owner" = "$NAME" ] || fail "the $1 $2 belongs to $owner now" "run this again"
  say "Deleting the $1 $2"
  case $1 in
    stack)
      files=$(aws cloudformation describe-stack-resources --stack-name "$2" --output text --query \
        "StackResources[?ResourceType=='AWS::FSx::FileSystem' && ResourceStatus!='DELETE_COMPLETE'].PhysicalResourceId") || fail "CloudFormation does not say what is in the stack $2" "see the message above, then run this again"
      for name in $files; do
        if [ "$name" != None ] && ! is_leaving "$name"; then need_export "$name"; fi
      done
      aws cloudformation delete-stack --stack-name "$2"
      aws cloudformation wait stack-delete-complete --stack-name "$2" ||
        fail "$2 could not be deleted" "see aws cloudformation describe-stack-events --stack-name $2, remove what holds it, run this again" ;;
    file-system)
      if ! is_leaving "$2"; then
        need_export "$2"
        aws fsx delete-file-system --file-system-id "$2" >/dev/null
      fi ;;
    job) aws batch terminate-job --job-id "$2" --reason "scripts/aws/clean_up.sh batch" ;;
    queue)
      aws batch update-job-queue --job-queue "$2" --state DISABLED >/dev/null
      wait_until 600 "the queue to be disabled" is_settled "$1" "$2"
      aws batch delete-job-queue --job-queue "$2" ;;
    environment)
      aws batch update-compute-environment --compute-environment "$2" --state DISABLED >/dev/null
      wait_until 600 "the environment to be disabled" is_settled "$1" "$2"
      aws batch delete-compute-environment --compute-environment "$2" ;;
    definition) aws batch deregister-job-definition --job-definition "$2" ;;
    cluster) eksctl delete cluster --name "$2" --region "$AWS_REGION" --wait ;;
    objects) kubectl delete "$2" --all-namespaces --selector="$label" --wait --timeout=300s ;;
  esac
  wait_until 1800 "the $1 $2 to be gone" is_gone "$1" "$2"
}

# delete_all KIND…: deletes what was offered of these kinds.
delete_all() {
  local kind id
  while read -r kind id; do
    if [[ " $* " = *" $kind "* ]]; then delete "$kind" "$id"; fi
  done <<<"$going"
}

is_gone() { [ "$(owner_of "$1" "$2")" = gone ]; }

# ---- File systems ------------------------------------------------------------------------------------------------------

need_export() {
  [ "$discard" = yes ] || [[ " $exported " = *" $1 "* ]] ||
    fail "it is not known that the files of $1 are in the bucket" "this is a mistake in $0; --discard gives the files up"
}

# offer_file_systems: all of this NAME, also those that a failed set-up or an aborted workflow has left, and their stack.
offer_file_systems() {
  offer_all file-system "FSx does not say which file systems there are" fsx describe-file-systems \
    --query "FileSystems[?Tags[?Key=='dtrain:name' && Value=='$NAME']].FileSystemId"
  offer stack "$NAME-files"
}

# is_leaving FILE-SYSTEM: whether it is being deleted already.
is_leaving() { [ "$(aws fsx describe-file-systems --file-system-ids "$1" --query 'FileSystems[0].Lifecycle' --output text)" = DELETING ]; }

# refuse_users: refuses while anything uses a file system or a network that goes: instances in the network, whoever started them
# (ParallelCluster, Batch, a person); jobs and executions of this NAME, which may be waiting for machines.
refuse_users() {
  local kind id network networks='' users name=parallelcluster:cluster-name
  while read -r kind id; do
    case $kind in
      file-system)
        if ! { network=$(aws fsx describe-file-systems --file-system-ids "$id" --query 'FileSystems[0].SubnetIds[0]' --output text) &&
          network=$(aws ec2 describe-subnets --subnet-ids "$network" --query 'Subnets[0].VpcId' --output text); }; then
          fail "the network of $id cannot be found" "nothing was deleted; see the message above, then run this again"
        fi
        networks+=" $network" ;;
      stack) networks+=" $(stack_output "$id" VpcId)" ;;
    esac
  done <<<"$going"
  if [ -z "$networks" ]; then return; fi
  for network in ${networks//None/}; do
    users=$(rows ec2 describe-instances --filters "Name=vpc-id,Values=$network" Name=instance-state-name,Values=pending,running,stopping,stopped \
      --query "Reservations[].Instances[].[InstanceId, Tags[?Key=='$name'].Value | [0]]") ||
      fail "the instances in the network $network cannot be listed" "nothing was deleted; see the message above, then run this again"
    users=${users//$'\t'None/} users=${users//$'\t'/ of ParallelCluster }
    [ -z "$users" ] || fail "instances still use the network $network: ${users//$'\n'/, }" \
      "Batch's end minutes after the last job; delete the cluster or stack that the others belong to (pcluster delete-cluster -n NAME), then run this again"
  done
  refuse_executions
  users=$(owner_of queue "$NAME")
  [ "$users" = "$NAME" ] || return 0
  users=$(list_jobs 'jobSummaryList[].jobId') || fail "Batch does not list the jobs of the queue" "see the message above, then run this again"
  [ -z "$users" ] || fail "jobs in the queue $NAME still use the file system: ${users//$'\n'/, }" "wait for them, or end them: scripts/aws/clean_up.sh batch"
}

# delete_file_systems: exports what is not in the bucket yet, then deletes.
delete_file_systems() {
  local kind id
  while read -r kind id; do
    if [ "$kind" != file-system ] || [ "$discard" = yes ]; then continue; fi
    if is_leaving "$id"; then note "$id is being deleted already"; else export_files "$id"; fi
  done <<<"$going"
  delete stack "$NAME-files"
  delete_all file-system
}

# export_files FILE-SYSTEM: sends what has changed to the bucket. Only a task that ends with SUCCEEDED and without a failed file
# is a proof; the age of the oldest message in the queue of the automatic export is none, since files that failed leave the
# queue, too. The two do not run at the same time, so the automatic export is turned off first.
export_files() {
  local associations association policy task state failed
  associations=$(rows fsx describe-data-repository-associations --filters "Name=file-system-id,Values=$1" \
    --query "Associations[].[AssociationId, join('+', S3.AutoExportPolicy.Events || [''])]") ||
    fail "FSx does not say what $1 is linked to" "nothing was deleted; see the message above; --discard gives its files up"
  [ -n "$associations" ] ||
    fail "$1 is linked to no bucket, so its files are nowhere else" "copy what you need; --discard gives the rest up"
  say "Exporting what $1 has and the bucket has not"
  while read -r association policy; do
    if [ -n "$policy" ]; then
      aws fsx update-data-repository-association --association-id "$association" --s3 '{"AutoExportPolicy": {"Events": []}}' >/dev/null ||
        fail "the automatic export of $1 cannot be turned off for the final one" "see the message above; --discard gives its files up"
    fi
  done <<<"$associations"
  wait_until 1800 "the links of $1 to be updated" are_linked "$1"
  task=$(aws fsx create-data-repository-task --file-system-id "$1" --type EXPORT_TO_REPOSITORY --report Enabled=false \
    --query DataRepositoryTask.TaskId --output text) ||
    fail "the files of $1 cannot be exported" "see the message above; --discard gives its files up"
  wait_until "${EXPORT_SECONDS:-86400}" "$task to export the files of $1" is_over "$task"
  read -r state failed < <(aws fsx describe-data-repository-tasks --task-ids "$task" --output text \
    --query 'DataRepositoryTasks[0].[Lifecycle, Status.FailedCount]') || true
  [ "${state:-}" = SUCCEEDED ] && [[ $failed = 0 || $failed = None ]] ||
    fail "$task has not exported all files of $1: ${state:-no answer}, ${failed:-?} failed" \
      "aws fsx describe-data-repository-tasks --task-ids $task says why; the automatic export is off now; --discard gives the files up"
  exported+=" $1"
}

are_linked() {
  local states
  states=$(rows fsx describe-data-repository-associations --filters "Name=file-system-id,Values=$1" \
    --query "Associations[?Lifecycle!='AVAILABLE'].AssociationId") && [ -z "$states" ]
}

is_over() {
  local state
  state=$(aws fsx describe-data-repository-tasks --task-ids "$1" --query 'DataRepositoryTasks[0].Lifecycle' --output text) || return 1
  [[ $state != PENDING && $state != EXECUTING && $state != CANCELING ]]
}
