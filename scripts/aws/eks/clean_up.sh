#!/usr/bin/env bash
# Deletes what set_up.sh made, in the order in which it can be deleted: trainings, claim, volume, file system (once everything
# on it is in the bucket), cluster. The file system's network interfaces would hold the cluster's network otherwise. Touches no
# cluster without our tag, and in a cluster only objects with our label (app.kubernetes.io/part-of: dtrain), until it goes whole.
#
#   AWS_REGION=us-east-1 scripts/aws/eks/clean_up.sh [--dry_run] [--yes] [--discard]
#
#   --discard   gives up files that are not in the bucket
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

deletion_options --discard "$@"
for tool in eksctl kubectl; do command -v "$tool" >/dev/null || fail "$tool is not installed" "install it"; done
check_account

offer_objects() {  # offer_objects KIND
  local found object
  found=$(kubectl get "$1" --all-namespaces --selector="$label" \
    -o "jsonpath={range .items[*]}$1/{.metadata.namespace}/{.metadata.name}{'\n'}{end}" 2>"$folder/error") || case $(<"$folder/error") in
    *"the server doesn't have a resource type"*) return 0 ;;  # its operator is not installed
    *) fail "the cluster does not list its $1: $(<"$folder/error")" "nothing was deleted; see the message, then run this again" ;;
  esac
  for object in $found; do offer object "$object"; done
}

offer cluster "$NAME"
if is_going cluster "$NAME"; then
  # A file of its own: the current context of the user's own file may be another cluster.
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  export KUBECONFIG=$folder/config
  aws eks update-kubeconfig --name "$NAME" >/dev/null
  for kind in trainjobs.trainer.kubeflow.org pytorchjobs.kubeflow.org jobs.batch persistentvolumeclaims persistentvolumes; do
    offer_objects "$kind"
  done
fi
offer_file_systems
confirm
delete_all object  # the claim goes only when no pod uses it
delete_file_systems
delete cluster "$NAME"
say "Done: nothing of ours is left in EKS under the name $NAME"
