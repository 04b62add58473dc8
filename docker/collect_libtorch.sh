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

copy_libraries() {  # copy_libraries FROM TO: the shared libraries below FROM, with their folders
  (cd "$1" && find . \( -name '*.so' -o -name '*.so.*' \) -print0) | (cd "$1" && xargs -0 -r cp -P --parents -t "$2")
}

mkdir -p "$target/torch/lib"
copy_libraries "$torch/lib" "$target/torch/lib"
for file in version.py build-version; do
  if [ -f "$torch/$file" ]; then cp "$torch/$file" "$target/torch/"; fi
done
# The wheel's LibTorch finds CUDA's libraries in ../../nvidia.
if [ -d "$torch/../nvidia" ]; then
  mkdir -p "$target/nvidia"
  copy_libraries "$torch/../nvidia" "$target/nvidia"
fi
# For sbom.sh, and because the licences go with the libraries.
(cd "$torch/.." && find . -maxdepth 1 \( -name 'torch-*.dist-info' -o -name 'nvidia_*.dist-info' -o -name 'triton-*.dist-info' \) -print0 |
  while IFS= read -r -d '' folder; do find "$folder" \( -name METADATA -o -ipath '*licen[cs]e*' \) -type f -print0; done |
  xargs -0 -r cp -P --parents -t "$target")
say "LibTorch's libraries are in $target ($(du -sm "$target" | cut -f1) MB)"
