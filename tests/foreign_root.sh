#!/usr/bin/env bash
# Starts a bundle, or the programs that a wheel installs, in a root of another distribution release that has only Python
# and a PyTorch wheel: no compiler, and none of the libraries that the bundle contains. Needs root, debootstrap and the
# network; without them it exits with 77 (skipped).
#
#   tests/foreign_root.sh BUNDLE|FILE.whl [RELEASE]     default: trixie (Debian 13)
#
# A wheel is installed as users do it, with all of torch (3 GB to download), and is also started by torchrun.
# Environment: DTRAIN_ROOT=DIR makes the root there and keeps it (2 GB; 8 with a wheel); by default it is temporary.
set -euo pipefail
bundle=$(realpath "${1:?usage: tests/foreign_root.sh BUNDLE|FILE.whl [RELEASE]}")
release=${2:-trixie}
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "only root can make another root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

# Mounts are made in a mount namespace of their own, so they are gone when it ends, and nothing can be deleted through
# them.
if [ "${DTRAIN_IN_NAMESPACE:-}" != 1 ]; then
  root=${DTRAIN_ROOT:-$(mktemp -d)}
  status=0
  DTRAIN_IN_NAMESPACE=1 ROOT=$root unshare --mount --propagation private "$0" "$bundle" "$release" || status=$?
  if [ -z "${DTRAIN_ROOT:-}" ]; then
    if grep -q " $root/" /proc/self/mounts; then echo "still mounted inside $root: not deleted" >&2; exit 1; fi
    rm -rf --one-file-system "$root"
  fi
  exit "$status"
fi

mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2>/dev/null) || true
# shellcheck disable=SC2153  # ROOT is set where this script calls itself
if [ ! -x "$ROOT/usr/bin/python3" ]; then
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$release" "$ROOT" \
    "${mirror:-http://deb.debian.org/debian}" >/dev/null || skip "debootstrap could not make $release"
fi
for name in proc sys dev; do mount --rbind "/$name" "$ROOT/$name"; done
cp -L /etc/resolv.conf "$ROOT/etc/resolv.conf"
if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$ROOT/etc/pip.conf"; fi
cp -L /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/ca-certificates.crt"
case $bundle in
  *.whl)
    cp "$bundle" "$ROOT/opt/"
    chroot "$ROOT" python3 -m venv --clear /opt/people
    chroot "$ROOT" /opt/people/bin/pip install -q "/opt/$(basename "$bundle")" || skip "pip could not install the wheel and its torch"
    path=/opt/people/bin programs=/opt/people/bin
    ;;
  *)
    if [ ! -d "$ROOT/opt/torch" ]; then
      # The CPU half of the wheel and the libraries that it loads; `pip install torch` brings these and more.
      chroot "$ROOT" bash -c 'python3 -m venv /opt/torch && /opt/torch/bin/pip install -q --no-deps torch==2.11.0 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85' || skip "pip could not get torch"
    fi
    mkdir -p "$ROOT/opt/bundle"
    mount --bind "$bundle" "$ROOT/opt/bundle"
    path=/opt/torch/bin programs=/opt/bundle/bin
    ;;
esac
# shellcheck disable=SC2016  # expanded inside
chroot "$ROOT" env -i PATH=$path:/usr/bin:/bin HOME=/root PROGRAMS=$programs bash -c '
  set -eu
  . /etc/os-release && echo "in $PRETTY_NAME, $(python3 --version)"
  if command -v cc || ls /usr/lib/x86_64-linux-gnu/libopencv_core* 2>/dev/null; then echo "this root is not bare"; exit 1; fi
  rm -rf /tmp/run
  $PROGRAMS/dtrain_main --data_format=synthetic --model=resnet18 --image_size=32 --num_classes=10 --batch_size=8 \
    --max_steps=3 --log_interval=1 --nproc_per_node=2 --run_dir=/tmp/run
  test -s /tmp/run/model.safetensors
  $PROGRAMS/dtrain_bench step --model=resnet18 --image_size=32 --num_classes=10 --batch_size=4 --steps=1 --warmup=0
  status=0; $PROGRAMS/dtrain_main --data_dir=/nonexistent || status=$?
  test "$status" = 3
  if [ -x $PROGRAMS/torchrun ]; then
    torchrun --no-python --nproc-per-node=2 dtrain_main --data_format=synthetic --model=resnet18 --image_size=32 --num_classes=10 \
      --batch_size=8 --max_steps=2 --run_dir=/tmp/run2
    dtrain_data --version
  fi'
echo "$(basename "$bundle") trains in $release"
