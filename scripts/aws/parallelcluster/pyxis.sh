#!/usr/bin/env bash
# Switches on Enroot and Pyxis, which ParallelCluster's images have since 3.11.1 without using them, so that jobs can run in
# containers (IMAGE in train.sh). cluster.yaml runs it on every node: pyxis.sh head | compute
set -euo pipefail

examples=/opt/parallelcluster/examples
[ -d "$examples/enroot" ] || { echo "pyxis.sh: no Enroot on this image: jobs run from the bundle only" >&2; exit 0; }
for folder in /var/enroot /run/enroot /run/pyxis; do
  mkdir -p "$folder"
  chmod 1777 "$folder"
done
install -D -m 644 "$examples/enroot/enroot.conf" /etc/enroot/enroot.conf
if [ "${1:-}" = head ]; then
  # Slurm's folder is shared with the compute nodes.
  install -D -m 644 "$examples/spank/plugstack.conf" /opt/slurm/etc/plugstack.conf
  install -D -m 644 "$examples/pyxis/pyxis.conf" /opt/slurm/etc/plugstack.conf.d/pyxis.conf
  # The path of Slurm's programs is set for login shells.
  bash -lc 'scontrol reconfigure'
fi
