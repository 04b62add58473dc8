#!/usr/bin/env bash
# Deletes what set_up.sh made, in the order in which it can be deleted: the file system, once everything on it is in the
# bucket; then network, repository and roles. Refuses while a cluster or an instance still uses them. The bucket stays, with
# all in it. Touches nothing without our tag.
#
#   AWS_REGION=us-east-1 scripts/aws/cloudformation/clean_up.sh [--file-system-only] [--dry_run] [--yes] [--discard]
#
#   --file-system-only   the rest stays, and what uses the file system must have ended
#   --discard   gives up files that are not in the bucket. Without it a file system goes only after a task has exported them all
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

deletion_options "--file-system-only --discard" "$@"
check_account

# What was made in the network goes first: its stacks, and ParallelCluster's, which is named as the cluster.
if [[ " $* " != *" --file-system-only "* ]]; then
  for user in "$NAME-batch $aws_folder/batch/clean_up.sh" "$NAME-workflow $aws_folder/batch/clean_up.sh" "$NAME-instances $aws_folder/cloudformation/instances.sh 0" \
    "$NAME pcluster delete-cluster -n $NAME"; do
    owner=$(owner_of stack "${user%% *}")
    [ "$owner" != "$NAME" ] || fail "the stack ${user%% *} still uses the network" "first: ${user#* }"
  done
  offer stack "$NAME-base"
fi
offer_file_systems
refuse_users
bucket=$(stack_output "$NAME-base" BucketName)
confirm
delete_file_systems
delete stack "$NAME-base"
case $bucket in '' | None) bucket= ;; esac
say "Done${bucket:+. The bucket $bucket is still there: aws s3 rb --force s3://$bucket removes it with all in it}"
