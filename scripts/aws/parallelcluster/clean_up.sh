#!/usr/bin/env bash
# Deletes the Slurm cluster that set_up.sh made, with its head node's disk: what is to stay is on /fsx. Running jobs are told to
# stop. File system and network stay (cloudformation/clean_up.sh). Touches no cluster without our tag.
#
#   AWS_REGION=us-east-1 scripts/aws/parallelcluster/clean_up.sh [--dry_run] [--yes]
set -euo pipefail
# shellcheck source=scripts/aws/deletion.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deletion.sh"

deletion_options "" "$@"
check_account
# ParallelCluster keeps a cluster as a stack of the cluster's name, whose deletion ends the instances, too.
offer stack "$NAME"
confirm
delete stack "$NAME"
say "Done: no cluster $NAME is left"
