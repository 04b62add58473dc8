#!/usr/bin/env python3
"""Ten steps of commands for timm's train.py beside the same commands pasted to dtrain_main: how far the rates, the losses
and the validation losses are from each other, and timm's from its own with another memory format.

    .venv/bin/python scripts/peers/train_py_compare.py --timm=CHECKOUT [--dtrain_main=PROGRAM]

CHECKOUT is a clone of https://github.com/huggingface/pytorch-image-models at the tag of the installed timm, whose wheel
does not have the program. It runs unchanged. The data are 36 images of noise, one batch, so that each epoch is one step in
any order of the samples. Crops are whole images that are not mirrored, and both begin with the same weights, a ResNet-18
whose residual branches contribute little, lest rounding be amplified. With --model-ema the validations are the average's.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CLASSES, IMAGES_OF_CLASS, PIXELS, STEPS = 6, 6, 64, 10
BATCH = CLASSES * IMAGES_OF_CLASS
TIMM = ["--lr-base 0.005", "--opt momentum --lr 0.001 --warmup-epochs 3 --weight-decay 1e-4",
        "--lr 0.001 --model-ema --model-ema-decay 0.8", "--lr 0.001 --model-ema --model-ema-warmup",
        "--opt adamw --lr 3e-5 --warmup-epochs 2 --weight-decay 0.05 --min-lr 1e-6 --warmup-lr 1e-6",
        "--opt rmsproptf --opt-eps 0.5 --sched step --decay-epochs 2.4 --decay-rate 0.9 --lr 3e-4 --warmup-lr 1e-5 "
        "--warmup-epochs 3 --weight-decay 1e-5 --clip-grad 1.0"]


def make_data(folder: Path) -> None:
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import save_file
    generator = np.random.default_rng(5)
    for split, number in (("train", IMAGES_OF_CLASS), ("val", 2)):
        for index in range(CLASSES * number):
            path = folder / "data" / split / f"class{index % CLASSES}" / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(generator.integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)).save(path)
    torch.manual_seed(3)
    model = torchvision.models.resnet18(num_classes=CLASSES)
    for name, module in model.named_modules():
        if name.endswith(".bn2"):
            module.weight.data *= 0.05
    save_file(model.state_dict(), folder / "weights.safetensors")


def run(command: list, what: str) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{what} ended with {done.returncode}: {done.stderr[-2000:]}")


def of_dtrain(program: str, arguments: list, run_dir: Path) -> dict:
    run([program, *arguments, "--log_interval=1", f"--run_dir={run_dir}"], "dtrain_main")
    points = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [point for point in points if "lr" in point and "loss" in point]
    return {"rate": [point["lr"] for point in steps], "loss": [point["loss"] for point in steps],
            "validation loss": [point.get("ema_loss", point["loss"]) for point in points if "loss" in point and "lr" not in point]}


def of_timm(checkout: Path, arguments: list, output: Path) -> dict:
    run([sys.executable, checkout / "train.py", *arguments, "--checkpoint-hist", "1", "--output", output], "timm's train.py")
    rows = list(csv.DictReader(next(output.glob("*/summary.csv")).open()))
    keys = {"rate": "lr", "loss": "train_loss", "validation loss": "eval_loss"}
    return {name: [float(row[key]) for row in rows] for name, key in keys.items()}


def distance(found: dict, expected: dict) -> str:
    texts = []
    for name, values in expected.items():
        if len(found[name]) != len(values) or name != "validation loss" and len(values) != STEPS:
            sys.exit(f"{name}: {len(found[name])} values beside {len(values)}")
        texts.append(f"{name} {max(abs(a - b) / abs(b) for a, b in zip(found[name], values)):.1e}")
    return ", ".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm", type=Path, required=True)
    parser.add_argument("--dtrain_main", default=ROOT / "build/release/bin/dtrain_main")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder)
        print("greatest relative distances over ten steps:")
        for number, line in enumerate(TIMM):
            words = (f"--data-dir {folder / 'data'} --initial-checkpoint {folder / 'weights.safetensors'} --device cpu "
                     f"--model resnet18 --num-classes {CLASSES} -b {BATCH} --workers 1 --epochs {STEPS} --img-size {PIXELS} "
                     f"--crop-pct 1.0 --color-jitter 0 --scale 1 1 --ratio 1 1 --hflip 0 {line}").split()
            theirs = of_timm(args.timm, words, folder / f"timm{number}")
            own = of_timm(args.timm, [*words, "--channels-last"], folder / f"timm{number}_channels_last")
            ours = of_dtrain(args.dtrain_main, words, folder / f"run{number}")
            print(f"timm {line}\n    {distance(ours, theirs)}\n    timm from itself: {distance(own, theirs)}", flush=True)


if __name__ == "__main__":
    main()
