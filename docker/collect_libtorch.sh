#!/usr/bin/env bash
# Copies the run-time part of the LibTorch in use (and of CUDA's libraries beside it) to DIR: the shared libraries, the file
# with the version, and the wheels' names, versions and licences. Headers, static libraries and Python are left out.
#
#   docker/collect_libtorch.sh DIR      then DTRAIN_TORCH_DIR=DIR/torch
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/environment.sh"

target=${1:?usage: docker/collect_libtorch.sh DIR}
torch=$(named_torch_dir)
if [ -z "$torch" ]; then torch=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch; fi
[ -e "$torch/lib/libtorch_cpu.so" ] || fail "there is no LibTorch in $torch. Run scripts/setup.sh first."

mkdir -p "$target"
# The wheel's LibTorch finds CUDA's libraries in ../../nvidia. METADATA is for sbom.sh, and the licences go with the libraries.
(cd "$torch/.." && find torch/lib torch/version.py torch/build-version nvidia ./torch-*.dist-info ./nvidia_*.dist-info ./triton-*.dist-info \
  \( -type f -o -type l \) \( -name '*.so' -o -name '*.so.*' -o -name version.py -o -name build-version -o -name METADATA \
  -o -ipath '*.dist-info/*licen[cs]e*' \) -print0 2>/dev/null || true) | (cd "$torch/.." && xargs -0 cp -P --parents -t "$target")
say "LibTorch's libraries are in $target ($(du -sm "$target" | cut -f1) MB)"
