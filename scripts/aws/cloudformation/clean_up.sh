#!/usr/bin/env bash
# Deletes what set_up.sh made, in the order in which it can be deleted: the file system, once what it has for the bucket
# is there; then network, repository and roles. Refuses while a cluster still uses them. The bucket stays, with all in it.
#
#   AWS_REGION=us-east-1 scripts/aws/cloudformation/clean_up.sh [--file-system-only] [--discard]
#
#   --discard   does not wait for files that have not reached the bucket yet
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

only_files=no
discard=no
for argument in "$@"; do
  case $argument in
    --file-system-only) only_files=yes ;;
    --discard) discard=yes ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "clean_up.sh does not know '$argument'" "it takes --file-system-only and --discard" ;;
  esac
done
check_account

for user in batch workflow; do
  if [ -n "$(stack_status "$NAME-$user")" ]; then
    fail "the stack $NAME-$user still uses the network and the file system" "run scripts/aws/batch/clean_up.sh first"
  fi
done

# All file systems of this name, also those that a failed set-up or an aborted workflow has left.
file_systems() {
  aws fsx describe-file-systems --output text \
    --query "FileSystems[?Tags[?Key=='dtrain:name' && Value=='$NAME']].FileSystemId" 2>/dev/null | tr '\t' '\n' | sed '/^None$/d'
}

# The seconds for which the oldest file has waited for its export to the bucket; 0 if all are there or nothing is
# exported.
# shellcheck disable=SC2016  # the backquotes are JMESPath's
export_delay() {
  aws cloudwatch get-metric-statistics --namespace AWS/FSx --metric-name AgeOfOldestQueuedMessage --statistics Maximum \
    --dimensions "Name=FileSystemId,Value=$1" Name=Publisher,Value=AutoExport --period 60 --output text \
    --start-time "$(date -u -d '-5 minutes' +%FT%TZ)" --end-time "$(date -u +%FT%TZ)" \
    --query 'max(Datapoints[].Maximum || `[0]`)' 2>/dev/null || printf '0\n'
}
is_exported() {
  local delay
  delay=$(export_delay "$1")
  [ "${delay%.*}" = None ] || [ "${delay%.*}" = 0 ]
}
is_deleted() {
  local left
  left=$(aws fsx describe-file-systems --file-system-ids "$1" --query 'FileSystems[].FileSystemId' --output text 2>/dev/null) || return 0
  [ -z "$left" ] || [ "$left" = None ]
}

for id in $(file_systems); do
  if [ "$discard" = no ]; then wait_until 1800 "the files of $id to reach the bucket (--discard gives them up)" is_exported "$id"; fi
done
delete_stack "$NAME-files"
for id in $(file_systems); do
  say "Deleting the file system $id, which belongs to no stack"
  aws fsx delete-file-system --file-system-id "$id" >/dev/null
  wait_until 1800 "$id to be deleted" is_deleted "$id"
done
if [ "$only_files" = yes ]; then exit 0; fi

bucket=$(stack_output "$NAME-base" BucketName)
delete_stack "$NAME-base"
say "Nothing of $NAME is left${bucket:+, but the bucket $bucket: aws s3 rb --force s3://$bucket removes it with all in it}"
