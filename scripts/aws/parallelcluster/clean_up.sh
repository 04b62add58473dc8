#!/usr/bin/env bash
# Deletes the Slurm cluster that set_up.sh made, with its head node's disk: what is to stay is on /fsx. Running jobs are told to
# stop. File system and network stay (cloudformation/clean_up.sh). Touches no cluster without our tag.
#
#   AWS_REGION=us-east-1 scripts/aws/parallelcluster/clean_up.sh [--dry_run] [--yes]
#
#   --dry_run   lists what would go
#   --yes       does not ask
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

for argument in "$@"; do
  deletion_option "$argument" || fail "clean_up.sh does not know '$argument'" "it takes --dry_run and --yes"
done
check_account
# ParallelCluster keeps a cluster as a stack of the cluster's name, whose deletion ends the instances, too.
offer stack "$NAME"
confirm
delete stack "$NAME"
say "Done: no cluster $NAME is left"
