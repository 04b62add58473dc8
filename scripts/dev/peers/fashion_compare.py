#!/usr/bin/env python3
"""Trains the recipe of Fashion-MNIST here and in PyTorch, with the same settings: the accuracies of some seeds.

    .venv/bin/python scripts/prepare_fashion.py
    .venv/bin/python scripts/dev/peers/fashion_compare.py [--seeds=3] [--first_seed=0] [--epochs=6] [--output=FOLDER]

PyTorch trains torchvision's resnet18 on the same pictures, mirrored at random, with torch.optim.SGD; its settings are
read from scripts/recipes/resnet18_fashion.flags. What is drawn at random is each one's own. Needs scripts/build.sh and
scripts/setup.sh --tests.
"""

import argparse
import json
import math
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RECIPE = ROOT / "scripts" / "recipes" / "resnet18_fashion.flags"
PROGRAM = ROOT / "build" / "release" / "bin" / "dtrain_main"
DATA = ROOT / "demo" / "fashion"


def settings() -> dict[str, str]:
    lines = [line for line in RECIPE.read_text(encoding="utf-8").splitlines() if line.startswith("--")]
    return dict((line[2:].split("=") + ["true"])[:2] for line in lines)


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """The factor of step 0, 1, …: a linear warmup, then half a cosine."""
    if step < warmup:
        return step / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


def train_torch(seed: int, epochs: int) -> float:
    """Returns top-1 in percent."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import prepare_fashion
    import torch
    import torchvision

    torch.manual_seed(seed)
    recipe = settings()
    batch_size = int(recipe["batch_size"])
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def tensors(split: str) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = [picture for picture in pictures if picture.split == split]
        pixels = torch.frombuffer(bytearray(b"".join(picture.pixels for picture in chosen)), dtype=torch.uint8)
        labels = [classes.index(picture.label) for picture in chosen]
        return pixels.view(-1, 1, 28, 28), torch.tensor(labels)

    def normalised(pixels: torch.Tensor) -> torch.Tensor:
        return ((pixels / 255 - mean) / std).to(memory_format=torch.channels_last)

    pictures, classes = prepare_fashion.read_fashion(), sorted(prepare_fashion.CLASSES)
    images, labels = tensors("train")
    model = torchvision.models.resnet18(num_classes=10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=float(recipe["momentum"]), nesterov=True,
                                weight_decay=float(recipe["weight_decay"]))
    in_epoch = len(images) // batch_size
    steps, warmup = in_epoch * epochs, round(in_epoch * float(recipe["warmup_epochs"]))
    for step in range(steps):
        if step % in_epoch == 0:
            order = torch.randperm(len(images))
        chosen = order[step % in_epoch * batch_size:][:batch_size]
        mirrored = torch.rand(len(chosen), 1, 1, 1) < 0.5
        batch = torch.where(mirrored, images[chosen].flip(3), images[chosen])
        loss = torch.nn.functional.cross_entropy(model(normalised(batch)), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = float(recipe["lr"]) * rate_factor(step, steps, warmup)
        optimizer.step()
        if (step + 1) % in_epoch == 0:
            print(f"    epoch {(step + 1) // in_epoch} of {epochs}, loss {loss.item():.4f}", file=sys.stderr, flush=True)
    images, labels = tensors("val")
    model.eval()
    with torch.no_grad():
        right = sum(int((model(normalised(batch)).argmax(1) == truth).sum())
                    for batch, truth in zip(images.split(500), labels.split(500)))
    return 100 * right / len(labels)


def train_dtrain(program: Path, seed: int, epochs: int, output: Path) -> float:
    run = output / f"seed{seed}"
    subprocess.run([program, f"--flagfile={RECIPE}", f"--data_dir={DATA}", f"--run_dir={run}", f"--seed={seed}",
                    f"--epochs={epochs}"], check=True, stdout=subprocess.DEVNULL)
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [line["top1"] for line in lines if line["kind"] == "val"][-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=int(settings()["epochs"]))
    parser.add_argument("--output", type=Path, help="keeps the runs")
    parser.add_argument("--dtrain_main", type=Path, default=PROGRAM)
    parser.add_argument("--torch_seed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch_seed is not None:
        print(train_torch(arguments.torch_seed, arguments.epochs))
        return
    found: dict[str, list[float]] = {"dtrain": [], "PyTorch": []}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            found["dtrain"].append(
                train_dtrain(arguments.dtrain_main, seed, arguments.epochs, arguments.output or Path(temporary)))
            command = [sys.executable, __file__, f"--torch_seed={seed}", f"--epochs={arguments.epochs}"]
            found["PyTorch"].append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
            print(f"seed {seed}: dtrain {found['dtrain'][-1]:.2f}, PyTorch {found['PyTorch'][-1]:.2f} % top-1", flush=True)
    for name, values in found.items():
        print(f"{name}: {statistics.mean(values):.2f} % on average of {shlex.join(f'{value:.2f}' for value in values)}")


if __name__ == "__main__":
    main()
