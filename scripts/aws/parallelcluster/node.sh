#!/usr/bin/env bash
# What ParallelCluster does as root on the nodes of our clusters (cluster.yaml):  node.sh head, once /fsx is mounted | compute
set -euo pipefail

if [ "${1:-}" = head ]; then
  mountpoint -q /fsx || { echo "node.sh: no file system is mounted on /fsx" >&2; exit 1; }
  # The root of a new file system belongs to root. As in /tmp, everybody makes folders of their own in these (people as ubuntu,
  # containers of Batch and EKS as 10001), and nobody removes those of others.
  install -d -m 1777 /fsx /fsx/data /fsx/results
fi

# Switches on Enroot and Pyxis for jobs in containers (IMAGE in train.sbatch). Images have them since 3.11.1, unused.
examples=/opt/parallelcluster/examples
[ -d "$examples/enroot" ] || { echo "node.sh: no Enroot on this image: jobs run from the bundle only" >&2; exit 0; }
install -d -m 1777 /var/enroot /run/enroot /run/pyxis
install -D -m 644 "$examples/enroot/enroot.conf" /etc/enroot/enroot.conf
if [ "${1:-}" = head ]; then
  # Slurm's folder is shared with the compute nodes.
  install -D -m 644 "$examples/spank/plugstack.conf" /opt/slurm/etc/plugstack.conf
  install -D -m 644 "$examples/pyxis/pyxis.conf" /opt/slurm/etc/plugstack.conf.d/pyxis.conf
  # The path of Slurm's programs is set for login shells.
  bash -lc 'scontrol reconfigure'
fi
