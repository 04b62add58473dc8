#!/usr/bin/env bash
# Deletes what set_up.sh made, in the order in which it can be deleted: trainings, claim, volume, file system (when its files
# are in the bucket), cluster. The file system's network interfaces would hold the cluster's network otherwise.
#
#   AWS_REGION=us-east-1 scripts/aws/eks/clean_up.sh [--discard]        --discard: do not wait for files on their way out
set -euo pipefail
# shellcheck source=scripts/aws/account.sh
source "$(dirname "${BASH_SOURCE[0]}")/../account.sh"

case ${1:-} in
  '' | --discard) ;;
  -h | --help) usage "$0"; exit 0 ;;
  *) fail "clean_up.sh does not know '$1'" "it takes --discard" ;;
esac
for tool in eksctl kubectl; do command -v "$tool" >/dev/null || fail "$tool is not installed" "install it"; done
check_account
status=$(aws eks describe-cluster --name "$NAME" --query cluster.status --output text 2>/dev/null || true)
if [ -n "$status" ]; then
  aws eks update-kubeconfig --name "$NAME" >/dev/null
  say "Deleting the trainings and the volume"
  for kind in trainjobs.trainer.kubeflow.org pytorchjobs.kubeflow.org jobs; do
    kubectl delete "$kind" --all --wait --timeout=300s 2>/dev/null || note "no $kind here"
  done
  kubectl delete --ignore-not-found persistentvolumeclaim/dtrain-fsx --timeout=300s
  kubectl delete --ignore-not-found persistentvolume/dtrain-fsx --timeout=300s
fi
"$aws_folder/cloudformation/clean_up.sh" --file-system-only ${1:+"$1"}
if [ -n "$status" ]; then
  say "Deleting the cluster"
  eksctl delete cluster --name "$NAME" --region "$AWS_REGION" --wait
fi
say "Nothing of $NAME is left in EKS"
