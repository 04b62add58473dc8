#!/bin/sh
# Starts the program of this file's name from a bundle (scripts/bundle.sh): tells the loader where LibTorch is and becomes the
# program. LibTorch is in $DTRAIN_TORCH_DIR, else in the bundle if scripts/ssh/install_libtorch.sh has put it there, else in
# the torch of the python3 on the PATH, which is asked for torch's folder without importing it.
self=$(readlink -f "$0") || exit 2
name=${self##*/}
bundle=${self%/bin/*}
needed=2.11

fail() {
  printf 'dtrain failed (usage, exit code 2): %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 2
}

torch=${DTRAIN_TORCH_DIR:-}
if [ -z "$torch" ] && [ -e "$bundle/python/torch/lib/libtorch_cpu.so" ]; then torch=$bundle/python/torch; fi
if [ -z "$torch" ]; then
  torch=$(python3 -c 'import sys; sys.path[:1] = []
from importlib.util import find_spec
found = find_spec("torch")
print(found.submodule_search_locations[0] if found else "")' 2>/dev/null)
  [ -n "$torch" ] || fail "no PyTorch was found: there is no python3 on the PATH, or it has no torch" \
    "activate the environment with torch $needed, or set DTRAIN_TORCH_DIR to its torch folder (with lib/libtorch_cpu.so), or scripts/ssh/install_libtorch.sh $bundle"
fi
[ -e "$torch/lib/libtorch_cpu.so" ] || fail "there is no LibTorch in $torch" \
  "DTRAIN_TORCH_DIR names the folder that has lib/libtorch_cpu.so: site-packages/torch, or the unpacked archive"

# The wheel's version.py says __version__ = '2.11.0+cu130', the archive's build-version 2.11.0+cu130.
version=
for file in "$torch/version.py" "$torch/build-version"; do
  if [ -z "$version" ] && [ -r "$file" ]; then
    while IFS= read -r line; do
      case $line in
        "__version__ = "*) version=${line#*\'} && break ;;
        [0-9]*) version=$line && break ;;
      esac
    done <"$file"
  fi
done
case $version in
  "$needed".* | '') ;;
  *) fail "$torch holds PyTorch ${version%\'*}; this build needs $needed" \
    "install torch==$needed.0, or set DTRAIN_TORCH_DIR to one of that version" ;;
esac

export LD_LIBRARY_PATH="$bundle/lib:$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$bundle/libexec/$name" "$@"
