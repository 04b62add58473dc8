#!/usr/bin/env python3
"""Ten steps of a command for timm's or torchvision's train.py beside the same command pasted to dtrain_main: how far the
rates, the losses and the validation losses are from each other, and timm's from its own with another memory format.

    .venv/bin/python scripts/peers/train_py_compare.py [--timm=CHECKOUT] [--torchvision=CHECKOUT] [--dtrain_main=PROGRAM]

CHECKOUT is a clone of https://github.com/huggingface/pytorch-image-models (at the tag of the installed timm) or of
https://github.com/pytorch/vision: the wheels do not have these programs. They run unchanged, in processes of their own.
The data are 36 images of noise, one batch, so that each epoch is one step in any order of the samples. Crops and flips
are off on both sides (--augment=none; torchvision's program has no flag for it, so its transforms are replaced), and
both begin with the same weights, a ResNet-18 whose residual branches contribute little, lest rounding be amplified.
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
        "--opt adamw --lr 3e-5 --warmup-epochs 2 --weight-decay 0.05 --min-lr 1e-6 --warmup-lr 1e-6",
        "--opt rmsproptf --opt-eps 0.5 --sched step --decay-epochs 2.4 --decay-rate 0.9 --lr 3e-4 --warmup-lr 1e-5 "
        "--warmup-epochs 3 --weight-decay 1e-5 --clip-grad 1.0"]
TORCHVISION = ["--lr 0.001", "--opt adamw --lr 3e-5 --lr-scheduler exponentiallr --lr-gamma 0.9 --wd 0.05",
               "--opt sgd_nesterov --lr 0.002 --lr-scheduler cosineannealinglr --lr-warmup-epochs 4 --lr-warmup-method "
               "linear --lr-warmup-decay 0.01 --label-smoothing 0.1 --wd 2e-4 --norm-weight-decay 0.0 --clip-grad-norm 1.0"]


def run_torchvision(checkout: Path, weights: str, metrics: str, arguments: list[str]) -> None:
    """In a process of its own: the program, with initial weights, whole images, and its meters' values kept in a file."""
    sys.path.insert(0, str(checkout / "references/classification"))
    import torchvision
    from safetensors.torch import load_file

    class Whole:
        def __init__(self, *_, **__):
            pass

        def __call__(self, image):
            return image

    torchvision.transforms.RandomResizedCrop = torchvision.transforms.RandomHorizontalFlip = Whole
    import train
    import utils
    make = torchvision.models.get_model

    def with_weights(*args, **kwargs):
        model = make(*args, **kwargs)
        model.load_state_dict(load_file(weights))
        return model

    values = []
    update = utils.MetricLogger.update

    def kept(self, **meters):
        values.append({name: float(value) for name, value in meters.items()})
        update(self, **meters)

    torchvision.models.get_model, utils.MetricLogger.update = with_weights, kept
    train.main(train.get_args_parser().parse_args(arguments))
    Path(metrics).write_text(json.dumps(values))


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
    run([program, *arguments, "--augment=none", "--log_interval=1", f"--run_dir={run_dir}"], "dtrain_main")
    points = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [point for point in points if "lr" in point and "loss" in point]
    return {"rate": [point["lr"] for point in steps], "loss": [point["loss"] for point in steps],
            "validation loss": [point["loss"] for point in points if "loss" in point and "lr" not in point]}


def of_timm(checkout: Path, arguments: list, output: Path) -> dict:
    run([sys.executable, checkout / "train.py", *arguments, *"--scale 1 1 --ratio 1 1 --hflip 0".split(),
         "--checkpoint-hist", "1", "--output", output], "timm's train.py")
    rows = list(csv.DictReader(next(output.glob("*/summary.csv")).open()))
    keys = {"rate": "lr", "loss": "train_loss", "validation loss": "eval_loss"}
    return {name: [float(row[key]) for row in rows] for name, key in keys.items()}


def of_torchvision(checkout: Path, arguments: list, folder: Path) -> dict:
    run([sys.executable, __file__, f"--torchvision={checkout}", "--own_process", folder.parent / "weights.safetensors",
         f"{folder}.json", *arguments], "torchvision's train.py")
    values = json.loads(Path(f"{folder}.json").read_text())
    steps = [value for value in values if "lr" in value]
    return {"rate": [step["lr"] for step in steps], "loss": [step["loss"] for step in steps],
            "validation loss": [value["loss"] for value in values if "lr" not in value]}


def distance(found: dict, expected: dict) -> str:
    texts = []
    for name, values in expected.items():
        if len(found[name]) != len(values) or name != "validation loss" and len(values) != STEPS:
            sys.exit(f"{name}: {len(found[name])} values beside {len(values)}")
        texts.append(f"{name} {max(abs(a - b) / abs(b) for a, b in zip(found[name], values)):.1e}")
    return ", ".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm", type=Path)
    parser.add_argument("--torchvision", type=Path)
    parser.add_argument("--dtrain_main", default=ROOT / "build/release/bin/dtrain_main")
    parser.add_argument("--own_process", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.own_process:
        weights, metrics, *arguments = args.own_process
        run_torchvision(args.torchvision, weights, metrics, arguments)
        return
    if not args.timm and not args.torchvision:
        parser.error("name --timm=CHECKOUT, --torchvision=CHECKOUT or both")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder)
        data, weights = folder / "data", folder / "weights.safetensors"
        both = f"--device cpu --model resnet18 -b {BATCH} --workers 1 --epochs {STEPS}"
        print("greatest relative distances over ten steps:")
        for number, line in enumerate(TIMM if args.timm else []):
            words = (f"--data-dir {data} {both} --num-classes {CLASSES} --img-size {PIXELS} --crop-pct 1.0 --color-jitter 0 "
                     f"--initial-checkpoint {weights} {line}").split()
            theirs = of_timm(args.timm, words, folder / f"timm{number}")
            own = of_timm(args.timm, [*words, "--channels-last"], folder / f"timm{number}_channels_last")
            print(f"timm {line}\n    {distance(of_dtrain(args.dtrain_main, words, folder / f'run{number}'), theirs)}"
                  f"\n    timm from itself: {distance(own, theirs)}", flush=True)
        for number, line in enumerate(TORCHVISION if args.torchvision else []):
            words = (f"--data-path {data} {both} --train-crop-size {PIXELS} --val-crop-size {PIXELS} --val-resize-size {PIXELS} "
                     f"--print-freq 1 {line}").split()
            theirs = of_torchvision(args.torchvision, [*words, "--output-dir", str(folder / f"out{number}")], folder / f"tv{number}")
            ours = of_dtrain(args.dtrain_main, [*words, f"--init_weights={weights}"], folder / f"tv_run{number}")
            print(f"torchvision {line}\n    {distance(ours, theirs)}", flush=True)


if __name__ == "__main__":
    main()
