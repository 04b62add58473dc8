# shellcheck shell=bash
# shellcheck disable=SC2034  # the variables are read by the scripts that source this
# Sourced by the scripts beside it: paths, which CMake and which LibTorch to use, and how to print messages and fail. It
# is kept in one place so that every script uses a LibTorch named once (setup.sh --torch=DIR).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
torch_version=2.11.0
cmake_needed=3.25
driver_needed=580  # NVIDIA's first for CUDA 13, for which PyPI's LibTorch is built
if [ -n "${DTRAIN_TORCH_DIR:-}" ]; then DTRAIN_TORCH_DIR=$(realpath -m "$DTRAIN_TORCH_DIR"); fi

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 2; }

# usage SCRIPT: prints its opening comment.
usage() { sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$1"; }

# preset_and_folder ARGUMENT…: sets preset and target (empty if none is named), for scripts that make a folder from a
# build.
preset_and_folder() {
  preset=release target=
  local argument script=$0
  for argument in "$@"; do
    case $argument in
      --preset=?*) preset=${argument#--preset=} ;;
      -h | --help) usage "$script"; exit 0 ;;
      -*) fail "${script##*/} does not know '$argument'. It takes --preset= and a folder." ;;
      *) target=$argument ;;
    esac
  done
}

# elapsed SECONDS → "3 min 12 s"
elapsed() {
  if [ "$1" -ge 60 ]; then printf '%d min %d s' $(($1 / 60)) $(($1 % 60)); else printf '%d s' "$1"; fi
}

# version_at_least HAVE NEED
version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# cmake_tool cmake|ctest: prints the distribution's tool, or the one that setup.sh put into .venv if that is too old.
cmake_tool() {
  if [ -x "$venv/bin/$1" ]; then printf '%s\n' "$venv/bin/$1"; else printf '%s\n' "$1"; fi
}

# Prints the folder of an existing LibTorch that the user named, now or in an earlier setup.sh, or nothing for the one
# in .venv.
named_torch_dir() {
  if [ -n "${DTRAIN_TORCH_DIR:-}" ]; then
    printf '%s\n' "$DTRAIN_TORCH_DIR"
  elif [ -f "$venv/torch_dir" ]; then
    cat "$venv/torch_dir"
  fi
}

# Prints the library of NVIDIA's driver, which programs of CUDA open, or nothing. WSL2 has it in a folder of its own.
driver_library() {
  local folders folder
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}:/usr/lib/wsl/lib"
  for folder in "${folders[@]}"; do
    if [ -n "$folder" ] && [ -e "$folder/libcuda.so.1" ]; then printf '%s\n' "$folder/libcuda.so.1" && return; fi
  done
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk '$1 == "libcuda.so.1" && !found++ {print $NF}' || true
}

# driver_version LIBRARY: prints the driver's version, which the library is named after, or nothing, as in WSL2.
driver_version() { realpath "$1" 2>/dev/null | sed -n 's/.*\.so\.\([0-9]*\.[0-9.]*\)$/\1/p'; }

# Succeeds if the machine has nvcc, which is then the compiler for GPUs.
has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; }

# Succeeds if LibTorch should have CUDA: DTRAIN_CUDA=ON|OFF decides; if it is not set, a machine with nvcc, or with
# NVIDIA's driver in a version that is new enough, gets CUDA.
wants_cuda() {
  case "${DTRAIN_CUDA:-auto}" in
    ON | on | 1) return 0 ;;
    OFF | off | 0) return 1 ;;
  esac
  if has_nvcc; then return 0; fi
  local driver version
  driver=$(driver_library)
  version=$(driver_version "$driver")
  [ -n "$driver" ] && version_at_least "${version:-$driver_needed}" "$driver_needed"
}
