#!/usr/bin/env bash
# Makes a folder that runs on other machines: the programs and the libraries that they need beside LibTorch, CUDA
# and libc. It may be moved and renamed. The other machine needs glibc and libstdc++ of this machine's age or newer,
# and PyTorch of the version that this was built with (its wheel; a CPU one is enough without a GPU).
#
#   scripts/bundle.sh [--preset=release] [DIR]     default: build/PRESET/bundle
#
# There, DIR/bin/dtrain_main (dtrain_bench …) finds LibTorch in $DTRAIN_TORCH_DIR (the folder with include/ and lib/: the
# torch package, or the unpacked official archive), else in DIR/python if scripts/ssh/install_libtorch.sh has put it there,
# else in the torch of the `python3` on the PATH. It runs under torchrun --no-python and every other launcher: it becomes
# the program, so arguments, signals and exit codes are its own.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

preset_and_folder "$@"
build=${DTRAIN_BUILD_DIR:-$root/build/$preset}
target=$(realpath -m "${target:-$build/bundle}")
most_megabytes=68
marker=BUNDLE.txt

[ -x "$build/bin/dtrain_main" ] || fail "$build/bin/dtrain_main is not built. Run scripts/build.sh --preset=$preset first."
if [ -e "$target" ]; then
  [ -f "$target/$marker" ] || [ -z "$(ls -A "$target" 2>/dev/null)" ] ||
    fail "$target exists and is not a bundle, so it is not replaced. Name another folder."
fi

# Libraries that each system has in versions of its own: the C library's parts and the compiler's.
belongs_to_the_system() {
  case $1 in
    ld-linux*.so.* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.* | libresolv.so.*) ;;
    libstdc++.so.* | libgcc_s.so.* | libnss_*.so.*) ;;
    *) return 1 ;;
  esac
}

# LibTorch's own folder, and the folders of CUDA's libraries, which lie beside it or in the toolkit.
belongs_to_torch() {
  case $1 in
    */torch/lib/* | */nvidia/* | */cuda*/* | */libcuda.so.* | */libnvidia-*) ;;
    *) [ "$(dirname "$(realpath "$1")")" = "$torch_lib" ] ;;
  esac
}

# copy_libraries PROGRAM…: copies all libraries that the programs need, except those of the two sets above.
copy_libraries() {
  local name arrow path
  while read -r name arrow path; do
    [ "$arrow" = "=>" ] || continue
    if belongs_to_the_system "$name"; then continue; fi
    path=${path% (0x*}  # may have blanks
    if [ "$path" = "not found" ]; then
      case $name in libtorch* | libc10* | libcu* | libnv* | libnccl*) continue ;; esac  # belongs to a LibTorch in another place
      fail "$name, which a program needs, is not found on this machine."
    fi
    if belongs_to_torch "$path"; then continue; fi
    if [ -e "$staging/lib/$name" ]; then continue; fi
    cp -L "$path" "$staging/lib/$name"
    printf '%s\n' "$path" >>"$staging/sources"
  done < <(for program in "$@"; do ldd "$program"; done)
}

# Copies the licences of the copied libraries from where the distribution keeps them.
copy_licences() {
  local package
  cp "$root/LICENSE" "$staging/licenses/dtrain"
  cp "$root/docs/notices.md" "$staging/licenses/NOTICES.md"
  command -v dpkg-query >/dev/null || return 0
  xargs -d '\n' -a "$staging/sources" realpath | { xargs -d '\n' dpkg-query -S 2>/dev/null || true; } | cut -d: -f1 | sort -u |
    while read -r package; do
      if [ -f "/usr/share/doc/$package/copyright" ]; then
        cp -L "/usr/share/doc/$package/copyright" "$staging/licenses/$package"
      fi
    done
}

say "Bundling $build"
mkdir -p "$(dirname "$target")"
staging=$(mktemp -d "$(dirname "$target")/.bundle.XXXXXX")
trap 'rm -rf "$staging"' EXIT
mkdir "$staging/bin" "$staging/libexec" "$staging/lib" "$staging/licenses" "$staging/scripts" "$staging/scripts/dev"

torch_lib=$(ldd "$build/bin/dtrain_main" | sed -n 's/^\s*libtorch_cpu\.so => \(.*\) (0x.*/\1/p')
[ -e "$torch_lib" ] || fail "the LibTorch that $build/bin/dtrain_main was linked with has been moved or deleted."
torch_lib=$(dirname "$(realpath "$torch_lib")")

programs=()
for program in "$build"/bin/dtrain_main "$build"/bin/dtrain_data "$build"/bin/dtrain_bench "$build"/tests/gpu_test \
  "$build"/bin/libdtrain_cuda.so; do
  if [ -f "$program" ]; then programs+=("$program"); fi
done
copy_libraries "${programs[@]}"
: >>"$staging/sources"
copy_licences
rm "$staging/sources"
for program in "${programs[@]}"; do
  name=$(basename "$program")
  install -m 755 "$program" "$staging/libexec/$name"
  strip --strip-unneeded "$staging/libexec/$name"
  # The path of this machine's LibTorch is of no use on others.
  "$(cmake_tool cmake)" -DFILE="$staging/libexec/$name" -P "$root/cmake/RemoveRunPath.cmake"
  case $name in *.so) ;; *) install -m 755 "$root/scripts/bundle_launcher.sh" "$staging/bin/$name" ;; esac
done
cp -r "$root"/scripts/events_to_*.py "$root"/scripts/{cross_validate.py,export_onnx.py,guard_node.sh,recipes} \
  "$root"/scripts/{report.py,reports,requirements.txt,run_events.py,safe_files.py,sweep.py,sweeps,with_notices.sh} "$staging/scripts/"
cp -r "$root"/scripts/dev/{gpu_check.sh,gpu_check} "$staging/scripts/dev/"
find "$staging/scripts" -name __pycache__ -prune -exec rm -r {} +
{
  echo "dtrain $("$build/bin/dtrain_main" --version 2>/dev/null | awk '{print $2; exit}')" \
    "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || true)"
  echo "LibTorch ${torch_version%.*}"
  echo "built on $(. /etc/os-release && echo "${PRETTY_NAME:-unknown}"), $(getconf GNU_LIBC_VERSION)"
} >"$staging/$marker"

megabytes=$(du -sm "$staging" | cut -f1)
[ "$megabytes" -le $most_megabytes ] || fail "the bundle has $megabytes MB, more than $most_megabytes."
chmod 755 "$staging"
# LibTorch stays, which install_libtorch.sh has put into the one before, whatever happens from here on.
trap - EXIT
if [ -e "$target/python" ]; then mv "$target/python" "$staging/"; fi
if [ -e "$target" ]; then rm -rf "$target"; fi
mv "$staging" "$target"
say "Ready: $target ($megabytes MB, $(find "$target/lib" -type f | wc -l) libraries)"
