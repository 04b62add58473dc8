#!/usr/bin/env bash
# Turns a running instance of Ubuntu 22.04 or Amazon Linux 2023 with NVIDIA's driver (the Deep Learning Base AMI) into what an AMI
# for dtrain is made of: EFA's software, a Lustre client for this kernel, Open MPI, limits, the programs with LibTorch, and, where
# containers are used, their image. Copy scripts/ssh there, run it as root, then:
# aws ec2 create-image --instance-id … --name dtrain-$(date +%F). Run again it changes nothing.
#
#   machine_image.sh BUNDLE [EFA-VERSION]      BUNDLE: a folder that scripts/bundle.sh has made
#
# Environment: TORCH_INDEX, another index of wheels than the default (V100s need the one for CUDA 12.6); IMAGE, a container image
# that is to be on the machine's disk already, so that no start waits for it (docker must be logged in to its registry).
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ssh/hosts.sh
source "$scripts/hosts.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
bundle=${1:-}
efa=${2:-1.48.0}
[ -x "$bundle/bin/dtrain_main" ] || fail "'$bundle' is not a bundle" "make one with scripts/bundle.sh, and copy it here"
[ "$(id -u)" = 0 ] || fail "this needs root" "run sudo $0 $*"
# shellcheck source=/dev/null
system=$(. /etc/os-release && printf '%s-%s' "$ID" "$VERSION_ID")
case $system in
  ubuntu-22.04)
    export DEBIAN_FRONTEND=noninteractive
    if ! modinfo lustre >/dev/null 2>&1; then
      curl -fsSL https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc |
        gpg --dearmor --yes -o /usr/share/keyrings/fsx-ubuntu-public-key.gpg
      printf 'deb [signed-by=/usr/share/keyrings/fsx-ubuntu-public-key.gpg] https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu jammy main\n' \
        >/etc/apt/sources.list.d/fsxlustreclientrepo.list
    fi
    apt-get update -q
    apt-get install -y -q "lustre-client-modules-$(uname -r)" libgomp1 openmpi-bin python3-pip gnupg
    ;;
  amzn-2023) dnf install -y lustre-client libgomp python3-pip ;;  # it has a small gpg
  *) fail "this system is $system" "use Ubuntu 22.04 or Amazon Linux 2023" ;;
esac
modinfo lustre >/dev/null || fail "there is no Lustre client for the kernel $(uname -r)" "boot a kernel that AWS has a client for, then run this again"
if ! /opt/amazon/efa/bin/fi_info --version >/dev/null 2>&1; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  "$scripts/fetch_efa.sh" "$efa" "$folder"
  (cd "$folder/aws-efa-installer" && ./efa_installer.sh -y -g)
fi
printf '* soft memlock unlimited\n* hard memlock unlimited\n* soft nofile 65536\n* hard nofile 65536\n' >/etc/security/limits.d/90-dtrain.conf
if [ ! /opt/dtrain -ef "$bundle" ]; then
  [ ! -e /opt/dtrain ] || [ -f /opt/dtrain/BUNDLE.txt ] || fail "/opt/dtrain is not a bundle, and one would take its place" "move it away"
  rm -rf /opt/dtrain.new
  cp -r "$bundle" /opt/dtrain.new
  if [ ! -e /opt/dtrain.new/python ] && [ -e /opt/dtrain/python ]; then mv /opt/dtrain/python /opt/dtrain.new/; fi
  rm -rf /opt/dtrain
  mv /opt/dtrain.new /opt/dtrain
fi
"$scripts/install_libtorch.sh" /opt/dtrain ${TORCH_INDEX:+"$TORCH_INDEX"}
/opt/dtrain/bin/dtrain_main --version
if [ -n "${IMAGE:-}" ]; then docker pull "$IMAGE"; fi
printf 'Ready: create the image from this instance\n'
