#!/bin/sh
# Shows on a machine with a GPU what no other machine can: the GPU's tests, speed, memory and time to the first step beside
# PyTorch's, what a step's time goes into and how far it is from its roof, ten training steps beside PyTorch's, and how
# fast images are decoded. Needs a bundle (or a build) and python3 with torch and torchvision (and transformers, for
# text); torch.compile needs a C compiler; no network.
#
#   scripts/dev/gpu_check.sh [--out=gpu_check.json] [--parts=first,speed,text,parity,faults,families] [--device=cpu --smoke]
#
# What matters most is in the first ten minutes (--parts=first and --parts=speed), everything in forty.
# Prints one table and writes one JSON file. Exit code 1 if something that was checked is not as it should be.
# `gpu_check.sh --help` lists the options; --device=cpu --smoke tries the script itself, in a minute, without a GPU.
here=$(dirname "$(readlink -f "$0")") || exit 2
command -v python3 >/dev/null || { echo "error: there is no python3 on the PATH" >&2; exit 2; }
exec python3 "$here/gpu_check/main.py" "$@"
