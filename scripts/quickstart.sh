#!/usr/bin/env bash
# From a clone to a trained network: installs what is missing, builds, and trains a ResNet-50 on 4,000 handwritten
# digits (CPU is enough). The last line is the result on the 1,000 digits kept apart: val_top1=96.… (percent).
#
#   scripts/quickstart.sh [--torch=DIR] [DTRAIN_MAIN-FLAGS…]      e.g. scripts/quickstart.sh --epochs=1
#
# --torch=DIR names an existing LibTorch (scripts/setup.sh --help). All else goes to dtrain_main, after the recipe
# scripts/recipes/resnet50_digits.flags, whose flags it overrides.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

setup_options=()
train_options=()
for argument in "$@"; do
  case $argument in
    --torch=pypi) setup_options+=("$argument") ;;
    --torch=*) setup_options+=("--torch=$(realpath -m "${argument#--torch=}")") ;;
    -h | --help) usage "$0"; exit 0 ;;
    *) train_options+=("$argument") ;;
  esac
done

say "1 of 4: setup"
"$root/scripts/setup.sh" "${setup_options[@]}"
say "2 of 4: build (the trainer only)"
"$root/scripts/build.sh" --target=dtrain_main
say "3 of 4: data"
"$venv/bin/python" "$root/scripts/prepare_digits.py"
say "4 of 4: training (prepared in $(elapsed $SECONDS))"
exec "$root/build/release/bin/dtrain_main" --flagfile="$root/scripts/recipes/resnet50_digits.flags" --data_dir="$root/demo/digits" \
  --run_dir="$root/runs/quickstart-$(date +%Y%m%d-%H%M%S)" "${train_options[@]}"
