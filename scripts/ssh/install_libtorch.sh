#!/usr/bin/env bash
# Puts LibTorch beside a bundle's programs, at the version that the bundle names, so that they run on machines without PyTorch,
# from every launcher and without a variable. For a bundle on shared storage once is enough. Run again it changes nothing.
#
#   install_libtorch.sh BUNDLE [INDEX]      BUNDLE: a folder that scripts/bundle.sh has made; INDEX: another index of wheels, such
#                                           as PyTorch's own for CUDA 12.6, which V100s need
#
# Needs python3 with pip, of any version, and 10 GB of disk.
set -euo pipefail
# shellcheck source=scripts/ssh/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/hosts.sh"

case ${1:-} in -h | --help) usage "$0"; exit 0 ;; esac
bundle=${1:-}
[ -r "$bundle/BUNDLE.txt" ] || fail "'$bundle' is not a bundle" "make one with scripts/bundle.sh, and copy it here"
version=$(sed -n 's/^LibTorch \([0-9.]*\)$/\1/p' "$bundle/BUNDLE.txt")
[ -n "$version" ] || fail "$bundle/BUNDLE.txt names no LibTorch" "make the bundle anew with scripts/bundle.sh"
if [ -e "$bundle/python/torch/lib/libtorch_cpu.so" ]; then
  there=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$bundle/python/torch/version.py")
  case $there in
    "$version".*) printf 'LibTorch %s is there%s\n' "$there" "${2:+; to have that of $2, rm -r $bundle/python first}"; exit 0 ;;
  esac
fi
python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip" "apt-get install python3-pip, or dnf install python3-pip"
# A wheel of any Python will do, since only its libraries are used. pip takes the platforms that are named, not older ones too.
platforms=(--platform=manylinux2014_x86_64)
for glibc in {17..28}; do platforms+=("--platform=manylinux_2_${glibc}_x86_64"); done
new=$bundle/.python.new
rm -rf "$new"
trap 'rm -rf "$new"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --target="$new" --only-binary=:all: --python-version=3.12 \
  --implementation=cp "${platforms[@]}" ${2:+--index-url="$2"} "torch==$version.*" ||
  fail "LibTorch $version was not installed" "see the message above; is the package index reachable, and is there disk space?"
[ -e "$new/torch/lib/libtorch_cpu.so" ] || fail "the package torch $version has no LibTorch" "try another index: install_libtorch.sh $bundle INDEX"
rm -rf "$bundle/python"
mv "$new" "$bundle/python"
printf 'LibTorch %s is in %s/python\n' "$version" "$bundle"
