#!/bin/sh
# Shows on a machine with a GPU what no other machine can: the GPU's tests, ten training steps beside PyTorch's, how fast
# images are decoded, speed, memory and time to the first step beside PyTorch's, and what a step's time goes into. Needs
# a bundle (or a build) and python3 with torch and torchvision (and transformers, for text); no compiler, no network.
#
#   scripts/gpu_check.sh [--out=gpu_check.json] [--parts=first,parity,speed,text,decode,faults] [--device=cpu --smoke]
#
# Prints one table and writes one JSON file. Exit code 1 if something that was checked is not as it should be.
# `gpu_check.sh --help` lists the options; --device=cpu --smoke tries the script itself, in a minute, without a GPU.
here=$(dirname "$(readlink -f "$0")") || exit 2
command -v python3 >/dev/null || { echo "error: there is no python3 on the PATH" >&2; exit 2; }
exec python3 "$here/gpu_check/main.py" "$@"
