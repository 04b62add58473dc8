#!/usr/bin/env bash
# Deletes what the set-ups have made under NAME, also the remains of failed ones, in the order in which it can be deleted. Touches
# nothing without our tag, and in a cluster only objects with our label (app.kubernetes.io/part-of: dtrain), until it goes whole.
#
#   AWS_REGION=us-east-1 scripts/aws/clean_up.sh PART [--dry_run] [--yes] [--discard]
#
#   batch       ends all jobs; queue, environment, job definitions, workflow
#   instances   the machines of cloudformation/instances.sh
#   eks         trainings, claim, volume, file system, cluster
#   files       the file systems, once everything on them is in the bucket; what uses them must have ended
#   base        these, then network, repository and roles; what uses the network must be gone. The bucket stays, with all in it
#   --dry_run   lists what would go, and what it costs
#   --yes       does not ask
#   --discard   gives up files that are not in the bucket. Without it a file system goes only after a task has exported them all
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/deletion.sh"

part=${1:-}
case $part in
  batch | instances | eks | files | base) shift ;;
  -h | --help) usage "$0"; exit 0 ;;
  *) fail "clean_up.sh knows no part '$part'" "one of batch, instances, eks, files, base: --help" ;;
esac
for argument in "$@"; do
  case $argument in
    --dry_run | --dry-run) dry_run=yes ;;
    --yes) yes=yes ;;
    --discard) discard=yes ;;
    *) fail "clean_up.sh does not know '$argument'" "it takes a part, --dry_run, --yes and --discard" ;;
  esac
done
check_account

offer_jobs() {
  local ids id owner
  ids=$(list_jobs 'jobSummaryList[].jobId') || fail "Batch does not list the jobs of the queue" "see the message above, then run this again"
  for id in $ids; do
    owner=$(owner_of job "$id")
    [[ $owner = "$NAME" || $owner = gone ]] || fail "the job $id in the queue $NAME belongs to $owner, and the queue cannot go without it" \
      "if it may end: aws batch terminate-job --job-id $id --reason …, then run this again"
    offer job "$id"
  done
}
no_jobs() {
  local found
  found=$(list_jobs 'jobSummaryList[].jobId') && [ -z "$found" ]
}
case $part in
  batch)
    offer queue "$NAME"
    if is_going queue "$NAME"; then offer_jobs; fi
    offer stack "$NAME-workflow"
    if is_going stack "$NAME-workflow"; then refuse_executions; fi
    offer stack "$NAME-batch"
    # What the stack of a failed set-up has left behind goes after the stack.
    offer_all environment "Batch does not list the environments" batch describe-compute-environments \
      --query "computeEnvironments[?status!='DELETED' && tags.\"dtrain:name\"=='$NAME'].computeEnvironmentName"
    for name in "$NAME" "$NAME-sweep"; do
      offer_all definition "Batch does not list the job definitions" batch describe-job-definitions --job-definition-name "$name" \
        --status ACTIVE --query 'jobDefinitions[].jobDefinitionArn'
    done ;;
  instances) offer stack "$NAME-instances" ;;
  eks)
    for tool in eksctl kubectl; do command -v "$tool" >/dev/null || fail "$tool is not installed" "install it"; done
    offer cluster "$NAME"
    if is_going cluster "$NAME"; then
      # A file of its own: the current context of the user's own file may be another cluster.
      folder=$(mktemp -d)
      trap 'rm -rf "$folder"' EXIT
      export KUBECONFIG=$folder/config
      aws eks update-kubeconfig --name "$NAME" >/dev/null
      for kind in trainjobs.trainer.kubeflow.org pytorchjobs.kubeflow.org jobs.batch persistentvolumeclaims persistentvolumes; do
        offer objects "$kind"  # with our label
      done
    fi
    offer_file_systems ;;  # their network interfaces would hold the cluster's network
  base)
    # What was made in the network goes first: its stacks, and ParallelCluster's, which is named as the cluster.
    for user in "$NAME-batch $0 batch" "$NAME-workflow $0 batch" "$NAME-instances $0 instances" "$NAME pcluster delete-cluster -n $NAME"; do
      owner=$(owner_of stack "${user%% *}")
      [ "$owner" != "$NAME" ] || fail "the stack ${user%% *} still uses the network" "first: ${user#* }"
    done
    offer stack "$NAME-base" ;;
esac
case $part in files | base)
  offer_file_systems
  refuse_users ;;
esac
bucket=$(stack_output "$NAME-base" BucketName)
confirm

if is_going queue "$NAME"; then
  aws batch update-job-queue --job-queue "$NAME" --state DISABLED >/dev/null
  delete_all job
  wait_until 900 "the jobs to end" no_jobs
fi
delete stack "$NAME-workflow"
delete stack "$NAME-batch"
delete queue "$NAME"
delete_all environment definition
delete stack "$NAME-instances"
delete_all objects  # a claim goes only when no pod uses it
delete_file_systems
delete cluster "$NAME"
delete stack "$NAME-base"
say "Done: nothing of ours is left of $part under the name $NAME"
if [ "$part" = base ] && [[ $bucket != '' && $bucket != None ]]; then
  note "the bucket $bucket is still there: aws s3 rb --force s3://$bucket removes it with all in it"
fi
