#!/usr/bin/env bash
# Makes a Python wheel of the bundle (scripts/bundle.sh): `pip install FILE.whl` brings torch 2.11 and puts dtrain_main,
# dtrain_data, dtrain_bench and dtrain_{cross_validate,report,sweep,events} on the PATH, for torchrun --no-python, too. The
# programs are what they are elsewhere: Python only starts them, to say where torch is, whose CUDA they use if they were built
# for GPUs. The wheel's tag names the glibc that they need.
#
#   scripts/wheel.sh [--preset=release] [DIR]      default: build/PRESET/wheel
#
# Needs the package `wheel` (scripts/requirements.txt; scripts/setup.sh --tests installs it).
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

preset_and_folder "$@"
export DTRAIN_BUILD_DIR=${DTRAIN_BUILD_DIR:-$root/build/$preset}
target=$(realpath -m "${target:-$DTRAIN_BUILD_DIR/wheel}")
python=$venv/bin/python
"$python" -c 'import wheel' 2>/dev/null ||
  fail "Python has no package wheel. Run $python -m pip install -r scripts/requirements.txt."

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
mkdir "$staging/wheel" "$staging/wheel/dtrain"
"$root/scripts/bundle.sh" --preset="$preset" "$staging/wheel/dtrain/bundle"
bundle=$staging/wheel/dtrain/bundle

# The tests of GPUs belong to bundles only.
rm -rf "$bundle"/{bin,libexec}/gpu_test "$bundle"/scripts/dev
version=$(sed -n '1s/^dtrain \([0-9.]*\).*/\1/p' "$bundle/BUNDLE.txt")
[ -n "$version" ] || fail "$bundle/BUNDLE.txt does not give the version."

# The newest version of glibc's symbols that any file in the bundle needs.
glibc=$(find "$bundle/libexec" "$bundle/lib" -type f -exec objdump -T {} + | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -uV | tail -n 1)
glibc=${glibc#GLIBC_}
[ -n "$glibc" ] || fail "objdump finds no symbol of glibc in $bundle. Is binutils installed?"
platform=manylinux_${glibc/./_}_$(uname -m)

printf '"""The programs of dtrain; there is nothing to import. They are on the PATH: dtrain_main --help."""\n\n__version__ = "%s"\n' \
  "$version" >"$staging/wheel/dtrain/__init__.py"
cp "$root/scripts/wheel_commands.py" "$staging/wheel/dtrain/__main__.py"

# Below the environment's folder: manual pages, and completions for bash and zsh.
share=$staging/wheel/dtrain-$version.data/data/share
mkdir -p "$share/man/man1"
cp "$root"/docs/man/*.1 "$share/man/man1/"
"$python" "$root/scripts/completions.py" "$DTRAIN_BUILD_DIR/bin" "$share"

info=$staging/wheel/dtrain-$version.dist-info
mkdir -p "$info/licenses"
cp "$root/LICENSE" "$root/docs/notices.md" "$info/licenses/"
cat >"$info/WHEEL" <<WHEEL
Wheel-Version: 1.0
Generator: scripts/wheel.sh
Root-Is-Purelib: false
Tag: py3-none-$platform
WHEEL
{
  echo "[console_scripts]"
  printf '%s = dtrain.__main__:main\n' dtrain_{main,data,bench,cross_validate,report,sweep,events}
} >"$info/entry_points.txt"
{
  cat <<METADATA
Metadata-Version: 2.4
Name: dtrain
Version: $version
Summary: A standalone trainer in C++ on LibTorch: ResNets, EfficientNets, RoBERTa
License-Expression: Apache-2.0
License-File: LICENSE
License-File: notices.md
Requires-Python: >=3.10
Requires-Dist: torch==${torch_version%.*}.*
Provides-Extra: scripts
$(sed -n 's/^\([A-Za-z]*==.*\)/Requires-Dist: \1; extra == "scripts"/p' "$root/scripts/requirements.txt" | grep -v wheel==)
Description-Content-Type: text/markdown

METADATA
  cat "$root/README.md"
} >"$info/METADATA"

wheel=$target/dtrain-$version-py3-none-$platform.whl
mkdir -p "$target"
rm -f "$wheel"
"$python" -m wheel pack "$staging/wheel" --dest-dir "$target" >/dev/null
say "Ready: $wheel ($(du -m "$wheel" | cut -f1) MB)"
