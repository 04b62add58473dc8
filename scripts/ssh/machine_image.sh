#!/usr/bin/env bash
# Gives a running instance of Ubuntu 22.04 or Amazon Linux 2023 with NVIDIA's driver (the Deep Learning Base AMI) what an AMI for
# dtrain is made of: EFA's software with Open MPI, a Lustre client for this kernel, limits. Programs are no part of it: a bundle is
# on the file system. Checks what it can before it installs anything; run again it changes nothing.
#
#   sudo scripts/ssh/machine_image.sh [EFA-VERSION]      then: aws ec2 create-image --instance-id … --name dtrain-$(date +%F)
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ssh/hosts.sh
source "$scripts/hosts.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
[ "$(id -u)" = 0 ] || fail "this needs root" "run sudo $0 $*"
# shellcheck source=/dev/null
system=$(. /etc/os-release && printf '%s-%s' "$ID" "$VERSION_ID")
case $system in ubuntu-22.04 | amzn-2023) ;; *) fail "this system is $system" "use Ubuntu 22.04 or Amazon Linux 2023" ;; esac
nvidia-smi -L >/dev/null 2>&1 || fail "NVIDIA's driver does not run here" "start from the Deep Learning Base AMI, on an instance with GPUs"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! /opt/amazon/efa/bin/fi_info --version >/dev/null 2>&1; then "$scripts/fetch_efa.sh" "${1:-1.51.0}" "$folder"; fi
if ! modprobe -q lustre; then
  client=lustre-client
  if [ "$system" = ubuntu-22.04 ]; then
    export DEBIAN_FRONTEND=noninteractive
    client=lustre-client-modules-$(uname -r)
    curl -fsSL https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc |
      gpg --dearmor --yes -o /usr/share/keyrings/fsx-ubuntu-public-key.gpg
    printf 'deb [signed-by=/usr/share/keyrings/fsx-ubuntu-public-key.gpg] https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu jammy main\n' \
      >/etc/apt/sources.list.d/fsxlustreclientrepo.list
    apt-get update -q
    apt-cache show "$client" >/dev/null 2>&1 || fail "AWS has no Lustre client for the kernel $(uname -r)" \
      "boot one of those that apt-cache pkgnames lustre-client-modules- lists, then run this again"
    apt-get install -y -q "$client"
  else
    dnf install -y "$client"
  fi
  modprobe lustre || fail "the Lustre client does not fit the kernel $(uname -r)" "boot a kernel that AWS has a client for, then run this again"
fi
if [ -d "$folder/aws-efa-installer" ]; then (cd "$folder/aws-efa-installer" && ./efa_installer.sh -y); fi
printf '* soft memlock unlimited\n* hard memlock unlimited\n* soft nofile 65536\n* hard nofile 65536\n' >/etc/security/limits.d/90-dtrain.conf
printf 'Ready: create the image from this instance\n'
