#!/usr/bin/env bash
# Deletes what set_up.sh made, in the order in which it can be deleted: the file system, once everything on it is in the
# bucket; then network, repository and roles. Refuses while a cluster or an instance still uses them. The bucket stays, with
# all in it. Touches nothing without our tag.
#
#   AWS_REGION=us-east-1 scripts/aws/cloudformation/clean_up.sh [--file-system-only] [--dry_run] [--yes] [--discard]
#
#   --discard   gives up files that are not in the bucket. Without it a file system goes only after a task has exported them all
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

deletion_options "--file-system-only --discard" "$@"
check_account

for user in batch workflow; do
  owner=$(owner_of stack "$NAME-$user")
  if [ "$owner" = "$NAME" ]; then
    fail "the stack $NAME-$user still uses the network and the file system" "run scripts/aws/batch/clean_up.sh first"
  fi
done
offer_file_systems
if [[ " $* " != *" --file-system-only "* ]]; then offer stack "$NAME-base"; fi
refuse_users
bucket=$(stack_output "$NAME-base" BucketName)
confirm
delete_file_systems
delete stack "$NAME-base"
case $bucket in '' | None) bucket= ;; esac
say "Done${bucket:+. The bucket $bucket is still there: aws s3 rb --force s3://$bucket removes it with all in it}"
